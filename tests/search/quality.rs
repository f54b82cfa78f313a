//! How well the search finds what is meant: tools and queries in lines of JSON, and the share of queries whose tool stands among
//! the first hits.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_tools::catalog::{Catalog, Queries, SearchHit, Tool, Tools, search};
use serde_json::Value;

/// The tools and queries that are committed beside this file.
pub const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/tools.jsonl");
/// See [`TOOLS`].
pub const QUERIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/queries.jsonl");
/// Tools of further servers, about which [`EVERYDAY`] asks too.
pub const EVERYDAY_TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/everyday-tools.jsonl");
/// What users ask for in words of daily life, about [`TOOLS`] and [`EVERYDAY_TOOLS`].
pub const EVERYDAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/everyday.jsonl");
/// Queries that share at most one word with the tool that is meant; also about tools that are not committed.
pub const PARAPHRASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/paraphrases.jsonl");
const HITS: usize = 10;

/// Something that may be asked for, and the tools that answer it.
pub struct Query {
    text: String,
    /// Other wordings of the same.
    also: Vec<String>,
    kind: String,
    /// Server and name.
    relevant: Vec<(String, String)>,
}

/// The quality of one kind of queries; each share from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub struct Quality {
    pub queries: usize,
    /// A relevant tool is the first hit, or among the first five, or ten.
    pub recall_at_1: f64,
    pub recall_at_5: f64,
    pub recall_at_10: f64,
    /// The mean over the queries of one over the place of the first relevant hit, 0 beyond the tenth.
    pub mrr_at_10: f64,
}

/// What one measurement found.
pub struct Measured {
    pub tools: usize,
    pub by_kind: Vec<(String, Quality)>,
    pub all: Quality,
    /// The share of weak searches among those that have a relevant tool in the first five, and among the others.
    pub weak: [f64; 2],
    /// From the tools to what a search needs of them.
    pub index_build: Duration,
    /// Memory that is held for searches.
    pub index_bytes: usize,
    /// Of single queries, the shortest of the tries of each, sorted.
    pub took: Vec<Duration>,
}

/// The tools of a file, each line an object with `server`, `name`, `description` and `inputSchema`.
pub fn catalog(file: &Path) -> Catalog {
    catalog_of(&[file])
}

/// The tools of several files.
pub fn catalog_of(files: &[&Path]) -> Catalog {
    let limits = Limits::default();
    let mut by_server: BTreeMap<ServerName, Vec<Tool>> = BTreeMap::new();
    for line in files.iter().flat_map(|file| lines(file)) {
        let server = line["server"].as_str().expect("a server's name");
        let tool = Tool::from_json(&line, &limits).expect("a tool");
        by_server.entry(ServerName::new(server).expect("a server's name")).or_default().push(tool);
    }
    let names = by_server.keys().map(|name| (name.clone(), None, None));
    let unasked = Catalog::new(names, &limits);
    unasked.with(by_server.into_iter().map(|(name, tools)| (name, Tools::listed(tools, &limits))).collect())
}

/// The queries of a file, each line an object with `query`, `kind` and `relevant`: pairs of server and tool. `also`: other
/// wordings of the query.
pub fn queries(file: &Path) -> Vec<Query> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let pair = |pair: &Value| (text(&pair[0]), text(&pair[1]));
    let query = |line: Value| Query {
        text: text(&line["query"]),
        also: line["also"].as_array().map(|also| also.iter().map(text).collect()).unwrap_or_default(),
        kind: text(&line["kind"]),
        relevant: line["relevant"].as_array().expect("a list").iter().map(pair).collect(),
    };
    lines(file).map(query).collect()
}

/// The queries that a tool of the catalog answers.
pub fn answered(catalog: &Catalog, queries: Vec<Query>) -> Vec<Query> {
    let is_there = |(server, tool): &(String, String)| {
        catalog
            .server(server)
            .is_some_and(|server| server.listed().iter().any(|known| known.name.as_str() == tool))
    };
    queries.into_iter().filter(|query| query.relevant.iter().any(is_there)).collect()
}

/// Asks all queries, each in these of its wordings at once. Each is timed so many times, of which the shortest counts: the others
/// show what else the machine does.
pub fn measure(catalog: &Catalog, queries: &[Query], wordings: Range<usize>, tries: usize) -> Measured {
    let index_build = (0..tries).map(|_| anew(catalog)).map(|fresh| timed(|| fresh.prepare_search()).1).min();
    catalog.prepare_search();
    let ask = |query: &Query| {
        let texts = [&query.text].into_iter().chain(&query.also).take(wordings.end).skip(wordings.start);
        search(catalog, texts.map(String::as_str).collect::<Queries<'_>>(), HITS, 0).0
    };
    let mut took = Vec::new();
    let mut weak = [Vec::new(), Vec::new()];
    let mut places: BTreeMap<&str, Vec<Option<usize>>> = BTreeMap::new();
    for query in queries {
        let (hits, shortest) =
            (0..tries).map(|_| timed(|| ask(query))).min_by_key(|(_, took)| *took).expect("a try");
        took.push(shortest);
        let place = hits.iter().position(|hit| {
            let is_it = |(server, tool): &(String, String)| {
                server == hit.server().name.as_str() && tool == hit.tool().name.as_str()
            };
            query.relevant.iter().any(is_it)
        });
        let is_missed = place.is_none_or(|place| place >= 5);
        weak[usize::from(is_missed)].push(hits.first().is_none_or(SearchHit::is_weak));
        places.entry(&query.kind).or_default().push(place);
    }
    took.sort();
    let all: Vec<Option<usize>> = places.values().flatten().copied().collect();
    let by_kind = places.iter().map(|(kind, places)| ((*kind).to_owned(), Quality::of(places))).collect();
    let tools = catalog.servers().iter().map(|server| server.listed().len()).sum();
    let index_bytes = catalog.search_bytes();
    let index_build = index_build.expect("a try");
    let weak = weak.map(|all| all.iter().filter(|weak| **weak).count() as f64 / all.len().max(1) as f64);
    Measured { tools, by_kind, weak, all: Quality::of(&all), index_build, index_bytes, took }
}

/// What something gives, and how long it takes.
fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let given = what();
    (given, started.elapsed())
}

/// The same tools, of which nothing has been counted.
fn anew(catalog: &Catalog) -> Catalog {
    let servers = || catalog.servers().iter();
    let unasked = Catalog::new(servers().map(|server| (server.name.clone(), None, None)), &Limits::default());
    unasked.with(servers().map(|server| (server.name.clone(), server.tools.clone())).collect())
}

impl Quality {
    fn of(places: &[Option<usize>]) -> Self {
        let share = |first: usize| {
            places.iter().flatten().filter(|place| **place < first).count() as f64 / places.len() as f64
        };
        let reciprocal: f64 = places.iter().flatten().map(|place| 1.0 / (place + 1) as f64).sum();
        Self {
            queries: places.len(),
            recall_at_1: share(1),
            recall_at_5: share(5),
            recall_at_10: share(10),
            mrr_at_10: reciprocal / places.len() as f64,
        }
    }
}

/// A Markdown table.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| kind of query | queries | recall@1 | recall@5 | recall@10 | MRR@10 |")?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|")?;
        let kinds = self.by_kind.iter().map(|(kind, quality)| (kind.as_str(), quality));
        for (kind, quality) in kinds.chain([("all", &self.all)]) {
            let Quality { queries, recall_at_1, recall_at_5, recall_at_10, mrr_at_10 } = quality;
            writeln!(
                f,
                "| {kind} | {queries} | {recall_at_1:.3} | {recall_at_5:.3} | {recall_at_10:.3} | {mrr_at_10:.3} |"
            )?;
        }
        let [found, missed] = self.weak.map(|share| share * 100.0);
        writeln!(f, "\nweak: {found:.0} % of those found among the first five, {missed:.0} % of the others")?;
        let at = |percent: usize| self.took[(self.took.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
        let (build, mib) = (self.index_build.as_millis(), self.index_bytes as f64 / f64::from(1 << 20));
        write!(
            f,
            "\n{} tools; index built in {build} ms, {mib:.1} MiB; a query takes {:.2} ms (p50), {:.2} ms (p99)",
            self.tools,
            at(50),
            at(99)
        )
    }
}

fn lines(file: &Path) -> impl Iterator<Item = Value> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let lines: Vec<Value> = text
        .lines()
        .enumerate()
        .map(|(number, line)| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}, line {}: {error}", file.display(), number + 1))
        })
        .collect();
    lines.into_iter()
}
