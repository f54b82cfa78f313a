//! A model's endpoint, over real sockets: what is sent there, and what becomes of each answer and of none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belljar::models::{Endpoint, ModelAnswer, ModelError, ModelRequest, Usage};
use serde_json::{Value, json};

use crate::support::PATIENCE;
use crate::support::http_fixture::{HttpFixture, Request, reply};

const KEY: &str = "sk-s3cret-key";

fn asked() -> ModelRequest {
    ModelRequest { system: None, prompt: "2+2?".into(), max_tokens: 5, temperature: None }
}

fn endpoint(fixture: &HttpFixture, key: Option<&str>) -> Endpoint {
    Endpoint::new(&fixture.url.replace("/mcp", "/v1").parse().unwrap(), "m", key, 10_000).unwrap()
}

async fn ask(endpoint: &Endpoint) -> Result<ModelAnswer, ModelError> {
    endpoint.ask(&asked(), || PATIENCE).await
}

fn completion(text: &str) -> String {
    json!({"model": "m-1", "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 1}})
    .to_string()
}

/// What becomes of a question that is answered so, each time.
async fn failure(
    script: impl Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> (String, usize) {
    let fixture = HttpFixture::start(script);
    let said = ask(&endpoint(&fixture, Some(KEY))).await.unwrap_err().to_string();
    let origin = fixture.url.replace("/mcp", "");
    assert!(!said.contains(KEY), "{said}");
    (said.replace(&origin, "ORIGIN"), fixture.requests().len())
}

fn error(message: &str) -> String {
    json!({"error": {"message": message}}).to_string()
}

#[tokio::test]
async fn the_question_goes_there_with_the_key_and_the_answer_comes_back() {
    let fixture = HttpFixture::start(|_, out| reply(out, "200 OK", &[], &completion("4")));
    for base in ["/v1", "/v1/"] {
        let url = fixture.url.replace("/mcp", base).parse().unwrap();
        let endpoint = Endpoint::new(&url, "m", Some(KEY), 10_000).unwrap();
        assert!(!format!("{endpoint:?}").contains(KEY));
        let usage = Usage { prompt_tokens: 7, completion_tokens: 1 };
        assert_eq!(
            ask(&endpoint).await.unwrap(),
            ModelAnswer {
                text: "4".into(),
                model: Some("m-1".into()),
                stop_reason: Some("end_turn".into()),
                usage: Some(usage)
            }
        );
        let request = fixture.requests().pop().unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/chat/completions"));
        assert_eq!(request.header("authorization"), Some("Bearer sk-s3cret-key"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        let messages = json!([{"role": "user", "content": "2+2?"}]);
        assert_eq!(request.body, json!({"model": "m", "messages": messages, "max_tokens": 5}));
    }
    ask(&endpoint(&fixture, None)).await.unwrap();
    assert_eq!(fixture.requests().pop().unwrap().header("authorization"), None);
}

#[tokio::test]
async fn a_key_that_the_model_repeats_is_not_repeated_to_code() {
    let fixture = HttpFixture::start(|_, out| reply(out, "200 OK", &[], &completion("sk-s3cret-key!")));
    assert_eq!(ask(&endpoint(&fixture, Some(KEY))).await.unwrap().text, "[model.key]!");
    // Nor what the address has in the place of one.
    let fixture = HttpFixture::start(|request, out| reply(out, "200 OK", &[], &completion(&request.path)));
    let url =
        fixture.url.replace("/mcp", "/0123456789abcdef/v1?key=fedcba9876543210&version=2").parse().unwrap();
    let endpoint = Endpoint::new(&url, "m", None, 10_000).unwrap();
    let asked = "/[model.endpoint]/v1/chat/completions?key=[model.endpoint]&version=2";
    assert_eq!(ask(&endpoint).await.unwrap().text, asked);
}

#[tokio::test]
async fn who_is_busy_is_asked_again_once_it_has_had_its_time() {
    let times = AtomicUsize::new(0);
    let fixture = HttpFixture::start(move |_, out| match times.fetch_add(1, Ordering::Relaxed) {
        0 => reply(out, "429 Too Many Requests", &[("Retry-After", "1")], &error("slow down")),
        1 => reply(out, "503 Service Unavailable", &[], ""),
        _ => reply(out, "200 OK", &[], &completion("4")),
    });
    let began = Instant::now();
    assert_eq!(ask(&endpoint(&fixture, None)).await.unwrap().text, "4");
    // What it asked for, and a pause of ours, of which none is shorter than a second.
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(fixture.requests().len(), 3);
}

#[tokio::test]
async fn who_stays_busy_is_left_alone_and_said_to_be() {
    let (said, times) = failure(|_, out| {
        reply(out, "429 Too Many Requests", &[("Retry-After", "3600")], &error("come back later"))
    })
    .await;
    assert_eq!(
        (said.as_str(), times),
        ("the model's endpoint ORIGIN did not answer, asked once: HTTP 429: come back later", 1)
    );
    let fixture = HttpFixture::start(|_, out| reply(out, "500 Oops", &[], &error("oops")));
    let endpoint = endpoint(&fixture, None);
    // The second pause would be longer.
    let said = endpoint.ask(&asked(), || Duration::from_millis(600)).await.unwrap_err().to_string();
    assert!(said.ends_with(" did not answer, asked 2 times: HTTP 500: oops"), "{said}");
    assert_eq!(fixture.requests().len(), 2);
}

#[tokio::test]
async fn each_answer_that_is_none_is_said_and_asked_for_once() {
    let all: [(&'static str, String, &str); 9] = [
        (
            "401 Unauthorized",
            error("Incorrect API key provided: sk-s3cret-key\u{1b}[2J"),
            "ORIGIN refuses the key: HTTP 401: Incorrect API key provided: [model.key]\\x1b[2J",
        ),
        ("403 Forbidden", String::new(), "ORIGIN refuses the key: HTTP 403"),
        ("404 Not Found", error("no model m"), "ORIGIN refuses the request: HTTP 404: no model m"),
        ("400 Bad Request", "<html>".into(), "ORIGIN refuses the request: HTTP 400"),
        (
            "429 Too Many Requests",
            json!({"error": {"message": "pay first", "code": "insufficient_quota"}}).to_string(),
            "ORIGIN refuses the request: HTTP 429: pay first",
        ),
        ("200 OK", "<html>".into(), "ORIGIN cannot be understood: its answer is no JSON"),
        ("200 OK", "{}".into(), "ORIGIN cannot be understood: its answer is no chat completion"),
        ("200 OK", completion(&"x".repeat(10_000)), "ORIGIN answers with more than 10000 bytes"),
        (
            "302 Found",
            String::new(),
            "ORIGIN refuses the request: HTTP 302: it redirects to http://127.0.0.1:9, which is not followed",
        ),
    ];
    for (status, body, expected) in all {
        let (said, times) = failure(move |_, out| {
            reply(out, status, &[("Location", "http://127.0.0.1:9/v1?token=t")], &body)
        })
        .await;
        assert_eq!((said, times), (format!("the model's endpoint {expected}"), 1));
    }
    let (said, times) = failure(|_, out| {
        write!(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{{")
    })
    .await;
    assert_eq!(
        (said.as_str(), times),
        ("the model's endpoint ORIGIN gave no whole answer: it ended too early", 1)
    );
    let (said, times) = failure(|_, _| Ok(())).await;
    assert!(said.starts_with("the model's endpoint ORIGIN gave no whole answer: "), "{said}");
    assert_eq!(times, 1, "what was sent may have been answered, and paid for");
}

#[tokio::test]
async fn nobody_there_is_said_and_nobody_else_gets_the_key() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/v1").parse().unwrap();
    let error = ask(&Endpoint::new(&url, "m", Some(KEY), 10_000).unwrap()).await.unwrap_err();
    assert!(matches!(error, ModelError::NotReached { .. }), "{error:?}");

    let other = HttpFixture::start(|_, out| reply(out, "200 OK", &[], &completion("mine")));
    let (to, within) = (other.url.clone(), Arc::new(Mutex::new("/v2")));
    let way = Arc::clone(&within);
    let fixture = HttpFixture::start(move |request, out| match request.path.as_str() {
        "/v2" => reply(out, "200 OK", &[], &completion("4")),
        _ => {
            let to =
                if way.lock().unwrap().is_empty() { to.clone() } else { (*way.lock().unwrap()).to_owned() };
            reply(out, "307 Temporary Redirect", &[("Location", &to)], "")
        }
    });
    let endpoint = endpoint(&fixture, Some(KEY));
    assert_eq!(ask(&endpoint).await.unwrap().text, "4");
    let request = fixture.requests().pop().unwrap();
    assert_eq!((request.method.as_str(), &request.body["max_tokens"]), ("POST", &json!(5)));
    *within.lock().unwrap() = "";
    let said = ask(&endpoint).await.unwrap_err().to_string();
    assert!(said.contains("HTTP 307: it redirects to http://127.0.0.1:"), "{said}");
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn who_calls_the_bound_by_its_newer_name_is_given_that() {
    let fixture = HttpFixture::start(|request, out| match &request.body["max_completion_tokens"] {
        Value::Null => {
            let said = "'max_tokens' is not supported, use 'max_completion_tokens' instead";
            reply(out, "400 Bad Request", &[], &error(said))
        }
        _ => reply(out, "200 OK", &[], &completion("4")),
    });
    let endpoint = endpoint(&fixture, None);
    for requests in [2, 3] {
        assert_eq!(ask(&endpoint).await.unwrap().text, "4");
        assert_eq!(fixture.requests().len(), requests);
    }
}

#[tokio::test]
async fn who_gives_up_hangs_up() {
    let (gone, has_gone) = channel();
    let (came, has_come) = tokio::sync::mpsc::unbounded_channel();
    let mut has_come = has_come;
    let fixture = HttpFixture::start(move |_, out| {
        came.send(()).unwrap();
        let end = out.read(&mut [0]);
        gone.send(end.is_ok_and(|bytes| bytes == 0)).unwrap();
        Ok(())
    });
    let endpoint = endpoint(&fixture, None);
    tokio::select! {
        said = ask(&endpoint) => panic!("{said:?}"),
        come = has_come.recv() => assert!(come.is_some()),
    }
    let hung_up = tokio::task::spawn_blocking(move || has_gone.recv_timeout(PATIENCE));
    assert_eq!(hung_up.await.unwrap(), Ok(true));
}
