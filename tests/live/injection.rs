//! Text of a server as an attack: through the server's process, the bridge and the sandbox it stays escaped, bounded data,
//! and replies say the truth whatever is printed.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    attacks_of_a_server_come_out_as_data,
    printed_attacks_are_escaped_and_change_no_verdict,
);

/// Longest text of a reply, in characters.
const REPLY_CHARS_MAX: usize = 16_000;

fn attacks_of_a_server_come_out_as_data(engine: &Engine) {
    let file = Fixture::attacks();
    let fixture = Fixture::new(&["--attacks", file.to_str().unwrap()]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok(&format!("attacks = {}", said()));
    let reply = bridge.run_with(json!({"code": include_str!("injection.py"), "timeout": 100}));
    assert!(!reply.is_error, "{}", reply.text);
    // The names with control characters are no names of tools, which is said.
    let (seen, note) = reply.text.split_once('\n').unwrap_or((&reply.text, ""));
    assert!(
        note.starts_with("note: fixture, tools/list: left out of its list: item ") && is_inert(note),
        "{note}"
    );
    let seen: Value = serde_json::from_str(seen).unwrap_or_else(|_| panic!("{}", reply.text));
    let names = attacks().iter().filter(|attack| is_a_name(&text(attack))).count();
    assert_eq!(seen, json!({"wrong": [], "attacks": true, "odd names": names}));
    assert_eq!(fixture.pids().len(), 1, "no attack has ended the server's connection");
}

fn printed_attacks_are_escaped_and_change_no_verdict(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok(&format!(
        "import json\nattacks = [a['text'] * a.get('repeat', 1) for a in json.loads({})]",
        said()
    ));
    for (index, attack) in attacks().iter().enumerate() {
        let printed = bridge.run(&format!("print(attacks[{index}])"));
        assert!(!printed.is_error && is_inert(&printed.text), "{}: {:?}", attack["name"], printed.text);
        assert!(printed.text.chars().count() <= REPLY_CHARS_MAX, "{}", attack["name"]);
        let raised = bridge.run(&format!("raise RuntimeError(attacks[{index}])"));
        assert!(raised.is_error && is_inert(&raised.text), "{}: {:?}", attack["name"], raised.text);
        assert!(raised.text.starts_with("status: error\n"), "{}: {}", attack["name"], raised.text);
        assert!(raised.text.ends_with("\nstate: variables kept"), "{}: {}", attack["name"], raised.text);
    }
}

fn attacks() -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(Fixture::attacks()).unwrap()).unwrap()
}

/// The file as a literal of Python, which those of JSON in ASCII are.
fn said() -> String {
    let file = std::fs::read_to_string(Fixture::attacks()).unwrap();
    assert!(file.is_ascii());
    Value::from(file).to_string()
}

fn text(attack: &Value) -> String {
    attack["text"].as_str().unwrap().repeat(attack["repeat"].as_u64().unwrap_or(1) as usize)
}

/// What may be the name of a tool.
fn is_a_name(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= 10_240 && !text.chars().any(char::is_control)
}

fn is_inert(text: &str) -> bool {
    let hidden =
        ['\u{202e}', '\u{200b}', '\u{e0041}', '\u{2028}', '\u{feff}', '\u{3164}', '\u{1bca0}', '\u{fe01}'];
    !text.contains(hidden) && !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
}
