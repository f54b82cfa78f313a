//! Patterns of names of environment variables.
//!
//! It reads no environment.

/// A pattern of names of environment variables: a name, or the beginning of names and a `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvPattern(String);

impl EnvPattern {
    /// Checks a pattern.
    ///
    /// # Errors
    /// The problem with the pattern, worded to follow its key.
    pub fn new(text: &str) -> Result<Self, String> {
        let name = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty() {
            return Err("is empty; write the name of a variable".to_owned());
        }
        if name.contains('*') {
            return Err("has a '*' before its end; a '*' can only be the last character".to_owned());
        }
        if name.contains(['=', '\0', '$', '{', '}']) || name.contains(char::is_whitespace) {
            return Err("is not the name of a variable; write the name alone, such as AWS_PROFILE".to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    /// The pattern as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches this name.
    pub(super) fn matches(&self, name: &str) -> bool {
        matches(&self.0, name)
    }
}

/// Whether a pattern matches this name. A pattern is a name, or the beginning of names and a `*`.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_with_an_asterisk_at_most_at_its_end() {
        for wrong in ["", "A*B", "**", "A=1", "${A}", "A B", "$A"] {
            assert!(EnvPattern::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
