//! The files of pins. Each tool that was used has a file with its definition at its first use, and may have a file with
//! the definition to which its server has changed it since. Because each tool has its own files, several bridges
//! neither lose each other's pins nor undo what the user trusts.
//!
//! It compares nothing and decides nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use belljar_base::digest;
use belljar_base::names::ServerName;
use belljar_base::own_file;
use belljar_base::text;
use belljar_tools::catalog::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::broker::failure_text::redact;

/// Largest part of a tool that is stored whole, in bytes of JSON; for a larger one only the size is stored.
const PART_BYTES_MAX: usize = 64 << 10;
/// Largest file, in bytes: six such parts, and their names.
const FILE_BYTES_MAX: u64 = 512 << 10;
/// The largest number of names of one server's pinned tools: two or three for each, for as many tools as a server may have.
const FILES_MAX: usize = 40_000;

/// The extension of the file of a tool as it was at its first use.
const FIRST: &str = "pin";
/// The extension of the file of a tool as its server has changed it.
const CHANGED: &str = "seen";
/// The extension of the file with the name of the tool that code has called by a name of this key.
const CALLED: &str = "called";

/// The definition of a tool at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pin {
    /// A hash of all parts of the definition.
    pub(crate) hash: String,
    /// The parts of the definition by name, to be shown.
    pub(crate) parts: Map<String, Value>,
    /// The name by which code called the tool: it depends on the server's other tools, too.
    #[serde(default)]
    pub(super) alias: String,
}

/// The fingerprint of a pin file: its times and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PinFileFingerprint([i64; 4], u64);

/// The result of an attempt to pin a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pinned {
    /// The tool was pinned now.
    Now,
    /// The tool was pinned before, perhaps by another bridge.
    Before,
    /// The tool was not pinned, because there are too many pins.
    TooMany,
}

/// The pin files of one server.
pub(super) struct PinFiles {
    dir: PathBuf,
}

impl Pin {
    /// The pin of the tool as it is now. Secrets of its server are removed from the parts.
    pub(crate) fn of(tool: &Tool, redacted: &dyn Fn(String) -> String) -> Self {
        let parts = [
            ("name", json!(tool.name.as_str())),
            ("title", json!(tool.title)),
            ("description", json!(tool.description)),
            ("inputSchema", json!(*tool.input_schema)),
            ("outputSchema", json!(tool.output_schema)),
            ("annotations", json!(tool.annotations)),
        ];
        let all = parts.iter().map(|(_, part)| part.clone()).collect();
        let hash = digest::sha256(digest::canonical(Value::Array(all)).as_bytes());
        let kept = parts.into_iter().map(|(name, mut part)| {
            redact(&mut part, redacted);
            let bytes = part.to_string().len();
            let is_kept = bytes <= PART_BYTES_MAX;
            (
                name.to_owned(),
                if is_kept { part } else { json!(format!("{bytes} bytes, too many to be kept")) },
            )
        });
        Self { hash, parts: kept.collect(), alias: tool.alias.clone() }
    }

    fn called_keys(&self) -> [String; 2] {
        [&self.alias, self.name()].map(called_key)
    }

    /// The tool's own name.
    pub(crate) fn name(&self) -> &str {
        self.parts.get("name").and_then(Value::as_str).unwrap_or_default()
    }
}

impl PinFiles {
    /// The pin files of a server, in the folder for all servers.
    pub(crate) fn of(dir: &Path, server: &ServerName) -> Self {
        Self { dir: dir.join(digest::sha256(server.as_str().as_bytes())) }
    }

    /// The fingerprint of a tool's pin file, which is not read; `None`: there is no file.
    pub(crate) fn fingerprint(&self, tool: &str) -> Option<PinFileFingerprint> {
        let about = fs::symlink_metadata(self.dir.join(file(tool, FIRST))).ok()?;
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
        Some(PinFileFingerprint(times, about.ino()))
    }

    /// A tool as it was at its first use; `None`: it was not used yet.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn first(&self, tool: &str) -> io::Result<Option<Pin>> {
        self.read(&file(tool, FIRST))
    }

    /// The names of other tools that were pinned before and that code has called by the name or alias of this one.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn others_called(&self, pin: &Pin) -> io::Result<Vec<String>> {
        let mut others = Vec::new();
        for key in pin.called_keys() {
            let name = own_file::read(&self.dir.join(format!("{key}.{CALLED}")), FILE_BYTES_MAX);
            let name = own_file::unless_missing(name)?;
            others.extend(name.map(|name| String::from_utf8_lossy(&name).into_owned()));
        }
        others.retain(|other| other != pin.name());
        Ok(others)
    }

    /// The pin of another tool that code has called by the name or alias of this one.
    pub(super) fn called_before(&self, pin: &Pin) -> Option<Pin> {
        self.others_called(pin).ok()?.iter().find_map(|other| self.first(other).ok()?)
    }

    /// Notes that code calls this tool by its name and alias, where it has called no other one so before.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn note_called(&self, pin: &Pin) -> io::Result<()> {
        for key in pin.called_keys() {
            match own_file::create(&self.dir, &format!("{key}.{CALLED}"), pin.name().as_bytes()) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Pins a tool at its first use.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn pin(&self, pin: &Pin) -> io::Result<Pinned> {
        if self.names()?.len() >= FILES_MAX {
            return Ok(Pinned::TooMany);
        }
        self.note_called(pin)?;
        match own_file::create(&self.dir, &file(pin.name(), FIRST), &json(pin)) {
            Ok(()) => Ok(Pinned::Now),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Pinned::Before),
            Err(error) => Err(error),
        }
    }

    /// Replaces the pin of a tool, and forgets its change.
    ///
    /// # Errors
    /// A file cannot be written or removed.
    pub(crate) fn replace(&self, pin: &Pin) -> io::Result<()> {
        own_file::write(&self.dir, &file(pin.name(), FIRST), &json(pin))?;
        self.forget_change(pin.name())
    }

    /// Stores the changed definition of a tool, for the user to see and to trust.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep_change(&self, pin: &Pin) -> io::Result<()> {
        let name = file(pin.name(), CHANGED);
        if self.read(&name).is_ok_and(|kept| kept.as_ref() == Some(pin)) {
            return Ok(());
        }
        own_file::write(&self.dir, &name, &json(pin))
    }

    /// Forgets the changed definition of a tool.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(super) fn forget_change(&self, tool: &str) -> io::Result<()> {
        self.remove(&file(tool, CHANGED))
    }

    /// The keys of all tools with a file, and of the names by which code has called them; [`key`] makes a key from a tool's name.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub(crate) fn names(&self) -> io::Result<BTreeSet<String>> {
        let names = own_file::names(&self.dir)?;
        let parts = names.iter().filter_map(|name| name.rsplit_once('.'));
        let keys = parts.filter(|(_, end)| [FIRST, CHANGED, CALLED].contains(end));
        Ok(keys.map(|(key, _)| key.to_owned()).collect())
    }

    /// The pin and the changed definition of the tool with this key from [`Self::names`].
    pub(crate) fn both(&self, key: &str) -> [io::Result<Option<Pin>>; 2] {
        [FIRST, CHANGED].map(|end| self.read(&format!("{key}.{end}")))
    }

    /// Removes the files of the tool with this key from [`Self::names`].
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn forget(&self, key: &str) -> io::Result<()> {
        [FIRST, CHANGED, CALLED].iter().try_for_each(|end| self.remove(&format!("{key}.{end}")))
    }

    fn read(&self, name: &str) -> io::Result<Option<Pin>> {
        let bytes = own_file::unless_missing(own_file::read(&self.dir.join(name), FILE_BYTES_MAX))?;
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose()?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        own_file::remove(&self.dir.join(name)).map(drop)
    }
}

/// The key of a tool, which is part of its file names.
pub(crate) fn key(tool: &str) -> String {
    digest::sha256(tool.as_bytes())
}

/// The key of a name by which code calls a tool, in another case or Unicode form, too.
pub(crate) fn called_key(called: &str) -> String {
    key(&text::folded(called))
}

fn file(tool: &str, end: &str) -> String {
    format!("{}.{end}", key(tool))
}

fn json(pin: &Pin) -> Vec<u8> {
    json!(pin).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use belljar_base::limits::Limits;

    use super::*;

    #[test]
    fn every_part_of_a_tool_counts_and_nothing_else() {
        let base = json!({"name": "t", "description": "d", "inputSchema": {"type": "object"}});
        let of = |tool: &Tool| Pin::of(tool, &|text| text).hash;
        let hash_of = |item: &Value| of(&Tool::from_json(item, &Limits::default()).unwrap());
        for (key, value) in [
            ("name", json!("u")),
            ("title", json!("T")),
            ("description", json!("e")),
            ("inputSchema", json!({"type": "object", "properties": {"a": {}}})),
            ("outputSchema", json!({})),
            ("annotations", json!({"readOnlyHint": true})),
        ] {
            let mut other = base.clone();
            other[key] = value;
            assert_ne!(hash_of(&base), hash_of(&other), "{key}");
        }
        let mut same = base.clone();
        same["icons"] = json!([]);
        assert_eq!(hash_of(&base), hash_of(&same));
        let mut renamed = Tool::from_json(&base, &Limits::default()).unwrap();
        let before = of(&renamed);
        renamed.alias = "other".into();
        assert_eq!(of(&renamed), before);
    }

    #[test]
    fn what_is_kept_to_be_shown_is_bounded_and_has_no_secrets() {
        let properties: Map<String, Value> = (0..10_000).map(|n| (format!("name{n}"), json!({}))).collect();
        let item =
            json!({"name": "t", "description": "with hunter22", "inputSchema": {"properties": properties}});
        let tool = Tool::from_json(&item, &Limits::default()).unwrap();
        let pin = Pin::of(&tool, &|text| text.replace("hunter22", "[TOKEN]"));
        assert_eq!(pin.parts["description"], "with [TOKEN]");
        assert!(pin.parts["inputSchema"].as_str().unwrap().ends_with("bytes, too many to be kept"));
        assert_eq!(pin.name(), "t");
    }
}
