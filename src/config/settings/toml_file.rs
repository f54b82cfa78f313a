//! Reads a config.toml: its settings as texts with their positions, and all problems at once.
//!
//! It knows the keys and the forms of their values, not what values mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::{OWNER_NAME_RULE, is_owner_name};
use belljar_base::problem::{OF_FILE_MAX, Origin, Position, Problem, Severity};
use belljar_base::text::{self, suggest};
use serde_json::Number;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::definitions::{Definition, REMOVED, ValueForm};
use super::edit::{VERSION, VERSION_KEY};
use crate::clients::{Member, Node, Value};
use crate::config::read::environment::Environment;
use crate::config::read::file;
use crate::config::read::line_index::LineIndex;
use crate::config::read::trust::{self, Trust};

/// The longest file of which the sound parts are used for further messages if it is no TOML, in bytes.
const RECOVERED_BYTES_MAX: usize = 64 * 1024;
/// The section of the servers' entries.
const SERVERS: &str = "servers";
/// The key in that section that confines servers.
const SANDBOX: &str = "sandbox";
/// The tables of mounted folders.
const MOUNT: &str = "mount";
/// The tables of owners.
const OWNERS: &str = "owners";
const MOUNT_KEYS: [&str; 3] = ["host", "guest", "writable"];

/// The owner of a settings file, which decides what the file may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// The user, whose own file it is.
    User,
    /// A project, whose file came with its repository.
    Project(Trust),
}

/// The content of one settings file.
pub(crate) struct TomlFile {
    pub(crate) path: PathBuf,
    pub(crate) owner: FileOwner,
    /// The values by key, such as `run.timeout`.
    pub(crate) written: BTreeMap<String, WrittenValue>,
    /// The entries of servers, which are not checked yet.
    pub(crate) servers: Option<ServerTable>,
    /// The `[[mount]]` tables, which are not checked yet.
    pub(crate) mounts: Vec<WrittenMount>,
    /// The variables of `[owners.NAME.env]`.
    pub(crate) owner_env: Vec<WrittenVariable>,
    /// The problem for which the file could not be read as a whole.
    pub(crate) unread: Option<Problem>,
    /// The problems in sections that may have had further values.
    pub(crate) read_failures: ReadFailures,
}

/// The first problem in each section whose defaults are looser than what the file may have said.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadFailures {
    /// A problem with a limit of the sandbox, or with the choice of servers.
    pub(crate) sandbox: Option<Problem>,
    /// A problem with the policy.
    pub(crate) policy: Option<Problem>,
    /// A problem with the model or its budgets.
    pub(crate) model: Option<Problem>,
    /// A problem with the setting that confines servers.
    pub(crate) servers: Option<Problem>,
}

/// The entries below `[servers]`.
pub(crate) struct ServerTable {
    /// The text of the whole file.
    pub(crate) text: Arc<str>,
    /// The entries, in the file's order.
    pub(crate) members: Vec<Member>,
    /// A problem with an unknown part of the file, which may belong to any entry.
    pub(crate) defect: Option<Problem>,
}

/// A value in the form of a variable, with its position in the file.
pub(crate) struct WrittenValue {
    pub(crate) text: String,
    pub(crate) position: Position,
}

/// A variable of an owner, with references that are not resolved yet.
pub(crate) struct WrittenVariable {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) position: Position,
}

/// A `[[mount]]` as it is written, not yet checked.
pub(crate) struct WrittenMount {
    pub(crate) host: String,
    /// The path in the sandbox; `None`: the folder's own name below `/mnt`.
    pub(crate) guest: Option<String>,
    pub(crate) writable: bool,
    pub(crate) position: Position,
}

/// The user's file and the project's, if they exist, in the order of increasing precedence.
pub(super) fn read_all(
    environment: &Environment,
    limits: &Limits,
    definitions: &[Definition],
    problems: &mut Vec<Problem>,
) -> Vec<TomlFile> {
    places(environment)
        .filter(|(path, _)| !file::is_absent(path))
        .map(|(path, owner_kind)| read(environment, limits, definitions, (path, owner_kind), problems))
        .collect()
}

/// The paths of both files, whether they exist or not.
pub(crate) fn paths(environment: &Environment) -> Vec<PathBuf> {
    places(environment).map(|(path, _)| path).collect()
}

/// The longest file that is read to see whether there is more in it than blanks, in bytes.
const BLANKS_MAX: u64 = 4_096;

/// Whether the user's own file is empty: an editor may be about to write it. A project's empty file is read as it is.
pub(crate) fn is_emptied(environment: &Environment) -> bool {
    let is_blank = |path: &Path| std::fs::read(path).is_ok_and(|bytes| bytes.trim_ascii().is_empty());
    let is_short =
        |path: &PathBuf| path.metadata().is_ok_and(|about| about.is_file() && about.len() <= BLANKS_MAX);
    environment.config_file().is_some_and(|path| is_short(&path) && is_blank(&path))
}

fn places(environment: &Environment) -> impl Iterator<Item = (PathBuf, OwnerKind)> {
    let own = environment.config_file();
    let project = trust::project_file(environment).filter(|path| Some(path) != own.as_ref());
    let places = [(own, OwnerKind::User), (project, OwnerKind::Project)];
    places.into_iter().filter_map(|(path, owner_kind)| Some((path?, owner_kind)))
}

/// The kind of owner of a settings file, before its trust is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerKind {
    User,
    Project,
}

fn read(
    environment: &Environment,
    limits: &Limits,
    definitions: &[Definition],
    (path, owner_kind): (PathBuf, OwnerKind),
    problems: &mut Vec<Problem>,
) -> TomlFile {
    let (mut owner, bytes) = match owner_kind {
        OwnerKind::User => (FileOwner::User, file::read(&path, environment.uid, limits)),
        OwnerKind::Project => (FileOwner::Project(Trust::Unknown), trust::read(&path, environment, limits)),
    };
    let read = bytes.and_then(|bytes| {
        if owner_kind == OwnerKind::Project {
            owner = FileOwner::Project(trust::trust_of(environment, limits, &path, &bytes));
        }
        // An empty file sets nothing, which is no problem here.
        if bytes.trim_ascii().is_empty() { Ok(String::new()) } else { file::text(&path, bytes) }
    });
    let mut file = TomlFile {
        path,
        owner,
        written: BTreeMap::new(),
        servers: None,
        mounts: Vec::new(),
        owner_env: Vec::new(),
        unread: None,
        read_failures: ReadFailures::default(),
    };
    match read {
        Ok(text) => {
            let (places, untold) = (LineIndex::new(&text), 0);
            let told_max = problems.len() + OF_FILE_MAX;
            let file = &mut file;
            Reading { definitions, text: &text, places, file, problems, told_max, untold }.document();
        }
        Err(problem) => {
            file.unread = Some((*problem).clone());
            file.read_failures = ReadFailures {
                sandbox: Some((*problem).clone()),
                policy: Some((*problem).clone()),
                model: Some((*problem).clone()),
                servers: Some((*problem).clone()),
            };
            problems.push(*problem);
        }
    }
    file
}

struct Reading<'r> {
    definitions: &'r [Definition],
    text: &'r str,
    places: LineIndex<'r>,
    file: &'r mut TomlFile,
    problems: &'r mut Vec<Problem>,
    /// The number of problems that are reported one by one.
    told_max: usize,
    untold: usize,
}

impl Reading<'_> {
    fn document(&mut self) {
        let text = self.text;
        let problems_before = self.problems.len();
        // A file that is mostly defects takes seconds to recover from, so only the first one of a long file is named.
        let (root, defects) = match DeTable::parse(text) {
            Ok(root) => (root, vec![]),
            Err(_) if text.len() <= RECOVERED_BYTES_MAX => DeTable::parse_recoverable(text),
            Err(defect) => (Spanned::new(0..0, DeTable::new()), vec![defect]),
        };
        for defect in defects {
            let at = defect.span().map_or(0, |span| span.start);
            self.report(at, "", format!("is no TOML: {}", text::inert_excerpt(defect.message(), 120)), "");
        }
        let defect = self.problems[problems_before..].first().cloned();
        self.file.unread = defect.clone();
        let mut sections = root.get_ref().iter().filter(|(key, _)| key.get_ref().as_ref() != VERSION_KEY);
        if let Some(version) = root.get_ref().get(VERSION_KEY)
            && !matches!(version.get_ref(), DeValue::Integer(number) if number.as_str() == VERSION)
        {
            let message = format!(
                "is not {VERSION}, the version that this belljar reads, so nothing in the file counts"
            );
            self.report(version.span().start, VERSION_KEY, message, "use the newer belljar that it is for");
            self.file.unread = self.problems.last().cloned();
            sections.by_ref().for_each(drop);
        }
        for (section, value) in sections {
            if section.get_ref().as_ref() == SERVERS
                && let DeValue::Table(table) = value.get_ref()
            {
                let is_setting = |key: &str| {
                    let full = format!("{SERVERS}.{key}");
                    self.definitions.iter().any(|row| row.key.as_deref() == Some(&full))
                };
                let (settings, entries): (Vec<_>, Vec<_>) = table.iter().partition(|(key, value)| {
                    is_setting(key.get_ref()) || is_misspelt_sandbox(key.get_ref(), value.get_ref())
                });
                for (key, value) in settings {
                    self.key(SERVERS, (key.span().start, key.get_ref()), value);
                }
                let members = members(entries.into_iter());
                self.file.servers = Some(ServerTable { text: text.into(), members, defect: defect.clone() });
            } else if section.get_ref().as_ref() == MOUNT {
                self.mounts(value);
            } else if section.get_ref().as_ref() == OWNERS {
                self.owners(value);
            } else {
                self.section(section, value);
            }
        }
        self.problems.extend(Problem::untold(Origin::File(self.file.path.clone()), self.untold));
    }

    fn mounts(&mut self, value: &Spanned<DeValue<'_>>) {
        let DeValue::Array(tables) = value.get_ref() else {
            return self.report(value.span().start, MOUNT, "is a list: write [[mount]] above each", "");
        };
        for table in tables {
            let at = table.span().start;
            let DeValue::Table(keys) = table.get_ref() else {
                self.report(at, MOUNT, "must be a table", "write [[mount]], and below it host = \"~/data\"");
                continue;
            };
            let position = self.places.position(at);
            let mut written = WrittenMount { host: String::new(), guest: None, writable: false, position };
            let mut is_right = true;
            for (key, value) in keys {
                let full = format!("{MOUNT}.{}", key.get_ref());
                let wanted = match (key.get_ref().as_ref(), value.get_ref()) {
                    ("host", DeValue::String(host)) if !host.is_empty() => {
                        written.host = host.to_string();
                        continue;
                    }
                    ("guest", DeValue::String(guest)) => {
                        written.guest = Some(guest.to_string());
                        continue;
                    }
                    ("writable", DeValue::Boolean(writable)) => {
                        written.writable = *writable;
                        continue;
                    }
                    ("host", _) => "a folder, such as \"~/data\"",
                    ("guest", _) => "a path below /mnt, such as \"/mnt/data\"",
                    ("writable", _) => "true or false",
                    (unknown, _) => {
                        let hint = self
                            .did_you_mean(unknown, MOUNT_KEYS)
                            .unwrap_or_else(|| "a mount has host, guest and writable".into());
                        let message = "is no key that belljar knows, so that the folder is not mounted";
                        self.report(key.span().start, &full, message, &hint);
                        is_right = false;
                        continue;
                    }
                };
                let message = format!("must be {wanted}, not {}", kind(value.get_ref()));
                self.report(value.span().start, &full, message, "the folder is not mounted");
                is_right = false;
            }
            if is_right && written.host.is_empty() {
                self.report(at, MOUNT, "names no folder", "add host = \"~/data\"");
            } else if is_right {
                self.file.mounts.push(written);
            }
        }
    }

    fn owners(&mut self, value: &Spanned<DeValue<'_>>) {
        let how = "write [owners.NAME.env], and below it TOKEN = \"${NAME_TOKEN}\"";
        let DeValue::Table(owners) = value.get_ref() else {
            return self.report(value.span().start, "owners.", "must be a table", how);
        };
        for (owner, parts) in owners {
            let (at, owner) = (owner.span().start, owner.get_ref().as_ref());
            if !is_owner_name(owner) {
                let message = format!("is no owner's name: one {OWNER_NAME_RULE}");
                self.report(at, &format!("{OWNERS}.{owner}"), message, how);
                continue;
            }
            let env = match parts.get_ref() {
                DeValue::Table(parts) if parts.iter().all(|(part, _)| part.get_ref().as_ref() == "env") => {
                    parts.get("env").map(Spanned::get_ref)
                }
                _ => None,
            };
            let Some(DeValue::Table(env)) = env else {
                self.report(
                    parts.span().start,
                    &format!("{OWNERS}.{owner}"),
                    "must have a table env and nothing else",
                    how,
                );
                continue;
            };
            for (name, value) in env {
                let (name, position) = (name.get_ref().to_string(), self.places.position(value.span().start));
                match value.get_ref() {
                    _ if name.is_empty()
                        || name.contains(|part: char| part.is_whitespace() || "=\0".contains(part)) =>
                    {
                        let full = format!("{OWNERS}.{owner}.env.{name}");
                        self.report(value.span().start, &full, "is no variable's name", "");
                    }
                    DeValue::String(text) => {
                        let (owner, text) = (owner.to_owned(), text.to_string());
                        self.file.owner_env.push(WrittenVariable { owner, name, text, position });
                    }
                    other => {
                        let full = format!("{OWNERS}.{owner}.env.{name}");
                        let message = format!("must be a string, not {}", kind(other));
                        self.report(value.span().start, &full, message, "");
                    }
                }
            }
        }
    }

    fn section(&mut self, name: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let (at, section) = (name.span().start, name.get_ref().as_ref());
        let removed = || REMOVED.iter().filter_map(|(_, key, _)| Some(key.split_once('.')?.0));
        let sections = || {
            let settings = self.definitions.iter().filter_map(Definition::section);
            settings.chain([SERVERS, MOUNT, OWNERS]).chain(removed())
        };
        if !sections().any(|known| known == section) {
            let keys = self.definitions.iter().filter_map(|row| row.key.as_deref());
            // A key without its section is as common a mistake as a misspelt section.
            let of_key = keys.clone().find(|key| key.split('.').next_back() == Some(section));
            let of_key = of_key.map(|key| format!("did you mean {key:?}?"));
            let hint = of_key.or_else(|| self.did_you_mean(section, sections())).unwrap_or_default();
            return self.report(at, section, "is no section that belljar knows", &hint);
        }
        let DeValue::Table(keys) = value.get_ref() else {
            return self.report(at, section, "is a section: write its keys below a line in brackets", "");
        };
        for (key, value) in keys {
            self.key(section, (key.span().start, key.get_ref()), value);
        }
    }

    fn key(&mut self, section: &str, (at, key): (usize, &str), value: &Spanned<DeValue<'_>>) {
        let full = format!("{section}.{key}");
        let Some(row) = self.definitions.iter().find(|row| row.key.as_deref() == Some(&full)) else {
            if let Some((.., message)) = REMOVED.iter().find(|(_, removed, _)| *removed == full) {
                let warning = Problem::of_file(&self.file.path, *message).severity(Severity::Warning);
                let at = self.places.position(at);
                return self.problems.push(warning.at(at).key(full).hint("remove it"));
            }
            let known = self.definitions.iter().filter_map(|row| row.key.as_deref()?.split_once('.'));
            let here = known.clone().filter(|(of, _)| *of == section).map(|(_, key)| key);
            let elsewhere = known.clone().find(|(_, known)| *known == key);
            let hint = match elsewhere {
                Some((of, key)) => format!("did you mean \"{of}.{key}\"?"),
                None => self.did_you_mean(key, here).unwrap_or_default(),
            };
            return self.report(at, &full, "is no key that belljar knows", &hint);
        };
        match as_text(row.form, value) {
            Ok(text) => {
                let position = self.places.position(value.span().start);
                self.file.written.insert(full, WrittenValue { text, position });
            }
            Err(wanted) => {
                let message = format!("must be {wanted}, not {}", kind(value.get_ref()));
                self.report(value.span().start, &full, message, "");
            }
        }
    }

    /// The known name that is meant, if this problem is told at all: a comparison with all of them takes its time.
    fn did_you_mean<'n>(&self, unknown: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
        let is_told = self.problems.len() < self.told_max;
        is_told.then(|| suggest::did_you_mean(unknown, known)).flatten()
    }

    fn report(&mut self, at: usize, key: &str, message: impl Into<String>, hint: &str) {
        let problem = Problem::of_file(&self.file.path, message)
            .severity(Severity::Error)
            .at(self.places.position(at))
            .key(text::bounded(key, 100))
            .hint(hint);
        let ReadFailures { sandbox, policy, model, servers } = &mut self.file.read_failures;
        // A part that is no TOML, or no known section, may have held any setting. Without its variables, an owner would have
        // another one's account.
        let (section, name) = key.split_once('.').unwrap_or_default();
        if section.is_empty()
            || [SANDBOX, OWNERS].contains(&section)
            || section == "run" && may_mean_servers(name)
        {
            sandbox.get_or_insert_with(|| problem.clone());
        }
        // The other known keys of the policy are off by default, so a problem with them loosens nothing.
        let is_known = self.definitions.iter().any(|row| row.key.as_deref() == Some(key));
        if section.is_empty() || section == "policy" && (name == "profile" || !is_known) {
            policy.get_or_insert_with(|| problem.clone());
        }
        if section.is_empty() || section == "model" {
            model.get_or_insert_with(|| problem.clone());
        }
        let may_confine = match section {
            SERVERS => name == SANDBOX || !is_known,
            SANDBOX => may_mean_servers(name),
            _ => !is_known && suggest::is_like(name, SANDBOX),
        };
        if section.is_empty() || may_confine {
            servers.get_or_insert_with(|| problem.clone());
        }
        if self.problems.len() < self.told_max {
            self.problems.push(problem);
        } else {
            self.untold += 1;
        }
    }
}

/// Whether an unknown key below `[servers]` is most likely a misspelt `sandbox` and not the name of a server.
fn is_misspelt_sandbox(key: &str, value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Boolean(_) => true,
        DeValue::Table(entry) => {
            let is_of_entry = |key: &str| key == "command" || key.to_lowercase().contains("url");
            suggest::is_like(key, SANDBOX) && !entry.iter().any(|(key, _)| is_of_entry(key.get_ref()))
        }
        _ => suggest::is_like(key, SANDBOX),
    }
}

/// Whether a key of the section `[run]`, known or not, may be meant to choose servers.
fn may_mean_servers(key: &str) -> bool {
    key.to_lowercase().contains("server") || suggest::is_like(key, "servers")
}

/// The value as a variable would hold it, or a description of the required form.
fn as_text(form: ValueForm, value: &Spanned<DeValue<'_>>) -> Result<String, &'static str> {
    match (form, value.get_ref()) {
        (ValueForm::Text | ValueForm::Size | ValueForm::TextOrList, DeValue::String(text)) => {
            Ok(text.to_string())
        }
        (
            ValueForm::Integer | ValueForm::Number | ValueForm::Count | ValueForm::Size,
            DeValue::Integer(number),
        ) => i64::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            .map_err(|_| "a number below 2^63"),
        (ValueForm::Number, DeValue::Float(number)) => Ok(number.as_str().to_owned()),
        (ValueForm::Switch | ValueForm::Count, DeValue::Boolean(on)) => {
            Ok(if *on { "1" } else { "0" }.to_owned())
        }
        (ValueForm::Table, DeValue::Table(_)) => json(value).map(|table| table.to_string()),
        (ValueForm::List | ValueForm::TextOrList, DeValue::Array(items)) => {
            let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
                DeValue::String(text) if !text.contains(',') => Some(text.to_string()),
                _ => None,
            };
            let texts: Option<Vec<String>> = items.iter().map(text).collect();
            texts.map(|texts| texts.join(",")).ok_or("an array of strings without commas")
        }
        (ValueForm::Text, _) => Err("a string"),
        (ValueForm::Integer | ValueForm::Count, _) => Err("a whole number"),
        (ValueForm::Number, _) => Err("a number"),
        (ValueForm::Switch, _) => Err("true or false"),
        (ValueForm::Size, _) => Err("a string such as \"512m\", or a number of bytes"),
        (ValueForm::List, _) => Err("an array of strings"),
        (ValueForm::TextOrList, _) => Err("a string, or an array of strings"),
        (ValueForm::Table, _) => Err("a table"),
    }
}

/// The value as JSON, or a description of the required form.
fn json(value: &Spanned<DeValue<'_>>) -> Result<serde_json::Value, &'static str> {
    Ok(match value.get_ref() {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(is_on) => (*is_on).into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| "a table of numbers below 2^63")?
            .into(),
        DeValue::Array(items) => items.iter().map(json).collect::<Result<Vec<_>, _>>()?.into(),
        DeValue::Table(table) => {
            let members =
                table.iter().map(|(key, value)| Ok::<_, &str>((key.get_ref().to_string(), json(value)?)));
            members.collect::<Result<serde_json::Map<_, _>, _>>()?.into()
        }
        DeValue::Float(_) | DeValue::Datetime(_) => {
            return Err("a table of texts, whole numbers and switches");
        }
    })
}

/// The members of a table in the form of the JSON reader, in the file's order.
fn members<'a, 'i: 'a>(
    table: impl Iterator<Item = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>)>,
) -> Vec<Member> {
    let mut members: Vec<Member> = table
        .map(|(key, value)| Member {
            key: key.get_ref().to_string(),
            at: key.span().start,
            value: node(value),
        })
        .collect();
    members.sort_by_key(|member| member.at);
    members
}

fn node(value: &Spanned<DeValue<'_>>) -> Value {
    // A number that neither type can hold is one that no key may have.
    let number =
        |number: Option<Number>| number.map_or(Node::Unread("a number that is too large"), Node::Number);
    let node = match value.get_ref() {
        DeValue::String(text) => Node::Text(text.to_string()),
        DeValue::Integer(integer) => {
            number(i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(Number::from))
        }
        DeValue::Float(float) => number(float.as_str().parse().ok().and_then(Number::from_f64)),
        DeValue::Boolean(is_on) => Node::Bool(*is_on),
        DeValue::Datetime(_) => Node::Unread("a date"),
        DeValue::Array(items) => Node::List(items.iter().map(node).collect()),
        DeValue::Table(table) => Node::Table(members(table.iter())),
    };
    Value { range: value.span(), node }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The folder in which a project's file is trusted: the one that holds `.belljar`.
pub(crate) fn project_folder(path: &Path) -> &Path {
    path.parent().and_then(Path::parent).unwrap_or(path)
}
