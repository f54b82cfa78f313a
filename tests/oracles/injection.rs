//! The attacks of `tests/fixtures/injection` through the catalog and through replies: they come out as escaped, bounded
//! data. What becomes of them on the way through a real server and a sandbox is tested in `tests/live/injection.rs`.

use std::path::Path;

use belljar::render::{Block, render};
use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::{
    Calls, Output, OutputMode, OutputPiece, OutputStream, PythonError, RunOutcome, RunReport, StateNote,
};
use belljar_tools::catalog::{Catalog, Detail, Shapes, Tool, query_tool_docs, search};
use serde::Deserialize;

use crate::inert::{is_inert, is_inert_line};
use crate::schema_to_python::{self, spoken};
use crate::{config_parser, frame_decoder, jsonrpc_input, name_mapping};

/// More than the record of a run keeps of a text.
const KEPT_CHARS_MAX: usize = 64 * 1024;

/// One attack.
#[derive(Debug, Deserialize)]
pub struct Attack {
    pub name: String,
    pub what: String,
    pub text: String,
    /// How often the text is said.
    #[serde(default = "once")]
    repeat: usize,
}

fn once() -> usize {
    1
}

/// All of them, said as often as they ask for.
pub fn attacks() -> Vec<Attack> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/injection/attacks.json");
    let mut attacks: Vec<Attack> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for attack in &mut attacks {
        attack.text = attack.text.repeat(attack.repeat);
    }
    attacks
}

#[test]
fn every_attack_is_told_apart_and_explained() {
    let attacks = attacks();
    let names: std::collections::BTreeSet<&str> = attacks.iter().map(|attack| attack.name.as_str()).collect();
    assert_eq!(names.len(), attacks.len());
    assert!(attacks.iter().all(|attack| !attack.what.is_empty() && attack.what.is_ascii()));
    let long = attacks.iter().filter(|attack| attack.text.len() >= 1 << 20);
    assert_eq!(long.count(), 2, "texts of 1 MiB");
}

#[test]
fn in_the_catalog_attacks_are_escaped_bounded_text() {
    let limits = Limits::default();
    for attack in attacks() {
        schema_to_python::check(spoken(&attack.text).to_string().as_bytes());
        name_mapping::check(attack.text.as_bytes());
        let mut item = spoken(&attack.text);
        item["name"] = "attack".into();
        let name = ServerName::new("own").unwrap();
        let tool = Tool::from_json(&item, &limits).unwrap();
        let catalog = Catalog::new([(name.clone(), Some(attack.text.clone()), None)], &limits).with_tools(
            &name,
            Ok(vec![tool]),
            &limits,
        );
        let server = catalog.server("own").unwrap();
        let docs = query_tool_docs(server, Some("attack"), Detail::Summary, &Shapes::default()).unwrap();
        let description = docs[0]["description"].as_str().unwrap_or_default();
        assert_eq!(description, server.description.as_deref().unwrap_or_default(), "{}", attack.name);
        let is_told = attack.text.trim().is_empty() == description.is_empty();
        assert!(is_told && is_inert(description), "{}: {description:?}", attack.name);
        let (hits, _) = search(&catalog, "attack", 1, 0);
        let found = hits[0].to_json(Detail::Signature, &Shapes::default());
        assert!(is_inert_line(found["signature"].as_str().unwrap()), "{}: {found}", attack.name);
        assert!(found.to_string().chars().count() < 3_000, "{}", attack.name);
    }
}

#[test]
fn where_bytes_are_read_attacks_are_bytes() {
    for attack in attacks() {
        let bytes = &attack.text.as_bytes()[..attack.text.len().min(20_000)];
        frame_decoder::check(bytes);
        jsonrpc_input::check(bytes);
        config_parser::check(bytes);
        let entry =
            serde_json::json!({"command": attack.text, "args": [attack.text], "env": {"A": attack.text}});
        let file = serde_json::json!({"mcpServers": {attack.text.as_str(): entry}});
        config_parser::check(file.to_string().as_bytes());
    }
}

#[test]
fn in_replies_attacks_are_escaped_bounded_text_that_changes_no_verdict() {
    let limits = Limits::default();
    for attack in attacks() {
        // A run's record keeps no more of a stream.
        let kept = attack.text.chars().take(KEPT_CHARS_MAX).collect::<String>();
        let text = &kept;
        let error = || PythonError {
            class: text.clone(),
            message: text.clone(),
            traceback: text.clone(),
            traceback_chars: 0,
            line: None,
            hint: text.clone(),
        };
        for (outcome, is_error) in [(RunOutcome::Finished, false), (RunOutcome::Raised(error()), true)] {
            let report = said(text, outcome);
            for mode in [OutputMode::Compact, OutputMode::Toon, OutputMode::Json] {
                let reply = render(&report, mode, &limits);
                let [Block::Text(shown)] = &reply.blocks[..] else { panic!("{:?}", reply.blocks) };
                assert!(is_inert(shown), "{} as {mode:?}: {shown:?}", attack.name);
                assert_eq!(reply.is_error(), is_error, "{}", attack.name);
                let status = if is_error { "error" } else { "success" };
                assert_eq!(reply.structured["status"], status, "{}", attack.name);
                assert!(shown.chars().count() <= limits.reply_chars_max, "{} as {mode:?}", attack.name);
                match mode {
                    OutputMode::Compact => {
                        assert!(
                            !is_error || shown.starts_with("status: error\n"),
                            "{}: {shown}",
                            attack.name
                        );
                    }
                    OutputMode::Toon => check_fence(&attack.name, shown),
                    OutputMode::Json => {
                        let value: serde_json::Value = serde_json::from_str(shown).expect(&attack.name);
                        assert_eq!(value, reply.structured, "{}", attack.name);
                    }
                }
            }
        }
    }
}

/// A report that says this wherever code can say something.
fn said(text: &str, outcome: RunOutcome) -> RunReport {
    let piece = |stream| OutputPiece { stream, text: text.to_owned() };
    RunReport {
        goes_back_to: None,
        outcome,
        output: Output {
            pieces: vec![piece(OutputStream::Stdout), piece(OutputStream::Stderr)],
            ..Output::default()
        },
        value: Some(text.to_owned()),
        bound: vec![text.to_owned()],
        images: vec![],
        saved: vec![],
        state: StateNote::Kept,
        notes: vec![text.to_owned()],
        sandbox_notes: vec![text.to_owned()],
        servers: vec![],
        calls: Calls::default(),
    }
}

/// A block that ends where it is meant to: no line within is its fence.
fn check_fence(name: &str, block: &str) {
    let lines: Vec<&str> = block.lines().collect();
    let [first, inner @ .., last] = &lines[..] else { panic!("{name}: {block}") };
    assert!(last.len() >= 3 && last.chars().all(|c| c == '`'), "{name}: {last}");
    assert!([format!("{last}toon"), format!("{last}json")].contains(&(*first).to_owned()), "{name}: {first}");
    assert!(inner.iter().all(|line| !line.trim_start().starts_with(last)), "{name}: {block}");
}
