//! The name of a skill: a Python identifier, which is also the name of its file.

use std::fmt;

use serde::Serialize;

use super::error::SkillError;

/// Longest name, in bytes.
const BYTES_MAX: usize = 64;

/// What cannot be called or imported by its name in Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// A checked name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SkillName(Box<str>);

impl SkillName {
    /// Takes a Python identifier of at most 64 ASCII letters, digits and `_`, which is no keyword.
    ///
    /// # Errors
    /// [`SkillError::Name`] for anything else.
    pub fn new(text: &str) -> Result<Self, SkillError> {
        let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // Python and notebooks probe names in double underscores on every module.
        if starts
            && is_plain
            && text.len() <= BYTES_MAX
            && !KEYWORDS.contains(&text)
            && !text.starts_with("__")
        {
            return Ok(Self(text.into()));
        }
        Err(SkillError::Name { name: belljar_base::text::inert_excerpt(text, BYTES_MAX) })
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn file(&self) -> String {
        format!("{}.py", self.0)
    }
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_identifier_that_python_lets_be_called() {
        for name in ["twice", "_a9", &"a".repeat(64)] {
            assert_eq!(SkillName::new(name).unwrap().as_str(), name);
        }
        for name in ["../x", "", "a b", "9a", "é", &"a".repeat(65), "class", "__init__", "a\n"] {
            assert!(matches!(SkillName::new(name), Err(SkillError::Name { .. })), "{name}");
        }
    }
}
