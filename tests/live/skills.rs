//! Functions that code keeps: there again in later sessions, and the user's to edit, accept, undo and run.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::home::Output;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    a_kept_function_is_there_in_the_next_session_with_all_that_it_needs,
    a_skill_that_others_can_write_is_not_loaded_and_the_reply_says_so,
    a_place_where_nothing_can_be_kept_costs_the_saving_only,
    a_full_disk_costs_the_saving_only_and_keeps_what_was_saved_before,
    what_was_changed_outside_is_told_and_loaded_once_it_is_accepted,
    what_code_removes_or_replaces_the_user_has_again,
    a_skill_is_run_from_the_shell,
    skills_are_found_with_the_tools,
    of_a_hundred_skills_only_the_one_that_is_used_is_loaded,
);

pub const SAVE: &str = "def twice(x):\n    \"Two times x.\"\n    return 2 * x\nsave_tool(twice)";

/// The command's end, without the notices about the engine.
fn skill(home: &Home, arguments: &[&str]) -> Output {
    let mut output = home.run(&[&["skill"], arguments].concat());
    let is_notice = |line: &&str| {
        line.contains("the container engine is") || line.contains("not enforced by this engine")
    };
    output.stderr =
        output.stderr.lines().filter(|line| !is_notice(line)).map(|line| format!("{line}\n")).collect();
    output
}

fn left(code: i32, stdout: &str, stderr: &str) -> Output {
    Output { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

fn a_kept_function_is_there_in_the_next_session_with_all_that_it_needs(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut first = Bridge::start(&home).warm();
    let said = first.ok(SAVE);
    assert!(said.contains("Tool 'twice' saved as version 1"), "{said}");
    assert!(first.ok(SAVE).contains("kept like this already, as version 1"));
    first.ok("import math\nLIMIT = 3\ndef helper(x): return twice(x) + LIMIT + math.floor(0.5)");
    let saved = first.run("async def big(x, *, loud=False):\n    said = await mcp_fixture.echo(text=str(helper(x)))\n    return said.upper() if loud else said\nsave_tool(big, description='Says it', tags=['demo'], test='assert helper(2) == 7')");
    assert!(!saved.is_error, "{}", saved.text);
    drop(first);
    let mut second = Bridge::start(&home).warm();
    assert_eq!(second.ok("twice(21)"), "42");
    assert_eq!(
        second.ok("from skills import big\nawait big(4, loud=True), 'helper' in globals()"),
        "('11', False)"
    );
    let listed = second.ok("runtime.skills");
    assert_eq!(
        listed,
        "async big(x, *, loud=False)  # Says it; tags: demo; version 1\ntwice(x)  # Two times x.; version 1"
    );
    let shown = second.ok("print(runtime.skills.show('big'))");
    for part in [
        "# servers = [\"fixture\"]\n",
        "# test = \"test_big\"\n",
        "import math\n\nLIMIT = 3\n",
        "def helper(x):",
        "def test_big():",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let folder = home.path().join("MCPs/tools");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("twice.py"))), (0o700, 0o600));
    let elsewhere = Home::on(engine).env("MCP_BRIDGE_STATE_DIR", home.path().join("MCPs").to_str().unwrap());
    assert_eq!(Bridge::start(&elsewhere).warm().ok("twice(4)"), "8");
}

fn a_skill_that_others_can_write_is_not_loaded_and_the_reply_says_so(engine: &Engine) {
    let home = Home::on(engine);
    Bridge::start(&home).warm().ok(SAVE);
    let file = home.path().join("MCPs/tools/twice.py");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    let mut bridge = Bridge::start(&home).warm();
    let reply = bridge.run("twice(21)").text;
    assert!(reply.contains("NameError"), "{reply}");
    let said = "skill 'twice' cannot be used: it must be a plain file of yours that only you can write";
    assert!(reply.contains(said), "{reply}");
    assert!(bridge.run(SAVE).text.contains(said), "nor is it replaced");
}

fn a_place_where_nothing_can_be_kept_costs_the_saving_only(engine: &Engine) {
    let home = Home::on(engine).file("plain", "a file");
    let plain = home.path().join("plain").to_str().unwrap().to_owned();
    // Nobody may make a folder in the first two; the third is a file.
    for place in ["/proc/belljar", "/sys/belljar", &plain] {
        let home = Home::on(engine).env("MCP_BRIDGE_STATE_DIR", place);
        let mut bridge = Bridge::start(&home).warm();
        let refused = bridge.run(SAVE);
        assert!(refused.is_error, "{place}: {}", refused.text);
        assert!(refused.text.contains("the folder of skills cannot be used"), "{place}: {}", refused.text);
        assert_eq!(bridge.ok("twice(21)"), "42", "{place}");
    }
}

fn a_full_disk_costs_the_saving_only_and_keeps_what_was_saved_before(engine: &Engine) {
    let home = Home::on(engine).full_folder("MCPs/tools");
    let mut bridge = Bridge::start(&home).warm();
    let refused = bridge.run(SAVE);
    assert!(refused.is_error && refused.text.contains("No space left on device"), "{}", refused.text);
    assert_eq!(bridge.ok("twice(21)"), "42");
    // As the program sees it.
    let folder = format!("/proc/{}/root{}/MCPs/tools", bridge.pid(), home.path().display());
    let names = || {
        let entries = std::fs::read_dir(&folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != ".history");
        names
    };
    assert_eq!(names(), ["full"], "no half of a file");
    std::fs::remove_file(format!("{folder}/full")).unwrap();
    bridge.ok(SAVE);
    assert_eq!(names(), ["twice.py"]);
    std::fs::write(format!("{folder}/full"), vec![0; 64 * 1024]).expect_err("it is full again");
    assert!(bridge.run(&SAVE.replace("2 * x", "x + x")).is_error);
    assert!(std::fs::read_to_string(format!("{folder}/twice.py")).unwrap().contains("2 * x"));
}

fn what_was_changed_outside_is_told_and_loaded_once_it_is_accepted(engine: &Engine) {
    let home =
        Home::on(engine).file("MCPs/tools/old.py", "def old():\n    'From before.'\n    return 'old'\n");
    Bridge::start(&home).warm().ok(SAVE);
    let file = home.path().join("MCPs/tools/twice.py");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("2 * x", "3 * x")).unwrap();

    let mut bridge = Bridge::start(&home).warm();
    let said = "skill 'twice' is not loaded: its file was changed since belljar wrote it; \
                the user can look at it and accept it: belljar skill trust twice";
    let reply = bridge.run("twice(21)").text;
    assert!(reply.contains("NameError") && reply.contains(&format!("note: {said}")), "{reply}");
    for code in
        ["from skills import twice", SAVE, "runtime.skills.rm('twice')", "runtime.skills.show('twice')"]
    {
        let reply = bridge.run(code);
        assert!(reply.is_error && reply.text.contains(said), "{code}: {}", reply.text);
    }
    assert!(bridge.ok("runtime.skills").contains(said));
    let old = "NOT LOADED: its file has no header of belljar's; belljar skill trust old\n";
    let changed = "NOT LOADED: its file was changed since belljar wrote it; belljar skill trust twice\n";
    assert_eq!(skill(&home, &["ls"]), left(1, &format!("old  {old}twice  {changed}"), ""));

    let trusted = skill(&home, &["trust", "twice"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    assert!(trusted.stdout.contains("-    return 2 * x\n+    return 3 * x\n"), "{}", trusted.stdout);
    assert!(trusted.stdout.ends_with("accepted as version 2: twice\n"), "{}", trusted.stdout);
    // Also by those who met it before.
    assert_eq!(bridge.ok("from skills import twice\ntwice(21)"), "63");
    let trusted = skill(&home, &["trust", "--all"]);
    assert!(trusted.stdout.contains("def old():\n    'From before.'\n"), "{trusted:?}");
    assert_eq!(
        skill(&home, &["ls"]),
        left(0, "old()  # From before.; version 1\ntwice(x)  # Two times x.; version 2\n", "")
    );
    assert_eq!(Bridge::start(&home).warm().ok("old()"), "'old'");
    let again = "belljar: skill 'twice' is as belljar has written it; there is nothing to accept\n";
    assert_eq!(skill(&home, &["trust", "twice"]), left(1, "", again));

    // What is accepted is still not run where an import would do more than define.
    std::fs::write(&file, "print('ran')\ndef twice(x): return x\n").unwrap();
    assert_eq!(skill(&home, &["trust", "twice"]).code, Some(0));
    let reply = Bridge::start(&home).warm().run("from skills import twice").text;
    assert!(reply.contains("line 1 would run at import (no definition): print('ran')"), "{reply}");
    assert!(!reply.starts_with("ran"), "{reply}");
}

fn what_code_removes_or_replaces_the_user_has_again(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(SAVE);
    bridge.ok(&SAVE.replace("2 * x", "'two'"));
    assert_eq!(bridge.ok("[row['version'] for row in runtime.skills.history('twice')]"), "[2, 1]");
    let removed = bridge.ok("runtime.skills.rm('twice')");
    assert!(removed.contains("belljar skill restore twice --version 2"), "{removed}");
    assert_eq!(
        skill(&home, &["ls"]),
        left(0, "", "belljar: no skill is kept yet; code keeps one with save_tool(function)\n")
    );
    let history = skill(&home, &["history", "twice"]).stdout;
    assert!(history.starts_with("version 2, ") && history.lines().count() == 2, "{history}");
    let json = skill(&home, &["history", "twice", "--json"]).stdout;
    let rows: Vec<serde_json::Value> = json.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let about = |row: &serde_json::Value| (row["version"].as_u64(), row["current"].as_bool());
    assert_eq!(
        rows.iter().map(about).collect::<Vec<_>>(),
        [2, 1].map(|version| (Some(version), Some(false)))
    );
    assert!(skill(&home, &["show", "twice", "--version", "1"]).stdout.ends_with("    return 2 * x\n"));
    assert_eq!(
        skill(&home, &["restore", "twice", "--version", "1"]),
        left(0, "twice counts again as version 3\n", "")
    );
    assert_eq!(Bridge::start(&home).warm().ok("twice(21)"), "42");
    assert_eq!(skill(&home, &["rm", "twice", "--purge"]).code, Some(0));
    let gone = skill(&home, &["restore", "twice"]);
    assert_eq!((gone.code, gone.stderr.as_str()), (Some(2), "belljar: there is no skill 'twice'\n"));
}

fn a_skill_is_run_from_the_shell(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let code = "async def weekly(city, *, days=7):\n    'Tells.'\n    if days < 0: raise ValueError('days')\n    said = await mcp_fixture.echo(text=city)\n    return {'city': said, 'days': days}\nsave_tool(weekly)";
    Bridge::start(&home).warm().ok(code);
    let run = |arguments: &[&str]| skill(&home, &[&["run", "weekly"], arguments].concat());
    for (arguments, printed) in [
        (r#"{"city": "Tromsø \"x\""}"#, "{\"city\": \"Tromsø \\\"x\\\"\", \"days\": 7}\n"),
        (r#"["Oslo"]"#, "{\"city\": \"Oslo\", \"days\": 7}\n"),
    ] {
        let done = run(&["--args", arguments]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), printed), "{done:?}");
    }
    let raised = run(&["--args", r#"{"city": "Oslo", "days": -1}"#]);
    assert_eq!((raised.code, raised.stdout.as_str()), (Some(1), ""));
    assert!(raised.stderr.ends_with("ValueError: days\n"), "{}", raised.stderr);
    let dry = run(&["--args", r#"["Oslo"]"#, "--dry-run"]);
    assert!(
        dry.stderr.contains("calls that were not made: 1\n  fixture.echo {\"text\":\"Oslo\"}"),
        "{dry:?}"
    );
    // What cannot succeed is said before anything is started, and with no engine at all.
    let home = home.env("MCP_BRIDGE_RUNTIME", "unix:///nobody/listens");
    for (arguments, said) in [
        (&["run", "wekly"][..], "there is no skill 'wekly'; did you mean 'weekly'?"),
        (&["run", "weekly"], "--args: \"city\" is missing; the signature: async weekly(city, *, days=7)"),
        (
            &["run", "weekly", "--args", "{"],
            "--args: the arguments are no JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            &["run", "weekly", "--args", "[1, 2]"],
            "--args: it takes 1 arguments by place, not 2; the signature: async weekly(city, *, days=7)",
        ),
        (&["run", "9"], "'9' is no name for a skill"),
    ] {
        let refused = skill(&home, arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.starts_with(&format!("belljar: {said}")), "{refused:?}");
    }
    let listed: Value = serde_json::from_str(&skill(&home, &["ls", "--json"]).stdout).unwrap();
    assert_eq!(
        json!([listed[0]["name"], listed[0]["state"], listed[0]["servers"], listed[0]["signature"]]),
        json!(["weekly", "ready", ["fixture"], "async weekly(city, *, days=7)"])
    );
}

fn skills_are_found_with_the_tools(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("async def weekly_sales(region, top=3):\n    'Summarises the turnover of a region.'\nsave_tool(weekly_sales, tags=['finance'])");
    let line = "await skills.weekly_sales(region, top=3)  # Summarises the turnover of a region.";
    for query in ["weekly_sales", "skills.weekly_sales", "turnover", "finance", "region"] {
        let found = bridge.ok(&format!("print(await runtime.search_tool_docs({query:?}))"));
        assert_eq!(found.lines().nth(1), Some(line), "{query}: {found}");
    }
    let count = |bridge: &mut Bridge, query: &str, more: &str| -> u64 {
        bridge.ok(&format!("runtime.search_tool_docs_sync({query:?}{more}).total")).parse().unwrap()
    };
    let all = count(&mut bridge, "", "");
    assert_eq!(count(&mut bridge, "", ", servers='fixture'"), all - 1, "skills are no server's");
    let none = bridge.ok("print(runtime.search_tool_docs_sync('zzzzqqqq'))");
    let searched = format!("{} tools of 1 server and 1 skill searched", all - 1);
    assert!(none.lines().next().unwrap().ends_with(&searched), "{none}");
    let hit =
        bridge.ok("h = runtime.search_tool_docs_sync('turnover')[0]; (h['skill'], h['server'], h['tool'])");
    assert_eq!(hit, "(True, 'skills', 'weekly_sales')");
    bridge.ok("runtime.skills.rm('weekly_sales')");
    assert_eq!(count(&mut bridge, "", ""), all - 1);
}

fn of_a_hundred_skills_only_the_one_that_is_used_is_loaded(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let code = (0..100).map(|n| format!("def skill_{n}(x):\n    return x + {n}\nsave_tool(skill_{n});\n"));
    let saving = bridge.send_run(json!({"code": code.collect::<String>(), "timeout": 110}));
    let reply = bridge.late_reply(saving, Duration::from_secs(120));
    assert!(!reply.is_error, "{}", reply.text);
    drop(bridge);
    let mut bridge = Bridge::start(&home);
    let loaded = "import sys\nprint(sorted(name for name in sys.modules if name.startswith('skills')))";
    assert_eq!(bridge.first(loaded), "[]");
    assert_eq!(bridge.ok("skill_77(1)"), "78");
    assert_eq!(bridge.ok(loaded).trim_end(), "['skills.skill_77']");
    assert_eq!(bridge.ok("len(runtime.skills)"), "100");
}
