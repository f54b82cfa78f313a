//! Tools as vectors: what an encoder is to read of each tool, and how near a query's vector comes to theirs.
//!
//! It encodes nothing: whoever has an encoder hands the vectors in.

use std::sync::Arc;

use super::known::{Catalog, Origin, ServerTools};
use super::search::QUERY_CHARS_MAX;
use super::tool::Tool;
use super::words::{is_stop_word, stem, words};

/// Characters of a description that are read: its first sentences say what the tool is for, and time grows with them.
const DESCRIPTION_CHARS_MAX: usize = 300;
/// How like a known word an unknown one must be to be read as that.
const LIKENESS_MIN: f32 = 0.85;
/// Unknown words of a query that are compared with all known ones.
const UNKNOWN_MAX: usize = 8;
/// Tools that are asked how a word is written.
const WRITERS_MAX: usize = 8;

/// A vector of length 1 for each of a server's tools, in their order.
#[derive(Debug)]
pub struct Vectors {
    dimensions: usize,
    numbers: Box<[f32]>,
}

impl Vectors {
    /// From the numbers of all vectors one behind the other; nothing when they do not come out even, or are no numbers.
    #[must_use]
    pub fn new(dimensions: usize, numbers: Vec<f32>) -> Option<Self> {
        let is_sound = dimensions > 0
            && numbers.len().is_multiple_of(dimensions)
            && numbers.iter().all(|number| number.is_finite());
        is_sound.then(|| Self { dimensions, numbers: numbers.into() })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.numbers.len() / self.dimensions
    }
}

impl ServerTools {
    /// Takes in the vectors of its tools, for all catalogs that share the server. The first ones count; those that are
    /// not one for each tool are left out.
    pub fn set_vectors(&self, vectors: Vectors) {
        if vectors.count() == self.listed().len() {
            self.vectors.get_or_init(|| vectors);
        }
    }

    /// Whether each of its tools has a vector; so has a server without tools.
    #[must_use]
    pub fn has_vectors(&self) -> bool {
        self.listed().is_empty() || self.vectors.get().is_some()
    }
}

/// What an encoder is to read of a tool: the names as words, and the beginning of the description. Names of parameters made
/// the vectors of long tools alike, and their first hits worse.
#[must_use]
pub fn tool_text(server: &ServerTools, tool: &Tool) -> String {
    let name = |name: &str| words(name).join(" ");
    let mut text = format!("{}: {}. ", name(server.name.as_str()), name(tool.name.as_str()));
    let description: String = tool.description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    text.push_str(&description.split_whitespace().collect::<Vec<_>>().join(" "));
    text
}

/// How near each tool comes to a query's vector of length 1, from -1 to 1, by number; nothing while a tool has no vector of as
/// many numbers.
pub(super) fn nearness(catalog: &Catalog, vector: &[f32]) -> Option<Vec<f32>> {
    let mut all = Vec::with_capacity(catalog.index().tools());
    let with_tools = |server: &&Arc<ServerTools>| !server.listed().is_empty();
    for server in catalog.servers().iter().filter(with_tools) {
        if server.origin == Origin::Skills {
            // No encoder reads them: they are found by their words alone, and keep no tool from being found by its vector.
            all.extend(std::iter::repeat_n(0.0, server.listed().len()));
            continue;
        }
        let vectors = server.vectors.get().filter(|vectors| vectors.dimensions == vector.len())?;
        all.extend(vectors.numbers.chunks_exact(vector.len()).map(|tool| product(tool, vector)));
    }
    Some(all)
}

/// The sum of the products: in eight lanes, always the same, so that it is quick and equal on every machine.
fn product(one: &[f32], other: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (ones, others) = (one.chunks_exact(8), other.chunks_exact(8));
    let rest: f32 = ones.remainder().iter().zip(others.remainder()).map(|(one, other)| one * other).sum();
    for (one, other) in ones.zip(others) {
        for ((lane, one), other) in lanes.iter_mut().zip(one).zip(other) {
            *lane += one * other;
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// A query as an encoder is to read it: with words that no tool has replaced by the known one that was clearly meant. An
/// encoder sees through no slip of the pen; it takes "calandar" for two other words.
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

/// What an unknown word, in lower case, was clearly meant to be.
fn meant(catalog: &Catalog, word: &str) -> Option<String> {
    let index = catalog.index();
    let (number, likeness) = index.lookalikes.of(&stem(word), &index.words).into_iter().next()?;
    if likeness < LIKENESS_MIN { None } else { whole_word(catalog, number, word) }
}

/// The word with this stem, as that of the first tools that have it writes it that is most like the asked one.
fn whole_word(catalog: &Catalog, number: usize, asked: &str) -> Option<String> {
    let index = catalog.index();
    let wanted = &*index.words.words()[number];
    let writers = index.words.places(number).iter().take(WRITERS_MAX).flat_map(|posting| {
        let (server, place) = index.place(posting.tool);
        let server = &catalog.servers()[server];
        words(&tool_text(server, &server.listed()[place]))
    });
    let likeness = |word: &String| strsim::normalized_damerau_levenshtein(word, asked);
    writers
        .filter(|word| stem(word) == wanted)
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)).then_with(|| other.cmp(one)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::known::tests::catalog;
    use crate::catalog::{Query, search};

    fn some() -> Catalog {
        catalog(&[
            ("mail", json!([{"name": "sendGmailMessage", "description": "Sends\n a  message."}])),
            ("none", json!([])),
            ("shop", json!([{"name": "buy"}, {"name": "sell"}])),
        ])
    }

    /// Vectors of two numbers for the tools of each server that has any.
    fn with_vectors(of_mail: [f32; 2], of_shop: [f32; 4]) -> Catalog {
        let catalog = some();
        catalog.servers()[0].set_vectors(Vectors::new(2, of_mail.to_vec()).unwrap());
        catalog.servers()[2].set_vectors(Vectors::new(2, of_shop.to_vec()).unwrap());
        catalog
    }

    fn found(catalog: &Catalog, text: &str, vector: &[f32]) -> Vec<String> {
        let (hits, total) = search(catalog, Query { text, vector: Some(vector) }, 10, 0);
        assert_eq!(hits.len(), total);
        hits.iter().map(|hit| hit.tool().name.as_str().to_owned()).collect()
    }

    #[test]
    fn an_encoder_reads_names_as_words_and_a_bounded_beginning() {
        let catalog = some();
        let server = &catalog.servers()[0];
        assert_eq!(tool_text(server, &server.listed()[0]), "mail: send gmail message. Sends a message.");
        let long = super::super::known::tests::catalog(&[(
            "s",
            json!([{"name": "t", "description": "x".repeat(4_000)}]),
        )]);
        let server = &long.servers()[0];
        assert_eq!(tool_text(server, &server.listed()[0]).len(), "s: t. ".len() + 300);
    }

    #[test]
    fn what_means_the_same_is_found_without_a_word_of_it() {
        let catalog = with_vectors([1.0, 0.0], [0.0, 1.0, 0.6, 0.8]);
        assert_eq!(found(&catalog, "zebra giraffe", &[1.0, 0.0]), ["sendGmailMessage", "sell"]);
        assert_eq!(found(&catalog, "acquire", &[0.0, 1.0]), ["buy", "sell"]);
        // Words that are there count beside it, and an exact name before all else.
        assert_eq!(found(&catalog, "message acquire", &[0.0, 1.0])[..2], ["buy", "sell"]);
        assert_eq!(found(&catalog, "shop.sell", &[1.0, 0.0])[0], "sell");
    }

    #[test]
    fn while_a_tool_has_no_vector_or_another_models_the_words_alone_count() {
        let catalog = some();
        assert!(!catalog.servers()[0].has_vectors() && catalog.servers()[1].has_vectors());
        catalog.servers()[0].set_vectors(Vectors::new(2, vec![1.0, 0.0]).unwrap());
        assert_eq!(found(&catalog, "zebra giraffe", &[1.0, 0.0]), [""; 0]);
        let whole = with_vectors([1.0, 0.0], [0.0, 1.0, 0.6, 0.8]);
        assert_eq!(found(&whole, "zebra giraffe", &[1.0, 0.0, 0.0]), [""; 0]);
        // Not one for each tool.
        catalog.servers()[2].set_vectors(Vectors::new(2, vec![1.0, 0.0]).unwrap());
        assert!(!catalog.servers()[2].has_vectors());
    }

    #[test]
    fn numbers_that_are_no_vectors_are_none() {
        assert!(Vectors::new(0, vec![]).is_none() && Vectors::new(2, vec![1.0; 3]).is_none());
        assert!(Vectors::new(1, vec![f32::NAN]).is_none());
        assert_eq!(Vectors::new(2, vec![0.5; 6]).unwrap().count(), 3);
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
