//! Searches for tools: of servers that do not run, from bridge to bridge, and what is said of servers that cannot tell.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    what_is_kept_of_servers_and_sessions_is_in_the_folder_that_is_named,
    a_search_reads_as_one_line_for_each_hit_and_pages,
    tools_of_servers_that_do_not_run_are_found_and_again_by_the_next_bridge,
    what_is_kept_is_replaced_when_its_server_lists_something_else,
    a_server_that_is_configured_differently_is_asked_anew,
    kept_files_that_are_broken_are_said_and_made_anew,
    a_word_that_a_helper_does_not_know_is_refused_with_those_that_it_knows,
    servers_that_cannot_tell_are_named_and_hold_up_nothing,
    folders_on_the_command_lines_of_servers_are_named,
    a_first_search_waits_for_servers_that_were_never_asked,
    a_list_of_all_tools_waits_for_no_mute_server_and_says_that_its_tools_are_not_known,
    a_secret_that_a_server_lists_is_not_kept,
    without_a_place_to_keep_anything_tools_are_found_all_the_same,
);

/// What a search prints once no server is being asked any more, however slow the machine is.
fn found(bridge: &mut Bridge, query: &str) -> String {
    bridge.ok(&format!("while (r := runtime.search_tool_docs_sync({query})).indexing: pass\nprint(r)"))
}

/// The files that are kept of the servers' tools.
fn kept(home: &Home) -> Vec<PathBuf> {
    let folder = home.path().join(".cache/belljar/catalog");
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn what_is_kept_of_servers_and_sessions_is_in_the_folder_that_is_named(engine: &Engine) {
    let one = Fixture::new(&[]);
    let home = Home::on(engine).server("one", one.entry()).env("MCP_BRIDGE_STATE_DIR", "~/kept");
    let mut bridge = Bridge::start(&home).warm();
    found(&mut bridge, "'add'");
    let place = home.path().join("kept");
    let files = |folder: &str| std::fs::read_dir(place.join(folder)).map(Iterator::count).unwrap_or_default();
    eventually("the tools are kept", PATIENCE, || files("cache/catalog") == 1);
    assert_eq!((files("sessions"), kept(&home).len()), (1, 0));
    assert_eq!([mode(&place), mode(&place.join("cache/catalog")), mode(&place.join("sessions"))], [0o700; 3]);
    assert!(!home.path().join(".local/state/belljar/sessions").exists());
    let listed = home.run(&["session", "ls"]).stdout;
    assert_eq!(listed.lines().count(), 1, "{listed}");
}

fn a_search_reads_as_one_line_for_each_hit_and_pages(engine: &Engine) {
    let (one, two) = (Fixture::new(&[]), Fixture::new(&[]));
    let home = Home::on(engine).server("one", one.entry()).server("two", two.entry());
    let mut bridge = Bridge::start(&home).warm();
    let text = found(&mut bridge, "'two.add', limit=2");
    let mut lines = text.lines();
    let header = lines.next().unwrap();
    assert!(
        header.starts_with("2 of ") && header.ends_with(" tools for 'two.add'; the next: offset=2"),
        "{text}"
    );
    assert_eq!(lines.next(), Some("mcp_two.add(*, a: float, b: float)  # The fixture's add."));
    assert!(lines.next().unwrap().starts_with("mcp_one.add("), "{text}");
    assert_eq!(lines.next(), None);
    let browsed = found(&mut bridge, "limit=3, offset=15, group_by='server', servers='two'");
    assert_eq!(browsed, "none from 15 on: 15 tools of all");
    let browsed = found(&mut bridge, "limit=3, offset=14, group_by='server'");
    let lines: Vec<&str> = browsed.lines().map(|line| line.split('(').next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "15-17 of 30 tools of all; the next: offset=17",
            "one ",
            "  mcp_one.structured",
            "two ",
            "  mcp_two.add",
            "  mcp_two.big"
        ]
    );
    let refused = bridge.run("runtime.search_tool_docs_sync('x', servers=['tow'])");
    assert!(refused.is_error && refused.text.contains("did you mean 'two'"), "{}", refused.text);
}

fn tools_of_servers_that_do_not_run_are_found_and_again_by_the_next_bridge(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut first = Bridge::start(&home).warm();
    assert_eq!(fixture.pids(), [0; 0]);
    assert!(found(&mut first, "'add two numbers'").contains("mcp_fixture.add("));
    eventually("the server that was only asked ends", PATIENCE, || fixture.living().is_empty());
    assert_eq!(fixture.pids().len(), 1);
    let files = kept(&home);
    let modes: Vec<u32> = files.iter().map(|file| mode(file)).collect();
    assert_eq!((modes, mode(files[0].parent().unwrap())), (vec![0o600], 0o700));
    drop(first);
    let mut second = Bridge::start(&home).warm();
    assert!(found(&mut second, "'add two numbers'").contains("mcp_fixture.add("));
    assert_eq!(second.ok("len(runtime.list_loaded_server_metadata()[0]['tools'])"), "15");
    assert_eq!(fixture.pids().len(), 1, "it was not asked again");
    assert_eq!(second.ok("await mcp_fixture.add(a=1, b=2)"), "{'sum': 3.0}");
    assert_eq!(fixture.pids().len(), 2);
}

fn what_is_kept_is_replaced_when_its_server_lists_something_else(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut first = Bridge::start(&home).warm();
    assert!(!found(&mut first, "'late'").contains("mcp_fixture.late("));
    first.ok("await mcp_fixture.change_list()");
    first.ok("await mcp_fixture.late()");
    assert!(found(&mut first, "'late'").contains("mcp_fixture.late("));
    let holds_late =
        || kept(&home).iter().any(|file| std::fs::read_to_string(file).unwrap().contains("\"late\""));
    eventually("the new list is kept", PATIENCE, holds_late);
    drop(first);
    let started = fixture.pids().len();
    let mut second = Bridge::start(&home).warm();
    assert!(found(&mut second, "'late'").contains("mcp_fixture.late("));
    assert_eq!(fixture.pids().len(), started);
}

fn a_server_that_is_configured_differently_is_asked_anew(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    assert!(found(&mut Bridge::start(&home).warm(), "'late'").contains("15 tools of 1 server"));
    let mut entry = fixture.entry();
    entry["env"] = json!({"MODE": "other"});
    let home = home.server("fixture", entry);
    found(&mut Bridge::start(&home).warm(), "'add'");
    assert_eq!((fixture.pids().len(), kept(&home).len()), (2, 2));
}

fn kept_files_that_are_broken_are_said_and_made_anew(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    found(&mut Bridge::start(&home).warm(), "'add'");
    let file = kept(&home).remove(0);
    std::fs::write(&file, "{\"version\":1,\"tools\":[{\"name\":\"forged").unwrap();
    let mut bridge = Bridge::start(&home).warm();
    let text = found(&mut bridge, "'add'");
    assert!(text.contains("mcp_fixture.add(") && !text.contains("forged"), "{text}");
    bridge.says("a kept list of tools is ignored");
    assert_eq!(fixture.pids().len(), 2);
    eventually("it is kept anew", PATIENCE, || std::fs::read_to_string(&file).unwrap().contains("\"add\""));
}

fn servers_that_cannot_tell_are_named_and_hold_up_nothing(engine: &Engine) {
    let (good, mute) = (Fixture::new(&[]), Fixture::new(&["--never-answer"]));
    let broken = json!({"command": Fixture::program(), "args": ["--crash-at-start"]});
    let home = Home::on(engine)
        .server("good", good.entry())
        .server("mute", mute.entry())
        .server("broken", broken)
        .server("lost", json!({"command": "no-such-command"}));
    let mut bridge = Bridge::start(&home).warm();
    // The mute server is given up after half a minute: a search that waited for it would not end within a run's time.
    let text = found_but_mute(&mut bridge);
    assert!(text.contains("\nmcp_good.add("), "{text}");
    let end = "2 unavailable: \
        broken: did not start: it ended, or closed its end, before it was initialized; its last words: fixture_server: \
        the token is missing; \
        lost: could not be started: its command \"no-such-command\" was not found in PATH (";
    assert!(text.contains(end), "{text}");
    let named = bridge.ok(
        "r = runtime.search_tool_docs_sync('add')\n([row['server'] for row in r.unavailable], r.indexing, r.servers, r.tools)",
    );
    assert_eq!(named, "(['broken', 'lost'], ['mute'], 4, 15)");
    bridge.hang_up();
    bridge.wait(PATIENCE);
    eventually("nothing of the mute server is left", PATIENCE, || mute.living().is_empty());
}

fn a_first_search_waits_for_servers_that_were_never_asked(engine: &Engine) {
    let (fast, slow, mute) = (Fixture::new(&[]), Fixture::new(&[]), Fixture::new(&["--never-answer"]));
    let home = Home::on(engine).server("fast", fast.entry()).server("sqlite", slow.entry_after("sleep 2"));
    let mut bridge = Bridge::start(&home).warm();
    let arguments = json!({"code": "print(runtime.search_tool_docs_sync('sqlite add'))"});
    let meta = json!({"progressToken": "p"});
    let params = json!({"name": "run_python", "arguments": arguments, "_meta": meta});
    let run = bridge.send_request("tools/call", params);
    bridge
        .message("the progress", |message| message["params"]["message"] == "waiting for the tools of sqlite");
    let text = bridge.reply(run).text;
    assert!(text.contains("\nmcp_sqlite.add(") && !text.contains("INCOMPLETE"), "{text}");
    // One that the query does not name holds up nothing for long.
    let cache = home.path().join("empty").to_str().unwrap().to_owned();
    let home = home.server("mute", mute.entry()).env("XDG_CACHE_HOME", &cache);
    let text = Bridge::start(&home).warm().ok("print(runtime.search_tool_docs_sync('sqlite add'))");
    let mut lines = text.lines();
    assert!(lines.next().unwrap().contains(" tools for 'sqlite add' so far"), "{text}");
    let incomplete = "INCOMPLETE: 1 of 3 servers has not answered yet (search again to wait for it; a start may take 30 s): mute";
    assert_eq!(lines.next(), Some(incomplete), "{text}");
    assert!(lines.next().unwrap().starts_with("mcp_sqlite.add("), "{text}");
}

fn folders_on_the_command_lines_of_servers_are_named(engine: &Engine) {
    let fixture = Fixture::new(&["--publishes", "github"]);
    let mut entry = fixture.entry();
    let (program, args) = (entry["command"].take(), entry["args"].take());
    let words: Vec<&str> = args.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let script = format!("exec '{}' {}", program.as_str().unwrap(), words.join(" "));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap().to_owned();
    let option = format!("--file={folder}/none");
    let entry = json!({"command": "sh", "args": ["-c", script, "sh", "--repository", folder, option]});
    let mut bridge = Bridge::start(&Home::on(engine).server("git", entry)).warm();
    let text = bridge.ok("print(runtime.search_tool_docs_sync('get_file_contents', limit=1))");
    assert_eq!(text.lines().last(), Some(&*format!("mcp_git was started with {folder}")), "{text}");
    // No parameter of it is for a path.
    let text = bridge.ok("print(runtime.search_tool_docs_sync('create_issue', limit=1))");
    assert!(!text.contains(&folder), "{text}");
}

fn a_word_that_a_helper_does_not_know_is_refused_with_those_that_it_knows(engine: &Engine) {
    let good = Fixture::new(&[]);
    let home = Home::on(engine).server("good", good.entry());
    let mut bridge = Bridge::start(&home).warm();
    for (call, said) in [
        (
            "runtime.search_tool_docs_sync('x', detail='sumary')",
            "search_tool_docs has no detail 'sumary'\n\
             detail can be \"summary\", \"signature\", \"full\", or be left out",
        ),
        (
            "runtime.search_tool_docs_sync('x', group_by='name')",
            "search_tool_docs has no group_by 'name'\ngroup_by can be \"server\", or be left out",
        ),
        (
            "await runtime.query_tool_docs('good', detail='stubs')",
            "query_tool_docs has no detail 'stubs'\n\
             detail can be \"stub\", \"signature\", \"full\", \"summary\", or be left out",
        ),
    ] {
        let caught = bridge.ok(&format!("try: {call}\nexcept ValueError as error: print(error)"));
        assert_eq!(caught, said);
    }
    assert!(found(&mut bridge, "'add', detail='FULL'").contains("inputSchema"));
}

fn a_list_of_all_tools_waits_for_no_mute_server_and_says_that_its_tools_are_not_known(engine: &Engine) {
    let (good, mute) = (Fixture::new(&[]), Fixture::new(&["--never-answer"]));
    let home = Home::on(engine).server("good", good.entry()).server("mute", mute.entry());
    let mut bridge = Bridge::start(&home).warm();
    found_but_mute(&mut bridge);
    // The mute server is given up after half a minute; nothing that waits for it ends within this time.
    let code = "[(m['name'], len(m['tools']), m.get('note')) for m in runtime.list_loaded_server_metadata()]";
    let reply = bridge.run_with(json!({"code": code, "timeout": 8}));
    let listed = "[('good', 15, None),\n ('mute', 0, 'its tools are not known yet: it is being asked for them, look again')]";
    assert_eq!(reply.text.split("\n\n").next().unwrap(), listed);
}

/// Until the other servers have told their tools.
fn found_but_mute(bridge: &mut Bridge) -> String {
    bridge.ok("while (r := runtime.search_tool_docs_sync('add')).indexing != ['mute']: pass\nprint(r)")
}

fn a_secret_that_a_server_lists_is_not_kept(engine: &Engine) {
    // Tells its tools as soon as it is asked, and its key with them.
    let script = r#"while read -r line; do
        id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
        case $line in
        *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
        *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"use","description":"Uses the key %s.","inputSchema":{"type":"object"}}]}}\n' "$id" "$API_TOKEN" ;;
        esac
    done"#;
    let canary = ["canary", "7f3a", "key"].join("-");
    let entry = json!({"command": "sh", "args": ["-c", script], "env": {"API_TOKEN": canary}});
    let home = Home::on(engine).server("telling", entry);
    assert!(found(&mut Bridge::start(&home).warm(), "'use'").contains("mcp_telling.use()"));
    let [file] = &kept(&home)[..] else { panic!("one file") };
    let content = std::fs::read_to_string(file).unwrap();
    assert!(content.contains("Uses the key [API_TOKEN].") && !content.contains(&canary), "{content}");
    assert!(!file.to_str().unwrap().contains("telling"));
}

fn without_a_place_to_keep_anything_tools_are_found_all_the_same(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry()).file("plain", "a file");
    let plain = home.path().join("plain").to_str().unwrap().to_owned();
    let home = home.env("XDG_CACHE_HOME", &plain);
    let mut bridge = Bridge::start(&home).warm();
    assert!(found(&mut bridge, "'add'").contains("mcp_fixture.add("));
    bridge.says("a list of tools is not kept for later");
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='hi')"), "'hi'");
}
