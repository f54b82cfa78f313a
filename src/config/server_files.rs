//! Follows the files that servers stand in: what they hold is read again when one has been changed, added or removed.
//!
//! It watches nothing by itself: whoever needs to know asks, which costs a look at each file and reads none.

use std::path::PathBuf;

use super::environment::Environment;
use super::file;
use super::load::{self, Config, SelfServers};
use super::problem::Problem;
use super::servers::{self, ServerConfig};
use crate::limits::Limits;

/// The files of servers, and what they held when they were last read.
#[derive(Debug)]
pub struct ServerFiles {
    environment: Environment,
    self_servers: SelfServers,
    chosen: Option<Vec<String>>,
    limits: Limits,
    seen: Vec<Seen>,
    servers: Vec<ServerConfig>,
}

/// A file, and what tells that it is not what it was: nothing while it is not there.
type Seen = (PathBuf, Option<file::Look>);

impl ServerFiles {
    /// The configuration as it is now, and the files whose later changes count.
    #[must_use]
    pub fn load(environment: Environment) -> (Config, Self) {
        let limits = Limits::default();
        // Before they are read: what is changed meanwhile is seen as changed.
        let seen = seen(&environment, &limits);
        let config = Config::load(&environment);
        let (self_servers, servers) = (config.self_servers, config.servers.clone());
        let chosen = config.chosen_servers.clone();
        (config, Self { environment, self_servers, chosen, limits, seen, servers })
    }

    /// The servers that there are, sorted by name.
    #[must_use]
    pub fn servers(&self) -> &[ServerConfig] {
        &self.servers
    }

    /// Looks at the files; when one is not what it was, all are read again, and their problems returned.
    pub fn look(&mut self) -> Vec<Problem> {
        let seen = seen(&self.environment, &self.limits);
        if seen == self.seen {
            return Vec::new();
        }
        self.seen = seen;
        let mut problems = Vec::new();
        let servers = servers::load(&self.environment, &self.limits, self.self_servers, &mut problems);
        self.servers = load::chosen(servers, self.chosen.as_deref());
        problems
    }
}

fn seen(environment: &Environment, limits: &Limits) -> Vec<Seen> {
    let mut paths = Vec::new();
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
