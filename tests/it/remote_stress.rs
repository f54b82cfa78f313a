//! Remote servers whose connections break, whose answers are slow or large, and which speak any version.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use belljar_base::limits::Limits;
use belljar_upstream::{RemoteTransport, UpstreamError};
use serde_json::{Value, json};

use crate::remote::{call, call_within, connected, upstream};
use crate::support::PATIENCE;
use crate::support::http_fixture::{HttpFixture, Request, events, reply, usual_answer};

const DONE: &str = r#"{"content":[]}"#;

/// The versions that begin with `initialize`.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_is_asked_for_again_after_pauses_that_grow_or_as_the_server_says() {
    // Floors only: a slow machine makes pauses longer.
    for (stream, floors_ms) in [("", [500, 1_000]), ("retry: 900\nid: 5\n\n", [900, 900])] {
        let times = Arc::new(Mutex::new(Vec::new()));
        let (noted, (tell, told)) = (Arc::clone(&times), channel());
        let fixture = HttpFixture::usual(move |request, out| match request.method.as_str() {
            "GET" => {
                noted.lock().unwrap().push(Instant::now());
                tell.send(()).unwrap();
                events(out, stream)
            }
            _ => reply(out, "200 OK", &[], &request.answer(json!({"content": []}))),
        });
        let upstream = upstream(&fixture.url, None, Limits::default());
        assert_eq!(call(&upstream, "t", json!({})).await.unwrap(), DONE);
        tokio::task::spawn_blocking(move || (0..3).for_each(|_| told.recv_timeout(PATIENCE).unwrap()))
            .await
            .unwrap();
        assert_eq!(call(&upstream, "t", json!({})).await.unwrap(), DONE, "calls go on meanwhile");
        upstream.close().await;
        let times = times.lock().unwrap().clone();
        for (pair, floor_ms) in times.windows(2).zip(floors_ms) {
            assert!(
                pair[1] - pair[0] >= Duration::from_millis(floor_ms),
                "{floor_ms}: {:?}",
                pair[1] - pair[0]
            );
        }
        let gets = fixture.requests().into_iter().filter(|request| request.method == "GET");
        let from: Vec<Option<String>> =
            gets.map(|get| get.header("last-event-id").map(str::to_owned)).collect();
        let later = if stream.is_empty() { None } else { Some("5".to_owned()) };
        assert_eq!(from[..3], [None, later.clone(), later]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_taken_up_after_its_last_event_and_not_for_ever() {
    for completes in [true, false] {
        let asked = Arc::new(Mutex::new(None::<Request>));
        let fixture = HttpFixture::usual(move |request, out| {
            if request.is("tools/call") {
                *asked.lock().unwrap() = Some(request.clone());
                let progress = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
                return events(out, &format!("id: 7\nretry: 1\ndata: {progress}\n\n"));
            }
            match request.header("last-event-id") {
                Some("7") if completes => {
                    let answer = asked.lock().unwrap().as_ref().unwrap().answer(json!({"content": []}));
                    events(out, &format!("id: 8\ndata: {answer}\n\n"))
                }
                Some(_) => events(out, ""),
                None => reply(out, "405 No", &[], ""),
            }
        });
        let upstream = upstream(&fixture.url, None, Limits::default());
        let result = call(&upstream, "t", json!({})).await;
        let resumed =
            fixture.requests().iter().filter(|one| one.header("last-event-id") == Some("7")).count();
        match completes {
            true => assert_eq!((result.unwrap().as_str(), resumed), (DONE, 1)),
            false => {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("its stream ended before the answer"), "{error}");
                assert_eq!(resumed, 5);
            }
        }
        assert_eq!(fixture.count("tools/call"), 1, "nothing is sent twice");
        upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_lost_with_400_is_made_again_for_all_calls_at_once() {
    let is_lost = Arc::new(AtomicBool::new(false));
    let lost = Arc::clone(&is_lost);
    let fixture = HttpFixture::start(move |request, out| {
        let session = if lost.load(Ordering::SeqCst) { "s2" } else { "s1" };
        match usual_answer(request) {
            _ if request.method == "GET" => reply(out, "405 No", &[], ""),
            Some(answer) if request.is("initialize") => {
                reply(out, "200 OK", &[("Mcp-Session-Id", session)], &answer.to_string())
            }
            _ if request.header("mcp-session-id") != Some(session) => {
                let said = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session ID"}});
                reply(out, "400 Bad Request", &[], &said.to_string())
            }
            Some(answer) => reply(out, "200 OK", &[], &answer.to_string()),
            None if request.is("tools/call") => {
                reply(out, "200 OK", &[], &request.answer(json!({"content": []})))
            }
            None => reply(out, "202 Accepted", &[], ""),
        }
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    assert_eq!(call(&upstream, "read", json!({})).await.unwrap(), DONE);
    is_lost.store(true, Ordering::SeqCst);
    let calls = (0..8).map(|_| call(&upstream, "read", json!({})));
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(result.unwrap(), DONE);
    }
    assert_eq!(fixture.count("initialize"), 2);
    upstream.close().await;
}

/// What a server answers that does not know the method.
fn unknown_method(request: &Request) -> String {
    let error = json!({"code": -32601, "message": "no such method"});
    json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_that_begins_with_initialize_is_spoken_over_streamable_http() {
    for version in VERSIONS {
        let fixture = HttpFixture::start(move |request, out| match usual_answer(request) {
            Some(mut answer) => {
                if request.is("initialize") {
                    answer["result"]["protocolVersion"] = json!(version);
                }
                reply(out, "200 OK", &[], &answer.to_string())
            }
            None if request.is("tools/call") => {
                reply(out, "200 OK", &[], &request.answer(json!({"content": []})))
            }
            None if request.method == "GET" => reply(out, "405 No", &[], ""),
            None => reply(out, "202 Accepted", &[], ""),
        });
        let upstream = upstream(&fixture.url, None, Limits::default());
        assert_eq!(call(&upstream, "t", json!({})).await.unwrap(), DONE, "{version}");
        upstream.close().await;
        let requests = fixture.requests();
        let begun = requests.iter().position(|request| request.is("initialize")).unwrap();
        for request in &requests[begun + 1..] {
            assert_eq!(request.header("mcp-protocol-version"), Some(version), "{request:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_that_begins_with_initialize_is_spoken_over_sse() {
    for version in VERSIONS {
        let stream = Arc::new(Mutex::new(None::<TcpStream>));
        let fixture = HttpFixture::start(move |request, out| {
            if request.method == "GET" {
                // Held, so that no answer is written before there is a place for it.
                let mut stream = stream.lock().unwrap();
                events(out, "event: endpoint\ndata: /messages?session=1\n\n")?;
                *stream = Some(out.try_clone()?);
                return Ok(());
            }
            if request.path != "/messages?session=1" {
                return reply(out, "405 No", &[], "");
            }
            let answer = match usual_answer(request) {
                Some(mut answer) => {
                    if request.is("initialize") {
                        answer["result"]["protocolVersion"] = json!(version);
                    }
                    Some(answer.to_string())
                }
                None if request.is("tools/call") => Some(request.answer(json!({"content": []}))),
                None if request.is("server/discover") => Some(unknown_method(request)),
                None => None,
            };
            if let Some(answer) = answer {
                let mut stream = stream.lock().unwrap();
                write!(stream.as_mut().unwrap(), "event: message\ndata: {answer}\n\n")?;
            }
            reply(out, "202 Accepted", &[], "")
        });
        for transport in [Some(RemoteTransport::Sse), None] {
            let upstream = upstream(&fixture.url, transport, Limits::default());
            assert_eq!(call(&upstream, "t", json!({})).await.unwrap(), DONE, "{version}");
            upstream.close().await;
        }
        for request in fixture.requests() {
            assert_eq!(request.header("authorization"), Some("Bearer s3cret-token"), "{request:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_stream_of_an_older_server_breaks_is_not_made_again_and_the_next_one_has_a_new_stream() {
    let (stream, has_broken) = (Arc::new(Mutex::new(None::<TcpStream>)), Arc::new(AtomicBool::new(false)));
    let fixture = HttpFixture::start(move |request, out| {
        let mut stream = stream.lock().unwrap();
        if request.method == "GET" {
            events(out, "event: endpoint\ndata: /messages\n\n")?;
            *stream = Some(out.try_clone()?);
            return Ok(());
        }
        if request.is("tools/call") && !has_broken.swap(true, Ordering::SeqCst) {
            stream.take().unwrap().shutdown(std::net::Shutdown::Both)?;
            return reply(out, "202 Accepted", &[], "");
        }
        let answer = usual_answer(request).map(|answer| answer.to_string());
        let answer = answer.or_else(|| match request.body["method"].as_str()? {
            "tools/call" => Some(request.answer(json!({"content": []}))),
            "server/discover" => Some(unknown_method(request)),
            _ => None,
        });
        if let Some(answer) = answer {
            write!(stream.as_mut().unwrap(), "event: message\ndata: {answer}\n\n")?;
        }
        reply(out, "202 Accepted", &[], "")
    });
    let upstream = upstream(&fixture.url, Some(RemoteTransport::Sse), Limits::default());
    let error = call(&upstream, "t", json!({"n": 1})).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Died { .. }), "{error:?}");
    assert_eq!(call(&upstream, "t", json!({"n": 2})).await.unwrap(), DONE);
    upstream.close().await;
    let requests = fixture.requests();
    let calls = requests.iter().filter(|request| request.is("tools/call"));
    let calls: Vec<i64> = calls.map(|call| call.body["params"]["arguments"]["n"].as_i64().unwrap()).collect();
    assert_eq!(calls, [1, 2]);
    assert_eq!(requests.iter().filter(|request| request.method == "GET").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_sessions_is_discovered_and_told_the_version_with_each_request() {
    for status in ["400 Bad Request", "404 Not Found", "200 OK"] {
        let fixture = HttpFixture::start(move |request, out| {
            if request.method != "POST" {
                return reply(out, "405 No", &[], "");
            }
            if request.is("server/discover") {
                let about = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                    "cacheScope": "private", "capabilities": {"tools": {}}});
                return reply(out, "200 OK", &[], &request.answer(about));
            }
            match usual_answer(request) {
                Some(answer) if request.is("tools/list") => reply(out, "200 OK", &[], &answer.to_string()),
                None if request.is("tools/call") => {
                    reply(out, "200 OK", &[], &request.answer(json!({"content": []})))
                }
                _ => reply(out, status, &[], &unknown_method(request)),
            }
        });
        let upstream = upstream(&fixture.url, None, Limits::default());
        let result = call(&upstream, "t", json!({})).await;
        assert_eq!(result.unwrap(), DONE, "{status}");
        upstream.close().await;
        let requests = fixture.requests();
        let spoken = requests.iter().position(|request| request.is("server/discover")).unwrap();
        for request in &requests[spoken..] {
            assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"), "{request:?}");
            assert_eq!(request.header("mcp-method"), request.body["method"].as_str(), "{request:?}");
            assert_eq!(request.header("mcp-session-id"), None, "{request:?}");
            assert_eq!(request.header("authorization"), Some("Bearer s3cret-token"), "{request:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_start_is_tried_again_after_pauses_that_grow_and_is_used_once_it_does() {
    let is_well = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_well);
    let fixture = HttpFixture::start(move |request, out| {
        match usual_answer(request).filter(|_| seen.load(Ordering::SeqCst)) {
            Some(answer) => reply(out, "200 OK", &[], &answer.to_string()),
            None if request.is("tools/call") => {
                reply(out, "200 OK", &[], &request.answer(json!({"content": []})))
            }
            None if request.is("notifications/initialized") => reply(out, "202 Accepted", &[], ""),
            None => reply(out, "500 Internal Server Error", &[], ""),
        }
    });
    let upstream = upstream(&fixture.url, Some(RemoteTransport::Streamable), Limits::default());
    call(&upstream, "t", json!({})).await.unwrap_err();
    let (each, began) = (fixture.requests().len(), Instant::now());
    let mut tries = 0;
    // As code does that calls in a loop.
    while began.elapsed() < Duration::from_millis(1_000) || tries < 100 {
        call(&upstream, "t", json!({})).await.unwrap_err();
        tokio::time::sleep(Duration::from_millis(1)).await;
        tries += 1;
    }
    let attempts = fixture.requests().len() / each - 1;
    // After 200 ms, 400 more, 800 more, and so on: a slow machine makes fewer.
    let (mut at_most, mut pause, mut at) = (0, 200, 200);
    while at <= began.elapsed().as_millis() {
        (at_most, pause) = (at_most + 1, pause * 2);
        at += pause;
    }
    assert!(attempts >= 1 && attempts <= at_most, "{attempts} of {tries}, at most {at_most}");
    is_well.store(true, Ordering::SeqCst);
    while call(&upstream, "t", json!({})).await.is_err() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_trickles_costs_the_call_its_time_and_ends_with_it() {
    for kind in ["application/json", "text/event-stream"] {
        let (tell, told) = channel();
        let fixture = HttpFixture::usual(move |request, out| {
            if !request.is("tools/call") {
                return reply(out, "405 No", &[], "");
            }
            write!(out, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n")?;
            while out.write_all(b"\n").is_ok() {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            tell.send(()).unwrap();
            Ok(())
        });
        let upstream = upstream(&fixture.url, None, Limits::default());
        connected(&upstream).await;
        let result = call_within(&upstream, "t", json!({}), Duration::from_millis(300)).await;
        assert!(matches!(result, Err(UpstreamError::Deadline { .. })), "{result:?}");
        let ended = tokio::task::spawn_blocking(move || told.recv_timeout(PATIENCE));
        ended.await.unwrap().expect("the connection is closed");
        upstream.close().await;
    }
}

/// The reply with so many bytes more than it needs; `between` is called once some of them are on their way.
fn large(
    out: &mut TcpStream,
    request: &Request,
    bytes: usize,
    is_event: bool,
    between: impl FnOnce(),
) -> std::io::Result<()> {
    let whole = request.answer(json!({"content": [], "pad": "x".repeat(bytes)}));
    let (kind, whole) = match is_event {
        true => ("text/event-stream", format!("data: {whole}\n\n")),
        false => ("application/json", whole),
    };
    write!(
        out,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        whole.len()
    )?;
    let (first, rest) = whole.as_bytes().split_at(256 * 1024);
    out.write_all(first)?;
    between();
    out.write_all(rest)
}

#[derive(Default)]
struct Turn(Mutex<bool>, Condvar);

impl Turn {
    fn come(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        let come = self.0.lock().unwrap();
        let (_come, waited) = self.1.wait_timeout_while(come, PATIENCE, |come| !*come).unwrap();
        assert!(!waited.timed_out());
    }
}

fn one_large_at_once(large_max: Duration) -> Limits {
    Limits {
        http_small_body_bytes_max: 64 * 1024,
        http_large_bodies_at_once_max: 1,
        http_large_body: large_max,
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_beyond_the_bound_wait_where_they_come_from_and_small_ones_pass() {
    // More than what a connection holds by itself.
    const SECOND_BYTES: usize = 40 << 20;
    for is_event in [false, true] {
        let (first_reads, go, second_sent) =
            (Arc::<Turn>::default(), Arc::<Turn>::default(), Arc::new(AtomicBool::new(false)));
        let (reads, goes, sent) = (Arc::clone(&first_reads), Arc::clone(&go), Arc::clone(&second_sent));
        let fixture = HttpFixture::usual(move |request, out| {
            match request.body["params"]["arguments"]["which"].as_str() {
                Some("first") => large(out, request, 1 << 20, is_event, || {
                    reads.come();
                    goes.wait();
                }),
                Some("second") => {
                    large(out, request, SECOND_BYTES, is_event, || {})?;
                    sent.store(true, Ordering::SeqCst);
                    Ok(())
                }
                Some(_) => reply(out, "200 OK", &[], &request.answer(json!({"content": []}))),
                None => reply(out, "405 No", &[], ""),
            }
        });
        let upstream = upstream(&fixture.url, None, one_large_at_once(PATIENCE));
        let first = call(&upstream, "t", json!({"which": "first"}));
        let others = async {
            let reads = Arc::clone(&first_reads);
            tokio::task::spawn_blocking(move || reads.wait()).await.unwrap();
            let small = async {
                // A floor: however long this takes, the second one has to wait.
                for _ in 0..100 {
                    assert_eq!(call(&upstream, "t", json!({"which": "small"})).await.unwrap(), DONE);
                }
                assert!(!second_sent.load(Ordering::SeqCst), "the second one was read beside the first");
                go.come();
            };
            tokio::join!(call(&upstream, "t", json!({"which": "second"})), small).0
        };
        let (first, second) = tokio::join!(first, others);
        assert!(first.unwrap().len() > 1 << 20);
        assert!(second.unwrap().len() > SECOND_BYTES);
        assert!(second_sent.load(Ordering::SeqCst));
        upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_that_stalls_is_given_up_so_that_others_can_be_read() {
    for is_event in [false, true] {
        let fixture = HttpFixture::usual(move |request, out| {
            match request.body["params"]["arguments"]["stalls"].as_bool() {
                Some(true) => large(out, request, 1 << 20, is_event, || std::thread::park_timeout(PATIENCE)),
                Some(false) => large(out, request, 1 << 20, is_event, || {}),
                None => reply(out, "405 No", &[], ""),
            }
        });
        let upstream = upstream(&fixture.url, None, one_large_at_once(Duration::from_secs(1)));
        let error = call(&upstream, "t", json!({"stalls": true})).await.unwrap_err().to_string();
        let said = "it took longer than 1 s to send an answer of more than 65536 bytes";
        assert!(error.contains(said), "{error}");
        let result: Value =
            serde_json::from_str(&call(&upstream, "t", json!({"stalls": false})).await.unwrap()).unwrap();
        assert_eq!(result["pad"].as_str().map(str::len), Some(1 << 20));
        upstream.close().await;
    }
}
