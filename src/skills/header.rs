//! The header of a skill's file: TOML in comments, for people to read and for the bridge to tell whether the rest was changed.
//!
//! Its hash has no key: it shows edits, and withstands nobody who has the user's rights.

use std::collections::BTreeSet;

use belljar_base::clock;
use belljar_base::digest;
use belljar_base::text;
use chrono::SecondsFormat;
use serde::{Deserialize, Serialize};

use super::definition::DESCRIPTION_CHARS_MAX;

const BEGIN: &str = "# /// skill\n";
const END: &str = "# ///\n";
/// Longest header, in bytes.
pub(super) const BYTES_MAX: usize = 16 << 10;
const TAGS_MAX: usize = 16;
const TAG_CHARS_MAX: usize = 40;
const SERVERS_MAX: usize = 50;
const SERVER_CHARS_MAX: usize = 100;
const SAVED_CHARS_MAX: usize = 40;

/// The header of a skill's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The function's name.
    pub name: String,
    /// What it is for, in a line.
    #[serde(default)]
    pub description: String,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Counts from 1.
    pub version: u64,
    /// When this version was written, by the clock of the host.
    #[serde(default)]
    pub saved: String,
    /// The servers that its source names.
    #[serde(default)]
    pub servers: Vec<String>,
    /// The function of the file that tests it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// SHA-256 of all that follows the header, in hexadecimal digits.
    pub sha256: String,
}

impl Header {
    /// The same for this version and body, written now; all of it bounded, and on lines of its own.
    pub(super) fn stamped(self, version: u64, body: &str) -> Self {
        let listed = |words: Vec<String>, max: usize, chars_max: usize| {
            let words = words.iter().map(|word| text::inert_excerpt(word, chars_max));
            let words: BTreeSet<String> = words.filter(|word| !word.is_empty()).collect();
            words.into_iter().take(max).collect()
        };
        Self {
            name: self.name,
            description: text::inert_excerpt(&self.description, DESCRIPTION_CHARS_MAX),
            tags: listed(self.tags, TAGS_MAX, TAG_CHARS_MAX),
            version,
            saved: clock::now().to_rfc3339_opts(SecondsFormat::Secs, true),
            servers: listed(self.servers, SERVERS_MAX, SERVER_CHARS_MAX),
            test: self.test,
            sha256: digest::sha256(body.as_bytes()),
        }
    }

    /// The text of a file that has this header.
    pub(super) fn before(&self, body: &str) -> String {
        let Self { name, description, tags, version, saved, servers, test, sha256 } = self;
        let mut lines = vec![
            format!("name = {}", quoted(name)),
            format!("description = {}", quoted(description)),
            format!("tags = {}", quoted_all(tags)),
            format!("version = {version}"),
            format!("saved = {}", quoted(saved)),
            format!("servers = {}", quoted_all(servers)),
        ];
        lines.extend(test.as_ref().map(|test| format!("test = {}", quoted(test))));
        lines.push(format!("sha256 = {}", quoted(sha256)));
        let lines: String = lines.iter().map(|line| format!("# {line}\n")).collect();
        format!("{BEGIN}{lines}{END}{body}")
    }

    /// What people read of it, harmless and bounded, whoever wrote it.
    pub(super) fn inert(self) -> Self {
        let Self { version, saved, sha256, test, .. } = self.clone();
        let test = test.map(|test| text::inert_excerpt(&test, SERVER_CHARS_MAX));
        Self {
            saved: text::inert_excerpt(&saved, SAVED_CHARS_MAX),
            sha256,
            test,
            ..self.stamped(version, "")
        }
    }

    /// Whether this is the hash of the body.
    pub(super) fn fits(&self, body: &str) -> bool {
        self.sha256 == digest::sha256(body.as_bytes())
    }
}

/// The header of a file, or why it cannot be read, and the rest. Nothing: it has none.
pub(super) fn read(text: &str) -> Option<(Result<Header, String>, &str)> {
    let inside = text.strip_prefix(BEGIN)?;
    let mut toml = String::new();
    let mut at = 0;
    for line in inside.split_inclusive('\n') {
        at += line.len();
        if line == END {
            let header = toml::from_str(&toml).map_err(|error| text::inert_line(error.message()));
            return Some((header, &inside[at..]));
        }
        let Some(line) = line.strip_prefix("# ").filter(|_| at <= BYTES_MAX) else { break };
        toml.push_str(line);
    }
    Some((Err("it does not end in a line `# ///`".to_owned()), inside))
}

/// What TOML and JSON write alike, since nothing in it steers.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text::inert_line(text)).to_string()
}

fn quoted_all(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(description: &str) -> Header {
        Header {
            name: "f".into(),
            description: description.into(),
            tags: vec!["b".into(), "a\n# ///".into(), "b".into()],
            version: 0,
            saved: String::new(),
            servers: vec!["git \"hub\"".into()],
            test: Some("test_f".into()),
            sha256: String::new(),
        }
    }

    #[test]
    fn a_file_says_what_it_is_and_is_read_again() {
        let header = header("Quotes \" and \\ and\n# ///\nimport os").stamped(3, "def f(): pass\n");
        let text = header.before("def f(): pass\n");
        let saved = &header.saved;
        let expected = format!(
            "# /// skill\n# name = \"f\"\n# description = \"Quotes \\\" and \\\\ and # /// import os\"\n# tags = [\"a # ///\", \
             \"b\"]\n# version = 3\n# saved = \"{saved}\"\n# servers = [\"git \\\"hub\\\"\"]\n# test = \"test_f\"\n\
             # sha256 = \"{}\"\n# ///\ndef f(): pass\n",
            header.sha256
        );
        assert_eq!(text, expected);
        let (again, body) = read(&text).unwrap();
        assert_eq!((again.as_ref(), body), (Ok(&header), "def f(): pass\n"));
        assert!(header.fits(body) && !header.fits("def f(): pass"));
        assert_eq!((saved.len(), saved.ends_with('Z')), (20, true));
    }

    #[test]
    fn what_is_no_header_is_none_and_a_broken_one_says_why() {
        assert_eq!(read("def f(): pass\n"), None);
        for (text, why) in [
            ("# /// skill\n# name = \"f\"\ndef f(): pass\n", "it does not end in a line `# ///`"),
            ("# /// skill\n# name = 3\n# ///\n", "invalid type: integer `3`, expected a string"),
            ("# /// skill\n# name = \"f\"\n# ///\n", "missing field `version`"),
        ] {
            assert_eq!(read(text).unwrap().0, Err(why.to_owned()), "{text}");
        }
        let endless = format!("# /// skill\n{}", "# # x\n".repeat(1 << 16));
        assert!(read(&endless).unwrap().0.is_err());
    }

    #[test]
    fn whoever_wrote_it_what_is_shown_is_bounded_and_harmless() {
        let shown =
            Header { saved: "\u{1b}[2J".repeat(50), version: 7, ..header(&"\u{202e}".repeat(5_000)) }.inert();
        assert_eq!(
            (shown.description.chars().count(), shown.saved.chars().count(), shown.version),
            (500, 40, 7)
        );
        assert!(shown.saved.starts_with("\\x1b"), "{}", shown.saved);
    }
}
