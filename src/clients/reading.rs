//! Reads the servers from clients' files. Each one is translated, or named with the reason why it is not.
//!
//! It writes nothing, starts nothing, and prints nothing itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::problem::{Position, Problem, Severity};
use serde_json::{Map, Value as Json};

use super::claude_switches::{switched_off_in, switched_off_of_project};
use super::formats::spanned::{Member, Node, Value};
use super::known_clients::{Client, ClientServer, ClientServers, Layout, OwnCommandCheck};
use super::over_http::HttpForm;
use super::own_entry::OWN_NAME;
use super::places::{ClientFile, Scope, Surroundings};
use super::translate::entry;
use super::translate::redact_keeping_references::{part_with_references, references, shown_reference};
use super::translate::references::{Context, escaped, is_literal};
use super::translate::translator::Translation;
use super::{file, opencode_switches};

/// The files that are read.
#[derive(Debug, Clone, Copy)]
pub enum Files<'f> {
    /// The files of the user.
    OfUser,
    /// The files of the user, and those of the project in the working folder.
    WithProject,
    /// This file.
    One(&'f Path),
}

/// The note on belljar's own entry.
const IS_BELLJAR: &str = "is belljar itself, and left out";
/// The largest number of servers of one table that are read.
const SERVERS_MAX: usize = 5_000;

/// Reads the servers of a client.
pub fn read_client(
    client: &'static Client,
    files: Files<'_>,
    surroundings: &Surroundings,
    limits: &Limits,
    is_own: OwnCommandCheck<'_>,
) -> (ClientServers, Vec<Problem>) {
    let files = match files {
        Files::OfUser => client.files(surroundings, Scope::User),
        Files::WithProject => {
            let mut files = client.files(surroundings, Scope::User);
            let of_project = client.files(surroundings, Scope::Project);
            // In the home folder, the user's and the project's file may be the same.
            let is_new = |file: &ClientFile| files.iter().all(|other| other.path != file.path);
            let of_project: Vec<ClientFile> = of_project.into_iter().filter(is_new).collect();
            files.extend(of_project);
            files
        }
        Files::One(path) => vec![client.file_given(path, surroundings)],
    };
    let mut found = ClientServers { client, servers: Vec::new(), read: Vec::new(), has_belljar: false };
    let mut problems = Vec::new();
    for of_client in files {
        let Some(real) = of_client.real() else {
            if of_client.path.symlink_metadata().is_ok() {
                let message = "leads out of the project by a symbolic link, so it is not read";
                problems.push(Problem::of_file(&of_client.path, message));
            }
            continue;
        };
        match file::read_at(&real, &of_client.path, surroundings.uid, limits) {
            Ok(None) => {}
            Ok(Some(text)) => {
                found.read.push(of_client.path.clone());
                let switched_off = match switched_off_elsewhere(client, &of_client, surroundings, limits) {
                    Ok(names) => names,
                    // Without these names, servers that the user has switched off would be imported.
                    Err(problem) => {
                        problems.push(*problem);
                        continue;
                    }
                };
                let (file, elsewhere) = (&of_client, switched_off.as_slice());
                let reading = Reading { client, file, text: &text, surroundings, is_own, elsewhere };
                reading.read(limits, &mut found.servers, &mut problems);
            }
            Err(problem) => problems.push(*problem),
        }
    }
    found.has_belljar = problems.iter().any(|problem| problem.message == IS_BELLJAR);
    (found, problems)
}

/// Reads the bytes of one file of a client; it opens no file.
pub fn servers_of_client_file(
    client: &'static Client,
    path: &Path,
    text: &str,
    surroundings: &Surroundings,
    limits: &Limits,
) -> (Vec<ClientServer>, Vec<Problem>) {
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    let file = client.file_given(path, surroundings);
    let (file, is_own) = (&file, &|_: &str, _: &[String]| false);
    let reading = Reading { client, file, text, surroundings, is_own, elsewhere: &[] };
    reading.read(limits, &mut servers, &mut problems);
    (servers, problems)
}

/// The servers of this file that other files of the client switch off.
fn switched_off_elsewhere(
    client: &'static Client,
    file: &ClientFile,
    surroundings: &Surroundings,
    limits: &Limits,
) -> Result<Vec<String>, Box<Problem>> {
    let own_file = client.user_file(surroundings);
    match (client.layout, own_file, &file.project) {
        (Layout::ClaudeCode, Some(own_file), Some(project)) => {
            switched_off_of_project(&own_file, surroundings, project, limits)
        }
        _ => Ok(Vec::new()),
    }
}

/// The client that has a file of this name.
#[must_use]
pub fn client_of_file(path: &Path) -> Option<&'static Client> {
    super::known_clients::clients().iter().find(|client| client.has_file_called(path))
}

/// The existing files of the working folder's project that were not requested.
pub fn unread_project_files(client: &'static Client, surroundings: &Surroundings) -> Vec<PathBuf> {
    let of_user = client.files(surroundings, Scope::User);
    let files = client.files(surroundings, Scope::Project).into_iter().map(|file| file.path);
    files.filter(|path| path.is_file() && !of_user.iter().any(|file| file.path == *path)).collect()
}

/// One file that is being read.
struct Reading<'r> {
    client: &'static Client,
    file: &'r ClientFile,
    text: &'r str,
    surroundings: &'r Surroundings,
    is_own: OwnCommandCheck<'r>,
    /// The names of servers that other files switch off.
    elsewhere: &'r [String],
}

/// A table of servers in the file.
struct Table<'t> {
    /// The keys on the path to it.
    path: String,
    table: &'t Value,
    inputs: &'t BTreeMap<String, String>,
    /// The names of servers that the file switches off elsewhere.
    switched_off: &'t [&'t str],
    /// The names of the only servers that are on; empty: all are.
    switched_on: &'t [&'t str],
}

impl Reading<'_> {
    fn read(&self, limits: &Limits, servers: &mut Vec<ClientServer>, problems: &mut Vec<Problem>) {
        // Offsets are those of the text without its byte order mark, which takes up no column.
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(self.text);
        let reading = Reading { text, ..*self };
        match reading.file.location.format.read(text, limits) {
            Ok(root) => reading.root(&root, servers, problems),
            Err(defect) => {
                let problem = reading.problem(Severity::Error, defect.at, "", defect.message);
                let hint =
                    if defect.hint.is_empty() { "correct it there and import again" } else { defect.hint };
                problems.push(problem.hint(hint));
            }
        }
    }

    fn problem(&self, severity: Severity, at: usize, key: &str, message: impl Into<String>) -> Problem {
        Problem::of_file(&self.file.path, message).severity(severity).at(Position::of(self.text, at)).key(key)
    }

    fn root(&self, root: &Value, servers: &mut Vec<ClientServer>, problems: &mut Vec<Problem>) {
        if !matches!(root.node, Node::Table(_)) {
            let message = format!("must be a table of keys, not {}", root.kind());
            problems.push(self.problem(Severity::Error, root.range.start, "", message));
            return;
        }
        let inputs = inputs(root, self.file);
        let mut switched_off = names_at(root, self.file.location.switched_off);
        switched_off.extend(self.elsewhere.iter().map(String::as_str));
        if self.client.layout == Layout::ClaudeCode {
            switched_off.extend(switched_off_in(root, self.surroundings.project.as_deref()));
        }
        let switched_on = names_at(root, self.file.location.switched_on);
        for path in self.file.location.servers {
            let Some(table) = root.at_path(path) else { continue };
            let (path, table) = self.nested(path, table);
            let table = Table {
                path,
                table,
                inputs: &inputs,
                switched_off: &switched_off,
                switched_on: &switched_on,
            };
            self.table(&table, servers, problems);
        }
        match self.client.layout {
            Layout::ClaudeCode => self.projects_of_claude(root, servers, problems),
            // The rules in a project's file also apply to the user's servers.
            Layout::OpenCode => {
                for said in servers.iter_mut().flat_map(|server| opencode_switches::take_over(root, server)) {
                    problems.push(self.problem(Severity::Warning, said.at, &said.key, said.message));
                }
            }
            Layout::Plain => {}
        }
    }

    /// The servers below `mcp`. OpenCode 2 has them under `servers`.
    fn nested<'v>(&self, path: &[&str], table: &'v Value) -> (String, &'v Value) {
        let inner = table.get("servers").filter(|_| self.client.has_deeper_servers(table));
        match inner {
            Some(inner) => (format!("{}.servers", path.join(".")), inner),
            None => (path.join("."), table),
        }
    }

    /// Reads the servers that Claude Code keeps for the project in the working folder, and names the other projects
    /// that have servers.
    fn projects_of_claude(&self, root: &Value, servers: &mut Vec<ClientServer>, problems: &mut Vec<Problem>) {
        let projects = root.get("projects").map(Value::members).unwrap_or_default();
        let mut others = Vec::new();
        for Member { key, at, value } in projects {
            let Some(table) = value.get("mcpServers").filter(|table| !table.members().is_empty()) else {
                continue;
            };
            if self.surroundings.project.as_deref() == Some(Path::new(key)) {
                let file = ClientFile { project: self.surroundings.project.clone(), ..self.file.clone() };
                let reading = Reading { file: &file, ..*self };
                let switched_off = switched_off_in(root, self.surroundings.project.as_deref());
                let path = format!("projects.{key}.mcpServers");
                let inputs = &BTreeMap::new();
                let table = Table { path, table, inputs, switched_off: &switched_off, switched_on: &[] };
                let first = servers.len();
                reading.table(&table, servers, problems);
                // The user has added these, in the user's own file.
                servers[first..].iter_mut().for_each(|server| server.project = None);
            } else {
                others.push((key.as_str(), *at));
            }
        }
        if let Some((_, at)) = others.first() {
            let folders: Vec<&str> = others.iter().map(|(folder, _)| *folder).collect();
            let message = format!("has servers of other folders, which are not read: {}", folders.join(", "));
            let problem = self.problem(Severity::Note, *at, "projects", message);
            problems.push(problem.hint("run belljar import there"));
        }
    }

    fn table(&self, read: &Table<'_>, servers: &mut Vec<ClientServer>, problems: &mut Vec<Problem>) {
        let Table { path, table, inputs, switched_off, switched_on } = read;
        let Node::Table(members) = &table.node else {
            if table.node != Node::Null {
                let message = format!("must be a table of servers, not {}", table.kind());
                problems.push(self.problem(Severity::Error, table.range.start, path, message));
            }
            return;
        };
        if members.len() > SERVERS_MAX {
            let count = members.len();
            let message = format!("has {count} servers, more than the {SERVERS_MAX} that are taken over");
            problems.push(self.problem(Severity::Error, table.range.start, path, message));
            return;
        }
        for (index, member) in members.iter().enumerate() {
            let key = format!("{path}.{}", member.key);
            if members[index + 1..].iter().any(|later| later.key == member.key) {
                let message = format!("is repeated below; {} takes the last one", self.client.title);
                problems.push(self.problem(Severity::Warning, member.at, &key, message));
                continue;
            }
            if let Some(mut server) = self.server(&key, member, inputs, problems) {
                let name = member.key.as_str();
                let is_chosen = switched_on.is_empty() || switched_on.contains(&name);
                if switched_off.contains(&name) || !is_chosen {
                    let message = format!("is switched off in {}, and so it is here", self.client.title);
                    problems.push(self.problem(Severity::Note, member.at, &key, message));
                    server.entry.insert("disabled".into(), true.into());
                }
                servers.push(server);
            }
        }
    }

    fn server(
        &self,
        key: &str,
        member: &Member,
        inputs: &BTreeMap<String, String>,
        problems: &mut Vec<Problem>,
    ) -> Option<ClientServer> {
        let context = Context {
            style: self.client.dialect.references,
            title: self.client.title,
            home: &self.surroundings.home,
            project: self.file.project.as_deref(),
            folder: self.file.path.parent().unwrap_or(Path::new("/")),
            inputs,
            own: &BTreeMap::new(),
        };
        if member.key.is_empty() {
            let message = format!("has no name in {}, and is left out", self.client.title);
            problems.push(self.problem(Severity::Warning, member.at, key, message));
            return None;
        }
        if let Err(error) = ServerName::new(&member.key) {
            problems.push(self.problem(Severity::Warning, member.at, key, format!("is left out: {error}")));
            return None;
        }
        let by_http = |form: &HttpForm| member.key == OWN_NAME && form.is_own(&member.value.to_json());
        if self.client.http_form(false).is_ok_and(by_http) {
            problems.push(self.problem(Severity::Note, member.at, key, IS_BELLJAR));
            return None;
        }
        let translation = match entry::translate(&member.value, self.client.dialect, context) {
            Ok(translation) => translation,
            Err(left) => {
                let key = if left.key.is_empty() { key.to_owned() } else { format!("{key}.{}", left.key) };
                let at = if left.at == 0 { member.at } else { left.at };
                let message = format!("{}; the server is left out", left.message);
                problems.push(self.problem(Severity::Warning, at, &key, message));
                return None;
            }
        };
        if self.starts_belljar(&translation.entry) {
            problems.push(self.problem(Severity::Note, member.at, key, IS_BELLJAR));
            return None;
        }
        self.say(key, member, &translation, problems);
        let (name, path) = (member.key.clone(), self.file.path.clone());
        let project = self.file.project.as_ref().map(|project| escaped(&project.display().to_string()));
        Some(ClientServer { name, entry: translation.entry, path, project })
    }

    fn starts_belljar(&self, entry: &Map<String, Json>) -> bool {
        let Some(command) = entry.get("command").and_then(Json::as_str) else { return false };
        let arguments = entry.get("args").and_then(Json::as_array).into_iter().flatten();
        let arguments: Vec<String> = arguments.filter_map(|text| Some(text.as_str()?.to_owned())).collect();
        (self.is_own)(command, &arguments)
    }

    fn say(&self, key: &str, member: &Member, translation: &Translation, problems: &mut Vec<Problem>) {
        let problem = |severity, message: String| self.problem(severity, member.at, key, message);
        if !translation.foreign.is_empty() {
            let keys: Vec<&str> = translation.foreign.iter().map(|(key, _)| key.as_str()).collect();
            let advice: Vec<String> = translation
                .foreign
                .iter()
                .filter(|(_, advice)| !advice.is_empty())
                .map(|(key, advice)| format!("{key}: {advice}"))
                .collect();
            let message = format!("has no counterpart here for {}, which is left out", keys.join(", "));
            problems.push(problem(Severity::Warning, message).hint(advice.join("; ")));
        }
        for (key, note) in &translation.notes {
            problems.push(problem(Severity::Warning, format!("{key} {note}")));
        }
        let mut told: Vec<&str> = Vec::new();
        for (variable, what_for) in &translation.needs {
            if !told.contains(&variable.as_str()) {
                told.push(variable);
                let message = format!("needs the variable {variable} where belljar is started: {what_for}");
                problems.push(problem(Severity::Note, message));
            }
        }
        if !translation.literal_secrets.is_empty() {
            let keys = translation.literal_secrets.join(", ");
            let message = format!("has what look like secrets, which are copied as they are: {keys}");
            let advice = self.client.dialect.references.advice();
            problems.push(problem(Severity::Note, message).hint(advice));
        }
        if let Some(message) = sent_to_host(&translation.entry) {
            problems.push(problem(Severity::Note, message));
        }
        let has_marks = |text: &str| is_literal(text) && text.contains("$${");
        if any_text(&Json::Object(translation.entry.clone()), &has_marks) {
            let message = format!("has a ${{…}} that {} takes literally; so does belljar", self.client.title);
            problems.push(problem(Severity::Note, message));
        }
    }
}

/// A note on the references of an entry that are sent to a remote server.
fn sent_to_host(entry: &Map<String, Json>) -> Option<String> {
    let url = entry.get("url")?.as_str()?;
    let headers = entry.get("headers").and_then(Json::as_object);
    let headers = headers.into_iter().flat_map(Map::values).filter_map(Json::as_str);
    let mut sent: Vec<String> = Vec::new();
    for reference in std::iter::once(url).chain(headers).flat_map(references).map(shown_reference) {
        if !sent.contains(&reference) {
            sent.push(reference);
        }
    }
    let host = part_with_references(url, host);
    (!sent.is_empty()).then(|| format!("sends {} to {host}", sent.join(" and ")))
}

fn host(url: &str) -> String {
    let behind = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = behind.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    place.rsplit_once('@').map_or(place, |(_, host)| host).to_owned()
}

fn any_text(value: &Json, holds: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Json::String(text) => holds(text),
        Json::Array(items) => items.iter().any(|item| any_text(item, holds)),
        Json::Object(members) => members.values().any(|member| any_text(member, holds)),
        _ => false,
    }
}

/// The inputs that VS Code asks for, by id.
fn inputs(root: &Value, file: &ClientFile) -> BTreeMap<String, String> {
    let beside =
        file.location.servers.iter().filter_map(|path| root.at_path(&path[..path.len() - 1])?.get("inputs"));
    let mut inputs = BTreeMap::new();
    for list in beside {
        let Node::List(items) = &list.node else { continue };
        for item in items {
            if let Some(id) = item.get("id").and_then(Value::text) {
                let about = item.get("description").and_then(Value::text).unwrap_or_default();
                inputs.insert(id.to_owned(), about.to_owned());
            }
        }
    }
    inputs
}

/// The names in a list at a path.
fn names_at<'v>(root: &'v Value, path: &[&str]) -> Vec<&'v str> {
    match root.at_path(path).map(|list| &list.node) {
        Some(Node::List(items)) if !path.is_empty() => items.iter().filter_map(Value::text).collect(),
        _ => Vec::new(),
    }
}
