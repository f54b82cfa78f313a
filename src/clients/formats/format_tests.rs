//! Claims about every format, for any content: no panic, and no edit with another effect than the intended one.

use std::path::Path;

use belljar_base::limits::Limits;
use proptest::prelude::*;
use serde_json::json;

use super::format::Format;
use super::masked::masked;
use super::spanned::{Node, Value};
use crate::clients::known_clients::clients;

/// Small files of each format, and the path at which an entry is added.
const SEEDS: [(Format, &str, &[&str]); 5] = [
    (
        Format::Json,
        "// c\n{\"x\": [1, 2.5e3, null], \"mcpServers\": {\"a\": {\"command\": \"é\", \"args\": []}, /* b */ \"b\": {}},}\n",
        &["mcpServers"],
    ),
    (
        Format::Toml,
        "x = [1, 2.5, 2026-01-01] # c\n[mcp_servers.a]\ncommand = \"é\"\nenv = { K = 'v' }\n[[other]]\ny = 1\n",
        &["mcp_servers"],
    ),
    (
        Format::Yaml,
        "x: [1, 'é']\nextensions:\n  # c\n  a:\n    cmd: \"e\"\n    about: >\n      two\n      lines\n  b: &anchor\n    z: ~\ny: *anchor\n",
        &["extensions"],
    ),
    (
        Format::TomlList,
        "x = [1, 2.5, 2026-01-01] # c\n[[mcp_servers]] # d\nname = 'a'\ncommand = \"é\"\n[mcp_servers.env]\nK = 'v'\n[[other]]\ny = 1\n",
        &["mcp_servers"],
    ),
    (
        Format::YamlList,
        "x: [1, 'é']\nmcpServers:\n  # c\n  - name: a # d\n    command: \"e\"\n    about: >\n      two\n      lines\n\n  - z: ~\n    name: &n b\ny: *n\n",
        &["mcpServers"],
    ),
];

/// Reads, edits and masks one text, and checks the results.
fn check(format: Format, text: &str, path: &[&str]) {
    let limits = Limits::default();
    let Ok(root) = format.read(text, &limits) else { return };
    in_bounds(&root, text);
    drop(masked(format, text, Some((path, "a")), &limits));
    let entry =
        json!({"name": "new one", "command": "x y", "args": ["'", "\"", "é"], "timeout": 5, "enabled": true});
    let Some(edited) = format.put(text, (path, "new one"), &entry, &limits) else { return };
    let put = format.read(&edited, &limits).unwrap();
    let there = put.at_path(path).unwrap().get("new one").unwrap();
    assert_eq!(there.to_json(), entry, "{edited}");
    if let Some(without) = format.take_out(&edited, (path, "new one"), &limits) {
        let gone = format.read(&without, &limits).unwrap();
        assert!(gone.at_path(path).is_none_or(|table| table.get("new one").is_none()), "{without}");
    }
}

/// Checks that every position is in the text, at the beginning of a character.
fn in_bounds(value: &Value, text: &str) {
    assert!(text.get(value.range.clone()).is_some(), "{:?} of {text:?}", value.range);
    match &value.node {
        Node::List(items) => items.iter().for_each(|item| in_bounds(item, text)),
        Node::Table(members) => members.iter().for_each(|member| {
            assert!(text.is_char_boundary(member.at), "{} of {text:?}", member.at);
            in_bounds(&member.value, text);
        }),
        _ => {}
    }
}

#[test]
fn the_seeds_themselves_are_read_and_edited() {
    let limits = Limits::default();
    for (format, text, path) in SEEDS {
        check(format, text, path);
        let edited =
            format.put(text, (path, "new"), &json!({"name": "new", "command": "x"}), &limits).unwrap();
        let back = format.take_out(&edited, (path, "new"), &limits).unwrap();
        // An edit may split a JSON table on one line into several lines.
        let words = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(words(&back), words(text), "{format:?}");
        if format != Format::Json {
            assert_eq!(back, text, "{format:?}");
        }
    }
}

#[test]
fn no_value_but_one_s_own_is_shown_in_a_masked_file() {
    let limits = Limits::default();
    for (format, text, path) in [
        (
            Format::Json,
            "// hunter2\n{\"k\": \"hunter2\", /* hunter2\n */ \"a//b\": 1, \"s\": {\"own\": {\"a\": \"shown\"}, \"b\": [\"hunter2\", 4711]}}",
            "s",
        ),
        (
            Format::Toml,
            "k = 'hunter2' # hunter2\n[s]\nb = [\"hunter2\", 4711]\n[s.own]\na = \"shown\"\n",
            "s",
        ),
        (
            Format::Yaml,
            "k: hunter2 # hunter2\ns:\n  own: {a: shown}\n  b:\n  - |\n    hunter2\n    hunter2\n  - 4711\n",
            "s",
        ),
        (
            Format::TomlList,
            "k = 'hunter2' # hunter2\n[[s]]\nb = [\"hunter2\", 4711]\nname = \"hunter2\"\n[[s]]\nname = \"own\"\na = \"shown\"\n",
            "s",
        ),
        (
            Format::YamlList,
            "k: hunter2 # hunter2\ns:\n- name: own\n  a: shown\n- name: hunter2\n  b:\n  - 4711\n",
            "s",
        ),
    ] {
        let shown = masked(format, text, Some((&[path], "own")), &limits);
        assert!(shown.contains("shown") && !shown.contains("hunter2") && !shown.contains("4711"), "{shown}");
        assert_eq!(shown.lines().count(), text.lines().count(), "{shown}");
        assert_eq!(shown.contains("\"a//b\": "), format == Format::Json, "{shown}");
    }
}

#[test]
fn deep_nesting_is_refused_by_name_in_every_format() {
    let limits = Limits::default();
    let deep = |begin: &str, end: &str| format!("{}{}", begin.repeat(100_000), end.repeat(100_000));
    for (format, text) in [
        (Format::Json, deep("[", "]")),
        (Format::Json, deep("{\"a\":", "}")),
        (Format::Toml, format!("a = {}", deep("[", "]"))),
        (Format::Toml, format!("{}x = 1", "a.".repeat(100_000))),
        (Format::Toml, format!("[{}x]", "a.".repeat(100_000))),
        (Format::Yaml, deep("[", "]")),
        (Format::Yaml, deep("{a: ", "}")),
        (Format::Yaml, "- ".repeat(100_000)),
    ] {
        let defect = format.read(&text, &limits).unwrap_err();
        assert!(defect.at <= text.len() && !defect.message.is_empty(), "{format:?}: {defect:?}");
    }
    let allowed = format!("{{\"a\": {}1{}}}", "[".repeat(100), "]".repeat(100));
    assert!(Format::Json.read(&allowed, &limits).is_ok());
}

#[test]
fn each_client_has_a_name_a_file_and_an_entry_of_its_own() {
    for client in clients() {
        assert!(!client.places.is_empty(), "{}", client.name);
        for place in client.places {
            let text = match place.format {
                Format::Json => "{}",
                _ => place.new_text,
            };
            let parts = crate::clients::own_entry::Parts {
                name: "belljar",
                program: "/x",
                args: &[],
                reply_s: 1,
                start_s: 1,
            };
            let entry = (client.own_entry)(&parts);
            for (key, _) in entry.as_object().unwrap() {
                assert!(client.dialect.keys().any(|(known, _)| known == key), "{}: {key}", client.name);
            }
            let path = place.servers[0];
            let edited = place.format.put(text, (path, "belljar"), &entry, &Limits::default());
            assert!(edited.is_some(), "{}: {}", client.name, Path::new(place.path).display());
        }
    }
}

proptest! {
    #[test]
    fn no_change_of_a_file_makes_a_reader_or_an_edit_panic(
        seed in 0..SEEDS.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4_usize, "[\\[\\]{}\"':#,=\\-&*!|>a0é \\n\\t\\\\]{0,6}"), 0..6)
    ) {
        let (format, text, path) = SEEDS[seed];
        let mut characters: Vec<char> = text.chars().collect();
        for (at, removed, added) in edits {
            let at = at.index(characters.len() + 1);
            let end = (at + removed).min(characters.len());
            characters.splice(at..end, added.chars());
        }
        check(format, &characters.into_iter().collect::<String>(), path);
    }

    #[test]
    fn no_text_at_all_makes_a_reader_panic(text in "\\PC{0,60}") {
        for (format, _, path) in SEEDS {
            check(format, &text, path);
        }
    }
}
