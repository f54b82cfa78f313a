//! Diagnostics on a client's file: the defect, the part that was left out, and the remedy.
//!
//! No text in it repeats a value that could be a secret.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::text;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost.
    Note,
    /// A server, or a part of one, is left out or changed.
    LeftOut,
    /// A file cannot be read.
    Broken,
}

/// A problem of a client file, at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The file.
    pub path: PathBuf,
    /// Line and column, counted from 1, the column in characters.
    pub place: Option<(usize, usize)>,
    /// The keys that lead to the place.
    pub key: String,
    /// A lowercase fragment.
    pub message: String,
    /// The remedy. It is empty if the message names it.
    pub hint: String,
}

impl Diagnostic {
    /// About a whole file.
    pub(super) fn new(severity: Severity, path: &Path, message: impl Into<String>) -> Self {
        Self {
            severity,
            path: path.to_owned(),
            place: None,
            key: String::new(),
            message: message.into(),
            hint: String::new(),
        }
    }

    /// At a byte of the file's text.
    pub(super) fn at(mut self, text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
        self.place = Some((before.matches('\n').count() + 1, before[line_start..].chars().count() + 1));
        self
    }

    pub(super) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl fmt::Display for Diagnostic {
    /// One line: `file:line:column: key: message; hint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.path.display().to_string();
        if let Some((row, column)) = self.place {
            line.push_str(&format!(":{row}:{column}"));
        }
        for part in [&self.key, &self.message].into_iter().filter(|part| !part.is_empty()) {
            line.push_str(": ");
            line.push_str(&text::bounded(part, 600));
        }
        if !self.hint.is_empty() {
            line.push_str("; ");
            line.push_str(&text::bounded(&self.hint, 600));
        }
        f.write_str(&text::inert_line(&line))
    }
}
