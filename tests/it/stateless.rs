//! Servers without a handshake (MCP 2026-07-28), which ask by answers that are none yet: the request is made again.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::run::ClientAbilities;
use belljar_upstream::{
    CallBounds, QuestionKind, RemoteSpec, ServerQuestion, ServerSpec, ServerTransport, Upstream,
    UpstreamError,
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::remote::{call, name, upstream};
use crate::session;
use crate::support::http_fixture::{HttpFixture, Request, events, reply, usual_answer};
use crate::support::{PATIENCE, eventually};

const ANSWERED: &str = r#"{"content":[{"type":"text","text":"done"}],"resultType":"complete"}"#;

/// A server whose tool answers so, by what has been asked before.
fn asking(answers: impl Fn(&Request) -> Value + Send + Sync + 'static) -> HttpFixture {
    HttpFixture::start(move |request, out| {
        if request.method != "POST" {
            return reply(out, "405 No", &[], "");
        }
        let result = if request.is("server/discover") {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                "cacheScope": "private", "capabilities": {"tools": {}}})
        } else if request.is("tools/call") {
            answers(request)
        } else {
            match usual_answer(request) {
                Some(answer) if request.is("tools/list") => answer["result"].clone(),
                _ => {
                    let error = json!({"code": -32601, "message": "no such method"});
                    let error = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error});
                    return reply(out, "200 OK", &[], &error.to_string());
                }
            }
        };
        reply(out, "200 OK", &[], &request.answer(result))
    })
}

fn form() -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "which one?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}})
}

fn calls(fixture: &HttpFixture) -> Vec<Value> {
    let requests = fixture.requests();
    requests
        .iter()
        .filter(|request| request.is("tools/call"))
        .map(|call| call.body["params"].clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_wants_to_know_is_answered_and_its_tool_called_again() {
    let fixture = asking(|request| {
        let params = &request.body["params"];
        match params["requestState"].as_str() {
            None => json!({"resultType": "input_required", "requestState": "s1", "inputRequests":
                {"who": form(), "where": {"method": "roots/list"}}}),
            // It has too much to do.
            Some("s1") => json!({"resultType": "input_required", "requestState": "s2"}),
            _ => serde_json::from_str(ANSWERED).unwrap(),
        }
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    upstream.offer(ClientAbilities {
        elicitation: true,
        sampling: false,
        model: false,
        ..ClientAbilities::default()
    });
    upstream.offer_roots(&[PathBuf::from("/srv/data")]);
    let mut heard = upstream.listen().unwrap();
    let answering = async {
        let ServerQuestion { kind, params, reply, .. } = heard.asked.recv().await.unwrap();
        assert_eq!((kind, &params["message"]), (QuestionKind::Elicitation, &json!("which one?")));
        reply.send(Ok(json!({"action": "accept", "content": {"name": "x"}}))).unwrap();
    };
    let (answer, ()) = tokio::join!(call(&upstream, "t", json!({"a": 1})), answering);
    assert_eq!(answer.unwrap(), ANSWERED);
    upstream.close().await;
    let calls = calls(&fixture);
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call["arguments"] == json!({"a": 1})), "{calls:?}");
    let responses = &calls[1]["inputResponses"];
    assert_eq!(responses["who"]["content"], json!({"name": "x"}), "{responses}");
    assert_eq!(responses["where"]["roots"][0]["uri"], "file:///srv/data", "{responses}");
    assert_eq!((&calls[2]["inputResponses"], &calls[2]["requestState"]), (&Value::Null, &json!("s2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_question_nobody_answers_comes_to_nothing_and_says_so() {
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}});
    for (questions, says) in [
        (json!({"x": form()}), "elicitation/create"),
        (json!({"x": sampling}), "sampling/createMessage"),
        (json!({"x": {"method": "roots/list"}}), "roots/list"),
        (json!({"x": {"method": "ping"}}), "what it asks for has another form than in MCP"),
        (json!(5), "what it asks for has another form than in MCP"),
    ] {
        let fixture = asking(move |_| json!({"resultType": "input_required", "inputRequests": questions}));
        let upstream = upstream(&fixture.url, None, Limits::default());
        let error = call(&upstream, "t", json!({})).await.unwrap_err();
        let refused = matches!(error, UpstreamError::Refused { .. } | UpstreamError::Nonsense { .. });
        assert!(refused && error.to_string().contains(says), "{error}");
        upstream.close().await;
        assert_eq!(calls(&fixture).len(), 1, "{says}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_only_asks_is_given_up() {
    let fixture = asking(
        |_| json!({"resultType": "input_required", "requestState": "s", "inputRequests": {"x": {"method": "roots/list"}}}),
    );
    let upstream = upstream(&fixture.url, None, Limits::default());
    upstream.offer_roots(&[PathBuf::from("/srv")]);
    let error = call(&upstream, "t", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("it has asked 10 times"), "{error}");
    upstream.close().await;
    assert_eq!(calls(&fixture).len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_read_again_when_its_time_is_over_and_not_before() {
    for (ttl_ms, lists) in [
        (json!(0), vec!["t", "u", "u"]),
        (json!(3_600_000), vec!["t", "t", "t"]),
        (Value::Null, vec!["t", "t", "t"]),
    ] {
        let listings = Arc::new(AtomicUsize::new(0));
        let fixture = HttpFixture::start(move |request, out| {
            if request.method != "POST" {
                return reply(out, "405 No", &[], "");
            }
            let result = if request.is("server/discover") {
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                    "cacheScope": "private", "capabilities": {"tools": {}}})
            } else if request.is("tools/list") {
                let name = if listings.fetch_add(1, Ordering::SeqCst) == 0 { "t" } else { "u" };
                json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}], "ttlMs": ttl_ms})
            } else {
                let error = json!({"code": -32601, "message": "no such method"});
                let error = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error});
                return reply(out, "200 OK", &[], &error.to_string());
            };
            reply(out, "200 OK", &[], &request.answer(result))
        });
        let limits = Limits { listing_fresh_min: Duration::ZERO, ..Limits::default() };
        let upstream = upstream(&fixture.url, None, limits);
        let mut seen = vec![];
        for _ in 0..3 {
            let cancel = CancellationToken::new();
            let connection =
                upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &cancel).await.unwrap();
            seen.push(connection.tools()[0]["name"].as_str().unwrap().to_owned());
        }
        upstream.close().await;
        assert_eq!(seen, lists);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_tools_are_heard_of_by_listening_and_again_after_the_subscription_broke() {
    let (tell, told) = std::sync::mpsc::channel::<Told>();
    let (told, listings) = (Mutex::new(told), Arc::new(AtomicUsize::new(0)));
    let fixture = HttpFixture::start(move |request, out| {
        if request.method != "POST" {
            return reply(out, "405 No", &[], "");
        }
        let result = match request.body["method"].as_str().unwrap_or_default() {
            "server/discover" => {
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                "cacheScope": "private", "capabilities": {"tools": {"listChanged": true}}})
            }
            "tools/list" => {
                let name = format!("t{}", listings.fetch_add(1, Ordering::SeqCst));
                json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}], "ttlMs": null})
            }
            "subscriptions/listen" => {
                let notification = |method: &str, mut params: Value| {
                    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": request.body["id"]});
                    let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
                    format!("data: {message}\n\n")
                };
                let filter = json!({"notifications": request.body["params"]["notifications"].clone()});
                events(out, &notification("notifications/subscriptions/acknowledged", filter))?;
                while let Ok(Told::Changed) = told.lock().unwrap().recv() {
                    out.write_all(notification("notifications/tools/list_changed", json!({})).as_bytes())?;
                }
                return Ok(());
            }
            "initialize" => {
                let error = json!({"code": -32601, "message": "no such method"});
                let error = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error});
                return reply(out, "200 OK", &[], &error.to_string());
            }
            _ => return reply(out, "202 Accepted", &[], ""),
        };
        reply(out, "200 OK", &[], &request.answer(result))
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    let connect = async || {
        let cancel = CancellationToken::new();
        upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &cancel).await.unwrap()
    };
    let first = connect().await;
    assert_eq!(first.tools()[0]["name"], "t0");
    // They may have changed before it was listened to.
    eventually("it is listened to", PATIENCE, || first.has_news());
    assert_eq!(
        (connect().await.tools()[0]["name"].as_str(), connect().await.is_current()),
        (Some("t1"), true)
    );
    // Told of, and after the subscription has broken not known: read again either way.
    for (what, listed) in [(Told::Changed, "t2"), (Told::Broken, "t3"), (Told::Changed, "t4")] {
        let before = connect().await;
        tell.send(what).unwrap();
        eventually("it is known to be stale", PATIENCE, || before.has_news());
        assert_eq!(connect().await.tools()[0]["name"], listed);
        assert!(connect().await.is_current());
    }
    assert_eq!(fixture.count("subscriptions/listen"), 2);
    let asked = fixture.requests().into_iter().find(|request| request.is("subscriptions/listen")).unwrap();
    assert_eq!(asked.body["params"]["notifications"], json!({"toolsListChanged": true}));
    upstream.close().await;
}

enum Told {
    Changed,
    Broken,
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_an_entry_gives_a_call_is_for_all_its_rounds() {
    let fixture = asking(|_| {
        std::thread::park_timeout(Duration::from_millis(150));
        json!({"resultType": "input_required", "requestState": "s", "inputRequests": {"x": {"method": "roots/list"}}})
    });
    let transport = ServerTransport::Remote(RemoteSpec {
        url: fixture.url.parse().unwrap(),
        transport: None,
        headers: vec![],
        login: None,
    });
    let bounds = CallBounds { time: Some(Duration::from_millis(400)), at_once: None, set_in: "x".into() };
    let spec = ServerSpec { bounds, ..ServerSpec::new(name(), transport) };
    let upstream = Upstream::new(vec![spec], &Arc::new(Limits::default()));
    upstream.offer_roots(&[PathBuf::from("/srv")]);
    let error = call(&upstream, "t", json!({})).await.unwrap_err();
    assert!(matches!(error, UpstreamError::CallTime { .. }), "{error}");
    upstream.close().await;
}
