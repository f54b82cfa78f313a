//! `belljar image pull`: fetches an image that was built elsewhere, by its digest.

use belljar_base::text;
use belljar_engine::recipe::{ImageName, OWN_IMAGE};
use belljar_engine::{EngineError, ImageInfo, ImageProgress, ImageStore};

use super::build::build;
use super::engine_images::{Images, SAID_CHARS_MAX, content, labels};
use super::show_progress::show_progress;
use crate::app::common::failure::{Failure, failed};
use crate::app::common::printing::{err, out};
use crate::app::common::progress::ProgressLine;
use crate::cli;

/// The published sandbox image of this version, with its digest. The release sets it when it builds the program.
const PUBLISHED: Option<&str> = option_env!("BELLJAR_SANDBOX_IMAGE");
/// What comes before the digest of a reference, and the number of its digits.
const DIGEST: (&str, usize) = ("@sha256:", 64);

/// Pulls the image that the user names. Without one, pulls the published image, or builds it if that is impossible.
pub(crate) async fn pull(images: &Images<'_>, arguments: cli::Pull) -> Result<(), Failure> {
    let uses_it = arguments.use_it;
    if let Some(reference) = arguments.reference {
        return pulled(images, &reference, uses_it).await;
    }
    let reason = match PUBLISHED {
        None => "this build of belljar names no published image".to_owned(),
        Some(reference) => match pulled(images, reference, uses_it).await {
            Ok(()) => return Ok(()),
            Err(Failure::Usage(reason) | Failure::Failed(reason)) => reason,
        },
    };
    err!("belljar: {reason}; so the image is built on this machine, as by `belljar image build`");
    build(images, cli::Build { use_it: uses_it, ..cli::Build::default() }).await
}

async fn pulled(images: &Images<'_>, reference: &str, uses_it: bool) -> Result<(), Failure> {
    let shown = text::inert_excerpt(reference, SAID_CHARS_MAX);
    let is_exact = reference.split_once(DIGEST.0).is_some_and(|(name, digits)| {
        !name.is_empty() && digits.len() == DIGEST.1 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if !is_exact {
        return Err(Failure::Usage(format!(
            "{shown}: the reference must end with the image's digest, {} and {} hexadecimal digits, so that no other image is \
             used; `podman push` and `docker push` print it",
            DIGEST.0, DIGEST.1
        )));
    }
    let store = images.store().await?;
    let was_there = store.about_image(reference).await.map_err(failed)?.is_some();
    err!("belljar: pulling {shown}");
    let progress_line = ProgressLine::new(&format!("pulling {shown}"));
    let mut on_progress = |progress: ImageProgress<'_>| {
        show_progress(progress, &progress_line, SAID_CHARS_MAX);
    };
    let about = store.pull(reference, &mut on_progress).await.map_err(|error| not_pulled(&error))?;
    drop(progress_line);
    let placed = placed(images, &*store, reference, &about, uses_it).await;
    // The image has a name of belljar's now, or none of belljar's business.
    if !was_there && let Err(error) = store.remove_image(reference).await {
        tracing::warn!(%error, "the reference of the pulled image stays");
    }
    let name = placed?;
    let known_as = name.as_ref().map_or_else(|| OWN_IMAGE.to_owned(), ImageName::reference);
    out!("pulled {known_as}, {} MB", about.bytes / 1_000_000);
    match name {
        name if uses_it => images.put_to_use(name.map(|name| name.reference()).as_deref()),
        Some(name) if images.config.image.as_ref() != Some(&known_as) => {
            out!("`belljar image use {name}` has sandboxes made of it");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn not_pulled(error: &EngineError) -> Failure {
    Failure::Failed(text::inert_line(&format!("the image was not pulled: {error}")))
}

/// Gives the pulled image the name that it was built with; `None`: it is belljar's own image.
async fn placed(
    images: &Images<'_>,
    store: &dyn ImageStore,
    reference: &str,
    about: &ImageInfo,
    uses_it: bool,
) -> Result<Option<ImageName>, Failure> {
    let label = |name: &str| about.labels.get(name).map(String::as_str);
    let name = match (label(labels::IMAGE).map(ImageName::new), label(labels::CONTENT)) {
        (Some(Ok(name)), _) => Some(name),
        (None, Some(made_for)) if made_for == content() => None,
        (None, Some(made_for)) => {
            let made_for = text::inert_line(made_for);
            return Err(Failure::Failed(format!("the image is of {made_for}, and this is {}", content())));
        }
        _ => {
            return Err(Failure::Failed(
                "the image is not one that belljar has built; to use any image with python3, set sandbox.image".into(),
            ));
        }
    };
    let known_as = name.as_ref().map_or_else(|| OWN_IMAGE.to_owned(), ImageName::reference);
    let before = store.about_image(&known_as).await.map_err(failed)?;
    // Any image can have labels of belljar's. The published one of this version is meant to replace an older one.
    let is_meant = uses_it || (name.is_none() && PUBLISHED == Some(reference));
    if !is_meant && before.as_ref().is_some_and(|before| before.id != about.id) {
        let remedy = "--use replaces that one and uses the new one";
        return Err(Failure::Failed(match &name {
            None => format!("belljar's own image is another one; {remedy}"),
            Some(name) => format!(
                "another image has its name, {name}; {remedy}, or remove it first: `belljar image rm {name}`"
            ),
        }));
    }
    store.name_image(reference, &known_as).await.map_err(failed)?;
    images.remove_replaced(store, before, &about.id).await?;
    Ok(name)
}
