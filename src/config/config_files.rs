//! Follows the configuration files: what they hold is read again when one has been changed, added or removed, also one
//! that a `${file:…}` refers to.
//!
//! It watches nothing by itself: whoever needs to know asks, which costs a look at each file and reads none.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use super::load::{Config, PreviousConfig, ReloadState};
use super::read::environment::Environment;
use super::read::file::{self, Fingerprint, WatchedFile};
use super::read::trust;
use super::servers::load;
use super::servers::server::{RefusedServer, ServerConfig};
use super::settings::toml_file;
use crate::limits::Limits;
use crate::problem::Problem;

/// The files of settings and servers, and what they held when they were last read.
#[derive(Debug)]
pub struct ConfigFiles {
    environment: Arc<Environment>,
    limits: Limits,
    listing: Listing,
    /// Of the files that are listed.
    seen: Vec<Fingerprint>,
    referred: ReloadState,
    config: Arc<Config>,
    told: watch::Sender<Arc<Config>>,
    /// What is otherwise here than the files say.
    adjust: fn(&mut Config),
}

impl ConfigFiles {
    /// The configuration as it is now, and the files whose later changes count.
    #[must_use]
    pub fn load(environment: Environment) -> (Config, Self) {
        let limits = Limits::default();
        // Before they are read: what is changed meanwhile is seen as changed.
        let listing = Listing::of(&environment, &limits);
        let seen = listing.looks();
        let (config, referred) = Config::load_following(&environment, None);
        let shared = Arc::new(config.clone());
        let told = watch::Sender::new(Arc::clone(&shared));
        let environment = Arc::new(environment);
        (config, Self { environment, limits, listing, seen, referred, config: shared, told, adjust: |_| {} })
    }

    /// The same with this changed, now and whenever the files are read again.
    #[must_use]
    pub fn adjusted(mut self, adjust: fn(&mut Config)) -> (Config, Self) {
        let mut config = Config::clone(&self.config);
        adjust(&mut config);
        (self.config, self.adjust) = (Arc::new(config.clone()), adjust);
        self.told.send_replace(Arc::clone(&self.config));
        (config, self)
    }

    /// The configuration as it was read last. Its policy is the one that was read first, which has its own way to be
    /// followed.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The same, for whoever does not look at the files.
    #[must_use]
    pub fn told(&self) -> watch::Receiver<Arc<Config>> {
        self.told.subscribe()
    }

    /// The servers that there are, sorted by name.
    #[must_use]
    pub fn servers(&self) -> &[ServerConfig] {
        &self.config.servers
    }

    /// Those that are configured and cannot be used, sorted by name.
    #[must_use]
    pub fn refused(&self) -> &[RefusedServer] {
        &self.config.refused
    }

    /// Why files cannot be used now. What they said when they could be used last counts.
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

    /// Looks at the files; when one is not what it was, all are read again, and the problems returned that there were not
    /// before.
    pub fn look(&mut self) -> Vec<Problem> {
        let mut is_listed_anew = false;
        if !self.listing.is_still_so() {
            let listing = Listing::of(&self.environment, &self.limits);
            is_listed_anew = listing.files != self.listing.files;
            self.listing = listing;
        }
        let seen = self.listing.looks();
        if !is_listed_anew && seen == self.seen && self.referred.files.iter().all(is_same) {
            return Vec::new();
        }
        self.seen = seen;
        let ReloadState { entries, servers_problem, .. } = &self.referred;
        let before =
            PreviousConfig { config: &self.config, entries, servers_problem: servers_problem.as_ref() };
        let (mut config, referred) = Config::load_following(&self.environment, Some(before));
        (self.adjust)(&mut config);
        let is_new = |problem: &&Problem| !self.config.problems.contains(problem);
        let problems = config.problems.iter().filter(is_new).cloned().collect();
        self.referred = referred;
        self.config = Arc::new(config);
        self.told.send_replace(Arc::clone(&self.config));
        problems
    }
}

/// The configuration files, with the fingerprints of the folders that they were listed from.
#[derive(Debug)]
struct Listing {
    /// Folders whose files these are, and files that are named.
    places: Vec<WatchedFile>,
    /// Whether a change of what the folders hold cannot have gone unseen.
    is_settled: bool,
    files: Vec<PathBuf>,
}

impl Listing {
    fn of(environment: &Environment, limits: &Limits) -> Self {
        let with_look = |path: PathBuf| {
            let look = file::fingerprint(&path);
            (path, look)
        };
        // Before they are listed, as files before they are read.
        let places: Vec<WatchedFile> = load::places(environment).into_iter().map(with_look).collect();
        let is_settled = places.iter().all(|(_, look)| look.is_settled());
        let mut files: Vec<PathBuf> =
            toml_file::paths(environment).into_iter().chain(trust::store(environment)).collect();
        for (place, _) in &places {
            if place.is_dir() {
                // One that may not be listed any more has lost all its files.
                files.extend(file::listed(place, limits).unwrap_or_default());
            } else {
                files.push(place.clone());
            }
        }
        Self { places, is_settled, files }
    }

    /// Whether it would be the same now: found without reading a folder, as long as none has changed.
    fn is_still_so(&self) -> bool {
        self.is_settled && self.places.iter().all(is_same)
    }

    fn looks(&self) -> Vec<Fingerprint> {
        self.files.iter().map(|path| file::fingerprint(path)).collect()
    }
}

fn is_same((path, look): &WatchedFile) -> bool {
    file::fingerprint(path) == *look
}

#[cfg(test)]
#[path = "config_files_tests.rs"]
mod tests;
