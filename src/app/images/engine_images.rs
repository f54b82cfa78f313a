//! The images of sandboxes: listed, chosen and removed by the user.
//!
//! `build` knows how an image is built.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::text::{self, suggest};
use belljar_engine::recipe::{ImageName, OWN_IMAGE};
use belljar_engine::{EngineError, ImageInfo, ImageStore, find_images};
use belljar_guard::Mark;
use serde_json::json;

use crate::app::common::failure::{Failure, failed};
use crate::app::common::printing::{out, row};
use crate::app::wiring;
use crate::config::{Config, Environment, set_image};

/// The longest message of an engine or file in one line, in characters.
pub(crate) const SAID_CHARS_MAX: usize = 300;

/// The labels of images, which describe their content.
pub(super) mod labels {
    /// The image's name for the user.
    pub(crate) const IMAGE: &str = "org.belljar.image";
    /// The base image.
    pub(crate) const BASE: &str = "org.belljar.base";
    /// The requested packages, separated by spaces.
    pub(crate) const WITH: &str = "org.belljar.with";
    /// The languages, separated by spaces.
    pub(crate) const LANGUAGES: &str = "org.belljar.languages";
    /// An identifier of the default packages, on every image that has them.
    pub(crate) const CONTENT: &str = "org.belljar.content";
    /// An identifier of the build.
    pub(crate) const BUILD: &str = "org.belljar.build";
    /// The label of the intermediate stage that a build leaves behind, with its value.
    pub(crate) const STAGE: &str = "org.belljar.stage=packages";
}

/// The configuration and the environment that all commands on images use.
pub(super) struct Images<'c> {
    pub(crate) config: &'c Config,
    pub(crate) environment: &'c Environment,
}

impl Images<'_> {
    /// The image store of the engine that sandboxes run on.
    pub(crate) async fn store(&self) -> Result<Arc<dyn ImageStore>, Failure> {
        let locations = wiring::locations(self.config, Some(Mark::new()));
        find_images(&locations, &self.config.lock_dir)
            .await
            .map_err(|error| Failure::Failed(text::inert_line(&format!("{error}; {}", error.hint()))))
    }

    /// The folder of the locks.
    pub(super) fn locks(&self) -> Result<PathBuf, Failure> {
        let home = self.environment.config_home();
        let home =
            home.ok_or_else(|| Failure::Failed("no home folder is known to keep locks in; set HOME".into()))?;
        Ok(home.join("belljar/images"))
    }

    /// The facts about an image that belljar has built; `None`: there is no such image.
    pub(crate) async fn about(
        &self,
        store: &dyn ImageStore,
        name: &ImageName,
    ) -> Result<Option<ImageInfo>, Failure> {
        let about = store.about_image(&name.reference()).await.map_err(failed)?;
        Ok(about.filter(|about| about.labels.get(labels::IMAGE).is_some_and(|label| label == name.as_str())))
    }

    /// Removes the image that had a name before, if it is belljar's and has no other name, which the user may have given it.
    /// If a sandbox uses it, it stays until it is pruned.
    pub(super) async fn remove_replaced(
        &self,
        store: &dyn ImageStore,
        before: Option<ImageInfo>,
        now: &str,
    ) -> Result<(), Failure> {
        let before = match before.filter(|before| before.id != now) {
            Some(before) => store.about_image(&before.id).await.map_err(failed)?,
            None => None,
        };
        let is_ours = |before: &ImageInfo| {
            [labels::IMAGE, labels::CONTENT].iter().any(|label| before.labels.contains_key(*label))
        };
        if let Some(before) = before.filter(|before| before.names.is_empty() && is_ours(before))
            && let Err(error) = store.remove_image(&before.id).await
        {
            tracing::debug!(%error, "the image that had the name before stays");
        }
        Ok(())
    }

    /// Makes sandboxes use this image from now on.
    pub(super) fn put_to_use(&self, reference: Option<&str>) -> Result<(), Failure> {
        let path = set_image(self.environment, reference).map_err(failed)?;
        let shown = text::inert_excerpt(&path.display().to_string(), SAID_CHARS_MAX);
        let counting = Config::load(self.environment);
        if counting.image.as_deref() != reference {
            let source = counting.settings.iter().find(|setting| setting.name == "sandbox.image");
            let source = source.map(|setting| crate::app::config::from(&setting.source)).unwrap_or_default();
            return Err(Failure::Failed(format!(
                "{shown} says so now, but {source} counts more, and says otherwise"
            )));
        }
        match reference {
            Some(reference) => {
                out!("sandbox.image is {reference} in {shown}; sandboxes that start from now on have it")
            }
            None => out!(
                "sandbox.image is no longer set in {shown}; sandboxes that start from now on have belljar's own"
            ),
        }
        Ok(())
    }

    pub(super) async fn choose(&self, name: &str) -> Result<(), Failure> {
        if ImageName::is_default(name) {
            return self.put_to_use(None);
        }
        let store = self.store().await?;
        let name = ImageName::new(name).map_err(Failure::Usage)?;
        match self.about(&*store, &name).await? {
            Some(_) => self.put_to_use(Some(&name.reference())),
            None => Err(self.unknown(&*store, &name).await?),
        }
    }

    pub(super) async fn remove(&self, name: &str) -> Result<(), Failure> {
        let name = ImageName::new(name).map_err(Failure::Usage)?;
        let reference = name.reference();
        if self.config.image.as_deref() == Some(reference.as_str()) {
            return Err(Failure::Usage(format!(
                "{name} is what sandboxes are made of; `belljar image use default`, or use another one, then remove it"
            )));
        }
        let store = self.store().await?;
        let is_there = self.about(&*store, &name).await?.is_some();
        let lock = self.locks()?.join(format!("{name}.lock"));
        if !is_there && !lock.exists() {
            return Err(self.unknown(&*store, &name).await?);
        }
        if is_there {
            store.remove_image(&reference).await.map_err(failed)?;
            out!("removed {reference}");
        }
        match std::fs::remove_file(&lock) {
            Ok(()) => out!("removed {}", shown(&lock)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(format!("{}: {error}", lock.display()))),
        }
        Ok(())
    }

    async fn unknown(&self, store: &dyn ImageStore, name: &ImageName) -> Result<Failure, Failure> {
        let names = self.names(store).await?;
        let known: Vec<&str> = names.iter().map(ImageName::as_str).collect();
        let near = suggest::nearest(name.as_str(), known.iter().copied());
        let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        let known = match known.is_empty() {
            true => "belljar has built none there".to_owned(),
            false => format!("{near}belljar has built {} there", known.join(", ")),
        };
        let at = text::inert_excerpt(store.place(), SAID_CHARS_MAX);
        Ok(Failure::Usage(format!("{at} has no image {name}; {known}")))
    }

    async fn names(&self, store: &dyn ImageStore) -> Result<Vec<ImageName>, Failure> {
        let references = store.images_with(labels::IMAGE).await.map_err(failed)?;
        Ok(references.iter().filter_map(|reference| ImageName::of_reference(reference)).collect())
    }

    pub(super) async fn list(&self, as_json: bool) -> Result<(), Failure> {
        let store = self.store().await?;
        let kind = store.kind().await.map_err(failed)?;
        let at = text::inert_excerpt(store.place(), SAID_CHARS_MAX);
        if !as_json {
            out!("{} at {at}", text::inert_line(&kind));
        }
        if let Some(own) = store.about_image(OWN_IMAGE).await.map_err(failed)? {
            self.row(("default", OWN_IMAGE), &own, &at, as_json);
        }
        for name in self.names(&*store).await? {
            if let Some(about) = self.about(&*store, &name).await? {
                self.row((name.as_str(), &name.reference()), &about, &at, as_json);
            }
        }
        Ok(())
    }

    fn row(&self, (name, reference): (&str, &str), about: &ImageInfo, at: &str, as_json: bool) {
        let is_used = self.config.image.as_deref().unwrap_or(OWN_IMAGE) == reference;
        let label = |name: &str| about.labels.get(name).map_or("", String::as_str);
        if as_json {
            let words = |name: &str| label(name).split_whitespace().collect::<Vec<_>>();
            let row = json!({
                "name": name, "engine": at, "reference": reference, "used": is_used, "bytes": about.bytes, "created": about.created,
                "base": label(labels::BASE), "with": words(labels::WITH), "languages": words(labels::LANGUAGES),
            });
            return out!("{row}");
        }
        let mut holds = vec![format!("on {}", label(labels::BASE))];
        for (what, words) in [("with", label(labels::WITH)), ("languages", label(labels::LANGUAGES))] {
            if !words.is_empty() {
                holds.push(format!("{what} {words}"));
            }
        }
        let mark = if is_used { "*" } else { " " };
        let created = about.created.get(..16).unwrap_or_default().replace('T', " ");
        let megabytes = about.bytes / 1_000_000;
        let holds = text::inert_excerpt(&holds.join(", "), SAID_CHARS_MAX);
        row!("{mark} {name:<16} {megabytes:>6} MB  {:16}  {holds}", text::inert_line(&created));
    }
}

/// The value of the label that identifies the default packages of this version.
pub(super) fn content() -> String {
    format!("belljar-{}", env!("CARGO_PKG_VERSION"))
}

/// The other version of belljar whose packages the image has.
pub(super) fn other_version(about: &ImageInfo) -> Option<&str> {
    let made_for = about.labels.get(labels::CONTENT)?;
    made_for.strip_prefix("belljar-").filter(|_| *made_for != content())
}

/// A sentence about the image that sandboxes use, if another version of belljar has built it.
pub(crate) async fn of_another_version(config: &Config) -> Option<String> {
    let store = find_images(&wiring::locations(config, None), &config.lock_dir).await.ok()?;
    let reference = config.image.as_deref().unwrap_or(OWN_IMAGE);
    let about = store.about_image(reference).await.ok()??;
    let version = text::inert_excerpt(other_version(&about)?, SAID_CHARS_MAX);
    let command = match ImageName::of_reference(reference) {
        Some(name) => format!("belljar image build --locked {name}"),
        None => "belljar image build".to_owned(),
    };
    Some(format!("belljar {version} has built it; `{command}` builds it with the packages of this version"))
}

/// The references of all images that belljar has built in this store, its own one included.
pub(crate) async fn built_by_belljar(store: &dyn ImageStore) -> Result<Vec<String>, EngineError> {
    let named = store.images_with(labels::IMAGE).await?;
    let mut built: Vec<String> =
        named.into_iter().filter(|reference| ImageName::of_reference(reference).is_some()).collect();
    let own = store.about_image(OWN_IMAGE).await?;
    built.extend(own.filter(|own| own.labels.contains_key(labels::CONTENT)).map(|_| OWN_IMAGE.to_owned()));
    Ok(built)
}

pub(crate) fn shown(path: &Path) -> String {
    text::inert_excerpt(&path.display().to_string(), SAID_CHARS_MAX)
}
