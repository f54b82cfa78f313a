//! The texts of a tool and of a query for the sentence encoder.
//!
//! It encodes nothing.

use super::contents::Catalog;
use super::matching::words::{is_stop_word, stem, words};
use super::search::QUERY_CHARS_MAX;
use super::server_tools::ServerTools;
use super::tool::Tool;
use crate::text::suggest;

/// The number of characters of a description that are encoded: its first sentences tell the purpose of the tool, and
/// the time grows with the length.
const DESCRIPTION_CHARS_MAX: usize = 300;
/// How similar an unknown word must be to a known one to be replaced by it, from 0 to 1.
const LIKENESS_MIN: f32 = 0.85;
/// The largest number of unknown words of a query that are compared with all known ones.
const UNKNOWN_MAX: usize = 8;
/// The largest number of tools that are searched for the spelling of a word.
const WRITERS_MAX: usize = 8;

/// The text of a tool for the encoder: its names as words, and the beginning of the description. The names of
/// parameters are left out: with them, the vectors of long tools became similar, and their first hits became worse.
#[must_use]
pub fn tool_text(server: &ServerTools, tool: &Tool) -> String {
    let name = |name: &str| words(name).join(" ");
    let mut text = format!("{}: {}. ", name(server.name.as_str()), name(tool.name.as_str()));
    let description: String = tool.description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    text.push_str(&description.split_whitespace().collect::<Vec<_>>().join(" "));
    text
}

/// The text of a query for the encoder: words that no tool has are replaced by the known word that was clearly meant.
/// An encoder does not recognise misspellings: it takes "calandar" for two other words.
#[must_use]
pub fn respelt(catalog: &Catalog, query: &str) -> String {
    let query: String = query.chars().take(QUERY_CHARS_MAX).collect();
    let mut unknown = 0;
    let words = query.split_whitespace().map(|word| {
        let bare = word.trim_matches(|character: char| !character.is_alphanumeric());
        let lower = bare.to_lowercase();
        let is_known = is_stop_word(&lower) || catalog.index().words.number(&stem(&lower)).is_some();
        if is_known || unknown >= UNKNOWN_MAX || !bare.chars().all(char::is_alphabetic) {
            return word.to_owned();
        }
        unknown += 1;
        meant(catalog, &lower).map_or_else(|| word.to_owned(), |meant| word.replace(bare, &meant))
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The known word that an unknown one, in lower case, was clearly meant to be.
fn meant(catalog: &Catalog, word: &str) -> Option<String> {
    let index = catalog.index();
    let (number, likeness) = index.fuzzy_words.of(&stem(word), &index.words).into_iter().next()?;
    if likeness < LIKENESS_MIN { None } else { whole_word(catalog, number, word) }
}

/// The word with this stem that is most similar to `asked`, among the spellings in the first tools that have the stem.
fn whole_word(catalog: &Catalog, number: usize, asked: &str) -> Option<String> {
    let index = catalog.index();
    let wanted = &*index.words.words()[number];
    let writers: Vec<String> = index
        .words
        .places(number)
        .iter()
        .take(WRITERS_MAX)
        .flat_map(|posting| {
            let (server, place) = index.place(posting.tool);
            let server = &catalog.servers()[server];
            words(&tool_text(server, &server.listed()[place]))
        })
        .filter(|word| stem(word) == wanted)
        .collect();
    suggest::nearest(asked, writers.iter().map(String::as_str)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::contents::tests::catalog;

    #[test]
    fn an_encoder_reads_names_as_words_and_a_bounded_beginning() {
        let short =
            catalog(&[("mail", json!([{"name": "sendGmailMessage", "description": "Sends\n a  message."}]))]);
        let server = &short.servers()[0];
        assert_eq!(tool_text(server, &server.listed()[0]), "mail: send gmail message. Sends a message.");
        let long = crate::catalog::contents::tests::catalog(&[(
            "s",
            json!([{"name": "t", "description": "x".repeat(4_000)}]),
        )]);
        let server = &long.servers()[0];
        assert_eq!(tool_text(server, &server.listed()[0]).len(), "s: t. ".len() + 300);
    }

    #[test]
    fn only_what_was_clearly_mistyped_is_respelt() {
        let catalog = catalog(&[(
            "mail",
            json!([{"name": "send_messages", "description": "Sends the message to a calendar."}]),
        )]);
        for (asked, read) in [
            ("send a mesage, please", "send a message, please"),
            ("the Calandar!", "the calendar!"),
            ("send messages", "send messages"),
            ("texas giraffe", "texas giraffe"),
            ("mes4age x_mesage", "mes4age x_mesage"),
        ] {
            assert_eq!(respelt(&catalog, asked), read);
        }
        assert_eq!(
            respelt(&catalog, &"mesage ".repeat(10)),
            [["message "; 8].concat(), "mesage mesage".into()].concat()
        );
    }
}
