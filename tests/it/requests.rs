//! The requests: the one tool, its arguments, its manual.

use serde_json::{Value, json};

use crate::support::{Bridge, Fixture, Home};

#[test]
fn the_list_of_tools_is_the_same_bytes_at_every_start() {
    let list = |order: [&str; 3]| {
        let entry = Fixture::new(&[]).entry();
        let mut home = Home::new();
        for name in order {
            home = home.server(name, entry.clone());
        }
        Bridge::start(&home).request("tools/list", json!({})).unwrap().to_string()
    };
    let first = list(["github", "files", "time"]);
    assert_eq!(list(["time", "github", "files"]), first);
    assert!(first.contains("MCP servers as Python functions: files, github, time.\\n"), "{first}");
}

#[test]
fn one_tool_is_listed_with_its_arguments() {
    let listed = Bridge::start(&Home::new()).request("tools/list", json!({})).unwrap();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 1);
    let tool = &listed["tools"][0];
    assert_eq!(tool["name"], "run_python");
    let arguments: Vec<&String> = tool["inputSchema"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(arguments, ["code", "servers", "timeout", "reset", "checkpoint"]);
    assert_eq!(tool["inputSchema"]["required"], json!(["code"]));
    assert!(listed.to_string().len() < 2_000, "{listed}");
}

#[test]
fn the_bounds_of_time_that_the_operator_set_are_in_the_schema_and_hold() {
    let home = Home::new().env("MCP_BRIDGE_TIMEOUT", "5").env("MCP_BRIDGE_MAX_TIMEOUT", "10");
    let mut bridge = Bridge::start(&home);
    let listed = bridge.request("tools/list", json!({})).unwrap();
    let timeout = &listed["tools"][0]["inputSchema"]["properties"]["timeout"];
    assert_eq!(timeout["description"], "seconds, default 5, max 10");
    assert_eq!(
        bridge.run_with(json!({"code": "1", "timeout": 11})).text,
        "status: validation_error\nerror: timeout is 11, it must be a number of seconds above 0 and up to 10\n\
         hint: longer work goes on beside other runs as a job: runtime.spawn(f)"
    );
}

#[test]
fn bad_arguments_are_a_validation_error_that_names_them() {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::new().server("github", fixture.entry()));
    let timeouts = "it must be a number of seconds above 0 and up to 120";
    let cases = [
        (json!({}), "code is missing\nhint: pass the Python source as code".to_owned()),
        (json!({"code": null}), "code is missing\nhint: pass the Python source as code".to_owned()),
        (json!({"code": ["1"]}), "code is a list, it must be a string of Python source".to_owned()),
        (json!({"code": "  "}), "code is empty\nhint: pass the Python source as code".to_owned()),
        (
            json!({"code": "x".repeat((4 << 20) + 1)}),
            "code has 4194305 bytes, at most 4194304 are taken\nhint: keep data out of the code: read it through a tool"
                .to_owned(),
        ),
        (json!({"code": "\u{0}"}), "code holds a NUL character at byte 0\nhint: write it as \\x00".to_owned()),
        (json!({"code": "1", "timeout": true}), format!("timeout is a boolean, {timeouts}")),
        (json!({"code": "1", "timeout": "5"}), format!("timeout is a string, {timeouts}")),
        (json!({"code": "1", "timeout": -1}), format!("timeout is -1, {timeouts}\nhint: longer work goes on beside other runs as a job: runtime.spawn(f)")),
        (json!({"code": "1", "timeout": 1e9}), format!("timeout is 1000000000, {timeouts}\nhint: longer work goes on beside other runs as a job: runtime.spawn(f)")),
        (json!({"code": "1", "servers": "github"}), "servers is a string, it must be a list of server names".to_owned()),
        (
            json!({"code": "1", "servers": ["githup"]}),
            "Server 'githup' is not available\nhint: did you mean 'github'? Available in this run: github".to_owned(),
        ),
        (json!({"code": "1", "reset": 1}), "reset is a number, it must be true or false\nhint: checkpoint goes back to a checkpoint by its name".to_owned()),
        (
            json!({"code": "1", "server": ["github"]}),
            "unknown argument \"server\"\n\
             hint: did you mean \"servers\"? run_python takes code, servers, timeout, reset and checkpoint"
                .to_owned(),
        ),
    ];
    for (arguments, refusal) in cases {
        let reply = bridge.run_with(arguments);
        assert!(reply.is_error);
        assert_eq!(reply.text, format!("status: validation_error\nerror: {refusal}"));
    }
    assert_eq!(fixture.pids(), [0; 0]);
}

#[test]
fn refusals_keep_to_the_output_mode() {
    let home = Home::new().env("MCP_BRIDGE_OUTPUT_MODE", "json").env("MCP_BRIDGE_STRUCTURED", "1");
    let reply = Bridge::start(&home).run_with(json!({"code": ""}));
    let expected = json!({
        "status": "validation_error",
        "summary": "code is empty",
        "error": "code is empty",
        "hint": "pass the Python source as code"
    });
    assert_eq!(serde_json::from_str::<Value>(&reply.text).unwrap(), expected);
    assert_eq!(reply.structured, Some(expected));
    let toon =
        Bridge::start(&Home::new().env("MCP_BRIDGE_OUTPUT_MODE", "toon")).run_with(json!({"code": ""}));
    assert_eq!(
        toon.text,
        "```toon\nstatus: validation_error\nsummary: code is empty\nerror: code is empty\n\
         hint: pass the Python source as code\n```"
    );
    assert_eq!(toon.structured, None);
}

#[test]
fn arguments_that_are_no_object_are_invalid_parameters() {
    let mut bridge = Bridge::start(&Home::new());
    for arguments in [json!([1]), json!("code"), json!(7)] {
        let error =
            bridge.request("tools/call", json!({"name": "run_python", "arguments": arguments})).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
}

#[test]
fn unknown_tools_and_methods_are_refused_by_name() {
    let mut bridge = Bridge::start(&Home::new());
    assert_eq!(
        bridge.request("tools/call", json!({"name": "run_ruby", "arguments": {}})).unwrap_err(),
        json!({"code": -32602, "message": "unknown tool \"run_ruby\"; the only tool is run_python"})
    );
    let error = bridge.request("tools/explode", json!({})).unwrap_err();
    assert_eq!(error["code"], -32601);
}

#[test]
fn the_manual_is_a_resource_under_both_addresses() {
    let mut bridge = Bridge::start(&Home::new().server("github", Fixture::new(&[]).entry()));
    let listed = bridge.request("resources/list", json!({})).unwrap();
    let addresses: Vec<&str> =
        listed["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(
        addresses,
        ["resource://belljar/capabilities", "resource://mcp-server-code-execution-mode/capabilities"]
    );
    let types: Vec<&Value> =
        listed["resources"].as_array().unwrap().iter().map(|one| &one["mimeType"]).collect();
    let manuals: Vec<Value> = addresses
        .iter()
        .map(|uri| {
            let read = bridge.request("resources/read", json!({"uri": uri})).unwrap();
            assert_eq!(read["contents"][0]["uri"], *uri);
            assert_eq!([&read["contents"][0]["mimeType"], types[0], types[1]], ["text/plain"; 3]);
            read["contents"][0]["text"].clone()
        })
        .collect();
    assert_eq!(manuals[0], manuals[1]);
    assert!(manuals[0].as_str().unwrap().contains("mcp_github"), "{}", manuals[0]);
    assert_eq!(
        bridge.request("resources/read", json!({"uri": "resource://elsewhere"})).unwrap_err(),
        json!({
            "code": -32002,
            "message": "unknown resource \"resource://elsewhere\"; files of /workspace are workspace:///PATH"
        })
    );
}
