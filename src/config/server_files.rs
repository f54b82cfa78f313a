//! Follows the files that servers stand in: what they hold is read again when one has been changed, added or removed, also
//! one that a `${file:…}` refers to.
//!
//! It watches nothing by itself: whoever needs to know asks, which costs a look at each file and reads none.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;

use super::defaults::definitions;
use super::environment::Environment;
use super::file;
use super::load::{self, Config};
use super::problem::Problem;
use super::references::is_for_all;
use super::server::{RefusedServer, ServerConfig};
use super::servers::{self, Allowed, Loaded, OfFiles};
use super::{toml_file, trust};
use crate::limits::Limits;

/// The files of servers, and what they held when they were last read.
#[derive(Debug)]
pub struct ServerFiles {
    environment: Environment,
    allowed: Allowed,
    chosen: Option<Vec<String>>,
    limits: Limits,
    seen: Vec<Seen>,
    referred: Following,
    servers: Vec<ServerConfig>,
    refused: Vec<RefusedServer>,
}

/// What is known of files and of what their entries refer to.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) files: Vec<Seen>,
    /// Environment variables, whether they are set or not.
    pub(super) variables: BTreeSet<String>,
    /// What files said when they could be read last.
    pub(super) entries: OfFiles,
    /// Why files cannot be read now.
    pub(super) unread: Vec<Problem>,
}

/// A file, and what tells that it is not what it was.
pub(super) type Seen = (PathBuf, file::Look);

impl ServerFiles {
    /// The configuration as it is now, and the files whose later changes count.
    #[must_use]
    pub fn load(environment: Environment) -> (Config, Self) {
        let limits = Limits::default();
        // Before they are read: what is changed meanwhile is seen as changed.
        let seen = seen(&environment, &limits);
        let (config, referred) = Config::load_following(&environment);
        let allowed = Allowed { self_servers: config.self_servers, commands: config.allow_commands };
        let (chosen, servers, refused) =
            (config.chosen_servers.clone(), config.servers.clone(), config.refused.clone());
        (config, Self { environment, allowed, chosen, limits, seen, referred, servers, refused })
    }

    /// The servers that there are, sorted by name.
    #[must_use]
    pub fn servers(&self) -> &[ServerConfig] {
        &self.servers
    }

    /// Those that are configured and cannot be used, sorted by name.
    #[must_use]
    pub fn refused(&self) -> &[RefusedServer] {
        &self.refused
    }

    /// Why files cannot be read now. What they said when they could be read last counts for their servers.
    #[must_use]
    pub fn unread(&self) -> &[Problem] {
        &self.referred.unread
    }

    /// The variables of the environment that this server is not given: those that other entries refer to, and its own does not.
    #[must_use]
    pub fn withheld_from(&self, server: &ServerConfig) -> Vec<String> {
        let others = self.referred.variables.difference(&server.variables);
        let is_withheld = |name: &&String| {
            let value = self.environment.variable(name).map(OsStr::to_string_lossy);
            value.is_some_and(|value| !is_for_all(name, &value))
        };
        others.filter(is_withheld).cloned().collect()
    }

    /// Looks at the files; when one is not what it was, all are read again, and the problems of servers returned. Settings
    /// stay as they were.
    pub fn look(&mut self) -> Vec<Problem> {
        let seen = seen(&self.environment, &self.limits);
        let is_same = |(path, look): &Seen| file::look(path) == *look;
        if seen == self.seen && self.referred.files.iter().all(is_same) {
            return Vec::new();
        }
        self.seen = seen;
        let mut problems = Vec::new();
        let tables = toml_file::read_all(&self.environment, &self.limits, &definitions(), &mut problems);
        // Those of settings were told when they were read.
        problems.retain(|problem| problem.key.is_none());
        let files = (tables.as_slice(), &self.referred.entries);
        let loaded = servers::load(&self.environment, &self.limits, self.allowed, files, &mut problems);
        let Loaded { servers, refused, files, variables, entries, unread } =
            load::chosen(loaded, self.chosen.as_deref());
        (self.servers, self.refused) = (servers, refused);
        self.referred = Following { files, variables, entries, unread };
        problems
    }
}

fn seen(environment: &Environment, limits: &Limits) -> Vec<Seen> {
    let mut paths: Vec<PathBuf> =
        toml_file::paths(environment).into_iter().chain(trust::store(environment)).collect();
    for place in servers::places(environment) {
        if place.is_dir() {
            // One that may not be listed any more has lost all its files.
            paths.extend(file::listed(&place, limits).unwrap_or_default());
        } else {
            paths.push(place);
        }
    }
    let with_look = |path: PathBuf| {
        let look = file::look(&path);
        (path, look)
    };
    paths.into_iter().map(with_look).collect()
}
