//! Servers that misbehave: what the code is told, and that nobody else suffers.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::processes::{children_of, is_alive};
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::{on_every_container_engine, on_one_engine_and_processes};

on_one_engine_and_processes!(
    a_server_that_lists_other_tools_after_its_restart_is_told,
    a_server_that_dies_in_a_call_is_said_and_started_again_by_the_next,
    a_server_that_dies_between_calls_is_started_again_unseen,
    a_server_that_dies_between_calls_leaves_nothing_behind,
    a_server_that_cannot_start_is_said_with_its_last_words,
    a_command_that_is_not_there_is_said_with_its_name,
    a_server_that_never_answers_costs_its_own_calls_only,
    a_server_that_does_not_even_read_keeps_no_call_beyond_its_time,
    garbage_and_noise_of_a_server_are_survived,
    the_first_calls_at_once_start_one_process,
    the_entries_folder_variables_and_arguments_are_honoured,
    a_crashing_server_is_never_sent_a_call_twice,
    odd_answers_reach_the_code_or_are_refused_at_once_by_the_same_server,
    half_an_answer_before_the_end_is_an_unknown_outcome,
    what_a_server_asks_for_is_refused_and_never_reaches_the_code,
    lists_of_tools_that_go_round_in_circles_or_do_not_end_are_bounded,
    too_many_tools_on_one_page_leave_ten_thousand_and_give_their_room_back,
    servers_that_find_no_descriptors_cost_their_own_calls_only,
    what_cannot_be_read_of_a_server_is_named_where_it_is_missed,
);

on_every_container_engine!(the_container_of_a_server_that_ignores_its_end_is_removed);

fn the_container_of_a_server_that_ignores_its_end_is_removed(engine: &Engine) {
    const SERVER: &str = "import json, signal, socket, sys, threading\n\
        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
        for line in sys.stdin:\n \
        message = json.loads(line); method = message.get('method')\n \
        if 'id' not in message: continue\n \
        answer = {'error': {'code': -32601, 'message': 'no'}}\n \
        if method == 'initialize': answer = {'result': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, \
        'serverInfo': {'name': 'f', 'version': '1'}}}\n \
        if method == 'tools/list': answer = {'result': {'tools': [{'name': 'get', 'inputSchema': {'type': 'object'}}]}}\n \
        if method == 'tools/call': answer = {'result': {'content': [{'type': 'text', 'text': socket.gethostname()}]}}\n \
        print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], **answer}), flush=True)\n\
        threading.Event().wait()\n";
    let (program, option) = if engine.name == "docker" { ("docker", "-H") } else { ("podman", "--url") };
    let usual = "localhost/belljar-sandbox:latest".to_owned();
    let image = std::env::var("BELLJAR_TEST_IMAGE").unwrap_or(usual);
    // Podman's own limits are above those of some machines.
    let entry = json!({"command": program, "start_timeout": 120, "args": [
        option, engine.address(), "run", "-i", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024",
        "--ulimit", "nproc=1024:1024", "--entrypoint", "python3", image, "-c", SERVER,
    ]});
    for is_killed in [false, true] {
        let mut bridge = Bridge::start(&Home::on(engine).server("boxed", entry.clone())).warm();
        let id = bridge.run_with(json!({"code": "print(await mcp_boxed.get())", "timeout": 120})).text;
        let id = id.trim().to_owned();
        let is_there = || engine.containers().iter().any(|container| container.starts_with(&id));
        assert!(id.len() == 12 && is_there(), "{id}");
        match is_killed {
            true => bridge.signal(Signal::SIGKILL),
            false => bridge.hang_up(),
        }
        eventually("the container is removed", PATIENCE, || !is_there());
    }
    // What nobody could remove is named.
    let left = engine.create_container(&json!({"belljar.server": "0123.4567"}));
    let said = Home::on(engine).server("boxed", entry).run(&["doctor"]);
    engine.remove_container(&left);
    let said = said.stdout;
    let named = format!("{} is left of a bridge that is gone: {program} {option} ", &left[..12]);
    assert!(said.contains(&named), "{said}");
}

/// A server that writes other lines to stdout, lists a tool without a name, and gives results of odd forms.
fn what_cannot_be_read_of_a_server_is_named_where_it_is_missed(engine: &Engine) {
    let answer = |result: &str| vec![format!(r#"{{"jsonrpc":"2.0","id":@id@,"result":{result}}}"#)];
    let init =
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":[],"resources":[]},"serverInfo":null}"#;
    let listed = r#"{"tools":[{"name":"t"},{"title":"no name"}]}"#;
    let results = [
        r#"{"content":"hello"}"#,
        r#"{"toolResult":{"n":1}}"#,
        r#"{"content":["a",{"type":"text","text":"b"}]}"#,
    ];
    let results = results.map(answer).into_iter().chain([vec!["Result: b".to_owned()]]).collect::<Vec<_>>();
    let banner = vec!["BANNER".to_owned()].into_iter().chain(answer(init)).collect::<Vec<_>>();
    let answers = json!({
        "initialize": [banner], "tools/list": [answer(listed)], "tools/call": results,
        "resources/list": [answer(r#"{"resources":[{"uri":"x:"}],"nextCursor":true}"#)],
    });
    let home = Home::on(engine).file("answers.json", &answers.to_string());
    let file = home.path().join("answers.json");
    let fixture = Fixture::new(&["--answers", file.to_str().unwrap()]);
    let home = home.server("odd", fixture.entry()).file("MCPs/broken.json", "{\"mcpServers\": {");
    let mut bridge = Bridge::start(&home).warm();
    let code = "r = [await mcp_odd.t() for _ in range(3)]\nprint(r, [each.raw for each in r[:2]])";
    assert_eq!(
        bridge.ok(code),
        "['hello', {'toolResult': {'n': 1}}, ['a', 'b']] [{'content': 'hello'}, {'toolResult': {'n': 1}}]"
    );
    let text = bridge.ok("import mcp.runtime as runtime\nlen(await runtime.list_resources('odd'))");
    assert!(text.contains("odd, resources/list: left out of its list: further pages"), "{text}");
    let left_out = "left out of its list: item 2 (it has no name)";
    for code in ["name = 'u'\nawait runtime.call_tool('odd', name, {})", "await mcp_odd.u()"] {
        let text = bridge.run(code).text;
        assert!(text.contains(left_out), "{text}");
        assert!(text.contains("1 line from it could not be used") && text.contains("BANNER"), "{text}");
    }
    for code in ["mcp_odd.list_tools()", "runtime.query_tool_docs('odd')", "runtime.describe_server('odd')"] {
        let text = bridge.ok(&format!("print(await {code} and 1)"));
        assert_eq!(text, format!("1\nnote: odd, tools/list: {left_out}"));
    }
    let text = bridge.run_with(json!({"code": "await mcp_odd.t()", "timeout": 1})).text;
    assert!(
        text.contains("status: timeout")
            && text.contains(
                "note: odd has also written what could not be read; `belljar doctor --ask` shows it"
            ),
        "{text}"
    );
    let text = bridge.run("name = 'other'\nawait runtime.call_tool(name, 'u', {})").text;
    assert!(
        text.contains("Server 'other' is not available; a configuration file cannot be used: "),
        "{text}"
    );
    assert!(text.contains("MCPs/broken.json:1:16: unterminated object"), "{text}");
    for code in ["mcp_servers['other']", "import mcp.servers.other", "from mcp.servers import other"] {
        let text = bridge.run(code).text;
        assert_eq!(text.matches("a configuration file cannot be used: ").count(), 1, "{text}");
    }
    let asked = bridge.run_with(json!({"code": "1", "servers": ["other"]})).text;
    assert!(
        asked.contains("Server 'other' is not available; a configuration file cannot be used: "),
        "{asked}"
    );
    let told = home.run(&["doctor", "--ask"]).stdout;
    assert!(told.contains("NOT READ: 1 line from it") && told.contains("BANNER"), "{told}");
}

fn a_server_that_does_not_even_read_keeps_no_call_beyond_its_time(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut entry = fixture.entry();
    entry["timeout"] = json!(1);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", entry)).warm();
    bridge.ok(CAUGHT);
    bridge.ok("await mcp_fixture.pid()");
    let pid = Pid::from_raw(fixture.pids()[0]);
    kill(pid, Signal::SIGSTOP).unwrap();
    // More than the pipe takes: what tells the server that nobody waits any more cannot be written behind it.
    let reply = bridge.run_with(json!({
        "code": "print([caught(lambda: mcp_fixture.echo.sync(text='x' * size)) for size in (1 << 20, 1)])", "timeout": 60
    }));
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(reply.text.matches("within the 1 s that it has for a call").count(), 2, "{}", reply.text);
}

const CAUGHT: &str = "from mcp.runtime import MCPError\ndef caught(call):\n  try:\n    return call()\n  \
                      except MCPError as error:\n    return error.code + ': ' + str(error)";

fn a_server_that_dies_in_a_call_is_said_and_started_again_by_the_next(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok(CAUGHT);
    let text = bridge.ok("print(caught(mcp_fixture.crash.sync))");
    assert_eq!(
        text,
        "server_failed: server 'fixture' ended while it worked on this call; whether the call took effect is unknown; \
         its last words: fixture_server: crashing as asked\nit is started again by the next call\n\
         calls with unknown outcome (they may have taken effect): fixture.crash"
    );
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='back')"), "'back'");
    assert_eq!(fixture.pids().len(), 2);
    let text = bridge.ok("print(caught(lambda: mcp_fixture.crash.sync(text='x' * (2 << 20))))");
    assert!(text.contains("crashing as asked; 2 MB of arguments were being sent to it\n"), "{text}");
}

fn a_server_that_dies_between_calls_is_started_again_unseen(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("await mcp_fixture.pid()");
    let pid = fixture.pids()[0];
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    eventually("it dies", PATIENCE, || !is_alive(pid));
    // The bridge sees the end of its pipe a moment later; a call in that moment is answered as one that was under way.
    eventually("a call works again", PATIENCE, || {
        !bridge.run("await mcp_fixture.echo(text='back')").is_error
    });
    assert_eq!(fixture.pids().len(), 2);
}

fn a_server_that_dies_between_calls_leaves_nothing_behind(engine: &Engine) {
    let fixture = Fixture::new(&["--grandchild"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("await mcp_fixture.pid()");
    eventually("the grandchild starts", PATIENCE, || fixture.pids().len() == 2);
    // A sandbox without a container engine is one of them.
    let kept = || children_of(bridge.pid()).count() - usize::from(engine.is_process());
    assert_eq!(kept(), 2, "the guardian and the server's keeper");
    kill(Pid::from_raw(fixture.pids()[0]), Signal::SIGKILL).unwrap();
    // Without a further call; a keeper that has ended and is not waited for is a child still.
    eventually("its grandchild goes", PATIENCE, || !fixture.pids().into_iter().any(is_alive));
    eventually("its keeper goes", PATIENCE, || kept() == 1);
}

fn a_server_that_cannot_start_is_said_with_its_last_words(engine: &Engine) {
    let (broken, good) = (Fixture::new(&["--crash-at-start"]), Fixture::new(&[]));
    let home = Home::on(engine).server("broken", broken.entry()).server("good", good.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(CAUGHT);
    let text = bridge.ok("print(caught(mcp_broken.echo.sync))");
    assert!(text.starts_with("server_not_started: server 'broken' did not start: "), "{text}");
    assert!(text.contains("its last words: fixture_server: the token is missing"), "{text}");
    assert_eq!(bridge.ok("await mcp_good.echo(text='fine')"), "'fine'");
}

fn a_command_that_is_not_there_is_said_with_its_name(engine: &Engine) {
    let home = Home::on(engine)
        .server("lost", json!({"command": "no-such-command"}))
        .server("homeless", json!({"command": "true", "cwd": "/no/such/folder"}))
        .server("text", json!({"command": "./text"}))
        .file("MCPs/text", "no program");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(CAUGHT);
    let hint = "the user must fix it; `belljar doctor` checks the configured commands and addresses";
    let text = bridge.ok("print(caught(mcp_lost.echo.sync))");
    let lost = "server_not_started: server 'lost' could not be started: its command \"no-such-command\" was not found in PATH (/";
    assert!(text.starts_with(lost) && text.contains("nvm, fnm") && text.ends_with(hint), "{text}");
    assert_eq!(
        bridge.ok("print(caught(mcp_homeless.echo.sync))"),
        format!(
            "server_not_started: server 'homeless' could not be started: its folder /no/such/folder does not exist\n{hint}"
        )
    );
    let text = bridge.ok("print(caught(mcp_text.echo.sync))");
    assert!(
        text.starts_with("server_not_started: server 'text' could not be started: its command "),
        "{text}"
    );
    assert!(text.contains("MCPs/./text\": Permission denied"), "{text}");
}

fn a_server_that_never_answers_costs_its_own_calls_only(engine: &Engine) {
    let (mute, good) = (Fixture::new(&["--never-answer"]), Fixture::new(&[]));
    let home = Home::on(engine).server("mute", mute.entry()).server("good", good.entry());
    let mut bridge = Bridge::start(&home).warm();
    let code = "import asyncio\nmute = asyncio.ensure_future(mcp_mute.echo(text='?'))\n\
                print(await mcp_good.echo(text='fine'))\nawait mute";
    let reply = bridge.run_with(json!({"code": code, "timeout": 3}));
    assert!(reply.text.starts_with("status: timeout\nfine\n"), "{}", reply.text);
    assert_eq!(bridge.ok("await mcp_good.echo(text='still fine')"), "'still fine'");
    bridge.hang_up();
    bridge.wait(Duration::from_secs(3));
    assert!(!mute.pids().iter().any(|pid| is_alive(*pid)));
}

fn garbage_and_noise_of_a_server_are_survived(engine: &Engine) {
    let fixture = Fixture::new(&["--garbage", "--stderr-noise"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    for number in 0..5 {
        assert_eq!(bridge.ok(&format!("await mcp_fixture.echo(text='{number}!')")), format!("'{number}!'"));
    }
    assert_eq!(fixture.pids().len(), 1);
}

fn the_first_calls_at_once_start_one_process(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let code = "import asyncio\nlen(set(await asyncio.gather(*(mcp_fixture.pid() for _ in range(20)))))";
    assert_eq!(bridge.ok(code), "1");
    assert_eq!(fixture.pids().len(), 1);
}

fn the_entries_folder_variables_and_arguments_are_honoured(engine: &Engine) {
    // A server in one line of shell: it answers initialize and tools/list, and tells its surroundings on stderr.
    let script = r#"echo "$GREETING from $(pwd), $1" >&2; exit 4"#;
    let home = Home::on(engine);
    std::fs::create_dir(home.path().join("place")).unwrap();
    let place = home.path().join("place");
    let entry = json!({
        "command": "sh",
        "args": ["-c", script, "sh", "two words"],
        "env": {"GREETING": "hello"},
        "cwd": place,
    });
    let mut bridge = Bridge::start(&home.server("told", entry)).warm();
    bridge.ok(CAUGHT);
    let text = bridge.ok("print(caught(mcp_told.echo.sync))");
    let words = format!("its last words: hello from {}, two words", place.canonicalize().unwrap().display());
    assert!(text.contains(&words), "{text}");
}

fn a_crashing_server_is_never_sent_a_call_twice(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    for _ in 0..3 {
        assert!(bridge.run("await mcp_fixture.crash()").is_error);
    }
    assert_eq!(fixture.ledger(), ["call crash {}"; 3]);
}

fn odd_answers_reach_the_code_or_are_refused_at_once_by_the_same_server(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok(&format!("{CAUGHT}\ndef odd(text): return caught(lambda: mcp_fixture.odd.sync(result=text))"));
    let mut odd = |result: &str| bridge.ok(&format!("print(ascii(odd({})))", json!(result)));

    let content = |text: &str| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    assert_eq!(odd(&content(r"a\ud800z")), r"'a\ud800z'");
    assert_eq!(
        odd(r#"{"structuredContent":{"n":1e999,"i":123456789012345678901234567890}}"#),
        "{'n': inf, 'i': 123456789012345678901234567890}"
    );
    // Keys of another kind of result do not make it one.
    assert_eq!(odd(r#"{"tools":[],"content":[{"type":"text","text":"kept"}],"nextCursor":"x"}"#), "'kept'");

    for (broken, word) in [
        (r#"{"structuredContent":{"n":NaN}}"#.to_owned(), "cannot be read"),
        (r#"{"content":[],"content":[]"#.to_owned(), "cannot be read"),
        ("null".to_owned(), "no object"),
        (format!(r#"{{"structuredContent":{}{}}}"#, "[".repeat(300), "]".repeat(300)), "deeper than"),
    ] {
        let text = odd(&broken);
        assert!(
            text.contains("server_failed: server 'fixture' answered") && text.contains(word),
            "{broken}: {text}"
        );
    }
    let text = bridge.ok("print(caught(lambda: mcp_fixture.big.sync(bytes=70_000_000)))");
    assert!(text.contains("answered with more than 67108864 bytes"), "{text}");
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='still here')"), "'still here'");
    assert_eq!(fixture.pids().len(), 1);
}

fn half_an_answer_before_the_end_is_an_unknown_outcome(engine: &Engine) {
    let fixture = Fixture::new(&["--half-a-line"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok(CAUGHT);
    let text = bridge.ok("print(caught(mcp_fixture.crash.sync))");
    let ended = "server_failed: server 'fixture' ended while it worked on this call; whether the call took effect is unknown";
    assert!(text.starts_with(ended), "{text}");
    assert!(text.ends_with("(they may have taken effect): fixture.crash"), "{text}");
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='back')"), "'back'");
    assert_eq!(fixture.ledger(), ["call crash {}", r#"call echo {"text":"back"}"#]);
}

fn what_a_server_asks_for_is_refused_and_never_reaches_the_code(engine: &Engine) {
    let fixture = Fixture::new(&["--asks"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    assert_eq!(bridge.ok("await mcp_fixture.pid()"), "'asked'");
    let mut heard = fixture.ledger();
    heard.sort();
    assert_eq!(
        heard,
        [
            r#"answered "elicitation/create" null -32601"#,
            r#"answered "no/such/method" null -32601"#,
            r#"answered "ping" {} null"#,
            r#"answered "roots/list" null -32601"#,
            r#"answered "sampling/createMessage" null -32601"#,
            "call pid {}",
        ]
    );
    assert_eq!(bridge.rest(), [json!(null); 0], "the client is not asked either");
}

fn lists_of_tools_that_go_round_in_circles_or_do_not_end_are_bounded(engine: &Engine) {
    let circle = Fixture::new(&["--pages", "4", "--looping-cursor"]);
    let endless = Fixture::new(&["--pages", "1000000"]);
    let home = Home::on(engine).server("circle", circle.entry()).server("endless", endless.entry());
    let mut bridge = Bridge::start(&home).warm();
    let left_out =
        |name: &str, what: &str| format!("\nnote: {name}, tools/list: left out of its list: {what}");
    let said = left_out("circle", "pages that its nextCursor names again");
    assert_eq!(bridge.ok("len(await runtime.list_tools('circle'))"), format!("55{said}"));
    bridge.says("pages that its nextCursor names again");
    assert_eq!(bridge.ok("await mcp_circle.tool_9_of_page_4()"), "'tool_9_of_page_4 was called'");
    let listed = bridge.run_with(json!({"code": "len(await runtime.list_tools('endless'))", "timeout": 60}));
    let said = left_out("endless", "all behind item 10000, since it is too long");
    assert_eq!(listed.text, format!("10000{said}"));
    bridge.says("all behind item 10000, since it is too long");
    assert_eq!(bridge.ok("await mcp_endless.tool_9_of_page_990()"), "'tool_9_of_page_990 was called'");
}

fn too_many_tools_on_one_page_leave_ten_thousand_and_give_their_room_back(engine: &Engine) {
    let fixture = Fixture::new(&["--tools", "300000"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let before = bridge.resident_kib();
    let listed = bridge.run_with(json!({"code": "len(await runtime.list_tools('fixture'))", "timeout": 60}));
    let said = "note: fixture, tools/list: left out of its list: all behind item 10000, since it is too long";
    assert_eq!(listed.text, format!("10000\n{said}"));
    bridge.says("all behind item 10000, since it is too long");
    assert_eq!(bridge.ok("await mcp_fixture.t9999()"), "'t9999 was called'");
    // The line of 14 MB, the result that is taken out of it, and where its tools are.
    let grown = bridge.peak_kib().saturating_sub(before);
    assert!(grown < 80 * 1024, "the bridge grew by {grown} KiB");
    let kept = bridge.resident_kib().saturating_sub(before);
    assert!(kept < 64 * 1024, "the bridge keeps {kept} KiB");
}

fn servers_that_find_no_descriptors_cost_their_own_calls_only(engine: &Engine) {
    let fixtures: Vec<Fixture> = (0..24).map(|_| Fixture::new(&[])).collect();
    let mut home = Home::on(engine);
    for (number, fixture) in fixtures.iter().enumerate() {
        home = home.server(&format!("s{number}"), fixture.entry());
    }
    let limited = home.open_files(64);
    let mut bridge = Bridge::start(&limited).warm();
    bridge.ok(CAUGHT);
    let code = "said = [caught(lambda: mcp_servers[f's{n}'].echo.sync(text='x')) for n in range(24)]\n\
                print((said[0], [text for text in said if text != 'x'][0], said.count('x') + len([t for t in said if 'Too many open files' in t])))";
    let reply = bridge.run_with(json!({"code": code, "timeout": 60}));
    assert!(
        reply.text.starts_with("('x', ") && reply.text.contains("server_not_started: server "),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("Too many open files"), "{}", reply.text);
    assert!(reply.text.contains(", 24)"), "{}", reply.text);
    assert_eq!(bridge.ok("await mcp_s0.echo(text='still here')"), "'still here'");
}

fn a_server_that_lists_other_tools_after_its_restart_is_told(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine);
    let is_updated = home.path().join("updated");
    let own = fixture.entry();
    let words = |value: &Value| value.as_str().unwrap().to_owned();
    let mut arguments = vec![
        "-c".to_owned(),
        format!(
            "if [ -e '{}' ]; then exec \"$0\" \"$@\" --changed; fi; exec \"$0\" \"$@\"",
            is_updated.display()
        ),
        words(&own["command"]),
    ];
    arguments.extend(own["args"].as_array().unwrap().iter().map(words));
    let mut entry = own.clone();
    (entry["command"], entry["args"]) = ("sh".into(), arguments.into());
    let mut bridge = Bridge::start(&home.server("fixture", entry)).warm();
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='1')"), "'1'");
    std::fs::write(is_updated, "").unwrap();
    bridge.run("await mcp_fixture.crash()");
    let reply = bridge.ok("await mcp_fixture.echo(text='2')");
    assert!(reply.starts_with("'2'\n"), "{reply}");
    assert!(reply.contains("note: server fixture has changed its tools (changed: echo)"), "{reply}");
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='3')"), "'3'");
}
