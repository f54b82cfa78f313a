//! The conversation: versions, eras, and whatever a client may send that is no request.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bridge, Home};

const NEWEST_WITH_HANDSHAKE: &str = "2025-11-25";

fn bridge() -> Bridge {
    Bridge::start(&Home::new())
}

#[test]
fn every_version_with_a_handshake_is_spoken_as_asked() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_WITH_HANDSHAKE] {
        let result = Bridge::spawn(&Home::new()).initialize(version);
        assert_eq!(
            result,
            json!({
                "protocolVersion": version,
                "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}, "logging": {},
                    "resources": {"listChanged": true, "subscribe": true}, "tools": {}},
                "serverInfo": {"name": "belljar", "version": env!("CARGO_PKG_VERSION")}
            })
        );
    }
}

#[test]
fn what_is_told_before_the_handshake_is_left_out() {
    let mut bridge = Bridge::spawn(&Home::new());
    for method in ["notifications/initialized", "notifications/roots/list_changed", "notifications/of/none"] {
        bridge.send_raw(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}\n").as_bytes());
    }
    let broken =
        json!({"protocolVersion": 7, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    assert!(bridge.request("initialize", broken).is_err());
    bridge.send_raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    assert_eq!(bridge.initialize(NEWEST_WITH_HANDSHAKE)["protocolVersion"], NEWEST_WITH_HANDSHAKE);
}

#[test]
fn a_version_without_handshake_or_an_unknown_one_gets_the_newest_with_one() {
    for version in ["2026-07-28", "1999-01-01", "2099-01-01"] {
        let result = Bridge::spawn(&Home::new()).initialize(version);
        assert_eq!(result["protocolVersion"], NEWEST_WITH_HANDSHAKE, "asked for {version}");
    }
}

#[test]
fn a_client_without_handshake_is_served_by_what_each_request_says() {
    let mut bridge = Bridge::spawn(&Home::new());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let discovered = bridge.request("server/discover", json!({"_meta": meta})).unwrap();
    assert_eq!(
        discovered["supportedVersions"],
        json!(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
    );
    assert_eq!(discovered["resultType"], "complete");
    // Changes of them come over `subscriptions/listen`.
    assert_eq!(discovered["capabilities"]["resources"], json!({"listChanged": true, "subscribe": true}));
    let listed = bridge.request("tools/list", json!({"_meta": meta})).unwrap();
    assert_eq!(listed["tools"][0]["name"], "run_python");
    let run = json!({"name": "run_python", "arguments": {"code": "1", "timeout": 0}, "_meta": meta});
    let refused = bridge.request("tools/call", run).unwrap();
    assert_eq!((&refused["resultType"], &refused["isError"]), (&json!("complete"), &json!(true)));
    let error = bridge.request("tools/list", json!({})).unwrap_err();
    assert_eq!(error["code"], -32602);
    assert_eq!(
        error["message"],
        "request _meta is missing or has malformed required fields: \
         io.modelcontextprotocol/protocolVersion, io.modelcontextprotocol/clientCapabilities"
    );
}

#[test]
fn a_request_before_initialize_is_refused_and_the_handshake_still_works() {
    let mut bridge = Bridge::spawn(&Home::new());
    let call = json!({"name": "run_python", "arguments": {"code": "1"}});
    assert_eq!(bridge.request("tools/call", call).unwrap_err()["code"], -32602);
    bridge.initialize(NEWEST_WITH_HANDSHAKE);
    bridge.request("tools/list", json!({})).unwrap();
}

#[test]
fn ping_is_answered_before_and_after_the_handshake_and_after_a_second_one() {
    let mut bridge = Bridge::spawn(&Home::new());
    assert_eq!(bridge.request("ping", json!({})), Ok(json!({})));
    for _ in 0..2 {
        bridge.initialize(NEWEST_WITH_HANDSHAKE);
        assert_eq!(bridge.request("ping", json!({})), Ok(json!({})));
    }
}

#[test]
fn lines_that_are_no_request_are_survived_and_never_answered_as_one() {
    let mut bridge = bridge();
    let lines: [&[u8]; 16] = [
        b"\n",
        b"   \r\n",
        b"{\"jsonrpc\": \"2.0\", \"id\": 1000, \"method\": \n",
        b"\xff\n",
        b"\xff\xfe{\x00}\x00\n",
        b"null\n",
        b"42\n",
        b"\"text\"\n",
        b"[]\n",
        b"[[[[\n",
        b"{}\n",
        b"{\"jsonrpc\": \"1.0\", \"id\": 1001, \"method\": \"ping\"}\n",
        b"{\"jsonrpc\": \"2.0\", \"id\": 1002}\n",
        b"{\"jsonrpc\": \"2.0\", \"id\": 1003, \"result\": {}}\n",
        b"{\"jsonrpc\": \"2.0\", \"method\": \"notifications/unheard_of\", \"params\": {\"a\": [1]}}\n",
        b"Content-Length: 12\r\n\r\n\x00\x1b[31m\n",
    ];
    for line in lines {
        bridge.send_raw(line);
        assert_eq!(bridge.request("ping", json!({})), Ok(json!({})), "{:?}", String::from_utf8_lossy(line));
    }
    let mut refused: Vec<_> = bridge
        .rest()
        .iter()
        .map(|message| (message["id"].as_i64(), message["error"]["code"].as_i64()))
        .collect();
    refused.sort();
    let (not_json, no_message) = (Some(-32700), Some(-32600));
    // Those that name an id are answered with it; of the others, those that are JSON.
    let mut expected = vec![(None, no_message); 5];
    expected.extend([(Some(1000), not_json), (Some(1001), no_message), (Some(1002), no_message)]);
    assert_eq!(refused, expected);
}

#[test]
fn a_request_that_cannot_be_read_is_refused_by_its_id() {
    let mut bridge = bridge();
    let run = |id: &str, code: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"run_python","arguments":{{"code":{code}}}}}}}"#
        )
    };
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let long = format!("\"{}\"", "x".repeat(17 << 20));
    for (id, code, error) in [
        (json!("nan"), "NaN", -32700),
        (json!(10), nested(200).as_str(), -32600),
        (json!(11), nested(200_000).as_str(), -32600),
        (json!("long"), long.as_str(), -32600),
    ] {
        bridge.send_raw(format!("{}\n", run(&id.to_string(), code)).as_bytes());
        let answer = bridge.message("the refusal", |message| message["id"] == id);
        assert_eq!(answer["error"]["code"], error, "{answer}");
        assert_eq!(bridge.request("ping", json!({})), Ok(json!({})));
    }
}

#[test]
fn a_line_over_the_bound_that_names_nothing_is_survived() {
    let mut bridge = bridge();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        bridge.send_raw(&chunk);
    }
    bridge.send_raw(b"\n");
    bridge.request("ping", json!({})).unwrap();
}

#[test]
fn two_requests_with_one_id_get_an_answer_each() {
    let mut bridge = bridge();
    let list = json!({"jsonrpc": "2.0", "id": "twice", "method": "tools/list"});
    let ping = json!({"jsonrpc": "2.0", "id": "twice", "method": "ping"});
    bridge.send_raw(format!("{list}\n{ping}\n").as_bytes());
    let mut answers = [0, 1].map(|_| {
        let answer = bridge.message("an answer", |message| message["id"] == "twice");
        answer["result"]["tools"].is_array()
    });
    answers.sort();
    assert_eq!(answers, [false, true]);
}

#[test]
fn a_client_that_never_reads_is_not_read_from_without_bound() {
    let home = Home::new();
    let mut program =
        home.command(&[]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let id = program.id();
    let peak_kib = move || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        peak.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    // Each ping before the handshake is answered; the answers of all are some 20 MB, of which the pipe takes 64 KB.
    let id = "x".repeat(200);
    let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"ping\"}}\n");
    input.write_all(ping.as_bytes()).unwrap();
    let mut answer = [0; 1];
    program.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    let before = peak_kib();
    let writing = std::thread::spawn(move || input.write_all(ping.repeat(100_000).as_bytes()));
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until && !writing.is_finished() {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert!(!writing.is_finished(), "all was taken");
    let grown = peak_kib() - before;
    assert!(grown < 8 * 1024, "the bridge grew by {grown} KiB");
    program.kill().unwrap();
    program.wait().unwrap();
    writing.join().unwrap().unwrap_err();
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_taken() {
    let mut bridge = bridge();
    bridge.send_raw(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":\"marked\",\"method\":\"ping\"}\r\n");
    let answer = bridge.message("the answer", |message| message["id"] == "marked");
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": "marked", "result": {}}));
}

#[test]
fn a_cancellation_of_nothing_is_ignored() {
    let mut bridge = bridge();
    for id in [json!(1), json!(4711), json!("unknown"), json!(null)] {
        bridge.notify("notifications/cancelled", json!({"requestId": id}));
    }
    bridge.request("ping", json!({})).unwrap();
    assert_eq!(bridge.rest(), [Value::Null; 0]);
}

#[test]
fn answers_come_for_ids_of_both_kinds() {
    let mut bridge = bridge();
    for id in [json!(0), json!(-7), json!(9_007_199_254_740_991_i64), json!("a"), json!("")] {
        bridge.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        bridge.message("the answer", |message| message["id"] == id && message["result"] == json!({}));
    }
}
