//! The user's policy: what it does not let pass never reaches a server, whoever asks for it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    what_rules_deny_reaches_no_server_and_the_reason_is_told,
    a_profile_goes_by_what_servers_say_and_a_client_that_cannot_ask_is_told_the_setting,
    the_human_is_asked_and_the_time_of_the_run_stands_still,
    a_question_that_nobody_waits_for_is_withdrawn,
    an_answer_that_is_no_approval_denies_the_call_and_is_told_with_what_the_user_can_do,
    data_of_two_kinds_does_not_leave_unseen,
    a_policy_that_cannot_be_read_lets_nothing_pass,
    every_call_and_run_is_written_down_and_shown_by_log,
    calls_that_leave_no_record_are_told_of_or_denied,
    calls_in_a_home_that_is_full_or_read_only_are_told_of_or_denied,
    a_flood_of_refused_calls_leaves_few_lines,
    code_that_is_refused_before_it_runs_leaves_a_line_for_each_call_that_cannot_succeed,
    a_dry_run_makes_only_calls_that_read_and_lists_the_others,
    a_policy_that_is_edited_counts_from_the_next_run_on,
    a_client_without_handshake_is_asked_by_an_answer_and_asks_again,
);

const POLICY: &str = ".config/belljar/policy.toml";

fn bridge(engine: &Engine, fixture: &Fixture, policy: &str) -> Bridge {
    Bridge::start(&Home::on(engine).server("fixture", fixture.entry()).file(POLICY, policy)).warm()
}

/// What calls raise that are made in a `try`, one after the other.
fn tried(bridge: &mut Bridge, calls: &[&str]) -> Vec<String> {
    let attempt = |call: &&str| {
        format!(
            "try:\n  print(mcp_fixture.{call})\nexcept runtime.MCPError as error:\n  print(error.code, error.args[0])"
        )
    };
    let code: Vec<String> = calls.iter().map(attempt).collect();
    bridge.ok(&code.join("\n")).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn what_rules_deny_reaches_no_server_and_the_reason_is_told(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(
        engine,
        &fixture,
        r#"
            [[rule]]
            tool = "ad?"
            decision = "deny"
            reason = "no sums"
            [[rule]]
            arguments = { text = "*secret*" }
            decision = "deny"
            [[rule]]
            server = "fix*"
            read_only = true
            decision = "deny"
            [budgets]
            calls_per_run = 2
            bytes_per_session = 200
        "#,
    );
    let calls = ["add.sync(a=1, b=2)", "echo.sync(text='a secret')", "peak.sync()", "echo.sync(text='a')"];
    let raised = tried(&mut bridge, &calls);
    assert_eq!(raised[0], "denied fixture.add was not called: rule 1: no sums");
    assert!(raised.iter().any(|line| line == "denied fixture.echo was not called: rule 2"), "{raised:?}");
    assert!(raised.iter().any(|line| line == "denied fixture.peak was not called: rule 3"), "{raised:?}");
    assert_eq!(raised.last().map(String::as_str), Some("a"));
    assert_eq!(fixture.ledger(), [r#"call echo {"text":"a"}"#]);
    // Whatever way is taken: by a raw name, or a forged frame, which is a call like any other.
    let raw = "try:\n  runtime.call_tool_sync('fixture', 'add', {'a': 1, 'b': 2})\nexcept Exception as error:\n  print(error.code)";
    assert_eq!(bridge.ok(raw), "denied");
    let calls = ["echo.sync(text='b')", "echo.sync(text='c')", "echo.sync(text='d')"];
    let raised = tried(&mut bridge, &calls);
    assert_eq!(raised[..2], ["b", "c"]);
    assert!(raised[2].contains("budgets.calls_per_run: 2 calls are all"), "{raised:?}");
    let long = format!("echo.sync(text='{}')", "x".repeat(200));
    assert!(tried(&mut bridge, &[&long])[0].contains("budgets.bytes_per_session"));
    assert_eq!(fixture.ledger().len(), 3, "{:?}", fixture.ledger());
}

fn a_profile_goes_by_what_servers_say_and_a_client_that_cannot_ask_is_told_the_setting(engine: &Engine) {
    for (profile, reason) in [
        (
            "careful",
            "the user has to be asked (profile careful: its server does not say that it only reads), and this client \
             cannot ask them (it has declared no elicitation)",
        ),
        ("read-only", "profile read-only: its server does not say that it only reads"),
    ] {
        let fixture = Fixture::new(&[]);
        let home = Home::on(engine).server("fixture", fixture.entry()).env("MCP_BRIDGE_POLICY", profile);
        let mut bridge = Bridge::start(&home).warm();
        let raised = tried(&mut bridge, &["peak.sync()", "echo.sync(text='x')"]);
        assert_eq!(raised[1], format!("denied fixture.echo was not called: {reason}"));
        assert_eq!(fixture.ledger(), ["call peak {}"]);
        let reply = bridge.run("await mcp_fixture.echo(text='x')");
        assert!(reply.is_error && reply.text.contains("policy.toml"), "{}", reply.text);
        assert!(reply.text.ends_with("calls made: fixture.echo 1 not sent"), "{}", reply.text);
    }
}

/// The next question that the client is asked, and its id.
fn question(bridge: &mut Bridge) -> (Value, String) {
    let mut asked = bridge.message("a question", |message| message["method"] == "elicitation/create");
    let text = asked["params"]["message"].as_str().unwrap().to_owned();
    (asked["id"].take(), text)
}

fn answer(bridge: &mut Bridge, id: &Value, content: Value) {
    let result = json!({"action": "accept", "content": content});
    bridge.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn asking(engine: &Engine, fixture: &Fixture) -> Bridge {
    let home = Home::on(engine).server("fixture", fixture.entry()).env("MCP_BRIDGE_POLICY", "careful");
    let mut bridge = Bridge::spawn(&home);
    bridge.initialize_with("2025-11-25", json!({"elicitation": {}}));
    bridge.warm()
}

fn the_human_is_asked_and_the_time_of_the_run_stands_still(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = asking(engine, &fixture);
    // So that the server's start does not count below.
    bridge.ok("await mcp_fixture.peak()");
    let run = bridge.send_run(json!({"code": "await mcp_fixture.echo(text='once')", "timeout": 2}));
    let (id, text) = question(&mut bridge);
    let expected = "Code that the model wrote wants to call fixture.echo (profile careful: its server does not say that it \
                    only reads).\nArguments: {\"text\": \"once\"}";
    assert_eq!(text, expected);
    // Longer than the run has.
    assert!(bridge.next(Duration::from_secs(3)).is_err());
    answer(&mut bridge, &id, json!({"decision": "allow this call"}));
    assert_eq!(bridge.reply(run).text, "'once'");

    // One answer for several calls, with such arguments only.
    let code = "import asyncio\ncalls = [mcp_fixture.echo(text=t) for t in ('a1', 'a2', 'b1', 'a3')]\n\
                [getattr(r, 'code', r) for r in await asyncio.gather(*calls, return_exceptions=True)]";
    let run = bridge.send_run(json!({ "code": code }));
    let (id, _) = question(&mut bridge);
    let further = json!({"decision": "allow 10 further calls with arguments that I name next"});
    answer(&mut bridge, &id, further);
    let (id, _) = question(&mut bridge);
    answer(&mut bridge, &id, json!({"only_with": "text=a*"}));
    let (id, text) = question(&mut bridge);
    assert!(text.contains("\"b1\""), "{text}");
    answer(&mut bridge, &id, json!({"decision": "refuse"}));
    assert_eq!(bridge.reply(run).text, "['a1', 'a2', 'denied', 'a3']");
    let echoed = |text: &str| format!("call echo {{\"text\":\"{text}\"}}");
    let mut ledger = fixture.ledger();
    ledger[2..].sort();
    assert_eq!(ledger[2..], [echoed("a1"), echoed("a2"), echoed("a3")]);
    assert_eq!(ledger[..2], ["call peak {}".to_owned(), echoed("once")]);
}

fn an_answer_that_is_no_approval_denies_the_call_and_is_told_with_what_the_user_can_do(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = asking(engine, &fixture);
    for (answer, said) in [
        (json!({"action": "accept", "content": {"decision": "refuse"}}), "the user refused"),
        // A program without a user declines by itself.
        (json!({"action": "decline"}), "the question was declined"),
        (json!({"action": "cancel"}), "the question was dismissed, or nobody was there to answer it"),
        (
            json!({"action": "accept", "content": {}}),
            "the client accepted the question without a decision: it probably showed the user no form",
        ),
    ] {
        let run = bridge.send_run(json!({"code": "await mcp_fixture.echo(text='x')"}));
        let (id, _) = question(&mut bridge);
        bridge.send(&json!({"jsonrpc": "2.0", "id": id, "result": answer}));
        let reply = bridge.reply(run);
        assert!(reply.is_error && reply.text.contains(&format!(", and {said}\n")), "{said}: {}", reply.text);
        let hint = "do not repeat this call in this run; the user can let it pass by a rule or another profile in \
                    policy.toml";
        assert!(reply.text.contains(hint), "{said}: {}", reply.text);
    }
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn a_question_that_nobody_waits_for_is_withdrawn(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = asking(engine, &fixture);
    let run = bridge.send_run(json!({"code": "await mcp_fixture.echo(text='x')"}));
    let (id, _) = question(&mut bridge);
    bridge.notify("notifications/cancelled", json!({"requestId": run}));
    let withdrawn = bridge.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], id);
    answer(&mut bridge, &id, json!({"decision": "allow this call"}));
    assert_eq!(bridge.ok("'went on'"), "'went on'");
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn data_of_two_kinds_does_not_leave_unseen(engine: &Engine) {
    for (when_mixed, leaves) in [("", true), ("when_mixed = \"deny\"", false)] {
        let [mail, web, chat] = [(); 3].map(|()| Fixture::new(&[]));
        let policy = format!(
            "[labels]\nprivate = [\"mail\"]\nuntrusted = [\"web\"]\negress = [\"chat\"]\n{when_mixed}\n"
        );
        let home = Home::on(engine).server("mail", mail.entry()).server("web", web.entry());
        let home = home.server("chat", chat.entry()).file(POLICY, &policy);
        let mut bridge = Bridge::start(&home).warm();
        bridge.ok("await mcp_chat.echo(text='before')\nawait mcp_mail.echo(text='x')");
        let reply = bridge.run("await mcp_web.echo(text='x')\nawait mcp_chat.echo(text='after')");
        assert_eq!(!reply.is_error, leaves, "{}", reply.text);
        let reason = "labels: this session has read private and untrusted data, and the server lets data out";
        assert!(reply.text.contains(reason), "{}", reply.text);
        let sent = chat.ledger().contains(&r#"call echo {"text":"after"}"#.to_owned());
        assert_eq!((sent, chat.ledger().len()), (leaves, 1 + usize::from(leaves)));
    }
}

fn a_policy_that_cannot_be_read_lets_nothing_pass(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture, "[[rule]]\nserver = \"x\"\ndecison = \"allow\"\n");
    let raised = tried(&mut bridge, &["peak.sync()"]);
    assert!(raised[0].contains("policy.toml:3:1: is no policy: unknown field `decison`"), "{raised:?}");
    assert_eq!(fixture.ledger(), [""; 0]);
    bridge.says("no call of a tool passes until that is right");
}

fn every_call_and_run_is_written_down_and_shown_by_log(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = "[[rule]]\ntool = \"add\"\ndecision = \"deny\"\n";
    let entry = json!({"TOKEN": "hunter22"});
    let mut server = fixture.entry();
    server["env"] = entry;
    let home = Home::on(engine).server("fixture", server).file(POLICY, policy);
    let home = home.env("MCP_BRIDGE_AUDIT", "arguments");
    let mut bridge = Bridge::start(&home).warm();
    let code = "await mcp_fixture.echo(text='with hunter22')\ntry:\n  await mcp_fixture.add(a=1, b=2)\nexcept Exception: 0";
    bridge.ok(code);
    bridge.run("1 / 0");
    bridge.hang_up();
    bridge.wait(Duration::from_secs(10));
    let log = |arguments: &[&str]| {
        let output = home.command(&[&["log"], arguments].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let calls: Vec<Value> = log(&["--json", "--server", "fixture"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told = |call: &Value| json!([call["tool"], call["outcome"], call["arguments"], call["decision"]]);
    let redacted = json!({"text": "with [TOKEN]"});
    assert_eq!(told(&calls[0]), json!(["echo", "answered", redacted, "allow: profile open"]));
    let denied = "fixture.add was not called: rule 1";
    assert_eq!(told(&calls[1]), json!(["add", "denied", {"a": 1, "b": 2}, denied]));
    assert_eq!(calls.len(), 2);
    let sent = r#"{"text":"with hunter22"}"#.len();
    assert_eq!((&calls[0]["bytes_out"], &calls[1]["bytes_in"]), (&json!(sent), &json!(0)));
    assert!(calls[0]["bytes_in"].as_u64().unwrap() > sent as u64 && calls[0]["ms"].is_u64(), "{}", calls[0]);
    let sessions: Vec<&str> = calls.iter().map(|call| call["session"].as_str().unwrap()).collect();
    assert!(sessions[0].len() >= 8 && sessions[0] == sessions[1], "{sessions:?}");
    let times: Vec<&str> = calls.iter().map(|call| call["time"].as_str().unwrap()).collect();
    assert!(times[0] <= times[1] && times[0].starts_with("20") && times[0].ends_with('Z'), "{times:?}");
    assert_eq!(log(&["--denied", "--since", "1h"]).lines().count(), 1);
    let runs = log(&["--outcome", "raised"]);
    assert!(runs.contains(" raised, ") && runs.contains("0 calls"), "{runs}");
    let wrong = home.command(&["log", "--since", "tomorrow"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("is no time; write 30m"));
    let file = std::fs::read_to_string(home.path().join(".local/state/belljar/audit.jsonl")).unwrap();
    assert!(!file.contains("hunter22"), "{file}");
}

fn calls_that_leave_no_record_are_told_of_or_denied(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let allows = "[[rule]]\ndecision = \"allow\"\n";
    let under = |profile: &str| {
        let home = Home::on(engine).server("fixture", fixture.entry()).file("file", "").file(POLICY, allows);
        // Not even root can make a folder there.
        let state = home.path().join("file/state");
        let home = home.env("XDG_STATE_HOME", state.to_str().unwrap()).env("MCP_BRIDGE_POLICY", profile);
        Bridge::start(&home).warm()
    };
    let (call, reads) = ("await mcp_fixture.echo(text='a')", "await runtime.read_resource('fixture://text')");
    let reason = "(Not a directory (os error 20))";
    let reply = under("open").run(call);
    assert!(!reply.is_error, "{}", reply.text);
    for said in [
        format!("the log of calls cannot be written {reason}, so the calls of this run are not logged"),
        format!("what the tool is cannot be remembered {reason}, so a later change of it is not noticed"),
    ] {
        assert!(reply.text.contains(&said), "{}", reply.text);
    }
    let made = fixture.ledger();
    assert_eq!(made, [r#"call echo {"text":"a"}"#]);
    for profile in ["careful", "read-only"] {
        let mut bridge = under(profile);
        let not_remembered =
            format!("what the tool is cannot be remembered {reason}, which profile {profile} needs");
        let not_logged = format!("and profile {profile} allows no call that is not logged");
        for (code, said) in [(call, not_remembered), (reads, not_logged)] {
            let reply = bridge.run(code);
            assert!(reply.is_error && reply.text.contains(&said), "{}", reply.text);
        }
    }
    assert_eq!(fixture.ledger(), made);
}

fn calls_in_a_home_that_is_full_or_read_only_are_told_of_or_denied(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let allows = "[[rule]]\ndecision = \"allow\"\n";
    let full: fn(Home) -> Home = |home| home.full_folder(".local/state/belljar");
    let read_only: fn(Home) -> Home = |home| home.read_only(&["run", "state"]);
    let call = "await mcp_fixture.echo(text='a')";
    let mut made = 0;
    for (broken, reason) in
        [(full, "No space left on device (os error 28)"), (read_only, "Read-only file system (os error 30)")]
    {
        let under = |profile: &str| {
            let home = Home::on(engine).server("fixture", fixture.entry()).file(POLICY, allows);
            broken(home.env("MCP_BRIDGE_POLICY", profile))
        };
        let reply = Bridge::start(&under("open")).warm().run(call);
        let not_logged = format!("the log of calls cannot be written ({reason}), so the calls of this run");
        let not_remembered = format!("what the tool is cannot be remembered ({reason}");
        assert!(!reply.is_error && reply.text.contains(&not_logged), "{}", reply.text);
        assert!(reply.text.contains(&not_remembered), "{}", reply.text);
        made += 1;
        for profile in ["careful", "read-only"] {
            // Nothing is remembered of what is only read, so the log alone decides about that. It is the first run, so that
            // no line of an earlier one has shown that the disk is full.
            let mut bridge = Bridge::start(&under(profile));
            let read = bridge.run("await runtime.read_resource('fixture://text')");
            let needs = format!("and profile {profile} allows no call that is not logged");
            assert!(read.is_error && read.text.contains(&needs), "{}", read.text);
            assert!(read.text.contains(reason), "{}", read.text);
            let reply = bridge.run(call);
            let needs = format!(", which profile {profile} needs");
            assert!(reply.is_error && reply.text.contains(&not_remembered), "{}", reply.text);
            assert!(reply.text.contains(&needs), "{}", reply.text);
            assert_eq!(fixture.ledger().len(), made);
            // A deployment has its folder of state elsewhere, and then the call is made and logged.
            let home = under(profile);
            let state = home.path().join("state");
            let home = home.env("XDG_STATE_HOME", state.to_str().unwrap());
            let mut bridge = Bridge::start(&home).warm();
            let reply = bridge.run(call);
            assert!(!reply.is_error && !reply.text.contains(reason), "{}", reply.text);
            made += 1;
            bridge.hang_up();
            bridge.wait(Duration::from_secs(10));
            let log = std::fs::read_to_string(state.join("belljar/audit.jsonl")).unwrap();
            assert!(log.contains("\"echo\""), "{log}");
        }
    }
    assert_eq!(fixture.ledger().len(), made);
}

fn a_flood_of_refused_calls_leaves_few_lines(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = "[[rule]]\ntool = \"add\"\ndecision = \"deny\"\n";
    let home = Home::on(engine).server("fixture", fixture.entry()).file(POLICY, policy);
    let mut bridge = Bridge::start(&home).warm();
    let code = "refused = 0\nfor number in range(300):\n  try:\n    await mcp_fixture.add(a=number % 2, b=1)\n  \
                except runtime.MCPError:\n    refused += 1\nrefused";
    assert_eq!(bridge.ok(code), "300");
    bridge.hang_up();
    bridge.wait(Duration::from_secs(10));
    let lines = home.run(&["log", "--denied", "--json", "-n", "1000"]).stdout;
    let times = |line: &str| serde_json::from_str::<Value>(line).unwrap()["times"].as_u64().unwrap_or(1);
    assert_eq!(lines.lines().map(times).sum::<u64>(), 300, "{lines}");
    assert!(lines.lines().count() < 150, "{lines}");
    assert!(home.run(&["log", "--denied"]).stdout.contains(" times, "));
    let sessions = home.path().join(".local/state/belljar/sessions");
    let journal = std::fs::read_dir(sessions).unwrap().next().unwrap().unwrap().path();
    let journal = std::fs::read_to_string(journal).unwrap();
    assert_eq!(
        (journal.matches("\"denied\"").count(), journal.matches("{\"again\":").count()),
        (2, 2),
        "{journal}"
    );
}

fn code_that_is_refused_before_it_runs_leaves_a_line_for_each_call_that_cannot_succeed(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    let refused = bridge.run("mcp_fixture.ech.sync(text='x')\nmcp_fixture.echo.sync(txet='x')");
    assert!(refused.text.contains("nothing was run, since 2 calls"), "{}", refused.text);
    bridge.hang_up();
    bridge.wait(Duration::from_secs(10));
    let lines = home.run(&["log", "--server", "fixture"]).stdout;
    let told: Vec<&str> = lines.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
    assert_eq!(told.len(), 2, "{lines}");
    for (line, call) in told.iter().zip(["fixture.ech unknown_tool", "fixture.echo invalid_arguments"]) {
        assert!(line.starts_with(&format!("run 2 {call}, ")), "{lines}");
        assert!(line.ends_with(" not made: it cannot succeed as it stands in the code"), "{lines}");
    }
    assert!(home.run(&["log"]).stdout.lines().last().unwrap().contains(" run 2 raised, "));
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn a_dry_run_makes_only_calls_that_read_and_lists_the_others(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy =
        "[[rule]]\ntool = \"fail\"\ndecision = \"deny\"\n[[rule]]\ntool = \"add\"\ndecision = \"ask\"\n";
    let home = Home::on(engine).server("fixture", fixture.entry()).file(POLICY, policy);
    let code = "peak = await mcp_fixture.peak()\nr = await mcp_fixture.echo(text='a')\nprint(r)\n\
                await mcp_fixture.add(a=r['n'], b=1)";
    let done = home.run(&["run", "--dry-run", "-c", code]);
    let (out, err) = (done.stdout, done.stderr);
    assert_eq!(out, "<result of fixture.echo>\n<result of fixture.add>\n", "{err}");
    let listed = "belljar: dry run, calls that were not made: 2\n  fixture.echo {\"text\":\"a\"}\n  \
                  fixture.add {\"a\":\"<result of fixture.echo>['n']\",\"b\":1} (the user would be asked)\n";
    assert!(err.contains(listed), "{err}");
    assert_eq!(fixture.ledger(), ["call peak {}"]);
    // What a call may not do it may not plan, and a wrong one is told of before.
    let mut bridge = Bridge::start(&home).warm();
    let code = "with runtime.plan() as plan:\n  r = await mcp_fixture.echo(text='b')\n  await mcp_fixture.fail(text=r)";
    let reply = bridge.run(code);
    assert!(reply.text.contains("fixture.fail was not called: rule 1"), "{}", reply.text);
    assert!(reply.text.contains("dry run, calls that were not made: 1"), "{}", reply.text);
    let wrong = bridge.run("with runtime.plan():\n  await runtime.call_tool('fixture', 'echo', {})");
    assert!(wrong.text.contains("missing parameter 'text'"), "{}", wrong.text);
    assert_eq!(fixture.ledger(), ["call peak {}"]);
    // A forged frame gains nothing by the words of a plan.
    let forged = "from belljar_sandbox.calls.placeholder import Placeholder\nawait mcp_fixture.echo(text=Placeholder('x'))";
    assert_eq!(bridge.ok(forged).lines().next(), Some("<result of fixture.echo>"));
    assert_eq!(fixture.ledger(), ["call peak {}"]);
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='c')"), "'c'");
}

fn a_policy_that_is_edited_counts_from_the_next_run_on(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let file = home.path().join(POLICY);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut bridge = Bridge::start(&home).warm();
    let denies = "[[rule]]\ntool = \"echo\"\ndecision = \"deny\"\n";
    // Within a run nothing changes.
    let waits = "import time\nfirst = mcp_fixture.echo.sync(text='a')\nprint('one', flush=True)\n\
                 time.sleep(1)\nmcp_fixture.echo.sync(text='b')";
    let run = bridge.send_run(json!({ "code": waits }));
    while fixture.ledger().is_empty() {
        std::thread::yield_now();
    }
    std::fs::write(&file, denies).unwrap();
    assert!(bridge.reply(run).text.ends_with("'b'"));
    let denied = bridge.run("await mcp_fixture.echo(text='c')");
    assert!(denied.text.contains("fixture.echo was not called: rule 1"), "{}", denied.text);
    assert!(denied.text.contains("the user has changed the policy"), "{}", denied.text);
    std::fs::write(&file, "[[rule]]\ndecison = 1\n").unwrap();
    let closed = bridge.run("await mcp_fixture.add(a=1, b=2)");
    assert!(closed.text.contains("policy.toml:2:1: is no policy"), "{}", closed.text);
    std::fs::remove_file(&file).unwrap();
    assert!(bridge.ok("await mcp_fixture.echo(text='d')").starts_with("'d'"));
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='e')"), "'e'");
    let calls: Vec<String> =
        ["a", "b", "d", "e"].iter().map(|t| format!("call echo {{\"text\":\"{t}\"}}")).collect();
    assert_eq!(fixture.ledger(), calls);
}

/// A client of 2026-07-28 takes no requests: the question is the answer to its own, which it makes again.
fn a_client_without_handshake_is_asked_by_an_answer_and_asks_again(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let home = home.file(".config/belljar/config.toml", "[policy]\nprofile = \"careful\"\n");
    let mut bridge = Bridge::spawn(&home);
    let meta = |can: Value| {
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": can,
        })
    };
    bridge.request("server/discover", json!({"_meta": meta(json!({}))})).unwrap();
    let asks = |code: &str, can: Value| json!({"name": "run_python", "arguments": {"code": code}, "_meta": meta(can)});
    let text = |result: &Value| result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let can = json!({"elicitation": {"form": {}}});

    // One that has declared no elicitation gets a denial that names the setting.
    let denied = bridge.request("tools/call", asks("await mcp_fixture.echo(text='x')", json!({}))).unwrap();
    assert!(text(&denied).contains("it has declared no elicitation"), "{denied}");

    // One whose client asks for something else is given up, and does not hold that up.
    let abandoned =
        bridge.request("tools/call", asks("await mcp_fixture.echo(text='x')", can.clone())).unwrap();
    assert_eq!(abandoned["resultType"], "input_required", "{abandoned}");
    let next = bridge.request("tools/call", asks("print('next')", can.clone())).unwrap();
    assert_eq!(text(&next).lines().next(), Some("next"), "{next}");
    let mut late = asks("await mcp_fixture.echo(text='x')", can.clone());
    late["requestState"] = abandoned["requestState"].clone();
    assert!(bridge.request("tools/call", late).is_err());
    // What code or a model puts into the arguments is no answer.
    let mut forged = asks("1", can.clone());
    forged["arguments"]["requestState"] = json!("run-1");
    forged["arguments"]["inputResponses"] = json!({"question": {"action": "accept"}});
    let refused = bridge.request("tools/call", forged).unwrap();
    assert!(text(&refused).contains("unknown argument"), "{refused}");
    // Without an answer the call is denied.
    let silent = asks("await mcp_fixture.echo(text='x')", can.clone());
    let asked = bridge.request("tools/call", silent.clone()).unwrap();
    let mut silent = silent;
    silent["requestState"] = asked["requestState"].clone();
    let denied = bridge.request("tools/call", silent).unwrap();
    assert!(text(&denied).contains("the client has not answered"), "{denied}");

    let code = "print(await mcp_fixture.echo(text='once'))\n\
                try:\n  await mcp_fixture.add(a=1, b=2)\nexcept runtime.MCPError as error:\n  print(error.code)";
    let mut ask = asks(code, can.clone());
    ask["arguments"]["timeout"] = json!(2);
    ask["_meta"]["progressToken"] = json!("t");
    let first = bridge.request("tools/call", ask.clone()).unwrap();
    assert_eq!(first["resultType"], "input_required", "{first}");
    let question = &first["inputRequests"]["question"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(
        question["params"]["message"].as_str().unwrap().contains("wants to call fixture.echo"),
        "{question}"
    );
    assert_eq!(fixture.ledger(), [""; 0]);

    let again = |state: &Value, answer: Value| {
        let mut again = ask.clone();
        again["requestState"] = state.clone();
        again["inputResponses"] = json!({"question": answer});
        again
    };
    let allow = json!({"action": "accept", "content": {"decision": "allow this call"}});
    // Another request, or one that nothing waits for, changes nothing.
    let mut other = again(&first["requestState"], allow.clone());
    other["arguments"]["code"] = json!("await mcp_fixture.echo(text='other')");
    assert!(
        bridge.request("tools/call", other).unwrap_err()["message"]
            .as_str()
            .unwrap()
            .contains("is not the one")
    );
    assert_eq!(
        bridge.request("tools/call", again(&json!("run-99"), allow.clone())).unwrap_err()["code"],
        -32602
    );
    // Longer than the run has.
    while bridge.next(Duration::from_secs(3)).is_ok() {}
    let second = bridge.request("tools/call", again(&first["requestState"], allow.clone())).unwrap();
    // It is told of in each round that asks for it.
    let heard = bridge.message("progress after the question", |message| {
        let said = message["params"]["message"].as_str().unwrap_or_default();
        message["method"] == "notifications/progress" && said.contains("fixture.add")
    });
    assert_eq!(heard["params"]["progressToken"], "t");
    assert_eq!(second["resultType"], "input_required", "{second}");
    assert_ne!(second["requestState"], first["requestState"]);
    let deny = json!({"action": "accept", "content": {"decision": "refuse"}});
    let last = bridge.request("tools/call", again(&second["requestState"], deny)).unwrap();
    assert_eq!((&last["resultType"], text(&last).lines().next()), (&json!("complete"), Some("once")));
    assert_eq!(text(&last).lines().nth(1), Some("denied"));
    assert_eq!(fixture.ledger(), [r#"call echo {"text":"once"}"#]);
    // A state is good for one answer.
    assert!(bridge.request("tools/call", again(&first["requestState"], allow)).is_err());
}
