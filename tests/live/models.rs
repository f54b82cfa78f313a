//! Code asks a model: the endpoint that the user has set, else the client; within budgets, and never with the key inside.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::http_fixture::reply;
use crate::support::model_server::{KEY, ModelServer, prompt, say};
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE};

on_one_engine_and_processes!(
    an_endpoint_answers_and_its_key_is_nowhere_else,
    an_answer_is_replayed_and_resumed_and_not_asked_for_again,
    without_an_endpoint_the_client_is_asked_and_the_run_s_time_stands_still,
    a_client_without_handshake_is_asked_by_an_answer,
    where_no_model_can_be_asked_code_is_told_what_to_set,
    many_are_asked_in_order_and_no_more_at_once_than_the_host_allows,
    budgets_end_requests_and_say_which_they_were,
    a_job_asks_an_endpoint_at_any_time_within_the_budgets_of_its_run,
    a_job_asks_the_client_only_while_its_run_goes_on,
    an_endpoint_that_fails_is_said_to_and_asked_again_only_where_that_helps,
    one_that_hangs_ends_with_the_time_that_it_has_or_the_run_or_the_client_s_patience,
    rules_decide_on_it_as_on_a_tool,
    in_a_dry_run_it_is_listed_and_not_asked,
    doctor_says_which_model_is_asked_and_asks_it_when_told_to,
);

const CONFIG: &str = ".config/belljar/config.toml";

/// Code that prints what the expression comes to, or the code and message of what it raises.
fn tried(expression: &str) -> String {
    format!(
        "try:\n  print({expression})\nexcept runtime.MCPError as error:\n  print(error.code, error.message, '/', error.hint)"
    )
}

fn loud(prompt: &str) -> String {
    prompt.to_uppercase()
}

/// All files below a folder that can be read, with what is in them.
fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match std::fs::symlink_metadata(&path) {
            Ok(about) if about.is_dir() => found.extend(files_below(&path)),
            Ok(about) if about.is_file() => {
                found.push((path.clone(), std::fs::read(&path).unwrap_or_default()));
            }
            _ => {}
        }
    }
    found
}

fn an_endpoint_answers_and_its_key_is_nowhere_else(engine: &Engine) {
    let server = ModelServer::locked(|prompt| match prompt {
        // As a model might that was told it.
        "say it" => format!("it is {KEY}"),
        other => loud(other),
    });
    let fixture = Fixture::new(&[]);
    let home = server.set_with_key(Home::on(engine)).server("fixture", fixture.entry());
    let home = home
        .env("MCP_BRIDGE_JOURNAL", "full")
        .env("MCP_BRIDGE_AUDIT", "arguments")
        .env("MCP_BRIDGE_LOG_LEVEL", "DEBUG");
    let mut bridge = Bridge::start(&home).warm();
    let code = "a = await runtime.ask_llm('how are you', system='Be brief.', temperature=0.7, max_tokens=7)\n\
                print(a, a.model, a.stop_reason, a.usage)";
    assert_eq!(
        bridge.ok(code).lines().next().unwrap(),
        "HOW ARE YOU small-1-2026 end_turn {'prompt_tokens': 3, 'completion_tokens': 3, 'total_tokens': 6, 'estimated': False}"
    );
    let asked = json!({
        "model": "small-1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "how are you"}],
        "max_tokens": 7,
        "temperature": 0.7,
    });
    assert_eq!(server.requests()[0].body, asked);
    assert_eq!(bridge.ok("print(runtime.ask_llm_sync('say it'))"), "it is [model.key]");

    // Put together inside, so that the test's own code does not hold what it looks for.
    let search = r#"
import glob, os
word = '-'.join(('canary', '5d1e'))
seen = [dict(os.environ)]
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        seen.append(open(path, errors="replace").read())
    except OSError:
        pass
print(len(seen) > 3, any(word in str(text) for text in seen))
"#;
    assert_eq!(bridge.ok(search).lines().next(), Some("True False"));
    bridge.ok("await mcp_fixture.peak()");
    for pid in fixture.living() {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&environment).contains(KEY), "a server is given the key");
    }
    for id in engine.containers_of(&home.owners()) {
        assert!(!engine.inspect_container(&id).to_string().contains(KEY));
    }
    bridge.hang_up();
    bridge.wait(PATIENCE);
    assert!(!bridge.stderr().contains(KEY), "{}", bridge.stderr());
    for (path, content) in files_below(home.path()) {
        assert!(!String::from_utf8_lossy(&content).contains(KEY), "{}", path.display());
    }
    let log = home.run(&["log", "--tool", "ask_llm"]).stdout;
    let line = log.lines().next().unwrap_or_default();
    let decided = format!("small-1-2026 by {}: 3 tokens sent, 3 received", server.url().replace("/v1", ""));
    assert!(line.contains("runtime.ask_llm answered, ") && line.contains(&decided), "{log}");
    assert!(log.contains("how are you"), "{log}");

    // Another key, which the service repeats.
    let mut bridge = Bridge::start(&home.env("LLM_KEY", "sk-other-canary")).warm();
    let refused = bridge.ok(&tried("await runtime.ask_llm('x')"));
    let expected = "HTTP 401: Incorrect API key provided: Bearer [model.key] / the user corrects model.key in config.toml";
    assert!(refused.starts_with("model_unavailable ") && refused.contains(expected), "{refused}");
}

fn an_answer_is_replayed_and_resumed_and_not_asked_for_again(engine: &Engine) {
    let server = ModelServer::open(loud);
    let home = server.set(Home::on(engine)).env("MCP_BRIDGE_JOURNAL", "full");
    let mut bridge = Bridge::start(&home);
    bridge.ok("said = await runtime.map_llm(['a', 'b', 'c'], 'say {chunk}')\nsaid");
    bridge.hang_up();
    bridge.wait(PATIENCE);
    let shown = home.run(&["session", "show", "last"]).stdout;
    assert_eq!(shown.matches("  call runtime.ask_llm {").count(), 3, "{shown}");
    let replayed = home.run(&["session", "replay", "last"]);
    assert_eq!(replayed.stdout, "run 1: same\n", "{}", replayed.stderr);
    let mut bridge = Bridge::start(&home.env("MCP_BRIDGE_RESUME", "last"));
    assert!(bridge.ok("said[0].usage['total_tokens'], said").contains("(4, ['SAY A', 'SAY B', 'SAY C'])"));
    assert_eq!(server.requests().len(), 3);
}

/// What a client says for its model.
fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "big-1", "stopReason": "endTurn"})
}

fn without_an_endpoint_the_client_is_asked_and_the_run_s_time_stands_still(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start_with(&home, json!({"sampling": {}})).warm();
    let code = "a = await runtime.ask_llm('how are \\u200byou', {'n': 1}, max_tokens=7)\n\
                print(a, a.model, a.stop_reason, a.usage['estimated'])";
    let run = bridge.send_run(json!({"code": code, "timeout": 2}));
    let (id, mut params) = bridge.asked("sampling/createMessage");
    params.as_object_mut().unwrap().remove("_meta");
    let text = "how are \\u200byou\n\n<context>\n{\"n\":1}\n</context>";
    let expected = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        "systemPrompt": "Code that runs in belljar's sandbox asks this.",
        "maxTokens": 7,
    });
    assert_eq!(params, expected);
    // Longer than the run has.
    assert!(bridge.next(Duration::from_secs(3)).is_err());
    bridge.answer_to(&id, says("fine"));
    assert_eq!(bridge.reply(run).text, "fine big-1 end_turn True");
    // What the client refuses is no answer.
    let run = bridge.send_run(json!({"code": tried("await runtime.ask_llm('again?')")}));
    let (id, _) = bridge.asked("sampling/createMessage");
    bridge.refuse(&id, -1, "the user said no");
    assert_eq!(
        bridge.reply(run).text.trim_end(),
        "model_failed the client's model gave no answer: the user said no /"
    );
    bridge.hang_up();
    bridge.wait(PATIENCE);
    let log = home.run(&["log", "--tool", "ask_llm"]).stdout;
    assert!(log.contains("big-1 by the client: about "), "{log}");

    // Where the user wants it so, also beside an endpoint; what servers may ask for is another setting.
    let server = ModelServer::open(loud);
    let home = server.set(Home::on(engine)).env("MCP_BRIDGE_MODEL_VIA", "sampling");
    let mut bridge =
        Bridge::start_with(&home.env("MCP_BRIDGE_SAMPLING", "off"), json!({"sampling": {}})).warm();
    let run = bridge.send_run(json!({"code": "print(await runtime.ask_llm('x'))"}));
    let (id, params) = bridge.asked("sampling/createMessage");
    assert_eq!(params["modelPreferences"]["hints"], json!([{"name": "small-1"}]));
    bridge.answer_to(&id, says("y"));
    assert_eq!((bridge.reply(run).text.as_str(), server.requests().len()), ("y", 0));
}

fn a_client_without_handshake_is_asked_by_an_answer(engine: &Engine) {
    let mut bridge = Bridge::spawn(&Home::on(engine));
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
    let code = tried("await runtime.ask_llm('one'), await runtime.ask_llm('two')");
    let unable = bridge.request("tools/call", asks(&code, json!({}))).unwrap();
    assert!(text(&unable).contains("model_unavailable no model can be asked"), "{unable}");

    let mut ask = asks(&code, json!({"sampling": {}}));
    let mut answered = bridge.request("tools/call", ask.clone()).unwrap();
    for (asked, says_it) in [("one", "1"), ("two", "2")] {
        assert_eq!(answered["resultType"], "input_required", "{answered}");
        let question = &answered["inputRequests"]["question"];
        assert_eq!(question["method"], "sampling/createMessage");
        assert_eq!(question["params"]["messages"][0]["content"]["text"], asked);
        ask["requestState"] = answered["requestState"].clone();
        ask["inputResponses"] = json!({"question": says(says_it)});
        answered = bridge.request("tools/call", ask.clone()).unwrap();
    }
    assert_eq!(text(&answered).lines().next(), Some("1 2"), "{answered}");
}

fn where_no_model_can_be_asked_code_is_told_what_to_set(engine: &Engine) {
    let ask = tried("await runtime.ask_llm('x')");
    let told = |home: Home| Bridge::start_with(&home, json!({})).warm().ok(&ask);
    let set = |lines: &str| Home::on(engine).file(CONFIG, &format!("[model]\n{lines}\n"));
    assert_eq!(
        told(Home::on(engine)),
        "model_unavailable no model can be asked: no endpoint is to be used, and the client of this run does not offer its model / \
         the user sets endpoint and name below [model] in config.toml (and no via = \"sampling\"), or uses a client that offers its \
         model (sampling)"
    );
    assert_eq!(
        told(set("via = \"off\"")),
        "denied no model may be asked: model.via is off / the user sets it in config.toml"
    );
    let no_key = "endpoint = \"https://llm.example/v1\"\nname = \"m\"\nkey = \"${env:NO_SUCH_KEY}\"";
    let said = told(set(no_key));
    assert!(
        said.starts_with("model_unavailable no model can be asked: ") && said.contains("NO_SUCH_KEY"),
        "{said}"
    );
    // Nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let said = told(set(&format!("endpoint = \"http://127.0.0.1:{port}/v1\"\nname = \"m\"")));
    let expected =
        format!("model_unavailable the model's endpoint http://127.0.0.1:{port} cannot be reached: ");
    assert!(
        said.starts_with(&expected) && said.contains("nothing was sent; the user starts the service"),
        "{said}"
    );
    // What is wrong with a question is said of it, and nothing is sent.
    let server = ModelServer::open(loud);
    let mut bridge = Bridge::start(&server.set(Home::on(engine))).warm();
    for (question, said) in [
        ("' '", "invalid_arguments the prompt is empty"),
        ("'x', max_tokens=0", "invalid_arguments max_tokens is 0, outside 1 to 1000000"),
        ("'x', temperature=3", "invalid_arguments temperature is 3, outside 0 to 2"),
        ("'x' * 1_100_000", "too_large prompt and context have 1100000 bytes, limit 1024 KiB"),
    ] {
        let told = bridge.ok(&tried(&format!("await runtime.ask_llm({question})")));
        assert!(told.starts_with(said), "{told}");
    }
    assert_eq!(server.requests().len(), 0);
}

fn many_are_asked_in_order_and_no_more_at_once_than_the_host_allows(engine: &Engine) {
    let server = ModelServer::start(|request, out, under_way| {
        under_way.wait_for(3);
        say(out, request, &loud(prompt(request)))
    });
    let home = server.set(Home::on(engine)).env("MCP_BRIDGE_MODEL_CONCURRENCY", "3");
    let mut bridge = Bridge::start(&home).warm();
    let chunks = "chunks = runtime.chunk(' '.join(f'word{n}' for n in range(12)), size=6, overlap=0)";
    let code =
        format!("{chunks}\nprint(*await runtime.map_llm(chunks, 'say {{chunk}}', concurrency=12), sep='|')");
    let expected: Vec<String> = (0..12).map(|n| format!("SAY WORD{n}")).collect();
    let said = bridge.ok(&code);
    let said: Vec<&str> = said.split('|').map(str::trim).collect();
    let joined = said.join("").replace("SAY ", "").replace(' ', "");
    assert_eq!(joined, expected.join("").replace("SAY ", ""), "{said:?}");
    assert_eq!(server.most(), 3);
    assert_eq!(server.requests().len(), said.len());
}

fn budgets_end_requests_and_say_which_they_were(engine: &Engine) {
    let server = ModelServer::open(loud);
    let config = |more: &str| {
        format!("[model]\nendpoint = \"{}\"\nname = \"m\"\nrequests_per_run = 2\n{more}", server.url())
    };
    let home = Home::on(engine).file(CONFIG, &config("requests_per_session = 3\n"));
    let mut bridge = Bridge::start(&home).warm();
    let code = "for a in await runtime.map_llm('abc'.split() + ['d', 'e'], '{chunk}', concurrency=1, on_error='return'):\n  \
                print(getattr(a, 'message', a))";
    let hint = "the user sets budgets below [model] in config.toml";
    assert_eq!(
        bridge.ok(code),
        "ABC\nD\nthe model was not asked: model.requests_per_run: 2 requests are all that a run may make"
    );
    assert_eq!(
        bridge.ok(code),
        "ABC\nthe model was not asked: model.requests_per_session: 3 requests are all that a session may make\n\
         the model was not asked: model.requests_per_session: 3 requests are all that a session may make"
    );
    let said = bridge.ok(&tried("await runtime.ask_llm('x')"));
    assert!(said.starts_with("denied ") && said.contains(hint), "{said}");
    // Raised, it counts from the next run on.
    let home = home.file(CONFIG, &config("requests_per_session = 4\ntokens_per_run = 1050\n"));
    let until = |bridge: &mut Bridge| bridge.ok(&tried("await runtime.ask_llm('x')"));
    let told = until(&mut bridge);
    assert!(told.starts_with("X\n"), "{told}");
    assert_eq!(server.prompts(), ["abc", "d", "abc", "x"]);

    // Tokens: what an answer may take is kept free, and what it did not take is given back.
    drop(bridge);
    drop(home);
    let home = Home::on(engine).file(CONFIG, &config("tokens_per_run = 30\ntokens_per_session = 40\n"));
    let mut bridge = Bridge::start(&home).warm();
    let said = bridge.ok(&tried("await runtime.ask_llm('x y', max_tokens=30)"));
    assert!(
        said.starts_with(
            "denied the model was not asked: model.tokens_per_run: 0 of 30 tokens are used or under way in this run, and this \
             request may take 31"
        ),
        "{said}"
    );
    let words = "print(*[await runtime.ask_llm('a b c d e f g h', max_tokens=10) for _ in range(2)])";
    let twice = "A B C D E F G H A B C D E F G H";
    assert_eq!(bridge.run(words).text.lines().next(), Some(twice));
    let said = bridge.ok(&tried("await runtime.ask_llm('x', max_tokens=10)"));
    assert!(said.contains("model.tokens_per_session: 32 of 40 tokens are used"), "{said}");
}

fn a_job_asks_an_endpoint_at_any_time_within_the_budgets_of_its_run(engine: &Engine) {
    let server = ModelServer::open(loud);
    let config = format!("[model]\nendpoint = \"{}\"\nname = \"m\"\nrequests_per_run = 3\n", server.url());
    let mut bridge = Bridge::start(&Home::on(engine).file(CONFIG, &config)).warm();
    let code = "import asyncio, os\nasync def asks():\n  said = [await runtime.ask_llm('first')]\n  \
                while not os.path.exists('go'): await asyncio.sleep(0.01)\n  \
                for n in range(3):\n    try: said.append(await runtime.ask_llm(f'later {n}'))\n    \
                except runtime.MCPError as error: said.append(error.message)\n  return said\n\
                job = runtime.spawn(asks())";
    bridge.ok(code);
    // Those of another run are not the job's, nor its the other's.
    bridge
        .ok("print(await runtime.ask_llm('a run'), await runtime.ask_llm('a run'))\nopen('go', 'w').close()");
    let reply = bridge.ok("said = await job\nprint(said)\nprint(said[0].model, type(said[0]).__name__)");
    let exhausted = "the model was not asked: model.requests_per_run: 3 requests are all that a run may make";
    let expected = format!("['FIRST', 'LATER 0', 'LATER 1', '{exhausted}']\nsmall-1-2026 LLMAnswer");
    assert!(reply.starts_with(&expected), "{reply}");
}

fn a_job_asks_the_client_only_while_its_run_goes_on(engine: &Engine) {
    let mut bridge = Bridge::start_with(&Home::on(engine), json!({"sampling": {}})).warm();
    let ask = "def ask():\n  import os, time\n  while not os.path.exists('go'): time.sleep(0.01)\n  \
               return runtime.ask_llm_sync('x')\njob = runtime.spawn(ask)";
    bridge.ok(ask);
    let reply = bridge.run("open('go', 'w').close()\nawait job").text;
    let said = "the run that started this job is over, and only during a run can the client's model be asked";
    assert!(reply.contains(said), "{reply}");
    let run = bridge.send_run(json!({"code": "await runtime.spawn(ask)"}));
    let (id, _) = bridge.asked("sampling/createMessage");
    bridge.answer_to(&id, says("fine"));
    let reply = bridge.reply(run).text;
    assert!(reply.starts_with("'fine'"), "{reply}");
}

fn an_endpoint_that_fails_is_said_to_and_asked_again_only_where_that_helps(engine: &Engine) {
    let server = ModelServer::start(|request, out, _| {
        let error = |message: &str| json!({"error": {"message": message}}).to_string();
        match prompt(request) {
            "busy" => reply(out, "429 Too Many Requests", &[("Retry-After", "1")], &error("slow down")),
            "later" => reply(out, "429 Too Many Requests", &[("Retry-After", "7200")], &error("tomorrow")),
            "html" => reply(out, "200 OK", &[], "<html>\u{1b}[2J"),
            "unknown" => reply(out, "404 Not Found", &[], &error("no model small-1")),
            "large" => say(out, request, &"x".repeat(5 << 20)),
            _ => Ok(()),
        }
    });
    let home = server.set(Home::on(engine));
    let mut bridge = Bridge::start(&home).warm();
    let origin = server.url().replace("/v1", "");
    for (prompt, code, expected, requests) in [
        (
            "busy",
            "model_failed",
            "did not answer, asked 4 times: HTTP 429: slow down (it wants to be left alone for 1 s)",
            4,
        ),
        (
            "later",
            "model_failed",
            "did not answer, asked once: HTTP 429: tomorrow (it wants to be left alone for 7200 s)",
            1,
        ),
        ("html", "model_failed", "cannot be understood: its answer is no JSON", 1),
        ("unknown", "model_unavailable", "refuses the request: HTTP 404: no model small-1", 1),
        ("large", "too_large", "answers with more than 4194304 bytes", 1),
        ("gone", "model_failed", "gave no whole answer: ", 1),
    ] {
        let before = server.requests().len();
        let said = bridge.ok(&tried(&format!("await runtime.ask_llm('{prompt}')")));
        let expected = format!("{code} the model's endpoint {origin} {expected}");
        assert!(said.starts_with(&expected), "{said}");
        assert_eq!(server.requests().len() - before, requests, "{prompt}");
    }
}

fn one_that_hangs_ends_with_the_time_that_it_has_or_the_run_or_the_client_s_patience(engine: &Engine) {
    let (gone, has_gone) = channel();
    let server = ModelServer::start(move |request, out, _| {
        if prompt(request) == "say" {
            return say(out, request, "said");
        }
        let end = out.read(&mut [0]);
        gone.send(end.is_ok_and(|bytes| bytes == 0)).unwrap();
        Ok(())
    });
    let hung_up = |what: &str| assert_eq!(has_gone.recv_timeout(PATIENCE), Ok(true), "{what}");
    let home = server.set(Home::on(engine)).env("MCP_BRIDGE_MODEL_TIMEOUT", "2");
    let mut bridge = Bridge::start(&home).warm();
    let said = bridge.ok(&tried("await runtime.ask_llm('hang')"));
    assert!(
        said.starts_with("deadline the model did not answer within the 2 s that it has (model.timeout) / "),
        "{said}"
    );
    hung_up("its time is over");
    drop(bridge);

    let mut bridge = Bridge::start(&server.set(Home::on(engine))).warm();
    let reply = bridge.run_with(json!({"code": "await runtime.ask_llm('hang')", "timeout": 2}));
    assert!(reply.is_error, "{}", reply.text);
    hung_up("the run's time is over");
    // It is the code itself that gives up.
    let code = "import asyncio\ntry:\n  await asyncio.wait_for(runtime.ask_llm('hang'), 1)\nexcept TimeoutError:\n  print('given up')";
    assert_eq!(bridge.ok(code), "given up");
    hung_up("nobody waits for it");
    let run = bridge.send_run(json!({"code": "await runtime.map_llm(['hang'], '{chunk}')"}));
    let is_there = || server.prompts().iter().filter(|prompt| *prompt == "hang").count() == 4;
    crate::support::eventually("the request", PATIENCE, is_there);
    bridge.notify("notifications/cancelled", json!({"requestId": run}));
    hung_up("the client has cancelled the run");
    assert_eq!(bridge.ok("print(await runtime.ask_llm('say'))"), "said");
}

fn rules_decide_on_it_as_on_a_tool(engine: &Engine) {
    let server = ModelServer::open(loud);
    let rule = |decision: &str| {
        let policy =
            format!("[[rule]]\nserver = \"runtime\"\ntool = \"ask_llm\"\ndecision = \"{decision}\"\n");
        server.set(Home::on(engine)).file(".config/belljar/policy.toml", &policy)
    };
    let said = Bridge::start(&rule("deny")).warm().ok(&tried("await runtime.ask_llm('x')"));
    assert!(said.starts_with("denied runtime.ask_llm was not called: rule 1"), "{said}");
    assert_eq!(server.requests().len(), 0);
    let mut bridge = Bridge::start_with(&rule("ask"), json!({"elicitation": {}})).warm();
    for (decision, said) in [("refuse", "denied "), ("allow this call", "X\n")] {
        let run = bridge.send_run(json!({"code": tried("await runtime.ask_llm('x')")}));
        let (id, params) = bridge.asked("elicitation/create");
        let asked = params["message"].as_str().unwrap();
        assert!(asked.contains("runtime.ask_llm") && asked.contains("x"), "{asked}");
        bridge.answer_to(&id, json!({"action": "accept", "content": {"decision": decision}}));
        let text = format!("{}\n", bridge.reply(run).text);
        assert!(text.starts_with(said), "{text}");
    }
    assert_eq!(server.prompts(), ["x"]);
}

fn in_a_dry_run_it_is_listed_and_not_asked(engine: &Engine) {
    let server = ModelServer::open(loud);
    let home = server.set(Home::on(engine));
    let mut bridge = Bridge::start(&home).warm();
    let code = "with runtime.plan() as plan:\n  said = await runtime.ask_llm('of {chunk}')\n  \
                await runtime.map_llm(runtime.chunk(said), 'more')\nprint(plan)";
    let said = bridge.ok(code);
    assert!(
        said.starts_with("plan of a dry run, 2 calls:\n  not made: runtime.ask_llm(prompt='of {chunk}'"),
        "{said}"
    );
    let said = home.run(&["run", "--dry-run", "-c", "x = await runtime.ask_llm('y')"]);
    let listed = "calls that were not made: 1\n  runtime.ask_llm {\"prompt\":\"y\",\"max_tokens\":1024}\n";
    assert!(said.stderr.contains(listed), "{}", said.stderr);
    assert_eq!(server.requests().len(), 0);
}

fn doctor_says_which_model_is_asked_and_asks_it_when_told_to(engine: &Engine) {
    let server = ModelServer::locked(loud);
    let home = server.set_with_key(Home::on(engine));
    let line = |home: &Home, arguments: &[&str]| {
        let said = home.run(arguments).stdout;
        assert!(!said.contains(KEY));
        let mut lines = said.lines().skip_while(|line| !line.starts_with("model "));
        [lines.next().unwrap_or_default().to_owned(), lines.next().unwrap_or_default().to_owned()]
    };
    let origin = server.url().replace("/v1", "");
    let about = format!("model      small-1 at {origin}, with a key");
    assert_eq!(line(&home, &["doctor"])[0], about);
    assert_eq!(server.requests().len(), 0);
    assert_eq!(
        line(&home, &["doctor", "--ask"]),
        [about.clone(), format!("{:10} answers (small-1-2026)", "")]
    );
    let home = home.env("LLM_KEY", "sk-other-canary");
    let [_, answer] = line(&home, &["doctor", "--ask"]);
    assert!(answer.contains("FAILED: ") && answer.contains("refuses the key: HTTP 401"), "{answer}");
    let home = home.env("MCP_BRIDGE_MODEL_VIA", "off");
    assert_eq!(line(&home, &["doctor", "--ask"])[0], "model      none: model.via is off");
}
