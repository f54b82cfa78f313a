//! How well the search finds what is meant: tools and queries in lines of JSON, and the share of queries whose tool stands among
//! the first hits.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell::catalog::{Catalog, Tool, Tools, search};
use hotcell::limits::Limits;
use hotcell::names::ServerName;
use serde_json::Value;

/// The tools and queries that are committed beside this file.
pub const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/tools.jsonl");
/// See [`TOOLS`].
pub const QUERIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/queries.jsonl");
const HITS: usize = 10;
const TRIES: usize = 3;

/// Something that may be asked for, and the tools that answer it.
pub struct Query {
    text: String,
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
    /// From the tools to what a search needs of them.
    pub index_build: Duration,
    /// Memory that is held for searches.
    pub index_bytes: usize,
    /// Of single queries, the shortest of three tries each, sorted.
    pub took: Vec<Duration>,
}

/// The tools of a file, each line an object with `server`, `name`, `description` and `inputSchema`.
pub fn catalog(file: &Path) -> Catalog {
    let limits = Limits::default();
    let mut by_server: BTreeMap<ServerName, Vec<Tool>> = BTreeMap::new();
    for line in lines(file) {
        let server = line["server"].as_str().expect("a server's name");
        let tool = Tool::from_json(&line, &limits).expect("a tool");
        by_server.entry(ServerName::new(server).expect("a server's name")).or_default().push(tool);
    }
    let names = by_server.keys().map(|name| (name.clone(), None, None));
    let unasked = Catalog::new(names, &limits);
    unasked.with(by_server.into_iter().map(|(name, tools)| (name, Tools::listed(tools, &limits))).collect())
}

/// The queries of a file, each line an object with `query`, `kind` and `relevant`: pairs of server and tool.
pub fn queries(file: &Path) -> Vec<Query> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let pair = |pair: &Value| (text(&pair[0]), text(&pair[1]));
    let query = |line: Value| Query {
        text: text(&line["query"]),
        kind: text(&line["kind"]),
        relevant: line["relevant"].as_array().expect("a list").iter().map(pair).collect(),
    };
    lines(file).map(query).collect()
}

/// Asks all queries.
pub fn measure(catalog: &Catalog, queries: &[Query]) -> Measured {
    let index_build = shortest(|| anew(catalog), |fresh| fresh.prepare_search());
    catalog.prepare_search();
    let mut took = Vec::new();
    let mut places: BTreeMap<&str, Vec<Option<usize>>> = BTreeMap::new();
    for query in queries {
        took.push(shortest(|| (), |_| drop(search(catalog, &query.text, HITS, 0))));
        let (hits, _) = search(catalog, &query.text, HITS, 0);
        let place = hits.iter().position(|hit| {
            let is_it = |(server, tool): &(String, String)| {
                server == hit.server().name.as_str() && tool == hit.tool().name.as_str()
            };
            query.relevant.iter().any(is_it)
        });
        places.entry(&query.kind).or_default().push(place);
    }
    took.sort();
    let all: Vec<Option<usize>> = places.values().flatten().copied().collect();
    let by_kind = places.iter().map(|(kind, places)| ((*kind).to_owned(), Quality::of(places))).collect();
    let tools = catalog.servers().iter().map(|server| server.listed().len()).sum();
    let index_bytes = catalog.search_bytes();
    Measured { tools, by_kind, all: Quality::of(&all), index_build, index_bytes, took }
}

/// How long something takes: the shortest of some tries, since the others show what else the machine does.
fn shortest<T>(ready: impl Fn() -> T, timed: impl Fn(&T)) -> Duration {
    let once = |_| {
        let with = ready();
        let started = Instant::now();
        timed(&with);
        started.elapsed()
    };
    (0..TRIES).map(once).min().expect("it is tried")
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
