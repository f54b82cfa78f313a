//! One thing that is wrong in what the operator wrote, with where it is and what to do.
//!
//! It stops nothing: whatever is good beside it is used.

use std::fmt;
use std::path::PathBuf;

use crate::text;

/// Problems of one file that are told one by one; of more there is their number.
pub(in crate::config) const OF_FILE_MAX: usize = 100;

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing: it is as the operator asked.
    Note,
    /// What is named is used, perhaps not as it was meant.
    Warning,
    /// What is named is not used.
    Error,
}

/// The file or variable that has a problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In a file or folder.
    File(PathBuf),
    /// In an environment variable.
    Variable(String),
}

/// A place in a file, both counted from 1; the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// A problem of the configuration, for the operator. No text in it repeats a configured value that could be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it takes away.
    pub severity: Severity,
    /// In what.
    pub origin: Origin,
    /// At which place, where the file could be read.
    pub position: Option<Position>,
    /// At which key, for example `mcpServers.github.args[1]`.
    pub key: Option<String>,
    /// What is wrong, a lowercase fragment.
    pub message: String,
    /// What to do about it; empty where the message says it.
    pub hint: String,
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
    /// An error at a whole file or variable.
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

    /// That a file has so many problems more than were told, if it has.
    pub(in crate::config) fn untold(origin: Origin, untold: usize) -> Option<Self> {
        (untold > 0).then(|| {
            let message = format!("has {untold} more problems, which are not told one by one");
            Self::new(origin, message).hint("correct the first ones")
        })
    }

    /// The same problem with what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(in crate::config) fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    pub(in crate::config) fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    pub(in crate::config) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
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
        if let Some(key) = &self.key {
            line.push_str(": ");
            line.push_str(key);
        }
        line.push_str(": ");
        line.push_str(&self.message);
        if !self.hint.is_empty() {
            line.push_str("; ");
            line.push_str(&self.hint);
        }
        f.write_str(&text::inert_line(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_whatever_its_key_holds() {
        let problem = Problem::new(Origin::File("/m/a.json".into()), "must be text")
            .at(Position { line: 3, column: 7 })
            .key("mcpServers.a\nb\u{1b}[2J")
            .hint("quote it");
        assert_eq!(problem.to_string(), "/m/a.json:3:7: mcpServers.a b\\x1b[2J: must be text; quote it");
    }
}
