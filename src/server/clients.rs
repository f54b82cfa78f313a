//! What is known of clients by name: how long a reply they show.
//!
//! The name is the client's own word. It changes how replies are cut, and nothing else.

use std::borrow::Cow;

use crate::limits::Limits;

/// The beginning of a client's name, and the longest reply that it passes on to its model whole, in characters.
const REPLY_CHARS: [(&str, usize); 1] = [
    // Cuts the middle out of what is longer than some 10,000 (openai/codex issue 33402).
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
        let tiny = Limits { reply_chars_max: 500, ..Limits::default() };
        assert_eq!(limits(&tiny, "codex").reply_chars_max, 500);
    }
}
