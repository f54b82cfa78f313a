//! `subscriptions/listen` of clients without a handshake: what is accepted, and when it ends. What is told over it, the official
//! SDKs hear in `tests/interop`.

use serde_json::{Value, json};

use crate::support::{Bridge, Home};

/// So many go on at once.
const AT_ONCE: usize = 32;

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    })
}

fn listen(bridge: &mut Bridge, notifications: Value) -> i64 {
    bridge.send_request("subscriptions/listen", json!({"_meta": meta(), "notifications": notifications}))
}

/// What the request is acknowledged with.
fn accepted(bridge: &mut Bridge, id: i64) -> Value {
    let told = bridge.notification("notifications/subscriptions/acknowledged");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(id), "{told}");
    told["params"]["notifications"].clone()
}

#[test]
fn what_can_be_told_is_accepted_and_nothing_else() {
    let mut bridge = Bridge::spawn(&Home::new());
    for (asked, honored) in [
        (json!({}), json!({})),
        (
            json!({"resourcesListChanged": true, "toolsListChanged": true, "promptsListChanged": true}),
            json!({"resourcesListChanged": true}),
        ),
        (json!({"resourcesListChanged": false}), json!({})),
        (
            json!({"resourceSubscriptions": [
                "workspace:///a", "workspace:///../b", "file:///etc/passwd", "resource://belljar/capabilities"
            ]}),
            json!({"resourceSubscriptions": ["workspace:///a", "resource://belljar/capabilities"]}),
        ),
    ] {
        let id = listen(&mut bridge, asked);
        assert_eq!(accepted(&mut bridge, id), honored);
    }
    let many: Vec<String> = (0..1_500).map(|number| format!("workspace:///{number}")).collect();
    let id = listen(&mut bridge, json!({"resourceSubscriptions": many}));
    assert_eq!(accepted(&mut bridge, id)["resourceSubscriptions"], json!(many[..1_000]));
}

#[test]
fn so_many_go_on_at_once_and_one_that_is_cancelled_makes_room() {
    let mut bridge = Bridge::spawn(&Home::new());
    let ids: Vec<i64> = (0..AT_ONCE)
        .map(|_| {
            let id = listen(&mut bridge, json!({"resourcesListChanged": true}));
            accepted(&mut bridge, id);
            id
        })
        .collect();
    let id = listen(&mut bridge, json!({"resourcesListChanged": true}));
    accepted(&mut bridge, id);
    let error = bridge.answer(id).unwrap_err();
    assert_eq!(error["message"], "32 subscriptions/listen are under way already; cancel one");
    bridge.notify("notifications/cancelled", json!({"requestId": ids[3]}));
    // The one that was cancelled may still be ending. A refusal comes before answers to what is asked later.
    let goes_on = |bridge: &mut Bridge| {
        let id = listen(bridge, json!({}));
        accepted(bridge, id);
        bridge.request("server/discover", json!({"_meta": meta()})).unwrap();
        let later = bridge.send_request("server/discover", json!({"_meta": meta()}));
        let is_either = |message: &Value| [json!(id), json!(later)].contains(&message["id"]);
        bridge.message("a refusal or a later answer", is_either)["id"] == json!(later)
    };
    assert!((0..100).any(|_| goes_on(&mut bridge)));
}

#[test]
fn a_client_with_a_handshake_is_told_that_it_subscribes_otherwise() {
    let mut bridge = Bridge::spawn(&Home::new());
    bridge.initialize("2025-11-25");
    bridge.notify("notifications/initialized", json!({}));
    let error = bridge.request("subscriptions/listen", json!({"notifications": {}})).unwrap_err();
    assert_eq!(error["code"], -32601, "{error}");
    let error = bridge.request("subscriptions/listen", json!({"notifications": 5})).unwrap_err();
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(-32602), &json!("subscriptions/listen wants an object of notifications"))
    );
}
