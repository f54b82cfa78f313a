//! `make search-bench`: how well and how fast the search finds what is meant, in the committed tools or in others.
//!
//! `TOOLS` and `QUERIES` name files in the form of those in `tests/search`.

#[path = "../tests/search/quality.rs"]
mod quality;

use std::path::PathBuf;

/// All queries over 6,910 tools of 817 servers, of which only a part may be passed on: recall@1, @5, @10, MRR@10.
const OTHERS: [(&str, [f64; 4]); 4] = [
    ("words that all must occur (the closest ancestor)", [0.173, 0.209, 0.211, 0.188]),
    ("plain BM25", [0.348, 0.531, 0.589, 0.429]),
    ("BM25F with trigrams and synonyms, tuned", [0.505, 0.673, 0.762, 0.586]),
    ("that, and a small sentence encoder, fused", [0.54, 0.77, 0.85, 0.63]),
];

fn main() {
    let file = |variable: &str, committed: &str| {
        std::env::var_os(variable)
            .filter(|name| !name.is_empty())
            .map_or_else(|| PathBuf::from(committed), PathBuf::from)
    };
    let (tools, queries) = (file("TOOLS", quality::TOOLS), file("QUERIES", quality::QUERIES));
    let catalog = quality::catalog(&tools);
    println!("{}\n", quality::measure(&catalog, &quality::queries(&queries)));
    println!("Others, over 6,910 tools and the development queries:");
    for (name, [one, five, ten, mrr]) in OTHERS {
        println!("| {name} | 1057 | {one:.3} | {five:.3} | {ten:.3} | {mrr:.3} |");
    }
}
