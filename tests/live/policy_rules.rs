//! A negative test for each kind of rule: what the user's policy does not let pass stands in no server's ledger.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    a_tool_that_may_destroy_is_not_called_where_a_rule_denies_that,
    no_shape_of_arguments_gets_around_a_rule,
    no_spelling_of_a_value_gets_around_a_rule,
    a_default_of_the_schema_does_not_get_around_a_rule,
    what_cannot_be_checked_does_not_get_around_a_rule,
    a_repeated_key_reaches_the_server_once,
    a_question_holds_nothing_that_reorders_or_hides,
    an_approval_of_further_calls_ends_when_the_entry_of_the_server_changes,
    a_python_name_is_enough_to_deny,
    a_rule_that_asks_lets_pass_what_the_human_accepts_and_nothing_else,
    budgets_of_a_session_s_calls_and_a_run_s_bytes_end_calls,
    answers_to_calls_at_once_do_not_exceed_a_budget,
    arguments_of_calls_at_once_do_not_exceed_a_budget,
    mixed_data_is_asked_for_where_the_policy_says_so,
    an_error_of_a_server_is_its_content_too,
    what_a_resumed_session_has_counts_for_labels,
    a_human_who_cannot_be_asked_lets_nothing_pass_and_is_not_asked_again,
    a_dry_run_saves_no_function_and_reads_nothing_at_an_address_that_does_not_exist,
    a_profile_that_is_edited_counts_and_an_emptied_policy_lets_nothing_pass,
);

const POLICY: &str = ".config/belljar/policy.toml";
const CONFIG: &str = ".config/belljar/config.toml";

fn bridge(engine: &Engine, fixture: &Fixture, policy: &str) -> Bridge {
    Bridge::start(&Home::on(engine).server("fixture", fixture.entry()).file(POLICY, policy)).warm()
}

/// What each of the calls comes to, one after the other: its result, or the code and message of what it raises.
fn tried(bridge: &mut Bridge, calls: &[&str]) -> Vec<String> {
    let attempt = |call: &&str| {
        format!(
            "try:\n  print({call})\nexcept runtime.MCPError as error:\n  print(error.code, error.message)"
        )
    };
    let code: Vec<String> = calls.iter().map(attempt).collect();
    bridge.ok(&code.join("\n")).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn echoed(text: &str) -> String {
    format!("call echo {{\"text\":\"{text}\"}}")
}

fn a_tool_that_may_destroy_is_not_called_where_a_rule_denies_that(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = "[[rule]]\ndestructive = true\ndecision = \"deny\"\n";
    let mut bridge = bridge(engine, &fixture, policy);
    let raised = tried(&mut bridge, &["mcp_fixture.echo.sync(text='x')", "mcp_fixture.peak.sync()"]);
    assert_eq!(raised, ["denied fixture.echo was not called: rule 1", "0"]);
    assert_eq!(fixture.ledger(), ["call peak {}"]);
}

fn a_rule_that_asks_lets_pass_what_the_human_accepts_and_nothing_else(engine: &Engine) {
    let policy = "[[rule]]\ntool = \"echo\"\ndecision = \"ask\"\n";
    let code = "try:\n  print(mcp_fixture.echo.sync(text='x'))\nexcept runtime.MCPError as error:\n  print(error.code)";
    for (action, ledger) in [("decline", vec![]), ("cancel", vec![]), ("accept", vec![echoed("x")])] {
        let fixture = Fixture::new(&[]);
        let home = Home::on(engine).server("fixture", fixture.entry()).file(POLICY, policy);
        let mut bridge = Bridge::start_with(&home, json!({"elicitation": {}})).warm();
        let id = bridge.send_run(json!({"code": code}));
        let (asked, params) = bridge.asked("elicitation/create");
        assert!(params["message"].as_str().unwrap().contains("fixture.echo"), "{params}");
        let content = json!({"decision": "allow this call"});
        bridge.answer_to(&asked, json!({"action": action, "content": content}));
        let reply = bridge.reply(id);
        assert!(
            reply.text.starts_with(if action == "accept" { "x" } else { "denied" }),
            "{action}: {}",
            reply.text
        );
        assert_eq!(fixture.ledger(), ledger, "{action}");
    }
    // A client that cannot ask.
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture, policy);
    let raised = tried(&mut bridge, &["mcp_fixture.echo.sync(text='x')"]);
    assert!(raised[0].starts_with("denied fixture.echo was not called: "), "{raised:?}");
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn no_shape_of_arguments_gets_around_a_rule(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = r#"
        [[rule]]
        arguments = { "options.force" = "true" }
        decision = "deny"
        [[rule]]
        arguments = { text = "/etc/*" }
        decision = "deny"
        [[rule]]
        arguments = { text = "/data/*" }
        decision = "allow"
        [[rule]]
        decision = "deny"
    "#;
    let mut bridge = bridge(engine, &fixture, policy);
    let call = |arguments: Value| {
        let arguments = arguments.to_string().replace("true", "True");
        format!("runtime.call_tool_sync('fixture', 'echo', {arguments})")
    };
    let of_rules = [
        (1, json!({"text": "/data/a", "options": {"force": true}})),
        (1, json!({"text": "/data/a", "options.force": "x", "options": {"force": true}})),
        (1, json!({"text": "/data/a", "options": [{"force": "x"}, {"force": true}]})),
        (2, json!({"text": "/data/../etc/passwd"})),
        (2, json!({"text": "//etc/passwd"})),
        (4, json!({"text": "/data/../data/a"})),
    ];
    for (rule, arguments) in of_rules {
        let raised = tried(&mut bridge, &[&call(arguments.clone())]);
        assert_eq!(raised, [format!("denied fixture.echo was not called: rule {rule}")], "{arguments}");
    }
    assert_eq!(fixture.ledger(), [""; 0]);
    assert_eq!(tried(&mut bridge, &[&call(json!({"text": "/data/a"}))]), ["/data/a"]);
    assert_eq!(fixture.ledger(), [echoed("/data/a")]);
}

/// Calls `echo` with each of these arguments besides its text, given as Python.
fn echoes(bridge: &mut Bridge, arguments: &[&str]) -> Vec<String> {
    let call = |arguments: &&str| {
        format!("runtime.call_tool_sync('fixture', 'echo', {{'text': 'x', **{arguments}}})")
    };
    let calls: Vec<String> = arguments.iter().map(call).collect();
    tried(bridge, &calls.iter().map(String::as_str).collect::<Vec<_>>())
}

fn no_spelling_of_a_value_gets_around_a_rule(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = r#"
        [[rule]]
        arguments = { id = "42" }
        decision = "deny"
        [[rule]]
        arguments = { "options.force" = "true" }
        decision = "deny"
        [[rule]]
        arguments = { mode = "delete" }
        decision = "deny"
        [[rule]]
        arguments = { path = "/etc/*" }
        decision = "deny"
        [[rule]]
        arguments = { big = "9007199254740993" }
        decision = "deny"
        [[rule]]
        arguments = { uri = "file:///etc/*" }
        decision = "deny"
    "#;
    let mut bridge = bridge(engine, &fixture, policy);
    let of_rules: [(usize, &[&str]); 6] = [
        (
            1,
            &[
                "{'id': 42}",
                "{'id': 42.0}",
                "{'id': '4.2e1'}",
                "{'id': ' +42 '}",
                "{'id': '0x2A'}",
                "{'id': [42]}",
                "{'id': '[42]'}",
                "{'id': '\u{664}\u{662}'}",
                "{'id': '0x\u{662}a'}",
                "{'id': '[\"%22,42,%22\"]'}",
                "{'ID': 42}",
            ],
        ),
        (
            2,
            &[
                "{'options': {'force': 1}}",
                "{'options': {'force': 'Yes'}}",
                "{'options': {'FORCE': [True]}}",
                "{'options': '{\"force\": true}'}",
                "{'options.force': 'on'}",
                "{'options': '{\"%66orce\": true}'}",
                "{'options': '{\"force\": true, \"force\": false}'}",
                "{'options': {'force\\t': True}}",
            ],
        ),
        (
            3,
            &[
                "{'mode': 'DELETE'}",
                "{'mode': ' delete\\n'}",
                "{'mode': 'd%65lete'}",
                "{'Mode': ['de\\u200blete']}",
                "{'mode': 'del\\aete'}",
                "{'mode': 'delete\\u2800'}",
                "{'mode': '\u{ff44}\u{ff45}\u{ff4c}\u{ff45}\u{ff54}\u{ff45}'}",
            ],
        ),
        (
            4,
            &[
                "{'path': '/%65tc/passwd'}",
                "{'path': '/tmp/%252e%252e/etc/x'}",
                "{'path': '/Etc/x'}",
                "{'path': '/e\\ttc/x'}",
            ],
        ),
        (5, &["{'big': 9007199254740993}", "{'big': '9007199254740993.0'}", "{'big': 9007199254740992}"]),
        (
            6,
            &[
                "{'uri': 'FILE:///etc/passwd'}",
                "{'uri': 'file:/etc/passwd'}",
                "{'uri': 'file://localhost/etc/passwd'}",
                "{'uri': 'file://x/etc/passwd'}",
                "{'uri': 'file:///tmp/%2E./etc/passwd'}",
                "{'uri': 'file:\\\\\\etc\\passwd'}",
                "{'uri': '/etc/passwd'}",
            ],
        ),
    ];
    for (rule, arguments) in of_rules {
        let denied = format!("denied fixture.echo was not called: rule {rule}");
        assert_eq!(echoes(&mut bridge, arguments), vec![denied; arguments.len()]);
    }
    assert_eq!(fixture.ledger(), [""; 0]);
    let others = [
        "{'id': 43}",
        "{'options': {'force': 0}}",
        "{'mode': 'deleted'}",
        "{'path': '/tmp/etc'}",
        "{'big': 9007199254740990}",
        "{'uri': 'file:///data/etc/passwd'}",
    ];
    // Behind them stands that the tool does not declare these arguments.
    assert_eq!(echoes(&mut bridge, &others)[..6], ["x"; 6]);
    assert_eq!(fixture.ledger().len(), 6);
}

fn a_default_of_the_schema_does_not_get_around_a_rule(engine: &Engine) {
    let fixture = Fixture::new(&["--typed"]);
    let policy = "[[rule]]\narguments = { state = \"open\" }\ndecision = \"deny\"\n";
    let mut bridge = bridge(engine, &fixture, policy);
    let call = |state: &str| format!("mcp_fixture.create_issue.sync(owner='o', repo='r'{state})");
    let denied = "denied fixture.create_issue was not called: rule 1";
    assert_eq!(tried(&mut bridge, &[&call(""), &call(", state='open'")]), [denied; 2]);
    assert_eq!(fixture.ledger(), [""; 0]);
    tried(&mut bridge, &[&call(", state='closed'")]);
    assert_eq!(fixture.ledger(), [r#"call create_issue {"owner":"o","repo":"r","state":"closed"}"#]);
}

fn what_cannot_be_checked_does_not_get_around_a_rule(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = "[[rule]]\narguments = { text = \"secret*\" }\ndecision = \"ask\"\n";
    let mut bridge = bridge(engine, &fixture, policy);
    // One name more than the check takes; the text is of another type than the schema says.
    let many = "{'text': {'s': 1}, **dict.fromkeys(map(str, range(100_001)), 0)}";
    let raised = echoes(&mut bridge, &[many]);
    let why = "rule 1 cannot be applied: the arguments are too many to be checked against the tool's schema";
    assert_eq!(raised, [format!("denied fixture.echo was not called: {why}")]);
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn a_repeated_key_reaches_the_server_once(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = "[[rule]]\narguments = { id = \"42\" }\ndecision = \"deny\"\n";
    let mut bridge = bridge(engine, &fixture, policy);
    // Python's encoder repeats no key, so the frames are written by hand.
    let code = r#"
import os, socket, sys, time
run = sys._getframe().f_code.co_filename.removeprefix('<run ').removesuffix('>')
for fd in map(int, os.listdir('/proc/self/fd')):
    try:
        with socket.socket(fileno=os.dup(fd)) as copy:
            peer = copy.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except OSError:
        continue
    if int.from_bytes(peer[:4], sys.byteorder) != 1:
        continue
    for call, values in enumerate(('"id":1,"id":42', '"id":42,"id":1')):
        frame = '{"type":"call","run":%s,"call":%d,"server":"fixture","tool":"echo","arguments":{"text":"x",%s}}\n'
        os.write(fd, (frame % (run, 777000 + call, values)).encode())
time.sleep(1)
"#;
    bridge.ok(code);
    assert_eq!(fixture.ledger(), [r#"call echo {"text":"x","id":1}"#]);
}

fn a_question_holds_nothing_that_reorders_or_hides(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let home = home.file(POLICY, "[[rule]]\ntool = \"echo\"\ndecision = \"ask\"\n");
    let mut bridge = Bridge::start_with(&home, json!({"elicitation": {}})).warm();
    let text = "pay \u{5d0}\u{661} 1\u{2800}\u{202e}\u{3164}\u{a0}\u{e0041}e\u{301}";
    let code = format!("runtime.call_tool_sync('fixture', 'echo', {{'text': '{text}', '\u{5e9}': 1}})");
    let run = bridge.send_run(json!({ "code": code }));
    let (id, params) = bridge.asked("elicitation/create");
    let shown = r#"Code that the model wrote wants to call fixture.echo (rule 1).
Arguments:
  {"text": "pay \u05d0\u0661 1\u2800\u202e\u3164\xa0\U000e0041é",
  "\u05e9": 1}"#;
    assert_eq!(params["message"], shown.replace('\u{e9}', "e\u{301}"));
    bridge.answer_to(&id, json!({"action": "accept", "content": {"decision": "allow this call"}}));
    // What the human has let pass is what was asked for. The model sees letters as they are, and blanks written out.
    let reply = bridge.reply(run);
    assert!(reply.text.contains("pay \u{5d0}\u{661} 1\\u2800"), "{}", reply.text);
    assert_eq!(fixture.ledger(), [format!("call echo {}", json!({"text": text, "\u{5e9}": 1}))]);
}

fn an_approval_of_further_calls_ends_when_the_entry_of_the_server_changes(engine: &Engine) {
    let [before, after] = [(); 2].map(|()| Fixture::new(&[]));
    let home = Home::on(engine).server("fixture", before.entry());
    let home = home.file(POLICY, "[[rule]]\ntool = \"echo\"\ndecision = \"ask\"\n");
    let mut bridge = Bridge::start_with(&home, json!({"elicitation": {}})).warm();
    let call = "await mcp_fixture.echo(text='x')";
    let run = bridge.send_run(json!({ "code": call }));
    let (id, _) = bridge.asked("elicitation/create");
    let further = json!({"decision": "allow 10 further calls of this tool"});
    bridge.answer_to(&id, json!({"action": "accept", "content": further}));
    assert!(!bridge.reply(run).is_error);
    bridge.ok(call);
    let home = home.server("fixture", after.entry());
    let run = bridge.send_run(json!({ "code": call }));
    let (id, _) = bridge.asked("elicitation/create");
    bridge.answer_to(&id, json!({"action": "accept", "content": {"decision": "refuse"}}));
    assert!(bridge.reply(run).is_error);
    assert_eq!((before.ledger().len(), after.ledger().len()), (2, 0));
    drop(home);
}

fn a_python_name_is_enough_to_deny(engine: &Engine) {
    let fixture = Fixture::new(&["--awkward-names"]);
    let mut entry = fixture.entry();
    entry["deny"] = json!(["class_"]);
    let policy = "[[rule]]\nserver = \"my_fixture\"\ntool = \"with_space\"\ndecision = \"deny\"\n";
    let home = Home::on(engine).server("my-fixture", entry).file(POLICY, policy);
    let mut bridge = Bridge::start(&home).warm();
    let calls = [
        "mcp_my_fixture.with_space.sync()",
        "runtime.call_tool_sync('my-fixture', 'with space')",
        "runtime.call_tool_sync('my-fixture', 'class')",
    ];
    let raised = tried(&mut bridge, &calls);
    let denied = "denied my-fixture.with space was not called: rule 1";
    assert_eq!(raised[..2], [denied, denied]);
    assert!(
        raised[2].starts_with("denied my-fixture.class is not offered: mcpServers.my-fixture.deny"),
        "{raised:?}"
    );
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn budgets_of_a_session_s_calls_and_a_run_s_bytes_end_calls(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = "[budgets]\ncalls_per_session = 3\nbytes_per_run = 104\n";
    let mut bridge = bridge(engine, &fixture, policy);
    let echo = |text: &str| format!("mcp_fixture.echo.sync(text='{text}')");
    let raised = tried(&mut bridge, &[&echo(&"x".repeat(100)), &echo("a"), &echo("b"), &echo("c")]);
    assert!(raised[0].contains("budgets.bytes_per_run: 0 of 104 bytes are used"), "{raised:?}");
    assert_eq!(raised[1..3], ["a", "b"]);
    assert!(raised[3].contains("budgets.bytes_per_run: 104 of 104 bytes are used"), "{raised:?}");
    let raised = tried(&mut bridge, &[&echo("d"), &echo("e")]);
    assert_eq!(raised[0], "d");
    assert!(raised[1].contains("budgets.calls_per_session: 3 calls are all"), "{raised:?}");
    assert_eq!(fixture.ledger(), ["a", "b", "d"].map(echoed));
}

fn answers_to_calls_at_once_do_not_exceed_a_budget(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture, "[budgets]\nbytes_per_run = 4000\n");
    let code = "import asyncio\n\
                calls = [mcp_fixture.big(bytes=1000) for _ in range(20)]\n\
                answers = await asyncio.gather(*calls, return_exceptions=True)\n\
                print(sum(len(answer) for answer in answers if isinstance(answer, str)))\n\
                print(*[answer for answer in answers if not isinstance(answer, str)], sep='\\n')";
    let said = bridge.ok(code);
    let bytes: usize = said.lines().next().unwrap().parse().unwrap();
    assert!((1_000..4_000).contains(&bytes), "{said}");
    let withheld = said.lines().find(|line| line.contains("is withheld")).expect(&said);
    assert!(withheld.starts_with("the call was made, and its answer of "), "{withheld}");
    assert!(withheld.contains(" is withheld: budgets.bytes_per_run: "), "{withheld}");
    // Calls that were made are counted as answered, whether code got the answer or not.
    let made = fixture.ledger().len();
    let log = bridge.ok("print(len(answers))");
    assert_eq!(log, "20");
    assert!((2..=20).contains(&made), "{made} {said}");
}

fn arguments_of_calls_at_once_do_not_exceed_a_budget(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture, "[budgets]\nbytes_per_run = 4000\n");
    // Each call has an answer of one byte, so what the server gets is what counts.
    let code = "import asyncio\n\
                calls = [runtime.call_tool('fixture', 'echo', {'text': 'x', 'more': 'x' * 1000}) for _ in range(20)]\n\
                answers = await asyncio.gather(*calls, return_exceptions=True)\n\
                print(*[answer for answer in answers if not isinstance(answer, str)], sep='\\n')";
    let said = bridge.ok(code);
    let refused = "fixture.echo was not called: budgets.bytes_per_run: ";
    assert_eq!(said.matches(refused).count(), 17, "{said}");
    assert_eq!(fixture.ledger().len(), 3, "{said}");
}

/// A private, an untrusted and an egress server.
fn labelled(engine: &Engine, servers: [&Fixture; 3], (policy, profile): (&str, &str)) -> Bridge {
    let labels = "[labels]\nprivate = [\"mail\"]\nuntrusted = [\"web\"]\negress = [\"chat\"]\n";
    let mut home = Home::on(engine).file(POLICY, &format!("{labels}{policy}"));
    for (name, server) in ["mail", "web", "chat"].into_iter().zip(servers) {
        home = home.server(name, server.entry());
    }
    Bridge::start_with(&home.env("MCP_BRIDGE_POLICY", profile), json!({"elicitation": {}})).warm()
}

fn mixed_data_is_asked_for_where_the_policy_says_so(engine: &Engine) {
    let rule = "[[rule]]\ndecision = \"allow\"\n";
    for (policy, profile) in [("when_mixed = \"ask\"\n", "open"), (rule, "careful")] {
        let [mail, web, chat] = [(); 3].map(|()| Fixture::new(&[]));
        let mut bridge = labelled(engine, [&mail, &web, &chat], (policy, profile));
        bridge.ok(
            "await mcp_mail.echo(text='x')\nawait mcp_chat.echo(text='before')\nawait mcp_web.echo(text='x')",
        );
        for (decision, text) in [("refuse", "refused"), ("allow this call", "let pass")] {
            let code = format!("await mcp_chat.echo(text='{text}')");
            let run = bridge.send_run(json!({ "code": code }));
            let (id, question) = bridge.asked("elicitation/create");
            assert!(
                question["message"].as_str().unwrap().contains("private and untrusted data"),
                "{question}"
            );
            bridge.answer_to(&id, json!({"action": "accept", "content": {"decision": decision}}));
            assert_eq!(bridge.reply(run).is_error, decision == "refuse");
        }
        assert_eq!(chat.ledger(), ["before", "let pass"].map(echoed), "{profile}");
    }
}

fn what_a_resumed_session_has_counts_for_labels(engine: &Engine) {
    let of_error = "try: await mcp_mail.refuse()\nexcept Exception as error: kept = str(error)";
    let of_job =
        "async def read(): return str(await mcp_mail.echo(text='x'))\nkept = await runtime.spawn(read)";
    for code in [of_error, of_job, "kept = await mcp_mail.echo(text='x')"] {
        let [mail, web, chat] = [(); 3].map(|()| Fixture::new(&[]));
        let labels = "[labels]\nprivate = [\"mail\"]\nuntrusted = [\"web\"]\negress = [\"chat\"]\nwhen_mixed = \"deny\"\n";
        let home = Home::on(engine).file(POLICY, labels).env("MCP_BRIDGE_JOURNAL", "full");
        let home = home.server("mail", mail.entry()).server("web", web.entry()).server("chat", chat.entry());
        let mut earlier = Bridge::start(&home).warm();
        earlier.ok(code);
        earlier.hang_up();
        drop(earlier);
        let mut bridge = Bridge::start(&home).warm();
        bridge.ok("runtime.resume('last')");
        let raised = tried(&mut bridge, &["mcp_web.echo.sync(text='x')", "mcp_chat.echo.sync(text=kept)"]);
        assert!(raised[1].starts_with("denied chat.echo was not called: labels: "), "{code}: {raised:?}");
        assert_eq!(chat.ledger(), [""; 0], "{code}");
    }
}

fn an_error_of_a_server_is_its_content_too(engine: &Engine) {
    for by in [
        "mcp_web.refuse.sync()",
        "runtime.read_resource_sync('x://none', 'web')",
        "mcp_web.crash.sync()",
        // With lines of the server that are no messages.
        "runtime.call_tool_sync('web', 'no' + 'pe', {})",
    ] {
        let of_web = ["--resources", "--garbage"];
        let [mail, web, chat] = [&[][..], &of_web, &[]].map(|flags: &[&str]| Fixture::new(flags));
        let policy = "when_mixed = \"deny\"\n[budgets]\nbytes_per_session = 1000\n";
        let mut bridge = labelled(engine, [&mail, &web, &chat], (policy, "open"));
        let raised =
            tried(&mut bridge, &["mcp_mail.echo.sync(text='x')", by, "mcp_chat.echo.sync(text='out')"]);
        assert!(raised[2].starts_with("denied chat.echo was not called: labels: "), "{by}: {raised:?}");
        assert_eq!(chat.ledger(), [""; 0], "{by}");
    }
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture, "[budgets]\nbytes_per_run = 60\n");
    let raised = tried(&mut bridge, &["mcp_fixture.refuse.sync()"; 4]);
    assert!(raised[1].contains("refused by the server"), "{raised:?}");
    for withheld in &raised[2..] {
        assert!(withheld.contains("about that are withheld: budgets.bytes_per_run: "), "{raised:?}");
    }
    assert_eq!(fixture.ledger().len(), 4, "the calls were made");
}

fn a_human_who_cannot_be_asked_lets_nothing_pass_and_is_not_asked_again(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry()).env("MCP_BRIDGE_POLICY", "careful");
    let mut bridge = Bridge::start_with(&home, json!({"elicitation": {}})).warm();
    let code = "import asyncio\ncalls = [mcp_fixture.echo(text=str(n)) for n in range(3)]\n\
                [r.message for r in await asyncio.gather(*calls, return_exceptions=True)]";
    let run = bridge.send_run(json!({ "code": code }));
    let (id, _) = bridge.asked("elicitation/create");
    bridge.refuse(&id, -32603, "nobody is there");
    // The next message is the reply: there is no second question.
    let reply = bridge.reply(run);
    assert_eq!(
        reply.text.matches("and the client answered with an error: nobody is there").count(),
        3,
        "{}",
        reply.text
    );
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn a_dry_run_saves_no_function_and_reads_nothing_at_an_address_that_does_not_exist(engine: &Engine) {
    let fixture = Fixture::new(&["--resources"]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let saves = "open('/workspace/f.txt', 'w').write('x'); runtime.save('/workspace/f.txt')";
    let done = home.run(&["run", "--dry-run", "-c", saves]);
    assert!(done.stderr.contains("a dry run hands no file over to the user"), "{}", done.stderr);
    assert!(!home.path().join("MCPs/outbox").exists());
    home.run(&["run", "-c", saves]);
    assert!(home.path().join("MCPs/outbox").exists());
    let code = "def twice(x): return 2 * x\nprint(save_tool(twice))\nmade = await mcp_fixture.echo(text='a')\n\
                print(await runtime.read_resource(made['uri']))\n\
                print(await runtime.read_resource(f\"fixture://{made['n']}\"))\n\
                print(await runtime.get_prompt('fixture', 'greet', {'who': made + '!'}))\n\
                print(await runtime.read_resource('fixture://text'))";
    let done = home.run(&["run", "--dry-run", "-c", code]);
    let printed = "<result of runtime.save_tool>\n<result of fixture.resources/read>\n<result of fixture.resources/read>\n\
                   <result of fixture.prompts/get>\nwhat is at fixture://text\n";
    assert_eq!(done.stdout, printed, "{}", done.stderr);
    let listed = "fixture.resources/read {\"uri\":\"fixture://<result of fixture.echo>['n']\"}\n";
    assert!(done.stderr.contains("calls that were not made: 5\n  runtime.save_tool "), "{}", done.stderr);
    assert!(done.stderr.contains(listed), "{}", done.stderr);
    assert!(!home.path().join("MCPs/tools").exists());
    assert_eq!(fixture.ledger(), [r#"resources/read {"uri":"fixture://text"}"#]);
    // Among several servers none is asked for it either.
    let other = Fixture::new(&["--resources"]);
    let home = home.server("other", other.entry());
    let code = "await runtime.list_resources('other')\nmade = await mcp_fixture.echo(text='a')\n\
                print(await runtime.read_resource(made['uri']))";
    let done = home.run(&["run", "--dry-run", "-c", code]);
    assert_eq!(done.stdout, "<result of runtime.read_resource>\n", "{}", done.stderr);
    assert_eq!((fixture.ledger().len(), other.ledger().len()), (1, 2));
}

fn a_profile_that_is_edited_counts_and_an_emptied_policy_lets_nothing_pass(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home =
        Home::on(engine).server("fixture", fixture.entry()).file(CONFIG, "[policy]\nprofile = \"open\"\n");
    let home = home.file(POLICY, "[[rule]]\ntool = \"big\"\ndecision = \"deny\"\n");
    let mut bridge = Bridge::start(&home).warm();
    let echo = "mcp_fixture.echo.sync(text='a')";
    assert_eq!(tried(&mut bridge, &[echo]), ["a"]);
    let home = home.file(CONFIG, "[policy]\nprofile = \"read-only\"\n");
    let raised = bridge.run("await mcp_fixture.echo(text='b')");
    assert!(raised.text.contains("profile read-only: "), "{}", raised.text);
    assert!(raised.text.contains("the user has changed the policy"), "{}", raised.text);
    let home = home.file(CONFIG, "[policy]\nprofile = \"open\"\n").file(POLICY, "");
    let raised = bridge.run("await mcp_fixture.echo(text='c')");
    assert!(raised.text.contains("policy.toml: is empty, and was not before"), "{}", raised.text);
    drop(home.file(POLICY, "# nothing is decided here\n"));
    assert!(bridge.run("await mcp_fixture.echo(text='d')").text.starts_with("'d'"));
    assert_eq!(fixture.ledger(), ["a", "d"].map(echoed));
}
