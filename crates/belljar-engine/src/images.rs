//! The images of sandboxes for commands, which build, list, inspect and remove them in any engine.
//!
//! It depends on no particular kind of engine.

use std::collections::HashMap;

use futures_util::future::{BoxFuture, ready};

use super::error::EngineError;
use crate::recipe::BuildFiles;

/// The images of one engine.
pub trait ImageStore: Send + Sync {
    /// The place of the images.
    fn place(&self) -> &str;

    /// The name of the store, for people.
    ///
    /// # Errors
    /// The engine does not report it.
    fn kind(&self) -> BoxFuture<'_, Result<String, EngineError>>;

    /// The base of every image in this store, such as the machine's Python; `None`: each image is built on another
    /// image.
    ///
    /// # Errors
    /// The base is missing.
    fn base(&self) -> BoxFuture<'_, Result<Option<String>, EngineError>>;

    /// The first of these images that exists, by name.
    ///
    /// # Errors
    /// [`EngineError::ImageMissing`] if none of them exists.
    fn image<'a>(&'a self, names: &'a [String]) -> BoxFuture<'a, Result<String, EngineError>>;

    /// The facts about an image; `None`: there is no image of that name.
    ///
    /// # Errors
    /// The request failed, or the image cannot be read.
    fn about_image<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<ImageInfo>, EngineError>>;

    /// The names of the images with this label.
    ///
    /// # Errors
    /// The request failed.
    fn images_with<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<String>, EngineError>>;

    /// Removes a name of an image, and the image itself if it has no other name.
    ///
    /// # Errors
    /// The request failed, for example because a sandbox uses the image.
    fn remove_image<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Builds an image. `on_progress` receives the progress as it comes.
    ///
    /// # Errors
    /// The reason why the build failed. Some engines report a failure only in a line, so the caller checks the image.
    fn build<'a>(
        &'a self,
        build: ImageBuild,
        on_progress: &'a mut OnProgress<'a>,
    ) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Fetches an image from its registry, by a reference that ends with its digest (`@sha256:` and 64 hexadecimal digits),
    /// which the engine and belljar check. `on_progress` receives the progress as it comes.
    ///
    /// # Errors
    /// The registry cannot be reached or has no such image, it has another digest, or the engine has no images of
    /// registries.
    fn pull<'a>(
        &'a self,
        _reference: &'a str,
        _on_progress: &'a mut OnProgress<'a>,
    ) -> BoxFuture<'a, Result<ImageInfo, EngineError>> {
        let message = "packages are installed for the Python of this machine, and no image is used".into();
        Box::pin(ready(Err(EngineError::Refused { action: "pull the image", message })))
    }

    /// Gives an image this name, which another image may have had.
    ///
    /// # Errors
    /// The request failed, or the engine has no images of registries.
    fn name_image<'a>(
        &'a self,
        _reference: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        let message = "no image of a registry is used".into();
        Box::pin(ready(Err(EngineError::Refused { action: "name the image", message })))
    }

    /// The lock of the packages that were added to an image, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// The request failed, or the image has no lock.
    fn lock_of<'a>(&'a self, name: &'a str, bytes_max: usize) -> BoxFuture<'a, Result<Vec<u8>, EngineError>>;
}

/// The progress of a build or pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageProgress<'p> {
    /// A line of the engine's output.
    Line(&'p str),
    /// The number of bytes that were downloaded so far. It is reported at most every two seconds.
    Downloaded(u64),
}

/// The receiver of the progress of a build or pull.
pub type OnProgress<'p> = dyn FnMut(ImageProgress<'_>) + Send + 'p;

/// The input of a build.
#[derive(Debug, Clone)]
pub struct ImageBuild {
    /// The name of the new image.
    pub name: String,
    /// The files of the build.
    pub files: BuildFiles,
    /// The arguments of the recipe.
    pub arguments: HashMap<String, String>,
    /// Labels of the image.
    pub labels: HashMap<String, String>,
    /// A label with its value for intermediate stages, by which they are found and removed.
    pub stage_label: String,
}

/// The facts about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// An identifier of its content.
    pub id: String,
    /// The image's names.
    pub names: Vec<String>,
    /// The image's labels.
    pub labels: HashMap<String, String>,
    /// Its size in bytes, including parts that it shares with other images.
    pub bytes: u64,
    /// The time when it was made, in UTC, such as `2026-01-31T12:00:00Z`.
    pub created: String,
}
