//! Plans the content of the files below `~/MCPs`: every server once, under a unique name, with everything that the user
//! has added there.
//!
//! It writes nothing: the caller writes each [`Change`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::problem::{Position, Problem, Severity};
use belljar_base::real_file::RealFile;
use belljar_base::text;
use belljar_tools::catalog::server_aliases;
use serde_json::{Map, Value as Json, json};
use similar::TextDiff;

use super::file;
use super::formats::format::Format;
use super::known_clients::{ClientServer, ClientServers};
use super::translate::secrets;

/// The key with the folder of the project from whose file an entry was imported. It has no effect on the server.
const PROJECT: &str = "project";
/// Keys that only belljar has, and the working folder. If a user has added them to an imported entry, they stay.
const OWN_KEYS: [&str; 15] = [
    "cwd",
    "env_inherit",
    "envInherit",
    "start_timeout",
    "startTimeout",
    "timeout",
    "max_concurrency",
    "maxConcurrency",
    "allow",
    "deny",
    "sandbox",
    "sandbox_files",
    "sandboxFiles",
    "private",
    "description",
];

/// The longest Python name that is compared, in bytes.
const ALIAS_BYTES_MAX: usize = 128;

/// A file that is to be written.
#[derive(Debug)]
pub struct Change {
    /// The path of the file.
    pub path: PathBuf,
    real: RealFile,
    /// Its earlier text; `None`: the file is new.
    before: Option<String>,
    after: String,
    shown: DiffText,
}

impl Change {
    /// The change as a diff, without secrets.
    #[must_use]
    pub fn diff(&self) -> &str {
        &self.shown.text
    }

    /// Whether the diff is complete.
    #[must_use]
    pub fn is_shown_whole(&self) -> bool {
        self.shown.is_whole
    }

    /// Writes the file. Only the user can read the file, and the folders that are created for it.
    ///
    /// # Errors
    /// The system refuses, or the file was changed after it was read.
    pub fn write(&self, uid: u32, limits: &Limits) -> io::Result<()> {
        let now = file::read_at(&self.real, &self.path, uid, limits);
        let now = now.map_err(|problem| io::Error::other(problem.message))?;
        if now != self.before {
            return Err(io::Error::other("it has been changed meanwhile; run the command again"));
        }
        self.real.replace(self.after.as_bytes())
    }
}

type Entry = Map<String, Json>;

/// The present file of one client below the folder.
struct Target {
    path: PathBuf,
    real: RealFile,
    text: Option<String>,
    file: Entry,
    servers: Entry,
    /// Servers in it that the client does not have, which stay.
    kept: Entry,
}

/// The confinement that new entries get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfinementChoice {
    /// New entries do not set the confinement.
    Nothing,
    /// Servers that a command starts are confined.
    Commands,
}

/// Plans the files that have to be written, so that the folder has these servers.
pub fn merge(
    found: Vec<ClientServers>,
    (folder, confinement): (&Path, ConfinementChoice),
    uid: u32,
    limits: &Limits,
) -> (Vec<Change>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut targets = Vec::new();
    for found in found {
        match target(&found, folder, uid, limits) {
            Ok(target) => targets.push((found, target)),
            Err(problem) => {
                problems.push(problem.hint("nothing is written to it; correct it or move it away"))
            }
        }
    }
    let own: Vec<&Path> = targets.iter().map(|(_, target)| target.path.as_path()).collect();
    let mut taken = names_elsewhere(folder, &own, uid, limits);
    for (_, target) in &targets {
        for (name, entry) in &target.kept {
            taken.insert(name.clone(), (entry.clone(), target.path.clone()));
        }
    }
    // The user's servers keep the names that they have, whichever client has a server of the same name, and those of projects
    // come last: a name stands for rights.
    let mut merged: Vec<BTreeMap<usize, (String, Json)>> = vec![BTreeMap::new(); targets.len()];
    for turn in 0..3 {
        for ((found, target), servers) in targets.iter().zip(&mut merged) {
            for (place, server) in found.servers.iter().enumerate() {
                let turn_of_it =
                    match (server.project.is_some(), former(server, found.client.name, target).is_some()) {
                        (false, true) => 0,
                        (false, false) => 1,
                        (true, _) => 2,
                    };
                if turn_of_it == turn
                    && let Some((name, entry)) =
                        named(server, found.client.name, target, &taken, &mut problems)
                {
                    let entry = Json::Object(confined(entry, confinement));
                    taken.insert(name.clone(), (entry.clone(), target.path.clone()));
                    servers.insert(place, (name, entry));
                }
            }
        }
    }
    let mut changes = Vec::new();
    for ((found, target), servers) in targets.into_iter().zip(merged) {
        let mut servers: Map<String, Json> = servers.into_values().collect();
        if !target.kept.is_empty() {
            let names: Vec<&str> = target.kept.keys().map(String::as_str).collect();
            let message = format!("keeps what {} does not have: {}", found.client.title, names.join(", "));
            problems.push(Problem::of_file(&target.path, message).severity(Severity::Note));
        }
        servers.extend(target.kept.iter().map(|(name, entry)| (name.clone(), entry.clone())));
        changes.extend(change(target, servers));
    }
    (changes, problems)
}

/// The names that are in use, each with its entry and the file that has it.
type TakenNames = BTreeMap<String, (Json, PathBuf)>;

fn target(found: &ClientServers, folder: &Path, uid: u32, limits: &Limits) -> Result<Target, Box<Problem>> {
    let path = folder.join(format!("{}.json", found.client.name));
    let real = RealFile::of(&path);
    let text = file::read_at(&real, &path, uid, limits)?;
    let mut file = Map::new();
    if let Some(text) = text.as_deref() {
        let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
        let read = Format::Json.read(bare, limits).map_err(|defect| {
            Box::new(Problem::of_file(&path, defect.message).at(Position::of(bare, defect.at)))
        })?;
        match read.to_json() {
            Json::Object(members) => file = members,
            _ => {
                let message = "must be an object with \"mcpServers\"";
                return Err(Box::new(Problem::of_file(&path, message)));
            }
        }
    }
    let servers = match file.get("mcpServers") {
        None => Map::new(),
        Some(Json::Object(servers)) => servers.clone(),
        Some(_) => {
            let problem = Problem::of_file(&path, "must be an object").key("mcpServers");
            return Err(Box::new(problem));
        }
    };
    let is_the_client_s = |name: &str, entry: &Json| {
        found.servers.iter().any(|server| is_former(server, found.client.name, (name, entry)))
    };
    let kept = servers.iter().filter(|(name, entry)| !is_the_client_s(name, entry));
    let kept = kept.map(|(name, entry)| (name.clone(), entry.clone())).collect();
    Ok(Target { path, real, text, file, servers, kept })
}

/// The names in all other files of the folder. Problems with these files are ignored: the reader of the configuration
/// reports them.
fn names_elsewhere(folder: &Path, own: &[&Path], uid: u32, limits: &Limits) -> TakenNames {
    let mut paths: Vec<PathBuf> =
        folder.read_dir().into_iter().flatten().filter_map(|item| Some(item.ok()?.path())).collect();
    paths.retain(|path| {
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        is_json && !own.contains(&path.as_path())
    });
    paths.sort();
    paths.truncate(limits.config_files_max);
    let mut taken = TakenNames::new();
    for path in paths {
        let Ok(Some(text)) = file::read(&path, uid, limits) else { continue };
        let Ok(read) = Format::Json.read(&text, limits) else { continue };
        for member in read.get("mcpServers").map(super::formats::spanned::Value::members).unwrap_or_default()
        {
            taken.entry(member.key.clone()).or_insert_with(|| (member.value.to_json(), path.clone()));
        }
    }
    taken
}

/// The server under a unique name; `None`: another file already has it.
fn named(
    server: &ClientServer,
    client: &str,
    target: &Target,
    taken: &TakenNames,
    problems: &mut Vec<Problem>,
) -> Option<(String, Entry)> {
    let former = former(server, client, target);
    // It keeps its name, by which rules and code know it.
    if let Some((name, there)) = former.filter(|(name, _)| !taken.contains_key(*name)) {
        return Some((name.clone(), with_own_keys(server, Some(there))));
    }
    let entry = with_own_keys(server, former.map(|(_, there)| there));
    let with_client = format!("{}-{client}", server.name);
    let numbered = (2..).map(|number| format!("{with_client}-{number}"));
    let candidates = [server.name.clone(), with_client.clone()].into_iter().chain(numbered);
    for name in candidates {
        // Nor does a project's server take the Python name that rules and code have for another one.
        let is_own = |taken: &str| target.servers.contains_key(taken) && taken == name;
        let has_alias = |taken: &&String| !is_own(taken) && alias(taken) == alias(&name);
        if server.project.is_some() && !taken.contains_key(&name) && taken.keys().any(|name| has_alias(&name))
        {
            continue;
        }
        match taken.get(&name) {
            None => {
                if ServerName::new(&name).is_err() {
                    let message = format!("is left out: {name:?} would be too long a name");
                    problems.push(problem(Severity::Warning, server, message));
                    return None;
                }
                if name != server.name {
                    let other = taken.get(&server.name).map(|(_, path)| path.display().to_string());
                    let message = format!(
                        "is imported as {name:?}, since {} has another server of that name",
                        other.unwrap_or_default()
                    );
                    problems.push(problem(Severity::Note, server, message));
                }
                return Some((name, entry));
            }
            Some((Json::Object(there), path))
                if is_same(there, &server.entry)
                    && (server.project.is_some() || project_of(there).is_none()) =>
            {
                let message = format!("is the same as {name:?} in {}, and stands there only", path.display());
                problems.push(problem(Severity::Note, server, message));
                return None;
            }
            Some(_) => {}
        }
    }
    None
}

fn problem(severity: Severity, server: &ClientServer, message: String) -> Problem {
    Problem::of_file(&server.path, message).severity(severity).key(server.name.clone())
}

/// The Python name of a server that is the only one.
fn alias(name: &str) -> String {
    server_aliases([name], ALIAS_BYTES_MAX).remove(name).unwrap_or_default()
}

/// The entry in the target that was imported from this server of the client before: of its name, or that says the same, or with
/// a name that was given to it.
fn former<'t>(server: &ClientServer, client: &str, target: &'t Target) -> Option<(&'t String, &'t Json)> {
    let all = || target.servers.iter().filter(|(name, entry)| is_former(server, client, (name, entry)));
    let is_equal = |entry: &Json| entry.as_object().is_some_and(|entry| is_same(entry, &server.entry));
    all()
        .find(|(name, _)| **name == server.name)
        .or_else(|| all().find(|(_, entry)| is_equal(entry)))
        .or_else(|| all().next())
}

/// Whether an entry below the folder may be that of this server of the client. A project's server takes over only an entry of that
/// project, since another one has rights that the user gave to another server. The user's own server takes over none of a
/// project's, in which a stranger may have chosen the folder.
fn is_former(server: &ClientServer, client: &str, (name, entry): (&str, &Json)) -> bool {
    let Some(entry) = entry.as_object() else { return false };
    let numbered = name.strip_prefix(&format!("{}-{client}", server.name));
    let has_name = server.name == name
        || numbered
            .is_some_and(|rest| rest.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()));
    project_of(entry) == server.project.as_deref() && (has_name || is_same(entry, &server.entry))
}

/// The folder of the project from whose file an entry was imported; `None`: it was imported from a file of the user's, or the user
/// has written it.
fn project_of(entry: &Entry) -> Option<&str> {
    entry.get(PROJECT).and_then(Json::as_str)
}

/// Whether both are the same server. Keys that belljar's user may have added do not count.
fn is_same(one: &Entry, other: &Entry) -> bool {
    let bare = |entry: &Entry| {
        let mut entry = entry.clone();
        entry.retain(|key, _| !OWN_KEYS.contains(&key.as_str()));
        entry.remove("disabled");
        entry.remove(PROJECT);
        entry
    };
    bare(one) == bare(other)
}

/// The entry, with the [`OWN_KEYS`] of the former entry that it does not set. A project's server that says something else than
/// before keeps only what limits it.
fn with_own_keys(server: &ClientServer, former: Option<&Json>) -> Entry {
    let mut entry = server.entry.clone();
    let former = former.and_then(Json::as_object);
    let is_other = server.project.is_some() && former.is_some_and(|former| !is_same(former, &server.entry));
    for (key, value) in former.into_iter().flatten() {
        // A server that the user has switched off here stays switched off.
        let is_switched_off = key == "disabled" && *value == Json::Bool(true);
        if !(OWN_KEYS.contains(&key.as_str()) || is_switched_off) || entry.contains_key(key) {
            continue;
        }
        let value = match key.as_str() {
            "env_inherit" | "envInherit" | "allow" | "sandbox_files" | "sandboxFiles" if is_other => continue,
            "sandbox" if is_other && *value == Json::Bool(false) => continue,
            "sandbox" if is_other => Json::Bool(true),
            _ => value.clone(),
        };
        entry.insert(key.clone(), value);
    }
    if let Some(project) = &server.project {
        entry.insert(PROJECT.into(), project.clone().into());
    }
    entry
}

/// The entry with the chosen confinement, unless it sets one itself.
fn confined(mut entry: Entry, confinement: ConfinementChoice) -> Entry {
    if confinement == ConfinementChoice::Commands
        && entry.contains_key("command")
        && !entry.contains_key("sandbox")
    {
        entry.insert("sandbox".into(), Json::Bool(true));
    }
    entry
}

/// The change to a file with these servers; `None`: the file has them already.
fn change(target: Target, servers: Entry) -> Option<Change> {
    let is_as_before = target.servers == servers && (target.text.is_some() || servers.is_empty());
    if is_as_before {
        return None;
    }
    let before = (target.text.is_some()).then(|| Json::Object(target.file.clone()));
    let mut file = target.file;
    file.insert("mcpServers".into(), Json::Object(servers));
    let file = Json::Object(file);
    let shown_before = before.as_ref().map(|before| format!("{:#}\n", secrets::shown_file(before, None)));
    let shown = format!("{:#}\n", secrets::shown_file(&file, before.as_ref().or(Some(&json!({})))));
    Some(Change {
        path: target.path,
        real: target.real,
        before: target.text,
        after: format!("{file:#}\n"),
        shown: compared(&shown_before.unwrap_or_default(), &shown, 3),
    })
}

/// The longest diff that is shown, in characters. The end of a longer one is replaced by a mark.
const CHARS_MAX: usize = 64 * 1024;

/// The changed lines with `around` unchanged ones on each side, bounded and harmless to show; empty if nothing changes.
#[must_use]
pub fn diff(before: &str, after: &str, around: usize) -> String {
    compared(before, after, around).text
}

/// The text of a diff.
#[derive(Debug)]
pub(super) struct DiffText {
    pub(super) text: String,
    /// Whether the text is the whole diff.
    pub(super) is_whole: bool,
}

/// The diff as [`diff`] returns it, with the information whether it is whole.
pub(super) fn compared(before: &str, after: &str, around: usize) -> DiffText {
    let diff = TextDiff::from_lines(before, after);
    let shown = diff.unified_diff().context_radius(around).missing_newline_hint(false).to_string();
    let whole = text::inert(&shown);
    let text = text::bounded(&whole, CHARS_MAX).into_owned();
    DiffText { is_whole: text == whole, text }
}
