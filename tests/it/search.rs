//! The search finds what is meant, as well as it did, and takes no more memory than is meant.

use std::collections::BTreeMap;
use std::path::Path;

use belljar::catalog::{Catalog, Query, Tool, Tools, search};
use belljar::limits::Limits;
use belljar::names::ServerName;
use serde_json::json;

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
const FUSED: [f64; 4] = [0.689, 0.826, 0.904, 0.758];

#[test]
fn the_search_by_words_is_as_good_as_it_was() {
    let catalog = quality::catalog(Path::new(quality::TOOLS));
    let measured = quality::measure(&catalog, &quality::queries(Path::new(quality::QUERIES)), 1, None, 1);
    compare(&measured, [RECALL_AT_1, RECALL_AT_5, RECALL_AT_10, MRR_AT_10]);
}

#[cfg(feature = "semantic")]
#[test]
fn the_search_by_words_and_meaning_is_as_good_as_it_was() {
    let encoder = belljar::encoder::Encoder::load(&quality::model::installed()).unwrap();
    let catalog = quality::catalog(Path::new(quality::TOOLS));
    quality::encode_tools(&catalog, &encoder, &vectors());
    let queries = quality::queries(Path::new(quality::QUERIES));
    compare(&quality::measure(&catalog, &queries, 1, Some(&encoder), 1), FUSED);
}

/// Figures of the paraphrases: recall@5 by words, and with the encoder.
const PARAPHRASES_AT_5: [f64; 2] = [0.168, 0.406];

#[test]
fn paraphrases_are_found_as_often_as_before() {
    let catalog = quality::catalog(Path::new(quality::TOOLS));
    let queries = quality::answered(&catalog, quality::queries(Path::new(quality::PARAPHRASES)));
    let by_words = quality::measure(&catalog, &queries, 1, None, 1);
    compare_at_5(&by_words, PARAPHRASES_AT_5[0]);
    #[cfg(feature = "semantic")]
    {
        let encoder = belljar::encoder::Encoder::load(&quality::model::installed()).unwrap();
        quality::encode_tools(&catalog, &encoder, &vectors());
        compare_at_5(&quality::measure(&catalog, &queries, 1, Some(&encoder), 1), PARAPHRASES_AT_5[1]);
    }
}

/// The same with three wordings of each in one search.
const THREE_WORDINGS_AT_5: [f64; 2] = [0.846, 0.867];

#[test]
fn three_wordings_are_fused_as_well_as_before() {
    let catalog = quality::catalog(Path::new(quality::TOOLS));
    let queries = quality::answered(&catalog, quality::queries(Path::new(quality::PARAPHRASES)));
    compare_at_5(&quality::measure(&catalog, &queries, 3, None, 1), THREE_WORDINGS_AT_5[0]);
    #[cfg(feature = "semantic")]
    {
        let encoder = belljar::encoder::Encoder::load(&quality::model::installed()).unwrap();
        quality::encode_tools(&catalog, &encoder, &vectors());
        compare_at_5(&quality::measure(&catalog, &queries, 3, Some(&encoder), 1), THREE_WORDINGS_AT_5[1]);
    }
}

fn compare_at_5(measured: &quality::Measured, before: f64) {
    let now = measured.all.recall_at_5;
    assert!(now >= before - NOISE, "recall@5 was {before:.3} and is {now:.3}\n{measured}");
}

/// Among the tools of twelve other servers; none of the memory server's texts has a word of the query.
#[test]
fn remember_a_fact_finds_the_memory_server() {
    let limits = Limits::default();
    let committed = quality::catalog(Path::new(quality::TOOLS));
    let memory = ServerName::new("memory").unwrap();
    let names = committed.servers().iter().map(|server| server.name.clone()).chain([memory.clone()]);
    let catalog = Catalog::new(names.map(|name| (name, None, None)), &limits);
    let mut tools: BTreeMap<_, _> =
        committed.servers().iter().map(|server| (server.name.clone(), server.tools.clone())).collect();
    let of_memory = [
        ("create_entities", "Create multiple new entities in the knowledge graph"),
        ("add_observations", "Add new observations to existing entities in the knowledge graph"),
        ("delete_relations", "Delete multiple relations from the knowledge graph"),
    ];
    let of_memory = of_memory.map(|(name, description)| {
        Tool::from_json(&json!({"name": name, "description": description}), &limits).unwrap()
    });
    tools.insert(memory, Tools::listed(of_memory.into(), &limits));
    let catalog = catalog.with(tools);
    let found = |query: Query<'_>| -> Vec<String> {
        search(&catalog, query, 3, 0).0.iter().map(|hit| hit.server().name.to_string()).collect()
    };
    let text = "remember a fact";
    let by_words = found(Query { text, vector: None });
    assert!(by_words.contains(&"memory".to_owned()), "{by_words:?}");
    #[cfg(feature = "semantic")]
    {
        let encoder = belljar::encoder::Encoder::load(&quality::model::installed()).unwrap();
        quality::encode_tools(&catalog, &encoder, &vectors());
        let vector = encoder.encode(text).unwrap();
        assert_eq!(found(Query { text, vector: Some(&vector) }), ["memory"; 3]);
    }
}

/// Where the tests store the vectors of tools.
#[cfg(feature = "semantic")]
fn vectors() -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vectors.json")
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
