//! The changes of a server's tools since their first use, for the user to see and to trust.
//!
//! The user trusts the definitions that were shown, not those that the server has by then.

use std::io;
use std::path::Path;

use belljar_base::names::ServerName;
use belljar_base::text;

use super::pin_files::{Pin, PinFiles};

/// The context shown around a difference, in characters on each side.
const CONTEXT_CHARS: usize = 60;
/// Longest part of a difference, in characters.
const PART_CHARS_MAX: usize = 600;
const NAME_CHARS_MAX: usize = 100;

/// The changes that wait for the user's trust.
pub struct Changes {
    files: PinFiles,
    changed: Vec<(Pin, Pin)>,
    unreadable: Vec<(String, String)>,
    /// Whether there is any pin of the server's tools.
    pub is_known: bool,
}

impl Changes {
    /// Reads the changes of a server's tools from the folder for all servers.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn of(dir: &Path, server: &ServerName) -> io::Result<Self> {
        let files = PinFiles::of(dir, server);
        let (mut changed, mut unreadable) = (Vec::new(), Vec::new());
        let names = files.names()?;
        let is_known = !names.is_empty();
        for key in names {
            match files.both(&key) {
                [Ok(Some(first)), Ok(Some(now))] => changed.push((first, now)),
                [Ok(_), Ok(None)] => {}
                [Err(error), _] | [_, Err(error)] => unreadable.push((key, error.to_string())),
                // Its server may have renamed a tool to another spelling, by which code calls it as before.
                [Ok(None), Ok(Some(now))] => match files.called_before(&now) {
                    Some(first) => changed.push((first, now)),
                    None => unreadable.push((key, "it is not there any more".to_owned())),
                },
            }
        }
        changed.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
        Ok(Self { files, changed, unreadable, is_known })
    }

    /// Whether there is no change to trust.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.unreadable.is_empty()
    }

    /// Lines about the differences, harmless to show.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (first, now) in &self.changed {
            lines.push(format!("{} has changed:", text::inert_excerpt(first.name(), NAME_CHARS_MAX)));
            let before = lines.len();
            for (part, new) in &now.parts {
                let old = first.parts.get(part).unwrap_or(&serde_json::Value::Null);
                if old != new {
                    let (old, new) = difference(&old.to_string(), &new.to_string());
                    lines.push(format!("  {}: {old} -> {new}", text::inert_excerpt(part, NAME_CHARS_MAX)));
                }
            }
            if lines.len() == before {
                lines.push("  in what is not kept: secrets of its server, or very long parts".to_owned());
            }
        }
        lines.extend(self.unreadable.iter().map(|(_, error)| {
            let error = text::inert_excerpt(error, PART_CHARS_MAX);
            format!("what a tool was cannot be read ({error}); it counts as it is at its next use")
        }));
        lines
    }

    /// Makes the definitions that were shown the new pins.
    ///
    /// # Errors
    /// A file cannot be written or removed.
    pub fn accept(&self) -> io::Result<()> {
        self.changed.iter().try_for_each(|(_, now)| self.files.replace(now))?;
        self.unreadable.iter().try_for_each(|(key, _)| self.files.forget(key))
    }
}

/// The parts in which two texts differ, each with its context.
fn difference(old: &str, new: &str) -> (String, String) {
    let [old, new]: [Vec<char>; 2] = [old, new].map(|text| text.chars().collect());
    let same = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let behind = old[same..].iter().rev().zip(new[same..].iter().rev());
    let same_behind = behind.take_while(|(one, other)| one == other).count();
    let begin = same.saturating_sub(CONTEXT_CHARS);
    let shown = |text: &[char]| {
        let end = (text.len() - same_behind + CONTEXT_CHARS).min(text.len());
        let (before, after) = (begin, text.len() - end);
        let mut shown: Vec<String> = Vec::new();
        if before > 0 {
            shown.push(format!("({before} characters)"));
        }
        let part = &text[begin..end];
        let missing = part.len().saturating_sub(PART_CHARS_MAX);
        if missing == 0 {
            shown.push(inert(part));
        } else {
            let head = PART_CHARS_MAX / 2;
            let tail = &part[head + missing..];
            shown.push(format!("{} ({missing} characters) {}", inert(&part[..head]), inert(tail)));
        }
        if after > 0 {
            shown.push(format!("({after} characters)"));
        }
        shown.join(" ")
    };
    (shown(&old), shown(&new))
}

fn inert(text: &[char]) -> String {
    text::inert_line(&text.iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_stands_there_with_what_is_around_it_and_is_bounded() {
        assert_eq!(
            difference("\"Writes.\"", "\"Writes more.\""),
            ("\"Writes.\"".into(), "\"Writes more.\"".into())
        );
        let (old, new) = difference(
            &format!("{}a{}", "x".repeat(100), "y".repeat(99)),
            &format!("{}{}", "x".repeat(100), "y".repeat(99)),
        );
        assert_eq!(old, format!("(40 characters) {}a{} (39 characters)", "x".repeat(60), "y".repeat(60)));
        assert_eq!(new, format!("(40 characters) {}{} (39 characters)", "x".repeat(60), "y".repeat(60)));
        let (old, new) = difference("", &"z\u{202e}".repeat(100_000));
        assert_eq!(old, "");
        assert!(new.starts_with("z\\u202ez") && new.contains(" (199400 characters) "), "{new}");
        assert!(new.chars().count() < 8 * PART_CHARS_MAX, "{}", new.len());
    }
}
