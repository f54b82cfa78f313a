//! What a reply shows: values of real libraries, pictures, errors with what helps, and what was cut with the way to it.

use serde_json::{Value, json};

use crate::support::{Bridge, Engine, Fixture, Home};
use crate::{on_every_container_engine, on_one_engine_and_processes};

on_one_engine_and_processes!(
    every_mode_keeps_the_bound_and_the_rest_can_be_read_on,
    a_client_that_shows_less_gets_less,
    output_is_told_as_it_comes_to_a_client_that_set_a_level,
);

on_every_container_engine!(
    values_and_names_of_real_libraries_are_shown,
    figures_pictures_and_files_come_of_real_libraries,
    errors_say_what_helps,
);

fn values_and_names_of_real_libraries_are_shown(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let frame =
        "import numpy as np, pandas as pd\ndf = pd.DataFrame({'id': range(1200), 'price': np.ones(1200)})";
    assert_eq!(bridge.ok(frame), "df: DataFrame 1,200 x 2 [id int64, price float64]");
    assert_eq!(
        bridge.ok("df.head(2)"),
        "DataFrame 2 x 2 [id int64, price float64]\n   id  price\n0   0    1.0\n1   1    1.0"
    );
    let shown = bridge.ok("df");
    assert!(shown.starts_with(
        "DataFrame 1,200 x 2 [id int64, price float64]\n        id  price\n0        0    1.0\n"
    ));
    assert!(shown.ends_with("\n1199  1199    1.0") && shown.lines().count() == 13, "{shown}");
    assert_eq!(
        bridge.ok("s = df['price']\na = np.zeros((1000, 3))"),
        "s: Series 1,200 float64 price\na: ndarray 1,000 x 3 float64"
    );
    assert!(bridge.ok("a").starts_with("ndarray 1,000 x 3 float64\n[[0. 0. 0.]\n"));
    assert_eq!(
        bridge.ok("{'table': df, 'n': 1}"),
        "{'table': DataFrame 1,200 x 2 [id int64, price float64], 'n': 1}"
    );
    assert_eq!(bridge.ok("x = 3"), "x = 3");
    assert_eq!(bridge.ok("x = 3;"), "(no output)");
    let wide = "pd.DataFrame({f'column{n}': ['text ' * 50] * 100 for n in range(60)})";
    let shown = bridge.ok(wide);
    assert!(shown.contains(", … 48 more]\n") && shown.chars().count() <= 16_000, "{shown}");
    bridge.ok("pd.set_option('display.max_rows', 400, 'display.max_colwidth', 20)");
    assert_eq!(bridge.ok("df.head(300)").lines().count(), 302, "the options of pandas hold");
}

fn figures_pictures_and_files_come_of_real_libraries(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let show = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint(plt.get_fignums())\nplt.plot([2, 1]);";
    let reply = bridge.run(show);
    assert_eq!((reply.text.as_str(), reply.images.len()), ("[]", 2));
    let agg = "import matplotlib\nmatplotlib.use('Agg')\nfig, ax = plt.subplots()\nplt.show()\nrepr(fig)";
    let reply = bridge.run(agg);
    assert_eq!((reply.text.as_str(), reply.images.len()), ("'<Figure size 640x480 with 1 Axes>'", 1));
    let pillow = "from PIL import Image\nImage.new('RGB', (8, 8))";
    let reply = bridge.run(pillow);
    assert!(reply.text.starts_with("<PIL.Image.Image image mode=RGB size=8x8"), "{}", reply.text);
    assert_eq!(reply.images.len(), 1);
    let by_hand = "fig = plt.figure()\nruntime.show(fig)\nruntime.show(Image.new('L', (8, 8)))\n\
                   import io\nfile = io.BytesIO()\nImage.new('RGB', (8, 8)).save(file, 'JPEG')\n\
                   runtime.show(file.getvalue())\nplt.get_fignums()";
    let reply = bridge.run(by_hand);
    let types: Vec<&str> = reply.images.iter().map(|(mime_type, _)| mime_type.as_str()).collect();
    assert_eq!((reply.text.as_str(), types), ("[]", vec!["image/png", "image/png", "image/jpeg"]));
    let many = "for n in range(6):\n  plt.figure()\n  plt.plot([n])";
    let reply = bridge.run(many);
    assert_eq!(reply.images.len(), 4);
    let (_, files) = reply.text.split_once("note: images saved as files: ").unwrap();
    let files: Vec<&str> = files.split(" (").next().unwrap().split(", ").collect();
    assert!(files.len() == 2 && files.iter().all(|file| file.starts_with("/workspace/image-")), "{files:?}");
    for file in files {
        assert_eq!(bridge.ok(&format!("open({file:?}, 'rb').read(4)")), "b'\\x89PNG'");
    }
}

/// What stands between the two ends of a cut text, as the expression in it names it.
fn expression(text: &str) -> &str {
    let (_, rest) =
        text.split_once("out = runtime.last_output(); print(out").expect("a cut reply says how to read on");
    rest.split_once(')').unwrap().0
}

fn every_mode_keeps_the_bound_and_the_rest_can_be_read_on(engine: &Engine) {
    for mode in ["compact", "toon", "json"] {
        let home = Home::on(engine).env("MCP_BRIDGE_OUTPUT_MODE", mode);
        let mut bridge = Bridge::start(&home).warm();
        let flood = "import sys\nfor n in range(20_000): print(f'line {n} \"quoted\"')\n\
                     for n in range(5_000): print(f'trouble {n}', file=sys.stderr)\n{n: 'v' * 50 for n in range(500)}";
        let text = bridge.ok(flood);
        assert!(text.chars().count() <= 16_000, "{mode}: {}", text.chars().count());
        assert!(text.contains("line 0 ") && text.contains("trouble 4999"), "{mode}: {text}");
        let slice = expression(&text).to_owned();
        // The code's own words for what it wrote.
        let whole = "''.join(f'line {n} \"quoted\"\\n' for n in range(20_000)) + \
                     ''.join(f'trouble {n}\\n' for n in range(5_000))";
        let same = bridge.ok(&format!("runtime.last_output(){slice} == ({whole}){slice}"));
        assert!(same.contains("True"), "{mode}: {slice}: {same}");
        let error = bridge.run("raise ValueError('long ' * 10_000)").text;
        assert!(error.chars().count() < 2_500, "{mode}: {}", error.chars().count());
    }
}

fn a_client_that_shows_less_gets_less(engine: &Engine) {
    let mut bridge = Bridge::spawn(&Home::on(engine));
    let about = json!({"name": "codex-mcp-client", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about});
    bridge.request("initialize", params).unwrap();
    bridge.notify("notifications/initialized", json!({}));
    let text = bridge.ok("print('x' * 50_000)");
    let chars = text.chars().count();
    assert!((9_000..=10_000).contains(&chars), "{chars}");
}

fn errors_say_what_helps(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    for (code, hint) in [
        ("import requests", "hint: there is no network in here: call a tool of a server instead; "),
        (
            "import urllib.request\nurllib.request.urlopen('http://example.org')",
            "hint: there is no network in here",
        ),
        ("await asyncio.open_connection('example.org', 80)", "hint: there is no network in here"),
        ("import socket\nsocket.create_connection(('10.0.0.1', 80), 1)", "hint: there is no network in here"),
        (
            "import torch",
            "hint: packages cannot be installed, there is no network in here: the user can run `belljar image build --with torch ",
        ),
        (
            "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', 'x'], check=True)",
            "note: packages cannot be installed",
        ),
        (
            "!pip install torch",
            "hint: packages cannot be installed, there is no network in here: the user can run `belljar image build",
        ),
        ("open('/home/me/data.csv')", "hint: files of the host are not in here: "),
        ("import pandas as pd\npd.read_csv('data.csv')", "hint: files of the host are not in here: "),
        ("open('/etc/x', 'w')", "hint: only /workspace and /tmp can be written to"),
        (
            "r = mcp_fixture.echo(text='1')\nr['x']",
            "hint: a coroutine was used as if it were its result: put `await` before the call",
        ),
        ("input('? ')", "hint: nobody can answer input() in here"),
        ("pandas_frame = 1\npanda_frame", "hint: did you mean pandas_frame?"),
    ] {
        let reply = bridge.run(code);
        assert!(reply.is_error && reply.text.contains(hint), "{code}: {}", reply.text);
        assert!(!reply.text.contains("belljar_sandbox"), "{code}: {}", reply.text);
        assert!(reply.text.chars().count() < 2_000, "{code}: {}", reply.text);
    }
    assert_eq!(
        bridge.run("for x in range(3)\n  print(x)").text,
        "status: error\nexit: 1\n  File \"<run 15>\", line 1\n    for x in range(3)\n                     ^\n\
         SyntaxError: expected ':'\nstate: variables kept"
    );
    let unsent = bridge.run("mcp_fixture.echo(text='1')\nprint('end')").text;
    assert!(unsent.contains("note: called without `await`, hence not sent: fixture.echo; "), "{unsent}");
    assert_eq!(fixture.ledger(), [""; 0]);
    let late = bridge.run_with(json!({"code": "x = 1\nwhile True:\n  pass", "timeout": 1})).text;
    assert!(late.contains("\nnote: it was interrupted at line "), "{late}");
}

fn output_is_told_as_it_comes_to_a_client_that_set_a_level(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let both = "import sys\nprint('out')\nprint('err', file=sys.stderr)";
    bridge.ok(both);
    assert_eq!(bridge.rest(), [json!(null); 0], "nobody asked");
    let told = |bridge: &mut Bridge| -> Vec<Value> {
        bridge.rest().into_iter().map(|mut message| message["params"].take()).collect()
    };
    bridge.request("logging/setLevel", json!({"level": "info"})).unwrap();
    bridge.ok(both);
    assert_eq!(
        told(&mut bridge),
        [
            json!({"level": "info", "logger": "stdout", "data": "out\n"}),
            json!({"level": "warning", "logger": "stderr", "data": "err\n"})
        ]
    );
    bridge.request("logging/setLevel", json!({"level": "error"})).unwrap();
    bridge.ok(both);
    assert_eq!(bridge.rest(), [json!(null); 0], "output is no error");
    bridge.request("logging/setLevel", json!({"level": "debug"})).unwrap();
    let id = bridge.send_run(json!({"code": "print('at once', flush=True)\nimport time\ntime.sleep(60)"}));
    let first = bridge.notification("notifications/message");
    assert_eq!(first["params"]["data"], "at once\n");
    bridge.notify("notifications/cancelled", json!({"requestId": id}));
    bridge.ok("for n in range(20_000): print('flood', n)");
    let messages = told(&mut bridge);
    let chars: usize = messages.iter().map(|message| message["data"].as_str().unwrap().chars().count()).sum();
    assert!(messages.len() < 100 && chars < 70_000, "{} messages of {chars} characters", messages.len());
}
