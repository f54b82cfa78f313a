//! Decides which of several entries with one name counts: that of the first level that has the name.
//!
//! It reads nothing.

use std::collections::BTreeMap;

use belljar_base::names::ServerName;
use belljar_base::problem::{Origin, Position, Problem, Severity};

use super::entry::Entry;
use super::server::{RefusedServer, ServerConfig};

/// The places of entries. An earlier one takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// A project's config.toml.
    Project,
    /// The user's config.toml.
    User,
    /// `~/MCPs/*.json`.
    Folder,
    /// The file or folder that MCP_SERVERS_CONFIG names.
    Named,
}

/// The servers to use and the refused ones, both sorted by name. An entry that cannot be used still reserves its name:
/// a server of a later level must not take the place of the one that is meant.
pub(super) fn first(
    entries: Vec<(Level, Entry)>,
    problems: &mut Vec<Problem>,
) -> (Vec<ServerConfig>, Vec<RefusedServer>) {
    let mut by_name: BTreeMap<ServerName, BTreeMap<Level, Vec<Entry>>> = BTreeMap::new();
    for (level, entry) in entries {
        by_name.entry(entry.name.clone()).or_default().entry(level).or_default().push(entry);
    }
    let (mut servers, mut refused) = (Vec::new(), Vec::new());
    for levels in by_name.into_values() {
        let mut levels = levels.into_values();
        let Some(here) = levels.next() else { continue };
        let place = here.first().map(place).unwrap_or_default();
        for entry in levels.flatten().filter(|entry| entry.read.is_ok()) {
            problems.push(
                Problem::new(
                    Origin::File(entry.path),
                    format!("is not used: {place} has the name too, and counts more"),
                )
                .severity(Severity::Note)
                .at(entry.position)
                .key(entry.key),
            );
        }
        match only(here, problems) {
            Some(Ok(server)) => servers.push(*server),
            Some(Err(why)) => refused.push(why),
            None => {}
        }
    }
    (servers, refused)
}

/// The one valid entry of a level, or the reason for which there is none.
fn only(
    entries: Vec<Entry>,
    problems: &mut Vec<Problem>,
) -> Option<Result<Box<ServerConfig>, RefusedServer>> {
    let refused = |entry: &Entry, reason: String| RefusedServer {
        name: entry.name.clone(),
        source: entry.path.clone(),
        position: entry.position,
        reason,
    };
    let (mut sound, broken): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.read.is_ok());
    if let [first, others @ ..] = sound.as_slice()
        && !others.is_empty()
    {
        let others: Vec<String> = others.iter().map(place).collect();
        let message = format!("is defined in {} too, and none of them is used", others.join(" and "));
        let problem = Problem::of_file(&first.path, message)
            .at(first.position)
            .key(first.key.clone())
            .hint("rename or remove one");
        let why = refused(first, format!("cannot be used: {problem}"));
        problems.push(problem);
        return Some(Err(why));
    }
    let entry = sound.pop().or_else(|| broken.into_iter().next())?;
    let why = |reason: &String| refused(&entry, reason.clone());
    Some(match &entry.read {
        Err(reason) => Err(why(reason)),
        Ok(server) => Ok(server.clone()),
    })
}

fn place(entry: &Entry) -> String {
    let Position { line, column } = entry.position;
    format!("{}:{line}:{column}", entry.path.display())
}
