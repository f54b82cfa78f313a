//! The examples of the README and of the tutorial: they run, with the real filesystem server, and reply what the pages say.
//!
//! `BLESS=1` writes the replies into the pages.

use std::path::Path;

use serde_json::json;

use crate::support::engines::cache;
use crate::support::{Bridge, Engine, Home};

/// The user's folder in the examples.
const FOLDER: &str = "/home/me/data";

#[test]
fn examples_reply_as_the_readme_says() {
    check("README.md");
}

#[test]
fn examples_reply_as_the_tutorial_says() {
    check("docs/tutorial.md");
}

fn check(page: &str) {
    let Some(engine) = Engine::any() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = std::fs::read_to_string(root.join("tests/fixtures/demo/sales.csv")).unwrap();
    let server = cache().join("servers/node/node_modules/.bin/mcp-server-filesystem");
    let home = Home::on(&engine).file("data/sales.csv", &data);
    let folder = home.path().join("data").display().to_string();
    let home = home.server("files", json!({"command": server, "args": [folder]}));
    let mut bridge = Bridge::start(&home).warm();

    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let replied = with_replies(&text, |code| {
        let reply = bridge.run(&code.replace(FOLDER, &folder)).text;
        reply.replace(&folder, FOLDER)
    });
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(root.join(page), replied).unwrap();
    } else {
        assert_eq!(replied, text, "{page}: BLESS=1 writes the replies anew");
    }
}

/// The page, with each block of text as the reply to the block of Python before it.
fn with_replies(page: &str, mut reply: impl FnMut(&str) -> String) -> String {
    let mut replied = String::new();
    let mut last = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        replied.push_str(line);
        replied.push('\n');
        if !line.starts_with("```") {
            continue;
        }
        let block = lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n");
        let shown = match (line, last.take()) {
            ("```text", Some(reply)) => reply,
            _ => block,
        };
        if line == "```python" {
            last = Some(reply(&shown));
        }
        replied.push_str(shown.trim_end());
        replied.push_str("\n```\n");
    }
    replied
}
