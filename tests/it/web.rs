//! `belljar serve --http`: who comes in, who does not, and what an owner sees of another.

use std::io::Write;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::web::{Served, WITHOUT_SESSIONS};
use crate::support::{Home, PATIENCE, eventually, program};

/// A home with the servers `a` and `b`, which are never started.
fn home() -> Home {
    let servers = json!({"mcpServers": {"a": {"command": "true"}, "b": {"command": "true"}}});
    Home::new().file("MCPs/two.json", &servers.to_string()).env("MCP_BRIDGE_PREWARM", "0")
}

/// A new token.
fn token(home: &Home, arguments: &[&str]) -> String {
    let added = home.run(&[&["token", "add", "--quiet"], arguments].concat());
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    added.stdout.trim().to_owned()
}

fn sessions(home: &Home) -> usize {
    let status = home.run(&["serve", "status"]).stdout;
    status.split("serves ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap()
}

const PING: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;

#[test]
fn a_request_without_a_valid_token_reaches_nothing_and_is_in_the_log() {
    let home = home();
    let (good, other) = (token(&home, &["good"]), token(&home, &["other"]));
    let served = Served::start(&home, &[]);
    assert_eq!(home.run(&["token", "rm", "other"]).code, Some(0));
    let short = &good[..good.len() - 1];
    for header in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer ../../x",
        &format!("Basic {good}"),
        &good,
        &format!("Bearer {short}"),
        &format!("Bearer {good}x"),
        &format!("Bearer {other}"),
        &format!("Bearer {}", good.to_uppercase()),
    ] {
        for method in ["POST", "GET", "DELETE", "PUT", "OPTIONS"] {
            let headers = [("authorization", header)];
            let headers = if header.is_empty() { &headers[1..] } else { &headers };
            let answer = served.request(method, "/mcp", headers, PING);
            assert_eq!(answer.status, 401, "{method} {header:?}: {answer:?}");
            assert!(answer.header("www-authenticate").is_some_and(|how| how.starts_with("Bearer ")));
            assert!(!answer.body.contains(&good), "{answer:?}");
        }
    }
    assert_eq!(sessions(&home), 0);
    served.client(&good);
    eventually("refusals are in the log", PATIENCE, || {
        let log = home.run(&["log"]).stdout;
        log.contains("refused no_token: ") && log.contains("refused unknown_token: ")
    });
    assert!(!home.run(&["log", "--json"]).stdout.contains(&good));
    // A page of health says nothing else, and there are no other pages.
    assert_eq!(served.request("GET", "/healthz", &[], "").body, "ok\n");
    for path in ["/", "/metrics/", "/mcp/", "/mcp/x", "/../mcp", "//mcp", "/healthz/x"] {
        assert_eq!(served.request("GET", path, &[], "").status, 404, "{path}");
    }
}

#[test]
fn numbers_are_read_by_tokens_for_that_which_reach_nothing_else() {
    let home = home().env("MCP_BRIDGE_RUNTIME", "unix:///nobody/listens");
    let (watcher, user) = (token(&home, &["watcher", "--metrics"]), token(&home, &["user"]));
    let both = home.run(&["token", "add", "both", "--metrics", "--servers", "a"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    let listed = home.run(&["token", "ls"]).stdout;
    assert!(listed.contains(" for /metrics only"), "{listed}");
    let served = Served::start(&home, &[]);
    let read = |path: &str, token: &str| {
        served.request("GET", path, &[("authorization", &format!("Bearer {token}"))], "")
    };
    for (path, token, status) in [
        ("/metrics", "x", 401),
        ("/metrics", &*user, 403),
        ("/mcp", &*watcher, 403),
        ("/metrics", &*watcher, 200),
    ] {
        assert_eq!(read(path, token).status, status, "{path}");
    }
    assert_eq!(served.request("GET", "/metrics", &[], "").status, 401);
    let mut client = served.client(&user);
    assert!(client.run(json!({"code": "secret = 'canary-7'"})).1, "there is no engine");
    let answer = read("/metrics", &watcher);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
    for line in
        ["belljar_sessions 1", "belljar_servers 2", "belljar_run_seconds_count{outcome=\"not_started\"} 1"]
    {
        assert!(answer.body.lines().any(|found| found == line), "{line}\n{}", answer.body);
    }
    for word in ["canary", "user", "watcher", &*user] {
        assert!(!answer.body.contains(word), "{}", answer.body);
    }
}

#[test]
fn a_page_of_another_origin_or_host_reaches_nothing() {
    let home = home();
    let bearer = format!("Bearer {}", token(&home, &["web"]));
    let served = Served::start(
        &home,
        &["--allow-host", "bridge.example:8765", "--allow-origin", "https://app.example:443"],
    );
    let port = served.address.port();
    let status = |headers: &[(&str, &str)]| {
        let headers = [&[("authorization", &*bearer)], headers].concat();
        served.request("GET", "/mcp", &headers, "").status
    };
    // A session is missing: the request was let in.
    let let_in = [
        ("host", format!("localhost:{port}")),
        ("host", format!("127.0.0.1:{port}")),
        ("host", format!("[::1]:{port}")),
        ("host", "bridge.example:8765".into()),
        ("origin", "https://app.example".into()),
        ("origin", format!("http://localhost:{port}")),
    ];
    for (name, value) in &let_in {
        assert_eq!(status(&[(name, value)]), 400, "{name}: {value}");
    }
    for (name, value) in [
        ("host", "evil.example"),
        ("host", "bridge.example"),
        ("host", "localhost.evil.example"),
        ("host", "127.0.0.1.evil.example"),
        ("host", "2130706433"),
        ("origin", "https://evil.example"),
        ("origin", "http://app.example"),
        ("origin", "https://app.example:8443"),
        ("origin", "null"),
        ("origin", "http://localhost"),
        ("origin", "http://127.0.0.1"),
        ("origin", "http://127.0.0.1:1"),
    ] {
        assert_eq!(status(&[(name, value)]), 403, "{name}: {value}");
    }
    eventually("it is in the log", PATIENCE, || {
        home.run(&["log"]).stdout.contains("web refused foreign_host_or_origin: ")
    });
    // A browser asks first whether a page may, and tells the page only what it may read.
    for (origin, is_allowed) in [("https://app.example", true), ("https://evil.example", false)] {
        let asked = served.request("OPTIONS", "/mcp", &[("origin", origin)], "");
        assert_eq!(asked.header("access-control-allow-origin"), is_allowed.then_some(origin), "{asked:?}");
        assert_eq!(asked.status == 204, is_allowed, "{asked:?}");
        let headers = [("origin", origin), ("authorization", &*bearer)];
        let got = served.request("GET", "/mcp", &headers, "");
        assert_eq!(got.header("access-control-allow-origin"), is_allowed.then_some(origin), "{got:?}");
    }
}

#[test]
fn odd_requests_are_refused_and_hold_up_nobody() {
    let home = home();
    let secret = token(&home, &["web"]);
    let bearer = format!("Bearer {secret}");
    let served = Served::start(&home, &[]);
    let post = |headers: &[(&str, &str)], body: &str| {
        let headers = [&[("authorization", &*bearer)], headers].concat();
        served.request("POST", "/mcp", &headers, body).status
    };
    assert_eq!(post(&[("authorization", "Bearer other")], PING), 401, "two headers");
    let proxied =
        format!("POST http://127.0.0.1/mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: {bearer}\r\n\r\n");
    assert_eq!(served.answer_to(proxied.as_bytes()).status, 400);
    let broken = served.request("POST", "/mcp", &[("authorization", &bearer)], "{");
    assert_eq!((broken.status, broken.message_of_error()), (400, -32700));
    assert_eq!(post(&[("content-length", "100000000")], "x"), 413);
    assert_eq!(post(&[("content-type", "text/plain")], PING), 415);
    assert_eq!(post(&[("accept", "text/html")], PING), 406);
    assert_eq!(post(&[("mcp-session-id", "5f1c")], PING), 404);
    assert_eq!(post(&[], &format!("[{}1]", "1,".repeat(30_000))), 413);
    assert_eq!(post(&[], &format!("[{}1]", "{\"\":0},".repeat(30_000))), 413);
    assert_ne!(post(&[], &format!("[\"{}\"]", "1,".repeat(30_000))), 413, "commas of a text are no parts");
    for body in ["", "{", "[]", "null", "{\"jsonrpc\": \"2.0\"}", "\u{0}", &"[".repeat(100_000)] {
        let status = post(&[], body);
        assert!((400..500).contains(&status), "{body:.20}: {status}");
    }
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    assert_eq!(served.answer_to(format!("GET /mcp HTTP/1.1\r\n{many}\r\n").as_bytes()).status, 431);
    let long = format!("GET /mcp HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    assert_eq!(served.answer_to(long.as_bytes()).status, 431);
    assert_eq!(served.answer_to(b"\x16\x03\x01\x02\x00\x01\x00").status, 400);
    // Whoever has no token is answered once.
    let two = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2);
    assert_eq!(served.answer_to(&two).body, "ok\n");
    // Half-open connections, and more of them than there are places.
    let mut silent: Vec<_> = (0..600).map(|_| served.connect()).collect();
    silent.iter_mut().for_each(|stream| drop(stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: ")));
    // They keep nobody out.
    assert_eq!(served.client(&secret).result("ping", json!({})), json!({}));
    assert_eq!(served.request("GET", "/healthz", &[], "").status, 200);
}

#[test]
fn a_session_is_its_owner_s_alone_and_ends_with_the_token() {
    let home = home();
    let (mine, theirs) = (token(&home, &["mine"]), token(&home, &["theirs"]));
    let served = Served::start(&home, &[]);
    let mut client = served.client(&mine);
    let mut stranger = served.client(&theirs);
    let own = stranger.session.replace(client.session.clone().unwrap());
    // Another owner's session is answered exactly as one that never was.
    let foreign = stranger.send("tools/list", json!({}));
    stranger.session = Some("00000000-0000-4000-8000-000000000000".into());
    let unknown = stranger.send("tools/list", json!({}));
    assert_eq!((foreign.status, &foreign.body), (404, &unknown.body));
    assert_eq!(stranger.delete().status, 204, "nothing ends");
    assert!(client.send("tools/list", json!({})).message().get("result").is_some());
    stranger.session = own;
    assert_eq!(sessions(&home), 2);
    assert_eq!(home.run(&["token", "rm", "theirs"]).code, Some(0));
    assert_eq!(stranger.send("tools/list", json!({})).status, 401);
    eventually("their session has ended", PATIENCE, || sessions(&home) == 1);
    // Whoever gets the name again has nothing of it.
    stranger = served.stateless(&token(&home, &["theirs"]));
    assert_eq!(stranger.send("tools/list", json!({})).status, 200);
    client.delete();
    eventually("it has ended", PATIENCE, || client.send("tools/list", json!({})).status == 404);
}

#[test]
fn a_token_limits_servers() {
    let home = home();
    let (all, one) = (token(&home, &["all"]), token(&home, &["one", "--servers", "b"]));
    let served = Served::start(&home, &[]);
    let description = |token: &str| {
        let tools = served.client(token).result("tools/list", json!({}));
        tools["tools"][0]["description"].as_str().unwrap().to_owned()
    };
    assert!(description(&all).contains("MCP servers as Python functions: a, b."));
    assert!(description(&one).contains("MCP servers as Python functions: b."));
}

#[test]
fn clients_that_go_without_a_word_do_not_fill_the_places() {
    let home = home();
    let token = token(&home, &["web"]);
    let served = Served::start(&home, &[]);
    let first = served.client(&token).session;
    for _ in 0..60 {
        served.client(&token);
    }
    let mut last = served.client(&token);
    assert_eq!(last.result("ping", json!({})), json!({}));
    eventually("those that were left the longest ago are put aside", PATIENCE, || sessions(&home) <= 41);
    last.session = first;
    assert_eq!(last.send("ping", json!({})).status, 200, "it comes back");
}

#[test]
fn a_client_without_sessions_is_offered_an_argument_for_its_session() {
    let home = home();
    let token = token(&home, &["web"]);
    let served = Served::start(&home, &[]);
    let mut client = served.stateless(&token);
    let found = client.result("server/discover", json!({}));
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!(WITHOUT_SESSIONS)), "{found}");
    let tool = client.result("tools/list", json!({}))["tools"][0].clone();
    assert_eq!(tool["inputSchema"]["properties"]["session"]["type"], "string");
    assert!(tool["description"].as_str().unwrap().contains("the session that the first reply names"));
    let older = served.client(&token).result("tools/list", json!({}))["tools"][0].clone();
    assert_eq!(older["inputSchema"]["properties"]["session"], Value::Null);
    for session in [json!("5f1c"), json!(""), json!(5), json!([])] {
        let (reply, is_error) = client.run(json!({"code": "1", "session": session}));
        assert!(is_error && reply.starts_with("no session has this name, or it has ended"), "{reply}");
    }
    for method in ["initialize", "logging/setLevel", "ping"] {
        let answer = client.send(method, json!({}));
        assert_eq!((answer.status, &answer.message()["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
}

#[test]
fn an_address_that_others_can_reach_needs_tls_or_a_proxy() {
    let home = home();
    for (arguments, said) in [
        (&["--http", "0.0.0.0:0"][..], "can be reached from other machines"),
        (&["--http", "[::]:0"], "can be reached from other machines"),
        (&["--http", "0.0.0.0:0", "--behind-proxy"], "--allow-host"),
        (
            &["--http", "127.0.0.1:0", "--tls-certificate", "none", "--tls-key", "none"],
            "cannot be used for TLS",
        ),
        (&["--http", "127.0.0.1:0", "--tls-certificate", "none"], "--tls-key"),
        (&["--allow-host", "x"], "--http"),
        (&["--http", "here"], "invalid"),
    ] {
        let refused = home.run(&[&["serve"], arguments].concat());
        assert!(
            refused.code == Some(2) && refused.stderr.contains(said),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn stopping_waits_for_the_end_and_a_taken_port_leaves_nothing() {
    let home = home();
    let token = token(&home, &["web"]);
    let served = Served::start(&home, &[]);
    served.client(&token);
    let address = served.address.to_string();
    for _ in 0..3 {
        assert_eq!(home.run(&["serve", "stop"]).code, Some(0));
        drop(Served::start(&home, &[]));
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = home.run(&["serve", "--http", &taken.local_addr().unwrap().to_string()]);
    assert!(refused.code == Some(1) && refused.stderr.contains("cannot listen on"), "{}", refused.stderr);
    assert!(!home.path().join("run/belljar/serve.sock").exists(), "{address}");
}

#[test]
fn tokens_are_listed_without_what_they_are() {
    let home = Home::new();
    let secret = token(&home, &["laptop", "--policy", "careful", "--servers", "a,b", "--expires", "90d"]);
    let listed = home.run(&["token", "ls"]);
    assert!(listed.stdout.starts_with("laptop  created 20"), "{}", listed.stdout);
    assert!(listed.stdout.contains("  policy careful  servers a,b"), "{}", listed.stdout);
    let json: Value = serde_json::from_str(&home.run(&["token", "ls", "--json"]).stdout).unwrap();
    assert_eq!((&json["name"], &json["servers"]), (&json!("laptop"), &json!(["a", "b"])));
    let stored = home.shell("grep -r . .local/state/belljar/tokens; ls .local/state/belljar/tokens").stdout;
    assert!(stored.contains("careful") && !stored.contains(&secret), "{stored}");
    for (arguments, said) in [
        (&["token", "add", "laptop"][..], "there is a token \"laptop\" already"),
        (&["token", "add", "Lap top"], "a name has"),
        (&["token", "add", "x", "--expires", "soon"], "is no time"),
        (&["token", "add", "x", "--policy", "loose"], "invalid value"),
        (&["token", "add", "x", "--servers", " "], "blank"),
        (&["token", "add", "x", "--servers", "a,\t"], "blank"),
        (&["token", "rm", "desktop"], "no token is named \"desktop\""),
    ] {
        let refused = home.run(arguments);
        assert!(
            refused.code != Some(0) && refused.stderr.contains(said),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn unit_files_start_the_program_with_the_options_that_were_given() {
    let home = Home::new().env("PATH", "/usr/bin:/opt/a b/<bin>");
    let options = ["--http", "10.0.0.5:8765", "--behind-proxy", "--allow-host", "a$b.example.com"];
    let unit = |manager: &str| {
        let output = home.run(&[&["serve", "--unit", manager], &options[..]].concat());
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        output.stdout
    };
    let belljar = program("belljar").to_str().unwrap().to_owned();
    let words = ["serve", "--http", "10.0.0.5:8765", "--allow-host", "a$b.example.com", "--behind-proxy"];
    let systemd = unit("systemd");
    let start = format!("\nExecStart={belljar} {}\n", words.join(" ").replace('$', "$$"));
    assert!(systemd.contains(&start), "{systemd}");
    assert!(systemd.contains(&format!("\nEnvironment=\"PATH={}\"\n", home.search_path())), "{systemd}");
    let file = home.path().join("belljar.service");
    std::fs::write(&file, &systemd).unwrap();
    let mut verify = Command::new("systemd-analyze");
    match verify
        .env("XDG_RUNTIME_DIR", home.path().join("run"))
        .args(["--user", "verify"])
        .arg(&file)
        .output()
    {
        Ok(verified) => {
            let said = String::from_utf8_lossy(&verified.stderr);
            assert!(verified.status.success() && !said.contains("belljar.service"), "{said}");
        }
        Err(error) => eprintln!("SKIPPED: systemd-analyze: {error}"),
    }
    let file = home.path().join("belljar.plist");
    std::fs::write(&file, unit("launchd")).unwrap();
    let read = "import json, plistlib, sys; print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
    let read = Command::new("python3").args(["-c", read]).arg(&file).output().unwrap();
    let plist: Value = serde_json::from_slice(&read.stdout).unwrap();
    let words: Vec<&str> = [&[belljar.as_str()], &words[..]].concat();
    assert_eq!(plist["ProgramArguments"], json!(words));
    assert_eq!(plist["EnvironmentVariables"], json!({"PATH": home.search_path()}));
    assert_eq!((&plist["RunAtLoad"], &plist["KeepAlive"]), (&json!(true), &json!({"SuccessfulExit": false})));
    // What would not start has no unit.
    let refused = home.run(&["serve", "--unit", "systemd", "--http", "10.0.0.5:8765"]);
    assert!(refused.code == Some(2) && refused.stdout.is_empty(), "{}", refused.stdout);
}

#[test]
fn a_unit_file_names_files_by_absolute_paths_and_quotes_them() {
    let home = Home::new();
    let home = home
        .file("a \"b\" 1%.pem", include_str!("../fixtures/tls/server.pem"))
        .file("key.pem", include_str!("../fixtures/tls/server.key"));
    let tls = ["--http", "127.0.0.1:1", "--tls-certificate", "a \"b\" 1%.pem", "--tls-key", "key.pem"];
    let unit = home.run(&[&["serve", "--unit", "systemd"], &tls[..]].concat());
    let folder = home.path().to_str().unwrap();
    let words =
        format!("--tls-certificate \"{folder}/a \\\"b\\\" 1%%.pem\" --tls-key \"{folder}/key.pem\"\n");
    assert!(unit.stdout.contains(&words), "{words}{}{}", unit.stdout, unit.stderr);
}
