//! Each hint of the bridge that code or the model can follow is followed here, and then works. A hint in the source that
//! is in none of these lists fails.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    what_the_bridge_advises_works,
    the_manual_names_the_profile_and_kept_functions_and_a_masked_secret_is_told_once,
);

/// The modules whose hints reach the model.
const MODULES: [&str; 5] = ["broker", "jobs", "rerun", "server", "session"];

/// A request, a part of the hint in its reply, and the requests that follow the hint.
fn rows() -> Vec<(Value, &'static str, Vec<Value>)> {
    let run = |code: &str| json!({"code": format!("from mcp import runtime\n{code}")});
    let long = format!("# {}", "x".repeat(9 << 20));
    vec![
        (
            json!({"cod": "1"}),
            "run_python takes code, servers, timeout, reset and checkpoint",
            vec![json!({"code": "1", "servers": ["one"], "timeout": 5, "reset": false})],
        ),
        (json!({}), "pass the Python source as code", vec![json!({"code": "1"})]),
        (
            json!({"code": long}),
            "keep data out of the code: read it through a tool",
            vec![run("mcp_one.echo.sync(text='x' * (1 << 20))")],
        ),
        (json!({"code": "'\0'"}), r"write it as \x00", vec![json!({"code": r"'\x00'"})]),
        (
            json!({"code": "1", "reset": true, "checkpoint": "a"}),
            "checkpoint goes back to a checkpoint by its name",
            vec![run("runtime.checkpoint('a')"), json!({"code": "1", "checkpoint": "a"})],
        ),
        (
            json!({"code": "1", "timeout": 1e9}),
            "longer work goes on beside other runs as a job: runtime.spawn(f)",
            vec![run("assert runtime.spawn(abs, -1).wait(30)")],
        ),
        (
            run("runtime.job(99)"),
            "print(runtime.jobs()) lists those that are known",
            vec![run("print(runtime.jobs())")],
        ),
        (
            run("import time\njobs = [runtime.spawn(time.sleep, 60) for _ in range(5)]"),
            "wait for one, as in runtime.job(",
            vec![run("for job in runtime.jobs(): job.cancel()\nruntime.spawn(abs, -1)")],
        ),
        (
            run("runtime.search_tool_docs(['add'] * 9)"),
            "leave some out, or search twice",
            vec![run("runtime.search_tool_docs(['add'] * 8)")],
        ),
        (
            run("runtime.list_tools('onne')"),
            " Available in this run: one",
            vec![run("runtime.list_tools('one')")],
        ),
        (
            run("runtime.query_tool_docs('one', detail='al')"),
            "or be left out",
            vec![run("runtime.query_tool_docs('one', detail='full')\nruntime.query_tool_docs('one')")],
        ),
        (run("h = mcp_one.add.handle_sync(a=1, b=2)\nh['nope'].load()"), "it is ", vec![run("h.load()")]),
        (
            run("runtime.Handle(runtime.handles()[0]._calls, {**h._told, 'handle': 77}).load()"),
            "handles go with the session that made them: make the call again",
            vec![run("h = mcp_one.add.handle_sync(a=1, b=2)\nh.load()")],
        ),
        (
            run("runtime.get_prompt('one', 'p', {'a': 1})"),
            "write it as str(...)",
            vec![run("try: runtime.get_prompt('one', 'p', {'a': str(1)})\n\
                 except runtime.MCPError as error: assert 'str(...)' not in str(error)")],
        ),
        (
            run("mcp_one.echo.sync(text='[TOKEN]' + mcp_one.echo.sync(text='ghp_0123456789abcdef0123'))"),
            "leave it out, code is never given it",
            vec![run("mcp_one.echo.sync(text='x')")],
        ),
    ]
}

/// Hints that only the user can follow: what they name is tested where the setting is.
const OF_THE_USER: [&str; 17] = [
    "the user must fix it; `belljar config` shows where it stands",
    "the user sets budgets below [model] in config.toml; ask less, or of larger parts",
    "the user sets endpoint and name below [model] in config.toml",
    "jobs are answered at any time by an endpoint, which the user sets below [model] in config.toml",
    "the user sets it in config.toml",
    "the user must fix [model] in config.toml",
    "the user sets budgets in policy.toml",
    "do not try again in this run",
    "the user can let it pass by a rule or another profile in policy.toml",
    "the user decides that in policy.toml",
    "the user decides that in the server's entry",
    "the user decides that there",
    "the user gives belljar a state folder that it can write, or chooses another profile",
    "the user sets that: jobs.timeout, or MCP_BRIDGE_JOB_TIMEOUT",
    "large results lie in the host's folder for temporary files: it needs room",
    "the user has it kept with MCP_BRIDGE_JOURNAL=full; runtime.checkpoint makes new ones",
    "they are kept by belljar: `belljar files get`",
];

/// Hints behind faults and large data, which tests of those faults provoke, or that state a fact and advise nothing.
const BEHIND_FAULTS: [&str; 17] = [
    "hand them over in several calls",
    "give the run a larger timeout, or ask for less: fewer max_tokens, a smaller part",
    "cut the text with runtime.chunk(...), and ask of the parts with runtime.map_llm(...)",
    "say which server is meant: read_resource(uri, server=...), one of ",
    " results that were used last, up to ",
    "send a part: handle[...]",
    "wait for one of them",
    "the next run starts afresh; look before a call is made again that writes",
    "run it again",
    "asked for once more, it is made again from the session's journal",
    "await or join what calls tools before the code ends",
    "make fewer large calls at once, or hand the data over in parts",
    "ask the tool for less: a page, a filter, fewer fields",
    "variables are as before",
    "wait for them (await runtime.job(1)) or cancel them first: print(runtime.jobs())",
    "run with reset: true to let all of them go, or runtime.forget_checkpoint(name) to make room",
    "the next run begins with them anew",
];

fn what_the_bridge_advises_works(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut entry = fixture.entry();
    entry["env"] = json!({"TOKEN": "ghp_0123456789abcdef0123"});
    let mut bridge = Bridge::start(&Home::on(engine).server("one", entry)).warm();
    for (request, hint, follow) in rows() {
        let reply = bridge.run_with(request.clone());
        assert!(reply.is_error && reply.text.contains(hint), "{hint}: {}", reply.text);
        for request in follow {
            let reply = bridge.run_with(request);
            assert!(!reply.is_error, "{hint}: {}", reply.text);
        }
    }
}

fn the_manual_names_the_profile_and_kept_functions_and_a_masked_secret_is_told_once(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut entry = fixture.entry();
    entry["env"] = json!({"TOKEN": "ghp_0123456789abcdef0123"});
    let home = Home::on(engine).server("one", entry);
    let mut bridge = Bridge::start(&home).warm();
    let masked = "mcp_one.echo.sync(text='ghp_0123456789abcdef0123')";
    let told = bridge.ok(masked);
    assert!(told.contains("note: [TOKEN] in results of one stands for a secret, which is masked"), "{told}");
    assert_eq!(bridge.ok(masked), "'[TOKEN]'");
    let calls = fixture.ledger();
    let refused = bridge.run("mcp_one.echo.sync(text='use [TOKEN]')").text;
    assert!(
        refused.contains("nothing was sent to one.echo: [TOKEN] in the arguments is no secret"),
        "{refused}"
    );
    assert_eq!(fixture.ledger(), calls);
    bridge.ok("def double(n): return 2 * n\nruntime.save_tool(double)");
    let manual = bridge.ok("print(runtime.capability_summary())");
    assert!(
        manual.contains("from skills import double\n") || manual.ends_with("from skills import double"),
        "{manual}"
    );
    assert!(!manual.contains("Profile "), "{manual}");
    for (profile, said) in [
        ("careful", "Profile careful, and this client cannot ask the user: refused are calls"),
        ("read-only", "Profile read-only: refused are calls of tools that are not marked [read-only]"),
    ] {
        let home = Home::on(engine).env("MCP_BRIDGE_POLICY", profile);
        let manual = Bridge::start(&home).warm().ok("print(runtime.capability_summary())");
        assert!(manual.contains(said), "{manual}");
    }
    let home = Home::on(engine).env("MCP_BRIDGE_POLICY", "careful");
    let mut asking = Bridge::start_with(&home, json!({"elicitation": {}})).warm();
    let manual = asking.ok("print(runtime.capability_summary())");
    assert!(manual.contains("Profile careful: the user is asked before each call of a tool"), "{manual}");
}

#[test]
fn each_hint_of_the_bridge_is_in_a_list() {
    let followed: Vec<&str> = rows().iter().map(|(_, hint, _)| *hint).collect();
    let known: Vec<&str> = followed.into_iter().chain(OF_THE_USER).chain(BEHIND_FAULTS).collect();
    let mut hints = Vec::new();
    for module in MODULES {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module), &mut hints);
    }
    assert!(hints.len() > 40, "{}", hints.len());
    let missing: Vec<&String> = hints
        .iter()
        .filter(|hint| !known.iter().any(|known| hint.contains(known) || known.contains(*hint)))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Adds the longest fixed part of each text that a source gives as a hint.
fn collect(folder: &Path, hints: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, hints);
            continue;
        }
        if path.to_string_lossy().ends_with("_tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for behind in code.split(".hint(").skip(1).chain(code.split("HINT: &str =").skip(1)) {
            let behind = behind.trim_start().trim_start_matches("format!(").trim_start();
            let Some(literal) = behind.strip_prefix('"') else { continue };
            let end = literal.match_indices('"').find(|(at, _)| !literal[..*at].ends_with('\\')).unwrap().0;
            // A backslash at the end of a line leaves out the indentation of the next one.
            let literal: String = literal[..end].split("\\\n").map(str::trim_start).collect();
            let literal = literal.replace("\\\"", "\"").replace("\\\\", "\\");
            let parts = literal.split('{').enumerate().map(|(at, part)| match part.split_once('}') {
                Some((_, rest)) if at > 0 => rest,
                _ => part,
            });
            hints.push(parts.max_by_key(|part| part.len()).unwrap().to_owned());
        }
    }
}
