//! `make interop`: real servers of others, each reached from a real sandbox, as a table of docs/reference/compatibility.md.
//!
//! What a row says was called is what the bridge has made; a run with `BLESS=1` writes the table into that page, any other one
//! compares. Beside it are the tables of real clients and of the official conformance suite, which are made the same way.

#![allow(clippy::restriction, reason = "a test ends at what it does not expect, and prints")]

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod confined;
mod conformance;
mod examples;
mod listening;
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use support::engines::cache;
use support::everything::Everything;
use support::http_fixture::{HttpFixture, reply};
use support::{Bridge, Engine, Home};

/// Servers of others that are spoken to over stdio.
const LOCAL_MIN: usize = 6;

/// A server, how it is reached, and what is done with it.
struct Case {
    package: &'static str,
    transport: &'static str,
    entry: Value,
    /// Calls tools of `s`, and asserts what they answer.
    code: String,
}

#[test]
fn real_servers_answer_as_the_table_says() {
    let Some(engine) = Engine::all().into_iter().next() else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no engine is there, and this is CI");
        return eprintln!("SKIPPED: no engine is there; scripts/setup.sh engines-up starts them");
    };
    let home = Home::on(&engine).file("data/note.txt", "one\ntwo\n").file("repository/a.txt", "one\n");
    commit(&home.path().join("repository"));
    let remotes =
        [("streamableHttp", "mcp"), ("sse", "sse")].map(|(mode, path)| Everything::start(mode, path));
    let page = HttpFixture::start(|_, stream| {
        let body = "<html><body><h1>Cells</h1><p>Hot ones.</p></body></html>";
        reply(stream, "200 OK", &[], body)
    });
    let cases = cases(home.path(), &remotes, &page.url);
    let names: Vec<String> = (0..cases.len()).map(|number| format!("s{number}")).collect();
    let home =
        names.iter().zip(&cases).fold(home, |home, (name, case)| home.server(name, case.entry.clone()));
    let local: BTreeSet<&str> =
        cases.iter().filter(|case| case.transport == "stdio").map(|case| case.package).collect();
    assert!(local.len() >= LOCAL_MIN, "{local:?}");
    let mut bridge = Bridge::start(&home).warm();
    let mut table = String::from("| server | version | transport | called |\n|---|---|---|---|\n");
    let files = ["package.json", "requirements.in", "requirements-older.in"];
    let versions = table::versions("servers", &files);
    for (name, Case { package, transport, code, .. }) in names.iter().zip(&cases) {
        let called = called(&mut bridge, name, code);
        let version = versions.get(*package).unwrap_or_else(|| panic!("{package} is in no lock file"));
        table.push_str(&format!("| {package} | {version} | {transport} | {called} |\n"));
    }
    table::check("docs/reference/compatibility.md", "interop", "interop", &table);
}

/// The sandbox of a case's entry: its data folder and what it fetches from, and nothing else.
fn sandbox(package: &str, home: &Path) -> Value {
    match package {
        "mcp-server-git" => json!({"write": [home.join("repository")]}),
        "mcp-server-fetch" => json!({"network": "host"}),
        "@modelcontextprotocol/server-filesystem"
        | "@modelcontextprotocol/server-memory"
        | "mcp-server-sqlite" => json!({"write": [home.join("data")]}),
        _ => json!(true),
    }
}

#[test]
fn real_servers_work_confined() {
    let Some(engine) = Engine::all().into_iter().next() else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no engine is there, and this is CI");
        return eprintln!("SKIPPED: no engine is there; scripts/setup.sh engines-up starts them");
    };
    // A path with a blank, as that of the home, is not suggested in an error.
    let place = tempfile::Builder::new().prefix("belljar-servers-").tempdir().unwrap();
    for (folder, file, text) in [("data", "note.txt", "one\ntwo\n"), ("repository", "a.txt", "one\n")] {
        std::fs::create_dir(place.path().join(folder)).unwrap();
        std::fs::write(place.path().join(folder).join(file), text).unwrap();
    }
    commit(&place.path().join("repository"));
    let home = Home::on(&engine);
    let page = HttpFixture::start(|_, stream| reply(stream, "200 OK", &[], "<p>Hot ones.</p>"));
    let remotes =
        [("streamableHttp", "mcp"), ("sse", "sse")].map(|(mode, path)| Everything::start(mode, path));
    let cases: Vec<Case> = cases(place.path(), &remotes, &page.url)
        .into_iter()
        .filter(|case| case.transport == "stdio")
        .map(|mut case| {
            case.entry["sandbox"] = sandbox(case.package, place.path());
            case
        })
        .collect();
    let names: Vec<String> = (0..cases.len()).map(|number| format!("s{number}")).collect();
    let home =
        names.iter().zip(&cases).fold(home, |home, (name, case)| home.server(name, case.entry.clone()));
    let unnamed = cases.iter().find(|case| case.package.ends_with("server-memory")).map(|case| {
        let mut entry = case.entry.clone();
        entry["sandbox"] = json!(true);
        entry
    });
    let home = home.server("unnamed", unnamed.unwrap());
    let mut bridge = Bridge::start(&home).warm();
    for (name, case) in names.iter().zip(&cases) {
        let called = called(&mut bridge, name, &case.code);
        assert!(!called.is_empty(), "{}", case.package);
    }
    // What a call lacks is said in its error.
    let reply = bridge.run(
        "cell = {'name': 'cell', 'entityType': 'room', 'observations': []}\n\
         try: await mcp_unnamed.create_entities(entities=[cell])\n\
         except Exception as error: print(error)",
    );
    let key = format!("to change \"{}\" (sandbox.write)", place.path().join("data").display());
    assert!(reply.text.contains(&key), "{}", reply.text);
}

/// Runs the code, and names the tools that it has called, each once.
fn called(bridge: &mut Bridge, server: &str, code: &str) -> String {
    let body: String = code.lines().map(|line| format!("    {line}\n")).collect();
    let code = format!(
        "s = mcp_{server}\nwith runtime.plan(dry_run=False) as plan:\n{body}\
         assert plan.calls and all(call.outcome == 'made' for call in plan.calls), plan\n\
         print(*dict.fromkeys(f'`{{call.tool}}`' for call in plan.calls), sep=', ')"
    );
    let reply = bridge.run_with(json!({"code": code, "timeout": 60}));
    assert!(!reply.is_error, "{server}: {}", reply.text);
    reply.text
}

fn cases(home: &Path, remotes: &[Everything; 2], page: &str) -> Vec<Case> {
    let (data, repository) = (home.join("data"), home.join("repository"));
    let node = |program: &str| cache().join("servers/node/node_modules/.bin").join(program);
    let python = |program: &str| cache().join("servers/python/bin").join(program);
    let older = |program: &str| cache().join("servers/python-older/bin").join(program);
    let local = |package, program: PathBuf, arguments: Value, code: String| Case {
        package,
        transport: "stdio",
        entry: json!({"command": program, "args": arguments}),
        code,
    };
    let everything = "assert 'hi' in await s.echo(message='hi')\n\
                      assert '3' in await s.get_sum(a=1, b=2)\n\
                      text, image, end = await s.get_tiny_image()\nassert image.mime_type == 'image/png'\n\
                      weather = await s.get_structured_content(location='Chicago')\n\
                      assert isinstance(weather['temperature'], int | float)";
    let far = |transport, server: &Everything| Case {
        package: "@modelcontextprotocol/server-everything",
        transport,
        entry: json!({"url": server.url}),
        code: everything.to_owned(),
    };
    let memory = json!({
        "command": node("mcp-server-memory"), "env": {"MEMORY_FILE_PATH": data.join("memory.json")}
    });
    vec![
        local("@modelcontextprotocol/server-filesystem", node("mcp-server-filesystem"), json!([data]), {
            let folder = data.display();
            format!(
                "await s.write_file(path='{folder}/new.txt', content='three')\n\
                 texts = await s.read_multiple_files(paths=['{folder}/note.txt', '{folder}/new.txt'])\n\
                 assert 'two' in str(texts) and 'three' in str(texts)\n\
                 assert 'new.txt' in str(await s.list_directory(path='{folder}'))"
            )
        }),
        local(
            "@modelcontextprotocol/server-everything",
            node("mcp-server-everything"),
            json!(["stdio"]),
            everything.to_owned(),
        ),
        far("Streamable HTTP", &remotes[0]),
        far("HTTP+SSE", &remotes[1]),
        Case {
            package: "@modelcontextprotocol/server-memory",
            transport: "stdio",
            entry: memory,
            code: "cell = {'name': 'cell', 'entityType': 'room', 'observations': ['it is hot']}\n\
                   await s.create_entities(entities=[cell])\n\
                   found = await s.search_nodes(query='hot')\nassert found['entities'][0]['name'] == 'cell'\n\
                   assert len((await s.read_graph())['entities']) == 1"
                .to_owned(),
        },
        local(
            "@modelcontextprotocol/server-sequential-thinking",
            node("mcp-server-sequential-thinking"),
            json!([]),
            "done = await s.sequentialthinking(thought='x', thoughtNumber=1, totalThoughts=1, nextThoughtNeeded=False)\n\
             assert done['thoughtNumber'] == 1"
                .to_owned(),
        ),
        local("mcp-server-git", python("mcp-server-git"), json!(["--repository", repository]), {
            let path = repository.display();
            format!(
                "assert 'clean' in str(await s.git_status(repo_path='{path}'))\n\
                 assert 'the first commit' in str(await s.git_log(repo_path='{path}'))\n\
                 await s.git_create_branch(repo_path='{path}', branch_name='next')\n\
                 assert 'next' in str(await s.git_branch(repo_path='{path}', branch_type='local'))"
            )
        }),
        local(
            "mcp-server-time",
            python("mcp-server-time"),
            json!(["--local-timezone", "UTC"]),
            "assert (await s.get_current_time(timezone='UTC'))['timezone'] == 'UTC'\n\
             noon = await s.convert_time(source_timezone='UTC', time='12:00', target_timezone='Asia/Tokyo')\n\
             assert noon['time_difference'] == '+9.0h'"
                .to_owned(),
        ),
        local(
            "mcp-server-sqlite",
            older("mcp-server-sqlite"),
            json!(["--db-path", data.join("cells.db")]),
            "await s.create_table(query='create table cells (name text, heat int)')\n\
             for n in range(3): await s.write_query(query=f\"insert into cells values ('c{n}', {n})\")\n\
             assert '3' in str(await s.read_query(query='select sum(heat) as heat from cells'))\n\
             assert 'cells' in str(await s.list_tables())"
                .to_owned(),
        ),
        local(
            "mcp-server-calculator",
            older("mcp-server-calculator"),
            json!([]),
            "assert '1024' in str(await s.calculate(expression='2 ** 10'))".to_owned(),
        ),
        local(
            "mcp-server-fetch",
            python("mcp-server-fetch"),
            json!(["--ignore-robots-txt", "--allow-private-ips"]),
            format!("assert 'Hot ones.' in str(await s.fetch(url='{page}', raw=True))"),
        ),
    ]
}

fn commit(repository: &Path) {
    for arguments in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "."],
        &["commit", "--quiet", "--message", "the first commit"],
    ] {
        let identity =
            ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
        let mut command = Command::new("git");
        let done = command.args(identity).args(arguments).current_dir(repository).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
