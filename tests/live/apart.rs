//! What a session over HTTP leaves is seen by no other session of its owner, and by no other owner. Each row says what is
//! left, and how to see it: the session that left it sees it in that way.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::web::{Served, WebClient};
use crate::support::{Engine, Fixture, Home};

on_one_engine_and_processes!(
    code_sees_nothing_that_other_sessions_have_left,
    a_session_of_another_owner_is_answered_like_one_that_never_was,
);

/// What a session leaves, with CANARY in it, and how code prints that.
const LEFT: &[(&str, &str)] = &[
    ("x = 'CANARY'", "print(x)"),
    ("import sys\nsys.left = 'CANARY'", "import sys\nprint(sys.left)"),
    ("import os\nos.environ['LEFT'] = 'CANARY'", "import os\nprint(os.environ['LEFT'])"),
    ("'CANARY in a value'", "print(_)"),
    ("open('/workspace/left', 'w').write('CANARY')", "print(open('/workspace/left').read())"),
    ("open('/workspace/.left', 'w').write('CANARY')", "print(open('/workspace/.left').read())"),
    ("open('/tmp/left', 'w').write('CANARY')", "print(open('/tmp/left').read())"),
    ("import os\nos.mkdir('/tmp/CANARY')", "import os\nprint(os.listdir('/tmp'))"),
    (
        "import os\nos.symlink('CANARY', '/workspace/link')",
        "import os\nprint(os.readlink('/workspace/link'))",
    ),
    (
        "open('/workspace/left_module.py', 'w').write('y = \"CANARY\"')",
        "import left_module\nprint(left_module.y)",
    ),
    ("runtime.state['left'] = 'CANARY'", "print(dict(runtime.state))"),
    ("h = mcp_one.echo.handle_sync(text='CANARY')", "print([h.load() for h in runtime.handles()])"),
    (
        "h = mcp_one.echo.handle_sync(text='CANARY')",
        "own = mcp_one.add.handle_sync(a=1, b=2)\nfor number in range(9):\n    try:\n        \
         print(runtime.Handle({**own._told, 'handle': number}).load())\n    except Exception:\n        pass",
    ),
    (
        "import time\ndef work():\n    print('CANARY', flush=True)\n    time.sleep(60)\njob = runtime.spawn(work)",
        "import time\nuntil = time.monotonic() + 5\nwhile time.monotonic() < until and not any(job.tail() for job in runtime.jobs()):\n    \
         time.sleep(0.05)\nprint([job.tail() for job in runtime.jobs()])",
    ),
    (
        "import time\ndef work():\n    print('CANARY', flush=True)\n    time.sleep(60)\njob = runtime.spawn(work)",
        "import time\nuntil = time.monotonic() + 5\nfound = [runtime.job(number) for number in range(1, 3)]\n\
         while time.monotonic() < until and not found[-1].tail():\n    time.sleep(0.05)\nprint(found[-1].tail())",
    ),
    (
        "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', 'CANARY'])",
        "import glob\nprint([open(path, 'rb').read() for path in glob.glob('/proc/[0-9]*/cmdline')])",
    ),
    (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), name='CANARY', daemon=True).start()",
        "import threading\nprint([thread.name for thread in threading.enumerate()])",
    ),
    (
        "import linecache\nmark = 'CANARY in the source'",
        "import inspect, linecache\nprint([value for key, value in linecache.cache.items() if key.startswith('<run')])",
    ),
    ("import sys\nsys.path.append('/CANARY')", "import sys\nprint(sys.path)"),
    (
        "import logging\nlogging.getLogger('CANARY')",
        "import logging\nprint(list(logging.root.manager.loggerDict))",
    ),
    (
        "kept = ['CANARY of gc']",
        "import gc\nprint([one for one in gc.get_objects() if type(one) is list and one and str(one[0]).endswith(' of gc')])",
    ),
];

/// Runs what prints something, whatever it raises.
fn seen(client: &mut WebClient<'_>, code: &str) -> String {
    let body = code.replace('\n', "\n    ");
    client.ok(&format!("try:\n    {body}\nexcept BaseException as error:\n    print('nothing', type(error))"))
}

fn token(home: &Home, name: &str) -> String {
    home.run(&["token", "add", "--quiet", name]).stdout.trim().to_owned()
}

fn code_sees_nothing_that_other_sessions_have_left(engine: &Engine) {
    let one = Fixture::new(&[]);
    let home = Home::on(engine).server("one", one.entry());
    let (mine, theirs) = (token(&home, "mine"), token(&home, "theirs"));
    let served = Served::start(&home, &[]);
    let (mut first, mut second, mut stranger) =
        (served.client(&mine), served.client(&mine), served.client(&theirs));
    for (number, (left, sees)) in LEFT.iter().enumerate() {
        let canary = format!("canary{number}x");
        first.ok(&left.replace("CANARY", &canary));
        let control = seen(&mut first, sees);
        assert!(control.contains(&canary), "the control of {left}: {control}");
        for (who, other) in [("another session", &mut second), ("another owner", &mut stranger)] {
            let found = seen(other, sees);
            assert!(!found.contains(&canary), "{who} sees {left}: {found}");
        }
    }
    // A checkpoint's name is in the error where there is one of that name.
    first.ok("runtime.checkpoint('canary')");
    assert!(first.run(json!({"code": "1", "checkpoint": "canaries"})).0.contains("'canary'"));
    for other in [&mut second, &mut stranger] {
        assert!(!other.run(json!({"code": "1", "checkpoint": "canaries"})).0.contains("'canary'"));
    }
}

fn a_session_of_another_owner_is_answered_like_one_that_never_was(engine: &Engine) {
    let home = Home::on(engine);
    let (mine, theirs) = (token(&home, "mine"), token(&home, "theirs"));
    let served = Served::start(&home, &[]);
    let mut owner = served.client(&mine);
    owner.ok("open('/workspace/left.txt', 'w').write('canary')\nruntime.save('/workspace/left.txt')");
    let id = owner.session.clone().unwrap();
    let never = id.chars().map(|one| if one == '-' { '-' } else { 'f' }).collect::<String>();
    let files = owner.result("resources/list", json!({}))["resources"].clone();
    let uris: Vec<String> =
        files.as_array().unwrap().iter().map(|file| file["uri"].as_str().unwrap().to_owned()).collect();
    assert!(uris.iter().any(|uri| uri.contains("left.txt")), "{uris:?}");
    let mut requests: Vec<(&str, Value)> = vec![
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "run_python", "arguments": {"code": "print(x)"}})),
        ("resources/list", json!({})),
        ("resources/subscribe", json!({"uri": uris[0]})),
        ("logging/setLevel", json!({"level": "debug"})),
        ("tasks/get", json!({"taskId": "1"})),
        ("ping", json!({})),
    ];
    requests.extend(uris.iter().map(|uri| ("resources/read", json!({"uri": uri}))));
    for (method, params) in requests {
        assert_eq!(owner.send(method, params.clone()).status, 200, "the control of {method}");
        let answer = |session: &str| {
            let answer = served.coming_back(&theirs, Some(session.to_owned())).send(method, params.clone());
            (answer.status, answer.body)
        };
        let foreign = answer(&id);
        assert_eq!((foreign.0, &foreign), (404, &answer(&never)), "{method}");
    }
    // Streams and their events, and the end of the session.
    for (method, more) in [("GET", vec![]), ("GET", vec![("last-event-id", "0")]), ("DELETE", vec![])] {
        let status = |session: &str| {
            let bearer = format!("Bearer {theirs}");
            let mut headers = vec![("authorization", &*bearer), ("mcp-session-id", session)];
            headers.extend([("accept", "text/event-stream"), ("mcp-protocol-version", "2025-11-25")]);
            headers.extend(more.clone());
            served.request(method, "/mcp", &headers, "").status
        };
        // DELETE is answered alike for all, and ends nothing of others.
        assert_eq!(status(&id), status(&never), "{method}");
        assert!(status(&id) >= 400 || method == "DELETE", "{method}");
    }
    assert!(owner.ok("print(open('/workspace/left.txt').read())").starts_with("canary"), "it goes on");
    // Files are found by their addresses in all of an owner's sessions, and in no other's.
    for uri in uris.iter().filter(|uri| uri.contains("left.txt")) {
        let params = json!({"uri": uri});
        assert!(owner.send("resources/read", params.clone()).message().get("result").is_some(), "{uri}");
        for mut stranger in [served.client(&theirs), served.stateless(&theirs)] {
            let answer = stranger.send("resources/read", params.clone()).message();
            assert!(answer.get("error").is_some() && !answer.to_string().contains("canary"), "{answer}");
        }
    }
    assert_eq!(owner.delete().status, 204);
}
