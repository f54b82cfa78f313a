//! Claims about the vectors of tools, with a model of meaningless numbers: when they are computed, cached, and computed
//! again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::broker::tools::catalog_cache::tests::key;
use crate::broker::tools::tool_index::tests::of_key;
use crate::catalog::{Tool, Tools};
use crate::encoder::tiny;
use crate::names::ServerName;

fn name(text: &str) -> ServerName {
    ServerName::new(text).unwrap()
}

/// The servers "a" and "b" with these tools.
fn tool_index(of_a: &[&str], of_b: &[&str]) -> Arc<ToolIndex> {
    let limits = Arc::new(Limits::default());
    let tools = |names: &[&str]| {
        let tool = |name: &&str| Tool::from_json(&json!({"name": name}), &limits).unwrap();
        Tools::listed(names.iter().map(tool).collect(), &limits)
    };
    let catalog = Catalog::new(["a", "b"].map(|server| (name(server), None, None)), &limits);
    let catalog = catalog.with(BTreeMap::from([(name("a"), tools(of_a)), (name("b"), tools(of_b))]));
    let servers = ["a", "b"].map(|server| (name(server), of_key(key(server)))).into();
    Arc::new(ToolIndex::new(catalog, servers, None, limits))
}

fn semantics(dir: &Path, tool_index: &Arc<ToolIndex>, limits: &Limits) -> Semantics {
    let folders = (Some(dir.join("model")), Some(dir.join("vectors")));
    Semantics::new(folders.0, folders.1, Arc::clone(tool_index), limits)
}

/// Repeats the query until it has a vector.
async fn settled(semantics: &Semantics, tool_index: &ToolIndex) -> Vec<f32> {
    loop {
        if let Some(vector) = semantics.vector(&tool_index.catalog(), "send mails").await {
            return vector;
        }
        tokio::task::yield_now().await;
    }
}

/// The cached files, and the time when each was written, in nanoseconds.
fn written(dir: &Path) -> Vec<(String, i64)> {
    let Ok(entries) = fs::read_dir(dir.join("vectors")) else { return vec![] };
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap()))
        .map(|(name, metadata)| (name, metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn the_words_alone_count_until_all_tools_have_vectors_which_later_bridges_find() {
    let dir = tempfile::tempdir().unwrap();
    tiny::write(&dir.path().join("model"));
    let (first, limits) = (tool_index(&["send", "buy"], &["list"]), Limits::default());
    let bridge = semantics(dir.path(), &first, &limits);
    assert_eq!(bridge.vector(&first.catalog(), "send mails").await, None, "nothing is there yet");
    assert_eq!(settled(&bridge, &first).await.len(), 4);
    bridge.close().await;
    let kept = written(dir.path());
    assert_eq!(kept.len(), 2, "one file for each server");
    // Another bridge finds all vectors in the cache, writes nothing, and computes only those of new tools.
    let same = tool_index(&["send", "buy"], &["list"]);
    let bridge = semantics(dir.path(), &same, &limits);
    assert_eq!(bridge.vector(&same.catalog(), "send mails").await.map(|vector| vector.len()), Some(4));
    bridge.close().await;
    assert_eq!(written(dir.path()), kept);
    let more = tool_index(&["send", "buy", "mail"], &["list"]);
    let bridge = semantics(dir.path(), &more, &limits);
    settled(&bridge, &more).await;
    bridge.close().await;
    let changed = written(dir.path()).into_iter().zip(&kept).filter(|(new, old)| new != *old).count();
    assert_eq!(changed, 1, "only what has changed is written");
}

#[tokio::test]
async fn damaged_files_and_those_of_another_model_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    tiny::write(&dir.path().join("model"));
    let limits = Limits::default();
    let index_of_it = || tool_index(&["send"], &[]);
    let first = index_of_it();
    let bridge = semantics(dir.path(), &first, &limits);
    let vector = settled(&bridge, &first).await;
    bridge.close().await;
    let [(file, _)] = &written(dir.path())[..] else { panic!("a server without tools has no file") };
    let path = dir.path().join("vectors").join(file);
    let good = fs::read(&path).unwrap();
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    let again = index_of_it();
    let bridge = semantics(dir.path(), &again, &limits);
    assert_eq!(settled(&bridge, &again).await, vector);
    bridge.close().await;
    assert_eq!(fs::read(&path).unwrap(), good);
    // A change of one number in the last tensor makes it another model.
    let weights = dir.path().join("model/model.safetensors");
    let mut other = fs::read(&weights).unwrap();
    let end = other.len();
    other[end - 4..].copy_from_slice(&1.5_f32.to_le_bytes());
    fs::write(&weights, other).unwrap();
    let again = index_of_it();
    let bridge = semantics(dir.path(), &again, &limits);
    assert_ne!(settled(&bridge, &again).await, vector);
    bridge.close().await;
    assert_ne!(fs::read(&path).unwrap(), good);
}

#[tokio::test]
async fn without_a_model_or_with_a_broken_one_searches_go_by_words_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (known, limits) = (tool_index(&["send"], &[]), Limits::default());
    let off = Semantics::new(None, None, Arc::clone(&known), &limits);
    assert_eq!(off.vector(&known.catalog(), "send").await, None);
    off.close().await;
    let bridge = semantics(dir.path(), &known, &limits);
    assert_eq!(bridge.vector(&known.catalog(), "send").await, None);
    // A model that is installed while the bridge runs is used from the next search on.
    tiny::write(&dir.path().join("model"));
    settled(&bridge, &known).await;
    assert_eq!(bridge.vector(&known.catalog(), " ").await, None, "what browses is not encoded");
    bridge.close().await;
    let before = written(dir.path());
    fs::write(dir.path().join("model/config.json"), "{").unwrap();
    let again = tool_index(&["send"], &[]);
    let broken = semantics(dir.path(), &again, &limits);
    assert_eq!(broken.vector(&again.catalog(), "send").await, None);
    broken.close().await;
    assert_eq!(written(dir.path()), before);
}

#[tokio::test]
async fn an_end_in_the_middle_keeps_what_is_done_and_an_idle_encoder_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    tiny::write(&dir.path().join("model"));
    let known = tool_index(&["send", "buy"], &["list"]);
    let at_once = Limits { encoder_idle: Duration::ZERO, ..Limits::default() };
    let bridge = semantics(dir.path(), &known, &at_once);
    settled(&bridge, &known).await;
    let shared = Arc::clone(bridge.shared.as_ref().unwrap());
    while !matches!(shared.state.lock().slot, EncoderSlot::Empty) {
        tokio::task::yield_now().await;
    }
    settled(&bridge, &known).await;
    bridge.close().await;
    let ended = tool_index(&["send", "buy"], &["list"]);
    let bridge = semantics(&dir.path().join("other"), &ended, &at_once);
    bridge.close().await;
    tiny::write(&dir.path().join("other/model"));
    assert_eq!(bridge.vector(&ended.catalog(), "send").await, None);
    assert!(bridge.tasks().is_empty(), "nothing begins after the end");
    assert_eq!(written(&dir.path().join("other")), []);
}
