//! Does what a transcript says, and writes down the replies.

use serde_json::{Value, json};

use crate::support::bridge::Reply;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::transcript::{Does, Setting, Step, Transcript};

/// The same transcript, with the replies of now.
pub fn replay(engine: &Engine, transcript: Transcript) -> Transcript {
    let mut home = Home::on(engine);
    let mut fixtures = Vec::new();
    for setting in &transcript.settings {
        home = match setting {
            Setting::Server { name, flags } => {
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                fixtures.push(Fixture::new(&flags));
                home.server(name, fixtures.last().expect("just made").entry())
            }
            Setting::Env { name, value } => home.env(name, value),
        };
    }
    let mut bridge = Bridge::start(&home);
    let steps = transcript
        .steps
        .into_iter()
        .map(|Step { does, .. }| {
            let reply = match &does {
                Does::Run { arguments, code } => {
                    let code = code.trim_end_matches('\n');
                    let mut all = json!({"code": code});
                    for (name, value) in arguments {
                        all[name] =
                            serde_json::from_str(value).unwrap_or_else(|_| Value::from(value.as_str()));
                    }
                    let sent =
                        bridge.send_request("tools/call", json!({"name": "run_python", "arguments": all}));
                    match bridge.answer(sent) {
                        Ok(result) => written(Reply::of(result)),
                        Err(error) => format!(
                            "[error {}] {}",
                            error["code"],
                            error["message"].as_str().unwrap_or_default()
                        ),
                    }
                }
                Does::KillContainer => {
                    let ours = || engine.containers_of(&home.owners());
                    let containers = ours();
                    containers.iter().for_each(|container| engine.kill_container(container));
                    eventually("the container goes", PATIENCE, || {
                        !ours().iter().any(|one| containers.contains(one))
                    });
                    String::new()
                }
                Does::List => {
                    let listed = bridge.request("tools/list", json!({})).expect("tools are listed");
                    listed["tools"][0]["description"].as_str().unwrap_or_default().to_owned()
                }
            };
            Step { does, reply: without_this_machine(&reply, &home) }
        })
        .collect();
    Transcript { steps, ..transcript }
}

/// All that a client gets, as lines.
fn written(reply: Reply) -> String {
    let mut text = reply.text;
    for (mime_type, base64) in reply.images {
        let size = if base64.is_empty() { "empty" } else { "an image" };
        text.push_str(&format!("\n[{mime_type}: {size}]"));
    }
    match reply.is_error {
        true => format!("[isError]\n{text}"),
        false => text,
    }
}

/// What differs from machine to machine and from run to run: the engine's kind, folders, addresses of objects, process numbers.
fn without_this_machine(reply: &str, home: &Home) -> String {
    let home = home.path().to_str().expect("a path of ours");
    let notice = |line: &&str| {
        !(line.starts_with("note: ")
            && ["the container engine is", "is not enforced by this engine"]
                .iter()
                .any(|said| line.contains(said)))
    };
    let lines: Vec<&str> = reply.split('\n').filter(notice).collect();
    let mut text = lines.join("\n").replace(home, "<home>");
    for (marker, is_part) in
        [("0x", char::is_ascii_hexdigit as fn(&char) -> bool), ("pid ", char::is_ascii_digit)]
    {
        let mut rest = std::mem::take(&mut text);
        while let Some(at) = rest.find(marker) {
            let after = at + marker.len();
            let length = rest[after..].chars().take_while(is_part).count();
            text.push_str(&rest[..after]);
            text.push_str(if length > 3 || (marker == "pid " && length > 0) {
                "..."
            } else {
                &rest[after..after + length]
            });
            rest = rest.split_off(after + length);
        }
        text.push_str(&rest);
    }
    text
}
