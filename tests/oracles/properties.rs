//! Structured inputs for the oracles: what random bytes would take long to become.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::{config_parser, frame_decoder, jsonrpc_input, name_mapping, schema_to_python};

proptest! {
    #[test]
    fn streams_of_frames_and_garbage_are_decoded_however_they_are_cut(lines in prop::collection::vec(frame(), 0..12)) {
        frame_decoder::check(&lines.concat());
    }

    #[test]
    fn lines_of_a_peer_are_answered_or_told_apart(lines in prop::collection::vec(message(), 0..12)) {
        jsonrpc_input::check(&lines.concat());
    }

    #[test]
    fn configuration_files_lose_nothing_in_silence(file in file(), cut in prop::option::weighted(0.2, 0_usize..400)) {
        let mut bytes = file.to_string().into_bytes();
        bytes.truncate(cut.unwrap_or(bytes.len()));
        config_parser::check(&bytes);
    }

    #[test]
    fn any_set_of_names_has_aliases(names in prop::collection::vec(name(), 0..40)) {
        name_mapping::check(names.join("\n").as_bytes());
    }

    #[test]
    fn any_tool_is_described_without_harm(tools in prop::collection::vec(tool(), 1..4)) {
        schema_to_python::check(Value::from(tools).to_string().as_bytes());
    }
}

/// A line from the sandbox: a frame, one with a few bytes changed, or none.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let number =
        prop_oneof![(0_u64..3).prop_map(Value::from), any::<i64>().prop_map(Value::from), any_json()];
    let body = prop_oneof![
        number.clone().prop_map(|seq| json!({"type": "pong", "seq": seq})),
        (hostile(), number.clone())
            .prop_map(|(text, seq)| json!({"type": "output", "stream": "stdout", "text": text, "seq": seq})),
        (number.clone(), number.clone(), any_json()).prop_map(|(run, call, arguments)| {
            json!({"type": "call", "run": run, "call": call, "server": null, "tool": "t", "arguments": arguments})
        }),
        (number.clone(), hostile())
            .prop_map(|(run, value)| json!({"type": "done", "run": run, "outcome": "finished", "value": value})),
        (number, any::<bool>())
            .prop_map(|(worker, oom)| json!({"type": "worker_exited", "worker": worker, "oom": oom, "requested": oom})),
        any_json(),
    ];
    let address = select(vec!["S", "W", "S", "W", "X", "", " S"]);
    let frame = (address, body).prop_map(|(address, body)| format!("{address}{body}\n").into_bytes());
    prop_oneof![4 => frame.clone(), 2 => damaged(frame), 1 => prop::collection::vec(any::<u8>(), 0..100)]
}

/// A line from a peer.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![
        4 => (0_i64..4).prop_map(Value::from),
        2 => select(vec!["0", "1", "again-1", "x"]).prop_map(Value::from),
        1 => any_json(),
    ];
    let method =
        select(vec!["ping", "tools/call", "tools/list", "roots/list", "notifications/cancelled", "odd"]);
    let body = prop_oneof![
        (id.clone(), method, any_json()).prop_map(
            |(id, method, params)| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        ),
        id.clone().prop_map(|id| {
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
        }),
        (id.clone(), any_json())
            .prop_map(|(id, result)| json!({"jsonrpc": "2.0", "id": id, "result": result})),
        (id.clone(), any_json()).prop_map(|(id, error)| json!({"jsonrpc": "2.0", "id": id, "error": error})),
        (0_usize..400, id).prop_map(|(bytes, id)| json!({"x": "a".repeat(bytes), "id": id})),
        any_json(),
    ];
    let blank = select(vec!["", "", "", " ", "\u{feff}", "\t\r"]);
    let line = (blank.clone(), body, blank)
        .prop_map(|(before, body, behind)| format!("{before}{body}{behind}\n").into_bytes());
    prop_oneof![4 => line.clone(), 2 => damaged(line), 1 => prop::collection::vec(any::<u8>(), 0..400)]
}

/// A configuration file.
fn file() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        3 => "[a-z]{1,6}",
        1 => hostile(),
        1 => select(vec!["${TOKEN}", "${NONE}", "$${x}", "${NONE:-d}", "${", "~/x", "./x", "S3cret-Of-Ada-1815"]).prop_map(str::to_owned),
    ];
    let value = prop_oneof![
        4 => text.clone().prop_map(Value::from),
        2 => prop::collection::vec(text.clone(), 0..4).prop_map(Value::from),
        2 => prop::collection::hash_map(text, hostile(), 0..4).prop_map(|map| json!(map)),
        1 => any_json(),
    ];
    let key = select(vec![
        "command",
        "args",
        "env",
        "cwd",
        "description",
        "type",
        "url",
        "disabled",
        "enabled",
        "timeout",
        "odd",
    ]);
    let entry = prop::collection::vec((key, value), 0..6).prop_map(|pairs| {
        let mut entry: Map<String, Value> = pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        entry.entry("command").or_insert(json!("c"));
        Value::from(entry)
    });
    let entry = prop_oneof![6 => entry, 1 => any_json()];
    let servers = prop::collection::vec((name(), entry), 0..5)
        .prop_map(|entries| Value::from(entries.into_iter().collect::<Map<_, _>>()));
    prop_oneof![8 => servers.prop_map(|servers| json!({"mcpServers": servers})), 1 => any_json()]
}

/// What somebody may call a server or a tool.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[abAB_\\-.é日1 ]{1,5}",
        2 => select(vec![
            "class", "None", "servers", "list_tools", "_server", "_calls", "__debug__", "_repr_x_", "a_b_aa1aeddb",
        ])
        .prop_map(str::to_owned),
        1 => "[a\\-]{60,70}",
        1 => hostile(),
    ]
}

/// Text of a few characters, most of which mean something to somebody.
fn hostile() -> impl Strategy<Value = String> {
    let marks = "'\"\\\n\r\t\0\u{1b}\u{85}\u{202e}\u{200b}\u{2028}\u{e0041}\u{fe0f}…{}[]()#:;,%$`=*?|-> aé日\u{1f600}";
    let character = prop_oneof![4 => select(marks.chars().collect::<Vec<_>>()), 1 => any::<char>()];
    prop::collection::vec(character, 0..12).prop_map(|characters| characters.into_iter().collect())
}

/// Any JSON, of keys that schemas have among others.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        hostile().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((hostile(), inner), 0..4)
                .prop_map(|pairs| Value::from(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A schema: mostly well-formed, with hostile texts where texts may be.
pub fn schema() -> impl Strategy<Value = Value> {
    let key = || prop_oneof![3 => "[a-c]{1,2}", 2 => hostile(), 1 => select(vec!["self", "__debug__", "class", "more"]).prop_map(str::to_owned)];
    let value = || {
        prop_oneof![
            hostile().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            Just(json!(null)),
            prop::collection::vec(hostile(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(hostile(), any::<bool>(), 0..3).prop_map(|map| json!(map)),
        ]
    };
    let leaf = prop_oneof![
        select(vec!["string", "integer", "number", "boolean", "null", "array", "object", "odd"])
            .prop_map(|kind| json!({"type": kind})),
        prop::collection::vec(value(), 0..20).prop_map(|values| json!({"enum": values})),
        value().prop_map(|value| json!({"const": value})),
        (select(vec!["string", "integer"]), value())
            .prop_map(|(kind, value)| json!({"type": kind, "default": value})),
        select(vec!["#/properties", "#/properties/a", "#/$defs/a", "#", "http://x/y"])
            .prop_map(|reference| json!({"$ref": reference})),
        any_json(),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let properties = prop::collection::vec((key(), inner.clone()), 0..6);
        prop_oneof![
            4 => (properties, prop::collection::vec(key(), 0..3), prop::option::of(inner.clone())).prop_map(
                |(properties, required, more)| {
                    let properties: Map<String, Value> = properties.into_iter().collect();
                    let mut schema = json!({"type": "object", "properties": properties, "required": required});
                    if let Some(more) = more {
                        schema["additionalProperties"] = more;
                    }
                    schema
                }
            ),
            1 => inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(|kinds| json!({"anyOf": kinds})),
            1 => prop::collection::vec(inner, 0..2).prop_map(|kinds| json!({"allOf": kinds, "nullable": true})),
        ]
    })
}

/// A tool.
pub fn tool() -> impl Strategy<Value = Value> {
    (name(), hostile(), schema(), prop::option::of(schema())).prop_map(|(name, text, input, output)| {
        json!({"name": name, "title": text, "description": text, "inputSchema": input, "outputSchema": output})
    })
}

/// The same with some bytes changed.
fn damaged(line: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    (line, changes).prop_map(|(mut line, changes)| {
        for (at, byte) in changes {
            let at = at.index(line.len());
            line[at] = byte;
        }
        line
    })
}
