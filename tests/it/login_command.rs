//! `belljar login`, with a real authorization server and with what a hostile one says.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::login::{LIFE_S, dir, home};
use crate::support::authorization::{Authorization, Login, agreed, visit};
use crate::support::http_fixture::{HttpFixture, reply};
use crate::support::{Fixture, Home, PATIENCE, eventually};

#[test]
fn an_answer_with_another_state_changes_nothing_and_the_right_one_counts() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    let login = Login::start(&home, &["far", "--no-browser"]);
    let back = agreed(&login.address);
    let mut forged: url::Url = back.parse().unwrap();
    let pairs: Vec<(String, String)> = forged.query_pairs().into_owned().collect();
    let pairs = pairs
        .into_iter()
        .map(|(name, value)| (name.clone(), if name == "state" { "forged".into() } else { value }));
    let pairs: Vec<_> = pairs.collect();
    forged.query_pairs_mut().clear().extend_pairs(pairs);
    assert_eq!(visit(forged.as_str()).status, 400);
    assert!(!dir(&home).join("far.json").exists());
    assert_eq!(visit(&back).status, 200);
    assert_eq!(login.end().code, Some(0));
    assert!(dir(&home).join("far.json").exists());
}

#[test]
fn an_answer_of_another_issuer_is_refused() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    let issuer: String = url::form_urlencoded::byte_serialize(servers.issuer.as_bytes()).collect();
    for (iss, said) in [("https%3A%2F%2Fevil.test", "issuer mismatch"), ("", "issuer mismatch")] {
        let login = Login::start(&home, &["far"]);
        let back = agreed(&login.address);
        assert!(back.contains(&format!("iss={issuer}")), "{back}");
        assert_eq!(visit(&back.replace(&format!("iss={issuer}"), &format!("iss={iss}"))).status, 200);
        let done = login.end();
        assert_eq!(done.code, Some(1));
        assert!(
            done.stderr.starts_with("belljar: no login at far: ") && done.stderr.contains(said),
            "{}",
            done.stderr
        );
        assert!(!dir(&home).join("far.json").exists());
    }
}

#[test]
fn a_user_who_refuses_or_interrupts_leaves_no_login() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    let login = Login::start(&home, &["far"]);
    let address: url::Url = login.address.parse().unwrap();
    let of = |name: &str| address.query_pairs().find(|(found, _)| found == name).unwrap().1.into_owned();
    let refusal = format!(
        "{}?error=access_denied&error_description=no%1b[2J&state={}",
        of("redirect_uri"),
        of("state")
    );
    assert_eq!(visit(&refusal).status, 200);
    let done = login.end();
    let said = "belljar: no login at far: the authorization server refused: access_denied: no\\x1b[2J\n";
    assert_eq!((done.code, done.stderr.as_str()), (Some(1), said));
    let login = Login::start(&home, &["far"]);
    kill(Pid::from_raw(login.pid()), Signal::SIGINT).unwrap();
    assert_eq!(login.end().code, Some(130));
    assert!(!dir(&home).join("far.json").exists());
}

#[test]
fn the_browser_is_opened_at_the_address_unless_the_user_says_otherwise() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    let login = Login::start(&home, &["far", "--no-browser"]);
    kill(Pid::from_raw(login.pid()), Signal::SIGINT).unwrap();
    assert!(login.end().stdout.starts_with("to log in to far, open in a browser:\n"));
    assert_eq!(home.opened(), "");
    let login = Login::start(&home, &["far"]);
    let expected = format!("{}\n", login.address);
    eventually("the browser is opened", PATIENCE, || home.opened() == expected);
    kill(Pid::from_raw(login.pid()), Signal::SIGTERM).unwrap();
    let done = login.end();
    assert_eq!(done.code, Some(143));
    assert!(done.stdout.contains("your browser should open; if it does not, open:\n"), "{}", done.stdout);
}

/// What `login` says at a server whose metadata are these; `ISSUER` in them is that of the fixture.
fn login_at(resource: Value, metadata: Value) -> (Option<i32>, String, usize) {
    login_with(resource, metadata, &[])
}

/// The same with further arguments, in which `ISSUER` is that of the fixture, too.
fn login_with(resource: Value, metadata: Value, arguments: &[&str]) -> (Option<i32>, String, usize) {
    login_of(&resource, &metadata, &home, arguments)
}

/// The same for an entry of its own. The authorization server refuses with the headers of the request to `/mcp`.
fn login_of(
    resource: &Value,
    metadata: &Value,
    home: &dyn Fn(&str) -> Home,
    arguments: &[&str],
) -> (Option<i32>, String, usize) {
    let (resource, metadata) = (resource.clone(), metadata.clone());
    let seen = std::sync::Mutex::new(String::new());
    let other = HttpFixture::start(|_, stream| reply(stream, "200 OK", &[], "{}"));
    let place = other.url.clone();
    let fixture = HttpFixture::start(move |request, stream| {
        let issuer = format!("http://{}", request.header("host").unwrap());
        let filled = |value: &Value| value.to_string().replace("ISSUER", &issuer).replace("OTHER", &place);
        match request.path.as_str() {
            "/.well-known/oauth-protected-resource/mcp" => reply(stream, "200 OK", &[], &filled(&resource)),
            "/.well-known/oauth-authorization-server" | "/.well-known/forged" => {
                reply(stream, "200 OK", &[], &filled(&metadata))
            }
            "/register" => {
                reply(stream, "201 Created", &[], &json!({"client_id": "c", "redirect_uris": []}).to_string())
            }
            "/refuse" => reply(stream, "400 No", &[], &seen.lock().unwrap()),
            "/mcp" => {
                *seen.lock().unwrap() = format!("{:?}", request.headers);
                let challenge =
                    format!("Bearer resource_metadata=\"{issuer}/.well-known/oauth-protected-resource/mcp\"");
                reply(stream, "401 No", &[("WWW-Authenticate", &challenge)], "")
            }
            _ => reply(stream, "404 No", &[], ""),
        }
    });
    let own = fixture.url.trim_end_matches("/mcp");
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace("ISSUER", own)).collect();
    let mut words = vec!["login", "far"];
    words.extend(arguments.iter().map(String::as_str));
    let done = home(&fixture.url).run(&words);
    (done.code, done.stdout + &done.stderr, other.requests().len())
}

#[test]
fn what_a_server_says_of_its_authorization_server_is_checked_before_it_is_used() {
    let resource = json!({"resource": "ISSUER/mcp", "authorization_servers": ["ISSUER"]});
    let usual = json!({"issuer": "ISSUER", "authorization_endpoint": "ISSUER/authorize", "token_endpoint": "ISSUER/token",
        "registration_endpoint": "ISSUER/register", "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"]});
    let with = |of: &Value, key: &str, value: Value| {
        let mut changed = of.clone();
        changed[key] = value;
        changed
    };
    let cases = [
        (resource.clone(), with(&usual, "issuer", json!("https://evil.test")), "issuer mismatch"),
        (resource.clone(), with(&usual, "issuer", Value::Null), "missing required issuer"),
        (resource.clone(), with(&usual, "code_challenge_methods_supported", json!(["plain"])), "PKCE"),
        (
            resource.clone(),
            with(&usual, "authorization_endpoint", json!("file:///etc/passwd")),
            "must be https, not file",
        ),
        (
            resource.clone(),
            with(&usual, "authorization_endpoint", json!("http://evil.test/a")),
            "is http, not https",
        ),
        (resource.clone(), with(&usual, "token_endpoint", json!("http://evil.test/t")), "is http, not https"),
        (
            resource.clone(),
            with(&usual, "registration_endpoint", json!("ftp://evil.test/r")),
            "must be https, not ftp",
        ),
        (resource.clone(), with(&usual, "revocation_endpoint", json!("x")), "revocation endpoint"),
        (
            resource.clone(),
            with(&usual, "registration_endpoint", Value::Null),
            "give its id with --client-id",
        ),
        (with(&resource, "resource", json!("https://evil.test/mcp")), usual.clone(), "resource mismatch"),
        (
            with(&resource, "authorization_servers", json!(["http://evil.test"])),
            usual.clone(),
            "is http, not https",
        ),
        (
            with(&resource, "authorization_servers", json!(["ftp://evil.test"])),
            usual,
            "none published usable metadata",
        ),
    ];
    for (resource, metadata, said) in cases {
        let (code, stderr, elsewhere) = login_at(resource, metadata);
        assert_eq!((code, elsewhere), (Some(1), 0), "{said}: {stderr}");
        assert!(
            stderr.starts_with("belljar: no login at far: ") && stderr.contains(said),
            "{said}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_code_goes_only_to_the_service_at_which_the_user_logs_in() {
    let metadata = |issuer: &str, page: &str, token: &str| {
        json!({"issuer": issuer, "authorization_endpoint": format!("{page}/authorize"), "token_endpoint":
            format!("{token}/token"), "registration_endpoint": "OTHER/register",
            "code_challenge_methods_supported": ["S256"]})
    };
    let named = |issuer: &str| json!({"resource": "ISSUER/mcp", "authorization_servers": [issuer]});
    let refused = login_at(named("ISSUER"), metadata("ISSUER", "OTHER", "ISSUER"));
    // At another place than the issuer's own one, rmcp does not compare the issuer.
    let forged = login_at(named("ISSUER/.well-known/forged"), metadata("OTHER", "OTHER", "ISSUER"));
    for ((code, stderr, _), said) in
        [(&refused, "add --token-endpoint http://"), (&forged, "publishes no metadata")]
    {
        assert!(*code == Some(1) && stderr.contains(said), "{stderr}");
    }
    assert_eq!(refused.2, 0, "nobody is registered there");
    let by_user = ["--token-endpoint", "ISSUER/token"];
    for (page, token, arguments) in
        [("ISSUER", "OTHER", &[][..]), ("OTHER", "OTHER", &[]), ("OTHER", "ISSUER", &by_user)]
    {
        let mut metadata = metadata("ISSUER", page, token);
        metadata["registration_endpoint"] = Value::Null;
        let (_, stderr, _) = login_with(named("ISSUER"), metadata, arguments);
        assert!(stderr.contains("give its id with --client-id"), "{stderr}");
    }
    let (_, stderr, _) = login_with(named("ISSUER"), metadata("ISSUER", "OTHER", "OTHER"), &by_user);
    assert!(stderr.contains("not the one that you named"), "{stderr}");
}

#[test]
fn what_a_login_sends_in_confidence_is_shown_nowhere() {
    let key = "Xk9-Hunter2-Abcd1234";
    let resource = || json!({"resource": "ISSUER/mcp", "authorization_servers": ["ISSUER"]});
    let usual = || {
        json!({"issuer": "ISSUER", "authorization_endpoint": "ISSUER/a", "token_endpoint": "ISSUER/t",
            "registration_endpoint": "ISSUER/register"})
    };
    let with = |mut of: Value, key: &str, value: Value| {
        of[key] = value;
        of
    };
    let long = format!("https://{}/{key}", "x".repeat(260));
    let cases = [
        (resource(), with(usual(), "issuer", json!(long))),
        (with(resource(), "resource", json!(long)), usual()),
        (resource(), with(usual(), "authorization_endpoint", json!(format!("http://{key}.test/a")))),
        (resource(), with(usual(), "authorization_endpoint", json!(format!("ISSUER/a?k={key}")))),
        (with(resource(), "scopes_supported", json!([key])), usual()),
        (resource(), with(usual(), "registration_endpoint", json!("ISSUER/refuse"))),
    ];
    for (resource, metadata) in cases {
        let entry = |url: &str| Home::new().server("far", json!({"url": url, "headers": {"X-Api-Key": key}}));
        let (code, said, _) = login_of(&resource, &metadata, &entry, &["--no-browser"]);
        assert!(code == Some(1) && !said.to_lowercase().contains(&key.to_lowercase()[..16]), "{said}");
    }
}

#[test]
fn a_client_s_secret_is_not_shown_when_the_token_endpoint_repeats_it() {
    let secret = "registered-secret-1234";
    let fixture = HttpFixture::start(move |request, stream| {
        let issuer = format!("http://{}", request.header("host").unwrap());
        let body = match request.path.as_str() {
            "/.well-known/oauth-authorization-server" => {
                json!({"issuer": issuer, "token_endpoint": format!("{issuer}/t"),
                "authorization_endpoint": format!("{issuer}/a"), "registration_endpoint": format!("{issuer}/r")})
            }
            "/r" => json!({"client_id": "c", "client_secret": secret, "redirect_uris": []}),
            "/t" => {
                let said = format!("{secret} {}", request.header("authorization").unwrap());
                let refusal = json!({"error": "invalid_client", "error_description": said});
                return reply(stream, "400 No", &[], &refusal.to_string());
            }
            _ => return reply(stream, "404 No", &[], ""),
        };
        reply(stream, "200 OK", &[], &body.to_string())
    });
    let home = Home::new().server("far", json!({"url": fixture.url.replace("/mcp", "")}));
    let login = Login::start(&home, &["far", "--no-browser"]);
    let address: url::Url = login.address.parse().unwrap();
    let of = |name: &str| address.query_pairs().find(|(found, _)| found == name).unwrap().1.into_owned();
    assert_eq!(visit(&format!("{}?code=x&state={}", of("redirect_uri"), of("state"))).status, 200);
    let said = login.end().stderr;
    assert!(said.contains("[client_secret] Basic [client_secret]"), "{said}");
}

#[test]
fn a_server_that_can_have_no_login_is_told_of_before_anything_is_sent() {
    let fixture = HttpFixture::start(|_, stream| reply(stream, "404 No", &[], ""));
    let headers = json!({"url": fixture.url, "headers": {"authorization": "Bearer mine"}});
    let home = Home::new()
        .server("keyed", headers)
        .server("here", Fixture::new(&[]).entry())
        .server("clear", json!({"url": "http://mcp.test/mcp"}));
    let config = home.path().join("MCPs/servers.json").display().to_string();
    let cases = [
        ("keyed", 2, format!("server \"keyed\" has an Authorization header in {config}, which is what is used; remove it first")),
        ("here", 2, "server \"here\" is started by a command; only one with a url has a login".into()),
        ("gone", 2, "no server \"gone\" is configured; configured: clear, here, keyed".into()),
        ("clear", 1, "no login at clear: its address is http, not https, and not on this machine: whoever is on the way could take the login".into()),
    ];
    for (server, code, said) in cases {
        let done = home.run(&["login", server]);
        assert_eq!((done.code, done.stderr), (Some(code), format!("belljar: {said}\n")));
    }
    assert_eq!(fixture.requests().len(), 0);
    let plain = HttpFixture::usual(|_, stream| reply(stream, "404 No", &[], ""));
    let open = home.server("open", json!({"url": plain.url}));
    let done = open.run(&["login", "open"]);
    let said = "belljar: no login at open: it names no authorization server, and wants no login\n";
    assert_eq!((done.code, done.stderr.as_str()), (Some(1), said));
}
