//! The index of all tools: which words are in which tools and how much each counts there, and which tools have which
//! name.
//!
//! It ranks nothing. Each server's words are counted once. If one server changes, the counts of all are merged again.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::matching::fuzzy::FuzzyWords;
use super::matching::postings::{Posting, Postings};
use super::matching::words::{is_stop_word, stem, words};
use super::server_tools::ServerTools;
use super::tool::Tool;

/// A part of a tool's text.
struct Field {
    /// The weight of one occurrence of a word, in a part of usual length.
    weight: f32,
    /// The usual length of the part in words: the mean over some thousand published tools.
    usual_words: f32,
}

// A server's name has the largest weight, since users who know the server name it first. Texts of parameters repeat
// each other.
const SERVER: Field = Field { weight: 4.0, usual_words: 1.6 };
const NAME: Field = Field { weight: 3.0, usual_words: 3.0 };
const TITLE: Field = Field { weight: 2.0, usual_words: 3.0 };
const DESCRIPTION: Field = Field { weight: 1.0, usual_words: 25.0 };
const PARAMETERS: Field = Field { weight: 1.0, usual_words: 6.0 };
const PARAMETER_TEXTS: Field = Field { weight: 0.3, usual_words: 35.0 };

/// How much less a word counts in a longer part, from 0 (not less) to 1 (in proportion to the length).
const LENGTH_SHARE: f32 = 0.5;

/// The number of words of a description that count; later ones are rarely about the tool.
const DESCRIPTION_WORDS_MAX: usize = 120;
const PARAMETERS_MAX: usize = 60;
const PARAMETER_WORDS_MAX: usize = 30;

/// How soon further occurrences of a word no longer count.
const SATURATION: f32 = 0.6;

/// All tools of a catalog, numbered from 0 in the order of server and name.
#[derive(Debug)]
pub(super) struct Index {
    /// The tools of each word, by its stem.
    pub(super) words: Postings,
    pub(super) fuzzy_words: FuzzyWords,
    /// The number of the first tool of each server.
    firsts: Vec<u32>,
    /// Each server's name in lower case, and its alias.
    servers: Vec<(Box<str>, Box<str>)>,
    tools: usize,
    /// The tools of each name and alias, in lower case.
    by_name: HashMap<Box<str>, Vec<u32>>,
}

impl Index {
    /// Merges the servers' words. Servers that were not counted before are counted first.
    pub(super) fn new(servers: &[Arc<ServerTools>]) -> Self {
        let (mut firsts, mut tools) = (Vec::with_capacity(servers.len()), 0);
        let mut by_name: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        for server in servers {
            firsts.push(tools as u32);
            for (place, tool) in server.listed().iter().enumerate() {
                let number = (tools + place) as u32;
                let (name, alias) = (tool.name.as_str().to_lowercase(), tool.alias.to_lowercase());
                if alias != name {
                    by_name.entry(alias.into()).or_default().push(number);
                }
                by_name.entry(name.into()).or_default().push(number);
            }
            tools += server.listed().len();
        }
        let counted = servers.iter().map(|server| server.words.get_or_init(|| words_of(server)));
        let parts: Vec<(u32, &Postings)> = firsts.iter().copied().zip(counted).collect();
        let words = Postings::merged(&parts);
        let named = |server: &Arc<ServerTools>| {
            (server.name.as_str().to_lowercase().into(), server.alias.as_str().into())
        };
        let servers = servers.iter().map(named).collect();
        Self { fuzzy_words: FuzzyWords::new(&words), words, firsts, servers, tools, by_name }
    }

    /// The number of tools.
    pub(super) fn tools(&self) -> usize {
        self.tools
    }

    /// A tool's server, and its position among that server's tools, both by number.
    pub(super) fn place(&self, tool: u32) -> (usize, usize) {
        // A server without tools begins at the same number as the next one, so the last of them has the tool.
        let server = self.firsts.partition_point(|first| *first <= tool) - 1;
        (server, (tool - self.firsts[server]) as usize)
    }

    /// The tools with this name or alias, which must be in lower case.
    pub(super) fn named(&self, name: &str) -> &[u32] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether the tool belongs to the server with this name or alias, which must be in lower case.
    pub(super) fn is_of(&self, tool: u32, server: &str) -> bool {
        let (name, alias) = &self.servers[self.place(tool).0];
        **name == *server || **alias == *server
    }

    /// Its memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let entry = size_of::<(Box<str>, Vec<u32>)>();
        let names: usize = self.by_name.iter().map(|(name, tools)| name.len() + 4 * tools.capacity()).sum();
        let servers: usize = self.servers.iter().map(|(name, alias)| 36 + name.len() + alias.len()).sum();
        self.words.bytes() + self.fuzzy_words.bytes() + names + self.by_name.capacity() * entry + servers
    }
}

/// Counts the words of one server's tools, which are numbered from 0.
fn words_of(server: &ServerTools) -> Postings {
    let mut by_stem: HashMap<String, Vec<Posting>> = HashMap::new();
    for (place, tool) in server.listed().iter().enumerate() {
        for (stem, count) in counts(server, tool) {
            let count = count * (SATURATION + 1.0) / (count + SATURATION);
            by_stem.entry(stem).or_default().push(Posting { tool: place as u32, count });
        }
    }
    Postings::new(by_stem)
}

fn counts(server: &ServerTools, tool: &Tool) -> HashMap<String, f32> {
    let mut counts = HashMap::new();
    add(&mut counts, &SERVER, words(server.name.as_str()));
    add(&mut counts, &NAME, words(tool.name.as_str()));
    add(&mut counts, &TITLE, words(tool.title.as_deref().unwrap_or("")));
    let mut description = words(&tool.description);
    description.truncate(DESCRIPTION_WORDS_MAX);
    description.extend(words(server.description.as_deref().unwrap_or("")));
    add(&mut counts, &DESCRIPTION, description);
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let properties = || properties.into_iter().flatten().take(PARAMETERS_MAX);
    add(&mut counts, &PARAMETERS, properties().flat_map(|(name, _)| words(name)).collect());
    let texts = properties().flat_map(|(_, schema)| {
        let text = schema.get("description").and_then(Value::as_str).unwrap_or("");
        let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        let values = values.filter_map(Value::as_str).flat_map(words);
        words(text).into_iter().chain(values).take(PARAMETER_WORDS_MAX)
    });
    add(&mut counts, &PARAMETER_TEXTS, texts.collect());
    counts
}

/// Adds the counts of the words of one part.
fn add(counts: &mut HashMap<String, f32>, field: &Field, words: Vec<String>) {
    let length = words.len() as f32 / field.usual_words;
    let count = field.weight / (1.0 - LENGTH_SHARE + LENGTH_SHARE * length);
    for word in words.iter().filter(|word| !is_stop_word(word)) {
        *counts.entry(stem(word)).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::contents::tests::catalog;
    use super::*;

    #[test]
    fn numbers_lead_to_the_tools_also_past_servers_without_any() {
        let two = json!([{"name": "Get-It"}, {"name": "put"}]);
        let catalog = catalog(&[
            ("a", json!([])),
            ("B-c", two.clone()),
            ("d", json!([])),
            ("e", two),
            ("f", json!([])),
        ]);
        let index = Index::new(catalog.servers());
        assert_eq!(index.tools(), 4);
        let places: Vec<_> = (0..4).map(|tool| index.place(tool)).collect();
        let names: Vec<&str> =
            places.iter().map(|(server, _)| catalog.servers()[*server].name.as_str()).collect();
        // The servers are sorted by name.
        assert_eq!(names, ["B-c", "B-c", "e", "e"]);
        assert_eq!(places.iter().map(|(_, place)| *place).collect::<Vec<_>>(), [0, 1, 0, 1]);
        assert_eq!(
            (index.named("get-it"), index.named("get_it"), index.named("gone")),
            (&[0, 2][..], &[0, 2][..], &[][..])
        );
        assert!(index.is_of(1, "b-c") && index.is_of(1, "b_c") && !index.is_of(2, "b-c"));
    }
}
