//! Which words stand in which of a server's tools, and how much each counts there.
//!
//! It ranks nothing; `search` puts the indexes of all servers together.

use std::collections::HashMap;

use super::known::ServerTools;
use super::tool::Tool;
use super::words::{is_stop_word, stems, words};

const NAME_WEIGHT: f32 = 4.0;
const SERVER_WEIGHT: f32 = 2.0;
const TITLE_WEIGHT: f32 = 1.5;
const PARAMETER_WEIGHT: f32 = 1.5;
const DESCRIPTION_WEIGHT: f32 = 1.0;
/// Words of a description that count: what comes later is rarely about the tool.
const DESCRIPTION_WORDS_MAX: usize = 200;
const PARAMETERS_MAX: usize = 100;

/// The words of one server's tools.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// By stem: the tool's place in the server's list, and the weight of the stem there.
    pub(super) postings: HashMap<String, Vec<(usize, f32)>>,
    /// By place: the number of words.
    pub(super) lengths: Vec<f32>,
}

impl Index {
    pub(super) fn new(server: &ServerTools) -> Self {
        let mut index = Self::default();
        for (place, tool) in server.listed().iter().enumerate() {
            let (weights, length) = weights(server, tool);
            for (stem, weight) in weights {
                index.postings.entry(stem).or_default().push((place, weight));
            }
            index.lengths.push(length);
        }
        index
    }
}

fn weights(server: &ServerTools, tool: &Tool) -> (HashMap<String, f32>, f32) {
    let mut weights: HashMap<String, f32> = HashMap::new();
    let mut length = 0.0;
    let mut add = |stems: Vec<String>, weight: f32| {
        for stem in stems.into_iter().filter(|stem| !is_stop_word(stem)) {
            *weights.entry(stem).or_default() += weight;
            length += 1.0;
        }
    };
    let name_words = words(tool.name.as_str());
    add(stems(tool.name.as_str()), NAME_WEIGHT);
    if name_words.len() > 1 {
        // So that "pullrequest" finds pull_request.
        add(vec![super::words::stem(&name_words.concat())], NAME_WEIGHT / 2.0);
    }
    add(stems(server.name.as_str()), SERVER_WEIGHT);
    add(stems(server.description.as_deref().unwrap_or("")), SERVER_WEIGHT / 4.0);
    add(stems(tool.title.as_deref().unwrap_or("")), TITLE_WEIGHT);
    let properties = tool.input_schema.get("properties").and_then(serde_json::Value::as_object);
    for parameter in properties.into_iter().flat_map(serde_json::Map::keys).take(PARAMETERS_MAX) {
        add(stems(parameter), PARAMETER_WEIGHT);
    }
    let mut description = stems(&tool.description);
    description.truncate(DESCRIPTION_WORDS_MAX);
    add(description, DESCRIPTION_WEIGHT);
    (weights, length)
}
