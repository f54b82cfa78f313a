//! What a session has run is kept, shown, written as a notebook, and run once more without asking a server.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::home::Output;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    a_session_is_listed_shown_exported_and_run_once_more_without_a_server,
    a_call_that_was_not_made_stops_a_replay_and_says_what_differs,
    code_that_was_refused_before_it_ran_stands_in_the_way_of_no_replay,
    concurrent_calls_have_each_their_own_answer_in_whatever_order_they_come,
    a_live_replay_asks_the_servers_and_says_what_comes_otherwise,
    interpreters_begin_afresh_where_they_did,
    without_results_a_replay_says_which_setting_keeps_them,
    failures_and_calls_that_were_given_up_come_again,
    no_secret_of_a_server_is_in_a_journal,
    a_call_that_was_under_way_when_belljar_was_killed_is_named_and_not_made_again,
    whenever_belljar_is_killed_its_journal_has_all_that_was_acknowledged,
    a_lost_container_or_interpreter_leaves_a_whole_journal,
    a_session_goes_on_from_one_that_was_killed_and_makes_no_call_again,
    who_cancels_while_earlier_runs_are_made_once_more_can_try_again,
    a_session_that_cannot_be_resumed_says_why_and_runs_nothing,
    what_servers_said_in_an_earlier_session_counts_for_labels_in_the_next,
    a_name_that_was_unknown_keeps_no_session_from_being_replayed,
    code_resumes_the_last_session_that_is_not_in_use,
    a_replay_names_its_run_on_a_terminal,
    a_session_whose_results_are_not_kept_is_not_resumed_and_variables_stay,
    a_session_is_resumed_with_what_a_journal_of_calls_has,
    a_session_is_not_resumed_where_its_runs_would_write_to_the_users_folders_again,
);

/// A home whose sessions are kept in full, with the fixture server `one`.
fn home(engine: &Engine, fixture: &Fixture) -> Home {
    Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("one", fixture.entry())
}

fn journals(home: &Home) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(home.path().join(".local/state/belljar/sessions")) else {
        return vec![];
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The lines of the only journal, by what each tells.
fn records(home: &Home) -> Vec<(String, Value)> {
    let journals = journals(home);
    assert_eq!(journals.len(), 1, "{journals:?}");
    let text = std::fs::read_to_string(&journals[0]).unwrap();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines
        .map(|line| {
            let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let (name, told) = record.as_object().unwrap().iter().next().unwrap();
            (name.clone(), told.clone())
        })
        .collect()
}

fn told<'r>(records: &'r [(String, Value)], kind: &'static str) -> impl Iterator<Item = &'r Value> {
    records.iter().filter(move |(name, _)| name == kind).map(|(_, told)| told)
}

fn end(bridge: &mut Bridge) {
    bridge.hang_up();
    bridge.wait(PATIENCE);
}

/// Runs these in one session, whatever comes of them.
fn session(home: &Home, codes: &[&str]) {
    let mut bridge = Bridge::start(home);
    codes.iter().for_each(|code| drop(bridge.run(code)));
    end(&mut bridge);
}

fn replay(home: &Home, further: &[&str]) -> Output {
    home.run(&[&["session", "replay", "last"], further].concat())
}

fn a_replay_names_its_run_on_a_terminal(engine: &Engine) {
    let home = Home::on(engine);
    session(&home, &["import time\ntime.sleep(2.5)"]);
    let shown = home.on_terminal(&["session", "replay", "last"], &[("TERM", "xterm")]);
    assert!(
        shown.contains(" replaying run 1 of 1 ") && shown.contains("\u{1b}[2Krun 1: same\n"),
        "{shown:?}"
    );
    let piped = replay(&home, &[]);
    assert!(piped.stdout == "run 1: same\n" && !piped.stderr.contains("replaying"), "{piped:?}");
}

fn code_resumes_the_last_session_that_is_not_in_use(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    session(&home, &["x = 20", "y = await mcp_one.add(a=x, b=1)"]);
    let calls = fixture.ledger();
    let mut other = Bridge::start(&home);
    other.ok("x = 'of the other one'");
    let mut bridge = Bridge::start(&home);
    bridge.ok("x = 'own'");
    let listed = home.run(&["session", "ls", "--json"]).stdout;
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let in_use = listed.iter().find(|session| session["in_use"] == true).unwrap()["id"].as_str().unwrap();
    let refused = bridge.run(&format!("runtime.resume('{in_use}')")).text;
    assert!(refused.contains(" is in use") && refused.ends_with("state: variables kept"), "{refused}");
    // The session's own name does not name an earlier session. It leads back to an earlier run.
    let open = listed.iter().filter(|session| session["in_use"] == true);
    let own = open.map(|session| session["id"].as_str().unwrap()).find(|id| *id != in_use).unwrap();
    let refused = bridge.run(&format!("runtime.resume('{own}')")).text;
    assert!(refused.contains(" is this one, and its variables are here; "), "{refused}");
    let back = bridge.ok(&format!("x = 'later'\nruntime.resume('{own}:1')"));
    assert!(
        back.contains("variables are as after run 1 of this session: 1 run was made once more"),
        "{back}"
    );
    assert_eq!(bridge.ok("x"), "'own'");
    let resumed = bridge.ok("runtime.resume()\nprint('never reached')");
    assert!(
        resumed.ends_with("2 runs of it were made once more, with calls answered from its journal"),
        "{resumed}"
    );
    assert_eq!(bridge.ok("(x, y['sum'])"), "(20, 21.0)");
    let missing = bridge.run("del x\nx").text;
    assert!(missing.ends_with("state: variables kept"), "it is resumed already: {missing}");
    bridge.ok("x = 20");
    assert_eq!(fixture.ledger(), calls, "no call was made again");
    // What goes wrong behind it leaves all as it is, and so does a job.
    assert!(bridge.run("x = 3\ntry: runtime.resume()\nfinally: 1 / 0").text.contains("ZeroDivisionError"));
    assert_eq!(bridge.ok("x"), "3");
    let job = bridge.run("await runtime.spawn(runtime.resume)").text;
    assert!(job.contains("a job cannot resume one, a run can"), "{job}");
    // The session can itself be made again.
    end(&mut bridge);
    end(&mut other);
    let replayed = replay(&home, &[]);
    assert!(!replayed.stdout.contains("stopped"), "{}", replayed.stdout);
}

fn a_session_whose_results_are_not_kept_is_not_resumed_and_variables_stay(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("one", fixture.entry());
    session(&home, &["y = await mcp_one.add(a=20, b=1)"]);
    let mut bridge = Bridge::start(&home);
    bridge.ok("x = 'own'");
    let missing = bridge.run("y").text;
    assert!(
        missing.contains("\nstate: new session: variables of earlier ones are gone\nnote: its variables"),
        "{missing}"
    );
    for said in
        ["cannot be made again (run 1: one.add was", "saved functions are here", "runtime.state are not"]
    {
        assert!(missing.contains(said), "{missing}");
    }
    let refused = bridge.run("runtime.resume()").text;
    assert!(refused.contains(" cannot be resumed: ") && refused.contains("one.add"), "{refused}");
    assert!(refused.contains("variables are as before"), "{refused}");
    assert_eq!(bridge.ok("x"), "'own'");
}

fn a_session_is_resumed_with_what_a_journal_of_calls_has(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("one", fixture.entry());
    session(
        &home,
        &[
            "manual = runtime.capability_summary()\nfound = runtime.search_tool_docs('add')\n\
             docs = runtime.query_tool_docs('one', 'add')\nx = 20",
            "def double(n): return 2 * n\nruntime.save_tool(double, test='assert double(1) == 2')\n\
             job = runtime.spawn(double, 4)\nwords = job.status",
            "y = await mcp_one.add(a=x, b=1)",
            "z = double(x)",
        ],
    );
    let calls = fixture.ledger();
    let mut bridge = Bridge::start(&home);
    let missing = bridge.run("x").text;
    let way = "runtime.resume(\"last\") makes the last session's variables again, but not those of run 3: one.add was";
    assert!(missing.contains(way), "{missing}");
    let resumed = bridge.ok("runtime.resume()");
    assert!(resumed.contains("; run 3 was left out: one.add was answered with"), "{resumed}");
    assert_eq!(bridge.ok("z, words in ('running', 'finished')"), "(40, True)");
    assert_eq!(
        bridge.ok("x, len(manual) > 2000, len(found) > 0, docs['toolAlias']"),
        "(20, True, True, 'add')"
    );
    assert!(bridge.run("y").text.contains("NameError"));
    assert_eq!(fixture.ledger(), calls, "no call was made again");
    let refused = bridge.ok("import time\njobs = [runtime.spawn(time.sleep, 60) for _ in range(4)]\n\
         try: runtime.spawn(time.sleep, 60)\nexcept runtime.MCPError as error: print(error)");
    assert!(refused.contains("no more than 4 may run at once, and these go on: "), "{refused}");
    assert_eq!(bridge.ok("[job.status for job in jobs]"), "['running', 'running', 'running', 'running']");
}

fn a_session_is_listed_shown_exported_and_run_once_more_without_a_server(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    session(
        &home,
        &[
            "from mcp import runtime\nfound = runtime.search_tool_docs_sync('add')\nx = 20",
            "y = await mcp_one.add(a=x, b=1)\nprint(y)\ny",
            "print('\\x1b[2Jdone')\n1 / 0",
        ],
    );
    let (calls, pids) = (fixture.ledger(), fixture.pids());

    let listed = home.run(&["session", "ls"]).stdout;
    assert!(listed.contains("  3 runs, 1 call, test, "), "{listed}");
    let listed: Value = serde_json::from_str(&home.run(&["session", "ls", "--json"]).stdout).unwrap();
    assert_eq!((&listed["runs"], &listed["calls"], &listed["in_use"]), (&json!(3), &json!(1), &json!(false)));
    let log = home.run(&["log", "--json"]).stdout;
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_runs = lines.filter(|entry| entry["kind"] == "run").map(|run| run["calls"].as_u64().unwrap());
    assert_eq!(of_runs.sum::<u64>(), 1, "{log}");
    let id = listed["id"].as_str().unwrap();

    let shown = home.run(&["session", "show", &id[..6]]).stdout;
    for line in [
        "  client test",
        "    y = await mcp_one.add(a=x, b=1)",
        "  call one.add {\"a\":20,\"b\":1}: answered, ",
        "  | {'sum': 21.0}",
        "  | \\x1b[2Jdone",
        "  ! ZeroDivisionError: division by zero",
        "  raised, ",
    ] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line:?} in {shown}");
    }
    let third = home.run(&["session", "show", "last", "--run", "3"]).stdout;
    assert!(third.contains("\nrun 3, ") && !third.contains("run 2"), "{third}");

    let script = home.run(&["session", "export", "last"]).stdout;
    assert!(
        script.contains("# %% run 3: raised ZeroDivisionError\nprint('\\x1b[2Jdone')\n1 / 0\n"),
        "{script}"
    );
    let to = home.path().join("session.ipynb");
    let export = ["session", "export", "last", "--format", "ipynb", "-o", to.to_str().unwrap()];
    assert_eq!(home.run(&export).code, Some(0));
    let notebook: Value = serde_json::from_str(&std::fs::read_to_string(&to).unwrap()).unwrap();
    assert_eq!(notebook["cells"][2]["outputs"][1]["data"]["text/plain"], "{'sum': 21.0}");
    assert_eq!(home.run(&export).code, Some(1), "nothing is overwritten");

    let replayed = replay(&home, &[]);
    assert_eq!(replayed.stdout, "run 1: same\nrun 2: same\nrun 3: same\n", "{}", replayed.stderr);
    assert_eq!(replayed.code, Some(0));
    assert_eq!(replay(&home, &["--until", "2"]).stdout, "run 1: same\nrun 2: same\n");
    assert_eq!((fixture.ledger(), fixture.pids()), (calls, pids), "no server was started or asked");
    assert_eq!(journals(&home).len(), 1, "a replay leaves no journal");
    // Neither a server nor its entry is needed.
    let home = home.file("MCPs/servers.json", "{}");
    assert_eq!(replay(&home, &[]).code, Some(0));

    assert_eq!(home.run(&["session", "rm", id]).stdout, "1 removed\n");
    assert_eq!(journals(&home), [""; 0].map(PathBuf::from));
}

fn a_call_that_was_not_made_stops_a_replay_and_says_what_differs(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    let code = "import random\nn = random.random()\n\
                try:\n    print(await mcp_one.add(a=1, b=n))\nexcept Exception as error:\n    print(error)\n\
                print(await mcp_one.echo(text='after'))";
    session(&home, &["x = 1", code, "x = 2"]);
    let calls = fixture.ledger();
    let replayed = replay(&home, &[]);
    let lines: Vec<&str> = replayed.stdout.lines().collect();
    assert_eq!(&lines[..3], ["run 1: same", "run 2: stopped", "  one.add is called with other arguments"]);
    assert!(lines[3].starts_with("    now:  {\"a\":1,\"b\":0."), "{lines:?}");
    assert!(lines[4].starts_with("    then: {\"a\":1,\"b\":0."), "{lines:?}");
    assert!(lines[5].starts_with("    b: 0.") && lines[5].ends_with(" then"), "{lines:?}");
    assert_eq!((lines.len(), replayed.code), (6, Some(3)), "{}", replayed.stdout);
    assert_eq!(fixture.ledger(), calls, "nothing reached the server");
    let json: Vec<Value> =
        replay(&home, &["--json"]).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((json.len(), &json[1]["came"]), (2, &json!("stopped")));
}

fn code_that_was_refused_before_it_ran_stands_in_the_way_of_no_replay(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture).env("MCP_BRIDGE_JOURNAL", "calls");
    session(&home, &["x = 1", "await mcp_one.ecko(text=x)", "print(x)"]);
    let replayed = replay(&home, &[]);
    let expected = "run 1: same\nrun 2: same\nrun 3: same\n";
    assert_eq!((replayed.stdout.as_str(), replayed.code), (expected, Some(0)), "{}", replayed.stderr);
}

fn concurrent_calls_have_each_their_own_answer_in_whatever_order_they_come(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    let code = "import asyncio, random\nnames = [str(n) for n in range(20)] + ['twice', 'twice']\nrandom.shuffle(names)\n\
                answers = await asyncio.gather(*(mcp_one.echo(text=name) for name in names))\n\
                print(answers == [int(name) if name.isdigit() else name for name in names] or answers == names)";
    session(&home, &[code]);
    let calls = fixture.ledger().len();
    let replayed = replay(&home, &[]);
    assert_eq!((replayed.stdout.as_str(), fixture.ledger().len()), ("run 1: same\n", calls));
}

fn a_live_replay_asks_the_servers_and_says_what_comes_otherwise(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    session(&home, &["print(await mcp_one.echo(text='same'))", "pid = await mcp_one.pid()\nNone"]);
    let calls = fixture.ledger().len();
    let replayed = replay(&home, &["--record", "live"]);
    let lines: Vec<&str> = replayed.stdout.lines().collect();
    assert_eq!(
        &lines[..3],
        ["run 1: same", "run 2: differs", "  one.pid answers otherwise"],
        "{}",
        replayed.stderr
    );
    assert_eq!(replayed.code, Some(1));
    assert_eq!(fixture.ledger().iter().filter(|event| event.starts_with("call pid")).count(), 2);
    assert!(fixture.ledger().len() > calls);
    assert_eq!(replay(&home, &[]).code, Some(0), "what is kept is as it was");
}

fn interpreters_begin_afresh_where_they_did(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    let mut bridge = Bridge::start(&home);
    let seen = "print('x' in globals())\nx = 1";
    bridge.run(seen);
    bridge.run(seen);
    bridge.run_with(json!({"code": seen, "reset": true}));
    bridge.run("import os\nos._exit(3)");
    bridge.run(seen);
    engine.remove_container(&engine.containers_of(&home.owners())[0]);
    bridge.says("went away");
    bridge.run(seen);
    end(&mut bridge);
    let said: Vec<String> = records(&home)
        .into_iter()
        .filter(|(name, _)| name == "end")
        .map(|(_, end)| end["output"][0]["text"].as_str().unwrap_or("-").to_owned())
        .collect();
    assert_eq!(said, ["False\n", "True\n", "False\n", "-", "True\n", "False\n"]);
    let replayed = replay(&home, &[]);
    assert_eq!(
        (replayed.stdout.matches(": same").count(), replayed.code),
        (6, Some(0)),
        "{}",
        replayed.stdout
    );
}

fn without_results_a_replay_says_which_setting_keeps_them(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture).without_env("MCP_BRIDGE_JOURNAL");
    session(&home, &["word = 'words of the call'", "print(len(await mcp_one.echo(text=word)))"]);
    let records = records(&home);
    let of_calls: Vec<&Value> = told(&records, "call").chain(told(&records, "answer")).collect();
    assert_eq!((of_calls.len(), of_calls[0]["arguments"]["left_out"]["bytes"].as_u64()), (2, Some(28)));
    assert!(!of_calls.iter().any(|told| told.to_string().contains("words")), "{of_calls:?}");
    let replayed = replay(&home, &[]);
    assert!(
        replayed.stdout.starts_with("run 1: same\nrun 2: stopped\n  one.echo was answered with "),
        "{replayed:?}"
    );
    assert!(replayed.stdout.contains("MCP_BRIDGE_JOURNAL=full"), "{replayed:?}");
    assert_eq!(replayed.code, Some(3));
    // The session is resumed with what its journal has.
    let resumed = home.run(&["run", "--session", "last", "-c", "print(word)"]);
    assert_eq!((resumed.code, &*resumed.stdout), (Some(0), "words of the call\n"), "{}", resumed.stderr);
    assert!(
        resumed.stderr.contains("; run 2 was left out: one.echo was answered with"),
        "{}",
        resumed.stderr
    );
    assert!(resumed.stderr.contains("MCP_BRIDGE_JOURNAL=full"), "{}", resumed.stderr);
    let kept = journals(&home).len();
    let home = home.env("MCP_BRIDGE_JOURNAL", "off");
    session(&home, &["1"]);
    assert_eq!(journals(&home).len(), kept);
}

fn failures_and_calls_that_were_given_up_come_again(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    let mut bridge = Bridge::start(&home);
    bridge.run("try:\n    await mcp_one.fail(message='no')\nexcept Exception as error:\n    print(type(error).__name__, error)");
    bridge.run("await mcp_one.refuse()");
    bridge.run("await mcp_one.no_such_tool()");
    bridge.run("import asyncio\ntry:\n    await asyncio.wait_for(mcp_one.hang(), 0.3)\nexcept TimeoutError:\n    print('late')");
    bridge.run_with(json!({"code": "kept = 1\nawait mcp_one.hang()", "timeout": 1}));
    bridge.run("print(kept, runtime.list_servers_sync(), len(runtime.list_tools_sync('one')) > 3)");
    end(&mut bridge);
    let calls = fixture.ledger();
    let replayed = replay(&home, &[]);
    let same: String = (1..=6).map(|run| format!("run {run}: same\n")).collect();
    assert_eq!((replayed.stdout, replayed.code), (same, Some(0)));
    assert_eq!(fixture.ledger(), calls);
}

fn no_secret_of_a_server_is_in_a_journal(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let canary = ["canary", "7f3a", "token", "0123456789"].join("-");
    let mut entry = fixture.entry();
    entry["env"]["API_TOKEN"] = json!("${FIXTURE_TOKEN}");
    let home =
        Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").env("FIXTURE_TOKEN", &canary).server("one", entry);
    let code = format!(
        "word = '{canary}'\nprint(word)\nprint(await mcp_one.echo(text=word))\n\
         for tool, arguments in (('add', {{'a': word, 'b': 1}}), (word, {{}})):\n  try:\n    \
         await runtime.call_tool('one', tool, arguments)\n  except runtime.MCPError:\n    pass\nraise ValueError(word)"
    );
    session(&home, &[&code]);
    let text = std::fs::read_to_string(&journals(&home)[0]).unwrap();
    assert!(!text.contains("7f3a") && text.matches("[API_TOKEN]").count() >= 6, "{text}");
    let logged = std::fs::read_to_string(home.path().join(".local/state/belljar/audit.jsonl")).unwrap();
    assert!(!logged.contains("7f3a") && logged.contains("[API_TOKEN]"), "{logged}");
}

fn a_call_that_was_under_way_when_belljar_was_killed_is_named_and_not_made_again(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    let mut bridge = Bridge::start(&home);
    bridge.run("x = await mcp_one.echo(text='before')");
    bridge.send_run(json!({"code": "await mcp_one.echo(text='answered')\nawait mcp_one.hang()"}));
    let is_under_way = || fixture.ledger().iter().any(|event| event.starts_with("call hang"));
    eventually("the call is under way", PATIENCE, is_under_way);
    bridge.signal(Signal::SIGKILL);
    bridge.wait(PATIENCE);
    let calls = fixture.ledger();
    let shown = home.run(&["session", "show", "last", "--run", "2"]).stdout;
    assert!(shown.contains("call one.hang {}: no answer: it may have been made"), "{shown}");
    assert!(shown.contains("not ended: the session ended before"), "{shown}");
    let replayed = replay(&home, &[]);
    assert_eq!(
        replayed.stdout,
        "run 1: same\nrun 2: stopped\n  the session ended before it did, with calls that had no answer, and may have been \
         made:\n    one.hang {}: no answer: it may have been made\n"
    );
    assert_eq!((replayed.code, fixture.ledger()), (Some(3), calls));
}

fn whenever_belljar_is_killed_its_journal_has_all_that_was_acknowledged(engine: &Engine) {
    const ROUNDS: u32 = 6;
    for round in 0..ROUNDS {
        let fixture = Fixture::new(&[]);
        let home = home(engine, &fixture);
        let mut bridge = Bridge::start(&home).warm();
        bridge.ok("await mcp_one.echo(text='warm')");
        let send = |bridge: &mut Bridge, number: u32| {
            let code = format!(
                "print({number})\nfor n in range(20): await mcp_one.echo(text=f'{number}-{{n}}')\nprint('x' * 5_000)"
            );
            bridge.send_run(json!({"code": code}))
        };
        let sent: Vec<i64> = (0..12).map(|number| send(&mut bridge, number)).collect();
        std::thread::park_timeout(Duration::from_millis(20 + 37 * u64::from(round)));
        bridge.signal(Signal::SIGKILL);
        bridge.wait(PATIENCE);
        let mut acknowledged = vec![];
        while let Ok((_, message)) = bridge.next(PATIENCE) {
            let id = message["id"].as_i64().unwrap_or(-1);
            acknowledged.extend(sent.iter().position(|sent| *sent == id && message.get("result").is_some()));
        }
        let records = records(&home);
        let told = |kind: &'static str| told(&records, kind);
        for number in acknowledged {
            let run = told("run")
                .find(|run| run["code"].as_str().unwrap().starts_with(&format!("print({number})\n")));
            let run = &run.expect("a run that was acknowledged is there")["run"];
            assert!(told("end").any(|end| end["run"] == *run && end["outcome"] == "finished"), "{number}");
            assert_eq!(told("answer").filter(|answer| answer["run"] == *run).count(), 20, "{number}");
        }
        // What reached the server was written down before.
        for event in fixture.ledger().iter().filter_map(|event| event.strip_prefix("call echo ")) {
            let arguments: Value = serde_json::from_str(event).unwrap();
            assert!(told("call").any(|call| call["arguments"]["whole"] == arguments), "{event}");
        }
        let shown = home.run(&["session", "show", "last"]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        let whole = told("end").count();
        let replayed = replay(&home, &[]);
        assert_eq!(replayed.stdout.matches(": same").count(), whole, "{}", replayed.stdout);
        println!("round {round}: {} runs ended, exit {:?}", whole, replayed.code);
    }
}

fn a_lost_container_or_interpreter_leaves_a_whole_journal(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    let mut bridge = Bridge::start(&home).warm();
    for round in 0..3 {
        let reply = bridge.run("import os\nawait mcp_one.echo(text='killed')\nos.kill(os.getpid(), 9)");
        assert!(reply.is_error, "{}", reply.text);
        let begun = fixture.ledger().len();
        let id = bridge.send_run(json!({"code": "while True: await mcp_one.echo(text='again')"}));
        eventually("calls are made", PATIENCE, || fixture.ledger().len() > begun + 3 + round * 5);
        engine.remove_container(&engine.containers_of(&home.owners())[0]);
        assert!(bridge.reply(id).is_error);
        bridge.ok("None");
    }
    end(&mut bridge);
    let records = records(&home);
    let count = |kind: &str| records.iter().filter(|(name, _)| name == kind).count();
    assert_eq!((count("run"), count("end")), (10, 10));
    let lost =
        records.iter().filter(|(name, told)| name == "end" && told["outcome"] == "sandbox_lost").count();
    assert_eq!(lost, 6);
    assert_eq!(home.run(&["session", "show", "last"]).stderr, "");
}

fn a_session_goes_on_from_one_that_was_killed_and_makes_no_call_again(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    let mut bridge = Bridge::start(&home);
    bridge.ok("x = 20\nopen('kept', 'w').write('in a file')");
    bridge.ok("y = await mcp_one.add(a=x, b=1)");
    bridge.signal(Signal::SIGKILL);
    bridge.wait(PATIENCE);
    let (calls, first) = (fixture.ledger(), journals(&home));
    let home = home.env("MCP_BRIDGE_RESUME", "last");
    let mut bridge = Bridge::start(&home);
    let params = json!({"name": "run_python", "arguments": {"code": "print(x, y, open('kept').read())"}, "_meta": {"progressToken": "p"}});
    let asked = bridge.send_request("tools/call", params);
    for progress in ["running earlier run 1 of 2 again", "running earlier run 2 of 2 again", "running"] {
        bridge.message(progress, |message| message["params"]["message"] == progress);
    }
    let reply = bridge.reply(asked).text;
    assert!(reply.starts_with("20 {'sum': 21.0} in a file\n"), "{reply}");
    let note = ": 2 runs of it were made once more, with calls answered from its journal\n";
    assert!(format!("{reply}\n").contains(note), "{reply}");
    assert_eq!(fixture.ledger(), calls, "no call was made again");
    assert_eq!(bridge.ok("print(await mcp_one.echo(text='new'), x)"), "new 20");
    assert!(fixture.ledger().len() > calls.len());
    end(&mut bridge);
    // It has all of it, so the first one is not needed any more.
    std::fs::remove_file(&first[0]).unwrap();
    let shown = home.run(&["session", "show", "last"]).stdout;
    assert!(shown.contains("\n  begins with the runs of ") && shown.contains("\nrun 4, "), "{shown}");
    assert_eq!(replay(&home, &[]).stdout, "run 1: same\nrun 2: same\nrun 3: same\nrun 4: same\n");
    let calls = fixture.ledger();
    let run =
        home.without_env("MCP_BRIDGE_RESUME").run(&["run", "--session", "last:2", "-c", "x + y['sum']"]);
    assert_eq!((run.stdout.as_str(), run.code), ("41.0\n", Some(0)), "{}", run.stderr);
    assert_eq!(fixture.ledger(), calls);
}

fn who_cancels_while_earlier_runs_are_made_once_more_can_try_again(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full");
    let mut bridge = Bridge::start(&home);
    bridge.ok("import time\nx = 1");
    bridge.ok("time.sleep(3)\nx += 1");
    end(&mut bridge);
    let mut bridge = Bridge::start(&home.env("MCP_BRIDGE_RESUME", "last"));
    let run = bridge.send_run(json!({"code": "x"}));
    // While it is made once more, or before: in either case there is no other answer than that it was cancelled.
    std::thread::park_timeout(Duration::from_millis(1_500));
    bridge.notify("notifications/cancelled", json!({"requestId": run}));
    let reply = bridge.ok("x");
    assert!(reply.starts_with("2\n") && reply.contains(": 2 runs of it were made once more"), "{reply}");
}

fn a_session_that_cannot_be_resumed_says_why_and_runs_nothing(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine, &fixture);
    let mut bridge = Bridge::start(&home);
    bridge.run("x = 1");
    bridge.send_run(json!({"code": "await mcp_one.hang()"}));
    let is_under_way = || fixture.ledger().iter().any(|event| event.starts_with("call hang"));
    eventually("the call is under way", PATIENCE, is_under_way);
    let id = journals(&home)[0].file_stem().unwrap().to_str().unwrap().to_owned();
    let in_use = home.run(&["run", "--session", &id, "-c", "x"]);
    assert!(in_use.stderr.contains("is in use") && in_use.code == Some(125), "{in_use:?}");
    bridge.signal(Signal::SIGKILL);
    bridge.wait(PATIENCE);
    let calls = fixture.ledger();
    let home = home.env("MCP_BRIDGE_RESUME", &id);
    let mut bridge = Bridge::start(&home);
    for _ in 0..2 {
        let reply = bridge.run("print('not run')");
        assert!(reply.is_error && !reply.text.contains("not run"), "{}", reply.text);
        for words in [
            "run 2: the session ended before it did",
            "one.hang {}: no answer: it may have been made",
            &format!("{}:1", &id[..8]),
        ] {
            assert!(reply.text.contains(words), "{words:?} in {}", reply.text);
        }
    }
    end(&mut bridge);
    let mut bridge = Bridge::start(&home.env("MCP_BRIDGE_RESUME", &format!("{id}:1")));
    assert_eq!(bridge.first("x"), "1");
    assert_eq!(fixture.ledger(), calls);
}

fn what_servers_said_in_an_earlier_session_counts_for_labels_in_the_next(engine: &Engine) {
    let [mail, chat] = [(); 2].map(|()| Fixture::new(&[]));
    let policy = "[labels]\nprivate = [\"mail\"]\nuntrusted = [\"mail\"]\negress = [\"chat\"]\nwhen_mixed = \"deny\"\n";
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").file(".config/belljar/policy.toml", policy);
    let home = home.server("mail", mail.entry()).server("chat", chat.entry());
    session(&home, &["secret = await mcp_mail.echo(text='of a mail')"]);
    let mut bridge = Bridge::start(&home.env("MCP_BRIDGE_RESUME", "last"));
    let reply = bridge.run("await mcp_chat.echo(text=secret)");
    assert!(reply.is_error && reply.text.contains("private and untrusted data"), "{}", reply.text);
    assert_eq!(chat.ledger(), [""; 0]);
}

fn a_name_that_was_unknown_keeps_no_session_from_being_replayed(engine: &Engine) {
    // As sessions are kept by default.
    let home = Home::on(engine);
    session(&home, &["try:\n  undefined_thing\nexcept NameError:\n  print('caught')"]);
    let replayed = replay(&home, &[]);
    assert_eq!((replayed.code, replayed.stdout.as_str()), (Some(0), "run 1: same\n"), "{}", replayed.stderr);
}

fn a_session_is_not_resumed_where_its_runs_would_write_to_the_users_folders_again(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mount =
        format!("[[mount]]\nhost = \"{}\"\nguest = \"/mnt/w\"\nwritable = true\n", folder.path().display());
    let home = Home::on(engine);
    session(&home, &["x = 1"]);
    let home = home.file(".config/belljar/config.toml", &mount).env("MCP_BRIDGE_RESUME", "last");
    let reply = Bridge::start(&home).run("x");
    assert!(reply.is_error && reply.text.contains("/mnt/w is mounted writable"), "{}", reply.text);
    let home = home.file(".config/belljar/config.toml", &mount.replace("writable = true\n", ""));
    assert_eq!(Bridge::start(&home).first("x"), "1");
}
