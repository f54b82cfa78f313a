//! The search finds what is meant, as well as it did, and takes no more memory than is meant.

use std::path::Path;

// Without an encoder in the program nothing is encoded.
#[cfg_attr(not(feature = "semantic"), allow(dead_code))]
#[path = "../search/quality.rs"]
pub mod quality;

/// What the committed tools and queries gave when this was written. A better ranker raises them; one that is worse by more
/// than [`NOISE`] fails. The smallest change is one query of 270.
const RECALL_AT_1: f64 = 0.585;
const RECALL_AT_5: f64 = 0.800;
const RECALL_AT_10: f64 = 0.833;
const MRR_AT_10: f64 = 0.670;
const NOISE: f64 = 0.01;
/// The same in their order, with the sentence encoder.
#[cfg(feature = "semantic")]
const FUSED: [f64; 4] = [0.685, 0.852, 0.893, 0.760];

#[test]
fn the_search_by_words_is_as_good_as_it_was() {
    let catalog = quality::catalog(Path::new(quality::TOOLS));
    let measured = quality::measure(&catalog, &quality::queries(Path::new(quality::QUERIES)), None, 1);
    compare(&measured, [RECALL_AT_1, RECALL_AT_5, RECALL_AT_10, MRR_AT_10]);
}

#[cfg(feature = "semantic")]
#[test]
fn the_search_by_words_and_meaning_is_as_good_as_it_was() {
    let encoder = belljar::encoder::Encoder::load(&quality::model::installed()).unwrap();
    let catalog = quality::catalog(Path::new(quality::TOOLS));
    quality::encode_tools(&catalog, &encoder, &Path::new(env!("CARGO_TARGET_TMPDIR")).join("vectors.json"));
    let queries = quality::queries(Path::new(quality::QUERIES));
    compare(&quality::measure(&catalog, &queries, Some(&encoder), 1), FUSED);
}

fn compare(measured: &quality::Measured, [at_1, at_5, at_10, mrr]: [f64; 4]) {
    let all = measured.all;
    for (name, now, before) in [
        ("recall@1", all.recall_at_1, at_1),
        ("recall@5", all.recall_at_5, at_5),
        ("recall@10", all.recall_at_10, at_10),
        ("MRR@10", all.mrr_at_10, mrr),
    ] {
        assert!(now >= before - NOISE, "{name} was {before:.3} and is {now:.3}\n{measured}");
    }
}

/// For ten thousand tools it is to stay below 60 MB.
const INDEX_BYTES_PER_TOOL_MAX: usize = 6_000;

#[test]
fn the_index_is_small() {
    let catalog = quality::catalog(Path::new(quality::TOOLS));
    catalog.prepare_search();
    let tools: usize = catalog.servers().iter().map(|server| server.listed().len()).sum();
    let bytes = catalog.search_bytes();
    // A tool has some dozens of words.
    assert!(
        bytes > 200 * tools && bytes < INDEX_BYTES_PER_TOOL_MAX * tools,
        "{bytes} bytes for {tools} tools"
    );
}
