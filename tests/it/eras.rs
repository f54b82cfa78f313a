//! Servers of every era of the protocol, and such as answer one era only, wrongly, late or not at all.
//!
//! Each is a small program of its own, so that none of our readers stands on both sides.

use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_upstream::{Inherited, ProcessSpec, ServerSpec, ServerTransport, Upstream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::session;
use crate::support::PATIENCE;

/// Answers each line by what `reply(method, params)` returns: a result, an error as an int, nothing, or text to write.
const SERVER: &str = r#"
import json, sys, time
def start(reply):
    for line in sys.stdin:
        message = json.loads(line)
        method = message["method"]
        open(sys.argv[1], "a").write(method + "\n")
        if "id" not in message: continue
        answer = reply(method, message.get("params") or {})
        if answer is None: continue
        body = {"result": answer} if isinstance(answer, dict) else {"error": {"code": answer, "message": "no " + method}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | body), flush=True)
tools = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
def older(method, params, version="2025-11-25"):
    if method == "initialize":
        return about | {"protocolVersion": version} if params["protocolVersion"] <= version else -32602
    return tools if method == "tools/list" else -32601
newest = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
def newer(method, params):
    whole = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover": return newest | whole
    return tools | whole if method == "tools/list" else -32601
"#;

/// What a connection to a server with this `reply` comes to, and what the server was asked.
async fn opened(reply: &str, start: Duration) -> (Result<usize, String>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let name = ServerName::new("s").unwrap();
    let code = format!("{SERVER}{reply}");
    let process = ProcessSpec {
        program: "python3".into(),
        searched: false,
        args: ["-c".to_owned(), code, log.to_str().unwrap().to_owned()].into(),
        env: vec![],
        inherited: Inherited::All,
        cwd: None,
        keeper: None,
        projects: vec![],
        sandbox: None,
        private: belljar_confine::PrivatePlaces::default(),
        changeable: belljar_upstream::PlacesNow::default(),
    };
    let limits = Arc::new(Limits { server_start: start, ..Limits::default() });
    let spec = ServerSpec::new(name.clone(), ServerTransport::Process(process));
    let upstream = Upstream::new(vec![spec], &limits);
    let connection =
        upstream.connect(&name, &session(), Instant::now() + PATIENCE, &CancellationToken::new()).await;
    let found = connection.map(|connection| connection.tools().len()).map_err(|error| error.to_string());
    upstream.close().await;
    let asked = std::fs::read_to_string(&log).unwrap_or_default();
    (found, asked.lines().map(str::to_owned).collect())
}

const START: Duration = Duration::from_secs(60);
const DISCOVERED: [&str; 2] = ["server/discover", "tools/list"];
const INITIALIZED: [&str; 4] = ["server/discover", "initialize", "notifications/initialized", "tools/list"];

#[tokio::test]
async fn a_server_is_spoken_to_in_its_own_era() {
    for (reply, asked) in [
        ("start(newer)", &DISCOVERED[..]),
        ("start(older)", &INITIALIZED[..]),
        ("start(lambda m, p: older(m, p, '2025-11-25'))", &INITIALIZED[..]),
        // Of both eras: the newest is spoken.
        ("start(lambda m, p: older(m, p) if m == 'initialize' else newer(m, p))", &DISCOVERED[..]),
        // Without the members that the specification requires.
        ("start(lambda m, p: newest if m == 'server/discover' else newer(m, p))", &DISCOVERED[..]),
    ] {
        let (found, seen) = opened(reply, START).await;
        assert_eq!(
            (found, &seen.iter().map(String::as_str).collect::<Vec<_>>()[..]),
            (Ok(1), asked),
            "{reply}"
        );
    }
}

#[tokio::test]
async fn what_ends_at_the_newest_beginning_or_answers_nonsense_is_begun_with_the_older_one() {
    for reply in [
        "start(lambda m, p: sys.exit('I know no ' + m) if m == 'server/discover' else older(m, p))",
        "start(lambda m, p: {'odd': 1} if m == 'server/discover' else older(m, p))",
    ] {
        let (found, asked) = opened(reply, START).await;
        assert_eq!(
            (found, asked[0].as_str(), asked[1].as_str()),
            (Ok(1), "server/discover", "initialize"),
            "{reply}"
        );
    }
}

#[tokio::test]
async fn a_server_that_never_answers_the_newest_beginning_or_late_is_initialized_over_the_same_connection() {
    let never = "start(lambda m, p: None if m == 'server/discover' else older(m, p))";
    // Longer than the newest beginning is waited for.
    let late = "time.sleep(11)\nstart(older)";
    let (never, late) = tokio::join!(opened(never, START), opened(late, START));
    for (found, asked) in [never, late] {
        assert_eq!(
            (found, asked.iter().map(String::as_str).collect::<Vec<_>>()),
            (Ok(1), INITIALIZED.to_vec())
        );
    }
}

/// As the official Python SDK does when its imports take longer than the newest beginning is waited for.
#[tokio::test]
async fn a_newer_server_that_starts_slowly_and_refuses_initialize_is_discovered_again() {
    let reply = "time.sleep(11)\nstart(lambda m, p: -32022 if m == 'initialize' else newer(m, p))";
    let (found, asked) = opened(reply, START).await;
    let expected = ["server/discover", "initialize", "server/discover", "tools/list"];
    assert_eq!((found, asked), (Ok(1), expected.map(str::to_owned).to_vec()));
}

#[tokio::test]
async fn a_server_of_neither_era_fails_with_both_reasons() {
    let (found, _) = opened("start(lambda m, p: -32601)", START).await;
    let said = found.unwrap_err();
    let [discover, initialize] =
        ["server/discover", "initialize"].map(|method| said.find(&format!("after {method}: ")));
    assert!(discover.unwrap() < initialize.unwrap(), "{said}");
    assert!(said.contains("no server/discover") && said.contains("no initialize"), "{said}");
    let (found, asked) = opened("start(lambda m, p: None)", Duration::from_secs(12)).await;
    // A shell on the way to Python may have warned of a locale that the machine does not have.
    let said = found.unwrap_err();
    assert!(said.starts_with("server 's' did not start: no answer within 12 s"), "{said}");
    assert_eq!(asked, ["server/discover", "initialize"]);
}
