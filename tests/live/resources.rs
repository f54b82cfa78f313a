//! Resources and prompts of servers from Python: what comes, from which server, and what the user's policy holds back.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::engines::cache;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE};

on_one_engine_and_processes!(
    what_a_server_has_to_read_is_listed_and_read_and_prompts_are_filled_in,
    the_server_of_an_address_is_found_among_those_that_run_and_no_other_is_started,
    a_reading_that_is_denied_reaches_no_server_and_starts_none,
    readings_count_like_calls_that_only_read,
    what_a_server_does_not_offer_or_refuses_is_said,
    the_reference_server_s_resources_and_prompts_are_read,
);

const POLICY: &str = ".config/belljar/policy.toml";

/// The code, with what it raises printed.
fn tried(code: &str) -> String {
    format!("try:\n  print({code})\nexcept runtime.MCPError as error:\n  print(error.code, error.message)")
}

fn what_a_server_has_to_read_is_listed_and_read_and_prompts_are_filled_in(engine: &Engine) {
    let fixture = Fixture::new(&["--resources"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let listed = bridge.ok("[r['uri'] for r in await runtime.list_resources('fixture')]");
    assert_eq!(listed, "['fixture://text', 'fixture://pixel']", "of all pages");
    let templates = bridge.ok("runtime.list_resource_templates_sync('fixture')[0]['uriTemplate']");
    assert_eq!(templates, "'fixture://numbered/{n}'");
    assert_eq!(bridge.ok("await runtime.read_resource('fixture://text')"), "'what is at fixture://text'");
    let pixel = "p = runtime.read_resource_sync('fixture://pixel', 'fixture')\n(p.mime_type, p.data[:4])";
    assert_eq!(bridge.ok(pixel), "('image/png', b'\\x89PNG')");
    assert_eq!(bridge.ok("len(await runtime.read_resource('fixture://big'))"), (20 << 20).to_string());
    assert_eq!(bridge.ok("[p['name'] for p in await runtime.list_prompts('fixture')]"), "['greet']");
    let prompt = bridge.ok("(await runtime.get_prompt('fixture', 'greet', {'who': 'Ada'}))[0]");
    assert_eq!(prompt, "{'role': 'user', 'content': 'hello Ada'}");
    let greeted = r#"prompts/get {"arguments":{"who":"Ada"},"name":"greet"}"#;
    assert_eq!(fixture.ledger().last().unwrap(), greeted);
}

fn the_server_of_an_address_is_found_among_those_that_run_and_no_other_is_started(engine: &Engine) {
    let [first, second, third] =
        [&["--resources"][..], &["--resources"], &[]].map(|flags: &[&str]| Fixture::new(flags));
    let home = Home::on(engine).server("first", first.entry()).server("second", second.entry());
    let mut bridge = Bridge::start(&home.server("third", third.entry())).warm();
    let read = tried("runtime.read_resource_sync('fixture://text')");
    let unknown = "invalid_arguments none of the servers that run lists the resource 'fixture://text'";
    assert_eq!(bridge.ok(&read), unknown);
    assert_eq!([&first, &second, &third].map(|fixture| fixture.pids().len()), [0; 3], "none was started");
    bridge.ok("await runtime.list_resources('first')\nawait mcp_third.peak()");
    assert_eq!(bridge.ok(&read), "what is at fixture://text");
    let numbered = tried("runtime.read_resource_sync('fixture://numbered/7')");
    assert_eq!(bridge.ok(&numbered), "what is at fixture://numbered/7");
    assert_eq!(second.pids(), [0; 0], "not needed");
    bridge.ok("await runtime.list_resources('second')");
    assert_eq!(bridge.ok(&read), "invalid_arguments several servers have the resource 'fixture://text'");
    let named = "await runtime.read_resource('fixture://text', server='second')";
    assert_eq!(bridge.ok(named), "'what is at fixture://text'");
    let only = json!({"code": "await runtime.read_resource('fixture://text')", "servers": ["second"]});
    assert_eq!(bridge.run_with(only).text, "'what is at fixture://text'");
    let outside = json!({"code": tried("runtime.read_resource_sync('fixture://text', 'first')"), "servers": ["second"]});
    assert_eq!(bridge.run_with(outside).text, "server_unavailable Server 'first' is not available");
}

fn a_reading_that_is_denied_reaches_no_server_and_starts_none(engine: &Engine) {
    let fixture = Fixture::new(&["--resources"]);
    let policy = "[[rule]]\ntool = \"resources/*\"\narguments = { uri = \"fixture://text\" }\ndecision = \"deny\"\nreason = \"private\"\n\
                  [[rule]]\ntool = \"prompts/*\"\ndecision = \"deny\"\n[[rule]]\ntool = \"resources/*list\"\ndecision = \"deny\"\n";
    let home = Home::on(engine).server("fixture", fixture.entry()).file(POLICY, policy);
    let mut bridge = Bridge::start(&home).warm();
    for (code, denied) in [
        ("runtime.read_resource_sync('fixture://text')", "resources/read was not called: rule 1: private"),
        ("runtime.get_prompt_sync('fixture', 'greet')", "prompts/get was not called: rule 2"),
        ("runtime.list_prompts_sync('fixture')", "prompts/list was not called: rule 2"),
        ("runtime.list_resources_sync('fixture')", "resources/list was not called: rule 3"),
        (
            "runtime.list_resource_templates_sync('fixture')",
            "resources/templates/list was not called: rule 3",
        ),
    ] {
        assert_eq!(bridge.ok(&tried(code)), format!("denied fixture.{denied}"));
    }
    assert_eq!((fixture.ledger(), fixture.pids()), (vec![], vec![]));
    assert_eq!(bridge.ok("await runtime.read_resource('fixture://other')"), "'what is at fixture://other'");
    assert_eq!(fixture.ledger(), [r#"resources/read {"uri":"fixture://other"}"#]);
    bridge.hang_up();
    bridge.wait(PATIENCE);
    let output = home.command(&["log", "--json", "--server", "fixture"]).output().unwrap();
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> = lines.iter().map(|line| (line["tool"].clone(), line["outcome"].clone())).collect();
    assert_eq!(told[0], (json!("resources/read"), json!("denied")));
    assert_eq!((told.len(), told[5].clone()), (6, (json!("resources/read"), json!("answered"))));
    assert_eq!(lines[5]["decision"], "allow: profile open");
    let runs = home.run(&["log", "--outcome", "finished"]).stdout;
    let told: Vec<&str> = runs.lines().map(|run| run.split_once(" ms, ").unwrap().1).collect();
    assert_eq!(told, [&["0 calls"][..], &["0 calls, 1 reading"; 6]].concat(), "{runs}");
}

fn readings_count_like_calls_that_only_read(engine: &Engine) {
    let [mail, web, chat] = [(); 3].map(|()| Fixture::new(&["--resources"]));
    let policy = "[labels]\nprivate = [\"mail\"]\nuntrusted = [\"web\"]\negress = [\"chat\"]\nwhen_mixed = \"deny\"\n\
                  [budgets]\ncalls_per_run = 3\n";
    let home = Home::on(engine).server("mail", mail.entry()).server("web", web.entry());
    let home = home.server("chat", chat.entry()).file(POLICY, policy).env("MCP_BRIDGE_POLICY", "read-only");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(
        "await runtime.read_resource('fixture://text', 'mail')\nawait runtime.get_prompt('web', 'greet')",
    );
    let mixed = bridge.ok(&tried("runtime.read_resource_sync('fixture://text', 'chat')"));
    assert!(mixed.starts_with("denied chat.resources/read was not called: labels: this session"), "{mixed}");
    let many = "r = [await runtime.list_prompts('mail') for _ in range(3)]\n";
    let budget = bridge.ok(&format!("{many}{}", tried("runtime.list_prompts_sync('mail')")));
    assert!(budget.contains("budgets.calls_per_run: 3 calls are all"), "{budget}");
    assert_eq!(chat.ledger(), [""; 0]);
}

fn what_a_server_does_not_offer_or_refuses_is_said(engine: &Engine) {
    let (plain, fixture) = (Fixture::new(&[]), Fixture::new(&["--resources"]));
    let home = Home::on(engine).server("plain", plain.entry()).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    for (code, said) in [
        ("list_resources_sync('plain')", "unknown_tool server 'plain' offers no resources"),
        ("list_resource_templates_sync('plain')", "unknown_tool server 'plain' offers no resources"),
        ("read_resource_sync('x://y', 'plain')", "unknown_tool server 'plain' offers no resources"),
        ("get_prompt_sync('plain', 'x')", "unknown_tool server 'plain' offers no prompts"),
        ("read_resource_sync('x://y', 'fixture')", "tool_error server 'fixture' refused: no such resource"),
        (
            "get_prompt_sync('fixture', 'greet', {'who': 7})",
            "invalid_arguments the argument 'who' of a prompt is no string",
        ),
    ] {
        assert_eq!(bridge.ok(&tried(&format!("runtime.{code}"))), said);
    }
}

fn the_reference_server_s_resources_and_prompts_are_read(engine: &Engine) {
    let program = cache().join("servers/node/node_modules/.bin/mcp-server-everything");
    let home = Home::on(engine).server("everything", json!({"command": program, "args": ["stdio"]}));
    let mut bridge = Bridge::start(&home).warm();
    let code = "listed = await runtime.list_resources('everything')\n\
                first = await runtime.read_resource(listed[0]['uri'])\n\
                (len(listed) > 0, isinstance(first, str) and len(first) > 0, first.raw['contents'][0]['uri'] == listed[0]['uri'])";
    assert_eq!(bridge.ok(code), "(True, True, True)");
    let code = "templates = await runtime.list_resource_templates('everything')\n\
                t = [t['uriTemplate'] for t in templates if 'text' in t['uriTemplate']][0]\n\
                import re\nstr(await runtime.read_resource(re.sub(r'{.*?}', '1', t)))";
    let read = bridge.ok(code);
    assert!(read.contains("Resource 1"), "{read}");
    let code = "prompts = [p['name'] for p in await runtime.list_prompts('everything')]\n\
                simple = [p for p in prompts if 'simple' in p][0]\n(await runtime.get_prompt('everything', simple))[0]['role']";
    assert_eq!(bridge.ok(code), "'user'");
}
