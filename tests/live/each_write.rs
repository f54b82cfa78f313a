//! Bridge, container and interpreter killed at each of the bridge's changes of files: what was acknowledged is there and whole,
//! nothing else is, and the next session goes on with it.
//!
//! It runs on one container engine and without one: what is written on the host does not depend on the engine. `make test`
//! kills at some steps of as many kinds as there are, `make each-write` at each step.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::each_write::{Scenario, Steps, chosen, is_one_of, names, printed, short};
use crate::support::processes::{children_of, is_alive, is_stopped};
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    files_of_runs_are_whole_wherever_belljar_is_killed,
    of_files_that_end_with_their_session_nothing_is_left_wherever_belljar_is_killed,
    skills_that_code_keeps_and_removes_are_whole_wherever_belljar_is_killed,
    a_journal_has_all_that_was_acknowledged_wherever_belljar_is_killed,
    a_session_that_is_gone_on_from_stays_whole_wherever_belljar_is_killed,
    files_of_runs_are_whole_whenever_container_or_interpreter_are_killed_while_they_are_kept,
    skills_are_whole_whenever_container_or_interpreter_are_killed_while_they_are_kept,
    a_journal_is_whole_whenever_container_or_interpreter_are_killed_while_it_is_written,
);

const WORKSPACE: &str = "MCPs/workspaces";
const SKILLS: &str = "MCPs/tools";
const SESSIONS: &str = ".local/state/belljar/sessions";

/// Runs one code after the other until belljar is killed; says how many replies have come.
fn acknowledged(home: &Home, codes: &[&str]) -> usize {
    let mut bridge = Bridge::start(home);
    for (done, code) in codes.iter().enumerate() {
        match bridge.run_until_killed(code) {
            Some(reply) => assert!(!reply.is_error, "{code}: {}", reply.text),
            None => {
                bridge.wait(PATIENCE);
                return done;
            }
        }
    }
    bridge.hang_up();
    bridge.wait(PATIENCE);
    codes.len()
}

/// Runs that write files, and what is in the workspace before them and after each.
const WRITES: [&str; 3] = [
    "import os\nos.makedirs('in', exist_ok=True)\nopen('a', 'w').write('1' * 1_500_000)\nopen('in/b', 'w').write('2')\nopen('c', 'w').write('3')",
    "import os\nopen('a', 'w').write('4' * 900_000)\nif os.path.exists('c'): os.remove('c')\nopen('in/b', 'w').write('5' * 9)\nopen('d', 'w').close()",
    "runtime.state['n'] = 6\nimport shutil\nshutil.rmtree('in', ignore_errors=True)\nopen('in', 'w').write('7')",
];
const PATHS: [&str; 6] = ["a", "in/b", "in", "c", "d", ".state.json"];

fn written() -> [Vec<Option<String>>; 4] {
    let text = |of: &str, times: usize| Some(short(of.repeat(times)));
    [
        vec![None; 6],
        vec![text("1", 1_500_000), text("2", 1), None, text("3", 1), None, None],
        vec![text("4", 900_000), text("5", 9), None, None, text("", 1), None],
        vec![text("4", 900_000), None, text("7", 1), None, text("", 1), text("{\"n\": 6}", 1)],
    ]
}

/// What is in the workspace, path by path; a folder is nothing.
fn files(home: &Home) -> Vec<Option<String>> {
    let named = ["files", "--workspace", "sales"];
    let listed = match names(&home.path().join(WORKSPACE).join("sales/files")).is_empty() {
        true => String::new(),
        false => printed(home, &[&named[..], &["ls"]].concat()),
    };
    let kept = |path: &&str| {
        let is_there = listed.lines().any(|line| line.ends_with(&format!("  {path}")));
        is_there.then(|| short(printed(home, &[&named[..], &["get", path, "-"]].concat())))
    };
    PATHS.iter().map(kept).collect()
}

fn with_workspace(engine: &Engine) -> Home {
    Home::on(engine).env("MCP_BRIDGE_WORKSPACE", "sales")
}

/// Each file is as it was acknowledged, or as the run under way has it.
fn is_one_of_each(found: &[Option<String>], done: usize) {
    let states = written();
    for (at, path) in PATHS.iter().enumerate() {
        let of_path: Vec<(&str, Option<String>)> =
            states.iter().map(|state| (*path, state[at].clone())).collect();
        is_one_of(&(*path, found[at].clone()), &of_path, done);
    }
}

/// The same once all has ended; and the next session goes on with it.
fn check_files(home: &Home, done: usize) {
    let found = files(home);
    is_one_of_each(&found, done);
    // The next session has them, and keeps more.
    let mut bridge = Bridge::start(home);
    let read = "import os\nprint([len(open(n).read()) if os.path.isfile(n) else -1 for n in ['a', 'in/b', 'in', 'c', 'd', '.state.json']])";
    let lengths = bridge.first(read);
    let expected: Vec<i64> = found
        .iter()
        .map(|kept| kept.as_ref().map_or(-1, |kept| kept.split_once(' ').unwrap().0.parse().unwrap()))
        .collect();
    assert_eq!(lengths, format!("{expected:?}"));
    bridge.ok("open('next', 'w').write('8')");
    bridge.hang_up();
    bridge.wait(PATIENCE);
    assert_eq!(printed(home, &["files", "--workspace", "sales", "get", "next", "-"]), "8");
    assert_eq!(names(&home.path().join(WORKSPACE)), ["sales"], "no other is left");
    assert_eq!(names(&home.path().join(WORKSPACE).join("sales/incoming")), [""; 0]);
}

fn files_of_runs_are_whole_wherever_belljar_is_killed(engine: &Engine) {
    Scenario {
        name: "files of runs",
        below: &[WORKSPACE],
        home: &|| with_workspace(engine),
        act: &|home| acknowledged(home, &WRITES),
        check: &|home, done| check_files(home, *done),
    }
    .killed_at_some_writes();
}

fn of_files_that_end_with_their_session_nothing_is_left_wherever_belljar_is_killed(engine: &Engine) {
    Scenario {
        name: "files of a session",
        below: &[WORKSPACE],
        home: &|| Home::on(engine),
        act: &|home| acknowledged(home, &["open('a', 'w').write('1')", "open('b', 'w').write('2')"]),
        check: &|home, _| {
            let mut bridge = Bridge::start(home);
            assert_eq!(bridge.first("import os\nopen('c', 'w').write('3')\nos.listdir()"), "['c']");
            assert_eq!(names(&home.path().join(WORKSPACE)).len(), 1, "this session's");
            bridge.hang_up();
            bridge.wait(PATIENCE);
            // A bridge whose engine is slow ends before all is removed, and leaves the rest to its guardian.
            eventually("nothing is left", PATIENCE, || names(&home.path().join(WORKSPACE)).is_empty());
        },
    }
    .killed_at_some_writes();
}

/// Runs that save and remove a skill, and what `ls` says of it before them and after each.
const SAVES: [&str; 4] = [
    "def counted():\n    'One.'\n    return 1\nsave_tool(counted)",
    "def counted():\n    'Two.'\n    return 2\nsave_tool(counted)",
    "runtime.skills.rm('counted')",
    "def counted():\n    'Four.'\n    return 4\nsave_tool(counted)",
];
const SAVED: [&str; 5] = [
    "",
    "counted()  # One.; version 1\n",
    "counted()  # Two.; version 2\n",
    "",
    "counted()  # Four.; version 3\n",
];

fn skills_that_code_keeps_and_removes_are_whole_wherever_belljar_is_killed(engine: &Engine) {
    let check = |home: &Home, done: &usize| {
        let listed = home.run(&["skill", "ls"]).stdout;
        is_one_of(&listed.as_str(), &SAVED, *done);
        let history = home.run(&["skill", "history", "counted"]).stdout;
        let kept = names(&home.path().join(SKILLS).join(".history/counted"));
        let whole = kept.iter().filter(|name| name.ends_with(".py")).count();
        assert_eq!(history.lines().count(), whole, "each is whole: {history}");
        assert!(whole >= [0, 1, 2, 2, 3][*done], "{history}");
        let mut bridge = Bridge::start(home);
        if let Some((_, version)) = listed.trim().rsplit_once("version ") {
            let returned = ["1", "2", "4"][version.parse::<usize>().unwrap() - 1];
            assert_eq!(bridge.first("from skills import counted\ncounted()"), returned);
        }
        bridge.ok("def counted():\n    'Nine.'\n    return 9\nsave_tool(counted)");
        assert!(printed(home, &["skill", "ls"]).starts_with("counted()  # Nine.; version "));
        assert_eq!(names(&home.path().join(SKILLS)), [".history", "counted.py"]);
        let kept = names(&home.path().join(SKILLS).join(".history/counted"));
        assert!(kept.iter().all(|name| name.ends_with(".py")), "{kept:?}");
    };
    Scenario {
        name: "skills",
        below: &[SKILLS],
        home: &|| Home::on(engine),
        act: &|home| acknowledged(home, &SAVES),
        check: &check,
    }
    .killed_at_some_writes();
}

/// Runs with calls.
const CALLS: [&str; 3] = [
    "x = (await mcp_one.add(a=20, b=1))['sum']\nprint(x, await mcp_one.echo(text='first'))",
    "print(await mcp_one.echo(text='second'), x)\ny = await mcp_one.add(a=x, b=1)",
    "z = await mcp_one.add(a=x, b=2)\nprint(await mcp_one.echo(text='third'))",
];

/// The whole lines of a journal, by what each tells.
fn records(home: &Home, id: &str) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(home.path().join(SESSIONS).join(id)).unwrap();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines
        .map(|line| {
            let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let (name, told) = record.as_object().unwrap().iter().next().unwrap();
            (name.clone(), told.clone())
        })
        .collect()
}

/// A session's journal has so many runs with all of their calls, and every call that the server has heard of.
fn check_journal(home: &Home, journal: &str, done: usize, heard: &[String]) {
    let records = records(home, journal);
    let told =
        |kind: &'static str| records.iter().filter(move |(name, _)| name == kind).map(|(_, told)| told);
    for run in 1..=done {
        let of_run = |record: &&Value| record["run"] == json!(run);
        let ended = told("end").find(of_run).map(|end| end["outcome"].clone());
        assert_eq!(ended, Some(json!("finished")), "run {run}");
        let code = told("run").find(of_run).map(|run| run["code"].clone());
        assert_eq!(code, Some(json!(CALLS[run - 1])));
        // A call of a run that was made once more has its answer with it.
        let answered =
            told("call").chain(told("answer")).filter(of_run).filter(|told| !told["came"].is_null());
        assert_eq!((told("call").filter(of_run).count(), answered.count()), (2, 2), "run {run}");
    }
    for event in heard.iter().filter_map(|event| event.strip_prefix("call ")) {
        let (tool, arguments) = event.split_once(' ').unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let is_it = |call: &Value| call["tool"] == tool && call["arguments"]["whole"] == arguments;
        assert!(told("call").any(is_it), "{event}");
    }
    let id = journal.trim_end_matches(".jsonl");
    for command in [vec!["session", "show", id], vec!["session", "export", id, "--format", "ipynb"]] {
        let output = home.run(&command);
        assert_eq!(output.code, Some(0), "{command:?}: {}", output.stderr);
        assert!(output.stdout.contains("first") || told("run").count() == 0, "{command:?}: {output:?}");
    }
}

/// What the server has heard since.
fn heard(fixture: &Fixture, before: usize) -> Vec<String> {
    fixture.ledger().split_off(before).into_iter().filter(|event| event.starts_with("call ")).collect()
}

fn a_journal_has_all_that_was_acknowledged_wherever_belljar_is_killed(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let act = |home: &Home| {
        let before = fixture.ledger().len();
        (acknowledged(home, &CALLS), heard(&fixture, before))
    };
    let check = |home: &Home, (done, heard): &(usize, Vec<String>)| {
        let journals = names(&home.path().join(SESSIONS));
        assert!(*done == 0 || journals.len() == 1, "{journals:?}");
        let listed = home.run(&["session", "ls"]);
        assert_eq!(listed.code, Some(0), "{listed:?}");
        assert!(listed.stdout.lines().count() <= 1, "{listed:?}");
        let is_listed = !listed.stdout.is_empty();
        assert!(is_listed || heard.is_empty());
        if is_listed {
            check_journal(home, &journals[0], *done, heard);
        }
        // What was acknowledged is gone on from, without a call.
        let before = fixture.ledger().len();
        if *done > 0 {
            let output = home.run(&["run", "--session", &format!("last:{done}"), "-c", "x"]);
            assert_eq!((output.stdout.as_str(), output.code), ("21.0\n", Some(0)), "{}", output.stderr);
            assert_eq!(self::heard(&fixture, before), [""; 0]);
        } else {
            let output = home.run(&["run", "-c", "await mcp_one.echo(text='next')"]);
            assert_eq!(output.code, Some(0), "{}", output.stderr);
        }
        assert_eq!(home.run(&["session", "ls"]).stdout.lines().count(), 1 + usize::from(is_listed));
        printed(home, &["session", "rm", "--all"]);
        assert_eq!(names(&home.path().join(SESSIONS)), [""; 0], "also what was only begun");
    };
    Scenario {
        name: "journal",
        below: &[SESSIONS],
        home: &|| Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("one", fixture.entry()),
        act: &act,
        check: &check,
    }
    .killed_at_some_writes();
}

fn a_session_that_is_gone_on_from_stays_whole_wherever_belljar_is_killed(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let with_server = || Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("one", fixture.entry());
    let template = with_server();
    assert_eq!(acknowledged(&template, &CALLS[..2]), 2);
    let journal = names(&template.path().join(SESSIONS)).remove(0);
    let kept = std::fs::read_to_string(template.path().join(SESSIONS).join(&journal)).unwrap();
    let id = journal.trim_end_matches(".jsonl");
    let home = || {
        let home = with_server().file(&format!("{SESSIONS}/{journal}"), &kept);
        std::fs::set_permissions(
            home.path().join(SESSIONS),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .unwrap();
        home.env("MCP_BRIDGE_RESUME", id)
    };
    let codes = ["print(x, y['sum'])", CALLS[2]];
    let act = |home: &Home| {
        let before = fixture.ledger().len();
        (acknowledged(home, &codes), heard(&fixture, before))
    };
    let check = |home: &Home, (done, heard): &(usize, Vec<String>)| {
        assert_eq!(std::fs::read_to_string(home.path().join(SESSIONS).join(&journal)).unwrap(), kept);
        assert!(
            heard.len() <= 2 && heard.iter().all(|call| call.contains("2") || call.contains("third")),
            "{heard:?}"
        );
        for other in names(&home.path().join(SESSIONS)).iter().filter(|name| **name != journal) {
            if *done > 0 {
                check_journal(home, other, 2, heard);
            }
        }
        // The same once more.
        let before = fixture.ledger().len();
        let mut bridge = Bridge::start(home);
        assert_eq!(bridge.first(codes[0]).lines().next(), Some("21.0 22.0"));
        assert_eq!(self::heard(&fixture, before), [""; 0]);
        bridge.hang_up();
        bridge.wait(PATIENCE);
    };
    Scenario { name: "going on", below: &[SESSIONS], home: &home, act: &act, check: &check }
        .killed_at_some_writes();
}

/// What a reply says of files that the sandbox could not tell of any more.
const NOT_KEPT: &str = "note: what was changed last in /workspace is not kept: the sandbox ended";

/// Runs of which something else than the bridge is killed, and what has to hold.
struct Standing<'s> {
    /// The folders of the home that count.
    below: &'static [&'static str],
    home: &'s dyn Fn() -> Home,
    codes: &'s [&'s str],
    /// What there is when so many have been acknowledged.
    acknowledged: &'s dyn Fn(&Home, usize),
    /// What there may be when one more has failed, so that it is made again.
    failed: &'s dyn Fn(&Home, usize),
    /// All have ended.
    ended: &'s dyn Fn(&Home),
}

impl Standing<'_> {
    /// Makes the runs, and has something killed while the bridge stands still at the step; each run that fails by it is made
    /// again.
    fn made_although(&self, home: &Home, steps: &Steps, number: usize, kill: impl Fn(&Bridge)) -> bool {
        let mut bridge = Bridge::start(home);
        let (mut is_killed, mut failed) = (false, 0);
        for (done, code) in self.codes.iter().enumerate() {
            loop {
                let id = bridge.send_run(json!({"code": code}));
                let mut reply = None;
                eventually("the reply, or the step", PATIENCE, || {
                    reply = bridge.reply_by_now(id);
                    reply.is_some() || (!is_killed && steps.has_come_to(number) && is_stopped(bridge.pid()))
                });
                if reply.is_none() {
                    kill(&bridge);
                    is_killed = true;
                    bridge.signal(Signal::SIGCONT);
                }
                let reply = reply.unwrap_or_else(|| bridge.reply(id));
                if !reply.is_error && !reply.text.contains(NOT_KEPT) {
                    (self.acknowledged)(home, done + 1);
                    break;
                }
                failed += 1;
                // The one that was under way, and the next one if the sandbox is found to be gone only then.
                assert!(is_killed && failed <= 2, "{code}: {}", reply.text);
                (self.failed)(home, done);
            }
        }
        bridge.hang_up();
        eventually("the program's end", PATIENCE, || {
            // It may come to the step as it ends.
            if is_stopped(bridge.pid()) {
                bridge.signal(Signal::SIGCONT);
            }
            !is_alive(bridge.pid())
        });
        is_killed
    }

    fn killed_while_the_bridge_stands_still(
        &self,
        name: &str,
        kill: impl Fn(&Engine, &Home, &Bridge),
        engine: &Engine,
    ) {
        let steps = Steps::below(self.below);
        let home = steps.counted((self.home)(), None);
        assert_eq!(acknowledged(&home, self.codes), self.codes.len());
        let made = steps.made();
        let mut kills = 0;
        for number in chosen(&made) {
            let home = steps.counted((self.home)(), Some((number, Signal::SIGSTOP)));
            println!("{name} is killed at {number}, {}", made[number - 1]);
            kills +=
                usize::from(self.made_although(&home, &steps, number, |bridge| kill(engine, &home, bridge)));
            (self.ended)(&Steps::uncounted(home));
        }
        println!("{}: {name}: {kills} kills at {} steps", engine.name, made.len());
        // The first ones come before there is a sandbox, and the last ones may come when all is done.
        assert!(kills >= chosen(&made).len() / 2, "{kills}");
    }

    /// Both that may be killed.
    fn hold(&self, engine: &Engine) {
        self.killed_while_the_bridge_stands_still("the container", kill_container, engine);
        self.killed_while_the_bridge_stands_still("the interpreter", kill_interpreter, engine);
    }
}

fn kill_container(engine: &Engine, home: &Home, _bridge: &Bridge) {
    engine.containers_of(&home.owners()).iter().for_each(|id| engine.kill_container(id));
}

fn kill_interpreter(engine: &Engine, home: &Home, _bridge: &Bridge) {
    for id in engine.containers_of(&home.owners()) {
        let Some(supervisor) = engine.inspect_container(&id)["State"]["Pid"].as_i64() else { continue };
        for worker in children_of(i32::try_from(supervisor).unwrap()).collect::<Vec<_>>() {
            // It may have ended by itself.
            let _gone_or_killed = kill(Pid::from_raw(worker), Signal::SIGKILL);
        }
    }
}

fn files_of_runs_are_whole_whenever_container_or_interpreter_are_killed_while_they_are_kept(engine: &Engine) {
    Standing {
        below: &[WORKSPACE],
        home: &|| with_workspace(engine),
        codes: &WRITES,
        acknowledged: &|home, done| assert_eq!(files(home), written()[done]),
        failed: &|home, done| is_one_of_each(&files(home), done),
        ended: &|home| check_files(home, WRITES.len()),
    }
    .hold(engine);
}

fn skills_are_whole_whenever_container_or_interpreter_are_killed_while_they_are_kept(engine: &Engine) {
    // It may have been removed by the time at which its run fails.
    let removes =
        "if any(skill['name'] == 'counted' for skill in runtime.skills): runtime.skills.rm('counted')";
    let codes = [SAVES[0], SAVES[1], removes, SAVES[3]];
    let said = ["", "counted()  # One.", "counted()  # Two.", "", "counted()  # Four."];
    let listed = |home: &Home| {
        let listed = home.run(&["skill", "ls"]).stdout;
        listed.split_once("; version").map_or(listed.as_str(), |(said, _)| said).to_owned()
    };
    Standing {
        below: &[SKILLS],
        home: &|| Home::on(engine),
        codes: &codes,
        acknowledged: &|home, done| assert_eq!(listed(home), said[done]),
        failed: &|home, done| is_one_of(&listed(home).as_str(), &said, done),
        ended: &|home| {
            let mut bridge = Bridge::start(home);
            assert_eq!(bridge.first("from skills import counted\ncounted()"), "4");
            let history = home.run(&["skill", "history", "counted"]).stdout;
            let kept = names(&home.path().join(SKILLS).join(".history/counted"));
            assert!(kept.iter().all(|name| name.ends_with(".py")), "{kept:?}");
            assert_eq!(history.lines().count(), kept.len(), "each is whole: {history}");
        },
    }
    .hold(engine);
}

fn a_journal_is_whole_whenever_container_or_interpreter_are_killed_while_it_is_written(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let codes = ["print(await mcp_one.echo(text='first'))", "1 + 1", "print(await mcp_one.add(a=1, b=2))"];
    let whole = |home: &Home, done: usize| {
        let Some(journal) = names(&home.path().join(SESSIONS)).pop() else { return assert_eq!(done, 0) };
        let records = records(home, &journal);
        let is_finished = |code: &str| {
            let of_code = |(name, told): &&(String, Value)| name == "run" && told["code"] == code;
            records.iter().filter(of_code).any(|(_, run)| {
                let is_its_end = |(name, told): &(String, Value)| name == "end" && told["run"] == run["run"];
                records.iter().any(|one| is_its_end(one) && one.1["outcome"] == "finished")
            })
        };
        assert!(codes[..done].iter().all(|code| is_finished(code)), "{records:#?}");
    };
    Standing {
        below: &[SESSIONS],
        home: &|| Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("one", fixture.entry()),
        codes: &codes,
        acknowledged: &whole,
        failed: &whole,
        ended: &|home| {
            whole(home, codes.len());
            let journal = names(&home.path().join(SESSIONS)).remove(0);
            let calls = records(home, &journal).into_iter().filter(|(name, _)| name == "call").count();
            assert!(calls >= 2, "{calls}");
            let shown = home.run(&["session", "show", "last"]);
            assert!(shown.code == Some(0) && shown.stderr.is_empty(), "{shown:?}");
        },
    }
    .hold(engine);
}
