//! Runs that outlast their request: clients that take tasks look after them, answer and cancel them; others wait.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::bridge::Reply;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    a_run_that_lasts_is_a_task_which_ends_with_its_reply,
    what_a_task_s_run_asks_is_asked_by_the_task,
    a_task_that_is_cancelled_ends_its_run_and_nothing_else,
    one_that_waits_for_an_answer_can_be_cancelled_as_well,
    one_that_waits_for_its_turn_is_cancelled_at_once,
    a_client_that_takes_no_tasks_waits_for_its_reply,
    a_client_without_handshake_says_with_each_request_that_it_takes_tasks,
);

const TASKS: &str = "io.modelcontextprotocol/tasks";
/// Longer than a request waits.
const LASTS: &str = "import time\ntime.sleep(6.5)\nprint('slept')";

fn taking_tasks(home: &Home) -> Bridge {
    let home = home.clone().env("MCP_BRIDGE_TASK_AFTER", "5");
    Bridge::start_with(&home, json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}})).warm()
}

fn asks(code: &str) -> Value {
    json!({"name": "run_python", "arguments": {"code": code}})
}

fn task_of(answer: &Value) -> String {
    assert_eq!(answer["resultType"], "task", "{answer}");
    answer["taskId"].as_str().unwrap().to_owned()
}

fn get(bridge: &mut Bridge, task: &str) -> Value {
    bridge.request("tasks/get", json!({"taskId": task})).unwrap()
}

/// As it is when it is no longer so.
fn no_longer(status: &str, bridge: &mut Bridge, task: &str) -> Value {
    let mut last = Value::Null;
    eventually("the task changes", PATIENCE, || {
        last = get(bridge, task);
        last["status"] != status
    });
    last
}

fn reply_of(task: &Value) -> Reply {
    assert_eq!(task["status"], "completed", "{task}");
    Reply::of(task["result"].clone())
}

fn a_run_that_lasts_is_a_task_which_ends_with_its_reply(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = taking_tasks(&Home::on(engine).server("fixture", fixture.entry()));
    // One that is quick is none.
    assert_eq!(bridge.ok("print('quick')"), "quick");
    let code = format!("await mcp_fixture.echo(text='x')\n{LASTS}\nkept = 1");
    let begun = bridge.request("tools/call", asks(&code)).unwrap();
    assert_eq!((&begun["status"], &begun["ttlMs"]), (&json!("working"), &Value::Null), "{begun}");
    assert_eq!(begun["pollIntervalMs"], 1_000);
    let task = task_of(&begun);
    let looked = get(&mut bridge, &task);
    assert_eq!(looked["status"], "working", "{looked}");
    assert!(
        looked["statusMessage"].as_str().is_some_and(|said| said == "working" || said.starts_with("running")),
        "{looked}"
    );
    // One behind it waits, and is its own task or none.
    let behind = bridge.send_request("tools/call", asks("print(kept)"));
    let ended = no_longer("working", &mut bridge, &task);
    let reply = reply_of(&ended);
    assert!(!reply.is_error && reply.text.starts_with("slept"), "{}", reply.text);
    assert!(ended["ttlMs"].as_u64().is_some_and(|ttl| ttl > 600_000), "{ended}");
    let behind = bridge.answer(behind).unwrap();
    let behind = if behind["resultType"] == "task" {
        let behind = task_of(&behind);
        reply_of(&no_longer("working", &mut bridge, &behind))
    } else {
        Reply::of(behind)
    };
    assert!(behind.text.starts_with('1'), "{}", behind.text);
    // The end can be read again.
    assert_eq!(reply_of(&get(&mut bridge, &task)).text, reply.text);
    for (method, params) in [
        ("tasks/get", json!({"taskId": "no-such"})),
        ("tasks/cancel", json!({"taskId": "no-such"})),
        ("tasks/update", json!({"taskId": "no-such", "inputResponses": {}})),
    ] {
        let refused = bridge.request(method, params).unwrap_err();
        assert_eq!(refused["code"], -32602, "{refused}");
        assert!(refused["message"].as_str().unwrap().starts_with("no task has this taskId"), "{refused}");
    }
    let refused = bridge.request("tasks/get", json!({})).unwrap_err();
    assert_eq!(refused["message"], "tasks/get wants a taskId");
}

fn careful(engine: &Engine, fixture: &Fixture) -> Bridge {
    let home = Home::on(engine).server("fixture", fixture.entry());
    taking_tasks(&home.file(".config/belljar/config.toml", "[policy]\nprofile = \"careful\"\n"))
}

fn what_a_task_s_run_asks_is_asked_by_the_task(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = careful(engine, &fixture);
    let code = "print([await mcp_fixture.echo(text=t) for t in 'ab'])";
    let task = task_of(&bridge.request("tools/call", asks(code)).unwrap());
    let allow = json!({"action": "accept", "content": {"decision": "allow this call"}});
    for (key, argument) in [("question-1", "\"a\""), ("question-2", "\"b\"")] {
        let asked = no_longer("working", &mut bridge, &task);
        assert_eq!(asked["status"], "input_required", "{asked}");
        let question = &asked["inputRequests"][key];
        assert_eq!(question["method"], "elicitation/create", "{asked}");
        let message = question["params"]["message"].as_str().unwrap();
        assert!(message.contains("echo") && message.contains(argument), "{message}");
        // What answers nothing counts for nothing.
        let other = json!({"taskId": task, "inputResponses": {"question-0": allow, "question-9": allow}});
        bridge.request("tasks/update", other).unwrap();
        assert_eq!(get(&mut bridge, &task)["status"], "input_required");
        let answer = json!({"taskId": task, "inputResponses": {key: allow}});
        bridge.request("tasks/update", answer.clone()).unwrap();
        // A second time it is none.
        bridge.request("tasks/update", answer).unwrap();
        eventually("the question is answered", PATIENCE, || {
            get(&mut bridge, &task)["inputRequests"][key].is_null()
        });
    }
    let reply = reply_of(&no_longer("working", &mut bridge, &task));
    assert!(reply.text.starts_with("['a', 'b']"), "{}", reply.text);
    assert_eq!(fixture.ledger().len(), 2);
}

fn a_task_that_is_cancelled_ends_its_run_and_nothing_else(engine: &Engine) {
    let mut bridge = taking_tasks(&Home::on(engine));
    bridge.ok("x = 41");
    let task = task_of(&bridge.request("tools/call", asks("x += 1\nwhile True: pass")).unwrap());
    bridge.request("tasks/cancel", json!({"taskId": task})).unwrap();
    let ended = no_longer("working", &mut bridge, &task);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("cancelled"), &Value::Null), "{ended}");
    assert_eq!(bridge.ok("print(x)"), "42");
    // It has ended already.
    bridge.request("tasks/cancel", json!({"taskId": task})).unwrap();
    assert_eq!(bridge.ok("print(x)"), "42");
}

fn one_that_waits_for_an_answer_can_be_cancelled_as_well(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = careful(engine, &fixture);
    let task =
        task_of(&bridge.request("tools/call", asks("y = 1\nawait mcp_fixture.echo(text='x')")).unwrap());
    assert_eq!(no_longer("working", &mut bridge, &task)["status"], "input_required");
    bridge.request("tasks/cancel", json!({"taskId": task})).unwrap();
    eventually("the task is cancelled", PATIENCE, || get(&mut bridge, &task)["status"] == "cancelled");
    assert_eq!(bridge.ok("print(y)"), "1");
    assert_eq!(fixture.ledger().len(), 0);
}

fn one_that_waits_for_its_turn_is_cancelled_at_once(engine: &Engine) {
    let mut bridge = taking_tasks(&Home::on(engine));
    let first = task_of(&bridge.request("tools/call", asks("while True: pass")).unwrap());
    let second = task_of(&bridge.request("tools/call", asks("z = 1")).unwrap());
    assert_eq!(get(&mut bridge, &second)["status"], "working");
    bridge.request("tasks/cancel", json!({"taskId": second})).unwrap();
    assert_eq!(no_longer("working", &mut bridge, &second)["status"], "cancelled");
    assert_eq!(get(&mut bridge, &first)["status"], "working");
    bridge.request("tasks/cancel", json!({"taskId": first})).unwrap();
    assert_eq!(no_longer("working", &mut bridge, &first)["status"], "cancelled");
    assert!(bridge.ok("'z' in globals()").starts_with("False"));
}

fn a_client_that_takes_no_tasks_waits_for_its_reply(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let answer = bridge.request("tools/call", asks(LASTS)).unwrap();
    assert!(Reply::of(answer).text.starts_with("slept"));
    let refused = bridge.request("tasks/get", json!({"taskId": "x"})).unwrap_err();
    assert_eq!(refused["data"]["requiredCapabilities"]["extensions"][TASKS], json!({}), "{refused}");
}

fn a_client_without_handshake_says_with_each_request_that_it_takes_tasks(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry()).env("MCP_BRIDGE_TASK_AFTER", "5");
    let mut bridge =
        Bridge::spawn(&home.file(".config/belljar/config.toml", "[policy]\nprofile = \"careful\"\n"));
    let with = |mut params: Value, can: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": can,
        });
        params
    };
    let can = json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}});
    let known = bridge.request("server/discover", with(json!({}), json!({}))).unwrap();
    assert_eq!(known["capabilities"]["extensions"][TASKS], json!({}), "{known}");
    // The first run also starts the sandbox.
    bridge.request("tools/call", with(asks("1"), json!({}))).unwrap();
    let plain = bridge.request("tools/call", with(asks(LASTS), json!({}))).unwrap();
    assert!(Reply::of(plain).text.starts_with("slept"));

    // What it is asked while its request waits is the answer to that, as without tasks.
    let code = format!("await mcp_fixture.echo(text='x')\n{LASTS}\nawait mcp_fixture.echo(text='y')");
    let allow = json!({"action": "accept", "content": {"decision": "allow this call"}});
    let mut again = with(asks(&code), can.clone());
    let asked = bridge.request("tools/call", again.clone()).unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({"question": allow});
    let task = task_of(&bridge.request("tools/call", again).unwrap());
    // And later by the task.
    let mut get = |method: &str, mut params: Value| {
        params["taskId"] = json!(task);
        bridge.request(method, with(params, can.clone())).unwrap()
    };
    eventually("the task asks", PATIENCE, || get("tasks/get", json!({}))["status"] == "input_required");
    get("tasks/update", json!({"inputResponses": {"question-1": allow}}));
    let mut last = Value::Null;
    eventually("the task ends", PATIENCE, || {
        last = get("tasks/get", json!({}));
        last["status"] == "completed"
    });
    assert!(reply_of(&last).text.starts_with("slept"), "{last}");
    assert_eq!(fixture.ledger().len(), 2);
}
