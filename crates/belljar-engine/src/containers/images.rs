//! Images of a container engine: builds them from files in memory, lists, inspects and removes them. It does not choose
//! their names.
//!
//! Nothing is pushed. The engine itself pulls an image, or a missing base image in a build.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::models::{ContainerCreateBody, ImageInspect};
use bollard::query_parameters::{
    BuildImageOptionsBuilder, CreateContainerOptions, CreateImageOptionsBuilder,
    DownloadFromContainerOptionsBuilder, ListImagesOptionsBuilder, PruneImagesOptionsBuilder,
    RemoveImageOptionsBuilder, TagImageOptionsBuilder,
};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, ready};

use super::super::error::{EngineError, is_not_found, is_removed_meanwhile};
use super::super::images::{ImageBuild, ImageInfo, ImageProgress, ImageStore, OnProgress};
use super::super::interface::Engine;
use super::container::remove;
use super::find::ContainerEngine;
use crate::recipe::{BuildFiles, file_of_archive};

/// Longest line of a build, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The shortest time between two reports of a download's progress.
const PROGRESS: Duration = Duration::from_secs(2);
/// The longest time for an operation on the engine's image store.
const STORE: Duration = Duration::from_secs(60);
/// How often the images are listed at most, if some are removed meanwhile.
const LISTS_MAX: usize = 5;
/// The pause between two lists.
const LIST_AGAIN: Duration = Duration::from_millis(100);

impl ImageStore for ContainerEngine {
    fn place(&self) -> &str {
        &self.address
    }

    fn kind(&self) -> BoxFuture<'_, Result<String, EngineError>> {
        Box::pin(async { Ok(self.about().await?.name) })
    }

    fn base(&self) -> BoxFuture<'_, Result<Option<String>, EngineError>> {
        Box::pin(ready(Ok(None)))
    }

    fn image<'a>(&'a self, names: &'a [String]) -> BoxFuture<'a, Result<String, EngineError>> {
        Box::pin(async move {
            for name in names {
                if self.inspect_image(name).await?.is_some() {
                    return Ok(name.clone());
                }
            }
            Err(EngineError::ImageMissing { names: names.to_vec() })
        })
    }

    fn about_image<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<ImageInfo>, EngineError>> {
        Box::pin(self.inspect_image(name))
    }

    fn images_with<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<String>, EngineError>> {
        Box::pin(self.list_images(label))
    }

    fn remove_image<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(self.delete_image(name))
    }

    fn build<'a>(
        &'a self,
        build: ImageBuild,
        on_progress: &'a mut OnProgress<'a>,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(self.build_image(build, on_progress))
    }

    fn pull<'a>(
        &'a self,
        reference: &'a str,
        on_progress: &'a mut OnProgress<'a>,
    ) -> BoxFuture<'a, Result<ImageInfo, EngineError>> {
        Box::pin(self.pull_image(reference, on_progress))
    }

    fn name_image<'a>(&'a self, reference: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let (repo, tag) = name.rsplit_once(':').unwrap_or((name, "latest"));
            let options = TagImageOptionsBuilder::default().repo(repo).tag(tag).build();
            let named = self.docker.tag_image(reference, Some(options)).await;
            named.map_err(|error| EngineError::request("name the image", &error))
        })
    }

    fn lock_of<'a>(&'a self, name: &'a str, bytes_max: usize) -> BoxFuture<'a, Result<Vec<u8>, EngineError>> {
        Box::pin(async move {
            let action = "read the lock of the image";
            // An archive is larger than the file in it.
            let archive = self.file_of_image(name, BuildFiles::LOCK, 2 * bytes_max).await?;
            file_of_archive(&archive, bytes_max)
                .map_err(|error| EngineError::Refused { action, message: error.to_string() })
        })
    }
}

impl ContainerEngine {
    async fn build_image(
        &self,
        build: ImageBuild,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<(), EngineError> {
        let action = "build the image";
        let archive = build.files.archive();
        let archive = archive.map_err(|error| EngineError::Refused { action, message: error.to_string() })?;
        let options = BuildImageOptionsBuilder::default()
            .dockerfile(BuildFiles::RECIPE)
            .t(&build.name)
            // An earlier resolution of packages must not be reused for ever.
            .nocache(true)
            .rm(true)
            .forcerm(true)
            // The host's network, for engines without a bridge network.
            .networkmode("host")
            .buildargs(&build.arguments)
            .labels(&build.labels)
            .build();
        let mut said =
            std::pin::pin!(self.docker.build_image(options, None, Some(bollard::body_full(archive.into())),));
        let mut outcome = Ok(());
        let (mut pending, mut downloads) = (String::new(), Downloads::default());
        while let Some(next) = said.next().await {
            match next {
                Ok(info) => {
                    pending.push_str(&info.stream.unwrap_or_default());
                    let bytes = info.progress_detail.and_then(|detail| detail.current);
                    if let (Some("Downloading"), Some(bytes)) = (info.status.as_deref(), bytes) {
                        downloads.note(&info.id.unwrap_or_default(), bytes, on_progress);
                    } else if let (Some(status), None) = (info.status, bytes) {
                        pending.push_str(&status);
                        pending.push('\n');
                    }
                    lines(&mut pending, on_progress);
                }
                Err(error) => outcome = Err(EngineError::request(action, &error)),
            }
        }
        pending.push('\n');
        lines(&mut pending, on_progress);
        let stages = HashMap::from([("dangling", vec!["true"]), ("label", vec![build.stage_label.as_str()])]);
        let options = PruneImagesOptionsBuilder::default().filters(&stages).build();
        if let Err(error) = self.docker.prune_images(Some(options)).await {
            tracing::warn!(%error, "stages of the build stay behind");
        }
        outcome
    }

    async fn pull_image(
        &self,
        reference: &str,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<ImageInfo, EngineError> {
        let action = "pull the image";
        let refused = |message: String| EngineError::Refused { action, message };
        let (_, digest) = reference.split_once('@').ok_or_else(|| refused("it has no digest".into()))?;
        let options = CreateImageOptionsBuilder::default().from_image(reference).build();
        let mut steps = std::pin::pin!(self.docker.create_image(Some(options), None, None));
        // The last step of each layer, so that a step is passed on once, without its progress.
        let mut layers = HashMap::new();
        let mut downloads = Downloads::default();
        while let Some(step) = steps.next().await {
            let step = step.map_err(|error| EngineError::request(action, &error))?;
            if let Some(message) = step.error_detail.and_then(|detail| detail.message) {
                return Err(refused(message));
            }
            let (layer, status) = (step.id.unwrap_or_default(), step.status.unwrap_or_default());
            let bytes = step.progress_detail.and_then(|detail| detail.current);
            if status == "Downloading" {
                downloads.note(&layer, bytes.unwrap_or_default(), on_progress);
            }
            if layers.insert(layer.clone(), status.clone()).as_ref() != Some(&status) && bytes.is_none() {
                on_progress(ImageProgress::Line(format!("{layer} {status}").trim()));
            }
        }
        let inspected = self.docker.inspect_image(reference).await;
        let inspected = inspected.map_err(|error| EngineError::request(action, &error))?;
        let digests = inspected.repo_digests.clone().unwrap_or_default();
        if !digests.iter().any(|known| known.split_once('@').is_some_and(|(_, known)| known == digest)) {
            return Err(refused(format!("it has another digest than {digest}: {}", digests.join(", "))));
        }
        Ok(info(inspected))
    }

    /// The engine's description of an image; `None`: there is no image of that name.
    pub(super) async fn inspect_image(&self, name: &str) -> Result<Option<ImageInfo>, EngineError> {
        match self.docker.inspect_image(name).await {
            Ok(image) => Ok(Some(info(image))),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(EngineError::request("inspect the image", &error)),
        }
    }

    async fn list_images(&self, label: &str) -> Result<Vec<String>, EngineError> {
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListImagesOptionsBuilder::default().filters(&filters).build();
        let action = "list its images";
        let list = async {
            for _ in 1..LISTS_MAX {
                match self.docker.list_images(Some(options.clone())).await {
                    Err(error) if is_removed_meanwhile(&error) => tokio::time::sleep(LIST_AGAIN).await,
                    listed => return listed,
                }
            }
            self.docker.list_images(Some(options.clone())).await
        };
        let listed = tokio::time::timeout(STORE, list)
            .await
            .map_err(|_| EngineError::Timeout { action, after: STORE })?
            .map_err(|error| EngineError::request(action, &error))?;
        let mut names: Vec<String> = listed.into_iter().flat_map(|image| image.repo_tags).collect();
        names.sort();
        Ok(names)
    }

    async fn delete_image(&self, name: &str) -> Result<(), EngineError> {
        let options = RemoveImageOptionsBuilder::default().build();
        let action = "remove the image";
        tokio::time::timeout(STORE, self.docker.remove_image(name, Some(options), None))
            .await
            .map_err(|_| EngineError::Timeout { action, after: STORE })?
            .map_err(|error| EngineError::request(action, &error))?;
        Ok(())
    }

    /// A file of an image, as a tar archive of at most `bytes_max` bytes, from a container that is never started.
    async fn file_of_image(&self, image: &str, path: &str, bytes_max: usize) -> Result<Vec<u8>, EngineError> {
        let action = "read a file of the image";
        let failed = |error: bollard::errors::Error| EngineError::request(action, &error);
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(vec!["/nothing".into()]),
            network_disabled: Some(true),
            ..ContainerCreateBody::default()
        };
        let created =
            self.docker.create_container(None::<CreateContainerOptions>, body).await.map_err(failed)?;
        let read = async {
            let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
            let mut pieces = std::pin::pin!(self.docker.download_from_container(&created.id, Some(options)));
            let mut archive = Vec::new();
            while let Some(piece) = pieces.next().await {
                archive.extend_from_slice(&piece.map_err(failed)?);
                if archive.len() > bytes_max {
                    let message = format!("{path} is larger than {bytes_max} bytes");
                    return Err(EngineError::Refused { action, message });
                }
            }
            Ok(archive)
        };
        let archive = tokio::time::timeout(STORE, read).await;
        remove(&self.docker, &created.id)
            .await
            .map_err(|error| EngineError::request("remove a container", &error))?;
        archive.map_err(|_| EngineError::Timeout { action, after: STORE })?
    }
}

fn info(image: ImageInspect) -> ImageInfo {
    ImageInfo {
        id: image.id.unwrap_or_default(),
        names: image.repo_tags.unwrap_or_default(),
        labels: image.config.and_then(|config| config.labels).unwrap_or_default(),
        bytes: image.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
        created: image.created.map(|created| created.to_string()).unwrap_or_default(),
    }
}

/// The bytes of each layer so far, which are reported at most every two seconds.
#[derive(Default)]
struct Downloads {
    bytes: HashMap<String, i64>,
    reported: Option<Instant>,
}

impl Downloads {
    fn note(&mut self, layer: &str, bytes: i64, on_progress: &mut OnProgress<'_>) {
        self.bytes.insert(layer.to_owned(), bytes);
        if self.reported.is_none_or(|reported| reported.elapsed() >= PROGRESS) {
            self.reported = Some(Instant::now());
            let bytes = self.bytes.values().sum::<i64>();
            on_progress(ImageProgress::Downloaded(u64::try_from(bytes).unwrap_or_default()));
        }
    }
}

/// Passes on the complete lines of the output so far. A line that gets too long is cut.
fn lines(pending: &mut String, on_progress: &mut OnProgress<'_>) {
    if pending.len() > LINE_BYTES_MAX {
        pending.push('\n');
    }
    let Some(end) = pending.rfind('\n') else { return };
    // Docker writes stderr in red.
    let whole = pending[..end].replace("\u{1b}[91m", "").replace("\u{1b}[0m", "");
    whole
        .lines()
        .filter(|line| !line.trim().is_empty())
        .for_each(|line| on_progress(ImageProgress::Line(line)));
    pending.drain(..=end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_plain_however_they_are_sent() {
        let (mut pending, mut said) = (String::new(), Vec::new());
        for piece in ["one\ntw", "o\n\n\u{1b}[91mERROR: ", "three\n\u{1b}[0m", "fo", "ur\n"] {
            pending.push_str(piece);
            lines(&mut pending, &mut |line| said.push(format!("{line:?}")));
        }
        assert_eq!(said, ["one", "two", "ERROR: three", "four"].map(|line| format!("Line({line:?})")));
        pending.push_str(&"x".repeat(LINE_BYTES_MAX + 1));
        lines(&mut pending, &mut |line| said.push(format!("{line:?}")));
        assert_eq!((said.len(), pending.len()), (5, 0));
    }
}
