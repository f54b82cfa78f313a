//! Sandboxes as Pods, on a stand-in for a cluster: tests/cluster shows that clients of others take it for one.

use serde_json::{Value, json};

use crate::support::cluster::Cluster;
use crate::support::{Bridge, Engine, Fixture, PATIENCE, eventually};

crate::on_every_container_engine!(a_session_lives_in_a_pod_and_nothing_stays_behind);

fn a_session_lives_in_a_pod_and_nothing_stays_behind(engine: &Engine) {
    let mut cluster = Cluster::on(engine, "none");
    let fixture = Fixture::new(&[]);
    let home = cluster.home().server("fixture", fixture.entry());
    // Rootless Podman limits no memory where the machine delegates nothing to it.
    let home = home.env("MCP_BRIDGE_ALLOW_WEAK", "memory");
    let mut bridge = Bridge::start(&home);
    assert!(bridge.ok("x = 41\nopen('kept.txt', 'w').write('kept')\nx").starts_with("41"));
    assert_eq!((cluster.listed("pods").len(), cluster.listed("leases").len()), (1, 1));
    // The streams are cut while output and calls are under way.
    let calls = fixture.ledger().len();
    let run = bridge.send_run(json!({"code":
        "for i in range(10):\n    print(i, (await mcp_fixture.add(a=x, b=i))['sum'])\n    await __import__('asyncio').sleep(0.2)"}));
    for made in [2, 5, 8] {
        eventually("calls are made", PATIENCE, || fixture.ledger().len() >= calls + made);
        cluster.fault(json!({"fault": "cut_streams"}));
    }
    let lines: Vec<String> = (0..10).map(|i| format!("{i} {}.0", 41 + i)).collect();
    assert_eq!(bridge.reply(run).text, lines.join("\n"));
    assert_eq!(fixture.ledger().len(), calls + 10, "each call is made once");
    // The API server restarts.
    cluster.fault(json!({"fault": "refuse_connections", "seconds": 3}));
    let run = bridge.send_run(json!({"code": "print(x + 1)", "timeout": 60}));
    assert_eq!(bridge.reply(run).text, "42");
    assert_eq!(
        bridge.ok("data = bytes(30_000_000)\nprint(len(await mcp_fixture.echo(text='y' * 3_000_000)))"),
        "3000000"
    );
    bridge.hang_up();
    bridge.wait(PATIENCE);
    eventually("nothing stays", PATIENCE, || {
        cluster.listed("pods").is_empty() && cluster.listed("leases").is_empty()
    });
}

/// The first engine that is there.
fn cluster() -> Option<Cluster> {
    let engine = Engine::all().into_iter().find(|engine| engine.name != "process");
    if engine.is_none() {
        eprintln!("SKIPPED: there is no container engine");
    }
    engine.map(|engine| Cluster::on(&engine, "none"))
}

#[test]
fn code_cannot_start_what_it_has_written_nor_reach_the_network() {
    let Some(cluster) = cluster() else { return };
    let mut bridge = Bridge::start(&cluster.home());
    let code = "import os, subprocess\n\
                for place in ('/tmp', '/workspace', '/run', '/var/tmp', '/dev/shm'):\n    \
                    open(f'{place}/x', 'w').write('#!/bin/sh\\necho executed')\n    os.chmod(f'{place}/x', 0o755)\n    \
                    try:\n        print(subprocess.run([f'{place}/x'], capture_output=True).stdout)\n    \
                    except OSError as error:\n        print(type(error).__name__)\n\
                print(subprocess.run(['/bin/echo', 'of the image'], capture_output=True).stdout)";
    let refused = "PermissionError\n".repeat(5);
    assert!(bridge.ok(code).starts_with(&format!("{refused}b'of the image\\n'")));
    let code = "import socket\ntry:\n    socket.create_connection(('10.0.0.1', 443), 2)\nexcept OSError as error:\n    print(type(error).__name__)";
    assert_eq!(bridge.ok(code), "PermissionError");
    let many = "import os, time\nfor n in range(2000):\n    try:\n        if os.fork() == 0:\n            time.sleep(30)\n            os._exit(0)\n    except OSError as error:\n        print(type(error).__name__, n < 200)\n        break";
    assert!(bridge.ok(many).starts_with("BlockingIOError True"));
}

#[test]
fn a_pod_that_reaches_the_network_is_refused() {
    let Some(engine) = Engine::all().into_iter().find(|engine| engine.name == "podman-rootful") else {
        return;
    };
    let cluster = Cluster::on(&engine, "podman");
    let reply = Bridge::start(&cluster.home()).run("1");
    assert!(reply.is_error && reply.text.contains("interfaces: got an answer from "), "{}", reply.text);
    eventually("the Pod is removed", PATIENCE, || cluster.listed("pods").is_empty());
}

#[test]
fn the_reply_says_what_became_of_a_pod() {
    let Some(mut cluster) = cluster() else { return };
    let mut bridge = Bridge::start(&cluster.home());
    for (fault, said) in [("oom", "ran out of memory"), ("evict", "evicted"), ("node_gone", "")] {
        bridge.ok("x = 1");
        let run =
            bridge.send_run(json!({"code": "print('begun')\nimport time\ntime.sleep(50)", "timeout": 60}));
        eventually("it runs", PATIENCE, || cluster.listed("pods").len() == 1);
        cluster.fault_of_pod(fault);
        let reply = bridge.reply(run).text;
        assert!(reply.contains("the sandbox went away") && reply.contains(said), "{fault}: {reply}");
    }
    assert!(bridge.ok("2").starts_with('2'));
}

#[test]
fn what_a_cluster_refuses_is_said_with_a_remedy() {
    let Some(mut cluster) = cluster() else { return };
    let home = cluster.home();
    let rules = |deny: Value| json!({"fault": "rules", "user": "bridge", "deny": deny});
    for verb in ["create:pods", "create:leases", "watch:pods", "create:pods/exec"] {
        cluster.fault(rules(json!([verb])));
        let reply = Bridge::start(&home).run("1").text;
        let (verb, resource) = verb.split_once(':').unwrap();
        assert!(reply.contains(verb) && reply.contains(resource), "{verb} {resource}: {reply}");
    }
    cluster.fault(rules(json!([])));
    cluster.fault(json!({"fault": "quota", "namespace": "belljar", "pods": 0}));
    let reply = Bridge::start(&home).run("1").text;
    assert!(reply.contains("quota"), "{reply}");
    cluster.fault(json!({"fault": "quota", "namespace": "belljar", "pods": null}));
    let reply = Bridge::start(&home.clone().env("MCP_BRIDGE_IMAGE", "localhost/absent:1")).run("1").text;
    assert!(reply.contains("localhost/absent:1"), "{reply}");
    cluster.fault(json!({"fault": "answer", "status": 401, "count": 100, "path": "/api"}));
    let reply = Bridge::start(&home).run("1").text;
    assert!(reply.contains("401") || reply.contains("Unauthorized"), "{reply}");
    cluster.fault(json!({"fault": "reset"}));
    // What passes is waited for: a slow server, a full one, and a watch that is too old.
    cluster.fault(
        json!({"fault": "delay", "seconds": 1, "count": 2, "path": "/api/v1/namespaces/belljar/pods"}),
    );
    cluster.fault(
        json!({"fault": "answer", "status": 429, "count": 1, "path": "/api/v1/namespaces/belljar/pods"}),
    );
    assert!(Bridge::start(&home).ok("6 * 7").starts_with("42"));
    eventually("no Pod stays", PATIENCE, || cluster.listed("pods").is_empty());
}

#[test]
fn the_pods_of_a_bridge_that_is_killed_are_removed() {
    let Some(cluster) = cluster() else { return };
    let mut bridge = Bridge::start(&cluster.home());
    bridge.ok("1");
    assert_eq!(cluster.listed("pods").len(), 1);
    bridge.signal(nix::sys::signal::Signal::SIGKILL);
    eventually("its Lease and Pods are removed", PATIENCE, || {
        cluster.listed("pods").is_empty() && cluster.listed("leases").is_empty()
    });
}
