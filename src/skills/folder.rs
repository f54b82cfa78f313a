//! The folder of skills: `NAME.py`, and `.history/NAME/000001.py` and so on, each version as it was written.
//!
//! A version stands in the history before it counts: what is acknowledged can always be had again, within the bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::own_file;
use belljar_base::text::suggest;
use parking_lot::Mutex;

use super::definition::{Definition, definition};
use super::disk::{self, SkillFileFingerprint};
use super::error::SkillError;
use super::header::{self, Header};
use super::name::SkillName;
use super::skill_file::{Skill, SkillFile, judged, parted};

const HISTORY: &str = ".history";
/// Versions of each skill that are kept, and their bytes; the newest in any case.
const VERSIONS_MAX: usize = 20;
const HISTORY_BYTES_MAX: u64 = 512 << 10;

/// The folder, and what is known of its files.
#[derive(Debug)]
pub struct Skills {
    dir: PathBuf,
    source_bytes_max: usize,
    count_max: usize,
    known: Mutex<BTreeMap<SkillName, (SkillFileFingerprint, Arc<SkillFile>)>>,
}

/// A skill that is to be saved.
#[derive(Debug, Clone)]
pub struct NewSkill {
    /// The function's name.
    pub name: SkillName,
    /// Its source, with all that it needs.
    pub body: String,
    /// What it is for; nothing: the first line of its docstring.
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The servers that it names.
    pub servers: Vec<String>,
    /// The function of the source that tests it.
    pub test: Option<String>,
}

/// The version under which a skill was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveResult {
    /// The version that is in effect.
    pub version: u64,
    /// Whether the version is new, or existed already.
    pub is_new: bool,
}

/// A file that waits for the user to accept it.
#[derive(Debug)]
pub struct PendingSkill {
    /// The difference, as a sentence.
    pub why: String,
    /// The present text of the file.
    pub text: String,
    /// The newest version that is stored of it.
    pub before: Option<String>,
}

impl PendingSkill {
    /// What stands there behind the header.
    #[must_use]
    pub fn body(&self) -> &str {
        header::read(&self.text).map_or(&*self.text, |(_, body)| body)
    }
}

impl Skills {
    /// The folder, which may not be there yet.
    #[must_use]
    pub fn new(dir: PathBuf, limits: &Limits) -> Self {
        let (source_bytes_max, count_max) = (limits.saved_tool_bytes_max, limits.saved_tools_max);
        Self { dir, source_bytes_max, count_max, known: Mutex::default() }
    }

    /// All of them by name.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn all(&self) -> Result<Vec<(SkillName, Arc<SkillFile>)>, SkillError> {
        let names = self.names()?;
        let mut known = self.known.lock();
        known.retain(|name, _| names.contains(name));
        drop(known);
        Ok(names.into_iter().filter_map(|name| self.find(&name).map(|found| (name, found))).collect())
    }

    /// One of them; nothing: there is none of that name.
    #[must_use]
    pub fn find(&self, name: &SkillName) -> Option<Arc<SkillFile>> {
        let path = self.dir.join(name.file());
        // Before it is read: what is written in between is read again.
        let look = disk::fingerprint(&path)?;
        let mut known = self.known.lock();
        if let Some((_, found)) = known.get(name).filter(|(before, _)| *before == look) {
            return Some(Arc::clone(found));
        }
        let found = Arc::new(match self.read(&self.dir, &name.file()) {
            Ok(text) => judged(name, &text),
            Err(why) => SkillFile::Unusable { why },
        });
        known.insert(name.clone(), (look, Arc::clone(&found)));
        Some(found)
    }

    /// A skill that can be used.
    ///
    /// # Errors
    /// When there is none, or the user has not accepted what stands there.
    pub fn ready(&self, name: &SkillName) -> Result<Skill, SkillError> {
        let Some(found) = self.find(name) else { return Err(self.unknown(name)) };
        let name = name.to_string();
        match &*found {
            SkillFile::Ready(skill) => Ok((**skill).clone()),
            SkillFile::Changed { why } => Err(SkillError::Changed { name, why: why.clone() }),
            SkillFile::Unusable { why } => Err(SkillError::Unusable { name, why: format!("it {why}") }),
        }
    }

    /// Whether there is a skill of this name.
    #[must_use]
    pub fn has(&self, name: &SkillName) -> bool {
        self.find(name).is_some()
    }

    /// Keeps a function, in place of one with the same name; not in place of what the user has changed and not accepted.
    ///
    /// # Errors
    /// When it is too large or there are too many, defines no such function, or cannot be written.
    pub fn save(&self, new: NewSkill) -> Result<SaveResult, SkillError> {
        let NewSkill { name, body, description, tags, servers, test } = new;
        let definition = self.checked(&name, &body)?;
        let _lock = disk::lock(&self.dir)?;
        let header = Header {
            name: name.to_string(),
            description: description.filter(|said| !said.trim().is_empty()).unwrap_or(definition.doc),
            tags,
            servers,
            test,
            ..Header::default()
        };
        match self.ready(&name) {
            Ok(Skill { header: before, body: same, .. }) => {
                let version = before.version;
                let after = Header { saved: before.saved.clone(), ..header.clone().stamped(version, &body) };
                if same == body && after == before {
                    return Ok(SaveResult { version, is_new: false });
                }
            }
            Err(SkillError::Unknown { .. }) => {
                let taken = self.with_history()?;
                if !taken.contains(&name) && taken.len() >= self.count_max {
                    return Err(SkillError::TooMany { count_max: self.count_max });
                }
            }
            Err(refused) => return Err(refused),
        }
        let version = self.put(&name, header, &body)?;
        Ok(SaveResult { version, is_new: true })
    }

    /// Removes a skill as code may: its history stays.
    ///
    /// # Errors
    /// As [`Self::ready`].
    pub fn remove(&self, name: &SkillName) -> Result<u64, SkillError> {
        let _lock = disk::lock(&self.dir)?;
        let version = self.ready(name)?.header.version;
        own_file::remove(&self.dir.join(name.file()))?;
        Ok(version)
    }

    /// Removes whatever stands there, as the user may. What was not accepted goes to the history first.
    ///
    /// # Errors
    /// When there is none, or the folder cannot be written.
    pub fn remove_any(&self, name: &SkillName) -> Result<(), SkillError> {
        let _lock = disk::lock(&self.dir)?;
        let Some(found) = self.find(name) else { return Err(self.unknown(name)) };
        if let SkillFile::Changed { .. } = *found {
            let text = self.read(&self.dir, &name.file()).map_err(|why| unusable(name, &why))?;
            let (header, body) = parted(name, &text);
            self.keep(name, header, body)?;
        }
        own_file::remove(&self.dir.join(name.file()))?;
        Ok(())
    }

    /// Forgets all versions of a skill.
    ///
    /// # Errors
    /// When there is none, or the folder cannot be written.
    pub fn purge(&self, name: &SkillName) -> Result<(), SkillError> {
        let _lock = disk::lock(&self.dir)?;
        if !self.with_history()?.contains(name) {
            return Err(self.unknown(name));
        }
        own_file::remove(&self.dir.join(name.file()))?;
        own_file::unless_missing(fs::remove_dir_all(self.dir.join(HISTORY).join(name.as_str())))?;
        Ok(())
    }

    /// The versions that are kept, the newest first.
    ///
    /// # Errors
    /// When there is neither a skill nor a history of that name.
    pub fn history(&self, name: &SkillName) -> Result<Vec<Skill>, SkillError> {
        let versions = self.versions(name)?;
        if versions.is_empty() && self.find(name).is_none() {
            return Err(self.unknown(name));
        }
        let read = |version: &u64| self.version(name, *version).ok();
        Ok(versions.iter().rev().filter_map(read).collect())
    }

    /// Lets an earlier version count again, as a new one.
    ///
    /// # Errors
    /// When that version is not kept, or the user has changed what stands there.
    pub fn restore(&self, name: &SkillName, version: Option<u64>) -> Result<SaveResult, SkillError> {
        let _lock = disk::lock(&self.dir)?;
        let current = match self.ready(name) {
            Err(SkillError::Unknown { .. }) => None,
            found => Some(found?.header.version),
        };
        let kept = self.versions(name)?;
        if kept.is_empty() {
            return Err(self.unknown(name));
        }
        // Without a number, the one that was removed, or the one before.
        let meant = version.or_else(|| kept.iter().rev().find(|one| Some(**one) != current).copied());
        // The only one counts already.
        let meant = meant.or(current).unwrap_or_default();
        let Skill { header, body, .. } = self.version(name, meant)?;
        let version = self.put(name, header, &body)?;
        Ok(SaveResult { version, is_new: true })
    }

    /// What stands there now and waits for the user.
    ///
    /// # Errors
    /// When nothing waits, or what stands there defines no such function.
    pub fn waiting(&self, name: &SkillName) -> Result<PendingSkill, SkillError> {
        let why = match self.ready(name) {
            Ok(_) => return Err(SkillError::Unchanged { name: name.to_string() }),
            Err(SkillError::Changed { why, .. }) => why,
            Err(refused) => return Err(refused),
        };
        let text = self.read(&self.dir, &name.file()).map_err(|why| unusable(name, &why))?;
        self.checked(name, parted(name, &text).1)?;
        let newest = self.versions(name)?.last().copied();
        let before = newest.and_then(|newest| self.version(name, newest).ok()).map(|skill| skill.body);
        Ok(PendingSkill { why, text, before })
    }

    /// From now on what was shown counts, as a new version.
    ///
    /// # Errors
    /// When it has been changed again meanwhile, or cannot be written.
    pub fn accept(&self, name: &SkillName, shown: &PendingSkill) -> Result<u64, SkillError> {
        let _lock = disk::lock(&self.dir)?;
        if self.read(&self.dir, &name.file()).as_ref() != Ok(&shown.text) {
            return Err(SkillError::ChangedAgain { name: name.to_string() });
        }
        let (header, body) = parted(name, &shown.text);
        self.put(name, header, body)
    }

    /// That there is none, with one that may have been meant.
    #[must_use]
    pub fn unknown(&self, name: &SkillName) -> SkillError {
        let names = self.names().unwrap_or_default();
        let near = suggest::nearest(name.as_str(), names.iter().map(SkillName::as_str));
        SkillError::Unknown { name: name.to_string(), near: near.map(str::to_owned) }
    }

    /// The function that the source defines.
    fn checked(&self, name: &SkillName, body: &str) -> Result<Definition, SkillError> {
        if body.len() > self.source_bytes_max {
            let (bytes, bytes_max) = (body.len(), self.source_bytes_max);
            return Err(SkillError::TooLarge { name: name.to_string(), bytes, bytes_max });
        }
        definition(body, name.as_str()).ok_or_else(|| SkillError::NoFunction { name: name.to_string() })
    }

    /// Writes the next version, first where earlier ones are kept.
    fn put(&self, name: &SkillName, header: Header, body: &str) -> Result<u64, SkillError> {
        let (version, text) = self.keep(name, header, body)?;
        disk::write(&self.dir, &name.file(), &text)?;
        Ok(version)
    }

    /// Puts the next version into the history; which it is, and its text.
    fn keep(&self, name: &SkillName, header: Header, body: &str) -> Result<(u64, String), SkillError> {
        let current = match self.find(name).as_deref() {
            Some(SkillFile::Ready(skill)) => skill.header.version,
            _ => 0,
        };
        let versions = self.versions(name)?;
        let version = versions.last().copied().unwrap_or(0).max(current).saturating_add(1);
        let text = header.stamped(version, body).before(body);
        let dir = self.dir.join(HISTORY).join(name.as_str());
        disk::write(&dir, &version_file(version), &text)?;
        let mut bytes = 0;
        for (place, version) in versions.iter().rev().enumerate() {
            let path = dir.join(version_file(*version));
            bytes += fs::symlink_metadata(&path).map_or(0, |about| about.len());
            if place + 1 >= VERSIONS_MAX || bytes + text.len() as u64 > HISTORY_BYTES_MAX {
                own_file::remove(&path)?;
            }
        }
        Ok((version, text))
    }

    /// A version that is kept.
    ///
    /// # Errors
    /// When it is not kept, or was changed.
    pub fn version(&self, name: &SkillName, version: u64) -> Result<Skill, SkillError> {
        let kept = self.versions(name)?;
        if !kept.contains(&version) {
            return Err(SkillError::NoVersion { name: name.to_string(), version, kept: listed(&kept) });
        }
        let dir = self.dir.join(HISTORY).join(name.as_str());
        let text = self.read(&dir, &version_file(version)).map_err(|why| unusable(name, &why))?;
        match judged(name, &text) {
            SkillFile::Ready(skill) => Ok(*skill),
            SkillFile::Changed { why } | SkillFile::Unusable { why } => {
                Err(unusable(name, &format!("has a version {version} that was changed: {why}")))
            }
        }
    }

    /// The numbers of the versions in the history, the oldest first.
    fn versions(&self, name: &SkillName) -> Result<Vec<u64>, SkillError> {
        let names = own_file::names(&self.dir.join(HISTORY).join(name.as_str()))?;
        let mut versions: Vec<u64> =
            names.iter().filter_map(|file| file.strip_suffix(".py")?.parse().ok()).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    fn names(&self) -> Result<BTreeSet<SkillName>, SkillError> {
        let names = own_file::names(&self.dir)?;
        let names = names.iter().filter_map(|file| SkillName::new(file.strip_suffix(".py")?).ok());
        Ok(names.take(self.count_max).collect())
    }

    /// The names that are taken, those of removed skills with a history among them.
    fn with_history(&self) -> Result<BTreeSet<SkillName>, SkillError> {
        let mut names = self.names()?;
        let removed = own_file::names(&self.dir.join(HISTORY))?;
        names.extend(removed.iter().filter_map(|name| SkillName::new(name).ok()));
        Ok(names)
    }

    fn read(&self, dir: &Path, file: &str) -> Result<String, String> {
        disk::read(&dir.join(file), self.source_bytes_max + header::BYTES_MAX)
    }
}

fn unusable(name: &SkillName, why: &str) -> SkillError {
    SkillError::Unusable { name: name.to_string(), why: format!("it {why}") }
}

fn version_file(version: u64) -> String {
    format!("{version:06}.py")
}

fn listed(versions: &[u64]) -> String {
    if versions.is_empty() {
        return "none".to_owned();
    }
    versions.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
