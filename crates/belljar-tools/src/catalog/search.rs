//! Ranked search over all tools: any word may match, common words count little, an exact name comes first.
//!
//! It decides nothing about access: the caller passes the catalog that the code may see.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::contents::Catalog;
use super::docs::{Detail, tool_doc};
use super::index::Index;
use super::matching::synonyms::{is_known, phrase, synonyms};
use super::matching::words::{is_stop_word, stem, words};
use super::python::Shapes;
use super::server_tools::{Origin, ServerTools};
use super::tool::Tool;

/// The exponent for the share of the query's words that a tool has: the more words, the more the tool counts.
const COVERAGE: f32 = 0.4;
/// The weight of a synonym of a query's word.
const SYNONYM_WEIGHT: f32 = 0.6;
/// The score of an exact path, and that of an exact name: more than any sum of words.
const PATH_SCORE: f32 = 10_000.0;
const NAME_SCORE: f32 = 5_000.0;
/// The weight of a known word that a misspelt one may stand for, multiplied by their similarity.
const TYPO_WEIGHT: f32 = 0.7;
/// The largest number of unknown words of one query that are compared with every known one.
const TYPO_WORDS_MAX: usize = 8;
/// A search is weak if its best hit scores less for each of the queries. Over published tools this is so for one in seven
/// of the queries that find their tool among the first five, and for more than half of the others.
const WEAK_SCORE: f32 = 0.38;
/// The number of characters of a query that count.
const QUERY_CHARS_MAX: usize = 1_000;
const QUERY_WORDS_MAX: usize = 32;
/// How far the second word of a phrase may be behind its verb.
const PHRASE_WORDS_MAX: usize = 4;
/// The largest number of hits of one search.
const HITS_MAX: usize = 100;

/// The number of hits among which the first hit of each query is, if no page size is set.
const PAGE: usize = 8;

/// The queries of one search, which may be paraphrases or ask for different things.
#[derive(Debug)]
pub struct Queries<'q>(Vec<&'q str>);

/// One tool that a search found.
#[derive(Debug)]
pub struct SearchHit {
    server: Arc<ServerTools>,
    place: usize,
    of_server: usize,
    is_weak: bool,
}

impl SearchHit {
    /// The tool.
    #[must_use]
    pub fn tool(&self) -> &Tool {
        &self.server.listed()[self.place]
    }

    /// The tool's server.
    #[must_use]
    pub fn server(&self) -> &ServerTools {
        &self.server
    }

    /// The number of its server's tools that were found, on all pages.
    #[must_use]
    pub fn of_server(&self) -> usize {
        self.of_server
    }

    /// Whether no tool matches any of the queries well. All hits of one search say the same.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.is_weak
    }

    /// The hit in the form of `search_tool_docs`: the tool's document with its signature, and the shape of its results.
    #[must_use]
    pub fn to_json(&self, detail: Detail, shapes: &Shapes) -> Value {
        let mut doc = tool_doc(&self.server, self.tool(), detail, shapes);
        doc["signature"] = match self.server.origin {
            Origin::Server => json!(shapes.signature(&self.server.name, self.tool())),
            Origin::Skills => json!(self.tool().signature),
        };
        if self.server.origin == Origin::Skills {
            doc["skill"] = json!(true);
        }
        doc
    }
}

/// The hits from `offset` on, best first, at most `limit` (1 to 100), and the number of all hits. An empty query lists
/// every tool in the order of server and name. The rankings of several queries are fused. Equal catalogs and queries
/// give equal results.
#[must_use]
pub fn search<'q>(
    catalog: &Catalog,
    queries: impl Into<Queries<'q>>,
    limit: usize,
    offset: usize,
) -> (Vec<SearchHit>, usize) {
    let limit = limit.clamp(1, HITS_MAX);
    let rankings = queries.into().0.into_iter().filter_map(|text| {
        let text: String = text.trim().chars().take(QUERY_CHARS_MAX).collect();
        (!text.is_empty()).then(|| scores(catalog.index(), &text))
    });
    let rankings: Vec<Vec<f32>> = rankings.collect();
    if rankings.is_empty() {
        return browse(catalog, limit, offset);
    }
    let is_weak = rankings.iter().flatten().all(|score| *score < WEAK_SCORE);
    let mut page = ranked(catalog, fused(rankings), limit, offset);
    page.0.iter_mut().for_each(|hit| hit.is_weak = is_weak);
    page
}

impl<'q> From<&'q str> for Queries<'q> {
    fn from(text: &'q str) -> Self {
        Self(vec![text])
    }
}

impl<'q> FromIterator<&'q str> for Queries<'q> {
    fn from_iter<I: IntoIterator<Item = &'q str>>(queries: I) -> Self {
        Self(queries.into_iter().collect())
    }
}

/// The score of each tool for all queries: the sum of its scores, so that a good wording outweighs bad ones. A need with
/// low scores must not lose its place to another need, so the first hit of each query stays on the first page.
fn fused(rankings: Vec<Vec<f32>>) -> Vec<f32> {
    let firsts: Vec<usize> = rankings.iter().filter_map(|scores| best(scores)).collect();
    let queries = rankings.len();
    let mut rankings = rankings.into_iter();
    let mut sums = rankings.next().unwrap_or_default();
    for scores in rankings {
        for (sum, score) in sums.iter_mut().zip(scores) {
            *sum += score;
        }
    }
    let mut sorted = sums.clone();
    sorted.sort_unstable_by(|one, other| other.total_cmp(one));
    if let Some(floor) = sorted.get(PAGE.saturating_sub(queries)) {
        for first in firsts {
            sums[first] = sums[first].max(floor.next_up());
        }
    }
    sums
}

/// The tool with the highest score; `None`: no tool matches.
fn best(scores: &[f32]) -> Option<usize> {
    let found = scores.iter().enumerate().filter(|(_, score)| **score > 0.0);
    found.max_by(|one, other| one.1.total_cmp(other.1).then(other.0.cmp(&one.0))).map(|(tool, _)| tool)
}

/// Groups the hits of one page by server, the servers in the order of their best hits.
#[must_use]
pub fn grouped(mut hits: Vec<SearchHit>) -> Vec<SearchHit> {
    let mut firsts = BTreeMap::new();
    for (place, hit) in hits.iter().enumerate() {
        firsts.entry(hit.server.name.clone()).or_insert(place);
    }
    // The sort is stable: the hits of one server stay in their order.
    hits.sort_by_key(|hit| firsts.get(&hit.server.name).copied());
    hits
}

fn browse(catalog: &Catalog, limit: usize, offset: usize) -> (Vec<SearchHit>, usize) {
    let every = catalog.servers().iter().flat_map(|server| {
        let of_server = server.listed().len();
        (0..of_server).map(move |place| SearchHit {
            server: Arc::clone(server),
            place,
            of_server,
            is_weak: false,
        })
    });
    let total = catalog.servers().iter().map(|server| server.listed().len()).sum();
    (every.skip(offset).take(limit).collect(), total)
}

/// The tools with the highest scores, and the number of tools with a score above 0.
fn ranked(catalog: &Catalog, scores: Vec<f32>, limit: usize, offset: usize) -> (Vec<SearchHit>, usize) {
    let index = catalog.index();
    let mut found: Vec<(f32, u32)> = scores.into_iter().zip(0..).filter(|(score, _)| *score > 0.0).collect();
    let total = found.len();
    let mut of_servers = vec![0; catalog.servers().len()];
    for (_, tool) in &found {
        of_servers[index.place(*tool).0] += 1;
    }
    let best_first =
        |one: &(f32, u32), other: &(f32, u32)| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1));
    let last = offset.saturating_add(limit);
    if last < found.len() {
        found.select_nth_unstable_by(last, best_first);
        found.truncate(last);
    }
    found.sort_unstable_by(best_first);
    let hit = |(_, tool): (f32, u32)| {
        let (server, place) = index.place(tool);
        SearchHit {
            server: Arc::clone(&catalog.servers()[server]),
            place,
            of_server: of_servers[server],
            is_weak: false,
        }
    };
    (found.into_iter().skip(offset).map(hit).collect(), total)
}

/// The score of each tool for the query, by number; 0 for a tool that does not match.
fn scores(index: &Index, query: &str) -> Vec<f32> {
    let mut scores = of_words(index, query);
    add_exact(index, query, &mut scores);
    scores
}

/// The score of each tool for the query's words, divided by the rarity of all these words. So a tool that has only one
/// common word of a query scores low, even if no other tool has more.
fn of_words(index: &Index, query: &str) -> Vec<f32> {
    let asked = asked(index, query);
    let tools = index.tools();
    let mut sums = vec![0.0_f32; tools];
    let mut covered = vec![0_usize; tools];
    // For one word of the query: the score of its best alternative in each tool, and the tools that have one.
    let mut best = vec![0.0_f32; tools];
    let mut holders: Vec<u32> = Vec::new();
    for asked in &asked {
        for (word, weight) in &asked.alternatives {
            let places = index.words.places(*word);
            // A rare synonym of a common word tells no more than the word.
            let worth = weight * rarity(index, places.len()).min(asked.rarity);
            for place in places {
                let known = &mut best[place.tool as usize];
                if *known == 0.0 {
                    holders.push(place.tool);
                }
                *known = known.max(worth * place.count);
            }
        }
        for tool in holders.drain(..).map(|tool| tool as usize) {
            sums[tool] += std::mem::take(&mut best[tool]);
            covered[tool] += 1;
        }
    }
    let all: f32 = asked.iter().map(|asked| asked.rarity).sum();
    let share = |covered: usize| (covered as f32 / asked.len() as f32).powf(COVERAGE) / all;
    let shares: Vec<f32> = (0..=asked.len()).map(share).collect();
    for (sum, covered) in sums.iter_mut().zip(covered).filter(|(_, covered)| *covered > 0) {
        *sum *= shares[covered];
    }
    sums
}

/// The weight of a word that this many tools have: the fewer, the larger.
fn rarity(index: &Index, holders: usize) -> f32 {
    let (tools, holders) = (index.tools() as f32, holders as f32);
    (1.0 + (tools - holders + 0.5) / (holders + 0.5)).ln()
}

/// One word of a query.
struct QueryWord {
    rarity: f32,
    /// The words to search, by number, with their weights: the word itself, or similar words if no tool has it, and
    /// their synonyms.
    alternatives: BTreeMap<usize, f32>,
}

fn asked(index: &Index, query: &str) -> Vec<QueryWord> {
    let all = words(query);
    let mut stems: Vec<String> = Vec::new();
    let mut is_of_phrase = vec![false; all.len()];
    for first in 0..all.len() {
        let ends = first + 1..all.len().min(first + 1 + PHRASE_WORDS_MAX);
        let mut found = ends.map(|last| (last, phrase(&all[first], &all[last])));
        if let Some((last, phrase)) = found.find(|(_, phrase)| is_known(phrase)) {
            is_of_phrase[first] = true;
            is_of_phrase[last] = true;
            if stems.len() < QUERY_WORDS_MAX && !stems.contains(&phrase) {
                stems.push(phrase);
            }
        }
    }
    let others: Vec<&String> = all
        .iter()
        .zip(is_of_phrase)
        .filter_map(|(word, is_of_phrase)| (!is_of_phrase).then_some(word))
        .collect();
    let telling: Vec<&String> = others.iter().copied().filter(|word| !is_stop_word(word)).collect();
    for word in if telling.is_empty() && stems.is_empty() { others } else { telling } {
        let stem = stem(word);
        if stems.len() < QUERY_WORDS_MAX && !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    let mut unknown = 0;
    let asked = stems.iter().map(|stem| {
        let mut found = BTreeMap::new();
        let mut holders = 0;
        if let Some(number) = index.words.number(stem) {
            holders = index.words.places(number).len();
            found.insert(number, 1.0);
        } else if unknown < TYPO_WORDS_MAX && !stem.contains('_') {
            unknown += 1;
            let resembling = index.fuzzy_words.of(stem, &index.words);
            found.extend(resembling.into_iter().map(|(number, likeness)| (number, TYPO_WEIGHT * likeness)));
        }
        let own = found.iter().map(|(number, weight)| (&*index.words.words()[*number], *weight));
        let meant: Vec<(usize, f32)> = own
            .chain([(stem.as_str(), 1.0)])
            .flat_map(|(stem, weight)| synonyms(stem).map(move |other| (other, SYNONYM_WEIGHT * weight)))
            // Two words of the query do not count for one word of a tool.
            .filter(|(other, _)| !stems.iter().any(|asked| asked == other))
            .filter_map(|(other, weight)| Some((index.words.number(other)?, weight)))
            .collect();
        for (other, weight) in meant {
            let known: &mut f32 = found.entry(other).or_default();
            *known = known.max(weight);
        }
        QueryWord { rarity: rarity(index, holders), alternatives: found }
    });
    asked.collect()
}

/// Puts tools first that the query names by path (`github.list_issues`, `mcp_github/list_issues`) or by name alone.
fn add_exact(index: &Index, query: &str, scores: &mut [f32]) {
    let query = query.to_lowercase();
    let path = query.strip_prefix("mcp_").unwrap_or(&query);
    let named = index.named(&query);
    let mut bonuses: BTreeMap<u32, f32> = named.iter().map(|tool| (*tool, NAME_SCORE)).collect();
    for (at, separator) in path.match_indices(['.', '/', ':']) {
        let (server, tool) = (path[..at].trim(), path[at + separator.len()..].trim());
        for number in index.named(tool) {
            if index.is_of(*number, server) {
                bonuses.insert(*number, PATH_SCORE);
            }
        }
    }
    for (tool, bonus) in bonuses {
        scores[tool as usize] += bonus;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::contents::tests::catalog;
    use super::*;

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

    fn names(hits: &[SearchHit]) -> Vec<String> {
        hits.iter().map(|hit| format!("{}.{}", hit.server().name, hit.tool().name)).collect()
    }

    fn found(query: &str) -> Vec<String> {
        names(&search(&some(), query, 3, 0).0)
    }

    #[test]
    fn what_is_meant_comes_first() {
        for (query, first) in [
            ("listing the issues", "github.list_issues"),
            ("pull requests", "github.createPullRequest"),
            ("create_pull_request", "github.createPullRequest"),
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
    fn several_queries_are_fused() {
        let of = |queries: &[&str]| {
            let queries: Queries<'_> = queries.iter().copied().collect();
            let (hits, total) = search(&some(), queries, 3, 0);
            (names(&hits), total)
        };
        let (alone, _) = of(&["read file"]);
        // A tool that both queries find comes before the first hit of either.
        assert_eq!(
            of(&["text on disk", "write a file"]).0[..2],
            ["filesystem.write_file", "filesystem.read_file"]
        );
        assert_eq!((of(&["read file", " "]).0, of(&["read file", "read file"]).0), (alone.clone(), alone));
        let (each, _) = of(&["issues", "folder"]);
        assert_eq!(each, ["github.list_issues", "filesystem.list_directory"]);
        assert_eq!(
            of(&["github.list_issues", "folder"]).0[..2],
            ["github.list_issues", "filesystem.list_directory"]
        );
        assert_eq!(of(&[]).1, 6, "nothing asked for browses");
    }

    #[test]
    fn first_hit_of_each_query_stays_on_the_first_page() {
        let loud: Vec<Value> = (0..20).map(|n| json!({"name": format!("read_file_{n}")})).collect();
        let quiet = json!([{"name": "x", "description": format!("{} zebra", "other words of little use ".repeat(9))}]);
        let catalog = catalog(&[("loud", Value::Array(loud)), ("quiet", quiet)]);
        let queries: Queries<'_> =
            ["read file", "file read", "where is the zebra of my aunt"].into_iter().collect();
        let (hits, _) = search(&catalog, queries, PAGE, 0);
        assert!(names(&hits).contains(&"quiet.x".to_owned()), "{:?}", names(&hits));
        assert_eq!(hits[0].server().name.as_str(), "loud");
    }

    #[test]
    fn what_is_to_be_remembered_leads_to_the_memory_server() {
        let catalog = catalog(&[
            (
                "memory",
                json!([
                    {"name": "create_entities", "description": "Create multiple new entities in the knowledge graph"},
                    {"name": "add_observations", "description": "Add new observations to existing entities"}
                ]),
            ),
            ("time", json!([{"name": "get_current_time", "description": "Get current time in a timezone"}])),
        ]);
        let (hits, _) = search(&catalog, "remember a fact", 5, 0);
        assert_eq!(names(&hits), ["memory.add_observations", "memory.create_entities"]);
    }

    #[test]
    fn a_search_is_weak_unless_one_of_its_queries_matches_well() {
        let is_weak = |queries: &[&str]| {
            let (hits, _) = search(&some(), queries.iter().copied().collect::<Queries<'_>>(), 3, 0);
            hits[0].is_weak()
        };
        assert!(is_weak(&["what does my folder of music cost"]));
        assert!(!is_weak(&["what does my folder of music cost", "read a file"]));
        for good in ["list issues", "github.list_issues", "read_file", "pull requests", ""] {
            assert!(!is_weak(&[good]), "{good}");
        }
    }

    #[test]
    fn nothing_like_it_finds_nothing_and_hostile_queries_are_answered() {
        assert_eq!(found("zzzzqqqq"), Vec::<String>::new());
        assert_eq!(found("the of and"), Vec::<String>::new());
        let (hits, total) = search(&some(), &*"read file ".repeat(1_000_000), usize::MAX, usize::MAX);
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

    #[test]
    fn a_page_is_a_part_of_the_whole_ranking() {
        let catalog = some();
        let (whole, total) = search(&catalog, "list file issues", 100, 0);
        let whole = names(&whole);
        assert_eq!((whole.len(), total), (5, 5));
        for offset in 0..=total {
            let (page, of) = search(&catalog, "list file issues", 2, offset);
            assert_eq!((names(&page), of), (whole[offset..total.min(offset + 2)].to_vec(), total));
        }
    }

    #[test]
    fn groups_keep_the_order_of_their_best_hits_and_know_how_many_there_are() {
        let catalog = catalog(&[
            ("a", json!([{"name": "alpha_beta_gamma"}, {"name": "alpha"}, {"name": "delta"}])),
            ("b", json!([{"name": "alpha_beta"}])),
        ]);
        let (hits, total) = search(&catalog, "alpha beta gamma", 3, 0);
        assert_eq!(
            (names(&hits), total),
            (["a.alpha_beta_gamma", "b.alpha_beta", "a.alpha"].map(str::to_owned).to_vec(), 3)
        );
        let grouped = grouped(hits);
        assert_eq!(names(&grouped), ["a.alpha_beta_gamma", "a.alpha", "b.alpha_beta"]);
        assert_eq!(grouped.iter().map(SearchHit::of_server).collect::<Vec<_>>(), [2, 2, 1]);
    }

    /// A change of one server's tools leaves the counts of the other servers unchanged.
    #[test]
    fn a_change_of_one_server_is_found_and_leaves_the_others_as_they_were() {
        let limits = belljar_base::limits::Limits::default();
        let before = some();
        let first = |catalog: &Catalog, query: &str| names(&search(catalog, query, 1, 0).0);
        assert_eq!(first(&before, "teleport a giraffe"), [""; 0]);
        let tool = Tool::from_json(&json!({"name": "teleport"}), &limits).unwrap();
        let name = before.servers()[1].name.clone();
        let after = before.with_tools(&name, Ok(vec![tool]), &limits);
        assert_eq!(first(&after, "teleport a giraffe"), ["github.teleport"]);
        assert_eq!(first(&after, "write file"), ["filesystem.write_file"]);
        assert_eq!(search(&after, "createPullRequest", 9, 0).0.len(), 0);
        assert_eq!(first(&before, "createPullRequest"), ["github.createPullRequest"]);
        assert!(before.search_bytes() > 0 && some().search_bytes() == 0);
    }

    #[test]
    fn kept_functions_are_ranked_with_the_tools_beside_a_server_of_that_name() {
        let limits = belljar_base::limits::Limits::default();
        let servers = catalog(&[("skills", json!([{"name": "list"}])), ("zoo", json!([{"name": "feed"}]))]);
        let about = json!({"name": "weekly", "title": "finance", "description": "Sums up.",
            "inputSchema": {"properties": {"region": {}}}});
        let skill = Tool::from_json(&about, &limits).unwrap();
        let both = servers.with_skills(vec![(skill, "async weekly(region)".to_owned())], &limits);
        assert!(servers.is_same(&servers.clone()) && !both.is_same(&servers));
        for query in ["weekly", "skills.weekly", "finance", "region", "sum up"] {
            let (hits, total) = search(&both, query, 1, 0);
            let doc = hits[0].to_json(Detail::Signature, &Shapes::default());
            assert_eq!(
                (&doc["signature"], &doc["skill"]),
                (&json!("async weekly(region)"), &json!(true)),
                "{query}"
            );
            assert!(total >= 1);
        }
        let (hits, total) = search(&both, "", 9, 0);
        assert_eq!(
            (names(&hits), total),
            (["skills.list", "zoo.feed", "skills.weekly"].map(str::to_owned).to_vec(), 3)
        );
        assert_eq!(hits[0].to_json(Detail::Signature, &Shapes::default()).get("skill"), None);
    }

    #[test]
    fn a_server_with_a_dot_in_its_name_has_paths_too() {
        let tools = json!([{"name": "list"}, {"name": "get"}]);
        let catalog = catalog(&[("a", tools.clone()), ("my.server", tools.clone()), ("server", tools)]);
        for path in ["my.server.get", "mcp_my_server.get", "my.server/get"] {
            assert_eq!(names(&search(&catalog, path, 1, 0).0), ["my.server.get"], "{path}");
        }
    }
}
