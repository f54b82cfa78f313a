//! A server that repeats its token in any spelling that JSON allows, on every path by which a server's text reaches code, the
//! model, the human, or a file: only the token's name comes through.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE};

on_one_engine_and_processes!(escapes_hide_no_token_from_code_model_or_human,);

const TOKEN: &str = "canary+7f3a/t\u{f6}ken=9";
/// The ways of `--spells`.
const SPELLINGS: [&str; 3] = ["as-dotnet", "by-numbers", "nested"];

/// Whether the token stands in the text, in any spelling.
fn holds_token(text: &str) -> bool {
    let mut text = text.to_owned();
    for _ in 0..6 {
        if text.contains(TOKEN) {
            return true;
        }
        text = read(&text);
    }
    false
}

/// The text with its escapes read once, right or not.
fn read(text: &str) -> String {
    let (mut read, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('\\') {
        read.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let code = rest.strip_prefix('u').and_then(|digits| digits.get(..4));
        if let Some(character) = code.and_then(|code| char::from_u32(u32::from_str_radix(code, 16).ok()?)) {
            read.push(character);
            rest = &rest[5..];
        } else if let Some(next) = rest.chars().next() {
            read.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    read + rest
}

/// As Python writes it.
fn python(value: &Value) -> String {
    format!("__import__('json').loads({})", Value::String(value.to_string()))
}

fn question(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({"mode": "form", "message": "Is it @token@?", "requestedSchema": {
            "type": "object", "title": "@token@", "description": "@token@", "required": ["@token@"],
            "properties": {
                "@token@": {"type": "string", "title": "@token@", "description": "@token@", "default": "@token@"},
                "choice": {"type": "string", "enum": ["@token@", "other"], "enumNames": ["@token@", "Other"]},
                "address": {"type": "string", "format": "uri", "default": "https://x.test/?key=@token@"},
            },
        }}),
        _ => json!({"maxTokens": 10, "systemPrompt": "Keep @token@.", "stopSequences": ["@token@"],
            "messages": [{"role": "user", "content": {"type": "text", "text": "what is @token@?"}}]}),
    }
}

fn escapes_hide_no_token_from_code_model_or_human(engine: &Engine) {
    let attacks = json!([{"name": "a", "text": "@token@"}]).to_string();
    let mut home = Home::on(engine).file("attacks.json", &attacks).env("MCP_BRIDGE_LOG_LEVEL", "DEBUG");
    let attacks = home.path().join("attacks.json");
    let mut fixtures = Vec::new();
    for spelling in SPELLINGS {
        let speaking = Fixture::new(&["--spells", spelling, "--speaks", "--resources"]);
        let describing = Fixture::new(&["--spells", spelling, "--attacks", attacks.to_str().unwrap()]);
        for (name, fixture) in [("speaking", speaking), ("describing", describing)] {
            let mut entry = fixture.entry();
            entry["env"] = json!({"API_TOKEN": TOKEN});
            home = home.server(&format!("{name}-{spelling}"), entry);
            fixtures.push(fixture);
        }
    }
    let mut bridge = Bridge::start_with(&home, json!({"elicitation": {}, "sampling": {}})).warm();
    let backwards: String = TOKEN.chars().rev().collect();
    bridge.ok(&format!("word = ''.join(reversed({backwards:?}))\n{}", include_str!("spelled_secrets.py")));
    for spelling in SPELLINGS {
        let speaking = format!("speaking-{spelling}");
        let code =
            format!("await look_everywhere({speaking:?}, 'describing-{spelling}')\nprint(found, silent)");
        let run = bridge.run_with(json!({"code": code, "timeout": 100}));
        // The first reply of each server also says what its placeholder means.
        assert_eq!(run.text.lines().next(), Some("[] []"), "{spelling}: {}", run.text);
        for method in ["elicitation/create", "sampling/createMessage"] {
            let asked = python(&json!({"method": method, "params": question(method)}));
            let code = format!("await runtime.call_tool({speaking:?}, 'ask_client', {asked})");
            let run = bridge.send_run(json!({ "code": code }));
            let (id, params) = bridge.asked(method);
            let shown = params.to_string();
            assert!(!holds_token(&shown) && shown.contains("[API_TOKEN]"), "{spelling}: {shown}");
            assert!(!shown.contains("\\u00"), "{spelling}: {shown}");
            bridge.refuse(&id, -1, "the user is out");
            assert!(!bridge.reply(run).is_error);
        }
        let messages = json!([{"level": "error", "logger": "@token@", "data": {"@token@": "@token@"}}]);
        let code = format!(
            "await runtime.call_tool({speaking:?}, 'say', {{'messages': {}}})\n\
             await runtime.call_tool({speaking:?}, 'steps', {{'said': '@token@'}})\n\
             await runtime.call_tool({speaking:?}, 'change_list')",
            python(&messages)
        );
        let params =
            json!({"name": "run_python", "arguments": {"code": code}, "_meta": {"progressToken": spelling}});
        let reply = bridge.request("tools/call", params).unwrap();
        let heard = Value::from(bridge.rest()).to_string();
        assert!(!holds_token(&heard) && heard.contains("2/3 [API_TOKEN]"), "{spelling}: {heard}");
        assert!(!holds_token(&reply.to_string()), "{spelling}: {reply}");
        let news = bridge.run(&format!("len(await runtime.list_tools({speaking:?}))"));
        let died = bridge
            .run(&format!("await runtime.call_tool({speaking:?}, 'die_with_words', {{'text': '@token@'}})"));
        assert!(died.text.contains("fixture_server: [API_TOKEN]"), "{spelling}: {}", died.text);
        assert!(
            !holds_token(&format!("{}{}", news.text, died.text)),
            "{spelling}: {}{}",
            news.text,
            died.text
        );
    }
    bridge.hang_up();
    bridge.wait(PATIENCE);
    assert!(!holds_token(&bridge.stderr()), "{}", bridge.stderr());
    let doctor = String::from_utf8(home.command(&["doctor"]).output().unwrap().stdout).unwrap();
    assert!(doctor.contains("{\"[API_TOKEN]\":\"[API_TOKEN]\"}") && !holds_token(&doctor), "{doctor}");
    let kept =
        files_below(&home.path().join(".local")).into_iter().chain(files_below(&home.path().join(".cache")));
    for path in kept {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(!holds_token(&text), "{}", path.display());
    }
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}
