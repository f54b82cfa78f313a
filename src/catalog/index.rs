//! Which words stand in which of a server's tools, and how much each counts there.
//!
//! It ranks nothing; `search` puts the indexes of all servers together.

use std::collections::HashMap;

use serde_json::Value;

use super::known::ServerTools;
use super::tool::Tool;
use super::words::{is_stop_word, stem, words};

/// A part of a tool's text.
struct Field {
    /// What one occurrence of a word counts in a part of the usual length.
    weight: f32,
    /// How much less it counts where the part is longer, from 0 (no less) to 1 (in proportion).
    length_share: f32,
    /// Words that the part usually has: the mean over some thousand published tools.
    usual_words: f32,
}

// The server's name is what people say first when they know it; texts of parameters repeat each other.
const SERVER: Field = Field { weight: 4.0, length_share: 0.2, usual_words: 1.6 };
const NAME: Field = Field { weight: 3.0, length_share: 0.3, usual_words: 3.0 };
const TITLE: Field = Field { weight: 2.0, length_share: 0.3, usual_words: 3.0 };
const DESCRIPTION: Field = Field { weight: 1.0, length_share: 0.5, usual_words: 25.0 };
const PARAMETERS: Field = Field { weight: 1.0, length_share: 0.6, usual_words: 6.0 };
const PARAMETER_TEXTS: Field = Field { weight: 0.3, length_share: 0.7, usual_words: 35.0 };

/// Words of a description that count: what comes later is rarely about the tool.
const DESCRIPTION_WORDS_MAX: usize = 120;
const PARAMETERS_MAX: usize = 60;
const PARAMETER_WORDS_MAX: usize = 30;

/// The words of one server's tools: by stem, the tool's place in the server's list, and what the stem counts there.
#[derive(Debug, Default)]
pub(super) struct Index(pub(super) HashMap<String, Vec<(usize, f32)>>);

impl Index {
    pub(super) fn new(server: &ServerTools) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f32)>> = HashMap::new();
        for (place, tool) in server.listed().iter().enumerate() {
            for (stem, count) in counts(server, tool) {
                postings.entry(stem).or_default().push((place, count));
            }
        }
        Self(postings)
    }
}

fn counts(server: &ServerTools, tool: &Tool) -> HashMap<String, f32> {
    let mut counts = HashMap::new();
    add(&mut counts, &SERVER, words(server.name.as_str()), true);
    add(&mut counts, &NAME, words(tool.name.as_str()), true);
    add(&mut counts, &TITLE, words(tool.title.as_deref().unwrap_or("")), false);
    let mut description = words(&tool.description);
    description.truncate(DESCRIPTION_WORDS_MAX);
    description.extend(words(server.description.as_deref().unwrap_or("")));
    add(&mut counts, &DESCRIPTION, description, false);
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let properties = || properties.into_iter().flatten().take(PARAMETERS_MAX);
    add(&mut counts, &PARAMETERS, properties().flat_map(|(name, _)| words(name)).collect(), false);
    let texts = properties().flat_map(|(_, schema)| {
        let text = schema.get("description").and_then(Value::as_str).unwrap_or("");
        words(text).into_iter().take(PARAMETER_WORDS_MAX)
    });
    add(&mut counts, &PARAMETER_TEXTS, texts.collect(), false);
    counts
}

/// `joined`: neighbours count as one word too, half, so that "pullrequest" finds `pull_request`.
fn add(counts: &mut HashMap<String, f32>, field: &Field, words: Vec<String>, joined: bool) {
    let share = field.length_share;
    let count = field.weight / (1.0 - share + share * words.len() as f32 / field.usual_words);
    let mut add = |word: &str, count: f32| *counts.entry(stem(word)).or_default() += count;
    for word in words.iter().filter(|word| !is_stop_word(word)) {
        add(word, count);
    }
    if joined {
        for pair in words.windows(2) {
            add(&pair.concat(), count / 2.0);
        }
        if words.len() > 2 {
            add(&words.concat(), count / 2.0);
        }
    }
}
