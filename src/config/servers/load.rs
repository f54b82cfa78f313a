//! Collects the servers of all configuration files. If entries of several levels have the same name, the first level
//! counts. If one level has two valid entries with the same name, neither counts, so that neither file names nor times
//! decide.
//!
//! It starts nothing and connects to nothing: a server is data until its first use.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::problem::{OF_FILE_MAX, Origin, Problem, Severity};
use belljar_base::programs::{find_program, searched_folders};
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::text::suggest;
use belljar_confine::{ChangeablePlaces, PrivatePlaces, ServerSandbox};
use belljar_guard::PARENT_VARIABLE;

use super::entry::Entry;
use super::precedence::{self, Level};
use super::reading::{Reading, Section};
use super::self_reference;
use super::server::{RefusedServer, ServerConfig};
use super::transport::{Launch, SandboxChoice, Transport};
use crate::clients::{Member, Node, read_json};
use crate::config::read::changeable::{misled, of_configuration, shown_path};
use crate::config::read::environment::{Environment, Nesting};
use crate::config::read::file;
use crate::config::read::file::WatchedFile;
use crate::config::read::line_index::LineIndex;
use crate::config::read::references::{Commands, Files, Sources};
use crate::config::read::trust::Trust;
use crate::config::settings::choices::{AllowCommands, SandboxServers, SelfServers};
use crate::config::settings::mounts::CODE;
use crate::config::settings::toml_file::{self, FileOwner, ServerTable, TomlFile, project_folder};

/// The endings of names of scripts, and of files that programs load and execute.
const SCRIPTS: [&str; 21] = [
    "bash", "cjs", "cts", "dll", "exs", "go", "jar", "js", "lua", "mjs", "mts", "php", "pl", "ps1", "py",
    "pyz", "rb", "sh", "ts", "tsx", "zsh",
];
/// Programs whose first argument that is no option, nor one of [`VERBS`], is a script, a package or a folder that they run.
const RUNNERS: [&str; 23] = [
    "bash", "bun", "bunx", "cargo", "deno", "dotnet", "elixir", "go", "java", "node", "npm", "npx", "perl",
    "php", "pipx", "pnpm", "python", "ruby", "sh", "tsx", "uv", "uvx", "yarn",
];
const VERBS: [&str; 6] = ["dlx", "exec", "run", "start", "tool", "x"];

/// The operator's rules for the entries of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryRules<'p> {
    pub(crate) self_servers: SelfServers,
    pub(crate) commands: AllowCommands,
    pub(crate) sandbox_servers: SandboxServers,
    /// The problem with the setting that confines servers. While there is one, entries without a `sandbox` are not
    /// used.
    pub(crate) unconfined: Option<&'p Problem>,
    /// The files and folders that a server gets only if its entry names them.
    pub(crate) private: &'p PrivatePlaces,
    /// The places of the host that code can change.
    pub(crate) of_code: &'p [PathBuf],
    /// Folders that code should be able to change and is not given, since belljar's own files are, contain or lie in them.
    pub(crate) conflicting: &'p [PathBuf],
    /// The places that code and confined servers could change earlier. A sandbox or a server may still
    /// run and change these, and what it wrote is there.
    pub(crate) formerly: &'p ChangeablePlaces,
    /// The places that any belljar of the user has given them so far.
    pub(crate) recorded: &'p ChangeablePlaces,
    /// The reason for which those are not known. No entry is used then.
    pub(crate) unknown_places: Option<&'p Problem>,
}

/// The servers of all files, with everything that the next reload needs.
#[derive(Default)]
pub(crate) struct LoadedServers {
    /// Sorted by name.
    pub(crate) servers: Vec<ServerConfig>,
    /// The names of all servers of the user's and trusted files, also of those that cannot be used.
    pub(crate) names: Vec<ServerName>,
    /// Sorted by name; no name of `servers`.
    pub(crate) refused: Vec<RefusedServer>,
    /// The files that references have led to.
    pub(crate) files: Vec<WatchedFile>,
    /// The environment variables that entries refer to, including entries that are not used.
    pub(crate) variables: BTreeSet<String>,
    pub(crate) entries: EntriesByFile,
    /// The problems with files that could not be read.
    pub(crate) unread: Vec<Problem>,
    /// The places that confined servers and code can change.
    pub(crate) given: ChangeablePlaces,
    /// The `given` ones, and those of earlier.
    pub(crate) lasting: ChangeablePlaces,
    /// The `lasting` ones, and the places that code should be able to change and is not given.
    pub(crate) changeable: ChangeablePlaces,
}

/// The entries of each file as they were when the file could be read last.
pub(crate) type EntriesByFile = BTreeMap<PathBuf, Vec<(Level, Entry)>>;

/// Reads the bytes of one configuration file: the valid servers in the file's order, each name once, and the problems
/// with the rest. Nothing is opened or run: `path` only resolves relative paths and is named in problems.
#[must_use]
pub fn servers_of_file(
    environment: &Environment,
    limits: &Limits,
    path: &Path,
    bytes: Vec<u8>,
) -> (Vec<ServerConfig>, Vec<Problem>) {
    let mut problems = Vec::new();
    let private = &PrivatePlaces::default();
    let sources = Sources { environment, limits, files: Files::Closed, commands: Commands::Refused, private };
    let entries = entries_of(&sources, path, bytes, &mut problems, &mut Vec::new()).unwrap_or_default();
    (entries.into_iter().filter_map(|entry| entry.read.ok()).map(|server| *server).collect(), problems)
}

/// Loads the servers of a project's and the user's config.toml, of `~/MCPs/*.json`, and of MCP_SERVERS_CONFIG. A file
/// that cannot be read now keeps its entries from `before`.
pub(crate) fn load(
    environment: &Environment,
    limits: &Limits,
    rules: EntryRules<'_>,
    (tables, before): (&[TomlFile], &EntriesByFile),
    problems: &mut Vec<Problem>,
) -> LoadedServers {
    if environment.nesting() == Nesting::Nested {
        let message = "is set: this bridge was started by another one and loads no servers, so that none can call itself";
        problems.push(Problem::new(Origin::Variable(PARENT_VARIABLE.to_owned()), message));
        let given = ChangeablePlaces::new(changeable([].into_iter(), rules.of_code));
        let lasting = given.and(rules.formerly);
        let changeable = lasting.and(&ChangeablePlaces::new(changeable([].into_iter(), rules.conflicting)));
        return LoadedServers { given, lasting, changeable, ..LoadedServers::default() };
    }
    let commands = match rules.commands {
        AllowCommands::Yes => Commands::Later,
        AllowCommands::No => Commands::Refused,
    };
    let (paths, unlisted) = json_files(environment, limits, problems);
    let sources = Sources { environment, limits, files: Files::Read, commands, private: rules.private };
    let mut files = Vec::new();
    let (mut entries_by_file, mut unread) = (EntriesByFile::new(), Vec::new());
    let mut untrusted = Vec::new();
    for file in tables {
        if file.owner == FileOwner::User {
            unread.extend(file.unread.clone());
            let is_unread = file.unread.is_some() || toml_file::is_emptied(environment);
            if let (true, Some(before)) = (is_unread, before.get(&file.path)) {
                entries_by_file.insert(file.path.clone(), before.clone());
                continue;
            }
        }
        let Some(table) = &file.servers else { continue };
        let level = match file.owner {
            FileOwner::User => Level::User,
            FileOwner::Project(Trust::Trusted) => Level::Project,
            FileOwner::Project(trust) => {
                untrusted.extend(not_trusted(&file.path, table, trust, problems));
                continue;
            }
        };
        let entries = of_table(&sources, &file.path, table, problems, &mut files);
        entries_by_file.insert(file.path.clone(), entries.map(|entry| (level, entry)).collect());
    }
    unread.extend(unlisted.iter().map(|(_, problem)| problem.clone()));
    for (level, path) in paths {
        let problems_before = problems.len();
        let read = match file::read(&path, environment.uid, limits) {
            Ok(bytes) => entries_of(&sources, &path, bytes, problems, &mut files),
            Err(problem) => {
                problems.push(*problem);
                None
            }
        };
        if read.is_none() {
            unread.extend(problems.get(problems_before).cloned());
        }
        let entries = match read {
            Some(entries) => entries.into_iter().map(|entry| (level, entry)).collect(),
            None => before.get(&path).cloned().unwrap_or_default(),
        };
        entries_by_file.insert(path, entries);
    }
    for (path, entries) in before {
        if unlisted.iter().any(|(folder, _)| path.parent() == Some(folder)) {
            entries_by_file.insert(path.clone(), entries.clone());
        }
    }
    let mut entries: Vec<(Level, Entry)> = entries_by_file.values().flatten().cloned().collect();
    if rules.self_servers == SelfServers::Skip {
        for (_, entry) in &mut entries {
            refuse_own(environment, entry, problems);
        }
    }
    if let Some(problem) = rules.unknown_places {
        entries.iter_mut().for_each(|(_, entry)| entry.read = Err(format!("is not used: {problem}")));
    }
    if let Some(problem) = rules.unconfined {
        entries.iter_mut().for_each(|(_, entry)| refuse_unconfined(entry, problem));
    }
    let of_servers = entries.iter().map(|(_, entry)| entry);
    let earlier = rules.formerly.and(rules.recorded);
    let given = ChangeablePlaces::new_beside(&earlier, changeable(of_servers, rules.of_code));
    let lasting = given.and(rules.formerly);
    let changeable = lasting.and(&ChangeablePlaces::new(changeable([].into_iter(), rules.conflicting)));
    let everything = changeable.and(rules.recorded);
    let of_files = |(path, of_file): (&PathBuf, &Vec<(Level, Entry)>)| {
        // What a project's file says counts only while the user trusts its bytes.
        let is_users = of_file.iter().all(|(level, _)| *level != Level::Project);
        Some((path.clone(), of_configuration(&everything, path).filter(|_| is_users)?))
    };
    let misled_files: BTreeMap<PathBuf, Problem> = entries_by_file.iter().filter_map(of_files).collect();
    problems.extend(misled_files.values().cloned());
    let projects = environment.projects();
    for (_, entry) in &mut entries {
        if let Some(problem) = misled_files.get(&entry.path) {
            entry.read = Err(format!("cannot be used: {problem}"));
        }
        refuse_misled(entry, &projects, &everything, problems);
        if let Ok(server) = &entry.read
            && let Transport::Launch(launch) = &server.transport
        {
            let sandbox = launch.sandbox.resolved(rules.sandbox_servers);
            problems.extend(replaced_program(environment, entry, (launch, sandbox.as_ref()), &everything));
        }
        if let Ok(server) = &mut entry.read
            && let Some(deferred) = &mut server.deferred
        {
            deferred.set_changeable(&everything);
        }
    }
    let variables = entries.iter().flat_map(|(_, entry)| entry.variables.iter().cloned()).collect();
    let (mut servers, mut refused) = precedence::first(entries, problems);
    if servers.len() > limits.servers_max {
        let message =
            format!("{} servers are configured, more than the {} allowed", servers.len(), limits.servers_max);
        problems.push(Problem::of_file(&servers[limits.servers_max].source, message));
        servers.truncate(limits.servers_max);
    }
    let is_known = |name: &_| {
        servers.iter().any(|server| server.name == *name)
            || refused.iter().any(|refused| refused.name == *name)
    };
    let names = servers.iter().map(|server| &server.name).chain(refused.iter().map(|refused| &refused.name));
    let names = names.cloned().collect();
    untrusted.retain(|server: &RefusedServer| !is_known(&server.name));
    refused.extend(untrusted);
    refused.sort_by(|one, other| one.name.cmp(&other.name));
    LoadedServers {
        servers,
        refused,
        names,
        files,
        variables,
        entries: entries_by_file,
        unread,
        given,
        lasting,
        changeable,
    }
}

/// The places of JSON files: the user's folder, and the folder or file that MCP_SERVERS_CONFIG names.
pub(crate) fn places(environment: &Environment) -> Vec<PathBuf> {
    let own = environment.home.as_ref().map(|home| home.join("MCPs"));
    let named = environment.variable("MCP_SERVERS_CONFIG").map(|named| match named.to_str() {
        Some(text) => environment.resolve(text.trim(), environment.cwd.as_deref()),
        None => PathBuf::from(named),
    });
    own.into_iter().chain(named).collect()
}

/// The files to read, each once even if several paths lead to it, and the folders that cannot be listed.
fn json_files(environment: &Environment, limits: &Limits, problems: &mut Vec<Problem>) -> JsonFiles {
    let (mut paths, mut unlisted) = (Vec::new(), Vec::new());
    for (index, place) in places(environment).into_iter().enumerate() {
        let is_own = index == 0 && environment.home.is_some();
        let level = if is_own { Level::Folder } else { Level::Named };
        if is_own || place.is_dir() {
            match file::listed(&place, environment.uid, limits) {
                Ok(found) => paths.extend(found.into_iter().map(|path| (level, path))),
                Err(problem) => {
                    problems.push((*problem).clone());
                    unlisted.push((place, *problem));
                }
            }
        } else if file::is_absent(&place) {
            let message = format!("names {}, which does not exist", place.display());
            problems.push(Problem::new(Origin::Variable("MCP_SERVERS_CONFIG".to_owned()), message));
        } else {
            paths.push((level, place));
        }
    }
    let mut seen = Vec::new();
    paths.retain(|(_, path)| {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let is_new = !seen.contains(&real);
        seen.push(real);
        is_new
    });
    (paths, unlisted)
}

type JsonFiles = (Vec<(Level, PathBuf)>, Vec<(PathBuf, Problem)>);

fn of_table(
    sources: &Sources<'_>,
    path: &Path,
    table: &ServerTable,
    problems: &mut Vec<Problem>,
    files: &mut Vec<WatchedFile>,
) -> impl Iterator<Item = Entry> {
    let mut reading = Reading::new(sources, path, &table.text, Section::Servers, problems);
    let mut entries: Vec<Entry> = table.members.iter().filter_map(|member| reading.entry(member)).collect();
    files.append(&mut reading.end());
    if let Some(defect) = &table.defect {
        // The part that cannot be read may belong to an entry, for example its `sandbox`.
        for entry in &mut entries {
            entry.read = Err(format!("cannot be used: {defect}"));
        }
    }
    entries.into_iter()
}

/// Refuses the servers of a project's file that the user does not trust, and reports each.
fn not_trusted(
    path: &Path,
    table: &ServerTable,
    trust: Trust,
    problems: &mut Vec<Problem>,
) -> Vec<RefusedServer> {
    let because = trust.because();
    let folder = project_folder(path).display();
    let mut refused = Vec::new();
    let places = LineIndex::new(&table.text);
    let origin = || Origin::File(path.to_owned());
    problems.extend(Problem::untold(origin(), table.members.len().saturating_sub(OF_FILE_MAX)));
    for member in table.members.iter().take(OF_FILE_MAX) {
        let Ok(name) = belljar_base::names::ServerName::new(&member.key) else { continue };
        let position = places.position(member.at);
        let problem = Problem::new(origin(), format!("is not taken from a project {because}"))
            .severity(Severity::Warning)
            .at(position)
            .key(format!("{}.{}", Section::Servers.name(), member.key))
            .hint(format!("read the file, then run `belljar config trust` in {folder}"));
        let reason = format!("is not used: {problem}");
        refused.push(RefusedServer { name, source: path.to_owned(), position, reason });
        problems.push(problem);
    }
    refused
}

/// The entries of a JSON file; `None` if it has no readable ones, which is reported.
fn entries_of(
    sources: &Sources<'_>,
    path: &Path,
    bytes: Vec<u8>,
    problems: &mut Vec<Problem>,
    files: &mut Vec<WatchedFile>,
) -> Option<Vec<Entry>> {
    let text: Arc<str> = match file::text(path, bytes) {
        Ok(text) => text.into(),
        Err(problem) => {
            problems.push(*problem);
            return None;
        }
    };
    let mut reading = Reading::new(sources, path, &text, Section::McpServers, problems);
    let root = match read_json(&text, sources.limits.json_depth_max) {
        Ok(root) => root,
        Err(defect) => {
            reading.push(Severity::Error, (defect.at, ""), defect.message, defect.hint);
            return None;
        }
    };
    let Node::Table(members) = &root.node else {
        let message = format!("must be an object with \"mcpServers\", not {}", root.kind());
        reading.report(root.at(), "", message);
        return None;
    };
    let mut found = members.iter().filter(|member| member.key == "mcpServers");
    let Some(servers) = found.next() else {
        let near = members.iter().map(|member| member.key.as_str()).find(|key| is_nearly_servers(key));
        let hint = match near {
            Some(near) => format!("rename {near:?} to \"mcpServers\""),
            None => "write {\"mcpServers\": {NAME: {\"command\": ...}}}".to_owned(),
        };
        reading.push(Severity::Error, (root.at(), ""), "has no \"mcpServers\"", &hint);
        return None;
    };
    if let Some(second) = found.next() {
        let message = format!("is repeated; it stands on line {} too", reading.position(servers.at).line);
        reading.report(second.at, "mcpServers", message);
        return None;
    }
    let Node::Table(entries_of_file) = &servers.value.node else {
        let message = format!("must be an object, not {}", servers.value.kind());
        reading.report(servers.value.at(), "mcpServers", message);
        return None;
    };
    let about = members.iter().find(|member| member.key == "description").map(|member| &member.value.node);
    let mut entries = named_once(&mut reading, entries_of_file);
    if let Some(slip) =
        members.iter().find(|member| member.key != "mcpServers" && is_nearly_servers(&member.key))
    {
        let message = "is no key that belljar knows, and its entries are not read";
        reading.push(Severity::Warning, (slip.at, &slip.key), message, "did you mean \"mcpServers\"?");
    }
    // It was meant for all entries, and none of them may be looser than that.
    // Clients have a `sandbox` of their own beside the servers, which is no table and mostly off.
    let of_file = |member: &&Member| matches!(member.value.node, Node::Table(_) | Node::Bool(true));
    let of_entries = |member: &&Member| match &member.value.node {
        Node::Table(keys) => !keys.iter().any(|key| ["command", "url", "type"].contains(&key.key.as_str())),
        _ => true,
    };
    let is_sandbox = |member: &&Member| member.key == "sandbox";
    let beside = members.iter().filter(is_sandbox).find(of_file);
    let misplaced = beside.or_else(|| entries_of_file.iter().filter(is_sandbox).find(of_entries));
    let misplaced = misplaced.map(|member| reading.position(member.at));
    files.append(&mut reading.end());
    if let Some(position) = misplaced {
        let problem = Problem::of_file(path, "is no key of this place").at(position).key("sandbox");
        entries.iter_mut().for_each(|entry| refuse_unconfined(entry, &problem));
        problems.push(
            problem.hint("write it into each entry, or `sandbox = true` below [servers] of config.toml"),
        );
    }
    if let Some(Node::Text(about)) = about {
        for server in entries.iter_mut().filter_map(|entry| entry.read.as_mut().ok()) {
            server.description.get_or_insert_with(|| about.clone());
        }
    }
    Some(entries)
}

fn is_nearly_servers(key: &str) -> bool {
    key == "servers" || suggest::is_like(key, "mcpServers")
}

/// The entries of one file. A name that is repeated in it gives one entry that is refused.
fn named_once(reading: &mut Reading<'_>, members: &[Member]) -> Vec<Entry> {
    let mut by_name: BTreeMap<&str, Vec<&Member>> = BTreeMap::new();
    for member in members {
        by_name.entry(&member.key).or_default().push(member);
    }
    let mut entries = Vec::new();
    for member in members {
        match by_name[member.key.as_str()].as_slice() {
            [_] => entries.extend(reading.entry(member)),
            [first, second, ..] if std::ptr::eq(*second, member) => {
                let line = reading.position(first.at).line;
                let message = format!("is repeated; it stands on line {line} too, and neither is used");
                entries.extend(reading.refused(member, &message));
            }
            _ => {}
        }
    }
    entries
}

/// Refuses an entry that would start this bridge.
fn refuse_own(environment: &Environment, entry: &mut Entry, problems: &mut Vec<Problem>) {
    let Ok(server) = &entry.read else { return };
    let Transport::Launch(launch) = &server.transport else { return };
    let (program, folder) = (launch.program.to_string_lossy(), launch.folder(environment));
    if !self_reference::is_own(&program, &launch.args, &folder, environment) {
        return;
    }
    let message = "would start this bridge as its own server, and is skipped";
    let problem = Problem::of_file(&server.source, message)
        .severity(Severity::Note)
        .at(entry.position)
        .key(entry.key.clone())
        .hint("MCP_BRIDGE_ALLOW_SELF_SERVER=1 allows it");
    entry.read = Err(format!("is not used: {problem}"));
    problems.push(problem);
}

/// The description of a confined server.
fn confined_server(name: &ServerName) -> String {
    format!("the confined server '{name}'")
}

/// The paths that confined servers and code can change, each with a description of the process.
fn changeable<'e>(entries: impl Iterator<Item = &'e Entry>, of_code: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let servers = entries.filter_map(|entry| match &entry.read.as_ref().ok()?.transport {
        Transport::Launch(Launch { sandbox: SandboxChoice::Yes(sandbox), .. }) => Some((entry, sandbox)),
        _ => None,
    });
    let of_servers = servers.flat_map(|(entry, sandbox)| {
        let who = confined_server(&entry.name);
        sandbox.write.iter().map(move |folder| (who.clone(), folder.clone()))
    });
    of_servers.chain(of_code.iter().map(|place| (CODE.to_owned(), place.clone()))).collect()
}

/// Refuses an entry that names a file which a confined server or code could replace, or whoever sends the files of the
/// project.
fn refuse_misled(
    entry: &mut Entry,
    projects: &[PathBuf],
    changeable: &ChangeablePlaces,
    problems: &mut Vec<Problem>,
) {
    let misled = entry.named.iter().find_map(|file| misled(changeable, projects, file));
    if let (Ok(_), Some((message, hint))) = (&entry.read, misled) {
        let problem = Problem::of_file(&entry.path, message);
        let problem = problem.at(entry.position).key(entry.key.clone()).hint(hint);
        entry.read = Err(format!("cannot be used: {problem}"));
        problems.push(problem);
    }
}

/// The warning that others can change the program, a script or the working folder of a server that has all rights of
/// the user, or rights that its entry names. What a program loads from its working folder is not known, so each one counts.
fn replaced_program(
    environment: &Environment,
    entry: &Entry,
    (launch, sandbox): (&Launch, Option<&ServerSandbox>),
    changeable: &ChangeablePlaces,
) -> Option<Problem> {
    let rights = if sandbox.is_none() { "all your rights" } else { "what its entry gives it" };
    let changeable = changeable.of_others(&confined_server(&entry.name));
    let folder = launch.folder(environment);
    let own_path = launch.env.iter().find(|(name, _)| *name == "PATH").map(|(_, value)| OsStr::new(value));
    let path = own_path.or(environment.variable("PATH"));
    let home = environment.home.as_deref();
    let program =
        find_program(&launch.program, path, &folder, home).unwrap_or_else(|| folder.join(&launch.program));
    let searched = searched_folders(&launch.program, path, &folder, home);
    let name = launch.program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_runner = RUNNERS.contains(&name.trim_end_matches(|of: char| of.is_ascii_digit() || of == '.'));
    let is_option = |arg: &str| arg.starts_with('-') || VERBS.contains(&arg);
    let first = launch.args.iter().position(|arg| !is_option(arg)).filter(|_| is_runner);
    let values = launch.args.iter().enumerate().flat_map(|(at, arg)| {
        let value = arg.split_once('=').map(|(_, value)| (false, value));
        value.into_iter().chain([(first == Some(at), arg.as_str())])
    });
    let scripts = values
        .map(|(is_run, value)| (is_run, folder.join(value.strip_prefix("file://").unwrap_or(value))))
        .filter_map(|(is_run, path)| (is_run || is_script(&path)).then_some(path));
    let run = [program].into_iter().chain(searched).chain(scripts).map(|path| ("runs", path));
    // A confined server without a folder in its entry starts in one of its own.
    let starts_in = (sandbox.is_none() || launch.cwd.is_some()).then(|| ("starts in", folder.clone()));
    let replaced = run.chain(starts_in).find_map(|(does, path)| {
        let way = ResolvedPath::of(&path);
        let (who, place) = changeable.changed_in(&way)?;
        Some(format!(
            "{does} {} with {rights}, and {who} can change {}",
            shown_path(&path),
            shown_path(place)
        ))
    })?;
    let problem = Problem::of_file(&entry.path, replaced).severity(Severity::Warning).at(entry.position);
    let apart = "keep it outside of what servers and code can change";
    Some(problem.key(entry.key.clone()).hint(match sandbox {
        None => format!("{apart}, or add `sandbox = true`"),
        Some(_) => apart.to_owned(),
    }))
}

/// Whether an argument of a server's command is most likely a script. One that is missing now can be there when the server is
/// started.
fn is_script(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_named = SCRIPTS.contains(&ending.to_ascii_lowercase().as_str());
    match path.metadata() {
        Ok(about) => about.is_file() && (about.mode() & 0o111 != 0 || is_named),
        Err(_) => is_named,
    }
}

/// Refuses an entry without a `sandbox` while the setting that would confine its server cannot be read.
fn refuse_unconfined(entry: &mut Entry, problem: &Problem) {
    let Ok(server) = &entry.read else { return };
    if let Transport::Launch(Launch { sandbox: SandboxChoice::Default, .. }) = &server.transport {
        // The hint explains the setting, which is for the user only.
        let problem = Problem { hint: String::new(), ..problem.clone() };
        let reason = "is not started, since what confines all servers cannot be read and its entry has no sandbox of its own";
        entry.read = Err(format!("{reason}: {problem}"));
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
