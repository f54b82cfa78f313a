//! Logins at remote servers, with a real authorization server: used, renewed and lost by the room that reaches servers.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_upstream::service_login::LoginSettings;
use belljar_upstream::{
    LoginFile, LoginSpec, RemoteSpec, Request, ServerSpec, ServerTransport, Upstream, UpstreamError,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::deadline::Deadline;
use crate::session;
use crate::support::authorization::{Authorization, log_in};
use crate::support::http_fixture::{HttpFixture, reply};
use crate::support::{Home, PATIENCE};

/// Not whole days, so that what is left of it is said in the same words for hours.
pub const LIFE_S: u32 = 10_000_000;

pub fn name() -> ServerName {
    ServerName::new("far").unwrap()
}

pub fn home(url: &str) -> Home {
    Home::new().server("far", json!({"url": url}))
}

pub fn dir(home: &Home) -> PathBuf {
    home.path().join(".local/state/belljar/oauth")
}

/// The file's content, changed by the test where it wants to.
pub fn kept(home: &Home) -> Value {
    serde_json::from_slice(&std::fs::read(dir(home).join("far.json")).unwrap()).unwrap()
}

pub fn keep(home: &Home, login: &Value) {
    let beside = dir(home).join("beside");
    std::fs::write(&beside, login.to_string()).unwrap();
    std::fs::set_permissions(&beside, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::rename(beside, dir(home).join("far.json")).unwrap();
}

/// The module, as the bridge of this home has it.
fn upstream(home: &Home, url: &str) -> Upstream {
    upstream_with(home, url, LoginSettings::default())
}

/// The same for an entry that says this of the login.
pub fn upstream_with(home: &Home, url: &str, settings: LoginSettings) -> Upstream {
    let url: url::Url = url.parse().unwrap();
    let file = LoginFile::new(dir(home), &name(), url.clone());
    let login = Some(LoginSpec { file, settings });
    let transport = ServerTransport::Remote(RemoteSpec { url, transport: None, headers: vec![], login });
    Upstream::new(vec![ServerSpec::new(name(), transport)], &Arc::new(Limits::default()))
}

pub async fn call(upstream: &Upstream, tool: &str) -> Result<String, UpstreamError> {
    let (deadline, cancel) = (Instant::now() + PATIENCE, CancellationToken::new());
    let connection = upstream.connect(&name(), &session(), deadline, &cancel).await?;
    let request = Request::Tool { name: tool.to_owned(), arguments: Map::new(), only_reads: false };
    let result = connection.ask(request, &Deadline(deadline), &cancel, None).await?;
    Ok(result.get().to_owned())
}

async fn works(upstream: &Upstream) {
    let result = call(upstream, "whoami").await.unwrap();
    assert!(result.contains("you are ada"), "{result}");
}

async fn needs_login(upstream: &Upstream, reason: &str) {
    let error = call(upstream, "whoami").await.unwrap_err().to_string();
    let whole = format!("server 'far' needs a login ({reason}); the user runs: belljar login far");
    assert_eq!(error, whole);
}

const NONE: &str = "there is none: HTTP 401 Unauthorized: invalid_token";
const NOT_TAKEN: &str = "it does not take the one that there is: HTTP 401 Unauthorized: invalid_token";

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_made_in_the_browser_kept_for_the_user_alone_used_and_revoked() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    let doctor = |home: &Home| {
        let said = home.run(&["doctor"]).stdout;
        said.lines().find(|line| line.contains("far: ")).unwrap().to_owned()
    };
    assert!(doctor(&home).contains(", needs a login; run: belljar login far ("), "{}", doctor(&home));
    let running = upstream(&home, &servers.mcp);
    needs_login(&running, NONE).await;

    let done = log_in(&home, &["far"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert!(
        done.stdout.starts_with(
            "to log in to far, your browser should open; if it does not, open:\n  http://127.0.0.1:"
        ),
        "{}",
        done.stdout
    );
    let end = "\nlogged in to far; the token expires in 115 days, is renewed by itself\n";
    assert!(done.stdout.ends_with(end), "{}", done.stdout);
    assert!(doctor(&home).contains(", logged in; the token expires in 115 days"), "{}", doctor(&home));
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(dir(&home)), mode(dir(&home).join("far.json"))), (0o700, 0o600));

    // The failure from before is remembered no longer than the login was missing.
    assert_eq!(running.changed_logins(), [name()]);
    assert_eq!(running.changed_logins(), []);
    works(&running).await;
    let text = call(&running, "echo_token").await.unwrap();
    let tokens = servers.tokens();
    assert!(text.contains("your token is [login]"), "{text}");
    let redacted = running.redacted(&name(), tokens.join(" "));
    assert!(tokens.len() >= 2 && tokens.iter().all(|token| !redacted.contains(token)), "{redacted}");
    assert!(tokens.iter().all(|token| !done.stdout.contains(token)));

    let token = kept(&home)["access_token"].clone();
    let out = home.run(&["logout", "far"]);
    assert_eq!((out.code, out.stdout.as_str()), (Some(0), "logged out of far; its tokens are revoked\n"));
    needs_login(&running, NONE).await;
    assert_eq!(home.run(&["logout", "far"]).stdout, "there is no login at far\n");
    // As good as its copies are.
    keep(
        &home,
        &json!({"server": servers.mcp, "access_token": token, "grant": {"token_endpoint": servers.issuer,
        "client": {"id": "x", "secret_in": "body"}}}),
    );
    needs_login(&running, NOT_TAKEN).await;
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_is_renewed_once_and_the_rotated_one_kept() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    assert_eq!(log_in(&home, &["far"]).code, Some(0));
    let running = upstream(&home, &servers.mcp);
    works(&running).await;
    for _ in 0..2 {
        let before = kept(&home);
        servers.expire();
        works(&running).await;
        let after = kept(&home);
        for token in ["access_token", "refresh_token"] {
            assert_ne!(before[token], after[token], "{token}");
        }
    }
    assert_eq!(servers.refused_tokens(), 2);
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_about_to_end_is_renewed_before_the_server_refuses_it() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    assert_eq!(log_in(&home, &["far"]).code, Some(0));
    let mut due = kept(&home);
    let life = due["ends"].as_u64().unwrap() - due["renew_from"].as_u64().unwrap();
    assert_eq!(life, 60, "a minute before its end");
    due["renew_from"] = json!(1);
    keep(&home, &due);
    let running = upstream(&home, &servers.mcp);
    works(&running).await;
    assert_ne!(kept(&home)["access_token"], due["access_token"]);
    assert_eq!(servers.refused_tokens(), 0);
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_bridges_with_many_calls_one_renews_and_all_go_on() {
    // A refresh token that is used twice ends the login at this authorization server.
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    assert_eq!(log_in(&home, &["far"]).code, Some(0));
    let bridges = [upstream(&home, &servers.mcp), upstream(&home, &servers.mcp)];
    for bridge in &bridges {
        works(bridge).await;
    }
    let before = servers.tokens().len();
    servers.expire();
    let calls = (0..20).map(|number| works(&bridges[number % 2]));
    futures_util::future::join_all(calls).await;
    assert_eq!(servers.tokens().len() - before, 2, "one access token and one refresh token");
    for bridge in bridges {
        bridge.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_has_ended_is_said_and_not_asked_for_again() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    assert_eq!(log_in(&home, &["far"]).code, Some(0));
    let running = upstream(&home, &servers.mcp);
    works(&running).await;
    servers.revoke();
    needs_login(&running, NOT_TAKEN).await;
    assert_eq!(kept(&home)["refresh_token"], Value::Null);
    needs_login(&running, NOT_TAKEN).await;
    assert_eq!(log_in(&home, &["far"]).code, Some(0));
    works(&running).await;
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_server_that_cannot_renew_now_is_named_and_left_alone_for_a_while() {
    let fixture = HttpFixture::usual(|request, stream| match request.path.as_str() {
        "/token" => reply(stream, "503 Down", &[], ""),
        _ if request.method == "GET" => reply(stream, "405 No", &[], ""),
        _ => reply(stream, "401 No", &[], ""),
    });
    let home = home(&fixture.url);
    std::fs::create_dir_all(dir(&home)).unwrap();
    keep(&home, &login_of(&fixture.url, &fixture.url.replace("/mcp", "/token")));
    let running = upstream(&home, &fixture.url);
    let reason = "the one that there is could not be renewed, since the authorization server answered HTTP 503 Service \
                  Unavailable: HTTP 401 Unauthorized";
    futures_util::future::join_all((0..20).map(|_| needs_login(&running, reason))).await;
    let asked = fixture.requests().iter().filter(|request| request.path == "/token").count();
    assert!((1..20).contains(&asked), "{asked}");
    assert_eq!(kept(&home)["refresh_token"], "first-refresh", "it may work later");
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_under_way_is_finished_when_the_bridge_closes() {
    let (home, told) = (home("http://127.0.0.1:1/"), std::sync::mpsc::channel::<()>());
    let (answer, waiting) = (std::sync::Mutex::new(told.1), std::sync::mpsc::channel::<()>());
    let began = std::sync::Mutex::new(waiting.0);
    let fixture = HttpFixture::start(move |request, stream| {
        if request.header("content-type") == Some("application/x-www-form-urlencoded") {
            began.lock().unwrap().send(()).unwrap();
            answer.lock().unwrap().recv().unwrap();
            let token = json!({"access_token": "second-token", "token_type": "Bearer", "refresh_token": "second-refresh"});
            return reply(stream, "200 OK", &[], &token.to_string());
        }
        reply(stream, "401 No", &[], "")
    });
    std::fs::create_dir_all(dir(&home)).unwrap();
    keep(&home, &login_of(&fixture.url, &fixture.url));
    let running = upstream(&home, &fixture.url);
    let (far, cancel) = (name(), CancellationToken::new());
    let session = session();
    let connecting = running.connect(&far, &session, Instant::now() + PATIENCE, &cancel);
    let given_up = async {
        tokio::task::spawn_blocking(move || waiting.1.recv().unwrap()).await.unwrap();
        cancel.cancel();
    };
    let error = tokio::join!(connecting, given_up).0.err().unwrap();
    assert!(matches!(*error, UpstreamError::Cancelled { .. }), "{error}");
    let closing = running.close();
    let answering = async { told.0.send(()).unwrap() };
    tokio::join!(closing, answering);
    assert_eq!(kept(&home)["refresh_token"], "second-refresh");
}

/// A login at a server that a test plays.
fn login_of(server: &str, token_endpoint: &str) -> Value {
    json!({"server": server, "access_token": "first-token", "refresh_token": "first-refresh",
        "grant": {"token_endpoint": token_endpoint, "client": {"id": "x", "secret_in": "body"}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_goes_to_the_server_that_it_is_for_and_nowhere_else() {
    let other = HttpFixture::start(|_, stream| reply(stream, "200 OK", &[], "{}"));
    let to = other.url.clone();
    let fixture = HttpFixture::start(move |_, stream| reply(stream, "307 There", &[("Location", &to)], ""));
    let home = home(&fixture.url);
    std::fs::create_dir_all(dir(&home)).unwrap();
    keep(&home, &login_of(&fixture.url, &fixture.url));
    let running = upstream(&home, &fixture.url);
    let error = call(&running, "t").await.unwrap_err().to_string();
    assert!(error.contains("it redirects to http://127.0.0.1:"), "{error}");
    running.close().await;
    let sent: Vec<_> =
        fixture.requests().iter().map(|one| one.header("authorization").map(str::to_owned)).collect();
    assert!(
        !sent.is_empty() && sent.iter().all(|sent| sent.as_deref() == Some("Bearer first-token")),
        "{sent:?}"
    );
    assert_eq!(other.requests().len(), 0);

    // The same name at another address.
    let elsewhere = HttpFixture::start(|_, stream| {
        reply(stream, "401 No", &[("WWW-Authenticate", "Bearer error=\"invalid_token\"")], "")
    });
    let running = upstream(&home, &elsewhere.url);
    needs_login(&running, "the one that there is was made for another address: HTTP 401 Unauthorized").await;
    running.close().await;
    assert!(elsewhere.requests().iter().all(|request| request.header("authorization").is_none()));
    let moved = Home::server(home, "far", json!({"url": elsewhere.url}));
    let doctor = moved.run(&["doctor"]).stdout;
    assert!(doctor.contains(", the login is for another address; run: belljar login far ("), "{doctor}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_more_rights_is_answered_with_the_command_that_asks_for_them() {
    let challenges = [
        (
            "Bearer error=\"insufficient_scope\", scope=\"files:read files:write\"",
            " --scope files:read --scope files:write",
        ),
        ("Bearer error=\"insufficient_scope\", scope=\"a; rm -rf ~\"", ""),
    ];
    for (challenge, scopes) in challenges {
        let fixture = HttpFixture::usual(move |request, stream| match request.is("tools/call") {
            true => reply(stream, "403 No", &[("WWW-Authenticate", challenge)], ""),
            false => reply(stream, "405 No", &[], ""),
        });
        let home = home(&fixture.url);
        std::fs::create_dir_all(dir(&home)).unwrap();
        keep(&home, &login_of(&fixture.url, &fixture.url));
        let running = upstream(&home, &fixture.url);
        let error = call(&running, "t").await.unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("HTTP 403 Forbidden); the user runs: belljar login far{scopes}")),
            "{error}"
        );
        running.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_registered_by_hand_logs_in_and_renews_with_its_secret() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp).env("THE_SECRET", "secret of the client by hand");
    let arguments = ["far", "--client-id", "by-hand", "--client-secret-env", "THE_SECRET", "--scope", "mcp"];
    let done = log_in(&home, &arguments);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let running = upstream(&home, &servers.mcp);
    works(&running).await;
    servers.expire();
    works(&running).await;
    let text = running.redacted(&name(), "it is the secret of the client by hand".into());
    assert_eq!(text, "it is the [login]");
    running.close().await;
    let out = home.run(&["logout", "far"]);
    assert_eq!(out.stdout, "logged out of far; its tokens are revoked\n");
    let unset = home.run(&["login", "far", "--client-id", "x", "--client-secret-env", "NO_SUCH"]);
    assert_eq!(
        (unset.code, unset.stderr.as_str()),
        (Some(2), "belljar: the variable \"NO_SUCH\" of --client-secret-env is not set, or no text\n")
    );
}
