//! Servers whose messages have odd members: each member of each message missing, null, empty, of another type, or with half
//! a character. The rest of the message is used, or what is left out is named. Nothing hangs, no server is lost, and no
//! text has words of the program's own types.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_upstream::{
    Connection, Inherited, ListKind, ProcessSpec, RemoteSpec, Request, ServerSpec, ServerTransport, Upstream,
};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::deadline::Deadline;
use crate::session;
use crate::support::PATIENCE;
use crate::support::fixture::Fixture;
use crate::support::http_fixture::{HttpFixture, events, reply};

/// Half of a surrogate pair, as JSON has it in a string. This stands for it in a [`Value`].
const HALF: &str = "@half@";
/// Connections that are opened at once.
const AT_ONCE: usize = 8;
/// Words of Rust and of its parsers, which say nothing to people.
const OWN_WORDS: [&str; 12] = [
    "Some(",
    "None",
    "Ok(",
    "Err(",
    "JsonRpc",
    "Result {",
    "invalid type",
    "missing field",
    "expected value",
    "untagged",
    "did not match",
    "unexpected response",
];

/// The lines that answer the requests of one method, in order.
type Answers = HashMap<&'static str, Vec<Vec<String>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Stdio,
    /// With each answer in a stream of events.
    Http,
    /// With each answer as a body in JSON.
    Json,
}

/// A server that answers so.
struct Odd {
    upstream: Upstream,
    /// What stdio needs until the end.
    stdio: Option<(Fixture, tempfile::TempDir)>,
    /// The messages of belljar over HTTP.
    posted: Arc<Mutex<Vec<Value>>>,
}

/// A message with one odd member, and what is odd in it.
#[derive(Clone, Debug)]
struct Case {
    what: String,
    line: String,
}

fn name() -> ServerName {
    ServerName::new("odd").unwrap()
}

impl Odd {
    fn start(over: Over, answers: &Answers) -> Self {
        let posted = Arc::<Mutex<Vec<Value>>>::default();
        let (transport, stdio) = match over {
            Over::Stdio => {
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("answers.json");
                std::fs::write(&file, serde_json::to_vec(answers).unwrap()).unwrap();
                let fixture = Fixture::new(&["--answers", file.to_str().unwrap()]);
                let args = fixture.entry()["args"].as_array().unwrap().clone();
                let process = ProcessSpec {
                    program: Fixture::program(),
                    searched: false,
                    args: args.iter().map(|arg| arg.as_str().unwrap().to_owned()).collect(),
                    env: vec![],
                    inherited: Inherited::All,
                    cwd: None,
                    keeper: None,
                    projects: vec![],
                    sandbox: None,
                    private: belljar_confine::PrivatePlaces::default(),
                    changeable: belljar_upstream::PlacesNow::default(),
                };
                (ServerTransport::Process(process), Some((fixture, folder)))
            }
            Over::Http | Over::Json => {
                let (answers, counts) = (answers.clone(), Mutex::<HashMap<String, AtomicUsize>>::default());
                let kept = Arc::clone(&posted);
                let fixture = HttpFixture::start(move |request, stream| {
                    let body = &request.body;
                    kept.lock().unwrap().push(body.clone());
                    let (Some(id), Some(method)) = (body.get("id"), body["method"].as_str()) else {
                        let status = if body.is_null() { "405 No" } else { "202 Accepted" };
                        return reply(stream, status, &[], "");
                    };
                    let count = counts
                        .lock()
                        .unwrap()
                        .entry(method.to_owned())
                        .or_default()
                        .fetch_add(1, Ordering::Relaxed);
                    let no_such =
                        [json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
                            .to_string()];
                    let lines =
                        answers.get(method).map_or(&no_such[..], |all| &all[count.min(all.len() - 1)]);
                    let mut lines = lines.iter().map(|line| line.replace("@id@", &id.to_string()));
                    match over {
                        Over::Json => reply(stream, "200 OK", &[], &lines.next().unwrap_or_default()),
                        _ => {
                            events(stream, &lines.map(|line| format!("data: {line}\n\n")).collect::<String>())
                        }
                    }
                });
                let url = fixture.url.parse().unwrap();
                (
                    ServerTransport::Remote(RemoteSpec {
                        url,
                        transport: None,
                        headers: vec![],
                        login: None,
                    }),
                    None,
                )
            }
        };
        let upstream = Upstream::new(vec![ServerSpec::new(name(), transport)], &Arc::new(Limits::default()));
        Self { upstream, stdio, posted }
    }

    async fn connected(&self) -> Result<Arc<Connection>, String> {
        let connected = self
            .upstream
            .connect(&name(), &session(), Instant::now() + PATIENCE, &CancellationToken::new())
            .await;
        connected.map_err(|error| error.to_string())
    }

    /// The messages that belljar has sent.
    fn sent(&self) -> Vec<Value> {
        match &self.stdio {
            Some((fixture, _)) => {
                fixture.ledger().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
            }
            None => self.posted.lock().unwrap().clone(),
        }
    }
}

async fn ask(connection: &Connection, request: Request) -> Result<String, String> {
    let (late, cancel) = (Deadline::after(PATIENCE), CancellationToken::new());
    let asked = connection.ask(request, &late, &cancel, None);
    Ok(in_time(asked).await.map_err(|error| error.to_string())?.get().to_owned())
}

fn tool() -> Request {
    Request::Tool { name: "t".into(), arguments: Map::new(), only_reads: false }
}

/// What must not hang.
async fn in_time<T>(coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming).await.expect("it hangs")
}

/// The message with each of its members odd in each way.
fn cases(template: &Value) -> Vec<Case> {
    let mut paths = Vec::new();
    collect(template, String::new(), &mut paths);
    let odd = [Value::Null, json!([]), json!({}), json!("x"), json!(5_000_000), json!(HALF)];
    let mut cases = Vec::new();
    for path in paths {
        let (parent, key) = path.rsplit_once('/').unwrap();
        let mut without = template.clone();
        match without.pointer_mut(parent).unwrap() {
            Value::Object(members) => drop(members.shift_remove(key)),
            Value::Array(items) => drop(items.remove(0)),
            _ => unreachable!("only these have members"),
        }
        cases.push(Case { what: format!("{path} missing"), line: written(&without) });
        for value in &odd {
            let mut other = template.clone();
            *other.pointer_mut(&path).unwrap() = value.clone();
            cases.push(Case { what: format!("{path} {value}"), line: written(&other) });
        }
    }
    cases
}

/// The paths of all members, and of the first item of each list.
fn collect(value: &Value, path: String, paths: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(key, member)| (key.clone(), member)).collect(),
        Value::Array(items) => items.first().map(|item| ("0".to_owned(), item)).into_iter().collect(),
        _ => vec![],
    };
    for (key, member) in members {
        let path = format!("{path}/{key}");
        paths.push(path.clone());
        collect(member, path, paths);
    }
}

/// As the server writes it: `@id@` is the id of the request, as a number.
fn written(message: &Value) -> String {
    message.to_string().replace("\"@id@\"", "@id@").replace(HALF, "\\ud83d")
}

fn answer(result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "@id@", "result": result})
}

fn initialized() -> Value {
    answer(json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {
            "tools": {"listChanged": true},
            "resources": {"subscribe": true},
            "prompts": {"listChanged": true},
            "logging": {},
        },
        "serverInfo": {"name": "odd", "title": "Odd", "version": "1"},
        "instructions": "none",
    }))
}

fn listed() -> Value {
    answer(json!({
        "tools": [{
            "name": "t", "title": "T", "description": "d", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
            "outputSchema": {"type": "object"}, "_meta": {},
        }, {"name": "u", "inputSchema": {}}],
        "nextCursor": null, "ttlMs": 60_000,
    }))
}

fn usual() -> Answers {
    let done = answer(json!({"content": [{"type": "text", "text": "done"}]}));
    [("initialize", initialized()), ("tools/list", listed()), ("tools/call", done)]
        .map(|(method, answer)| (method, vec![vec![written(&answer)]]))
        .into()
}

/// No words that only a programmer of belljar understands.
fn check_words(what: &str, said: &str) {
    for word in OWN_WORDS {
        assert!(!said.contains(word), "{what}: {said}");
    }
}

/// Opens a connection for each case, several at once.
async fn connect_each(
    method: &'static str,
    cases: Vec<Case>,
    check: impl Fn(&str, Result<Vec<String>, String>, Option<String>),
) {
    let cases = cases.into_iter().flat_map(|case| [(Over::Stdio, case.clone()), (Over::Http, case)]);
    let opened = cases.map(|(over, case)| async move {
        let mut answers = usual();
        answers.insert(method, vec![vec![case.line.clone()]]);
        let odd = Odd::start(over, &answers);
        let what = format!("{over:?} {method} {}: {}", case.what, case.line);
        let tools = in_time(odd.connected()).await.map(|connection| {
            connection
                .tools()
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        });
        let unread = odd.upstream.unread(&name(), None);
        odd.upstream.close().await;
        (what, tools, unread)
    });
    let mut opened = futures_util::stream::iter(opened).buffer_unordered(AT_ONCE);
    let mut count = 0;
    while let Some((what, tools, unread)) = opened.next().await {
        for said in tools.as_ref().err().into_iter().chain(&unread) {
            check_words(&what, said);
        }
        check(&what, tools, unread);
        count += 1;
    }
    assert!(count > 50, "{count} cases are too few");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_whatever_member_of_its_answer_to_initialize_is_odd() {
    connect_each("initialize", cases(&initialized()), |what, tools, _| {
        let offers_none = ["/tools missing", "/tools null", "/capabilities []", "/capabilities {}"];
        match tools {
            Ok(tools) if offers_none.iter().any(|odd| what.contains(odd)) => {
                assert!(tools.is_empty(), "{what}")
            }
            Ok(tools) => assert_eq!(tools, ["t", "u"], "{what}"),
            Err(said) => {
                assert!(what.contains("/result missing"), "{what}: {said}");
                assert!(said.contains("neither a result nor an error"), "{said}");
            }
        }
    })
    .await;
    let with_error =
        json!({"jsonrpc": "2.0", "id": "@id@", "error": "@error@", "result": initialized()["result"]});
    for (error, refuses) in
        [("null", false), ("{}", false), ("[]", false), (r#"{"code":7,"message":"busy"}"#, true)]
    {
        let mut answers = usual();
        answers.insert("initialize", vec![vec![written(&with_error).replace("\"@error@\"", error)]]);
        let odd = Odd::start(Over::Stdio, &answers);
        let connected = in_time(odd.connected()).await.map(|_| ());
        assert_eq!(connected.is_err(), refuses, "{error}: {connected:?}");
        assert!(connected.err().is_none_or(|said| said.contains("busy")));
        odd.upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_whatever_member_of_its_answer_to_discover_is_odd() {
    let discovered = answer(json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "instructions": "none", "ttlMs": 0, "cacheScope": "private", "_meta": {},
    }));
    connect_each("server/discover", cases(&discovered), |what, tools, _| {
        let offers_none = ["/tools missing", "/tools null", "/capabilities []", "/capabilities {}"];
        match offers_none.iter().any(|odd| what.contains(odd)) {
            true => assert!(tools.unwrap().is_empty(), "{what}"),
            false => assert_eq!(tools.as_deref(), Ok(&["t".to_owned(), "u".to_owned()][..]), "{what}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_whatever_it_answers_to_the_level_of_its_messages() {
    connect_each("logging/setLevel", cases(&answer(json!({"_meta": {}}))), |what, tools, _| {
        assert_eq!(tools.as_deref(), Ok(&["t".to_owned(), "u".to_owned()][..]), "{what}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_tools_has_each_that_can_be_read_and_the_others_are_named() {
    connect_each("tools/list", cases(&listed()), |what, tools, unread| {
        let tools = tools.unwrap_or_else(|said| panic!("{what}: {said}"));
        let (is_whole, is_named) = (tools.len() == 2, unread.is_some());
        // An item that is not there was not left out.
        let is_short = ["/tools/0 missing", "/tools []", "/tools null", "/tools {}", "\"tools\":[]"];
        let is_short = is_short.iter().any(|odd| what.contains(odd));
        assert!(is_whole || is_named || is_short, "{what}: {tools:?}");
        assert!(!is_whole || tools.last().is_some_and(|last| last == "u"), "{what}: {tools:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_with_nan_and_a_list_that_goes_on_with_a_number_are_read() {
    let mut answers = usual();
    let page = |item: &str, next: &str| {
        vec![format!(r#"{{"jsonrpc":"2.0","id":@id@,"result":{{"tools":[{item}],"nextCursor":{next}}}}}"#)]
    };
    let odd_pages = vec![
        page(r#"{"name":"a","inputSchema":{"properties":{"x":{"default":NaN}}}}, 5, {"title":"b"}"#, "2"),
        page(r#"{"name":"a"}, {"name":"c"}"#, "true"),
    ];
    answers.insert("tools/list", odd_pages);
    let odd = Odd::start(Over::Stdio, &answers);
    let tools = odd.connected().await.unwrap().tools();
    assert_eq!(tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(
        odd.upstream.unread(&name(), None).unwrap(),
        "left out of its list: item 2 (it has no name), item 3 (it has no name), item 4 (its name is another tool's, \
         too), further pages, since its nextCursor is no text"
    );
    odd.upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_what_the_server_sent_or_an_error_that_says_why_not() {
    let resource = json!({"uri": "x://a", "name": "a", "mimeType": "text/plain"});
    let kinds = [
        (
            "tools/call",
            json!({
                "content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 1}, "isError": false, "_meta": {},
            }),
        ),
        ("resources/read", json!({"contents": [{"uri": "x://a", "mimeType": "text/plain", "text": "a"}]})),
        (
            "prompts/get",
            json!({
                "description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": "a"}}],
            }),
        ),
        ("resources/list", json!({"resources": [resource], "nextCursor": ""})),
        ("resources/templates/list", json!({"resourceTemplates": [{"uriTemplate": "x://{a}", "name": "a"}]})),
        ("prompts/list", json!({"prompts": [{"name": "a", "arguments": [{"name": "b", "required": true}]}]})),
    ];
    for over in [Over::Stdio, Over::Http, Over::Json] {
        let mut answers = usual();
        let kinds = kinds.clone().map(|(method, result)| (method, cases(&answer(result))));
        for (method, cases) in &kinds {
            answers.insert(method, cases.iter().map(|case| vec![case.line.clone()]).collect());
        }
        let odd = Odd::start(over, &answers);
        let connection = odd.connected().await.unwrap();
        for (method, cases) in &kinds {
            for case in cases {
                let what = format!("{over:?} {method} {}: {}", case.what, case.line);
                let cancel = CancellationToken::new();
                let late = Deadline::after(PATIENCE);
                let list = |kind| connection.list(kind, &late, &cancel);
                let asked = match *method {
                    "tools/call" => ask(&connection, tool()).await,
                    "resources/read" => ask(&connection, Request::Resource { uri: "x://a".into() }).await,
                    "prompts/get" => {
                        ask(&connection, Request::Prompt { name: "a".into(), arguments: Map::new() }).await
                    }
                    listing => {
                        let listed = in_time(list(match listing {
                            "resources/list" => ListKind::Resources,
                            "prompts/list" => ListKind::Prompts,
                            _ => ListKind::ResourceTemplates,
                        }));
                        let listed = listed.await.map_err(|error| error.to_string());
                        listed.map(|(items, lacks)| format!("{items:?} {}", lacks.unwrap_or_default()))
                    }
                };
                match &asked {
                    // To the byte, half characters included.
                    Ok(result) if !method.ends_with("/list") => {
                        assert!(case.line.contains(result.as_str()), "{what}: {result}");
                    }
                    Ok(_) => {}
                    Err(said) => {
                        check_words(&what, said);
                        // An answer with the number of no request may be another request's.
                        let is_lost = case.what.starts_with("/id ");
                        let is_about =
                            is_lost || case.what.starts_with("/result ") || method.ends_with("/list");
                        assert!(is_about, "{what}: {said}");
                        let why = [
                            "is no object",
                            "is no list",
                            "is missing",
                            "neither a result nor an error",
                            if is_lost { "gave no answer" } else { "is missing" },
                        ];
                        assert!(why.iter().any(|why| said.contains(why)), "{what}: {said}");
                    }
                }
            }
        }
        assert!(!connection.is_dead());
        odd.upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_followed_to_its_result_or_an_error_that_says_why_not() {
    let kinds = [
        ("tools/call", json!({"task": task("working"), "_meta": {}})),
        ("tasks/get", task("completed")),
        ("tasks/get", task("cancelled")),
        ("tasks/result", done_task()),
    ];
    // Each waits for its tasks, so all go on at once.
    let follow = |over| kinds.iter().map(move |(method, result)| follow_odd_tasks(over, method, result));
    let (stdio, http) = (follow(Over::Stdio), follow(Over::Http));
    futures_util::future::join_all(stdio.chain(http)).await;
}

fn task(status: &str) -> Value {
    json!({"taskId": "k", "status": status, "statusMessage": "m", "pollInterval": 1, "ttl": null, "_meta": {}})
}

fn done_task() -> Value {
    json!({"content": [{"type": "text", "text": "done"}], "_meta": {}})
}

/// Calls a tool as a task for each odd form that one of the answers about the task can have.
async fn follow_odd_tasks(over: Over, method: &'static str, odd_result: &Value) {
    let mut answers = usual();
    for (method, result) in [
        ("tools/list", json!({"tools": [{"name": "t", "execution": {"taskSupport": "required"}}]})),
        ("tools/call", json!({"task": task("working")})),
        ("tasks/get", task("completed")),
        ("tasks/result", done_task()),
    ] {
        answers.insert(method, vec![vec![written(&answer(result))]]);
    }
    // Where this is the pause, it is waited for.
    let cases = cases(&answer(odd_result.clone())).into_iter();
    let cases: Vec<Case> = cases.filter(|case| !case.what.ends_with("pollInterval 5000000")).collect();
    answers.insert(method, cases.iter().map(|case| vec![case.line.clone()]).collect());
    let odd = Odd::start(over, &answers);
    let connection = odd.connected().await.unwrap();
    for case in &cases {
        let what = format!("{over:?} {method} {}: {}", case.what, case.line);
        match ask(&connection, tool()).await {
            Ok(result) => {
                let is_own = result.contains("done") || case.line.contains(result.as_str());
                assert!(is_own && !result.contains("taskId"), "{what}: {result}");
            }
            Err(said) => {
                check_words(&what, &said);
                let why = [
                    "its task has no taskId",
                    "its task has no status",
                    "it cancelled its task",
                    "neither a result nor an error",
                    "is no object",
                    if case.what.starts_with("/id ") { "gave no answer" } else { "is missing" },
                ];
                assert!(why.iter().any(|why| said.contains(why)), "{what}: {said}");
            }
        }
    }
    assert!(!connection.is_dead());
    odd.upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_asks_before_it_answers_is_read_or_its_call_fails_alone() {
    let asks = json!({
        "resultType": "input_required", "inputRequests": {"q": {"method": "roots/list", "params": {}}},
        "requestState": "s", "_meta": {},
    });
    let cases = cases(&answer(asks));
    for over in [Over::Stdio, Over::Http] {
        let mut answers = usual();
        let done = answers["tools/call"][0].clone();
        answers.insert(
            "tools/call",
            cases.iter().flat_map(|case| [vec![case.line.clone()], done.clone()]).collect(),
        );
        let odd = Odd::start(over, &answers);
        odd.upstream.offer_roots(&["/srv".into()]);
        let connection = odd.connected().await.unwrap();
        let calls = || odd.sent().iter().filter(|sent| sent["method"] == "tools/call").count();
        for (number, case) in cases.iter().enumerate() {
            let what = format!("{over:?} {}: {}", case.what, case.line);
            let result = ask(&connection, tool()).await;
            let is_repeated = calls() == 2 * number + 2;
            match result {
                Ok(result) if is_repeated => assert!(result.contains("done"), "{what}: {result}"),
                // It is another result.
                Ok(result) => {
                    assert!(
                        case.line.contains(result.as_str()) && !result.contains("input_"),
                        "{what}: {result}"
                    );
                }
                Err(said) => {
                    check_words(&what, &said);
                    assert!(!case.what.contains("_meta"), "{what}: {said}");
                }
            }
            if !is_repeated {
                assert!(ask(&connection, tool()).await.unwrap().contains("done"), "{what}");
            }
        }
        assert!(!connection.is_dead());
        odd.upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_any_form_ends_its_call_alone() {
    let error = json!({"jsonrpc": "2.0", "id": "@id@", "error": {"code": -32000, "message": "busy", "data": {"a": 1}}});
    let cases = cases(&error);
    for over in [Over::Stdio, Over::Http, Over::Json] {
        let mut answers = usual();
        let done = answers["tools/call"].clone();
        let calls = cases.iter().map(|case| vec![case.line.clone()]).chain(done);
        answers.insert("tools/call", calls.collect());
        let odd = Odd::start(over, &answers);
        let connection = odd.connected().await.unwrap();
        for case in &cases {
            let said = ask(&connection, tool()).await.expect_err(&case.line);
            check_words(&case.line, &said);
            assert!(said.len() > "server 'odd' refused: ".len(), "{}: {said}", case.line);
        }
        assert!(ask(&connection, tool()).await.unwrap().contains("done"), "{over:?}");
        odd.upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_notifications_and_requests_of_a_server_disturb_no_call_and_each_request_is_answered() {
    let note = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    let ask_for = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": "q@number@", "method": method, "params": params});
    let question = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let message = json!({"role": "user", "content": {"type": "text", "text": "a"}});
    let messages = [
        note(
            "notifications/progress",
            json!({"progressToken": 1, "progress": 1, "total": 2, "message": "m"}),
        ),
        note("notifications/message", json!({"level": "info", "logger": "l", "data": {"a": 1}})),
        note("notifications/cancelled", json!({"requestId": "q", "reason": "r"})),
        note("notifications/tools/list_changed", json!({"_meta": {}})),
        note("notifications/resources/list_changed", json!({"_meta": {}})),
        note("notifications/prompts/list_changed", json!({"_meta": {}})),
        note("notifications/resources/updated", json!({"uri": "x://a"})),
        note("notifications/tasks/status", json!({"taskId": "k", "status": "working", "statusMessage": "m"})),
        ask_for("ping", json!({"_meta": {"progressToken": 1}})),
        ask_for("roots/list", json!({"_meta": {"progressToken": 1}})),
        ask_for("elicitation/create", json!({"mode": "form", "message": "m", "requestedSchema": question})),
        ask_for(
            "sampling/createMessage",
            json!({"messages": [message], "maxTokens": 9, "systemPrompt": "s"}),
        ),
        ask_for("no/such", json!({"a": 1})),
    ];
    let mut cases: Vec<Case> = messages.iter().flat_map(cases).collect();
    for (number, case) in cases.iter_mut().enumerate() {
        case.line = case.line.replace("@number@", &number.to_string());
    }
    for over in [Over::Stdio, Over::Http] {
        let mut answers = usual();
        let done = answers["tools/call"][0][0].clone();
        let calls = cases.iter().map(|case| vec![case.line.clone(), done.clone()]);
        answers.insert("tools/call", calls.collect());
        let odd = Odd::start(over, &answers);
        let connection = odd.connected().await.unwrap();
        for case in &cases {
            let result =
                ask(&connection, tool()).await.unwrap_or_else(|said| panic!("{}: {said}", case.line));
            assert!(result.contains("done"), "{}: {result}", case.line);
        }
        let asked: Vec<Value> = cases
            .iter()
            .filter_map(|case| serde_json::from_str::<Value>(&case.line).ok())
            .filter(|message| message.get("method").is_some_and(Value::is_string))
            .filter_map(|message| message.get("id").filter(|id| id.is_string()).cloned())
            .filter(|id| id != "x")
            .collect();
        assert!(asked.len() > 50);
        let is_answered = |id: &Value| {
            odd.sent().iter().any(|sent| {
                sent["id"] == *id && (sent.get("result").is_some() || sent.get("error").is_some())
            })
        };
        for id in &asked {
            let until = Instant::now() + PATIENCE;
            while !is_answered(id) {
                assert!(Instant::now() < until, "{over:?}: {id} has no answer");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        let unread = odd.upstream.unread(&name(), None).unwrap();
        check_words("unread", &unread);
        assert!(unread.contains("could not be used"), "{unread}");
        odd.upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_before_the_answer_to_initialize_is_answered_however_many_there_are() {
    for over in [Over::Stdio, Over::Http] {
        let mut answers = usual();
        let early = (0..400).map(|number| {
            let method = ["ping", "roots/list", "elicitation/create"][number % 3];
            json!({"jsonrpc": "2.0", "id": format!("early{number}"), "method": method}).to_string()
        });
        answers.insert("initialize", vec![early.chain([written(&initialized())]).collect()]);
        let odd = Odd::start(over, &answers);
        odd.upstream.offer_roots(&["/srv".into()]);
        in_time(odd.connected()).await.unwrap();
        let until = Instant::now() + PATIENCE;
        let of = |number: usize| {
            let id = format!("early{number}");
            odd.sent().into_iter().find(|sent| sent["id"] == id.as_str())
        };
        while of(399).is_none() || of(398).is_none() || of(397).is_none() {
            assert!(Instant::now() < until, "{over:?}: there is no answer");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(of(0).unwrap()["result"], json!({}), "{over:?}");
        assert_eq!(of(1).unwrap()["result"]["roots"][0]["uri"], "file:///srv", "{over:?}");
        assert_eq!(of(2).unwrap()["error"]["code"], -32601, "{over:?}");
        odd.upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_on_stdout_that_are_no_messages_are_counted_and_the_first_is_named() {
    let mut answers = usual();
    let lines = ["BANNER 1", "[1, 2, 3]", r#"{"level":"error","error":"none of ours"}"#].map(str::to_owned);
    answers.insert("initialize", vec![lines.into_iter().chain([written(&initialized())]).collect()]);
    let odd = Odd::start(Over::Stdio, &answers);
    let connection = odd.connected().await.unwrap();
    assert!(ask(&connection, tool()).await.unwrap().contains("done"));
    assert_eq!(
        odd.upstream.unread(&name(), None).unwrap(),
        "3 lines from it could not be used, the first: BANNER 1 (it is no JSON at line 1, column 1)"
    );
    odd.upstream.close().await;
}
