//! What sandboxes are made of, as commands see it: built, listed, looked at and removed, whichever engine has it.
//!
//! It knows no kind of engine.

use std::collections::HashMap;

use futures_util::future::BoxFuture;

use super::error::EngineError;
use crate::recipe::BuildFiles;

/// The images of one engine.
pub trait ImageStore: Send + Sync {
    /// Where they are.
    fn place(&self) -> &str;

    /// What keeps them, for people to read.
    ///
    /// # Errors
    /// When that does not say.
    fn kind(&self) -> BoxFuture<'_, Result<String, EngineError>>;

    /// What every image here is built on; `None`: an image is built on another one.
    ///
    /// # Errors
    /// When that is missing.
    fn base(&self) -> BoxFuture<'_, Result<Option<String>, EngineError>>;

    /// The first of the images that are here, by name.
    ///
    /// # Errors
    /// [`EngineError::ImageMissing`] when none of them is here.
    fn image<'a>(&'a self, names: &'a [String]) -> BoxFuture<'a, Result<String, EngineError>>;

    /// What is known of an image; nothing if none has that name.
    ///
    /// # Errors
    /// A failed request, or an image that cannot be read.
    fn about_image<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<ImageInfo>, EngineError>>;

    /// The names of the images that carry this label.
    ///
    /// # Errors
    /// A failed request.
    fn images_with<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<String>, EngineError>>;

    /// Takes a name off an image, and removes one that has no other.
    ///
    /// # Errors
    /// A failed request, as where a sandbox has it.
    fn remove_image<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Builds an image; each line that there is to say goes to `on_line` as it comes.
    ///
    /// # Errors
    /// Why the build has failed. Some engines only say it in a line: the caller looks at the image then.
    fn build<'a>(
        &'a self,
        build: ImageBuild,
        on_line: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<(), EngineError>>;

    /// The lock of what was added to an image, of at most so many bytes.
    ///
    /// # Errors
    /// A failed request, also where it has none.
    fn lock_of<'a>(&'a self, name: &'a str, bytes_max: usize) -> BoxFuture<'a, Result<Vec<u8>, EngineError>>;
}

/// The input of a build.
#[derive(Debug, Clone)]
pub struct ImageBuild {
    /// The name that it gets.
    pub name: String,
    /// The files.
    pub files: BuildFiles,
    /// Arguments of the recipe.
    pub arguments: HashMap<String, String>,
    /// Labels of the image.
    pub labels: HashMap<String, String>,
    /// The label, and its value, of stages that are not to be left behind.
    pub stage_label: String,
}

/// The facts about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// What tells its content from that of any other.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// Its labels.
    pub labels: HashMap<String, String>,
    /// Bytes, with those that it shares with others.
    pub bytes: u64,
    /// When it was made, in UTC, such as `2026-01-31T12:00:00Z`.
    pub created: String,
}
