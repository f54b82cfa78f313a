//! Ranked search over all tools: any word may match, common words count little, an exact name comes first.
//!
//! It decides nothing about access: the caller hands in the catalog that the code may know of.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use super::docs::{Detail, tool_doc};
use super::index::Index;
use super::known::{Catalog, ServerTools};
use super::python::Shapes;
use super::synonyms::synonyms;
use super::tool::Tool;
use super::words::{is_stop_word, stem, words};

/// How soon further occurrences of a word count no more.
const SATURATION: f32 = 0.6;
/// How much more a tool counts the more of the query's words it has: the power of their share.
const COVERAGE: f32 = 0.4;
/// What a word counts that only means much the same as the one asked for.
const SYNONYM_WEIGHT: f32 = 0.5;
/// What an exact path or name is worth: more than any sum of words.
const PATH_SCORE: f32 = 10_000.0;
const NAME_SCORE: f32 = 5_000.0;
/// How like a known word an unknown one must be to count as its misspelling, and how much it then counts.
const TYPO_MIN: f64 = 0.7;
/// The likeness of a longer word that begins with it.
const PREFIX_LIKENESS: f64 = 0.8;
const TYPO_WEIGHT: f32 = 0.7;
const TYPO_STEMS_MAX: usize = 4;
const TYPOS_MAX: usize = 2;
const TYPO_BYTES_MIN: usize = 3;
const SAME_START: f64 = 0.05;
/// Unknown words of one query that are compared with every known one.
const TYPO_WORDS_MAX: usize = 8;
const QUERY_CHARS_MAX: usize = 1_000;
const QUERY_WORDS_MAX: usize = 32;
/// Most hits of one search.
const HITS_MAX: usize = 100;

/// What a search found: one page, and how many there are.
#[derive(Debug)]
pub struct SearchHit {
    server: Arc<ServerTools>,
    place: usize,
    score: f32,
}

impl SearchHit {
    /// The tool.
    #[must_use]
    pub fn tool(&self) -> &Tool {
        &self.server.listed()[self.place]
    }

    /// Its server.
    #[must_use]
    pub fn server(&self) -> &ServerTools {
        &self.server
    }

    /// As `search_tool_docs` returns it: the tool's document with its signature, and what its results have looked like.
    #[must_use]
    pub fn to_json(&self, detail: Detail, shapes: &Shapes) -> Value {
        let mut doc = tool_doc(&self.server, self.tool(), detail, shapes);
        doc["signature"] = json!(shapes.signature(&self.server.name, self.tool()));
        doc
    }
}

/// The hits from `offset` on, best first, at most `limit` (1 to 100), and the number of all hits. An empty query
/// browses: every tool in the order of server and name. Equal catalogs and queries give equal answers.
#[must_use]
pub fn search(catalog: &Catalog, query: &str, limit: usize, offset: usize) -> (Vec<SearchHit>, usize) {
    let query: String = query.trim().chars().take(QUERY_CHARS_MAX).collect();
    let mut hits = if query.is_empty() { browse(catalog) } else { ranked(catalog, &query) };
    let total = hits.len();
    hits.sort_by(order);
    let page = hits.into_iter().skip(offset).take(limit.clamp(1, HITS_MAX)).collect();
    (page, total)
}

fn browse(catalog: &Catalog) -> Vec<SearchHit> {
    let every = catalog.servers().iter().flat_map(|server| {
        (0..server.listed().len()).map(|place| SearchHit { server: Arc::clone(server), place, score: 0.0 })
    });
    every.collect()
}

fn order(one: &SearchHit, other: &SearchHit) -> Ordering {
    other
        .score
        .total_cmp(&one.score)
        .then_with(|| one.server.name.cmp(&other.server.name))
        .then(one.place.cmp(&other.place))
}

fn ranked(catalog: &Catalog, query: &str) -> Vec<SearchHit> {
    let indexed: Vec<(&Arc<ServerTools>, &Index)> = catalog
        .servers()
        .iter()
        .map(|server| (server, server.index.get_or_init(|| Index::new(server))))
        .collect();
    let tools = indexed.iter().map(|(server, _)| server.listed().len()).sum();
    let asked = asked(&indexed, query);
    let mut found: BTreeMap<(usize, usize), (f32, usize)> = BTreeMap::new();
    for alternatives in &asked {
        for (tool, score) in scores_of_word(&indexed, tools, alternatives) {
            let (sum, covered) = found.entry(tool).or_default();
            *sum += score;
            *covered += 1;
        }
    }
    let scored = |(sum, covered): (f32, usize)| sum * (covered as f32 / asked.len() as f32).powf(COVERAGE);
    let mut scores = found.into_iter().map(|(tool, found)| (tool, scored(found))).collect();
    add_exact(&indexed, query, &mut scores);
    scores
        .into_iter()
        .map(|((number, place), score)| SearchHit { server: Arc::clone(indexed[number].0), place, score })
        .collect()
}

/// What a word of the query is worth to each tool: its best alternative there.
fn scores_of_word(
    indexed: &[(&Arc<ServerTools>, &Index)],
    tools: usize,
    alternatives: &BTreeMap<String, f32>,
) -> HashMap<(usize, usize), f32> {
    let mut best: HashMap<(usize, usize), f32> = HashMap::new();
    for (stem, weight) in alternatives {
        let held: Vec<_> = indexed
            .iter()
            .enumerate()
            .filter_map(|(number, (_, index))| Some((number, index.0.get(stem)?)))
            .collect();
        let holders: usize = held.iter().map(|(_, places)| places.len()).sum();
        let rarity = (1.0 + (tools as f32 - holders as f32 + 0.5) / (holders as f32 + 0.5)).ln();
        for (number, places) in held {
            for (place, count) in places {
                let score = weight * rarity * count * (SATURATION + 1.0) / (count + SATURATION);
                let known = best.entry((number, *place)).or_default();
                *known = known.max(score);
            }
        }
    }
    best
}

/// For each word of the query the stems to look for, with their weights: its own, or those that it resembles where no
/// tool has it, and those that mean much the same.
fn asked(indexed: &[(&Arc<ServerTools>, &Index)], query: &str) -> Vec<BTreeMap<String, f32>> {
    let all = words(query);
    let telling: Vec<&String> = all.iter().filter(|word| !is_stop_word(word)).collect();
    let asked = if telling.is_empty() { all.iter().collect() } else { telling };
    let mut stems: Vec<String> = Vec::new();
    for word in asked {
        let stem = stem(word);
        if stems.len() < QUERY_WORDS_MAX && !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    let mut unknown = 0;
    let alternatives = stems.into_iter().map(|stem| {
        let is_known = indexed.iter().any(|(_, index)| index.0.contains_key(&stem));
        let mut found = BTreeMap::new();
        if is_known {
            found.insert(stem.clone(), 1.0);
        } else if unknown < TYPO_WORDS_MAX {
            unknown += 1;
            found.extend(resembling(indexed, &stem));
        }
        let meant: Vec<(String, f32)> = found
            .iter()
            .flat_map(|(stem, weight)| {
                synonyms(stem).map(move |other| (other.to_owned(), SYNONYM_WEIGHT * weight))
            })
            .chain(synonyms(&stem).map(|other| (other.to_owned(), SYNONYM_WEIGHT)))
            .collect();
        for (other, weight) in meant {
            let known: &mut f32 = found.entry(other).or_default();
            *known = known.max(weight);
        }
        found
    });
    alternatives.collect()
}

fn resembling(indexed: &[(&Arc<ServerTools>, &Index)], stem: &str) -> Vec<(String, f32)> {
    let letters = letters(stem);
    let mut likenesses: BTreeMap<&str, f64> = BTreeMap::new();
    for known in indexed.iter().flat_map(|(_, index)| index.0.keys()) {
        if stem.len() < TYPO_BYTES_MIN {
            break;
        }
        let likeness = if known.starts_with(stem) {
            PREFIX_LIKENESS
        } else if known.len().abs_diff(stem.len()) > TYPOS_MAX
            || (self::letters(known) ^ letters).count_ones() as usize > 2 * TYPOS_MAX
        {
            0.0
        } else {
            // The first letter is rarely mistyped.
            let same_start = known.as_bytes().first() == stem.as_bytes().first();
            strsim::normalized_damerau_levenshtein(stem, known) + if same_start { SAME_START } else { 0.0 }
        };
        if likeness >= TYPO_MIN {
            likenesses.insert(known, likeness);
        }
    }
    let mut likenesses: Vec<(&str, f64)> = likenesses.into_iter().collect();
    likenesses.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
    likenesses
        .into_iter()
        .take(TYPO_STEMS_MAX)
        .map(|(known, likeness)| (known.to_owned(), TYPO_WEIGHT * likeness.min(1.0) as f32))
        .collect()
}

/// Which letters a word has, as bits: words that differ in many have many edits between them, which is quick to see.
fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |bits, byte| bits | 1 << (byte & 31))
}

fn add_exact(
    indexed: &[(&Arc<ServerTools>, &Index)],
    query: &str,
    scores: &mut BTreeMap<(usize, usize), f32>,
) {
    let folded = |text: &str| text.to_lowercase();
    let query = folded(query);
    let path = query.strip_prefix("mcp_").unwrap_or(&query);
    let (server_part, tool_part) = match path.split_once(['.', '/', ':']) {
        Some((server, tool)) => (Some(server.trim()), tool.trim()),
        None => (None, query.as_str()),
    };
    for (number, (server, _)) in indexed.iter().enumerate() {
        let is_server =
            server_part.is_some_and(|part| part == folded(server.name.as_str()) || part == server.alias);
        for (place, tool) in server.listed().iter().enumerate() {
            let (name, alias) = (folded(tool.name.as_str()), folded(&tool.alias));
            let bonus = if is_server && (tool_part == name || tool_part == alias) {
                PATH_SCORE
            } else if query == name || query == alias {
                NAME_SCORE
            } else {
                continue;
            };
            *scores.entry((number, place)).or_default() += bonus;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::known::tests::catalog;

    fn some() -> Catalog {
        catalog(&[
            (
                "github",
                json!([
                    {"name": "list_issues", "description": "List issues in a repository", "inputSchema": {"properties": {"state": {}}}},
                    {"name": "createPullRequest", "description": "Open a pull request"},
                    {"name": "get-file-contents", "description": "Get the contents of a file"}
                ]),
            ),
            (
                "filesystem",
                json!([
                    {"name": "read_file", "description": "Read a file from disk"},
                    {"name": "write_file", "description": "Write text to a file"},
                    {"name": "list_directory", "description": "List what is in a folder"}
                ]),
            ),
        ])
    }

    fn found(query: &str) -> Vec<String> {
        let (hits, _) = search(&some(), query, 3, 0);
        hits.iter().map(|hit| format!("{}.{}", hit.server().name, hit.tool().name)).collect()
    }

    #[test]
    fn what_is_meant_comes_first() {
        for (query, first) in [
            ("listing the issues", "github.list_issues"),
            ("pull requests", "github.createPullRequest"),
            ("create_pull_request", "github.createPullRequest"),
            ("pullrequest create", "github.createPullRequest"),
            ("how do I write some file?", "filesystem.write_file"),
            ("isues", "github.list_issues"),
            ("direktory", "filesystem.list_directory"),
            ("github.get-file-contents", "github.get-file-contents"),
            ("mcp_github.get_file_contents", "github.get-file-contents"),
            ("read_file", "filesystem.read_file"),
            ("state", "github.list_issues"),
            ("issues banana spaceship", "github.list_issues"),
        ] {
            assert_eq!(found(query).first().map(String::as_str), Some(first), "{query}");
        }
    }

    #[test]
    fn nothing_like_it_finds_nothing_and_hostile_queries_are_answered() {
        assert_eq!(found("zzzzqqqq"), Vec::<String>::new());
        assert_eq!(found("the of and"), Vec::<String>::new());
        let (hits, total) = search(&some(), &"read file ".repeat(1_000_000), usize::MAX, usize::MAX);
        assert_eq!((hits.len(), total > 0), (0, true));
    }

    #[test]
    fn an_empty_query_browses_in_pages() {
        let names = |offset| {
            let (hits, total) = search(&some(), " ", 4, offset);
            (hits.iter().map(|hit| hit.tool().name.as_str().to_owned()).collect::<Vec<_>>(), total)
        };
        let first =
            ["list_directory", "read_file", "write_file", "createPullRequest"].map(str::to_owned).to_vec();
        assert_eq!(names(0), (first, 6));
        assert_eq!(names(4), (vec!["get-file-contents".into(), "list_issues".into()], 6));
    }

    #[test]
    fn a_hit_has_the_seeds_shape_and_a_signature() {
        let (hits, total) = search(&some(), "list issues", 1, 0);
        assert_eq!(total, 2);
        assert_eq!(
            hits[0].to_json(Detail::Summary, &Shapes::default()),
            json!({"server": "github", "serverAlias": "github", "tool": "list_issues", "toolAlias": "list_issues",
                   "description": "List issues in a repository", "signature": "list_issues(*, state: Any = ...)"})
        );
    }
}
