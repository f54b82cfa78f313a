//! Each hint of the bridge is followed here, or in the test that its table names, and then works; otherwise the table says
//! why no test can follow it. A hint in the source that is in no table fails, and so does an entry without a hint.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::http_fixture::reply;
use crate::support::model_server::{KEY, ModelServer, prompt, say};
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    what_the_bridge_advises_works,
    what_the_user_is_advised_works_from_the_next_run_on,
    what_the_user_is_advised_about_restarts_works,
    a_start_that_takes_too_long_is_told_to_the_user_and_not_repeated,
    the_manual_names_the_profile_and_kept_functions_and_a_masked_secret_is_told_once,
);

/// The sources whose hints reach the model.
const SOURCES: [&str; 9] = [
    "src/app/wiring.rs",
    "src/broker",
    "crates/belljar-tools/src/catalog/arguments",
    "crates/belljar-base/src/system.rs",
    "crates/belljar-engine/src/error.rs",
    "src/jobs",
    "src/rerun",
    "src/server",
    "src/session",
];

/// A request, a part of the hint in its reply, and the requests that follow the hint.
fn rows() -> Vec<(Value, &'static str, Vec<Value>)> {
    let run = |code: &str| json!({"code": format!("from mcp import runtime\n{code}")});
    let long = format!("# {}", "x".repeat(9 << 20));
    vec![
        // The first attempt installs, so to speak, and takes longer than the entry's time.
        (
            run("mcp_slowly.echo.sync(text='x')"),
            "call it again after some seconds: it may only be slow to start",
            vec![run("import time\ntime.sleep(1)\nmcp_slowly.echo.sync(text='x')")],
        ),
        (
            json!({"cod": "1"}),
            "run_python takes code, servers, timeout, reset and checkpoint",
            vec![json!({"code": "1", "servers": ["one"], "timeout": 5, "reset": false})],
        ),
        (
            json!({"code": "1", "checkpoint": "a"}),
            "none has been made: runtime.checkpoint(name) makes one",
            vec![run("runtime.checkpoint('a')"), json!({"code": "1", "checkpoint": "a"})],
        ),
        (
            json!({"code": "1", "checkpoint": "b"}),
            "there are: 'a'",
            vec![json!({"code": "1", "checkpoint": "a"})],
        ),
        (
            json!({"code": "1", "checkpoint": "true"}),
            "a reset that starts afresh is written true, without quotes",
            vec![json!({"code": "1", "reset": true})],
        ),
        (
            json!({"code": "1", "servers": ["zzzz"]}),
            "Available in this run: ",
            vec![json!({"code": "1", "servers": ["one", "two"]})],
        ),
        (
            json!({"code": "1", "servers": ["onne"]}),
            " Available in this run: one",
            vec![json!({"code": "1", "servers": ["one"]})],
        ),
        (run("mcp_one.add.sync(a='x')"), "signature: add(", vec![run("mcp_one.add.sync(a=1, b=2)")]),
        (
            run("mcp_one.frobnicate.sync()"),
            "finds tools",
            vec![run("assert runtime.search_tool_docs('add two numbers')[0]['tool'] == 'add'")],
        ),
        (
            run("mcp_one.hang.sync(a=[0] * 1_100_000)"),
            "hand them over in several calls",
            vec![run(
                "rows = ['x'] * 9\nfor part in runtime.chunk('\\n'.join(rows), size=6): mcp_one.echo.sync(text=part)",
            )],
        ),
        (
            run(
                "runtime.list_resources('one')\nruntime.list_resources('two')\nruntime.read_resource('fixture://text')",
            ),
            "say which server is meant: read_resource(uri, server=...)",
            vec![run("runtime.read_resource('fixture://text', server='two')")],
        ),
        (
            run("mcp_one.big.sync(bytes=70_000_000)"),
            "ask the tool for less: a page, a filter, fewer fields",
            vec![run("mcp_one.big.sync(bytes=1_000)")],
        ),
        (
            run("mcp_two.crash.sync()"),
            "it is started again by the next call",
            vec![run("mcp_two.echo.sync(text='x')")],
        ),
        (
            run("h = mcp_one.big.handle_sync(bytes=40_000_000)\nmcp_one.hang.sync(a=h, b=h)"),
            "send a part: handle[...]",
            vec![run("h = mcp_one.structured.handle_sync()\nmcp_one.echo.sync(text=h['rows'][0]['title'])")],
        ),
        (
            run("h = mcp_one.add.handle_sync(a=1, b=2)\nh.drop()\nh.load()"),
            "results that were used last, up to",
            vec![run("h = mcp_one.add.handle_sync(a=1, b=2)\nh.load()")],
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
            run("runtime.Handle({**h._told, 'handle': 77}).load()"),
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

/// Why a hint is not followed in `rows` or `STEPS`.
enum Elsewhere {
    /// This test follows it: the file below `tests` without its ending, and the name.
    By(&'static str),
    /// No test can follow it, for this reason.
    Never(&'static str),
}
use Elsewhere::{By, Never};

const ON_THE_MACHINE: Elsewhere =
    Never("Following it installs or starts an engine on the machine that runs the tests.");
const RUN_IS_OVER: Elsewhere =
    Never("The run is interrupted at the same moment, and which of both the code sees is a race.");
const DEFECT: Elsewhere = Never("Only a defect of the bridge itself leads to it.");
const STATES_A_FACT: Elsewhere = Never("It states a fact and advises nothing.");

/// The hints that are not followed here.
const ELSEWHERE: &[(&str, Elsewhere)] = &[
    (
        "await or join what calls tools before the code ends",
        Never(
            "The runtime in the sandbox refuses such a call first, so that only a forged one comes so far.",
        ),
    ),
    (
        "the user has to make that folder writable, and private",
        By("live/mounts::code_gets_no_folder_to_change_while_that_cannot_be_recorded"),
    ),
    ("the user decides: ", By("live/sessions::a_session_that_cannot_be_resumed_says_why_and_runs_nothing")),
    ("nothing was sent; run it again, or give the run a larger timeout", RUN_IS_OVER),
    ("give the run a larger timeout, or ask for less", RUN_IS_OVER),
    ("give the run a larger timeout", RUN_IS_OVER),
    ("run it again; variables may be gone", DEFECT),
    ("the next run starts afresh; look before a call is made again that writes", DEFECT),
    ("run it again", Never("The sandbox has to end between two messages of one rollback.")),
    ("variables are as before", STATES_A_FACT),
    ("earlier variables are gone", STATES_A_FACT),
    (", which were too few the last time", STATES_A_FACT),
    ("run the code again", RUN_IS_OVER),
    ("do not repeat this call in this run", STATES_A_FACT),
    (
        "make fewer large calls at once, or hand the data over in parts",
        By("live/floods::many_calls_with_large_arguments_are_all_answered"),
    ),
    (
        "wait for one of them, or end them by a run with reset",
        By("live/endings::runs_beyond_the_queue_are_refused_at_once"),
    ),
    (
        "asked for once more, it is made again",
        By("live/checkpoints::code_that_kills_its_checkpoints_has_them_made_again"),
    ),
    (
        "wait for them (await runtime.job(1)) or cancel them first",
        By(
            "live/checkpoints::one_that_was_lost_is_not_made_again_over_jobs_that_run_or_a_name_of_the_code_s_own",
        ),
    ),
    (
        "run with reset: true to let all of them go, or runtime.forget_checkpoint(name)",
        By(
            "live/checkpoints::one_that_was_lost_is_not_made_again_over_jobs_that_run_or_a_name_of_the_code_s_own",
        ),
    ),
    (
        "the user has it kept with MCP_BRIDGE_JOURNAL=full",
        By("live/checkpoints::after_the_container_they_are_made_again_without_a_call"),
    ),
    (
        "the next run begins with them anew",
        By("live/sessions::who_cancels_while_earlier_runs_are_made_once_more_can_try_again"),
    ),
    ("goes on after run", By("live/sessions::a_session_that_cannot_be_resumed_says_why_and_runs_nothing")),
    (
        "without MCP_BRIDGE_RESUME a session begins afresh",
        By("live/sessions::a_session_that_cannot_be_resumed_says_why_and_runs_nothing"),
    ),
    (
        "the user sets MCP_BRIDGE_RESUME",
        By("live/sessions::a_session_that_cannot_be_resumed_says_why_and_runs_nothing"),
    ),
    (
        "the user takes `writable` out of that [[mount]]",
        By("live/sessions::a_session_is_not_resumed_where_its_runs_would_write_to_the_users_folders_again"),
    ),
    (
        "they are kept by belljar: `belljar files get`",
        By("live/files::the_user_takes_files_out_of_a_workspace_and_puts_some_in"),
    ),
    (
        "if another belljar uses it, end that or choose another name",
        By("live/files::a_workspace_that_is_in_use_is_said_and_nothing_runs_without_it"),
    ),
    (
        "the user gives belljar a state folder that it can write, or chooses another profile",
        By("live/policy::calls_that_leave_no_record_are_told_of_or_denied"),
    ),
    (
        "the user looks at it and runs: belljar trust",
        By("live/pins::a_tool_that_its_server_has_changed_is_told_of_and_waits_for_trust_under_careful"),
    ),
    (
        "large results lie in the host's folder for temporary files",
        Never("A full folder for temporary files stops the engine and the other tests, too."),
    ),
    (
        "jobs are answered at any time by an endpoint",
        By("live/models::a_job_asks_an_endpoint_at_any_time_within_the_budgets_of_its_run"),
    ),
    (
        "ask later, or fewer at once",
        By("live/models::many_are_asked_in_order_and_no_more_at_once_than_the_host_allows"),
    ),
    ("ask for fewer max_tokens", Never("The size of an answer is the model's choice.")),
    (
        "the user runs: ",
        By("live/login::a_run_that_needs_a_login_says_the_command_and_the_next_one_after_it_works"),
    ),
    (
        "the user must give it other headers",
        By("it/service_login::credentials_of_a_command_are_printed_anew_once_they_are_refused"),
    ),
    (
        "the user must correct the login in the server's entry",
        By("it/service_login::doctor_login_and_logout_know_that_no_user_is_needed"),
    ),
    (
        "make the call again",
        By(
            "it/remote::a_lost_session_is_made_again_however_the_server_says_so_and_only_a_call_that_reads_is_repeated",
        ),
    ),
    (
        "tell the user to run `belljar doctor --ask`",
        By("it/confined_servers::doctor_starts_a_server_confined_and_says_what_to_write"),
    ),
    (
        "tell the user, whose entry of the server decides",
        By("it/confined_servers::what_a_confined_server_lacks_is_named_with_its_key"),
    ),
    (
        "the image must have python3 >= 3.11 in its PATH",
        By("live/images::one_that_is_not_belljar_s_gets_the_usual_packages_first"),
    ),
    (
        "correct the engine's configuration, or use another engine",
        By("live/posture::what_the_operator_allows_by_name_runs_and_is_said_for_every_sandbox"),
    ),
    (
        "`belljar doctor` checks the engine and the image",
        By("live/commands::doctor_tells_engine_image_and_limits"),
    ),
    ("; without a container engine: ", STATES_A_FACT),
    (
        "unset it, or have a container engine used",
        By("live/process_engine::what_takes_containers_is_refused"),
    ),
    ("start the engine there", ON_THE_MACHINE),
    ("start Docker (", ON_THE_MACHINE),
    ("start one: `podman machine start`", ON_THE_MACHINE),
    ("install one with `sudo apt-get install podman`", ON_THE_MACHINE),
    (
        "build it with `belljar image build`",
        By("live/images::one_that_is_not_belljar_s_gets_the_usual_packages_first"),
    ),
    (
        "the image has no python3: build one with",
        By("live/images::one_that_is_not_belljar_s_gets_the_usual_packages_first"),
    ),
    ("add this OCI runtime to the engine's configuration", ON_THE_MACHINE),
    ("below [engine] in containers.conf", ON_THE_MACHINE),
    ("`belljar doctor` checks the engine; restarting it often helps", ON_THE_MACHINE),
    (
        "make that folder writable for you, or set XDG_RUNTIME_DIR",
        Never("The state folder is used instead, so both have to fail."),
    ),
];

/// Expressions of hints that are text of somebody else, or that another entry covers.
const PASSED_ON: [&str; 3] = ["error.hint", "String::new()", "fault.hint"];

/// Files of the user, code whose call fails then, the hint, and the files with which the same code works.
type Step = (Vec<(&'static str, String)>, String, &'static str, Vec<(&'static str, String)>);

const CONFIG: &str = ".config/belljar/config.toml";
const POLICY: &str = ".config/belljar/policy.toml";
const SERVERS: &str = "MCPs/more.json";

/// What the user can follow between two runs.
fn steps(model: &str, fixture: &Fixture) -> Vec<Step> {
    let ask = || "runtime.ask_llm('x')".to_owned();
    let config = |lines: &str| vec![(CONFIG, lines.to_owned())];
    let with = |more: &str| {
        config(&format!("[model]\nendpoint = \"{model}\"\nname = \"m\"\nkey = \"${{env:LLM_KEY}}\"\n{more}"))
    };
    let policy = |text: &str| vec![(POLICY, text.to_owned())];
    let entry = |more: Value| {
        let mut entry = fixture.entry();
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        vec![(SERVERS, json!({"mcpServers": {"more": entry}}).to_string())]
    };
    let add = || "mcp_more.add.sync(a=1, b=2)".to_owned();
    let needs_variable = |more: Value| {
        let complaint = "echo AWS_PROFILE is not set >&2; exit 1";
        let line = format!("test -n \"$AWS_PROFILE\" || {{ {complaint}; }}; {}", started(fixture));
        let mut entry = json!({"command": "sh", "args": ["-c", line]});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        vec![(SERVERS, json!({"mcpServers": {"more": entry}}).to_string())]
    };
    vec![
        (config(""), ask(), "the user sets endpoint and name below [model] in config.toml", with("")),
        (with("via = \"off\"\n"), ask(), "the user sets it in config.toml", with("")),
        (
            config("[model]\nendpoint = \"http://127.0.0.1:1/v1\"\nname = \"m\"\n"),
            ask(),
            "the user starts the service, or corrects model.endpoint in config.toml",
            with(""),
        ),
        (
            config(&format!(
                "[model]\nendpoint = \"{model}\"\nname = \"m\"\nkey = \"${{env:AWS_PROFILE}}\"\n"
            )),
            ask(),
            "the user corrects model.key in config.toml",
            with(""),
        ),
        (
            config(&format!(
                "[model]\nendpoint = \"{model}\"\nname = \"none\"\nkey = \"${{env:LLM_KEY}}\"\n"
            )),
            ask(),
            "the user corrects model.endpoint or model.name in config.toml",
            with(""),
        ),
        (
            with("requests_per_run = 1\n"),
            "[runtime.ask_llm('x') for _ in range(2)]".into(),
            "the user sets budgets below [model] in config.toml; ask less, or of larger parts",
            with("requests_per_run = 2\n"),
        ),
        (
            with("timeout = 1\n"),
            "runtime.ask_llm('slow')".into(),
            "the user sets model.timeout in config.toml",
            with("timeout = 20\n"),
        ),
        (
            policy("[[rule]]\nserver = \"more\"\ndecision = \"deny\"\n"),
            add(),
            "the user decides that in policy.toml",
            policy("[[rule]]\nserver = \"more\"\ndecision = \"allow\"\n"),
        ),
        (
            policy("[[rule]]\nserver = \"more\"\ndecision = \"ask\"\n"),
            add(),
            "the user can let it pass by a rule or another profile in policy.toml",
            policy("[[rule]]\nserver = \"more\"\ndecision = \"allow\"\n"),
        ),
        (
            policy("[budgets]\ncalls_per_run = 1\n"),
            "[mcp_more.add.sync(a=1, b=2) for _ in range(2)]".into(),
            "the user sets budgets in policy.toml",
            policy("[budgets]\ncalls_per_run = 2\n"),
        ),
        (
            policy("[budgets]\nbytes_per_run = 50\n"),
            "mcp_more.big.sync(bytes=100)".into(),
            "ask for less: a page, a filter, fewer fields; the user sets budgets in policy.toml",
            policy("[budgets]\nbytes_per_run = 5000000\n"),
        ),
        (entry(json!({"deny": ["add"]})), add(), "the user decides that there", entry(json!({}))),
        (
            entry(json!({"sandboxFiles": false})),
            "mcp_more.pid.sync(a=mcp_more.image.handle_sync())".into(),
            "the user decides that in the server's entry",
            entry(json!({})),
        ),
        (
            entry(json!({"timeout": 0.3})),
            "mcp_more.slow.sync(ms=900)".into(),
            "the user can raise that timeout",
            entry(json!({"timeout": 20})),
        ),
        (
            entry(json!({"env": {"A": "${NO_SUCH_VARIABLE}"}})),
            add(),
            "the user must fix it; `belljar config` shows where it stands",
            entry(json!({"env": {"A": "${NO_SUCH_VARIABLE:-a}"}})),
        ),
        (
            vec![(SERVERS, json!({"mcpServers": {"more": {"command": "no-such-command"}}}).to_string())],
            add(),
            "the user must fix it; `belljar doctor` checks the configured commands and addresses",
            entry(json!({})),
        ),
        (
            needs_variable(json!({})),
            add(),
            "tell the user: belljar does not pass ",
            needs_variable(json!({"env_inherit": ["AWS_PROFILE"]})),
        ),
    ]
}

fn what_the_bridge_advises_works(engine: &Engine) {
    let fixtures = [0, 1].map(|_| Fixture::new(&["--resources"]));
    let mut entry = fixtures[0].entry();
    entry["env"] = json!({"TOKEN": "ghp_0123456789abcdef0123"});
    let home = Home::on(engine).server("one", entry).server("two", fixtures[1].entry());
    let mark = home.path().join("installed");
    let line =
        format!("test -e '{0}' || {{ touch '{0}'; sleep 5; }}; {1}", mark.display(), started(&fixtures[0]));
    let slowly = json!({"command": "sh", "args": ["-c", line], "start_timeout": 2});
    let home = home.server("slowly", slowly);
    let mut bridge = Bridge::start(&home).warm();
    for (request, hint, follow) in rows() {
        let reply = bridge.run_with(request.clone());
        assert!(reply.is_error && reply.text.contains(hint), "{hint}: {}", reply.text);
        for request in follow {
            let reply = bridge.run_with(request);
            assert!(!reply.is_error, "{hint}: {}", reply.text);
        }
    }
}

/// The line of a shell that becomes the server.
fn started(fixture: &Fixture) -> String {
    let entry = fixture.entry();
    let words = std::iter::once(&entry["command"]).chain(entry["args"].as_array().into_iter().flatten());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.as_str().unwrap())).collect();
    format!("exec {}", words.join(" "))
}

fn what_the_user_is_advised_works_from_the_next_run_on(engine: &Engine) {
    let server = ModelServer::start(|request, out, _| {
        let refused = |message: &str| json!({"error": {"message": message}}).to_string();
        if request.header("authorization") != Some(&format!("Bearer {KEY}")) {
            return reply(out, "401 Unauthorized", &[], &refused("no such key"));
        }
        if request.body["model"] == "none" {
            return reply(out, "404 Not Found", &[], &refused("no such model"));
        }
        if prompt(request) == "slow" {
            std::thread::park_timeout(std::time::Duration::from_secs(3));
        }
        say(out, request, "said")
    });
    let fixture = Fixture::new(&[]);
    let mut home =
        Home::on(engine).env("AWS_PROFILE", "mine").env("LLM_KEY", KEY).file(CONFIG, "").file(POLICY, "");
    home = home.file(SERVERS, &json!({"mcpServers": {"more": fixture.entry()}}).to_string());
    let mut bridge = Bridge::start(&home).warm();
    for (before, code, hint, after) in steps(&server.url(), &fixture) {
        let code = format!("from mcp import runtime\n{code}");
        for (path, content) in before {
            home = home.file(path, &content);
        }
        let reply = bridge.run(&code);
        assert!(reply.is_error && reply.text.contains(hint), "{hint}: {}", reply.text);
        for (path, content) in after {
            home = home.file(path, &content);
        }
        let reply = bridge.run(&code);
        assert!(!reply.is_error, "{hint}: {}", reply.text);
    }
    let text = "from mcp import runtime\ntext = 'some words ' * 100_000\n";
    let reply = bridge.run(&format!("{text}runtime.ask_llm(text)"));
    assert!(reply.is_error && reply.text.contains(CUT), "{}", reply.text);
    let parts =
        "assert set(runtime.map_llm(list(runtime.chunk(text, size=100_000))[:3], 'of {chunk}')) == {'said'}";
    bridge.ok(&format!("{text}{parts}"));
}

/// The hint for a text that is too long for a model.
const CUT: &str =
    "cut the text with runtime.chunk(...), and ask of the parts that matter with runtime.map_llm(...)";

/// What is said of a start that took too long before, in a run that ended while it went on.
const MORE_TIME: &str = "the user must raise start_timeout in its entry";

fn a_start_that_takes_too_long_is_told_to_the_user_and_not_repeated(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let line = format!("sleep 5; {}", started(&fixture));
    let entry = |time: u64| {
        let entry = json!({"command": "sh", "args": ["-c", line], "start_timeout": time});
        json!({"mcpServers": {"more": entry}}).to_string()
    };
    let home = Home::on(engine).file(SERVERS, &entry(3));
    let mut bridge = Bridge::start(&home).warm();
    let call = "mcp_more.echo.sync(text='x')";
    let late = bridge.run(call);
    assert!(late.is_error && late.text.contains("no answer within 3 s"), "{}", late.text);
    // A failed start is not repeated at once.
    let mut texts = std::iter::repeat_with(|| bridge.run_with(json!({"code": call, "timeout": 1})).text);
    let text = texts.find(|text| !text.contains("did not start")).unwrap();
    let said = "server 'more' is still starting (it has 3 s for that, which were too few the last time), and nothing \
                was sent to it; ";
    assert!(text.contains(&format!("{said}{MORE_TIME}")) && !text.contains("again"), "{text}");
    let _home = home.file(SERVERS, &entry(60));
    assert!(bridge.ok(call).starts_with("'x'"));
}

/// A setting, code that fails with it, the hint, and the value with which the same code works.
const SETTINGS: [(&str, &str, &str, &str, &str); 4] = [
    (
        "MCP_BRIDGE_JOB_TIMEOUT",
        "2",
        "runtime.spawn(abs, -1, timeout=3)",
        "the user sets that: jobs.timeout, or MCP_BRIDGE_JOB_TIMEOUT",
        "3",
    ),
    ("MCP_BRIDGE_JOBS", "0", "runtime.spawn(abs, -1)", "the user sets jobs.max, or MCP_BRIDGE_JOBS", "1"),
    ("MCP_BRIDGE_MEMORY", "much", "1", "correct it, or leave it out for its default", "1g"),
    (
        "MCP_BRIDGE_MODEL_KEY",
        "${env:NO_SUCH_KEY}",
        "runtime.ask_llm('x')",
        "the user must fix [model] in config.toml",
        "${env:LLM_KEY}",
    ),
];

fn what_the_user_is_advised_about_restarts_works(engine: &Engine) {
    let server = ModelServer::locked(str::to_uppercase);
    let home = || server.set(Home::on(engine)).env("LLM_KEY", KEY);
    for (setting, value, code, hint, better) in SETTINGS {
        let code = format!("from mcp import runtime\n{code}");
        let reply = Bridge::start(&home().env(setting, value)).run(&code);
        assert!(reply.is_error && reply.text.contains(hint), "{hint}: {}", reply.text);
        Bridge::start(&home().env(setting, better)).warm().ok(&code);
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
fn each_hint_of_the_bridge_is_followed_or_has_a_reason() {
    let fixture = Fixture::new(&[]);
    let mut known: Vec<&str> = rows().iter().map(|(_, hint, _)| *hint).collect();
    known.extend(steps("", &fixture).iter().map(|(_, _, hint, _)| *hint));
    known.extend([CUT, MORE_TIME]);
    known.extend(SETTINGS.map(|(_, _, _, hint, _)| hint));
    known.extend(ELSEWHERE.iter().map(|(hint, _)| *hint));
    let mut hints = Vec::new();
    for source in SOURCES {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(source), &mut hints);
    }
    assert!(hints.len() > 90, "{}", hints.len());
    let is_of = |hint: &str, known: &str| hint.contains(known) || known.contains(hint);
    let missing: Vec<&String> =
        hints.iter().filter(|hint| !known.iter().any(|known| is_of(hint, known))).collect();
    assert!(missing.is_empty(), "in no table: {missing:#?}");
    let stale: Vec<&&str> =
        known.iter().filter(|known| !hints.iter().any(|hint| is_of(hint, known))).collect();
    assert!(stale.is_empty(), "in no source: {stale:#?}");
}

#[test]
fn tests_that_follow_hints_are_there_and_reasons_are_sentences() {
    for (hint, elsewhere) in ELSEWHERE.iter().chain(IN_MESSAGES) {
        match elsewhere {
            Never(reason) => {
                assert!(reason.ends_with('.') && reason.matches(". ").count() == 0, "{hint}: {reason}")
            }
            By(test) => {
                let (file, name) = test.split_once("::").unwrap();
                let path =
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file).with_extension("rs");
                let text = fs::read_to_string(&path).unwrap();
                assert!(text.contains(&format!("fn {name}(")), "{hint}: {test}");
            }
        }
    }
}

/// The advice in messages about servers, and the test that follows it.
const IN_MESSAGES: &[(&str, Elsewhere)] = &[
    (
        "if it has moved there, write that address into its entry",
        By("it/remote::a_redirect_names_the_address_to_write_without_what_may_be_secret"),
    ),
    (
        "to pass on what it needs, add the key env_inherit with [",
        By("live/hints::what_the_user_is_advised_works_from_the_next_run_on"),
    ),
    (
        "if that is right, write it into the entry as login.token_endpoint, beside login.issuer",
        By("it/service_login_hostile::a_token_endpoint_of_the_entry_is_asked_without_metadata"),
    ),
    (
        "if that is right, write it into the entry as login.issuer",
        By("it/service_login_hostile::another_authorization_server_than_before_gets_no_credentials"),
    ),
    (
        "if both are of one service, add --token-endpoint ",
        By("it/login_command::a_code_goes_only_to_the_service_at_which_the_user_logs_in"),
    ),
    (
        "though it wants credentials: write them into its headers",
        By(
            "it/remote::every_request_carries_the_headers_the_session_and_the_version_and_the_session_is_ended",
        ),
    ),
    (
        "register one there, and give its id with --client-id",
        By("it/login::a_client_that_was_registered_by_hand_logs_in_and_renews_with_its_secret"),
    ),
    (
        "rename it, or change the entry",
        Never("An entry is text in UTF-8, and only a link can lead elsewhere."),
    ),
];

#[test]
fn each_advice_in_a_message_about_a_server_is_followed_or_has_a_reason() {
    const VERBS: [&str; 12] = [
        "add", "change", "correct", "give", "raise", "register", "rename", "run", "set", "tell", "use",
        "write",
    ];
    let advises = |text: &&String| {
        let mut parts = text.split([';', ':', ',']).skip(1).map(str::trim_start);
        parts.any(|part| VERBS.iter().any(|verb| part.split(' ').next() == Some(verb)))
    };
    let mut texts = Vec::new();
    each_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/belljar-upstream/src"), &mut |_, code| {
        let code = code.replace("'\"'", "''");
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        texts.extend(literals(&lines.collect::<Vec<_>>().join("\n")));
    });
    let advice: Vec<&String> = texts.iter().filter(advises).collect();
    let missing: Vec<&&String> =
        advice.iter().filter(|text| !IN_MESSAGES.iter().any(|(known, _)| text.contains(known))).collect();
    assert!(missing.is_empty(), "in no table: {missing:#?}");
    let is_there = |known: &str| advice.iter().any(|text| text.contains(known));
    let stale: Vec<&str> =
        IN_MESSAGES.iter().map(|(known, _)| *known).filter(|known| !is_there(known)).collect();
    assert!(stale.is_empty(), "in no source: {stale:#?}");
}

/// Adds the longest fixed part of each text that a source gives as a hint, and each expression whose text is not found.
fn collect(path: &Path, hints: &mut Vec<String>) {
    each_file(path, &mut |path, code| collect_from(path, code, hints));
}

/// Hands over the code of each source below a path, without its tests.
fn each_file(path: &Path, take: &mut impl FnMut(&Path, &str)) {
    if path.is_dir() {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().for_each(|path| each_file(path, take));
    } else if !path.to_string_lossy().ends_with("_tests.rs") {
        let text = fs::read_to_string(path).unwrap();
        take(path, text.split("#[cfg(test)]").next().unwrap());
    }
}

fn collect_from(path: &Path, code: &str, hints: &mut Vec<String>) {
    for start in [".hint(", ".hint = ", " hint: ", "HINT: &str =", "HINT_CHECKPOINT: &str ="] {
        for behind in code.split(start).skip(1) {
            let expression = up_to_end(behind);
            let found = texts(expression, code);
            let is_passed_on = PASSED_ON.iter().any(|passed| expression.trim().starts_with(passed))
                // A constant is collected where it is defined.
                || expression.contains("HINT");
            if is_passed_on || expression.is_empty() {
                continue;
            }
            if found.is_empty() {
                hints.push(format!("{}: {expression}", path.display()));
            }
            hints.extend(found);
        }
    }
    // The whole of a function that makes hints; what it compares with is no hint.
    for behind in code.split("fn hint(").skip(1).filter(|behind| behind.contains(" -> String {")) {
        let body = behind.split_once(" -> String {").unwrap().1;
        let body = body.split_once("\n    }\n").map_or(body, |(body, _)| body);
        let compared = |literal: &str| body.contains(&format!("contains(\"{literal}\")"));
        hints.extend(literals(body).into_iter().filter(|literal| !compared(literal)));
    }
}

/// The expression, or the list of arguments, that a text begins with.
fn up_to_end(text: &str) -> &str {
    let (mut depth, mut is_in_text, mut is_escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_text => is_escaped = true,
            b'"' => is_in_text = !is_in_text,
            _ if is_in_text => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return &text[..at],
            b')' | b']' | b'}' => depth -= 1,
            b',' | b';' if depth == 0 => return &text[..at],
            _ => {}
        }
    }
    text
}

/// The hints in an expression: its own texts, or those of the variables and functions of the file that it names.
fn texts(expression: &str, code: &str) -> Vec<String> {
    let own = literals(expression);
    let mut found = own.clone();
    let words: Vec<&str> = match own.is_empty() {
        true => expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect(),
        false => expression.split('{').skip(1).filter_map(|behind| Some(behind.split_once('}')?.0)).collect(),
    };
    for word in words.into_iter().filter(|word| word.len() > 3) {
        let variables = [format!("let {word} = "), format!(", {word}) = ")];
        for behind in variables.iter().flat_map(|start| code.split(start.as_str()).skip(1)) {
            let value = up_to_end(behind);
            found.extend(literals(value));
            let functions = value.split('(').filter_map(|before| before.rsplit([' ', '|']).next());
            for function in functions.filter(|name| name.len() > 3) {
                let start = format!("fn {function}(");
                let bodies = code.split(start.as_str()).skip(1);
                found.extend(bodies.flat_map(|body| literals(body.split("\n}\n").next().unwrap())));
            }
        }
    }
    found
}

/// The longest fixed part of each text in a piece of code.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some((_, behind)) = rest.split_once('"') {
        let Some((end, _)) = behind.match_indices('"').find(|(at, _)| !behind[..*at].ends_with('\\')) else {
            break;
        };
        // A backslash at the end of a line leaves out the indentation of the next one.
        let literal: String = behind[..end].split("\\\n").map(str::trim_start).collect();
        let literal = literal.replace("\\\"", "\"").replace("\\\\", "\\");
        let parts = literal.split('{').enumerate().map(|(at, part)| match part.split_once('}') {
            Some((_, rest)) if at > 0 => rest,
            _ => part,
        });
        let longest = parts.max_by_key(|part| part.len()).unwrap();
        if longest.len() > 5 {
            found.push(longest.to_owned());
        }
        rest = &behind[end + 1..];
    }
    found
}
