//! Adds belljar to a client's file, and removes it again: one entry, while every other byte stays.
//!
//! It does not know the content of the entry. `backup` keeps the earlier content of the file in belljar's state folder.

use std::path::{Path, PathBuf};

use belljar_base::limits::Limits;
use belljar_base::problem::{Position, Problem};
use belljar_base::real_file::RealFile;
use serde_json::Value as Json;

use super::backup::Backup;
use super::passing::passing;
use crate::clients::error::InstallError;
use crate::clients::file;
use crate::clients::formats::format::Format;
use crate::clients::formats::masked::masked;
use crate::clients::formats::spanned::Value;
use crate::clients::known_clients::Client;
use crate::clients::known_clients::OwnCommandCheck;
use crate::clients::merge::compared;
use crate::clients::own_entry::{self, Calls, OWN_NAME, Parts, Reach, SHARED, StartCommand};
use crate::clients::places::{ClientFile, Scope, Surroundings};

/// The client, the name and the scope of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Registration<'r> {
    /// The client.
    pub client: &'static Client,
    /// The name of the entry.
    pub name: &'r str,
    /// The scope, which decides the client's file.
    pub scope: Scope,
}

/// The places and bounds that installing needs.
#[derive(Debug, Clone, Copy)]
pub struct InstallContext<'w> {
    /// The places of the clients' files.
    pub surroundings: &'w Surroundings,
    /// The folder of the state of belljar.
    pub state: &'w Path,
    /// The bounds on files.
    pub limits: &'w Limits,
}

/// The result of planning: an edit, or the statement that none is needed.
#[derive(Debug)]
pub enum Plan {
    /// The file is as it should be.
    Nothing(PathBuf),
    /// This edit is needed.
    Edit(Edit),
}

/// An edit of one file, not yet made.
#[derive(Debug)]
pub struct Edit {
    /// The path of the file, as the client names it.
    pub path: PathBuf,
    /// Whether it replaces an entry that is not belljar's.
    pub replaces: bool,
    real: RealFile,
    before: Option<String>,
    /// The new content; `None`: the file is removed.
    after: Option<String>,
    shown: String,
    backup: Backup,
    backup_plan: BackupPlan,
}

/// The part of a backup that an edit stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackupPlan {
    /// The content before this edit is stored.
    Before,
    /// An earlier backup stays.
    Former,
    /// The backup is removed, because the entry is removed.
    Nothing,
}

impl Edit {
    /// The edit as a diff. Values are shown only for belljar's own entry.
    #[must_use]
    pub fn diff(&self) -> &str {
        &self.shown
    }

    /// Whether the file is removed, since it was created only for the entry.
    #[must_use]
    pub fn removes_file(&self) -> bool {
        self.after.is_none()
    }

    /// Makes the edit.
    ///
    /// # Errors
    /// The system refuses, or the file was changed after it was read.
    pub fn make(&self, context: &InstallContext<'_>) -> Result<(), InstallError> {
        let unwritten = |source| InstallError::Unwritten { path: self.path.clone(), source };
        if read(&self.real, &self.path, context)? != self.before {
            return Err(InstallError::Changed { path: self.path.clone() });
        }
        if let (BackupPlan::Before | BackupPlan::Former, Some(after)) =
            (self.backup_plan, self.after.as_deref())
        {
            let before = (self.backup_plan == BackupPlan::Before).then_some(self.before.as_deref());
            self.backup.keep(before, after)?;
        }
        match &self.after {
            Some(after) => self.real.replace(after.as_bytes()).map_err(unwritten)?,
            None => self.real.remove().map_err(unwritten)?,
        }
        if self.backup_plan == BackupPlan::Nothing {
            self.backup.forget()?;
        }
        Ok(())
    }
}

/// The rule for another entry with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceRule {
    /// The entry is replaced.
    Allowed,
    /// The entry is kept, and installing fails.
    Refused,
}

/// Plans the edit that adds belljar to the client's file.
///
/// # Errors
/// The file cannot be read or edited, or another entry has the name.
pub fn install(
    registration: &Registration<'_>,
    starting: StartCommand<'_>,
    (rule, is_own): (ReplaceRule, OwnCommandCheck<'_>),
    context: &InstallContext<'_>,
) -> Result<Plan, InstallError> {
    let existing = ExistingFile::read(registration, context)?;
    let client = registration.client;
    let form = client.http_form(existing.is_deeper);
    let parts = Parts {
        name: registration.name,
        program: starting.program.to_str().ok_or(InstallError::Program)?,
        args: starting.args,
        reply_s: starting.longest_reply.as_secs(),
        start_s: starting.start.as_secs(),
    };
    let started = match existing.is_deeper {
        true => own_entry::opencode_2(&parts),
        false => (client.own_entry)(&parts),
    };
    let env = client.env_key();
    let mut entry = match starting.reach {
        Reach::Http(address) => {
            form.map_err(|why| InstallError::NoHttp { title: client.title, why })?.entry(&parts, address)
        }
        reach => {
            let mut entry = started.clone();
            if let Some((key, value)) = passing(client.passed_variables, starting.variables) {
                entry[key] = value;
            }
            if reach == Reach::StartShared {
                entry[env][SHARED] = "1".into();
            }
            entry
        }
    };
    if let Some(setting) = client.approval.filter(|_| starting.calls == Calls::Approved) {
        entry[setting.key] = setting.value.into();
    }
    let backup = existing.backup(registration, context);
    let there = existing.entry(registration.name).map(Value::to_json);
    // An entry that starts belljar at another path, or reaches it at another address, is only updated.
    let is_other =
        there.as_ref().is_some_and(|there| !existing.is_belljars(there, registration, is_own, context));
    if let Some(there) = there.as_ref().filter(|_| !is_other) {
        let mut there = own_entry::without_shared(there.clone(), env);
        let is_http = matches!(starting.reach, Reach::Http(_));
        if is_http == starts_belljar(&there, is_own)
            && let Some(keys) = there.as_object_mut()
        {
            // What is said about the former transport would contradict the new one.
            keys.retain(|key, _| {
                let is_written = match is_http {
                    true => started.get(key).is_some(),
                    false => form.is_ok_and(|form| form.has_key(&parts, key)),
                };
                !is_written && !client.is_of_one_transport(key)
            });
        }
        let merged = own_entry::with_additions(entry.clone(), &there);
        // Whoever sent the project could have chosen variables and approvals for the user.
        let is_sent = registration.scope == Scope::Project
            && merged != entry
            && !backup.is_of(existing.text.as_deref());
        if is_sent && rule == ReplaceRule::Refused {
            return Err(InstallError::Additions {
                name: registration.name.into(),
                path: existing.file.path,
                keys: own_entry::additions(&entry, &there).join(", "),
            });
        }
        entry = if is_sent { entry } else { merged };
    }
    if there.as_ref() == Some(&entry) {
        return Ok(Plan::Nothing(existing.file.path));
    }
    let there = existing.text.as_deref().filter(|text| !text.trim().is_empty());
    let text = there.unwrap_or(existing.file.location.new_text);
    if is_other && rule == ReplaceRule::Refused {
        return Err(InstallError::Other { name: registration.name.into(), path: existing.file.path });
    }
    let (path, format) = (existing.keys(), existing.format());
    let edited = with_mark(text, |bare| format.put(bare, (&path, registration.name), &entry, context.limits));
    let Some(after) = edited else {
        let block = format.block(&path, registration.name, &entry);
        return Err(InstallError::Uneditable { path: existing.file.path, block });
    };
    let backup_plan = match backup.is_of(existing.text.as_deref()) {
        true => BackupPlan::Former,
        false => BackupPlan::Before,
    };
    Ok(Plan::Edit(existing.edit(Some(after), (backup_plan, backup), is_other)))
}

/// The file that belljar is added to, and belljar's entry in it.
///
/// # Errors
/// The file cannot be read, or has no entry of belljar.
pub(super) fn own_entry_of(
    registration: &Registration<'_>,
    is_own: OwnCommandCheck<'_>,
    context: &InstallContext<'_>,
) -> Result<(PathBuf, Json), InstallError> {
    let existing = ExistingFile::read(registration, context)?;
    let there = existing.entry(registration.name).map(Value::to_json);
    let client = registration.client;
    match there.filter(|there| existing.is_belljars(there, registration, is_own, context)) {
        Some(entry) if starts_belljar(&entry, is_own) => Ok((existing.file.path, entry)),
        Some(_) => Err(InstallError::OverHttp { title: client.title, path: existing.file.path }),
        None => Err(InstallError::NotThere { client: registration.client.name, path: existing.file.path }),
    }
}

/// The setting without which the client refuses belljar's calls, and the mode in which the client refuses them; `None`:
/// belljar's entry has the setting, or belljar knows no such setting.
///
/// # Errors
/// The file cannot be read.
pub fn missing_approval(
    registration: &Registration<'_>,
    context: &InstallContext<'_>,
) -> Result<Option<(&'static str, &'static str)>, InstallError> {
    let Some(approval) = registration.client.approval else { return Ok(None) };
    let existing = ExistingFile::read(registration, context)?;
    let is_set = existing.entry(registration.name).is_some_and(|entry| entry.get(approval.key).is_some());
    Ok((!is_set).then_some((approval.key, approval.refuses)))
}

/// Plans the edit that removes belljar from the client's file. If nothing else has changed in it, the earlier file is
/// restored.
///
/// # Errors
/// The file cannot be read or edited, or the entry with this name is not belljar's.
pub fn uninstall(
    registration: &Registration<'_>,
    is_own: OwnCommandCheck<'_>,
    context: &InstallContext<'_>,
) -> Result<Plan, InstallError> {
    let existing = ExistingFile::read(registration, context)?;
    let Some(entry) = existing.entry(registration.name) else {
        return Ok(Plan::Nothing(existing.file.path));
    };
    let backup = existing.backup(registration, context);
    let after = match backup.is_of(existing.text.as_deref()) {
        true => backup.former()?,
        false => {
            if !existing.is_belljars(&entry.to_json(), registration, is_own, context) {
                return Err(InstallError::Foreign {
                    name: registration.name.into(),
                    path: existing.file.path,
                });
            }
            let text = existing.text.as_deref().unwrap_or_default();
            let path = existing.keys();
            let edited = with_mark(text, |bare| {
                existing.format().take_out(bare, (&path, registration.name), context.limits)
            });
            let key = [&path[..], &[registration.name]].concat().join(".");
            Some(edited.ok_or_else(|| InstallError::Stuck { key, path: existing.file.path.clone() })?)
        }
    };
    Ok(Plan::Edit(existing.edit(after, (BackupPlan::Nothing, backup), false)))
}

/// A client's file as it was before the edit.
struct ExistingFile<'s> {
    name: &'s str,
    limits: &'s Limits,
    file: ClientFile,
    real: RealFile,
    text: Option<String>,
    root: Value,
    /// Whether the servers are one level deeper, under a further key.
    is_deeper: bool,
}

impl<'s> ExistingFile<'s> {
    fn read(registration: &Registration<'s>, context: &InstallContext<'s>) -> Result<Self, InstallError> {
        let client = registration.client;
        let file = client
            .written_file(context.surroundings, registration.scope)
            .ok_or(InstallError::NoSuchPlace { title: client.title })?;
        let Some(real) = file.real() else { return Err(InstallError::Outside { path: file.path }) };
        let text = read(&real, &file.path, context)?;
        let bare = without_mark(text.as_deref().unwrap_or_default());
        let root = file.location.format.read(bare, context.limits).map_err(|defect| {
            let problem = Problem::of_file(&file.path, defect.message);
            InstallError::Broken {
                problem: Box::new(problem.at(Position::of(bare, defect.at)).hint(defect.hint)),
            }
        })?;
        let table = root.at_path(file.location.servers[0]);
        let is_deeper = table.is_some_and(|table| client.has_deeper_servers(table));
        Ok(Self { name: registration.name, limits: context.limits, file, real, text, root, is_deeper })
    }

    fn format(&self) -> Format {
        self.file.location.format
    }

    fn keys(&self) -> Vec<&'static str> {
        let mut keys = self.file.location.servers[0].to_vec();
        if self.is_deeper {
            keys.push("servers");
        }
        keys
    }

    fn entry(&self, name: &str) -> Option<&Value> {
        self.root.at_path(&self.keys())?.get(name)
    }

    /// Whether an entry is belljar's own. An address alone does not tell whose server it is: the name or the backup does.
    fn is_belljars(
        &self,
        entry: &Json,
        registration: &Registration<'_>,
        is_own: OwnCommandCheck<'_>,
        context: &InstallContext<'_>,
    ) -> bool {
        let form = registration.client.http_form(self.is_deeper);
        starts_belljar(entry, is_own)
            || form.is_ok_and(|form| form.is_own(entry))
                && (self.name == OWN_NAME || self.backup(registration, context).is_there())
    }

    fn backup(&self, registration: &Registration<'_>, context: &InstallContext<'_>) -> Backup {
        Backup::of(context.state, registration.client.name, registration.name, self.real.path())
    }

    fn edit(
        self,
        after: Option<String>,
        (backup_plan, backup): (BackupPlan, Backup),
        replaces: bool,
    ) -> Edit {
        let keys = self.keys();
        let masked = |text: Option<&str>, is_own: bool| {
            let own = is_own.then_some((&keys[..], self.name));
            masked(self.format(), text.unwrap_or_default(), own, self.limits)
        };
        // An entry that is replaced or restored is not belljar's, so its values are hidden.
        let before = masked(self.text.as_deref(), !replaces);
        let shown = compared(&before, &masked(after.as_deref(), backup_plan != BackupPlan::Nothing), 0).text;
        Edit {
            path: self.file.path,
            real: self.real,
            replaces,
            before: self.text,
            after,
            shown,
            backup,
            backup_plan,
        }
    }
}

fn read(file: &RealFile, path: &Path, context: &InstallContext<'_>) -> Result<Option<String>, InstallError> {
    file::read_at(file, path, context.surroundings.uid, context.limits)
        .map_err(|problem| InstallError::Broken { problem })
}

fn starts_belljar(entry: &Json, is_own: OwnCommandCheck<'_>) -> bool {
    let words = match entry.get("command").or_else(|| entry.get("cmd")) {
        Some(Json::Array(words)) => words.clone(),
        Some(word) => {
            let rest = entry.get("args").and_then(Json::as_array).cloned().unwrap_or_default();
            [vec![word.clone()], rest].concat()
        }
        None => return false,
    };
    let words: Vec<String> = words.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect();
    words.split_first().is_some_and(|(program, arguments)| is_own(program, arguments))
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Edits a text without its byte order mark, which is kept.
fn with_mark(text: &str, edit: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    let bare = without_mark(text);
    edit(bare).map(|edited| format!("{}{edited}", &text[..text.len() - bare.len()]))
}
