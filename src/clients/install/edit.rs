//! Puts belljar into a client's file, and takes it out again: one entry, and every other byte as it was.
//!
//! It does not know what the entry says. What a file held before is kept beside belljar's state by `backup`.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::backup::Backup;
use super::passing::passing;
use crate::clients::diagnostic::{Remark, Weight};
use crate::clients::diff::compared;
use crate::clients::error::InstallError;
use crate::clients::file;
use crate::clients::formats::format::Format;
use crate::clients::formats::masked::masked;
use crate::clients::formats::spanned::Value;
use crate::clients::found::IsOwn;
use crate::clients::own_entry::{self, Calls, Parts, Starting};
use crate::clients::places::{ClientFile, Scope, Surroundings};
use crate::clients::table::Client;
use crate::limits::Limits;
use crate::own_file;

/// What is to be put where.
#[derive(Debug, Clone, Copy)]
pub struct Registration<'r> {
    /// The client.
    pub client: &'static Client,
    /// The name of the entry.
    pub name: &'r str,
    /// In which of its files.
    pub scope: Scope,
}

/// What files are looked for and kept with.
#[derive(Debug, Clone, Copy)]
pub struct Workshop<'w> {
    /// Where clients' files are.
    pub surroundings: &'w Surroundings,
    /// Where belljar keeps what it has to remember.
    pub state: &'w Path,
    /// The bounds on files.
    pub limits: &'w Limits,
}

/// What there is to do.
#[derive(Debug)]
pub enum Plan {
    /// The file is as it should be.
    Nothing(PathBuf),
    /// This.
    Edit(Edit),
}

/// An edit of one file, not yet made.
#[derive(Debug)]
pub struct Edit {
    /// The file, as the client calls it.
    pub path: PathBuf,
    /// Whether it replaces an entry that is another.
    pub replaces: bool,
    before: Option<String>,
    /// `None` where the file goes.
    after: Option<String>,
    shown: String,
    backup: Backup,
    keeps: Keeps,
}

/// What is kept for taking the entry out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// The file as it is before this edit.
    Before,
    /// What was kept already, which goes further back.
    Former,
    /// Nothing more: the entry has gone.
    Nothing,
}

impl Edit {
    /// The edit as a diff; of what is not belljar's own no value is shown.
    #[must_use]
    pub fn diff(&self) -> &str {
        &self.shown
    }

    /// Whether the file is removed, since it was made for the entry alone.
    #[must_use]
    pub fn removes_file(&self) -> bool {
        self.after.is_none()
    }

    /// Makes it.
    ///
    /// # Errors
    /// The system refuses, or the file has been changed since it was read.
    pub fn make(&self, workshop: &Workshop<'_>) -> Result<(), InstallError> {
        let unwritten = |source| InstallError::Unwritten { path: self.path.clone(), source };
        if read(&self.path, workshop)? != self.before {
            return Err(InstallError::Changed { path: self.path.clone() });
        }
        if let (Keeps::Before | Keeps::Former, Some(after)) = (self.keeps, self.after.as_deref()) {
            let before = (self.keeps == Keeps::Before).then_some(self.before.as_deref());
            self.backup.keep(before, after)?;
        }
        match &self.after {
            Some(after) => own_file::replace(&self.path, after.as_bytes()).map_err(unwritten)?,
            None => std::fs::remove_file(&self.path).map_err(unwritten)?,
        }
        if self.keeps == Keeps::Nothing {
            self.backup.forget()?;
        }
        Ok(())
    }
}

/// Whether an entry of another kind may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacing {
    /// It may.
    Allowed,
    /// It may not.
    Refused,
}

/// What has to be done to have belljar in the client's file.
///
/// # Errors
/// The file cannot be read or edited, or another entry has the name.
pub fn install(
    registration: &Registration<'_>,
    starting: Starting<'_>,
    (replacing, is_own): (Replacing, IsOwn<'_>),
    workshop: &Workshop<'_>,
) -> Result<Plan, InstallError> {
    let seen = Seen::read(registration, workshop)?;
    let parts = Parts {
        name: registration.name,
        program: starting.program.to_str().ok_or(InstallError::Program)?,
        reply_s: starting.longest_reply.as_secs(),
        start_s: starting.start.as_secs(),
    };
    let mut entry = match seen.is_deeper {
        true => own_entry::opencode_2(&parts),
        false => (registration.client.own_entry)(&parts),
    };
    let passing = passing(registration.client.passes, starting.variables);
    let approving = registration.client.approving.filter(|_| starting.calls == Calls::Approved);
    let approving = approving.map(|setting| (setting.key, setting.value.into()));
    for (key, value) in passing.into_iter().chain(approving) {
        entry[key] = value;
    }
    let there = seen.entry(registration.name).map(Value::to_json);
    // One that is belljar at another place is only brought up to date.
    let is_other = there.as_ref().is_some_and(|there| !starts_belljar(there, is_own));
    if let Some(there) = there.as_ref().filter(|_| !is_other) {
        entry = own_entry::with_additions(entry, there);
    }
    if there.as_ref() == Some(&entry) {
        return Ok(Plan::Nothing(seen.file.path));
    }
    let text = seen.text.as_deref().unwrap_or_default();
    if is_other && replacing == Replacing::Refused {
        return Err(InstallError::Other { name: registration.name.into(), path: seen.file.path });
    }
    let (path, format) = (seen.keys(), seen.format());
    let edited =
        with_mark(text, |bare| format.put(bare, (&path, registration.name), &entry, workshop.limits));
    let Some(after) = edited else {
        let block = format.block(&path, registration.name, &entry);
        return Err(InstallError::Uneditable { path: seen.file.path, block });
    };
    let backup = seen.backup(registration, workshop);
    let keeps = match backup.is_of(seen.text.as_deref()) {
        true => Keeps::Former,
        false => Keeps::Before,
    };
    Ok(Plan::Edit(seen.edit(Some(after), (keeps, backup), is_other)))
}

/// The file that belljar is put into, and its entry there.
///
/// # Errors
/// The file cannot be read, or belljar is not in it.
pub(super) fn own_entry_of(
    registration: &Registration<'_>,
    is_own: IsOwn<'_>,
    workshop: &Workshop<'_>,
) -> Result<(PathBuf, Json), InstallError> {
    let seen = Seen::read(registration, workshop)?;
    let there = seen.entry(registration.name).map(Value::to_json);
    match there.filter(|there| starts_belljar(there, is_own)) {
        Some(entry) => Ok((seen.file.path, entry)),
        None => Err(InstallError::NotThere { client: registration.client.name, path: seen.file.path }),
    }
}

/// The setting without which the client refuses belljar's calls, and who does, where its entry does not have it.
///
/// # Errors
/// The file cannot be read.
pub fn missing_approval(
    registration: &Registration<'_>,
    workshop: &Workshop<'_>,
) -> Result<Option<(&'static str, &'static str)>, InstallError> {
    let Some(approving) = registration.client.approving else { return Ok(None) };
    let seen = Seen::read(registration, workshop)?;
    let is_set = seen.entry(registration.name).is_some_and(|entry| entry.get(approving.key).is_some());
    Ok((!is_set).then_some((approving.key, approving.refuses)))
}

/// What has to be done to have belljar out of the client's file: the former file where nothing else has changed in it.
///
/// # Errors
/// The file cannot be read or edited, or the entry of the name is not belljar's.
pub fn uninstall(
    registration: &Registration<'_>,
    is_own: IsOwn<'_>,
    workshop: &Workshop<'_>,
) -> Result<Plan, InstallError> {
    let seen = Seen::read(registration, workshop)?;
    let Some(entry) = seen.entry(registration.name) else {
        return Ok(Plan::Nothing(seen.file.path));
    };
    let backup = seen.backup(registration, workshop);
    let after = match backup.is_of(seen.text.as_deref()) {
        true => backup.former()?,
        false => {
            if !starts_belljar(&entry.to_json(), is_own) {
                return Err(InstallError::Foreign { name: registration.name.into(), path: seen.file.path });
            }
            let text = seen.text.as_deref().unwrap_or_default();
            let path = seen.keys();
            let edited = with_mark(text, |bare| {
                seen.format().take_out(bare, (&path, registration.name), workshop.limits)
            });
            let key = [&path[..], &[registration.name]].concat().join(".");
            Some(edited.ok_or_else(|| InstallError::Stuck { key, path: seen.file.path.clone() })?)
        }
    };
    Ok(Plan::Edit(seen.edit(after, (Keeps::Nothing, backup), false)))
}

/// A client's file as it is.
struct Seen<'s> {
    name: &'s str,
    limits: &'s Limits,
    file: ClientFile,
    text: Option<String>,
    root: Value,
    /// Whether the servers stand under one key more.
    is_deeper: bool,
}

impl<'s> Seen<'s> {
    fn read(registration: &Registration<'s>, workshop: &Workshop<'s>) -> Result<Self, InstallError> {
        let client = registration.client;
        let file = client
            .written_file(workshop.surroundings, registration.scope)
            .ok_or(InstallError::NoSuchPlace { title: client.title })?;
        if registration.scope == Scope::Project {
            check_inside(&file, workshop.surroundings)?;
        }
        let text = read(&file.path, workshop)?;
        let bare = without_mark(text.as_deref().unwrap_or_default());
        let root = file.place.format.read(bare, workshop.limits).map_err(|defect| {
            let remark = Remark::new(Weight::Broken, &file.path, defect.message);
            InstallError::Broken { remark: Box::new(remark.at(bare, defect.at).hint(defect.hint)) }
        })?;
        let table = root.at_path(file.place.servers[0]);
        let is_deeper = table.is_some_and(|table| client.has_deeper_servers(table));
        Ok(Self { name: registration.name, limits: workshop.limits, file, text, root, is_deeper })
    }

    fn format(&self) -> Format {
        self.file.place.format
    }

    fn keys(&self) -> Vec<&'static str> {
        let mut keys = self.file.place.servers[0].to_vec();
        if self.is_deeper {
            keys.push("servers");
        }
        keys
    }

    fn entry(&self, name: &str) -> Option<&Value> {
        self.root.at_path(&self.keys())?.get(name)
    }

    fn backup(&self, registration: &Registration<'_>, workshop: &Workshop<'_>) -> Backup {
        Backup::of(workshop.state, registration.client.name, registration.name, &file::real(&self.file.path))
    }

    fn edit(self, after: Option<String>, (keeps, backup): (Keeps, Backup), replaces: bool) -> Edit {
        let keys = self.keys();
        let masked = |text: Option<&str>, is_own: bool| {
            let own = is_own.then_some((&keys[..], self.name));
            masked(self.format(), text.unwrap_or_default(), own, self.limits)
        };
        // An entry that is replaced, or comes back, is not belljar's.
        let before = masked(self.text.as_deref(), !replaces);
        let shown = compared(&before, &masked(after.as_deref(), keeps != Keeps::Nothing), 0).text;
        Edit { path: self.file.path, replaces, before: self.text, after, shown, backup, keeps }
    }
}

/// A project may be a stranger's, whose links could lead to any file of the user's.
fn check_inside(file: &ClientFile, surroundings: &Surroundings) -> Result<(), InstallError> {
    let project = surroundings.project.as_deref().unwrap_or(Path::new("/"));
    // What is not there yet is made in the folder that is; a link to nothing leads who knows where.
    let there = file.path.ancestors().find(|path| path.symlink_metadata().is_ok());
    let is_inside = there
        .zip(project.canonicalize().ok())
        .is_some_and(|(there, project)| there.canonicalize().is_ok_and(|real| real.starts_with(project)));
    match is_inside {
        true => Ok(()),
        false => Err(InstallError::Outside { path: file.path.clone() }),
    }
}

fn read(path: &Path, workshop: &Workshop<'_>) -> Result<Option<String>, InstallError> {
    file::read(path, workshop.surroundings.uid, workshop.limits)
        .map_err(|remark| InstallError::Broken { remark })
}

fn starts_belljar(entry: &Json, is_own: IsOwn<'_>) -> bool {
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

/// The edit of a text without its byte order mark, which comes back.
fn with_mark(text: &str, edit: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    let bare = without_mark(text);
    edit(bare).map(|edited| format!("{}{edited}", &text[..text.len() - bare.len()]))
}
