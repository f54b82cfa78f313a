//! Facts about clients by name: the longest reply that they show, and whether they get images as files.
//!
//! A client may claim any name. The name only affects how replies are cut and where images are.

use std::borrow::Cow;

use belljar_base::limits::Limits;

/// The beginning of a client's name, and the longest reply that it passes to its model uncut, in characters.
const REPLY_CHARS: [(&str, usize); 1] = [
    // It cuts the middle out of a reply of more than about 10,000 characters (openai/codex issue 33402).
    ("codex", 10_000),
];

/// The limits for replies to a client of this name.
pub(super) fn limits<'a>(limits: &'a Limits, client: &str) -> Cow<'a, Limits> {
    let name = client.to_ascii_lowercase();
    match REPLY_CHARS.iter().find(|(known, chars)| name.starts_with(known) && *chars < limits.reply_chars_max)
    {
        Some((_, chars)) => Cow::Owned(Limits { reply_chars_max: *chars, ..limits.clone() }),
        None => Cow::Borrowed(limits),
    }
}

/// Whether the client's name begins with one of these, in capitals or not.
pub(super) fn is_one_of(client: &str, beginnings: &[String]) -> bool {
    let name = client.to_lowercase();
    beginnings.iter().any(|beginning| name.starts_with(&beginning.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_shows_less_gets_shorter_replies_and_no_other_limit_changes() {
        let usual = Limits::default();
        for name in ["", "claude-code", "my-codex"] {
            assert_eq!(*limits(&usual, name), usual);
        }
        let shorter = Limits { reply_chars_max: 10_000, ..Limits::default() };
        for name in ["codex-mcp-client", "Codex"] {
            assert_eq!(*limits(&usual, name), shorter);
        }
        let named = ["cline".to_owned(), "Continue".to_owned()];
        assert!(["Cline", "continue-client"].iter().all(|name| is_one_of(name, &named)));
        assert!(!is_one_of("claude-code", &named) && !is_one_of("", &named) && !is_one_of("cline", &[]));
        let tiny = Limits { reply_chars_max: 500, ..Limits::default() };
        assert_eq!(limits(&tiny, "codex").reply_chars_max, 500);
    }
}
