//! `belljar image build`: builds an image with the requested packages, and stores a lock.
//!
//! The engine builds it from files that are embedded in this program. Without a container engine, a virtual environment
//! in the user's data folder replaces the image.

use std::collections::{HashMap, VecDeque};

use belljar_base::own_file;
use belljar_base::text;
use belljar_engine::recipe::{
    BuildFiles, ImageLock, ImageName, Language, OWN_IMAGE, Packages, Requirement, language_words, languages,
};
use belljar_engine::{EngineError, ImageBuild, ImageInfo, ImageProgress, ImageStore};
use belljar_guard::Mark;

use super::engine_images::{Images, content, labels, other_version, shown};
use super::show_progress::show_progress;
use crate::app::common::failure::{Failure, failed};
use crate::app::common::printing::{err, out};
use crate::app::common::progress::ProgressLine;
use crate::app::wiring::{self, PLAIN_IMAGE};
use crate::cli;

/// Longest line of a build that is shown, in characters.
const LINE_CHARS_MAX: usize = 1_000;
/// The number of last lines of a build that are searched for the reason of a failure.
const LINES_KEPT: usize = 200;
/// The largest number of lines with a reason that are repeated at the end.
const LINES_SAID: usize = 5;
/// The beginnings of lines that name a reason.
const REASONS: [&str; 6] =
    ["ERROR: ", "install-packages: ", "install-languages: ", "make-environment: ", "lock-packages: ", "E: "];
/// The beginning of lines about packages that the base has in another version.
const COPIES: &str = "keep-one-copy: ";
/// Words of pip, apt and engines that cannot reach a registry.
const UNREACHABLE: [&str; 5] = [
    "after connection broken by",
    "Max retries exceeded",
    "Temporary failure resolving",
    "Could not connect to",
    "dial tcp",
];
/// The advice for that case.
const WITHOUT_REGISTRY: &str = "a registry of packages or images could not be reached: check the network, or set PIP_INDEX_URL to \
    a mirror, HTTPS_PROXY to a proxy, or PIP_CERT to its certificates";
/// Further advice for engines with images.
const WITH_IMAGES: &str = "`--from IMAGE` builds on an image that is here; or build on another machine, and move the image with \
    `podman save` and `podman load` (or `docker`)";
/// Largest bundle of certificates, in bytes.
const CERTIFICATES_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The image to build.
struct Plan {
    /// The name; `None`: belljar's own image.
    name: Option<ImageName>,
    base: String,
    asked: Vec<Requirement>,
    languages: Vec<Language>,
    packages: Packages,
    default_set: bool,
}

/// Builds the image, stores its lock, and makes sandboxes use it if that is requested.
pub(crate) async fn build(images: &Images<'_>, arguments: cli::Build) -> Result<(), Failure> {
    let uses_it = arguments.use_it;
    let store;
    let plan = match &arguments.locked {
        Some(name) => {
            let lock = image_lock(images, name)?;
            store = images.store().await?;
            locked(&*store, name, lock).await?
        }
        None => {
            let asked = BuildRequest::new(arguments)?;
            store = images.store().await?;
            asked.plan(images, &*store).await?
        }
    };
    let store = &*store;
    let reference = plan.name.as_ref().map_or_else(|| OWN_IMAGE.to_owned(), ImageName::reference);
    let before = store.about_image(&reference).await.map_err(failed)?;
    let built = run(images, store, &plan, &reference).await?;
    images.remove_replaced(store, before, &built.id).await?;
    out!("built {reference}, {} MB", built.bytes / 1_000_000);
    if let Some(name) = &plan.name {
        keep_lock(images, store, &plan, name).await?;
        if uses_it {
            return images.put_to_use(Some(&reference));
        }
        if images.config.image.as_deref() != Some(reference.as_str()) {
            out!("`belljar image use {name}` has sandboxes made of it");
        }
    } else if uses_it {
        return images.put_to_use(None);
    }
    Ok(())
}

/// The request of the command line, with checked values.
struct BuildRequest {
    packages: Vec<Requirement>,
    languages: Vec<Language>,
    from: Option<String>,
    name: Option<ImageName>,
}

impl BuildRequest {
    fn new(arguments: cli::Build) -> Result<Self, Failure> {
        let mut packages: Vec<Requirement> = Vec::new();
        for text in &arguments.packages {
            let one = Requirement::new(text).map_err(|error| Failure::Usage(format!("--with: {error}")))?;
            if packages.iter().any(|other| other.name() == one.name()) {
                return Err(Failure::Usage(format!("--with: {} is named twice", one.name())));
            }
            packages.push(one);
        }
        packages.sort();
        let spoken = arguments.with_languages.iter().map(String::as_str);
        let languages =
            languages(spoken).map_err(|error| Failure::Usage(format!("--with-languages: {error}")))?;
        let name = arguments.name.map(|name| ImageName::new(&name)).transpose();
        let name = name.map_err(|error| Failure::Usage(format!("--name: {error}")))?;
        Ok(Self { packages, languages, from: arguments.from, name })
    }

    /// Plans the image. An image that belljar has built is not used as a base: its packages are built again together
    /// with the new ones, on its own base, so that an image has only one lock.
    async fn plan(self, images: &Images<'_>, store: &dyn ImageStore) -> Result<Plan, Failure> {
        match store.base().await.map_err(unavailable)? {
            Some(base) => self.whole(images, store, base).await,
            None => self.layer(images, store).await,
        }
    }

    /// Plans a virtual environment. It is always complete, so it includes the packages of the environment in use.
    async fn whole(
        mut self,
        images: &Images<'_>,
        store: &dyn ImageStore,
        base: String,
    ) -> Result<Plan, Failure> {
        if !self.languages.is_empty() {
            return Err(Failure::Usage(
                "--with-languages takes Podman or Docker; without them code has the languages that are installed below \
                 /usr on this machine"
                    .into(),
            ));
        }
        let from = self.from.as_ref().or(images.config.image.as_ref());
        let about = match from {
            Some(from) => store.about_image(from).await.map_err(failed)?,
            None => None,
        };
        if let (Some(from), None) = (&self.from, &about) {
            return Err(Failure::Usage(format!(
                "--from: {} is not here; without Podman or Docker, packages are added to the Python of this machine",
                text::inert_excerpt(from, LINE_CHARS_MAX)
            )));
        }
        self.take_over(about.as_ref())?;
        let own = store.about_image(OWN_IMAGE).await.map_err(failed)?;
        let is_there = own.is_some_and(|own| {
            own.labels.get(labels::CONTENT) == Some(&content()) && own.labels.get(labels::BASE) == Some(&base)
        });
        if is_there && self.packages.is_empty() {
            return Err(Failure::Usage(
                "the usual packages are there already; say what to add: --with PACKAGE".into(),
            ));
        }
        let name = self.name.or_else(|| ImageName::after(&self.packages, &[]));
        let packages = Packages::Asked(self.packages.clone());
        Ok(Plan { name, base, asked: self.packages, languages: vec![], packages, default_set: true })
    }

    async fn layer(mut self, images: &Images<'_>, engine: &dyn ImageStore) -> Result<Plan, Failure> {
        let mut base = match &self.from {
            Some(from) => from.clone(),
            None => match engine.image(&wiring::images(images.config)).await {
                Ok(image) => image,
                Err(EngineError::ImageMissing { .. }) if images.config.image.is_none() => {
                    PLAIN_IMAGE.to_owned()
                }
                Err(error) => return Err(unavailable(error)),
            },
        };
        let mut about = engine.about_image(&base).await.map_err(failed)?;
        let is_replaced =
            |about: &&ImageInfo| about.labels.contains_key(labels::IMAGE) || other_version(about).is_some();
        if let Some(below) = about.as_ref().filter(is_replaced).and_then(base_of) {
            self.take_over(about.as_ref())?;
            base = below;
            about = engine.about_image(&base).await.map_err(failed)?;
        }
        let default_set = !about.is_some_and(|about| about.labels.contains_key(labels::CONTENT));
        if !default_set && self.packages.is_empty() && self.languages.is_empty() {
            return Err(Failure::Usage(format!(
                "{base} has the usual packages already; say what to add: --with PACKAGE, --with-languages"
            )));
        }
        let name = self.name.or_else(|| ImageName::after(&self.packages, &self.languages));
        let packages = Packages::Asked(self.packages.clone());
        Ok(Plan { name, base, asked: self.packages, languages: self.languages, packages, default_set })
    }

    fn take_over(&mut self, about: Option<&ImageInfo>) -> Result<(), Failure> {
        let label = |name: &str| about.and_then(|about| about.labels.get(name)).map_or("", String::as_str);
        for text in label(labels::WITH).split_whitespace() {
            let one = Requirement::new(text).map_err(failed)?;
            if !self.packages.iter().any(|other| other.name() == one.name()) {
                self.packages.push(one);
            }
        }
        self.packages.sort();
        let spoken = label(labels::LANGUAGES).split_whitespace();
        self.languages.extend(languages(spoken).map_err(failed)?);
        self.languages.sort();
        self.languages.dedup();
        Ok(())
    }
}

fn base_of(about: &ImageInfo) -> Option<String> {
    about.labels.get(labels::BASE).cloned()
}

fn image_lock(images: &Images<'_>, name: &str) -> Result<ImageLock, Failure> {
    let name = ImageName::new(name).map_err(|error| Failure::Usage(format!("--locked: {error}")))?;
    let path = images.locks()?.join(format!("{name}.lock"));
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", shown(&path)));
    let bytes = own_file::read(&path, ImageLock::BYTES_MAX as u64).map_err(|error| usage(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| usage(&"it is not UTF-8"))?;
    ImageLock::parse(&text).map_err(|error| usage(&error))
}

async fn locked(engine: &dyn ImageStore, name: &str, lock: ImageLock) -> Result<Plan, Failure> {
    if let Some(base) = engine.base().await.map_err(unavailable)? {
        if lock.base != base || !lock.languages.is_empty() {
            return Err(Failure::Usage(format!(
                "--locked: the packages of {name} are locked for {}, and this machine has {base}; build it with --with \
                 PACKAGE --name {name}",
                text::inert_excerpt(&lock.base, LINE_CHARS_MAX)
            )));
        }
        return Ok(Plan {
            name: ImageName::new(name).ok(),
            base,
            asked: lock.asked,
            languages: vec![],
            packages: Packages::Locked(lock.packages),
            default_set: true,
        });
    }
    if lock.base.starts_with('/') {
        return Err(Failure::Usage(format!(
            "--locked: {name} was built without a container engine, for {}; build it with --with PACKAGE --name {name}",
            text::inert_excerpt(&lock.base, LINE_CHARS_MAX)
        )));
    }
    let about = engine.about_image(&lock.base).await.map_err(failed)?;
    if about.as_ref().is_some_and(|about| about.id != lock.base_id) {
        err!(
            "belljar: {} is another image than when the lock was written; the packages are the same",
            lock.base
        );
    }
    let default_set = !about.is_some_and(|about| about.labels.contains_key(labels::CONTENT));
    Ok(Plan {
        name: ImageName::new(name).ok(),
        base: lock.base,
        asked: lock.asked,
        languages: lock.languages,
        packages: Packages::Locked(lock.packages),
        default_set,
    })
}

async fn run(
    images: &Images<'_>,
    store: &dyn ImageStore,
    plan: &Plan,
    reference: &str,
) -> Result<ImageInfo, Failure> {
    let sources = images.environment.package_sources();
    let certificates = match &sources.certificates {
        Some(path) if path.metadata().is_ok_and(|about| about.len() > CERTIFICATES_BYTES_MAX) => {
            return Err(Failure::Failed(format!("{}: too large for certificates", shown(path))));
        }
        Some(path) => {
            Some(std::fs::read(path).map_err(|error| failed(format!("{}: {error}", path.display())))?)
        }
        None => None,
    };
    let files = BuildFiles { default_set: plan.default_set, packages: plan.packages.clone(), certificates };
    let mark = Mark::new();
    let mut arguments = sources.variables;
    arguments.insert("BASE_IMAGE".into(), plan.base.clone());
    arguments.insert("LANGUAGES".into(), language_words(&plan.languages));
    let build = ImageBuild {
        name: reference.to_owned(),
        files,
        arguments,
        labels: labels_of(plan, mark.as_str()),
        stage_label: labels::STAGE.into(),
    };
    err!("belljar: building {reference} on {}", text::inert_line(&plan.base));
    let mut last = VecDeque::new();
    let progress_line = ProgressLine::new(&format!("building {reference}"));
    let mut on_progress = |progress: ImageProgress<'_>| {
        let Some(line) = show_progress(progress, &progress_line, LINE_CHARS_MAX) else { return };
        last.push_back(line);
        if last.len() > LINES_KEPT {
            last.pop_front();
        }
    };
    let said = store.build(build, &mut on_progress).await;
    let has_layers = store.base().await.is_ok_and(|base| base.is_none());
    let why = |otherwise: String| {
        Failure::Failed(format!("the image was not built: {}", reason(&last, otherwise, has_layers)))
    };
    said.map_err(|error| why(text::inert_line(&described(&error))))?;
    let built = store.about_image(reference).await.map_err(failed)?;
    // Some engines report a failure only in a line.
    let built = built
        .filter(|built| built.labels.get(labels::BUILD).is_some_and(|label| label == mark.as_str()))
        .ok_or_else(|| why("see above".into()))?;
    for copy in last.iter().filter_map(|line| line.strip_prefix(COPIES)) {
        out!("{copy}");
    }
    Ok(built)
}

fn labels_of(plan: &Plan, mark: &str) -> HashMap<String, String> {
    let asked: Vec<String> = plan.asked.iter().map(ToString::to_string).collect();
    let mut labels = HashMap::from([
        (labels::BASE.to_owned(), plan.base.clone()),
        (labels::WITH.to_owned(), asked.join(" ")),
        (labels::LANGUAGES.to_owned(), language_words(&plan.languages)),
        (labels::BUILD.to_owned(), mark.to_owned()),
    ]);
    if let Some(name) = &plan.name {
        labels.insert(labels::IMAGE.to_owned(), name.to_string());
    }
    if plan.default_set {
        labels.insert(labels::CONTENT.to_owned(), content());
    }
    labels
}

/// An error, with advice if there is more to do than to check the engine.
fn described(error: &EngineError) -> String {
    match error {
        EngineError::Refused { .. } | EngineError::Request { .. } | EngineError::Timeout { .. } => {
            error.to_string()
        }
        _ => format!("{error}; {}", error.hint()),
    }
}

fn unavailable(error: EngineError) -> Failure {
    failed(described(&error))
}

/// The lines of a failed build that name the reason, and advice.
fn reason(lines: &VecDeque<String>, otherwise: String, has_layers: bool) -> String {
    let told = lines.iter().filter(|line| REASONS.iter().any(|begin| line.starts_with(begin)));
    let mut told: Vec<&str> = told.map(String::as_str).collect();
    told.dedup();
    let from = told.len().saturating_sub(LINES_SAID);
    let is_unreachable = |said: &str| UNREACHABLE.iter().any(|words| said.contains(words));
    let hint = if is_unreachable(&otherwise) || lines.iter().any(|line| is_unreachable(line)) {
        let images = if has_layers { format!("; {WITH_IMAGES}") } else { String::new() };
        format!("; {WITHOUT_REGISTRY}{images}")
    } else {
        String::new()
    };
    // `otherwise`, usually the engine's own message, rarely names more than the failed step.
    let why = if told.is_empty() { otherwise } else { told[from..].join("; ") };
    why + &hint
}

async fn keep_lock(
    images: &Images<'_>,
    store: &dyn ImageStore,
    plan: &Plan,
    name: &ImageName,
) -> Result<(), Failure> {
    let packages = match &plan.packages {
        Packages::Locked(lines) => lines.clone(),
        Packages::Asked(asked) if asked.is_empty() => Vec::new(),
        Packages::Asked(_) => {
            let text = store.lock_of(&name.reference(), ImageLock::BYTES_MAX).await.map_err(failed)?;
            ImageLock::packages_of(&String::from_utf8_lossy(&text)).map_err(failed)?
        }
    };
    let base_id =
        store.about_image(&plan.base).await.map_err(failed)?.map(|about| about.id).unwrap_or_default();
    let count = packages.len();
    let (asked, languages) = (plan.asked.clone(), plan.languages.clone());
    let lock = ImageLock { base: plan.base.clone(), base_id, asked, languages, packages };
    let folder = images.locks()?;
    let file = format!("{name}.lock");
    own_file::write(&folder, &file, lock.to_string().as_bytes())
        .map_err(|error| failed(format!("{}: {error}", folder.join(&file).display())))?;
    out!("locked {count} packages in {}", shown(&folder.join(&file)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> String {
        reason(&lines.iter().map(|line| (*line).to_owned()).collect(), "see above".into(), true)
    }

    #[test]
    fn the_lines_that_say_why_a_build_failed_are_said_again() {
        let lines = [
            "STEP 4/6: RUN sh install-packages.sh",
            "ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)",
            "ERROR: No matching distribution found for nosuch",
            "error building at STEP \"RUN\": exit status 1",
        ];
        assert_eq!(
            said(&lines),
            "ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none); \
             ERROR: No matching distribution found for nosuch"
        );
        assert_eq!(said(&["STEP 1/6"]), "see above");
        let many: Vec<String> = (0..9).map(|n| format!("E: {n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(said(&many), "E: 4; E: 5; E: 6; E: 7; E: 8");
    }

    #[test]
    fn unreachable_registry_is_said_with_what_to_do() {
        let lines = [
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/x/",
            "ERROR: No matching distribution found for x",
        ];
        let remedy = format!("{WITHOUT_REGISTRY}; {WITH_IMAGES}");
        assert_eq!(said(&lines), format!("ERROR: No matching distribution found for x; {remedy}"));
        let of_engine = "pinging container registry docker.io: dial tcp: lookup docker.io: no such host";
        assert_eq!(reason(&VecDeque::new(), of_engine.into(), true), format!("{of_engine}; {remedy}"));
        assert_eq!(
            reason(&VecDeque::new(), of_engine.into(), false),
            format!("{of_engine}; {WITHOUT_REGISTRY}")
        );
    }
}
