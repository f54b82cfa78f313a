//! Follows the configuration files: reads them again when one of them, or a file that a `${file:…}` refers to, has been
//! changed, added or removed.
//!
//! It watches nothing by itself: the caller asks for a check, which takes the fingerprint of each file and reads none.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::problem::{Problem, Severity};
use nix::errno::Errno;
use tokio::sync::watch;

use super::configuration::Config;
use super::load::{PreviousConfig, ReloadState};
use super::read::environment::Environment;
use super::read::file::{self, Fingerprint, WatchedFile};
use super::read::given_places;
use super::read::trust;
use super::servers::load;
use super::servers::server::{RefusedServer, ServerConfig};
use super::settings::definitions::{Definition, EffectTime, definitions};
use super::settings::resolve::Setting;

/// The errors where there is no home that can be written.
const HOMELESS: [Errno; 5] = [Errno::EROFS, Errno::EACCES, Errno::EPERM, Errno::ENOTDIR, Errno::ENOENT];

/// The files of settings and servers, and what they held when they were last read.
#[derive(Debug)]
pub struct ConfigFiles {
    environment: Arc<Environment>,
    limits: Limits,
    listing: Listing,
    /// The fingerprints of the listed files, and the places where they really are.
    seen: (Vec<Fingerprint>, BTreeSet<PathBuf>),
    referred: ReloadState,
    /// Whether the places that servers and code are given were recorded.
    is_recorded: bool,
    has_said_unrecorded: bool,
    config: Arc<Config>,
    told: watch::Sender<Arc<Config>>,
    /// Changes to apply to each configuration that was read from the files.
    adjust: fn(&mut Config),
}

impl ConfigFiles {
    /// The configuration as it is now, and the files whose later changes count.
    #[must_use]
    pub fn load(environment: Environment) -> (Config, Self) {
        let limits = Limits::default();
        // The fingerprints are taken before the files are read, so that a change in between is noticed.
        let listing = Listing::of(&environment, &limits);
        let mut seen = listing.looks(true);
        let (config, referred) = Config::load_following(&environment, None);
        if !referred.has_others {
            seen.1.clear();
        }
        let shared = Arc::new(config.clone());
        let told = watch::Sender::new(Arc::clone(&shared));
        let environment = Arc::new(environment);
        let (is_recorded, has_said_unrecorded) = (false, false);
        (
            config,
            Self {
                environment,
                limits,
                listing,
                seen,
                referred,
                is_recorded,
                has_said_unrecorded,
                config: shared,
                told,
                adjust: |_| {},
            },
        )
    }

    /// Applies this change to the configuration, now and whenever the files are read again.
    #[must_use]
    pub fn adjusted(mut self, adjust: fn(&mut Config)) -> (Config, Self) {
        let mut config = Config::clone(&self.config);
        adjust(&mut config);
        (self.config, self.adjust) = (Arc::new(config.clone()), adjust);
        self.told.send_replace(Arc::clone(&self.config));
        (config, self)
    }

    /// The configuration as it was read last. Its policy is the one that was read first:
    /// [`PolicyFile`](super::PolicyFile) follows the changes of a policy.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The places in which a symlink need not be the user's: the opened project, and what confined servers and code can change,
    /// which may be anywhere while the record of it was never read.
    #[must_use]
    pub fn foreign_places(&self) -> Vec<PathBuf> {
        let unknown = self.referred.recorded.is_none().then(|| "/".into());
        [self.environment.projects(), self.config.changeable.clone(), unknown.into_iter().collect()].concat()
    }

    /// A receiver of each new configuration, for tasks that do not check the files themselves.
    #[must_use]
    pub fn told(&self) -> watch::Receiver<Arc<Config>> {
        self.told.subscribe()
    }

    /// The usable servers, sorted by name.
    #[must_use]
    pub fn servers(&self) -> &[ServerConfig] {
        &self.config.servers
    }

    /// The servers that are configured and cannot be used, sorted by name.
    #[must_use]
    pub fn refused(&self) -> &[RefusedServer] {
        &self.config.refused
    }

    /// The problems with files that cannot be read now. The content that was read from them last stays in effect.
    #[must_use]
    pub fn unread(&self) -> &[Problem] {
        &self.referred.unread
    }

    /// The environment variables that entries and the model's settings refer to, whether they are set or not.
    #[must_use]
    pub fn referred_variables(&self) -> &BTreeSet<String> {
        &self.referred.variables
    }

    /// The environment that the files were read in.
    #[must_use]
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// From now on, other sessions use the servers of these files, too: variables that differ between the sessions' environments
    /// count as not set when the files are read again, since an entry that refers to one would give it to all sessions. The
    /// variables of settings are equal, see [`Environment::has_settings_of`].
    pub fn share_with(&mut self, other: &Environment) {
        let is_equal = |name: &OsString, value: &mut OsString| {
            Environment::is_of_settings(name) || other.variables.get(name) == Some(value)
        };
        Arc::make_mut(&mut self.environment).variables.retain(is_equal);
    }

    /// Records the places that confined servers and code are given now, before they start.
    pub fn record_given(&mut self) {
        let Some(dir) = self.environment.common_dir().filter(|_| !self.is_recorded) else { return };
        let recorded = given_places::add(&dir, &self.referred.given);
        // Otherwise the next run tries again, and says nothing more.
        self.is_recorded = recorded.is_ok();
        let problem = recorded.err().and_then(|error| {
            if !std::mem::replace(&mut self.has_said_unrecorded, true) {
                let dir = dir.display();
                tracing::warn!(%error, %dir, "it is not recorded what servers and code can change, so later bridges do not know");
            }
            // No server can make the home read-only, but one can fill the disk.
            let code = error.raw_os_error().map(Errno::from_raw);
            let is_homeless = code.is_some_and(|code| HOMELESS.contains(&code));
            let message = format!("it cannot be recorded what confined servers and code could change: {error}");
            let problem = Problem::of_file(&given_places::path(&dir), message).severity(Severity::Error);
            let is_told = self.referred.gives_others && !is_homeless;
            is_told.then(|| problem.hint("neither starts until it can be"))
        });
        if problem != self.config.unrecorded {
            self.config = Arc::new(Config { unrecorded: problem, ..Config::clone(&self.config) });
            self.told.send_replace(Arc::clone(&self.config));
        }
    }

    /// Checks the files. If one has changed, reads all of them again and returns the problems that were not there
    /// before.
    pub fn look(&mut self) -> Vec<Problem> {
        let mut is_listed_anew = false;
        if !self.listing.is_still_so() {
            let listing = Listing::of(&self.environment, &self.limits);
            is_listed_anew = listing.files != self.listing.files;
            self.listing = listing;
        }
        let seen = self.listing.looks(self.referred.has_others);
        if !is_listed_anew && seen == self.seen && self.referred.files.iter().all(is_same) {
            return Vec::new();
        }
        self.seen = seen;
        let ReloadState { entries, servers_problem, changeable, recorded, conflicting, .. } = &self.referred;
        let (servers_problem, recorded) = (servers_problem.as_ref(), recorded.as_ref());
        let before = PreviousConfig {
            config: &self.config,
            entries,
            servers_problem,
            changeable,
            recorded,
            conflicting,
        };
        let (mut config, referred) = Config::load_following(&self.environment, Some(before));
        (self.adjust)(&mut config);
        let before: BTreeSet<String> = self.config.problems.iter().map(ToString::to_string).collect();
        let is_new = |problem: &&Problem| !before.contains(&problem.to_string());
        let problems = config.problems.iter().filter(is_new).cloned().collect();
        self.referred = referred;
        self.is_recorded = false;
        self.config = Arc::new(config);
        self.told.send_replace(Arc::clone(&self.config));
        problems
    }
}

/// The configuration files, with the fingerprints of the folders that they were listed from.
#[derive(Debug)]
struct Listing {
    /// The folders that were listed, and the files that are named directly.
    places: Vec<WatchedFile>,
    /// Whether every later change of the folders is sure to change their fingerprints.
    is_settled: bool,
    files: Vec<PathBuf>,
    /// The files among them that others must not be able to move: the user's settings and entries.
    of_user: Vec<PathBuf>,
}

impl Listing {
    fn of(environment: &Environment, limits: &Limits) -> Self {
        let with_look = |path: PathBuf| {
            let look = file::fingerprint(&path);
            (path, look)
        };
        // The fingerprints are taken before the folders are listed, so that a change in between is noticed.
        let places: Vec<WatchedFile> = load::places(environment).into_iter().map(with_look).collect();
        let is_settled = places.iter().all(|(_, look)| look.is_settled());
        let mut of_user: Vec<PathBuf> = environment.config_file().into_iter().collect();
        for (place, _) in &places {
            if place.is_dir() {
                // A folder that can no longer be listed counts as empty.
                of_user.extend(file::listed(place, environment.uid, limits).unwrap_or_default());
            } else {
                of_user.push(place.clone());
            }
        }
        let further = trust::project_file(environment).into_iter().chain(trust::store(environment));
        let further = further.chain(environment.common_dir().map(|dir| given_places::path(&dir)));
        let files = of_user.iter().cloned().chain(further).collect();
        Self { places, is_settled, files, of_user }
    }

    /// Whether listing again would give the same files. It reads no folder.
    fn is_still_so(&self) -> bool {
        self.is_settled && self.places.iter().all(is_same)
    }

    fn looks(&self, has_others: bool) -> (Vec<Fingerprint>, BTreeSet<PathBuf>) {
        let of_user = self.of_user.iter().filter(|_| has_others);
        let places = file::real_places(of_user.cloned());
        (self.files.iter().map(|path| file::fingerprint(path)).collect(), places)
    }
}

fn is_same((path, look): &WatchedFile) -> bool {
    file::fingerprint(path) == *look
}

/// Describes the changed settings for the reader of a reply; `None`: no setting has changed. Values are not shown.
#[must_use]
pub fn edited_settings(before: &Config, after: &Config) -> Option<String> {
    let rows = definitions();
    let value = |config: &Config, row: &Definition| {
        let is_it = |setting: &&Setting| setting.name == row.name();
        config.settings.iter().find(is_it).and_then(|setting| setting.value.clone())
    };
    let edited: Vec<&Definition> =
        rows.iter().filter(|row| value(before, row) != value(after, row)).collect();
    let of = |counts: EffectTime, when: &str| {
        let names = edited.iter().filter(|row| row.counts == counts).map(|row| row.name());
        let mounts =
            (counts == EffectTime::NextSandbox && mounted(before) != mounted(after)).then_some("mount");
        let names = names.chain(mounts).collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| format!("{names}{when}"))
    };
    let parts = [
        of(EffectTime::NextRun, ""),
        of(EffectTime::NextSandbox, " for the next sandbox"),
        of(EffectTime::NextServer, " for servers started from now on"),
        of(EffectTime::Restart, " once belljar is started again"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("the user has changed settings ({})", parts.join("; ")))
}

/// The mounted folders, without their positions in the file.
fn mounted(config: &Config) -> Vec<(&Path, &str, bool)> {
    config.mounts.iter().map(|mount| (mount.host.as_path(), mount.guest.as_str(), mount.writable)).collect()
}

#[cfg(test)]
#[path = "config_files_tests.rs"]
mod tests;
