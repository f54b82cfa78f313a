//! What the servers are trusted with stays with them: it is nowhere in the sandbox, on no command line, in no log.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::http_fixture::{HttpFixture, events, reply, usual_answer};
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    no_secret_of_a_server_reaches_the_sandbox_the_engine_or_the_log,
    secrets_in_a_server_s_errors_are_written_as_their_names,
    passwords_and_keys_within_values_reach_no_code,
    no_part_of_an_http_answer_brings_a_key_into_a_reply,
);

/// Looks wherever code inside can look.
const SEARCH: &str = r#"
import glob, os
seen = {name: value for name, value in os.environ.items()}
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + ["/proc/self/mountinfo"]:
    try:
        seen[path] = open(path, errors="replace").read()
    except OSError:
        pass
for folder in ("/workspace", "/tmp", "/run", "/var/tmp", "/dev/shm"):
    for path, _, files in os.walk(folder):
        for name in files:
            seen[os.path.join(path, name)] = open(os.path.join(path, name), errors="replace").read()
print(len(seen) > 5, sorted(name for name, text in seen.items() if any(word in text for word in words)))
"#;

fn no_secret_of_a_server_reaches_the_sandbox_the_engine_or_the_log(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut entry = fixture.entry();
    // Put together here, so that the test's own code does not hold what it looks for.
    let canary = ["canary", "7f3a", "token"].join("-");
    entry["env"]["API_TOKEN"] = json!(canary);
    let home =
        Home::on(engine).env("FIXTURE_TOKEN", &format!("from-{canary}")).env("MCP_BRIDGE_LOG_LEVEL", "DEBUG");
    entry["env"]["OTHER"] = json!("${FIXTURE_TOKEN}");
    let home = home.server("fixture", entry);
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='used')"), "'used'");

    let words = format!("words = ['-'.join(('canary', '7f3a')), {:?}]", home.path().to_str().unwrap());
    assert_eq!(bridge.ok(&format!("{words}{SEARCH}")).lines().next(), Some("True []"));
    for id in engine.containers_of(&home.owners()) {
        let inspected = engine.inspect_container(&id).to_string();
        assert!(!inspected.contains(&canary) && !inspected.contains("API_TOKEN"), "{inspected}");
    }
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(&canary), "{:?}", process.path());
    }
    assert!(!bridge.stderr().contains(&canary), "{}", bridge.stderr());
}

fn secrets_in_a_server_s_errors_are_written_as_their_names(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let canary = "canary-\"quoted\"-7f3a";
    let with_secret = |mut entry: serde_json::Value| {
        entry["env"]["API_TOKEN"] = json!(canary);
        entry
    };
    let script = r#"echo "no access with $API_TOKEN" >&2; exit 4"#;
    let home = Home::on(engine)
        .server("fixture", with_secret(fixture.entry()))
        .server("broken", with_secret(json!({"command": "sh", "args": ["-c", script], "env": {}})));
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(
        "def caught(call):\n  try:\n    return call()\n  except Exception as error:\n    return str(error)",
    );
    let failed =
        bridge.ok(&format!("print(caught(lambda: mcp_fixture.fail.sync(message={canary:?} + '!')))"));
    assert_eq!(failed.lines().next(), Some("[API_TOKEN]!"));
    let text = bridge
        .ok("print(caught(mcp_broken.echo.sync))\nprint(await runtime.list_servers(), runtime.capability_summary())");
    assert!(text.contains("no access with [API_TOKEN]") && !text.contains("7f3a"), "{text}");
    let echoed = bridge.ok(&format!("print(mcp_fixture.echo.sync(text={canary:?} + ' in no error'))"));
    assert_eq!(echoed, "[API_TOKEN] in no error");
    drop(bridge);

    // Asked in the background, it leaves its last words in the log.
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("runtime.search_tool_docs_sync('echo')");
    bridge.says("a server's tools are not known");
    bridge.says("no access with [API_TOKEN]");
    assert!(!bridge.stderr().contains("7f3a"), "{}", bridge.stderr());
}

fn passwords_and_keys_within_values_reach_no_code(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut entry = fixture.entry();
    entry["env"] = json!({"DATABASE_URL": "postgres://ada:canary%407f3a@db.test:5432/main", "KEYS": "${file:~/key.json}"});
    let keys = json!({"type": "service_account", "project_id": "my-project-123456789",
                      "private_key": "-----BEGIN-----\ncanary7f3a\n-----END-----\n",
                      "nested": {"password": "canary-of-it"}});
    let home = Home::on(engine).server("fixture", entry).file("key.json", &keys.to_string());
    let mut bridge = Bridge::start(&home).warm();
    // The server repeats what it is asked for, as one does that shows its settings.
    for (said, is_read) in [
        ("'canary%40' + '7f3a'", "'[DATABASE_URL]'"),
        ("'canary@' + '7f3a'", "'[DATABASE_URL]'"),
        ("'-----BEGIN-----\\ncanary' + '7f3a\\n-----END-----'", "'[KEYS]'"),
        ("'canary-of' + '-it'", "'[KEYS]'"),
        // The values are more than their secret parts.
        ("'ada at db.test:5432/main'", "'ada at db.test:5432/main'"),
        ("'my-project-123456789'", "'my-project-123456789'"),
    ] {
        for tool in ["echo(text=", "fail(message="] {
            let call = format!(
                "try:\n  said = await mcp_fixture.{tool}{said})\nexcept runtime.MCPError as error:\n  \
                 said = str(error)\nsaid"
            );
            assert_eq!(bridge.ok(&call).lines().next(), Some(is_read), "{call}");
        }
    }
}

/// A request of the bridge, and what a server answers to it: status, headers and body. `KEY` stands for the key, `ID` for
/// the request's ID.
type Answer = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);

/// Each part of an HTTP answer in which a server's text may stand.
const ANSWERS: [Answer; 18] = [
    ("initialize", "401 Unauthorized", &[("WWW-Authenticate", "Bearer scope=\"KEY\"")], "KEY"),
    (
        "initialize",
        "401 Unauthorized",
        &[("WWW-Authenticate", "Bearer error=\"KEY\", error_description=\"KEY\"")],
        "",
    ),
    (
        "initialize",
        "401 Unauthorized",
        &[("WWW-Authenticate", "Bearer resource_metadata=\"http://127.0.0.1:9/KEY\"")],
        "",
    ),
    ("initialize", "500 KEY", &[], "KEY"),
    (
        "initialize",
        "200 OK",
        &[],
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"KEY","data":"KEY"}}"#,
    ),
    (
        "initialize",
        "200 OK",
        &[],
        r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"KEY","capabilities":"KEY","serverInfo":"KEY"}}"#,
    ),
    ("initialize", "307 KEY", &[("Location", "https://KEY.test/KEY")], ""),
    (
        "tools/list",
        "200 OK",
        &[],
        r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"t","inputSchema":"KEY"},{"name":{"KEY":1}}],"nextCursor":["KEY"]}}"#,
    ),
    ("tools/call", "401 Unauthorized", &[("WWW-Authenticate", "Bearer scope=\"KEY\"")], ""),
    (
        "tools/call",
        "403 Forbidden",
        &[("WWW-Authenticate", "Bearer error=\"insufficient_scope\", scope=\"KEY\"")],
        "KEY",
    ),
    ("tools/call", "404 Not Found", &[("Content-Type", "text/plain")], "KEY"),
    (
        "tools/call",
        "400 Bad Request",
        &[],
        r#"{"error":{"message":"KEY","data":{"KEY":"KEY"}},"detail":"KEY"}"#,
    ),
    ("tools/call", "429 Too Many Requests", &[("Retry-After", "KEY")], r#"{"error":"KEY"}"#),
    (
        "tools/call",
        "200 OK",
        &[],
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"KEY","data":{"KEY":"KEY"}}}"#,
    ),
    (
        "tools/call",
        "200 OK",
        &[],
        r#"{"jsonrpc":"2.0","id":ID,"result":{"isError":true,"content":[{"type":"text","text":"KEY"}],"structuredContent":{"KEY":"KEY"}}}"#,
    ),
    ("tools/call", "200 OK", &[], r#"{"jsonrpc":"2.0","id":ID,"result":"KEY"}"#),
    ("tools/call", "200 OK", &[("Content-Type", "x/KEY")], "KEY"),
    ("tools/call", "200 OK", &[], "KEY {"),
];

fn no_part_of_an_http_answer_brings_a_key_into_a_reply(engine: &Engine) {
    let key = ["canary", "7f3a", "0123456789"].join("-");
    let mut home = Home::on(engine).env("MCP_BRIDGE_LOG_LEVEL", "DEBUG");
    let mut fixtures = Vec::new();
    for (number, (method, status, headers, body)) in ANSWERS.into_iter().enumerate() {
        let written = {
            let key = key.clone();
            move |text: &str, id: &Value| text.replace("KEY", &key).replace("ID", &id.to_string())
        };
        let fixture = HttpFixture::start(move |request, stream| {
            let id = &request.body["id"];
            if request.is(method) {
                let headers: Vec<(&str, String)> =
                    headers.iter().map(|(name, value)| (*name, written(value, id))).collect();
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                return reply(stream, &written(status, id), &headers, &written(body, id));
            }
            match usual_answer(request) {
                Some(answer) => reply(stream, "200 OK", &[], &answer.to_string()),
                None if request.body["id"].is_null() => reply(stream, "202 Accepted", &[], ""),
                None => events(stream, &format!("data: {}\n\n", written("KEY", id))),
            }
        });
        home = home.server(&format!("far{number}"), json!({"url": format!("{}?key={key}", fixture.url)}));
        fixtures.push(fixture);
    }
    let mut bridge = Bridge::start(&home).warm();
    let code = format!(
        "said = []\n\
         for number in range({}):\n  \
           try:\n    said.append(repr(await runtime.call_tool(f'far{{number}}', 't', {{}})))\n  \
           except Exception as error:\n    said.append(f'{{error!r}} {{error}} {{vars(error)}} {{error.__notes__ if hasattr(error, \"__notes__\") else 0}}')\n\
         found = [number for number, text in enumerate(said) if '-'.join(('canary', '7f3a')) in text]\n\
         print(found, *said, await runtime.list_servers(), runtime.capability_summary(), sep='\\n')",
        ANSWERS.len()
    );
    let reply = bridge.run_with(json!({"code": code, "timeout": 100}));
    assert!(!reply.text.contains("canary-7f3a") && reply.text.starts_with("[]"), "{}", reply.text);
    assert!(reply.text.matches("[key]").count() > ANSWERS.len() / 2, "{}", reply.text);
    // The hint of an exception that nobody catches stands in the reply.
    for number in 0..ANSWERS.len() {
        let reply = bridge.run(&format!("await runtime.call_tool('far{number}', 't', {{}})"));
        assert!(!reply.text.contains("canary-7f3a"), "{number}: {}", reply.text);
    }
    let doctor = home.run(&["doctor", "--ask"]);
    assert!(!format!("{}{}", doctor.stdout, doctor.stderr).contains("canary-7f3a"), "{}", doctor.stdout);
    let log = home.run(&["log", "--json"]).stdout;
    assert!(log.contains("far0") && !log.contains("canary-7f3a"), "{log}");
    assert!(!bridge.stderr().contains("canary-7f3a"), "{}", bridge.stderr());
    assert!(fixtures.iter().all(|fixture| fixture.count("initialize") > 0));
}
