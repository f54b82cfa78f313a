//! Claims about the schema for editors: it is the committed one, and judges as the reader does.

use std::collections::BTreeSet;

use super::*;
use crate::config::servers::server_keys::{KEYS, URL_KEYS};

fn accepts(file: &Value) -> bool {
    jsonschema::validator_for(&schema()).unwrap().is_valid(file)
}

#[test]
fn the_committed_schema_is_the_current_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/schema.json");
    assert_eq!(std::fs::read_to_string(path).unwrap(), format!("{:#}\n", schema()));
}

#[test]
fn what_the_reader_takes_is_valid_and_what_it_refuses_is_not() {
    let good = json!({
        "sandbox": {"runtime": "podman", "memory": "1g", "pids": 16, "cpus": 0.5, "allow_weak": ["memory"],
                    "prewarm": false},
        "run": {"timeout": 1, "max_timeout": 86_400, "servers": ["files"]},
        "output": {"mode": "toon"},
        "log": {"level": "debug"},
        "servers": {
            "files": {"command": "files", "args": ["a"], "env": {"A": "b"}, "cwd": "~", "timeout": 0.5, "max_concurrency": 1,
                      "allow": ["get_*"], "deny": [], "sandbox_files": false, "sandbox": true, "env_inherit": ["AWS_*", "A", "*"], "start_timeout": 45.5, "disabled": false, "description": "d"},
            "notes": {"command": "c", "sandbox": {"read": ["~/a"], "write": [], "network": "host", "env": ["A_*"]}},
            "sandbox": true,
            "far": {"url": "https://example.com", "headers": {"A": "b"}, "type": "sse"},
        },
    });
    assert!(accepts(&good) && accepts(&json!({})) && accepts(&json!({"sandbox": {"memory": 67_108_864}})));
    for bad in [
        json!({"sandbx": {}}),
        json!({"timeout": 3}),
        json!({"sandbox": {"memroy": "64m"}}),
        json!({"sandbox": {"pids": "64"}}),
        json!({"sandbox": {"pids": 15}}),
        json!({"sandbox": {"cpus": 2000}}),
        json!({"sandbox": {"prewarm": 17}}),
        json!({"sandbox": {"allow_weak": "memory"}}),
        json!({"run": {"servers": ["a,b"]}}),
        json!({"run": {"timeout": 0}}),
        json!({"output": {"mode": "xml"}}),
        json!({"log": {"level": "loud"}}),
        json!({"servers": {"x": "command"}}),
        json!({"servers": {"x": {"comand": "c"}}}),
        json!({"servers": {"x": {"command": "c", "timeout": 0}}}),
        json!({"servers": {"x": {"command": "c", "timeout": 86_401}}}),
        json!({"servers": {"x": {"command": "c", "max_concurrency": 33}}}),
        json!({"servers": {"x": {"command": "c", "max_concurrency": 1.5}}}),
        json!({"servers": {"x": {"command": "c", "allow": "*"}}}),
        json!({"servers": {"x": {"command": "c", "deny": [""]}}}),
        json!({"servers": {"x": {"command": "c", "env": {"A": 1}}}}),
        json!({"servers": {"x": {"command": "c", "sandbox_files": "no"}}}),
        json!({"servers": {"x": {"command": "c", "sandbox": {"network": "some"}}}}),
        json!({"servers": {"x": {"command": "c", "sandbox": {"reed": []}}}}),
        json!({"servers": {"x": {"command": "c", "env_inherit": ["A*B"]}}}),
    ] {
        assert!(!accepts(&bad), "{bad}");
    }
}

#[test]
fn an_entry_of_a_server_has_the_keys_that_the_reader_knows() {
    let schema = schema();
    let shown = &schema["properties"]["servers"]["additionalProperties"]["properties"];
    let shown: BTreeSet<&str> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(shown, KEYS.into_iter().chain(URL_KEYS).collect());
}

#[test]
fn every_default_is_valid() {
    for section in schema()["properties"].as_object().unwrap().values() {
        // A section that is a list has no settings.
        for (key, of) in section["properties"].as_object().into_iter().flatten() {
            let default = of.get("default");
            let is_valid = default.is_none_or(|value| jsonschema::validator_for(of).unwrap().is_valid(value));
            assert!(is_valid, "{key}");
        }
    }
}
