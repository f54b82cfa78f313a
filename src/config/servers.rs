//! Gathers the servers of all configuration files, in an order that no file name or clock decides for a repeated name.
//!
//! It starts nothing and connects to nothing: a server is data until its first use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::entry::{Entry, Reading};
use super::environment::{Environment, Nesting};
use super::file;
use super::json::{self, Member, Node};
use super::load::SelfServers;
use super::problem::{Origin, Position, Problem, Severity};
use super::reach::{Launch, Reach};
use super::self_reference;
use crate::guard::PARENT_VARIABLE;
use crate::limits::Limits;
use crate::names::ServerName;

/// A server that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name, unique among all files.
    pub name: ServerName,
    /// What the operator says it is for.
    pub description: Option<String>,
    /// How it is reached.
    pub reach: Reach,
    /// The file that it stands in.
    pub source: PathBuf,
}

/// What the bytes of one configuration file say: its sound servers in the file's order, each name once, and all that is
/// wrong with the rest. It opens nothing: the path is where relative ones are taken from, and what problems name.
#[must_use]
pub fn servers_of_file(
    environment: &Environment,
    limits: &Limits,
    path: &Path,
    bytes: Vec<u8>,
) -> (Vec<ServerConfig>, Vec<Problem>) {
    let mut problems = Vec::new();
    let entries = entries_of(environment, limits, path, bytes, &mut problems);
    (entries.into_iter().map(|entry| entry.server).collect(), problems)
}

/// Reads `~/MCPs/*.json` and what MCP_SERVERS_CONFIG names. Sorted by server name.
pub(super) fn load(
    environment: &Environment,
    limits: &Limits,
    self_servers: SelfServers,
    problems: &mut Vec<Problem>,
) -> Vec<ServerConfig> {
    if environment.nesting() == Nesting::Nested {
        let message = "is set: this bridge was started by another one and loads no servers, so that none can call itself";
        problems.push(Problem::new(Origin::Variable(PARENT_VARIABLE.to_owned()), message));
        return Vec::new();
    }
    let mut entries = Vec::new();
    for path in files(environment, limits, problems) {
        match file::read(&path, environment.uid, limits) {
            Ok(bytes) => entries.extend(entries_of(environment, limits, &path, bytes, problems)),
            Err(problem) => problems.push(*problem),
        }
    }
    if self_servers == SelfServers::Skip {
        entries.retain(|entry| !is_own(environment, entry, problems));
    }
    let mut servers = unique(entries, problems);
    if servers.len() > limits.servers_max {
        let message =
            format!("{} servers are configured, more than the {} allowed", servers.len(), limits.servers_max);
        problems.push(Problem::new(Origin::File(servers[limits.servers_max].source.clone()), message));
        servers.truncate(limits.servers_max);
    }
    servers
}

/// Where files may be: the user's folder, and the folder or file that MCP_SERVERS_CONFIG names.
pub(super) fn places(environment: &Environment) -> Vec<PathBuf> {
    let own = environment.home.as_ref().map(|home| home.join("MCPs"));
    let named = environment.variable("MCP_SERVERS_CONFIG").map(|named| match named.to_str() {
        Some(text) => environment.resolve(text.trim(), environment.cwd.as_deref()),
        None => PathBuf::from(named),
    });
    own.into_iter().chain(named).collect()
}

/// The files to read, each once even when it is reached twice.
fn files(environment: &Environment, limits: &Limits, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (index, place) in places(environment).into_iter().enumerate() {
        let is_own = index == 0 && environment.home.is_some();
        if is_own || place.is_dir() {
            match file::listed(&place, limits) {
                Ok(found) => paths.extend(found),
                Err(problem) => problems.push(*problem),
            }
        } else if place.symlink_metadata().is_err() {
            let message = format!("names {}, which does not exist", place.display());
            problems.push(Problem::new(Origin::Variable("MCP_SERVERS_CONFIG".to_owned()), message));
        } else {
            paths.push(place);
        }
    }
    let mut seen = Vec::new();
    paths.retain(|path| {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let is_new = !seen.contains(&real);
        seen.push(real);
        is_new
    });
    paths
}

fn entries_of(
    environment: &Environment,
    limits: &Limits,
    path: &Path,
    bytes: Vec<u8>,
    problems: &mut Vec<Problem>,
) -> Vec<Entry> {
    let text = match file::text(path, bytes) {
        Ok(text) => text,
        Err(problem) => {
            problems.push(*problem);
            return Vec::new();
        }
    };
    let mut reading = Reading { environment, path, text: &text, problems };
    let root = match json::parse(&text, limits.json_depth_max) {
        Ok(root) => root,
        Err(defect) => {
            reading.push(Severity::Error, (defect.at, ""), defect.message, defect.hint);
            return Vec::new();
        }
    };
    let Node::Object(members) = &root.node else {
        let message = format!("must be an object with \"mcpServers\", not {}", root.node.kind());
        reading.report(root.at, "", message);
        return Vec::new();
    };
    let mut found = members.iter().filter(|member| member.key == "mcpServers");
    let Some(servers) = found.next() else {
        let hint = if members.iter().any(|member| member.key == "servers") {
            "rename \"servers\" to \"mcpServers\""
        } else {
            "write {\"mcpServers\": {NAME: {\"command\": ...}}}"
        };
        reading.push(Severity::Error, (root.at, ""), "has no \"mcpServers\"", hint);
        return Vec::new();
    };
    if let Some(second) = found.next() {
        let message = format!("is repeated; it stands on line {} too", reading.position(servers.key_at).line);
        reading.report(second.key_at, "mcpServers", message);
        return Vec::new();
    }
    let Node::Object(entries) = &servers.value.node else {
        let message = format!("must be an object, not {}", servers.value.node.kind());
        reading.report(servers.value.at, "mcpServers", message);
        return Vec::new();
    };
    let about = members.iter().find(|member| member.key == "description").map(|member| &member.value.node);
    let mut entries = sound_entries(&mut reading, entries);
    if let Some(Node::String(about)) = about {
        for entry in &mut entries {
            entry.server.description.get_or_insert_with(|| about.clone());
        }
    }
    entries
}

/// The sound entries of one file whose names stand there once.
fn sound_entries(reading: &mut Reading<'_>, members: &[Member]) -> Vec<Entry> {
    let mut by_name: BTreeMap<&str, Vec<&Member>> = BTreeMap::new();
    for member in members {
        by_name.entry(&member.key).or_default().push(member);
    }
    let mut entries = Vec::new();
    for member in members {
        match by_name[member.key.as_str()].as_slice() {
            [_] => entries.extend(reading.entry(member)),
            [first, second, ..] if std::ptr::eq(*second, member) => {
                let line = reading.position(first.key_at).line;
                let message = format!("is repeated; it stands on line {line} too, and neither is used");
                reading.report(second.key_at, &format!("mcpServers.{}", member.key), message);
            }
            _ => {}
        }
    }
    entries
}

fn is_own(environment: &Environment, entry: &Entry, problems: &mut Vec<Problem>) -> bool {
    let server = &entry.server;
    let Reach::Launch(Launch { program, args, cwd, .. }) = &server.reach else { return false };
    let cwd = cwd.as_deref().or(environment.cwd.as_deref()).unwrap_or(Path::new("/"));
    let is_own = self_reference::is_own(&program.to_string_lossy(), args, cwd, environment);
    if is_own {
        problems.push(
            Problem::new(
                Origin::File(server.source.clone()),
                "would start this bridge as its own server, and is skipped",
            )
            .severity(Severity::Note)
            .at(entry.position)
            .key(format!("mcpServers.{}", server.name))
            .hint("MCP_BRIDGE_ALLOW_SELF_SERVER=1 allows it"),
        );
    }
    is_own
}

/// Servers whose name stands in one file only.
fn unique(entries: Vec<Entry>, problems: &mut Vec<Problem>) -> Vec<ServerConfig> {
    let mut by_name: BTreeMap<ServerName, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        by_name.entry(entry.server.name.clone()).or_default().push(entry);
    }
    let mut servers = Vec::new();
    for (name, mut entries) in by_name {
        if let ([_, others @ ..], false) = (entries.as_slice(), entries.len() < 2) {
            let places: Vec<String> = others
                .iter()
                .map(|Entry { server, position: Position { line, column } }| {
                    format!("{}:{line}:{column}", server.source.display())
                })
                .collect();
            let message = format!("is defined in {} too, and none of them is used", places.join(" and "));
            problems.push(
                Problem::new(Origin::File(entries[0].server.source.clone()), message)
                    .at(entries[0].position)
                    .key(format!("mcpServers.{name}"))
                    .hint("rename or remove one"),
            );
        } else {
            servers.extend(entries.pop().map(|entry| entry.server));
        }
    }
    servers
}
