//! Remote servers, through the room that reaches them: real ones, and one that does whatever a hostile one may.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::ToolEffect;
use belljar_upstream::{
    Connection, RemoteSpec, RemoteTransport, Request as Call, ServerSpec, ServerTransport, Upstream,
    UpstreamError,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::deadline::Deadline;
use crate::session;
use crate::support::everything::Everything;
use crate::support::http_fixture::{HttpFixture, Request, events, reply, usual_answer};
use crate::support::{PATIENCE, eventually};

pub fn name() -> ServerName {
    ServerName::new("far").unwrap()
}

pub fn upstream(url: &str, transport: Option<RemoteTransport>, limits: Limits) -> Upstream {
    let headers = vec![("Authorization".to_owned(), "Bearer s3cret-token".to_owned())];
    let transport =
        ServerTransport::Remote(RemoteSpec { url: url.parse().unwrap(), transport, headers, login: None });
    Upstream::new(vec![ServerSpec::new(name(), transport)], &Arc::new(limits))
}

/// So that a call that follows spends none of its time on the beginning.
pub async fn connected(upstream: &Upstream) -> Arc<Connection> {
    let cancel = CancellationToken::new();
    upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &cancel).await.unwrap()
}

pub async fn call(upstream: &Upstream, tool: &str, arguments: Value) -> Result<String, UpstreamError> {
    call_within(upstream, tool, arguments, PATIENCE).await
}

pub async fn call_within(
    upstream: &Upstream,
    tool: &str,
    arguments: Value,
    limit: Duration,
) -> Result<String, UpstreamError> {
    let (deadline, cancel) = (Instant::now() + limit, CancellationToken::new());
    let connection = upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &cancel).await?;
    let arguments: Map<String, Value> = arguments.as_object().unwrap().clone();
    let (request, late) =
        (Call::Tool { name: tool.to_owned(), arguments, only_reads: tool == "read" }, Deadline(deadline));
    let result = connection.ask(request, &late, &cancel, None).await?;
    Ok(result.get().to_owned())
}

/// What becomes of a call of a server that answers it so.
async fn called(
    limits: Limits,
    script: impl Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> String {
    let fixture = HttpFixture::usual(move |request, stream| {
        if request.is("tools/call") { script(request, stream) } else { reply(stream, "405 No", &[], "") }
    });
    let upstream = upstream(&fixture.url, None, limits);
    let result = call(&upstream, "t", json!({})).await;
    assert_eq!(fixture.count("tools/call"), 1, "nothing is sent twice");
    upstream.close().await;
    match result {
        Ok(result) => result,
        Err(error) => format!("{error}{}", error.effect(Some(ToolEffect::MayWrite))),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_server_is_used_over_both_transports_named_or_found_out() {
    for (mode, path, transport) in
        [("streamableHttp", "mcp", RemoteTransport::Streamable), ("sse", "sse", RemoteTransport::Sse)]
    {
        let server = Everything::start(mode, path);
        for transport in [Some(transport), None] {
            let upstream = upstream(&server.url, transport, Limits::default());
            let result = call(&upstream, "get-sum", json!({"a": 2, "b": 40})).await.unwrap();
            assert!(result.contains("42"), "{mode}: {result}");
            let calls =
                (0..20).map(|number| call(&upstream, "echo", json!({"message": format!("m{number}.")})));
            for (number, result) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
                assert!(result.unwrap().contains(&format!("m{number}.")), "{mode}");
            }
            upstream.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_pass_as_they_are_as_one_body_or_as_an_event() {
    const RESULT: &str = r#"{"content": [], "n": 12345678901234567890123, "s": "\ud800", "later": 1e999}"#;
    let answer =
        |request: &Request| format!(r#"{{"jsonrpc":"2.0","id":{},"result":{RESULT}}}"#, request.body["id"]);
    let body =
        called(Limits::default(), move |request, stream| reply(stream, "200 OK", &[], &answer(request)));
    assert_eq!(body.await, RESULT);
    let event = called(Limits::default(), move |request, stream| {
        events(stream, &format!(": hello\n\nevent: message\ndata: {}\n\n", answer(request)))
    });
    assert_eq!(event.await, RESULT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_is_repeated_comes_back_as_its_name_from_whatever_is_asked() {
    const SAID: &str =
        r#"[{"uri": "x:\/s3cret-token", "text": "s3cret\u002dtoken of s3cret-token", "n": 1.0}]"#;
    const KEPT: &str =
        r#"[{"uri": "x:\/[Authorization]", "text": "[Authorization] of [Authorization]", "n": 1.0}]"#;
    let fixture = HttpFixture::start(|request, stream| {
        let key = match request.body["method"].as_str() {
            Some("resources/read") => "contents",
            Some("prompts/get") => "messages",
            Some("tools/call") => "content",
            _ => {
                let Some(mut answer) = usual_answer(request) else {
                    return reply(stream, "202 Yes", &[], "");
                };
                if request.is("initialize") {
                    answer["result"]["capabilities"] = json!({"tools": {}, "resources": {}, "prompts": {}});
                } else {
                    answer["result"]["tools"][0]["description"] = json!("takes s3cret-token");
                }
                return reply(stream, "200 OK", &[], &answer.to_string());
            }
        };
        let id = &request.body["id"];
        reply(stream, "200 OK", &[], &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"{key}":{SAID}}}}}"#))
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    let cancel = CancellationToken::new();
    let connection = upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &cancel).await.unwrap();
    assert_eq!(connection.tools()[0]["description"], "takes [Authorization]");
    let requests = [
        ("content", Call::Tool { name: "t".into(), arguments: Map::new(), only_reads: true }),
        ("contents", Call::Resource { uri: "x:y".into() }),
        ("messages", Call::Prompt { name: "p".into(), arguments: Map::new() }),
    ];
    for (key, request) in requests {
        let result = connection.ask(request, &Deadline::after(PATIENCE), &cancel, None).await.unwrap();
        assert_eq!(result.get(), format!(r#"{{"{key}":{KEPT}}}"#));
    }
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_cut_off_only_after_its_secrets_have_been_taken_out() {
    for dots in 260..300 {
        let said = called(Limits::default(), move |_, stream| {
            reply(stream, "500 No", &[], &format!("{} s3cret-token", ".".repeat(dots)))
        });
        let said = said.await;
        assert!(said.contains("HTTP 500") && !said.contains("s3c"), "{dots}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn escapes_hide_no_credential_in_http_errors() {
    for body in [
        r#"{"error":{"message":"not s3cret\u002Dtoken"}}"#,
        r#"{"error":{"message":"not s3cret\\u002Dtoken"}}"#,
        r#"not {"key": "\u00733cret\u002dtoken"}"#,
    ] {
        let said = called(Limits::default(), move |_, stream| reply(stream, "500 No", &[], body)).await;
        assert!(said.contains("HTTP 500") && said.contains("[Authorization]"), "{said}");
    }
    // Only its beginning is read, which ends within the credential.
    let begun = format!("{}. s3cret\\u002dtoken", "x".repeat(8 * 1024 - 9));
    let said = called(Limits::default(), move |_, stream| reply(stream, "500 No", &[], &begun)).await;
    assert!(said.contains("HTTP 500") && !said.contains("s3c"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_carries_the_headers_the_session_and_the_version_and_the_session_is_ended() {
    let fixture = HttpFixture::usual(|request, stream| match request.method.as_str() {
        "POST" => reply(stream, "200 OK", &[], &request.answer(json!({"content": []}))),
        _ => reply(stream, "405 No", &[], ""),
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    call(&upstream, "t", json!({})).await.unwrap();
    upstream.close().await;
    let requests = fixture.requests();
    assert_eq!(requests.last().unwrap().method, "DELETE");
    assert!(requests[0].is("server/discover") && requests[1].is("initialize"), "{requests:?}");
    for (index, request) in requests.iter().enumerate() {
        assert_eq!(request.header("authorization"), Some("Bearer s3cret-token"), "{request:?}");
        let expected = (index > 1).then_some("s1");
        assert_eq!(request.header("mcp-session-id"), expected, "{request:?}");
        let version = match index {
            0 => Some("2026-07-28"),
            1 => None,
            _ => Some("2025-11-25"),
        };
        assert_eq!(request.header("mcp-protocol-version"), version, "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_answer_is_an_error_that_says_so_and_whether_the_call_took_effect() {
    let limits = || Limits { server_line_bytes_max: 100_000, ..Limits::default() };
    let unknown = "; whether the call took effect is unknown";
    let said = called(limits(), |request, stream| {
        reply(
            stream,
            "200 OK",
            &[],
            &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"x":NaN}}}}"#, request.body["id"]),
        )
    });
    let said = said.await;
    assert!(said.contains("its answer cannot be read"), "{said}");
    let said = called(limits(), |_, stream| reply(stream, "200 OK", &[], "hello")).await;
    let no_answer = "server 'far' gave no answer: its reply is no answer to this request";
    assert_eq!(said, format!("{no_answer}: hello{unknown}"));
    let html =
        "<html><STYLE>p > b {}</STYLE><title>Down</title><script>if (a<b) {}</script><p>for\n<b>repairs</b>";
    let said =
        called(limits(), move |_, stream| reply(stream, "200 OK", &[("Content-Type", "text/html")], html));
    let said = said.await;
    assert!(said.ends_with(&format!(": Down for repairs{unknown}")), "{said}");
    let said = called(limits(), |_, stream| reply(stream, "202 Accepted", &[], "")).await;
    assert!(said.ends_with(unknown), "{said}");
    let said = called(limits(), |_, stream| reply(stream, "500 Oops", &[], "a \x1b[2Jbug")).await;
    assert!(said.contains("500") && said.ends_with(unknown) && !said.contains('\x1b'), "{said}");
    let said = called(limits(), |_, stream| reply(stream, "429 Slow down", &[], "")).await;
    assert!(said.contains("429") && said.ends_with("the call was not made"), "{said}");
    let said = called(limits(), |_, stream| reply(stream, "401 Who", &[], "")).await;
    assert!(said.starts_with("server 'far' wants other credentials: HTTP 401"), "{said}");
    let said = called(limits(), |_, stream| {
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{{\"id\""
        )
    })
    .await;
    assert!(said.ends_with(unknown), "dies in the middle: {said}");
    let said = called(limits(), |_, stream| events(stream, "data: {}\n\n")).await;
    assert!(said.contains("its stream ended before the answer"), "{said}");
    let data = "data: {\"detail\": \"plan is used up\"}\n\ndata: {\"method\": \"ping\", \"id\": 7}\n\n";
    let said = called(limits(), move |_, stream| events(stream, data)).await;
    assert!(said.contains("its stream ended before the answer: plan is used up; whether"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_an_http_error_survive_in_any_shape_and_without_secrets() {
    let bodies = [
        r#"{"detail": "plan is used up s3cret-token"}"#,
        r#"{"detail": [{"loc": ["body"], "msg": "plan is used up s3cret-token"}]}"#,
        r#"{"message": "plan is used up s3cret\u002dtoken"}"#,
        r#"{"error": "denied", "error_description": "plan is used up s3cret-token"}"#,
        r#"{"errors": [{"message": "plan is used up s3cret-token"}], "code": 7}"#,
        r#"["plan is used up s3cret-token"]"#,
        r#""plan is used up s3cret-token""#,
        r#"{"error": {"code": -32000, "message": "no", "data": {"why": "plan is used up s3cret-token"}}}"#,
        r#"{"detail": "plan is used up s3cret-token \ud83d"}"#,
        "plan is used up s3cret-token",
    ];
    for status in
        ["200 OK", "400 Bad", "401 Who", "403 No", "422 Odd", "429 Slow down", "500 Oops", "503 Later"]
    {
        for body in bodies {
            let said = called(Limits::default(), move |_, stream| reply(stream, status, &[], body)).await;
            assert!(said.contains("plan is used up") && said.contains("[Authorization]"), "{status}: {said}");
            assert!(!said.contains("s3cret"), "{status}: {said}");
            if status == "200 OK" && body.contains("code\": -32000") {
                continue;
            }
            let is_refused = status.starts_with('4');
            assert_eq!(said.ends_with("; the call was not made"), is_refused, "{said}");
            assert_eq!(said.ends_with("; whether the call took effect is unknown"), !is_refused, "{said}");
        }
        if status == "200 OK" {
            continue;
        }
        let challenge =
            [("WWW-Authenticate", "Bearer error=\"invalid_token\", error_description=\"it is old\"")];
        let said = called(Limits::default(), move |_, stream| reply(stream, status, &challenge, "{}")).await;
        assert!(said.contains("it is old") && !said.contains("{}"), "{status}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_sent_once_more_when_the_server_says_so_and_nothing_was_done() {
    for (status, tool, again, calls, end) in [
        ("429 Slow down", "t", "1", 2, "done"),
        ("429 Slow down", "read", "0.5", 2, "done"),
        ("503 Later", "read", "1", 2, "done"),
        ("503 Later", "t", "1", 1, "it can be asked again in 1 s; whether the call took effect is unknown"),
        ("429 Slow down", "t", "90000", 1, "it can be asked again in 90000 s; the call was not made"),
        ("429 Slow down", "t", "Wed, 21 Oct 1998 07:28:00 GMT", 2, "done"),
        ("429 Slow down", "t", "next Wednesday", 1, "again after next Wednesday; the call was not made"),
        ("429 Slow down, always", "t", "1", 2, "it can be asked again in 1 s; the call was not made"),
    ] {
        let count = AtomicUsize::new(0);
        let fixture = HttpFixture::usual(move |request, stream| {
            if !request.is("tools/call") {
                return reply(stream, "405 No", &[], "");
            }
            match count.fetch_add(1, Ordering::SeqCst) {
                0 => reply(stream, status, &[("Retry-After", again)], ""),
                _ if status.ends_with("always") => reply(stream, status, &[("Retry-After", again)], ""),
                _ => reply(stream, "200 OK", &[], &request.answer(json!({"content": [], "end": "done"}))),
            }
        });
        let upstream = upstream(&fixture.url, None, Limits::default());
        let said = match call(&upstream, tool, json!({})).await {
            Ok(result) => serde_json::from_str::<Value>(&result).unwrap()["end"].as_str().unwrap().to_owned(),
            Err(error) => format!("{error}{}", error.effect(Some(ToolEffect::MayWrite))),
        };
        assert!(said.ends_with(end), "{status} {again}: {said}");
        assert!(calls == 2 || said.contains(again), "{said}");
        assert_eq!(fixture.count("tools/call"), calls, "{status} {again}: {said}");
        upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_date_to_ask_again_at_is_named_in_seconds() {
    let date = "Wed, 21 Oct 2126 07:28:00 GMT";
    let said =
        called(Limits::default(), move |_, stream| reply(stream, "429 No", &[("Retry-After", date)], ""));
    let said = said.await;
    let seconds = said.split("it can be asked again in ").nth(1).and_then(|said| said.split(' ').next());
    let days = seconds.and_then(|seconds| seconds.parse::<u64>().ok()).expect(&said) / 86_400;
    assert!((25_000..40_000).contains(&days), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_no_time_at_its_start_is_asked_again_when_it_says() {
    let count = AtomicUsize::new(0);
    let fixture = HttpFixture::start(move |request, stream| match usual_answer(request) {
        _ if count.fetch_add(1, Ordering::SeqCst) < 2 => {
            reply(stream, "429 Slow down", &[("Retry-After", "1")], "")
        }
        Some(answer) => reply(stream, "200 OK", &[], &answer.to_string()),
        None => reply(stream, "202 Accepted", &[], ""),
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    assert_eq!(connected(&upstream).await.tools().len(), 1);
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_and_an_event_without_end_are_cut_off_at_the_bound() {
    let limits = || Limits { server_line_bytes_max: 100_000, ..Limits::default() };
    fn endless(stream: &mut TcpStream) -> std::io::Result<()> {
        loop {
            stream.write_all(&[b'x'; 4096])?;
        }
    }
    let expected =
        "server 'far' answered with more than 100000 bytes; whether the call took effect is unknown";
    let body = called(limits(), |_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
        endless(stream)
    });
    assert_eq!(body.await, expected);
    let event = called(limits(), |_, stream| {
        events(stream, "data: ")?;
        endless(stream)
    });
    assert_eq!(event.await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_another_origin_is_refused_and_gets_no_header() {
    let other = HttpFixture::start(|_, stream| reply(stream, "200 OK", &[], "{}"));
    for status in ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let to = other.url.clone();
        let fixture = HttpFixture::start(move |_, stream| reply(stream, status, &[("Location", &to)], ""));
        let upstream = upstream(&fixture.url, None, Limits::default());
        let error = call(&upstream, "t", json!({})).await.unwrap_err().to_string();
        assert!(error.contains("it redirects to http://127.0.0.1:"), "{error}");
        upstream.close().await;
    }
    assert_eq!(other.requests().len(), 0);
}

/// What becomes of two calls of a tool if the first one is answered so in the first session: both results, and how often
/// sessions were made and the tool was called.
async fn in_lost_session(
    (status, kind, body): (&'static str, &'static str, &'static str),
    reads: bool,
) -> ([Result<String, String>; 2], (usize, usize)) {
    let sessions = Arc::new(AtomicUsize::new(0));
    let made = Arc::clone(&sessions);
    let fixture = HttpFixture::start(move |request, stream| {
        if request.is("initialize") {
            let session = format!("s{}", made.fetch_add(1, Ordering::SeqCst));
            let answer = usual_answer(request).unwrap().to_string();
            return reply(stream, "200 OK", &[("Mcp-Session-Id", &session)], &answer);
        }
        match request.header("mcp-session-id") {
            _ if request.method == "GET" => reply(stream, "405 No", &[], ""),
            Some("s0") if request.is("tools/call") => {
                let body = body.replace("@id@", &request.body["id"].to_string());
                let length = body.len();
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{body}"
                )
            }
            Some(_) if request.is("tools/call") => {
                reply(stream, "200 OK", &[], &request.answer(json!({"content": []})))
            }
            _ => match usual_answer(request) {
                Some(answer) => reply(stream, "200 OK", &[], &answer.to_string()),
                None => reply(stream, "202 Accepted", &[], ""),
            },
        }
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    let mut results = Vec::new();
    for _ in 0..2 {
        let tool = if reads { "read" } else { "t" };
        results.push(call(&upstream, tool, json!({})).await.map_err(|error| error.to_string()));
    }
    upstream.close().await;
    let counts = (sessions.load(Ordering::SeqCst), fixture.count("tools/call"));
    (results.try_into().unwrap(), counts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_is_made_again_however_the_server_says_so_and_only_a_call_that_reads_is_repeated() {
    const JSON: &str = "application/json";
    const ERROR: &str =
        r#"{"jsonrpc":"2.0","id":@id@,"error":{"code":-32001,"message":"Session not found"}}"#;
    for lost in [
        ("404 Not Found", JSON, ""),
        ("410 Gone", JSON, ""),
        ("400 Bad Request", JSON, r#"{"error": "No valid session ID provided"}"#),
        (
            "503 Service Unavailable",
            JSON,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#,
        ),
        ("500 No", "text/plain", "no such Session"),
        ("409 Conflict", JSON, r#"{"message": "the session has expired"}"#),
        ("422 No", "text/html; charset=utf-8", "session abc does not exist"),
        ("422 No", JSON, ERROR),
        ("200 OK", JSON, ERROR),
        (
            "200 OK",
            "Text/Event-Stream;charset=utf-8",
            "data: {\"jsonrpc\":\"2.0\",\"id\":@id@,\"error\":{\"code\":-32600,\"message\":\"Session has been terminated\"}}\n\n",
        ),
        ("200 OK", JSON, r#"{"jsonrpc":"2.0","id":@id@,"error":{"code":-32001,"message":"Not found"}}"#),
    ] {
        let done = || Ok(r#"{"content":[]}"#.to_owned());
        let (results, counts) = in_lost_session(lost, true).await;
        assert_eq!((results, counts), ([done(), done()], (2, 3)), "{lost:?}");
        let ([refused, after], counts) = in_lost_session(lost, false).await;
        let said = refused.unwrap_err();
        assert!(said.contains("no longer knew its session") && said.ends_with("and has a new one"), "{said}");
        assert_eq!((after, counts), (done(), (2, 2)), "{lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tells_of_no_lost_session_makes_no_new_one() {
    const JSON: &str = "application/json";
    for other in [
        (
            "200 OK",
            JSON,
            r#"{"jsonrpc":"2.0","id":@id@,"result":{"isError":true,"content":[{"type":"text","text":"session not found"}]}}"#,
        ),
        (
            "200 OK",
            JSON,
            r#"{"jsonrpc":"2.0","id":@id@,"error":{"code":-32001,"message":"Request timed out"}}"#,
        ),
        (
            "200 OK",
            JSON,
            r#"{"jsonrpc":"2.0","id":@id@,"error":{"code":-32602,"message":"no such file: not found"}}"#,
        ),
        ("503 Busy", "text/plain", "too many sessions are open"),
        ("500 No", "text/plain", "not found"),
    ] {
        let (_, (sessions, calls)) = in_lost_session(other, true).await;
        assert_eq!((sessions, calls), (1, 2), "{other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_tools_are_heard_of_over_the_stream_between_requests() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let told = Mutex::new(told);
    let fixture = HttpFixture::usual(move |request, stream| match request.method.as_str() {
        "GET" => {
            events(stream, ": here\n\n")?;
            told.lock().unwrap().recv().ok();
            let changed = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
            stream.write_all(changed.as_bytes())?;
            std::thread::park_timeout(PATIENCE);
            Ok(())
        }
        _ => reply(stream, "200 OK", &[], &request.answer(json!({"content": []}))),
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    connected(&upstream).await;
    // The stream may have come after the first list, which counts as a change by itself.
    eventually("the stream is there", PATIENCE, || {
        fixture.requests().iter().any(|request| request.method == "GET")
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let connection = connected(&upstream).await;
    assert!(connection.is_current());
    tell.send(()).unwrap();
    eventually("the change is heard of", PATIENCE, || connection.has_news());
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_refused_for_now_is_asked_for_again() {
    let count = AtomicUsize::new(0);
    let fixture = HttpFixture::usual(move |request, stream| match request.method.as_str() {
        "GET" => match count.fetch_add(1, Ordering::SeqCst) {
            0 => reply(stream, "429 Slow down", &[("Retry-After", "1")], ""),
            1 => reply(stream, "429 Slow down", &[], ""),
            _ => reply(stream, "405 No", &[], ""),
        },
        _ => reply(stream, "202 Accepted", &[], ""),
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    connected(&upstream).await;
    eventually("the stream is asked for again", PATIENCE, || {
        fixture.requests().iter().filter(|request| request.method == "GET").count() == 3
    });
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_the_older_transport_is_initialized_at_once() {
    let (answers, to_send) = std::sync::mpsc::channel::<String>();
    let to_send = Mutex::new(to_send);
    let fixture = HttpFixture::start(move |request, stream| match request.method.as_str() {
        "GET" => {
            events(stream, "event: endpoint\ndata: /mcp\n\n")?;
            for answer in to_send.lock().unwrap().iter() {
                write!(stream, "data: {answer}\n\n")?;
            }
            Ok(())
        }
        _ => {
            if let Some(answer) = usual_answer(request) {
                answers.send(answer.to_string()).unwrap();
            }
            reply(stream, "202 Accepted", &[], "")
        }
    });
    let upstream = upstream(&fixture.url, Some(RemoteTransport::Sse), Limits::default());
    assert_eq!(connected(&upstream).await.tools().len(), 1);
    let posted: Vec<Value> =
        fixture.requests().into_iter().map(|request| request.body["method"].clone()).collect();
    assert_eq!(posted.iter().find(|method| !method.is_null()), Some(&json!("initialize")), "{posted:?}");
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_needs_a_task_is_called_as_one_and_cancelled_with_the_call() {
    let asked = AtomicUsize::new(0);
    let fixture = HttpFixture::start(move |request, stream| {
        let task = |status: &str| json!({"taskId": "k1", "status": status, "pollInterval": 100, "ttl": null});
        let params = &request.body["params"];
        let result = match request.body["method"].as_str().unwrap_or_default() {
            "tools/list" => json!({"tools": [
                {"name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
                {"name": "read", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
            ]}),
            "tools/call" if params["name"] == "read" && params["task"].is_null() => json!({"content": []}),
            "tools/call" if params["task"].is_object() => json!({"task": task("working")}),
            "tools/call" => return reply(stream, "400 No task", &[], ""),
            "tasks/get" if asked.fetch_add(1, Ordering::SeqCst) == 1 => task("completed"),
            "tasks/get" => task("working"),
            "tasks/result" => json!({"content": [{"type": "text", "text": "of the task"}]}),
            "tasks/cancel" => json!({}),
            _ => match usual_answer(request) {
                Some(answer) => return reply(stream, "200 OK", &[], &answer.to_string()),
                None => return reply(stream, "202 Accepted", &[], ""),
            },
        };
        assert!(!request.body["method"].as_str().unwrap().starts_with("tasks/") || params["taskId"] == "k1");
        reply(stream, "200 OK", &[], &request.answer(result))
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    assert_eq!(call(&upstream, "read", json!({})).await.unwrap(), r#"{"content":[]}"#);
    let result = call(&upstream, "t", json!({"a": 1})).await.unwrap();
    assert!(result.contains("of the task"), "{result}");
    assert_eq!((fixture.count("tasks/get"), fixture.count("tasks/cancel")), (2, 0));
    let late = call_within(&upstream, "t", json!({}), Duration::from_millis(600)).await.unwrap_err();
    assert!(matches!(late, UpstreamError::Deadline { .. }), "{late}");
    eventually("the task is cancelled", PATIENCE, || fixture.count("tasks/cancel") == 1);
    assert_eq!(fixture.count("tasks/result"), 1);
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_names_the_address_to_write_without_what_may_be_secret() {
    for (to, named) in [
        ("/new/place?key=1#x", "/new/place (HTTP 301)"),
        ("https://me:pw@other.test/s3cret-token/mcp", "https://other.test/[Authorization]/mcp (HTTP 301)"),
    ] {
        let said =
            called(Limits::default(), move |_, stream| reply(stream, "301 Moved", &[("Location", to)], ""));
        let said = said.await;
        assert!(said.contains(named) && !said.contains("key=1") && !said.contains("pw"), "{said}");
        assert!(said.contains("write that address into its entry"), "{said}");
    }
    // An entry with that address works.
    let moved = HttpFixture::usual(|request, stream| {
        reply(stream, "200 OK", &[], &request.answer(json!({"content": []})))
    });
    let to = moved.url.clone();
    let said = called(Limits::default(), {
        let to = to.clone();
        move |_, stream| reply(stream, "301 Moved", &[("Location", &to)], "")
    });
    assert!(said.await.contains(&format!("redirects to {to} (HTTP 301)")), "{to}");
    let upstream = upstream(&to, None, Limits::default());
    assert_eq!(call(&upstream, "t", json!({})).await.unwrap(), r#"{"content":[]}"#);
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_may_have_said_before_it_was_listened_to_counts_as_said() {
    let is_listed = Arc::new(AtomicBool::new(false));
    let listed = Arc::clone(&is_listed);
    let fixture = HttpFixture::start(move |request, stream| {
        if request.method == "GET" {
            while !listed.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            events(stream, ": here\n\n")?;
            std::thread::park_timeout(PATIENCE);
            return Ok(());
        }
        match usual_answer(request) {
            Some(answer) => reply(stream, "200 OK", &[], &answer.to_string()),
            None => reply(stream, "202 Accepted", &[], ""),
        }
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    let connection = connected(&upstream).await;
    assert!(connection.is_current());
    is_listed.store(true, Ordering::SeqCst);
    eventually("the stream that came late makes the list old", PATIENCE, || connection.has_news());
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_costs_the_call_its_time_and_not_the_other_calls() {
    let fixture = HttpFixture::usual(|request, stream| match request.method.as_str() {
        "POST" if request.body["params"]["arguments"]["slow"] == true => {
            std::thread::park_timeout(PATIENCE);
            Ok(())
        }
        "POST" => reply(stream, "200 OK", &[], &request.answer(json!({"content": []}))),
        _ => reply(stream, "405 No", &[], ""),
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    connected(&upstream).await;
    let slow = call_within(&upstream, "t", json!({"slow": true}), Duration::from_millis(300));
    let (slow, quick) = tokio::join!(slow, call(&upstream, "t", json!({})));
    assert!(matches!(slow, Err(UpstreamError::Deadline { .. })), "{slow:?}");
    assert_eq!(quick.unwrap(), r#"{"content":[]}"#);
    // A message of its own, which nobody waits for.
    let told = async {
        while fixture.count("notifications/cancelled") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("the server is told that nobody waits");
    upstream.close().await;
    assert_eq!(fixture.count("notifications/cancelled"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_that_names_another_origin_gets_nothing_there() {
    let other = HttpFixture::start(|_, stream| reply(stream, "202 Accepted", &[], ""));
    let to = other.url.clone();
    let fixture = HttpFixture::start(move |request, stream| match request.method.as_str() {
        "GET" => events(stream, &format!("event: endpoint\ndata: {to}\n\n")),
        _ => reply(stream, "405 No", &[], ""),
    });
    let upstream = upstream(&fixture.url, None, Limits::default());
    let error = call(&upstream, "t", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("it names another origin"), "{error}");
    assert_eq!(other.requests().len(), 0);
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_said_without_the_secrets_of_the_address() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/?key=s3cret-key");
    let upstream = upstream(&url, None, Limits::default());
    let error = call(&upstream, "t", json!({})).await.unwrap_err().to_string();
    assert!(error.starts_with("server 'far' did not start: ") && !error.contains("s3cret"), "{error}");
    upstream.close().await;
}
