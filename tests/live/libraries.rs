//! What code is written with works under the sandbox's own filter, on every engine.

use crate::on_every_engine;
use crate::support::images::{with_added_packages, with_torch};
use crate::support::{Bridge, Engine, Home, PATIENCE, eventually};

on_every_engine!(
    processes_threads_and_files_work,
    what_the_filter_refuses_is_an_ordinary_error,
    libraries_of_data_work,
    packages_that_users_add_work,
    packages_are_imported_ahead_and_one_that_cannot_be_is_named,
);

/// Runs each code in one session; what each leaves as its value.
fn values(home: &Home, cases: &[(&str, &str)]) {
    let mut bridge = Bridge::start(home).warm();
    for (code, value) in cases {
        let text = bridge.ok(code);
        // Pools of threads stay, which is said.
        let (found, _) = text.split_once("\nsandbox note: threads still running").unwrap_or((&text, ""));
        assert_eq!(found, *value, "{code}");
    }
}

fn packages_are_imported_ahead_and_one_that_cannot_be_is_named(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_PREWARM", "1");
    let code = "import sys\nprint('wave' in sys.modules)";
    assert!(Bridge::start(&home).run(code).text.starts_with("False"), "the control");
    let home = home.env("MCP_BRIDGE_PRELOAD", "wave,no_such_package");
    eventually("it is imported", PATIENCE, || {
        // A run that arrives at once does not wait for it.
        let mut bridge = Bridge::start(&home);
        std::thread::park_timeout(std::time::Duration::from_secs(2));
        let reply = bridge.run(code).text;
        let note = "sandbox.preload: no_such_package cannot be imported (No module named 'no_such_package')";
        reply.starts_with("True") && reply.contains(note)
    });
}

fn libraries_of_data_work(engine: &Engine) {
    values(
        &Home::on(engine),
        &[
            (
                "import numpy as np\nfloat(np.linalg.det(np.eye(200) * 1.0) + np.ones((50, 50)).dot(np.ones(50)).sum())",
                "2501.0",
            ),
            (
                "import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyx')})\n\
                 d.to_csv('/tmp/d.csv', index=False)\n\
                 int(pd.read_csv('/tmp/d.csv').groupby('b')['a'].sum()['x'])",
                "4",
            ),
            (
                "import pyarrow.parquet\nd.to_parquet('/tmp/d.parquet')\nlen(pd.read_parquet('/tmp/d.parquet'))",
                "3",
            ),
            ("d.to_excel('/tmp/d.xlsx', index=False)\nlen(pd.read_excel('/tmp/d.xlsx'))", "3"),
            ("from scipy import optimize\nround(optimize.brentq(lambda x: x * x - 2, 0, 2), 6)", "1.414214"),
            (
                "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('/tmp/p.png')\nplt.close('all')\n\
                 open('/tmp/p.png', 'rb').read(4)",
                "b'\\x89PNG'",
            ),
            (
                "import sqlite3\nc = sqlite3.connect('/workspace/x.db')\nc.execute('pragma journal_mode=wal')\n\
                 c.execute('create table t (n)')\nc.executemany('insert into t values (?)', [(1,), (2,)])\nc.commit()\n\
                 c.execute('select sum(n) from t').fetchone()",
                "(3,)",
            ),
            // What the error about an argument says to send can be sent.
            (
                "import datetime, json, polars\nfrom mcp import runtime\n\
                 def sent(x):\n    try: runtime.call_tool_sync('s', 't', {'x': x})\n    \
                 except TypeError as error: return json.dumps(eval(str(error).split('; send ')[1].replace('its ', 'x')))\n\
                 d['day'] = pd.Timestamp(2025, 1, 2)\nd.loc[0, 'day'] = None\np = polars.DataFrame({'a': [1]})\n\
                 print(sent(d.tail(1)), sent(d['a']), sent(p), sent(p['a']), sent(np.eye(1)))",
                "[{\"a\": 3, \"b\": \"x\", \"day\": \"2025-01-02T00:00:00.000\"}] [1, 2, 3] [{\"a\": 1}] [1] [[1.0]]",
            ),
        ],
    );
}

fn packages_that_users_add_work(engine: &Engine) {
    values(
        &with_added_packages(engine),
        &[
            (
                "import duckdb\nc = duckdb.connect('/workspace/d.duckdb')\n\
                 c.execute('create table t as select range n from range(200000)')\n\
                 c.execute(\"copy t to '/tmp/t.parquet' (format parquet)\")\n\
                 c.sql(\"select sum(n) from '/tmp/t.parquet'\").fetchall()[0][0]",
                "19999900000",
            ),
            (
                "import numba, numpy as np\n@numba.njit(parallel=True)\ndef total(a):\n  s = 0\n  \
                 for i in numba.prange(a.size): s += a[i]\n  return s\n\
                 int(total(np.arange(1000)))",
                "499500",
            ),
            (
                "import cv2\nimage = np.zeros((64, 64, 3), np.uint8)\ncv2.circle(image, (32, 32), 9, (255, 0, 0), -1)\n\
                 cv2.imwrite('/tmp/c.png', cv2.GaussianBlur(image, (5, 5), 0))\n\
                 len(cv2.findContours(cv2.imread('/tmp/c.png', 0), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0])",
                "1",
            ),
            (
                "from lxml import etree\nopen('/tmp/x.xml', 'w').write('<a><b n=\"1\"/><b n=\"2\"/></a>')\n\
                 int(etree.parse('/tmp/x.xml').xpath('sum(//b/@n)'))",
                "3",
            ),
        ],
    );
}

#[test]
#[ignore = "builds an image with a package of gigabytes; `make probes` runs it"]
fn torch_trains_with_more_memory() {
    let Some(engine) = Engine::any() else { return };
    values(
        &with_torch(&engine),
        &[
            (
                "import torch\ntorch.manual_seed(0)\nx = torch.linspace(-1, 1, 64).unsqueeze(1)\n\
                 layer = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(layer.parameters(), lr=0.5)\n\
                 for _ in range(200):\n  optimizer.zero_grad()\n  loss = ((layer(x) - (3 * x + 1)) ** 2).mean()\n  \
                 loss.backward()\n  optimizer.step()\n\
                 round(layer.weight.item(), 2), round(layer.bias.item(), 2)",
                "(3.0, 1.0)",
            ),
            (
                "torch.save(layer.state_dict(), '/tmp/layer.pt')\n\
                 sorted(torch.load('/tmp/layer.pt', weights_only=True))",
                "['bias', 'weight']",
            ),
        ],
    );
}

fn processes_threads_and_files_work(engine: &Engine) {
    values(
        &Home::on(engine),
        &[
            (
                "import asyncio\np = await asyncio.create_subprocess_exec('echo', 'hi', stdout=asyncio.subprocess.PIPE)\n\
                 (await p.communicate())[0]",
                "b'hi\\n'",
            ),
            ("(await asyncio.gather(*[asyncio.to_thread(pow, 2, n) for n in range(4)]))", "[1, 2, 4, 8]"),
            (
                "import subprocess\nsubprocess.run('ls / | wc -l', shell=True, capture_output=True).returncode",
                "0",
            ),
            (
                "import threading\nl = []\nt = [threading.Thread(target=l.append, args=(n,)) for n in range(20)]\n\
                 [x.start() for x in t]\n[x.join() for x in t]\nsum(l)",
                "190",
            ),
            (
                "from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor\n\
                 with ThreadPoolExecutor(4) as pool: r = list(pool.map(abs, [-1, -2]))\nr",
                "[1, 2]",
            ),
            // Its locks are POSIX semaphores in /dev/shm.
            (
                "import multiprocessing as mp\ndef square(n): return n * n\n\
                 with mp.Pool(2) as pool: r = pool.map(square, range(5))\nr",
                "[0, 1, 4, 9, 16]",
            ),
            ("with ProcessPoolExecutor(2) as pool: r = list(pool.map(square, [7]))\nr", "[49]"),
            (
                "def put(queue, lock):\n  with lock: queue.put(6)\n\
                 q, lock = mp.Queue(), mp.Lock()\np = mp.Process(target=put, args=(q, lock))\np.start()\n\
                 r = q.get()\np.join()\n(r, p.exitcode)",
                "(6, 0)",
            ),
            (
                "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, size=10)\n\
                 s.buf[0] = 7\nother = shared_memory.SharedMemory(s.name)\nr = other.buf[0]\nother.close()\ns.close()\ns.unlink()\nr",
                "7",
            ),
            (
                "import tempfile, mmap, shutil\nwith tempfile.TemporaryDirectory() as d:\n  \
                 open(d + '/a', 'wb').write(b'12345')\n  shutil.copyfile(d + '/a', d + '/b')\n  \
                 with open(d + '/b', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: r = m[:2]\nr",
                "b'12'",
            ),
            // What runs under `nice` begins at another value.
            (
                "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (512, 1024))\nos.nice(0) in range(20)",
                "True",
            ),
        ],
    );
}

fn what_the_filter_refuses_is_an_ordinary_error(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok("import ctypes, os, socket, resource\nlibc = ctypes.CDLL(None, use_errno=True)\nkept = 1");
    for action in [
        "socket.socket()",
        "socket.socket(socket.AF_UNIX)",
        "socket.socket(socket.AF_VSOCK)",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "socket.socket(38, 5)",
        "socket.socketpair(socket.AF_INET)",
        "resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))",
        "os.setpriority(os.PRIO_PROCESS, 1, 19)",
        "os.setpriority(os.PRIO_USER, os.getuid(), 19)",
        "os.sched_setaffinity(1, [0])",
        "os.memfd_create('x')",
    ] {
        let reply = bridge.run(action);
        let is_refused = reply.text.contains("PermissionError: [Errno 1] Operation not permitted");
        assert!(reply.is_error && is_refused, "{action}: {}", reply.text);
    }
    let calls = "def refused(name, *arguments):\n  ctypes.set_errno(0)\n  \
                 return (getattr(libc, name)(*arguments), ctypes.get_errno())\n\
                 [refused(*call) for call in [('unshare', 0x10000000), ('unshare', 0x10020000), ('ptrace', 0, 0, 0, 0), \
                 ('mount', b'n', b'/tmp', b'tmpfs', 0, 0), ('setns', 0, 0), ('shmget', 0, 4096, 0o1600)]]";
    assert_eq!(bridge.ok(calls), format!("[{}]", ["(-1, 1)"; 6].join(", ")));
    assert_eq!(bridge.ok("kept"), "1");
}
