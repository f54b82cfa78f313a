//! Replies in each mode, as whole texts.

use serde_json::{Value, json};

use crate::support::{Bridge, Engine, Home};
use crate::{on_every_container_engine, on_one_engine_and_processes};

on_one_engine_and_processes!(
    json_replies_are_one_object,
    toon_replies_are_one_block,
    structured_content_comes_when_it_is_asked_for,
    clients_that_pass_images_on_as_text_get_files,
);

on_every_container_engine!(images_and_text_come_as_blocks,);

fn json_replies_are_one_object(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine).env("MCP_BRIDGE_OUTPUT_MODE", "json")).warm();
    let mut run = |code: &str| serde_json::from_str::<Value>(&bridge.run(code).text).unwrap();
    assert_eq!(
        run("import sys\nprint('a')\nprint('b', file=sys.stderr)\n[1]"),
        json!({
            "status": "success", "summary": "Success", "exitCode": 0,
            "stdout": ["a"], "stderr": ["b"], "value": "[1]", "state": "kept"
        })
    );
    let raised = run("print('a')\n1 / 0");
    assert_eq!(
        (&raised["status"], &raised["error"], &raised["exitCode"], &raised["line"], &raised["stdout"]),
        (&json!("error"), &json!("ZeroDivisionError: division by zero"), &json!(1), &json!(2), &json!(["a"]))
    );
    assert_eq!(raised["state"], "kept");
}

fn toon_replies_are_one_block(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine).env("MCP_BRIDGE_OUTPUT_MODE", "toon")).warm();
    assert_eq!(
        bridge.ok("print('a')\nprint('b')"),
        "```toon\nstatus: success\nsummary: Success\nexitCode: 0\nstdout[2]: a,b\nstate: kept\n```"
    );
}

fn structured_content_comes_when_it_is_asked_for(engine: &Engine) {
    let mut plain = Bridge::start(&Home::on(engine)).warm();
    assert_eq!(plain.run("1").structured, None);
    let mut bridge = Bridge::start(&Home::on(engine).env("MCP_BRIDGE_STRUCTURED", "1")).warm();
    let reply = bridge.run("print('a')");
    assert_eq!(reply.text, "a");
    let expected =
        json!({"status": "success", "summary": "Success", "exitCode": 0, "stdout": ["a"], "state": "kept"});
    assert_eq!(reply.structured, Some(expected));
}

fn images_and_text_come_as_blocks(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let code = "import matplotlib.pyplot as plt\nfor n in range(3):\n  plt.figure()\n  plt.plot([1, n])\nprint('drawn')";
    let reply = bridge.run(code);
    assert_eq!((reply.text.as_str(), reply.images.len()), ("drawn", 3));
    for (mime_type, base64) in &reply.images {
        assert_eq!(mime_type, "image/png");
        assert!(base64.starts_with("iVBORw0KGgo"), "a PNG begins like this");
    }
    assert_eq!(bridge.run("1").images.len(), 0, "shown once");
}

fn clients_that_pass_images_on_as_text_get_files(engine: &Engine) {
    let code = "runtime.show(b'\\x89PNG\\r\\n\\x1a\\n' + b'x')";
    let reply_for = |client: &str, home: Home| {
        let mut bridge = Bridge::spawn(&home);
        let about = json!({"name": client, "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about});
        bridge.request("initialize", params).unwrap();
        bridge.notify("notifications/initialized", json!({}));
        let reply = bridge.warm().run(code);
        (reply.images.len(), reply.text)
    };
    let home = || Home::on(engine);
    let mine = || home().env("MCP_BRIDGE_IMAGES_AS_FILES", "mine, other");
    for (client, home) in [("Cline", home()), ("continue-client", home()), ("Mine", mine())] {
        let (images, text) = reply_for(client, home);
        assert_eq!(images, 0, "{client}");
        let file = "images saved as files: /workspace/image-2-1.png (this client shows no images)";
        assert!(text.contains(file), "{client}: {text}");
    }
    for (client, home) in [("claude-code", home()), ("Cline", mine())] {
        assert_eq!(reply_for(client, home).0, 1, "{client}");
    }
}
