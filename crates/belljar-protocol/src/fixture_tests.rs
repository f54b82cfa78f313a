//! Runs the golden fixtures from the bridge's end; `tests/entrypoint` runs the same files from the sandbox's.

use base64::Engine as _;
use belljar_base::limits::Limits;
use belljar_base::names::{CallId, RunId};
use belljar_base::run::{Image, PythonError};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::*;

#[derive(Deserialize)]
struct Valid {
    name: String,
    direction: String,
    line: String,
    address: String,
    frame: Value,
}

#[derive(Deserialize)]
struct Invalid {
    name: String,
    direction: String,
    line_base64: Option<String>,
    repeat: Option<String>,
    bytes: Option<usize>,
    error: String,
}

fn fixtures<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
    let path = format!("{}/../../tests/fixtures/protocol/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut parser = serde_json::Deserializer::from_str(&text);
    // One fixture nests as deep as a frame may.
    parser.disable_recursion_limit();
    Vec::deserialize(&mut parser).unwrap()
}

/// Builds the typed frame that a fixture describes; a type that is not here fails the test.
fn to_sandbox(address: &str, frame: &Value) -> Vec<u8> {
    let number = |key: &str| frame[key].as_u64().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match frame["type"].as_str().unwrap() {
        "hello" => {
            let limits = &frame["limits"];
            let limit = |key: &str| limits[key].as_u64().unwrap();
            let limits = SandboxLimits {
                frame_to_sandbox_bytes: limit("frame_to_sandbox_bytes") as usize,
                frame_to_bridge_bytes: limit("frame_to_bridge_bytes") as usize,
                frame_depth: limit("frame_depth") as usize,
                frozen_copy_bytes: limit("frozen_copy_bytes"),
                calls_in_flight: limit("calls_in_flight") as usize,
                arguments_in_flight_bytes: limit("arguments_in_flight_bytes") as usize,
                checkpoints: limit("checkpoints"),
                checkpoint_bytes: limit("checkpoint_bytes"),
                memory_bytes: limit("memory_bytes"),
                open_files: limit("open_files"),
                own_kernel: limit("own_kernel"),
                own_user: limit("own_user"),
                executable_places: limit("executable_places"),
                network_denied: limit("network_denied"),
                processes: limit("processes"),
                jobs: limit("jobs") as usize,
                heartbeat_ms: limit("heartbeat_ms"),
                allow_unfiltered: limit("allow_unfiltered"),
                trace_denied: limit("trace_denied"),
                workspace_files: limit("workspace_files") as usize,
                workspace_bytes: limit("workspace_bytes"),
            };
            let numbers = |machine: &str| {
                let numbers = frame["extra_system_calls"][machine].as_array().unwrap().iter();
                numbers.map(|number| number.as_u64().unwrap() as u32).collect()
            };
            let extra_system_calls = ExtraNumbers { x86_64: numbers("x86_64"), aarch64: numbers("aarch64") };
            let writable = frame["writable"].as_array().unwrap().iter().map(text).collect();
            let (version, workspace) = (number("version"), "/workspace");
            ToSupervisor::Hello { version, limits, workspace, writable, extra_system_calls }.to_line()
        }
        "interrupt" => ToSupervisor::Interrupt.to_line(),
        "replace" => {
            let checkpoint = frame["checkpoint"].as_str().map(str::to_owned);
            let (worker, restore) = (number("worker"), frame["restore"] == true);
            ToSupervisor::Replace { worker, restore, checkpoint }.to_line()
        }
        "end_job" => ToSupervisor::EndJob { job: number("job"), kill: frame["kill"] == true }.to_line(),
        "forget" => ToSupervisor::Forget { name: text(&frame["name"]) }.to_line(),
        "file" => ToSupervisor::File(serde_json::from_value(frame.clone()).unwrap()).to_line(),
        "keep" => {
            ToSupervisor::Keep { seq: number("seq"), everything: frame["everything"] == true }.to_line()
        }
        "take_snapshot" => ToSupervisor::TakeSnapshot.to_line(),
        "restore_snapshot" => ToSupervisor::RestoreSnapshot.to_line(),
        "ping" => ToSupervisor::Ping { seq: number("seq") }.to_line(),
        "shutdown" => ToSupervisor::Shutdown.to_line(),
        "run" => {
            let servers = frame["servers"].as_array().unwrap().iter().map(|server| RunServer {
                name: text(&server["name"]),
                alias: text(&server["alias"]),
                description: text(&server["description"]),
                takes_files: server["takes_files"] == true,
            });
            let (run, worker, code) = (RunId(number("run")), number("worker"), text(&frame["code"]));
            let images_as_files = frame.get("images_as_files").is_some();
            ToWorker::Run { run, worker, code, servers: servers.collect(), images_as_files }.to_line()
        }
        "result" => {
            let result = match (frame.get("fault"), frame.get("planned")) {
                (Some(fault), _) => CallResult::Fault(serde_json::from_value(fault.clone()).unwrap()),
                (None, Some(planned)) => {
                    CallResult::Planned { server: text(&planned["server"]), tool: text(&planned["tool"]) }
                }
                (None, None) if frame.get("wrapped").is_some() => {
                    CallResult::Wrapped(to_raw_value(&frame["wrapped"]).unwrap())
                }
                (None, None) => CallResult::Value(to_raw_value(&frame["value"]).unwrap()),
            };
            let result = ToWorker::Result { call: CallId(number("call")), result };
            match address.strip_prefix('J') {
                Some(job) => result.to_line_of_job(job.parse().unwrap()),
                None => result.to_line(),
            }
        }
        other => panic!("no frame towards the sandbox has type {other}"),
    }
}

/// The frame as JSON again, whole: what is not read would be missing.
fn from_sandbox(frame: FromSandbox) -> (String, Value) {
    match frame {
        FromSandbox::Supervisor(frame) => ("S".into(), serde_json::to_value(frame).unwrap()),
        FromSandbox::Worker(FromWorker::Call(frame)) => ("W".into(), call_json(frame)),
        FromSandbox::Worker(FromWorker::Cancel { run, call }) => {
            ("W".into(), json!({"type": "cancel", "run": run, "call": call}))
        }
        FromSandbox::Worker(FromWorker::Done(done)) => ("W".into(), done_json(*done)),
        FromSandbox::Job(job, frame) => {
            let frame = match frame {
                FromJob::Call(frame) => call_json(frame),
                FromJob::Cancel { call } => json!({"type": "cancel", "run": 1, "call": call}),
                FromJob::Done(done) => {
                    let mut frame = json!({"type": "done"});
                    outcome_json(&mut frame, done.outcome);
                    if let Some(result) = done.result {
                        frame["result"] = json!(result);
                    }
                    frame
                }
            };
            (format!("J{job}"), frame)
        }
    }
}

fn call_json(frame: CallFrame) -> Value {
    let raw = |raw: &RawValue| serde_json::from_str::<Value>(raw.get());
    let CallFrame { run, call, server, tool, arguments, dry_run, placeholders, handle, handles } = frame;
    let arguments = raw(&arguments).unwrap_or_else(|_| {
        let mut parser = serde_json::Deserializer::from_str(arguments.get());
        parser.disable_recursion_limit();
        Value::deserialize(&mut parser).unwrap()
    });
    let mut frame = json!({
        "type": "call", "run": run, "call": call, "server": server, "tool": tool, "arguments": arguments,
    });
    let flags =
        [("dry_run", dry_run), ("placeholders", placeholders), ("handle", handle), ("handles", handles)];
    for (key, is_set) in flags {
        if is_set {
            frame[key] = json!(true);
        }
    }
    frame
}

fn done_json(done: DoneFrame) -> Value {
    let mut frame = json!({"type": "done", "run": done.run});
    outcome_json(&mut frame, done.outcome);
    let images: Vec<Value> = done.images.iter().map(|image: &Image| json!(image)).collect();
    frame["value"] = json!(done.value);
    if !done.bound.is_empty() {
        frame["bound"] = json!(done.bound);
    }
    frame["images"] = json!(images);
    frame["notes"] = json!(done.notes);
    if !done.saved.is_empty() {
        frame["saved"] = json!(done.saved);
    }
    if done.files_changed {
        frame["files_changed"] = json!(true);
    }
    if let Some(name) = done.restore {
        frame["restore"] = json!(name);
    }
    frame
}

fn outcome_json(frame: &mut Value, outcome: DoneOutcome) {
    let error = |error: PythonError| serde_json::to_value(error).unwrap();
    match outcome {
        DoneOutcome::Finished => frame["outcome"] = json!("finished"),
        DoneOutcome::Raised { error: raised } => {
            frame["outcome"] = json!("raised");
            frame["error"] = error(raised);
        }
        DoneOutcome::Exited { exit_code } => {
            frame["outcome"] = json!("exited");
            frame["exit_code"] = json!(exit_code);
        }
        DoneOutcome::Interrupted { error: at } => {
            frame["outcome"] = json!("interrupted");
            frame["error"] = at.map_or(Value::Null, error);
        }
    }
}

#[test]
fn valid_fixtures_are_written_and_read_to_the_byte() {
    let mut seen = 0;
    for Valid { name, direction, line, address, frame } in fixtures::<Valid>("valid.json") {
        if direction == "to_sandbox" {
            assert_eq!(
                String::from_utf8(to_sandbox(&address, &frame)).unwrap(),
                format!("{line}\n"),
                "{name}"
            );
        } else {
            let mut decoder = Decoder::new(&Limits::default());
            decoder.push(format!("{line}\n").as_bytes());
            let decoded = decoder.next_frame().unwrap().unwrap_or_else(|dropped| panic!("{name}: {dropped}"));
            assert_eq!(from_sandbox(decoded), (address, frame), "{name}");
            assert!(decoder.next_frame().is_none());
        }
        seen += 1;
    }
    assert!(seen >= 30, "only {seen} fixtures");
}

#[test]
fn invalid_fixtures_are_dropped_for_their_reason_and_the_next_line_is_read() {
    let mut seen = 0;
    for fixture in fixtures::<Invalid>("invalid.json") {
        if fixture.direction != "to_bridge" {
            continue;
        }
        let mut line = match (&fixture.line_base64, &fixture.repeat, fixture.bytes) {
            (Some(line), _, _) => base64::engine::general_purpose::STANDARD.decode(line).unwrap(),
            (None, Some(repeat), Some(bytes)) => repeat.repeat(bytes).into_bytes(),
            _ => panic!("{}: no line", fixture.name),
        };
        line.push(b'\n');
        let mut decoder = Decoder::new(&Limits::default());
        decoder.push(&line);
        decoder.push(b"S{\"type\":\"pong\",\"seq\":7}\n");
        let reason = match decoder.next_frame() {
            Some(Err(DroppedLine::Overlong { .. })) => "overlong",
            Some(Err(DroppedLine::Address { .. })) => "address",
            Some(Err(DroppedLine::Depth)) => "depth",
            Some(Err(DroppedLine::Utf8)) => "utf8",
            Some(Err(DroppedLine::NotJson { .. })) => "not_json",
            Some(Err(DroppedLine::NotObject)) => "not_object",
            Some(Err(DroppedLine::Type { .. })) => "type",
            other => panic!("{}: {other:?}", fixture.name),
        };
        assert_eq!(reason, fixture.error, "{}", fixture.name);
        let next = decoder.next_frame();
        assert!(
            matches!(next, Some(Ok(FromSandbox::Supervisor(FromSupervisor::Pong { seq: 7 })))),
            "{}: {next:?}",
            fixture.name
        );
        seen += 1;
    }
    assert!(seen >= 15, "only {seen} fixtures");
}
