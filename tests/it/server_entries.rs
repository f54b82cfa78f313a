//! What entries say of the use of their servers, held towards real servers: the time and number of calls, and values that
//! commands print.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use belljar::broker::ActiveConfig;
use belljar::config::{ConfigFiles, Environment};
use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, SessionId};
use belljar_guard::Mark;
use belljar_upstream::{
    CallBounds, Connection, DeferredTransport, Inherited, ProcessSpec, Request, ServerSpec, ServerTransport,
    Upstream, UpstreamError,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::deadline::Deadline;
use crate::session;
use crate::support::{Fixture, PATIENCE, eventually};

fn name() -> ServerName {
    ServerName::new("fixture").unwrap()
}

fn process(program: &str, args: &[&str], env: &[(&str, &str)]) -> ProcessSpec {
    ProcessSpec {
        program: program.into(),
        searched: false,
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        env: env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        inherited: Inherited::All,
        cwd: None,
        keeper: None,
        projects: vec![],
        sandbox: None,
        private: belljar_confine::PrivatePlaces::default(),
        changeable: belljar_upstream::PlacesNow::default(),
    }
}

fn fixture_process(fixture: &Fixture, env: &[(&str, &str)]) -> ProcessSpec {
    let entry = fixture.entry();
    let args: Vec<&str> = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    process(entry["command"].as_str().unwrap(), &args, env)
}

fn upstream(spec: ServerSpec) -> Upstream {
    Upstream::new(vec![spec], &Arc::new(Limits::default()))
}

async fn connected(upstream: &Upstream) -> Result<Arc<Connection>, UpstreamError> {
    Ok(upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &CancellationToken::new()).await?)
}

async fn call(connection: &Connection, tool: &str, arguments: Value) -> Result<String, String> {
    let arguments: Map<String, Value> = arguments.as_object().unwrap().clone();
    let cancel = CancellationToken::new();
    let request = Request::Tool { name: tool.to_owned(), arguments, only_reads: false };
    let result = connection.ask(request, &Deadline::after(PATIENCE), &cancel, None).await;
    let result: Value = serde_json::from_str(result.map_err(|error| error.to_string())?.get()).unwrap();
    Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_server_is_one_for_each_session_and_ends_with_it() {
    let fixture = Fixture::new(&[]);
    let (one, other) = (SessionId::new("one"), SessionId::new("other"));
    for is_private in [true, false] {
        let transport = ServerTransport::Process(fixture_process(&fixture, &[]));
        let spec = ServerSpec { is_private, ..ServerSpec::new(name(), transport) };
        let upstream = upstream(spec.clone());
        let pid = async |session: &SessionId| {
            let (soon, cancel) = (Instant::now() + PATIENCE, CancellationToken::new());
            let connection = upstream.connect(&name(), session, soon, &cancel).await.unwrap();
            call(&connection, "pid", json!({})).await.unwrap()
        };
        let pids = [pid(&one).await, pid(&other).await, pid(&one).await, pid(&other).await];
        assert_eq!((pids[0] == pids[1], pids[0] == pids[2], pids[1] == pids[3]), (!is_private, true, true));
        let runs = |pid: &str| std::path::Path::new("/proc").join(pid).join("exe").exists();
        for (session, number) in [(&one, 0), (&other, 1)] {
            upstream.end_session(session);
            if is_private {
                eventually("it has ended", PATIENCE, || !runs(&pids[number]));
            }
            assert_eq!(pid(&other).await == pids[1], session == &one || !is_private);
        }
        // The next session of the name has a server without any state.
        assert_eq!(pid(&one).await == pids[0], !is_private);
        // Another entry replaces all of them.
        let pids = [pid(&one).await, pid(&other).await];
        upstream.replace(vec![ServerSpec { start_time: Some(PATIENCE), ..spec }]);
        let after = [pid(&one).await, pid(&other).await];
        assert!(pids.iter().all(|pid| !after.contains(pid)), "{pids:?} {after:?}");
        upstream.close().await;
        assert!(after.iter().all(|pid| !runs(pid)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_stdio_is_spoken_to_in_each_version_of_the_protocol() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let fixture = Fixture::new(&["--version", version]);
        let transport = ServerTransport::Process(fixture_process(&fixture, &[]));
        let upstream = upstream(ServerSpec::new(name(), transport));
        let connection = connected(&upstream).await.unwrap();
        assert_eq!(connection.tools().len(), 15, "{version}");
        assert_eq!(call(&connection, "echo", json!({"text": version})).await.unwrap(), version);
        let refused = call(&connection, "refuse", json!({})).await.unwrap_err();
        assert!(refused.starts_with("server 'fixture' refused: "), "{version}: {refused}");
        upstream.close().await;
        let ledger = fixture.ledger();
        let asked: Vec<&str> =
            ledger.iter().map(String::as_str).filter(|line| !line.starts_with("call ")).collect();
        // Only the one without sessions is told with each request which version is spoken.
        let expected: &[&str] = match version {
            "2026-07-28" => &["tools/list 2026-07-28", "tools/call 2026-07-28", "tools/call 2026-07-28"],
            _ => &[
                "initialize -",
                "notifications/initialized -",
                "tools/list -",
                "tools/call -",
                "tools/call -",
            ],
        };
        assert_eq!(asked[0], "server/discover 2026-07-28", "{version}");
        assert_eq!(asked[1..], *expected, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_the_time_of_its_server_s_entry_is_cancelled_there_and_says_which_limit_it_was() {
    let fixture = Fixture::new(&[]);
    let transport = ServerTransport::Process(fixture_process(&fixture, &[]));
    let time = Some(Duration::from_millis(250));
    let bounds = CallBounds { time, at_once: None, set_in: "mcpServers.fixture of /m.json".into() };
    let upstream = upstream(ServerSpec { bounds, ..ServerSpec::new(name(), transport) });
    let connection = connected(&upstream).await.unwrap();
    assert_eq!(
        call(&connection, "hang", json!({})).await.unwrap_err(),
        "server 'fixture' did not answer within the 0.25 s that it has for a call (timeout in mcpServers.fixture of /m.json)"
    );
    let cancelled = || fixture.ledger().iter().any(|line| line.starts_with("cancelled"));
    let until = Instant::now() + PATIENCE;
    while !cancelled() {
        assert!(Instant::now() < until, "{:?}", fixture.ledger());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The run's own time is the shorter one here.
    let hang = Request::Tool { name: "hang".into(), arguments: Map::new(), only_reads: false };
    let soon = &Deadline::after(Duration::from_millis(20));
    let late = connection.ask(hang, soon, &CancellationToken::new(), None).await.unwrap_err();
    assert_eq!(late.to_string(), "server 'fixture' did not answer in time");
    assert_eq!(call(&connection, "echo", json!({"text": "x"})).await.unwrap(), "x");
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_has_the_time_of_its_entry_and_is_said_while_it_lasts() {
    let mute = Fixture::new(&["--never-answer"]);
    let transport = ServerTransport::Process(fixture_process(&mute, &[]));
    let bounds = CallBounds { set_in: "servers.fixture of /c.toml".into(), ..CallBounds::default() };
    let start_time = Some(Duration::from_millis(1_500));
    let upstream = upstream(ServerSpec { start_time, bounds, ..ServerSpec::new(name(), transport) });
    assert_eq!(upstream.starting(&name()), None);
    let soon = Instant::now() + Duration::from_millis(300);
    let late =
        upstream.connect(&name(), &session(), soon, &CancellationToken::new()).await.map(|_| ()).unwrap_err();
    assert!(matches!(*late, UpstreamError::Deadline { .. }), "{late}");
    // It goes on without the caller.
    assert_eq!(upstream.starting(&name()), start_time.map(|time| (time, false)));
    assert_eq!(
        connected(&upstream).await.map(|_| ()).unwrap_err().to_string(),
        "server 'fixture' did not start: no answer within 1.5 s (start_timeout in servers.fixture of /c.toml)"
    );
    assert_eq!((upstream.starting(&name()), mute.pids().len()), (None, 1));
    // The next start says that the last one was too long.
    let until = Instant::now() + PATIENCE;
    while upstream.starting(&name()).is_none() {
        assert!(Instant::now() < until);
        let soon = Instant::now() + Duration::from_millis(100);
        drop(upstream.connect(&name(), &session(), soon, &CancellationToken::new()).await);
    }
    assert_eq!(upstream.starting(&name()), start_time.map(|time| (time, true)));
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_installs_its_server_has_more_time_while_it_works() {
    let working = "for part in 1 2 3 4 5 6 7 8; do echo \"part $part is installed\" >&2; sleep 0.5; done";
    let (fixture, usual) = (Fixture::new(&[]), Duration::from_secs(2));
    for (launcher, does, start_time, works) in [
        ("uvx", working, None, true),
        ("uvx", "sleep 4", None, false),
        ("uvx", working, Some(usual), false),
        ("tool", working, None, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(launcher);
        std::fs::write(&program, format!("#!/bin/sh\n{does}\nexec \"$@\"\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let server = fixture_process(&fixture, &[]);
        let args = [vec![server.program.to_str().unwrap().to_owned()], server.args.clone()].concat();
        let transport = ServerTransport::Process(ProcessSpec { program, args, ..server });
        let limits = Limits { server_start: usual, ..Limits::default() };
        let spec = ServerSpec { start_time, ..ServerSpec::new(name(), transport) };
        let upstream = Upstream::new(vec![spec], &Arc::new(limits));
        let started = connected(&upstream).await.map(|connection| connection.tools().len());
        assert_eq!(started.is_ok(), works, "{launcher} {does} {start_time:?}: {started:?}");
        upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_of_a_command_is_the_last_one_of_its_path() {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join(".volta/bin");
    std::fs::create_dir_all(&bin).unwrap();
    let fixture = Fixture::new(&[]);
    let server = fixture_process(&fixture, &[]);
    // The launcher needs the interpreter beside it, as npx needs node.
    let python = server.program.to_str().unwrap();
    for (file, text) in [
        ("zz-launch", "#!/usr/bin/env zz-interpreter\n".to_owned()),
        ("zz-interpreter", format!("#!/bin/sh\nshift\nexec {python} \"$@\"\n")),
    ] {
        std::fs::write(bin.join(file), text).unwrap();
        std::fs::set_permissions(bin.join(file), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let variables = [("PATH", "/usr/bin:/bin".into()), ("HOME", home.path().as_os_str().to_owned())];
    let variables: Vec<_> = variables.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let of = |program: std::path::PathBuf| {
        let inherited = Inherited::Only { variables: variables.clone(), withheld: vec![] };
        upstream(ServerSpec::new(
            name(),
            ServerTransport::Process(ProcessSpec { program, inherited, ..server.clone() }),
        ))
    };
    for program in ["zz-launch".into(), bin.join("zz-launch")] {
        let upstream = of(program);
        assert_eq!(connected(&upstream).await.unwrap().tools().len(), 15);
        upstream.close().await;
    }
    let upstream = of("zz-nowhere".into());
    let error = connected(&upstream).await.map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error,
        "server 'fixture' could not be started: its command \"zz-nowhere\" was not found in PATH (/usr/bin:/bin) and the \
         usual folders of nvm, fnm, pnpm, volta, asdf, mise, pyenv, Homebrew and ~/.local/bin"
    );
    upstream.close().await;
    std::fs::remove_file(bin.join("zz-interpreter")).unwrap();
    std::fs::write(bin.join("zz-launch"), "#!/no/such/interpreter\n").unwrap();
    let upstream = of("zz-launch".into());
    let error = connected(&upstream).await.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("zz-launch") && error.ends_with("needs an interpreter that was not found"),
        "{error}"
    );
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_are_under_way_than_the_entry_allows() {
    let fixture = Fixture::new(&[]);
    let transport = ServerTransport::Process(fixture_process(&fixture, &[]));
    // Whoever waits for its turn has all of its time left: four of these take longer than that.
    let bounds = CallBounds { time: Some(PATIENCE), at_once: Some(1), set_in: String::new() };
    let upstream = upstream(ServerSpec { bounds, ..ServerSpec::new(name(), transport) });
    let connection = connected(&upstream).await.unwrap();
    let slow = || call(&connection, "slow", json!({"ms": 30}));
    let (a, b, c, d) = tokio::join!(slow(), slow(), slow(), slow());
    assert!([a, b, c, d].iter().all(Result::is_ok));
    assert_eq!(call(&connection, "peak", json!({})).await.unwrap(), "1");
    // A call whose turn does not come is not made.
    let cancel = CancellationToken::new();
    let request = |tool: &str| Request::Tool { name: tool.into(), arguments: Map::new(), only_reads: false };
    let patient = Deadline::after(PATIENCE);
    let soon = async {
        while !fixture.ledger().iter().any(|line| line.starts_with("call hang")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let late = Deadline::after(Duration::from_millis(100));
        connection.ask(request("echo"), &late, &CancellationToken::new(), None).await.unwrap_err()
    };
    let error = tokio::select! {
        ended = connection.ask(request("hang"), &patient, &cancel, None) => panic!("{ended:?}"),
        error = soon => error,
    };
    assert!(matches!(*error, UpstreamError::NotReached { .. }), "{error}");
    upstream.close().await;
}

/// The variables of a server that runs.
async fn environment_of(connection: &Connection) -> Vec<String> {
    let pid = call(connection, "pid", json!({})).await.unwrap();
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    environment.split('\0').map(str::to_owned).collect()
}

/// Home with these entries, of the same server each, as its only file.
fn upstream_of(home: &std::path::Path, entries: Value) -> Upstream {
    upstream_in(home, home, entries)
}

/// As [`upstream_of`], for a bridge that was started in this folder.
fn upstream_in(home: &std::path::Path, folder: &std::path::Path, entries: Value) -> Upstream {
    std::fs::create_dir_all(home.join("MCPs")).unwrap();
    std::fs::write(home.join("MCPs/m.json"), json!({ "mcpServers": entries }).to_string()).unwrap();
    let (own, cwd) = (Some(home.to_owned()), Some(folder.to_owned()));
    let mut environment = Environment { home: own, cwd, ..Environment::capture() };
    environment.variables.insert("MCP_BRIDGE_ALLOW_CMD".into(), "1".into());
    let (_, files) = ConfigFiles::load(environment);
    let active_config = ActiveConfig::new(files, Mark::new(), env!("CARGO_BIN_EXE_belljar").into(), None);
    Upstream::new(active_config.specs(), &Arc::new(Limits::default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_inherits_a_default_set_and_what_its_entry_names() {
    let (home, fixture) = (tempfile::tempdir().unwrap(), Fixture::new(&[]));
    let with = |more: Value| {
        let mut entry = fixture.entry();
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    // Set for every test.
    let (name, other) = ("CARGO_PKG_DESCRIPTION", "CARGO_PKG_AUTHORS");
    let upstream = upstream_of(
        home.path(),
        json!({
            "plain": with(json!({"env": {"A": "${CARGO_PKG_DESCRIPTION}"}})),
            "named": with(json!({"env_inherit": [name]})),
            "many": with(json!({"envInherit": ["CARGO_PKG_*"], "env": {"CARGO_PKG_AUTHORS": "set here"}})),
            "all": with(json!({"env_inherit": ["*"]})),
        }),
    );
    let of = async |server: &str| {
        let server = ServerName::new(server).unwrap();
        let connection = upstream
            .connect(&server, &session(), Instant::now() + PATIENCE, &CancellationToken::new())
            .await
            .unwrap();
        environment_of(&connection).await
    };
    let value = |environment: &[String], name: &str| {
        let begin = format!("{name}=");
        environment.iter().find_map(|pair| pair.strip_prefix(&begin).map(str::to_owned))
    };
    let (plain, named, many, all) = (of("plain").await, of("named").await, of("many").await, of("all").await);
    let description = std::env::var(name).ok();
    assert!(description.is_some() && std::env::var(other).is_ok());
    assert_eq!([value(&plain, name), value(&plain, "A")], [None, description.clone()]);
    // The folder of the fixture's command comes last.
    let (path, own) = (value(&plain, "PATH").unwrap(), std::env::var("PATH").unwrap());
    assert!(path.starts_with(&own) && path[own.len()..].ends_with("/examples"), "{path}");
    let own = ["A", "BELLJAR_PARENT"];
    let others = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("CARGO"));
    assert!(
        others.into_iter().all(|name| own.contains(&name.as_str()) || value(&plain, &name).is_none()),
        "{plain:?}"
    );
    assert_eq!([value(&named, name), value(&named, other)], [description.clone(), None]);
    assert_eq!([value(&many, name), value(&many, other)], [description, Some("set here".into())]);
    assert!(std::env::vars().all(|(name, _)| value(&all, &name).is_some()), "{all:?}");
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_runs_what_is_in_the_folder_of_a_project_only_if_its_entry_says_so() {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    let genuine = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hostile_server.py");
    let genuine = std::fs::read_to_string(genuine).unwrap();
    // A module in the project has the name of the one that the user has installed.
    let project_s = format!("import os\nos.environ['MODULE'] = 'of the project'\n{genuine}");
    for (module, text) in [("installed/module_x.py", genuine), ("project/module_x.py", project_s)] {
        std::fs::create_dir_all(at(module).parent().unwrap()).unwrap();
        std::fs::write(at(module), text).unwrap();
    }
    for sandbox in [json!(false), json!({"read": [at("installed")]})] {
        let entry = |more: Value| {
            let env = json!({"PYTHONPATH": at("installed"), "MODULE": "of the user", "HOME": home.path()});
            let args = json!(["-B", "-m", "module_x"]);
            let mut entry = json!({"command": "python3", "args": args, "env": env, "sandbox": sandbox});
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            entry
        };
        let entries = json!({"plain": entry(json!({})), "open": entry(json!({"cwd": "${workspaceFolder}"}))});
        let upstream = upstream_in(home.path(), &at("project"), entries);
        for (server, module) in [("plain", "of the user"), ("open", "of the project")] {
            let (server, cancel) = (ServerName::new(server).unwrap(), CancellationToken::new());
            let connection =
                upstream.connect(&server, &session(), Instant::now() + PATIENCE, &cancel).await.unwrap();
            let variable = json!({"what": "variable", "of": "MODULE"});
            assert_eq!(call(&connection, "attempt", variable).await.unwrap(), module, "{sandbox}");
            let folder = json!({"what": "names", "of": "."});
            let names = call(&connection, "attempt", folder).await.unwrap();
            assert_eq!(names.contains("MCPs"), module == "of the user" && sandbox == false, "{names}");
        }
        upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_server_that_names_a_withheld_variable_tells_the_user_which_key_to_add() {
    let home = tempfile::tempdir().unwrap();
    let script = "echo 'KeyError: CARGO_PKG_DESCRIPTION' >&2; exit 1";
    let upstream = upstream_of(home.path(), json!({"fixture": {"command": "sh", "args": ["-c", script]}}));
    let error = connected(&upstream).await.map(|_| ()).unwrap_err();
    assert_eq!(error.withheld(), ["CARGO_PKG_DESCRIPTION"]);
    assert!(!error.to_string().contains("env_inherit"), "the model reads this: {error}");
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_in_the_folder_of_its_entry_s_file() {
    let (home, fixture) = (tempfile::tempdir().unwrap(), Fixture::new(&[]));
    let mut entry = fixture.entry();
    entry["env"] = json!({"TOKEN": "${cmd:./tokens/print one}"});
    let program = home.path().join("MCPs/tokens/print");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\necho \"$1 in $(pwd -P)\"\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let upstream = upstream_of(home.path(), json!({ "fixture": entry }));
    let environment = environment_of(&connected(&upstream).await.unwrap()).await;
    let folder = home.path().canonicalize().unwrap().join("MCPs");
    assert!(environment.contains(&format!("TOKEN=one in {}", folder.display())), "{environment:?}");
    upstream.close().await;
}

/// A server with a token that a command prints.
fn with_command(fixture: &Fixture, script: &str) -> ServerSpec {
    let known = fixture_process(fixture, &[]);
    let found = known.clone();
    let deferred = DeferredTransport {
        check: std::sync::Arc::new(|| Ok(())),
        commands: vec![process("sh", &["-c", script], &[])],
        written: script.to_owned(),
        resolve: Arc::new(move |printed: &[String]| {
            let [token] = printed else { return Err("cannot be used: no token".into()) };
            let token = token.trim_end().to_owned();
            let mut transport = found.clone();
            transport.env.push(("TOKEN".into(), token.clone()));
            Ok((ServerTransport::Process(transport), vec![("cmd".into(), token)]))
        }),
    };
    ServerSpec { deferred: Some(deferred), ..ServerSpec::new(name(), ServerTransport::Process(known)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_for_each_start_of_its_server_and_not_before_and_what_it_prints_is_a_secret() {
    let fixture = Fixture::new(&[]);
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let script = format!("echo ran >>{0}; printf 'token-of-run-%s' $(wc -l <{0})", runs.display());
    let upstream = upstream(with_command(&fixture, &script));
    assert!(!runs.exists());
    let started = |count: usize| {
        let lines = std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
        assert_eq!(lines, count);
    };
    let connection = connected(&upstream).await.unwrap();
    started(1);
    assert_eq!(call(&connection, "echo", json!({"text": "<token-of-run-1>"})).await.unwrap(), "<[TOKEN]>");
    let pid = call(&connection, "pid", json!({})).await.unwrap();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(environment.split(|byte| *byte == 0).any(|pair| pair == b"TOKEN=token-of-run-1"));
    assert_eq!(upstream.redacted(&name(), "<token-of-run-1>".into()), "<[TOKEN]>");
    assert!(call(&connection, "crash", json!({})).await.is_err());
    connected(&upstream).await.unwrap();
    started(2);
    // Whoever repeats the first is redacted still.
    assert_eq!(upstream.redacted(&name(), "token-of-run-1 token-of-run-2".into()), "[TOKEN] [TOKEN]");
    upstream.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_runs_if_the_check_before_it_fails() {
    let (fixture, ran) = (Fixture::new(&[]), tempfile::tempdir().unwrap());
    let script = format!("touch {}/ran", ran.path().display());
    for (refuses, is_run) in [(true, false), (false, true)] {
        let mut spec = with_command(&fixture, &script);
        let check = move || if refuses { Err("cannot be used: so it is".to_owned()) } else { Ok(()) };
        spec.deferred.as_mut().unwrap().check = std::sync::Arc::new(check);
        let upstream = upstream(spec);
        let error = connected(&upstream).await.map(|_| ()).err().map(|error| error.to_string());
        assert_eq!(error.unwrap_or_default().contains("so it is"), refuses);
        assert_eq!(ran.path().join("ran").exists(), is_run);
        upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_starts_no_server_and_is_told_without_what_it_printed() {
    let fixture = Fixture::new(&[]);
    let upstream = upstream(with_command(&fixture, "echo s3cret; exit 7"));
    let error = connected(&upstream).await.map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "server 'fixture' is configured, but cannot be used: its ${cmd:sh …} failed (exit status: 7)"
    );
    assert_eq!(fixture.pids(), [0; 0]);
    upstream.close().await;
}
