//! The session that a new one resumes, as the operator writes it: a name, and optionally a run.
//!
//! It does not look for the session.

use std::str::FromStr;

use belljar_base::text;

/// The longest part of a name that is repeated, in characters.
const NAME_CHARS_MAX: usize = 60;

/// The session that is resumed, and the last run to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeFrom {
    /// The beginning of its name, or `last`.
    pub session: String,
    /// The last run to replay; `None`: all runs.
    pub until: Option<u64>,
}

impl FromStr for ResumeFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (session, until) = match text.split_once(':') {
            Some((session, until)) => (session, Some(until)),
            None => (text, None),
        };
        let wrong = || {
            let shown = text::inert_excerpt(text, NAME_CHARS_MAX);
            format!("is \"{shown}\", which names no session")
        };
        let until = until.map(|until| until.parse().map_err(|_| wrong())).transpose()?;
        if session.is_empty() || !session.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(wrong());
        }
        Ok(Self { session: session.to_owned(), until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_with_or_without_its_last_run() {
        let read = |text: &str| text.parse::<ResumeFrom>().map(|from| (from.session, from.until));
        assert_eq!(read("5f1c"), Ok(("5f1c".into(), None)));
        assert_eq!(read("last:12"), Ok(("last".into(), Some(12))));
        for wrong in ["", ":1", "5f1c:", "5f1c:x", "5f1c:-1", "../x", "a b"] {
            assert!(read(wrong).unwrap_err().ends_with("\", which names no session"), "{wrong}");
        }
    }
}
