//! Configuration: good entries load whatever stands beside them, and every problem is said with its place.

use serde_json::json;

use crate::support::{Bridge, Fixture, Home};

/// The servers that the client is told of.
fn servers(bridge: &mut Bridge) -> String {
    let listed = bridge.request("tools/list", json!({})).unwrap();
    let description = listed["tools"][0]["description"].as_str().unwrap().to_owned();
    let line = description.lines().find_map(|line| line.strip_prefix("MCP servers as Python functions: "));
    line.map(|line| line.trim_end_matches('.').to_owned()).unwrap_or_default()
}

#[test]
fn a_broken_file_costs_no_good_server_and_is_said_with_its_line() {
    let broken = [
        ("comma.json", "{\n  \"mcpServers\": {\"a\": {\"command\": \"x\"},}\n}", "comma.json:2:"),
        ("cut.json", "{\"mcpServers\": {\"a\":", "cut.json:1:"),
        ("empty.json", "", "empty.json: is empty"),
        ("list.json", "[]", "list.json:1:1"),
        ("args.json", "{\"mcpServers\": {\"b\": {\"command\": \"x\", \"args\": \"-y\"}}}", "args.json:1:"),
        ("nameless.json", "{\"mcpServers\": {\" \": {\"command\": \"x\"}}}", "nameless.json:1:"),
    ];
    let mut home = Home::new().server("good", Fixture::new(&[]).entry());
    for (name, content, _) in broken {
        home = home.file(&format!("MCPs/{name}"), content);
    }
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "good");
    for (_, _, place) in broken {
        bridge.says(place);
    }
}

#[test]
fn one_name_in_two_files_is_an_error_that_names_both() {
    let entry = "{\"mcpServers\": {\"twice\": {\"command\": \"true\"}}}";
    let home = Home::new().file("MCPs/a.json", entry).file("MCPs/b.json", entry);
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "");
    bridge.says("MCPs/a.json:1:");
    bridge.says("MCPs/b.json:1:");
}

#[test]
fn one_more_file_is_named_by_a_variable() {
    let home = Home::new()
        .server("first", Fixture::new(&[]).entry())
        .file("elsewhere/more.json", "{\"mcpServers\": {\"second\": {\"command\": \"true\"}}}")
        .env("MCP_SERVERS_CONFIG", "elsewhere/more.json");
    assert_eq!(servers(&mut Bridge::start(&home)), "first, second");
}

#[test]
fn a_bad_variable_is_said_and_its_default_counts() {
    let home = Home::new().env("MCP_BRIDGE_TIMEOUT", "soon").env("MCP_BRIDGE_OUTPUT_MODE", "xml");
    let mut bridge = Bridge::start(&home);
    bridge.says("MCP_BRIDGE_TIMEOUT");
    bridge.says("MCP_BRIDGE_OUTPUT_MODE");
    let listed = bridge.request("tools/list", json!({})).unwrap();
    let timeout = &listed["tools"][0]["inputSchema"]["properties"]["timeout"];
    assert_eq!(timeout["description"], "seconds, default 30, at most 120");
}

#[test]
fn a_bridge_is_not_its_own_server() {
    let hotcell = crate::support::program("hotcell");
    let entry = json!({"command": hotcell});
    let home = Home::new().server("hotcell", entry.clone()).server("good", Fixture::new(&[]).entry());
    assert_eq!(servers(&mut Bridge::start(&home)), "good");
    let allowed = home.env("MCP_BRIDGE_ALLOW_SELF_SERVER", "1");
    assert_eq!(servers(&mut Bridge::start(&allowed)), "good, hotcell");
}

#[test]
fn a_bridge_that_was_started_by_a_bridge_loads_no_servers() {
    let home = Home::new().server("good", Fixture::new(&[]).entry()).env("HOTCELL_PARENT", "1");
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "");
    bridge.says("HOTCELL_PARENT");
}

#[test]
fn logs_are_as_loud_as_asked_and_never_on_stdout() {
    for (level, is_loud) in [("DEBUG", true), ("OFF", false)] {
        let home = Home::new().env("MCP_BRIDGE_LOG_LEVEL", level).env("MCP_BRIDGE_TIMEOUT", "soon");
        let mut bridge = Bridge::start(&home);
        bridge.run("1");
        assert_eq!(bridge.rest(), [json!(null); 0]);
        if is_loud {
            bridge.says("MCP_BRIDGE_TIMEOUT");
        } else {
            assert_eq!(bridge.stderr(), "", "{level}");
        }
    }
}
