//! Describes one thing that is wrong in a file or variable, with its place and the remedy.
//!
//! A problem stops nothing: whatever is good beside it is used.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::text;

/// Problems of one file that are told one by one; of more there is their number.
pub const OF_FILE_MAX: usize = 100;
/// Longest part of a problem's line, in characters.
const PART_CHARS_MAX: usize = 600;

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost: it is as the user asked.
    Note,
    /// A part is left out, or used perhaps not as it was meant.
    Warning,
    /// The item is not used.
    Error,
}

/// The file or variable that has a problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A file or folder.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

/// A position in a file. Line and column count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// A problem of the configuration or of a client's file, for the user. No text in it repeats a configured value that could be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The effect of the problem.
    pub severity: Severity,
    /// The file or variable that has the problem.
    pub origin: Origin,
    /// The position in the file, where the file could be read.
    pub position: Option<Position>,
    /// The key, for example `mcpServers.github.args[1]`.
    pub key: Option<String>,
    /// The description of the problem, a lowercase fragment.
    pub message: String,
    /// Advice on the remedy; empty if the message has it.
    pub hint: String,
}

impl Position {
    /// The place of a byte of a text.
    #[must_use]
    pub fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

/// Says them in the log.
pub fn report<'a>(problems: impl IntoIterator<Item = &'a Problem>) {
    for problem in problems {
        match problem.severity {
            Severity::Note => tracing::debug!("{problem}"),
            Severity::Warning => tracing::warn!("{problem}"),
            Severity::Error => tracing::error!("{problem}"),
        }
    }
}

impl Problem {
    /// An error that concerns a whole file or variable.
    #[must_use]
    pub fn new(origin: Origin, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            origin,
            position: None,
            key: None,
            message: message.into(),
            hint: String::new(),
        }
    }

    /// An error at a whole file.
    #[must_use]
    pub fn of_file(path: &Path, message: impl Into<String>) -> Self {
        Self::new(Origin::File(path.to_owned()), message)
    }

    /// That a file has so many problems more than were told, if it has.
    #[must_use]
    pub fn untold(origin: Origin, untold: usize) -> Option<Self> {
        (untold > 0).then(|| {
            let message = format!("has {untold} more problems, which are not told one by one");
            Self::new(origin, message).hint("correct the first ones")
        })
    }

    /// The problem with this hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The same problem with another severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// The same problem at a place in its file.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// The same problem at a key; at none where it is empty.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into()).filter(|key| !key.is_empty());
        self
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for Problem {
    /// One line: `file:line:column: key: message; hint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = match &self.origin {
            Origin::File(path) => path.display().to_string(),
            Origin::Variable(name) => name.clone(),
        };
        if let Some(Position { line: row, column }) = self.position {
            line.push_str(&format!(":{row}:{column}"));
        }
        for part in self.key.iter().chain([&self.message]) {
            line.push_str(": ");
            line.push_str(&text::bounded(part, PART_CHARS_MAX));
        }
        if !self.hint.is_empty() {
            line.push_str("; ");
            line.push_str(&text::bounded(&self.hint, PART_CHARS_MAX));
        }
        f.write_str(&text::inert_line(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        assert_eq!(Position::of("ab\ncé\"d", 6), Position { line: 2, column: 3 });
        assert_eq!(Position::of("", 0), Position { line: 1, column: 1 });
    }

    #[test]
    fn a_problem_is_one_line_whatever_its_key_holds() {
        let problem = Problem::new(Origin::File("/m/a.json".into()), "must be text")
            .at(Position { line: 3, column: 7 })
            .key("mcpServers.a\nb\u{1b}[2J")
            .hint("quote it");
        assert_eq!(problem.to_string(), "/m/a.json:3:7: mcpServers.a b\\x1b[2J: must be text; quote it");
    }
}
