//! What belljar costs a model before its first call.

use std::path::Path;

use crate::listing::{of_belljar, of_servers, tokens};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/tools.jsonl");
/// Claude Code cuts descriptions there (anthropics/claude-code issue 41593).
const DESCRIPTION_BYTES_MAX: usize = 2048;

#[test]
fn the_listing_is_small_whatever_is_behind_it_and_the_same_at_every_start() {
    let (twelve, tools) = of_servers(Path::new(TOOLS));
    assert_eq!((twelve.len(), tools.len()), (12, 675));
    let thousand: Vec<String> = (0..1000).map(|number| format!("{}-{number}", "service")).collect();
    let twelve: Vec<&str> = twelve.iter().map(String::as_str).collect();
    let thousand: Vec<&str> = thousand.iter().map(String::as_str).collect();
    for (servers, tokens_max) in [(&twelve, 300), (&thousand, 400)] {
        let listed = of_belljar(servers.iter().copied());
        let text = listed.to_string();
        assert!(tokens(&text) <= tokens_max, "{} tokens:\n{text}", tokens(&text));
        let description = listed["tools"][0]["description"].as_str().unwrap();
        assert!(description.len() <= DESCRIPTION_BYTES_MAX, "{}", description.len());
        let again = of_belljar(servers.iter().rev().copied()).to_string();
        assert_eq!(again, text);
    }
}
