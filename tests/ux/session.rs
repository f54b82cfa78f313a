//! Does what a transcript says, and writes down the replies.

use serde_json::{Value, json};

use crate::support::bridge::Reply;
use crate::support::model_server::ModelServer;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::transcript::{Does, Setting, Step, Transcript};

/// The same transcript, with the replies of now.
pub fn replay(engine: &Engine, transcript: Transcript) -> Transcript {
    let mut home = Home::on(engine).env("TZ", "UTC");
    let (mut fixtures, mut config, mut models) = (Vec::new(), String::new(), Vec::new());
    for setting in &transcript.settings {
        home = match setting {
            Setting::Server { name, flags } => {
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                fixtures.push(Fixture::new(&flags));
                home.server(name, fixtures.last().expect("just made").entry())
            }
            Setting::Env { name, value } => home.env(name, value),
            Setting::File { name, text } => {
                let home = home.file(name, &text.replace("\\n", "\n"));
                let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o644);
                std::fs::set_permissions(home.path().join(name), everybody).expect("just written");
                home
            }
            Setting::Config(line) => {
                config.push_str(&format!("{line}\n"));
                home.file(".config/belljar/config.toml", &config)
            }
            Setting::Model => {
                models.push(ModelServer::open(str::to_uppercase));
                models[models.len() - 1].set(home)
            }
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
                Does::Session { variables } => {
                    bridge.hang_up();
                    bridge.wait(PATIENCE);
                    for (name, value) in variables {
                        home = home.clone().env(name, value);
                    }
                    bridge = Bridge::start(&home);
                    String::new()
                }
                Does::Belljar { arguments } => {
                    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
                    let output = home.run(&words);
                    let exit = output.code.filter(|code| *code != 0);
                    let exit = exit.map(|code| format!("[exit {code}]\n")).unwrap_or_default();
                    format!("{exit}{}{}", output.stdout, output.stderr).trim_end().to_owned()
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

/// What differs from machine to machine and from run to run: the engine's kind, folders, addresses of objects, process numbers,
/// sessions' ids, times, and how long something took.
fn without_this_machine(reply: &str, home: &Home) -> String {
    let journals = std::fs::read_dir(home.path().join(".local/state/belljar/sessions")).into_iter().flatten();
    let names = journals.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let sessions: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect();
    let home = home.path().to_str().expect("a path of ours");
    let notice = |line: &&str| {
        let line = line.trim_start();
        let is_of_engine = ["the container engine is", "is not enforced by this engine"]
            .iter()
            .any(|said| (line.starts_with("note: ") || line.starts_with("belljar: ")) && line.contains(said));
        !is_of_engine && !line.starts_with("sandbox 20")
    };
    let lines: Vec<&str> = reply.split('\n').filter(notice).collect();
    let mut text = lines.join("\n").replace(home, "<home>");
    for id in sessions {
        text = text.replace(&id, "<id>").replace(&id[..8], "<id>");
    }
    let (mut masked, mut rest) = (String::new(), text.as_str());
    while let Some(first) = rest.chars().next() {
        let is_word = |char: char| char.is_ascii_alphanumeric() || "-:.".contains(char);
        let length = rest.find(|char| !is_word(char)).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(length);
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        masked.push_str(match word {
            _ if is_number
                && (masked.ends_with("pid ")
                    || [" ms", " kB", " of 480 MB"].iter().any(|unit| after.starts_with(unit))) =>
            {
                "..."
            }
            _ if word.strip_prefix("0x").is_some_and(is_address) => "0x...",
            _ if word.starts_with("belljar-fixture-") => "<fixture>",
            _ if is_time(word.trim_end_matches(':')) => "<time>",
            _ => word,
        });
        rest = after;
    }
    masked
}

fn is_address(digits: &str) -> bool {
    digits.len() > 3 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_time(word: &str) -> bool {
    let shape: String = word.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    ["0000-00-00T00:00:00.000Z", "0000-00-00T00:00:00Z"].contains(&shape.as_str())
}
