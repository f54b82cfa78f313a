//! The conversation: versions, eras, and whatever a client may send that is no request.

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
                "capabilities": {"resources": {}, "tools": {}},
                "serverInfo": {"name": "hotcell", "version": env!("CARGO_PKG_VERSION")}
            })
        );
    }
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
    for message in bridge.rest() {
        assert_eq!(message["id"], Value::Null, "{message}");
        assert!([-32700, -32600].contains(&message["error"]["code"].as_i64().unwrap()), "{message}");
    }
}

#[test]
fn a_deeply_nested_line_is_survived() {
    let mut bridge = bridge();
    let depth = 200_000;
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\",\"params\":{}1{}}}\n",
        "[".repeat(depth),
        "]".repeat(depth)
    );
    bridge.send_raw(line.as_bytes());
    bridge.request("ping", json!({})).unwrap();
}

#[test]
fn a_line_over_the_bound_is_survived() {
    let mut bridge = bridge();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        bridge.send_raw(&chunk);
    }
    bridge.send_raw(b"\n");
    bridge.request("ping", json!({})).unwrap();
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
