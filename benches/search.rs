//! `make search-bench`: how well and how fast the search finds what is meant, in the committed tools or in others, beside
//! what other rankers reached.
//!
//! `TOOLS` and `QUERIES` name files in the form of those in `tests/search`.

#![allow(clippy::restriction, reason = "a benchmark ends at what it does not expect, and prints")]

#[path = "../tests/search/quality.rs"]
mod quality;

use std::path::{Path, PathBuf};

use belljar_tools::catalog::Catalog;
use quality::{Measured, Quality};

/// Other rankers, and what they were measured on.
const BASELINES: &str = include_str!("../tests/search/baselines.tsv");
/// How often each query is timed.
const TRIES: usize = 3;
/// Wordings of each paraphrase.
const WORDINGS_MAX: usize = 3;
const BASELINE_TOOLS: usize = 6_910;
const BASELINE_QUERIES: usize = 1_057;

fn main() {
    let file = |variable: &str, committed: &str| {
        std::env::var_os(variable)
            .filter(|name| !name.is_empty())
            .map_or_else(|| PathBuf::from(committed), PathBuf::from)
    };
    let (tools, queries) = (file("TOOLS", quality::TOOLS), file("QUERIES", quality::QUERIES));
    let catalog = quality::catalog(&tools);
    let queries = quality::queries(&queries);
    let paraphrases = quality::answered(&catalog, quality::queries(Path::new(quality::PARAPHRASES)));
    let measure = |catalog: &Catalog, queries: &[quality::Query], wordings| {
        let measured = quality::measure(catalog, queries, wordings, TRIES);
        println!("{measured}\n");
        measured
    };
    let measured = measure(&catalog, &queries, 0..1);
    if !paraphrases.is_empty() {
        for wordings in 1..=WORDINGS_MAX {
            println!("Paraphrases, with {wordings} of their wordings in one search:\n");
            measure(&catalog, &paraphrases, 0..wordings);
        }
    }
    let everyday = quality::catalog_of(&[tools.as_path(), Path::new(quality::EVERYDAY_TOOLS)]);
    let asked = quality::answered(&everyday, quality::queries(Path::new(quality::EVERYDAY)));
    for (said, wordings) in [("the request itself", 0..1), ("three plain wordings of it", 1..4)] {
        println!("What users ask for, searched with {said}:\n");
        measure(&everyday, &asked, wordings);
    }
    print_baselines(&measured);
}

/// One line for each ranker, one column for each kind of query.
fn print_baselines(measured: &Measured) {
    let mut lines = BASELINES.lines().filter(|line| !line.starts_with('#'));
    let kinds: Vec<&str> = lines.next().unwrap_or_default().split('\t').skip(1).collect();
    let is_same = (measured.tools, measured.all.queries) == (BASELINE_TOOLS, BASELINE_QUERIES);
    println!(
        "recall@1 · @5 · @10 · MRR@10 in percent, of others over {BASELINE_TOOLS} tools and {BASELINE_QUERIES} queries"
    );
    if !is_same {
        println!(
            "(measured here over {} tools and {} queries: not comparable)",
            measured.tools, measured.all.queries
        );
    }
    println!("\n| ranker | {} |", kinds.join(" | "));
    println!("|---|{}", "---:|".repeat(kinds.len()));
    println!("| **belljar** | {} |", cells(measured, &kinds));
    for line in lines {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let (ranker, figures) = cells.split_first().expect("a line has a ranker");
        let figures: Vec<String> = figures.iter().map(|cell| cell.replace(' ', " · ")).collect();
        println!("| {ranker} | {} |", figures.join(" | "));
    }
}

/// The percentages of each kind.
fn cells(measured: &Measured, kinds: &[&str]) -> String {
    let of_one = |kind: &&str| match of_kind(measured, kind) {
        Some(Quality { recall_at_1, recall_at_5, recall_at_10, mrr_at_10, .. }) => {
            [recall_at_1, recall_at_5, recall_at_10, mrr_at_10]
                .map(|share| format!("{:.0}", share * 100.0))
                .join(" · ")
        }
        None => "-".to_owned(),
    };
    kinds.iter().map(of_one).collect::<Vec<_>>().join(" | ")
}

/// The quality of one kind of queries, or of all; nothing when there are none.
fn of_kind<'m>(measured: &'m Measured, kind: &str) -> Option<&'m Quality> {
    let found = measured.by_kind.iter().find(|(known, _)| known == kind).map(|(_, quality)| quality);
    if kind == "all" { Some(&measured.all) } else { found }
}
