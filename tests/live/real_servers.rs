//! Third-party servers as people use them: files, git, time, and the reference server that has one of everything.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::engines::cache;
use crate::support::everything::Everything;
use crate::support::{Bridge, Engine, Home};
use crate::{on_every_container_engine, on_one_engine_and_processes};

on_one_engine_and_processes!(
    a_picture_of_the_files_server_is_a_picture,
    a_repository_is_read_through_the_git_server,
    time_zones_are_converted_through_the_time_server,
    the_reference_server_is_usable,
    a_tool_that_needs_a_task_is_called_like_any_other,
    progress_has_one_name_for_a_tool,
    tools_of_all_servers_are_found_by_what_they_do,
    a_remote_server_is_like_any_other,
    values_that_python_servers_wrap_are_the_values_themselves,
);

on_every_container_engine!(a_table_is_read_through_a_server_and_analysed,);

fn node(name: &str) -> String {
    cache().join("servers/node/node_modules/.bin").join(name).to_str().unwrap().to_owned()
}

fn python(name: &str) -> String {
    cache().join("servers/python/bin").join(name).to_str().unwrap().to_owned()
}

fn files(folder: &Path) -> Value {
    json!({"command": node("mcp-server-filesystem"), "args": [folder]})
}

fn time() -> Value {
    json!({"command": python("mcp-server-time"), "args": ["--local-timezone", "UTC"]})
}

/// The official SDK wraps what is no object: the output schema has the one property `result` then.
const WRAPPING: &str = r#"
from mcp.server import MCPServer
server = MCPServer("wrapping")
@server.tool()
def names() -> list[str]: return ["a", "b"]
@server.tool()
def count() -> int: return 3
@server.tool()
def said() -> str: return '{"x": [1, 2]}'
@server.tool()
def table() -> dict[str, int]: return {"result": 1}
server.run()
"#;

fn values_that_python_servers_wrap_are_the_values_themselves(engine: &Engine) {
    let entry = json!({"command": python("python"), "args": ["-c", WRAPPING]});
    let mut bridge = Bridge::start(&Home::on(engine).server("wrapping", entry)).warm();
    let code = "names = await mcp_wrapping.names()\n\
                print(names, len(names), names.raw['structuredContent'])\n\
                print(await mcp_wrapping.count(), (await mcp_wrapping.said())['x'], await mcp_wrapping.table())";
    assert_eq!(bridge.ok(code), "['a', 'b'] 2 {'result': ['a', 'b']}\n3 [1, 2] {'result': 1}");
    let code = "h = await mcp_wrapping.names.handle()\nprint(await h.load(), await h[1].load())\n\
                print(runtime.query_tool_docs_sync('wrapping', 'names', detail='stub')[0]['stub'])";
    let said = bridge.ok(code);
    assert!(said.starts_with("['a', 'b'] b\n") && said.contains("-> list[str]"), "{said}");
}

fn a_table_is_read_through_a_server_and_analysed(engine: &Engine) {
    let home = Home::on(engine).file("data/sales.csv", "region,units\nnorth,3\nsouth,4\nnorth,5\n");
    let data = home.path().join("data");
    let mut bridge = Bridge::start(&home.server("files", files(&data))).warm();
    let path = data.join("sales.csv");
    let path = path.display();
    let code = format!(
        "import io, pandas as pd\nanswer = await mcp_files.read_text_file(path='{path}')\n\
         sales = pd.read_csv(io.StringIO(answer['content']))\nsales.groupby('region')['units'].sum().to_dict()"
    );
    assert_eq!(bridge.ok(&code), "{'north': 8, 'south': 4}");
    let code = format!("await mcp_files.write_file(path='{path}.sum', content=str(sales.units.sum()))\n1");
    assert_eq!(bridge.ok(&code), "1");
    assert_eq!(std::fs::read_to_string(data.join("sales.csv.sum")).unwrap(), "12");
    // The server's own refusal reaches the code as an exception.
    let reply = bridge.run("await mcp_files.read_text_file(path='/etc/hostname')");
    assert!(reply.is_error && reply.text.contains("outside allowed directories"), "{}", reply.text);
    let chart = bridge.run("import matplotlib.pyplot as plt\n_ = sales.units.plot()");
    assert_eq!(chart.images.len(), 1);
    assert_eq!(chart.images[0].0, "image/png");
}

fn a_picture_of_the_files_server_is_a_picture(engine: &Engine) {
    let home = Home::on(engine).file("data/p.png", "a picture").file("data/d.pdf", "%PDF");
    let data = home.path().join("data");
    let mut bridge = Bridge::start(&home.server("files", files(&data))).warm();
    let path = data.join("p.png");
    let path = path.display();
    // It says the same block in its content and in structured content.
    let seen = bridge.run(&format!("r = await mcp_files.read_media_file(path='{path}')\nr"));
    assert_eq!(seen.text, "{'content': [<image/png, 9 bytes: .data, .save(path), .show()>]}");
    assert_eq!(
        bridge.ok("r['content'][0] is r.raw['content'][0], r['content'][0].data"),
        "(True, b'a picture')"
    );
    let shown = bridge.run("r['content'][0].show()");
    assert_eq!(shown.images.len(), 1, "{}", shown.text);
    let path = data.join("d.pdf");
    let code = format!("(await mcp_files.read_media_file(path='{}'))['content'][0].data", path.display());
    assert_eq!(bridge.ok(&code), "b'%PDF'");
}

fn a_repository_is_read_through_the_git_server(engine: &Engine) {
    let home = Home::on(engine).file("repository/a.txt", "one\n");
    let repository = home.path().join("repository");
    let git = |arguments: &[&str]| {
        let identity =
            ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
        let mut command = Command::new("git");
        let done = command.args(identity).args(arguments).current_dir(&repository).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "the first commit"]);
    let entry = json!({"command": python("mcp-server-git"), "args": ["--repository", repository]});
    let mut bridge = Bridge::start(&home.server("git", entry)).warm();
    let log = bridge.ok(&format!("str(await mcp_git.git_log(repo_path='{}'))", repository.display()));
    assert!(log.contains("the first commit") && log.contains("Test"), "{log}");
}

fn time_zones_are_converted_through_the_time_server(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine).server("time", time())).warm();
    let code = "r = await mcp_time.convert_time(source_timezone='UTC', time='12:00', target_timezone='Asia/Tokyo')\n\
                (r['target']['datetime'][11:16], r['time_difference'])";
    assert_eq!(bridge.ok(code), "('21:00', '+9.0h')");
}

fn the_reference_server_is_usable(engine: &Engine) {
    let entry = json!({"command": node("mcp-server-everything"), "args": ["stdio"]});
    let mut bridge = Bridge::start(&Home::on(engine).server("everything", entry)).warm();
    assert_eq!(bridge.ok("await mcp_everything.echo(message='hi')"), "'Echo: hi'");
    let sum = bridge.ok("tools = {tool['name'] for tool in await runtime.list_tools('everything')}\n'echo' in tools and len(tools) > 5");
    assert_eq!(sum, "True");
}

fn a_tool_that_needs_a_task_is_called_like_any_other(engine: &Engine) {
    let entry = json!({"command": node("mcp-server-everything"), "args": ["stdio"]});
    let mut bridge = Bridge::start(&Home::on(engine).server("everything", entry)).warm();
    let report = bridge.ok("print(await mcp_everything.simulate_research_query(topic='bells'))");
    assert!(report.starts_with("# Research Report: bells") && report.contains("4 stages"), "{report}");
    // It takes four seconds, and is cancelled with the run.
    let code = "await mcp_everything.simulate_research_query(topic='jars')";
    let late = bridge.run_with(json!({"code": code, "timeout": 2}));
    assert!(late.is_error && late.text.contains("timed out after 2s"), "{}", late.text);
    assert_eq!(bridge.ok("await mcp_everything.echo(message='on')"), "'Echo: on'");
}

fn progress_has_one_name_for_a_tool(engine: &Engine) {
    let entry = json!({"command": node("mcp-server-everything"), "args": ["stdio"]});
    let mut bridge = Bridge::start(&Home::on(engine).server("everything", entry)).warm();
    // Its own name has hyphens.
    let code = "await mcp_everything.trigger_long_running_operation(duration=1, steps=2)";
    let params = json!({
        "name": "run_python", "arguments": {"code": code}, "_meta": {"progressToken": "mine"}
    });
    bridge.request("tools/call", params).unwrap();
    let heard = bridge.rest();
    let said: Vec<&str> = heard.iter().filter_map(|note| note["params"]["message"].as_str()).collect();
    assert!(said.iter().any(|said| said.contains("operation: 1/2")), "{said:?}");
    let name = "everything.trigger_long_running_operation";
    assert!(said[1..].iter().all(|said| said.starts_with(name)), "{said:?}");
}

fn tools_of_all_servers_are_found_by_what_they_do(engine: &Engine) {
    let home = Home::on(engine);
    let data = home.path().to_owned();
    let mut bridge = Bridge::start(&home.server("files", files(&data)).server("time", time())).warm();
    bridge.ok("while runtime.search_tool_docs_sync().indexing: pass");
    for (query, tool) in
        [("read the contents of a file", "read_text_file"), ("convert between timezones", "convert_time")]
    {
        let found = bridge.ok(&format!("[hit['tool'] for hit in runtime.search_tool_docs_sync('{query}')]"));
        assert!(found.contains(tool), "{query}: {found}");
    }
}

fn a_remote_server_is_like_any_other(engine: &Engine) {
    let [http, sse] =
        [("streamableHttp", "mcp"), ("sse", "sse")].map(|(mode, path)| Everything::start(mode, path));
    let entry = |server: &Everything| json!({"url": server.url, "headers": {"X-Token": "${TOKEN}"}});
    let home = Home::on(engine).env("TOKEN", "s3cret-token").server("http", entry(&http));
    let mut bridge = Bridge::start(&home.server("sse", entry(&sse))).warm();
    let code = "import asyncio\nsums = await asyncio.gather(*(s.get_sum(a=n, b=1) for n in range(5) for s in (mcp_http, mcp_sse)))\n\
                [''.join(filter(str.isdigit, text.rpartition('is')[2])) for text in sums]";
    assert_eq!(bridge.ok(code), "['1', '1', '2', '2', '3', '3', '4', '4', '5', '5']");
    assert_eq!(bridge.ok("[len(await s.get_tiny_image()) for s in (mcp_http, mcp_sse)]"), "[3, 3]");
    let refused = bridge.run("await mcp_http.get_sum(a='x')");
    assert!(refused.text.contains("missing parameter 'b'"), "{}", refused.text);
    // What has gone is said, and costs the other nothing.
    drop(sse);
    let code = "try:\n  await mcp_sse.echo(message='x')\nexcept Exception as error:\n  print(error)\nawait mcp_http.echo(message='on')";
    let reply = bridge.ok(code);
    assert!(reply.ends_with("'Echo: on'") && !reply.contains("s3cret"), "{reply}");
}
