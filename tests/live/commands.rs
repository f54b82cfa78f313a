//! The commands for people, with an engine: `run` and `doctor`.

use std::io::{Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::engine_gate::{EngineGate, Hold};
use crate::support::engine_proxy::EngineProxy;
use crate::support::home::Output;
use crate::support::{Bridge, Engine, Fixture, Home, eventually};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(
    run_prints_what_the_code_prints_and_exits_as_it_does,
    run_prints_all_of_it_however_much_it_is,
    run_takes_code_from_an_argument_a_file_and_stdin,
    run_reaches_the_servers_that_it_is_given,
    run_that_fails_tells_the_calls_that_it_has_made_as_a_reply_does,
    run_ends_code_over_its_time,
    run_that_the_user_interrupts_tells_what_it_has_printed_and_called_and_leaves_nothing,
    run_tells_what_becomes_of_jobs_and_saved_files,
    run_leaves_nothing,
    run_steers_no_terminal_and_leaves_files_as_they_are,
    doctor_tells_engine_image_and_limits,
);

on_every_container_engine!(
    doctor_tells_what_the_kernel_ends_first,
    doctor_warns_of_a_runtime_that_is_known_to_let_code_out,
);

/// Without the notices about the engine.
fn run(home: &Home, arguments: &[&str], stdin: &str) -> Output {
    let mut output = home.run_with(arguments, stdin);
    let is_notice = |line: &&str| {
        line.starts_with("belljar: the container engine is rootful")
            || line.contains(" is not enforced by this engine: belljar watches it")
    };
    let lines = output.stderr.lines().filter(|line| !is_notice(line));
    output.stderr = lines.map(|line| format!("{line}\n")).collect();
    output
}

fn left(code: i32, stdout: &str, stderr: &str) -> Output {
    Output { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

fn run_prints_what_the_code_prints_and_exits_as_it_does(engine: &Engine) {
    let home = Home::on(engine);
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)";
    assert_eq!(run(&home, &["run", "-c", code], ""), left(3, "out\n", "err\n"));
    assert_eq!(run(&home, &["run", "-c", "1 + 1"], ""), left(0, "2\n", ""));
    let raised = run(&home, &["run", "-c", "print('before')\n1 / 0"], "");
    assert_eq!((raised.code, raised.stdout.as_str()), (Some(1), "before\n"));
    assert!(raised.stderr.ends_with("\nZeroDivisionError: division by zero\n"), "{}", raised.stderr);
    let died = run(&home, &["run", "-c", "import os; os._exit(9)"], "");
    assert_eq!(died, left(9, "", "belljar: the interpreter ended itself with 9\n"));
}

fn run_steers_no_terminal_and_leaves_files_as_they_are(engine: &Engine) {
    let home = Home::on(engine);
    let code = r"import sys
text = '\x1b]0;owned\x07\x1b[2J\u202e\x9b5n'
print(text)
print(text, file=sys.stderr)
class Odd(Exception): pass
class Shown:
    def __repr__(self): return text
Shown()";
    let raw = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}\u{9b}5n\n";
    assert_eq!(run(&home, &["run", "-c", code], ""), left(0, &raw.repeat(2), raw));
    let raises = format!("{code}\nraise Odd(text)");
    for (code, times) in [(code, 3), (&raises, 3)] {
        let shown = home.on_terminal(&["run", "-c", code], &[]);
        let escaped = r"\x1b]0;owned\x07\x1b[2J\u202e\x9b5n";
        assert_eq!(shown.matches(escaped).count(), times, "{shown:?}");
        let steers = |one: char| (one.is_control() && one != '\n') || one == '\u{202e}';
        assert!(!shown.contains(steers), "{shown:?}");
    }
}

fn run_prints_all_of_it_however_much_it_is(engine: &Engine) {
    let home = Home::on(engine);
    let output = run(&home, &["run", "-c", "for i in range(300_000): print(f'{i:06d},ok')"], "");
    let expected: String = (0..300_000).map(|i| format!("{i:06},ok\n")).collect();
    assert!(
        output.stdout == expected && output.stderr.is_empty(),
        "{} {}",
        output.stdout.len(),
        output.stderr
    );
    let output = run(&home, &["run", "-c", "for _ in range(70): print('x' * ((1 << 20) - 1))"], "");
    assert_eq!((output.code, output.stdout.len()), (Some(74), 64 << 20), "{}", output.stderr);
    let said = format!("belljar: left out: the last {} bytes of stdout", 6 << 20);
    assert!(output.stderr.starts_with(&said), "{}", output.stderr);
}

fn run_takes_code_from_an_argument_a_file_and_stdin(engine: &Engine) {
    let home = Home::on(engine).file("job.py", "print('from a file')\n");
    assert_eq!(
        run(&home, &["run", "-c", "print('from an argument')"], ""),
        left(0, "from an argument\n", "")
    );
    assert_eq!(run(&home, &["run", "job.py"], ""), left(0, "from a file\n", ""));
    assert_eq!(run(&home, &["run", "-"], "print('from stdin')\n"), left(0, "from stdin\n", ""));
    // As a shell passes a here-document: by a descriptor of a file without a name.
    let mut unnamed = tempfile::tempfile().unwrap();
    unnamed.write_all(b"print('from a descriptor')\n").unwrap();
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        unnamed.rewind().unwrap();
        let mut command = home.command(&["run", name]);
        let output = command.stdin(unnamed.try_clone().unwrap()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "from a descriptor\n", "{name}: {output:?}");
    }
    // A pipe in a folder is not waited for.
    nix::unistd::mkfifo(&home.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let refused = run(&home, &["run", "pipe"], "");
    assert!(refused.code == Some(2) && refused.stderr.contains("is no plain file"), "{}", refused.stderr);
}

fn run_reaches_the_servers_that_it_is_given(engine: &Engine) {
    let (one, two) = (Fixture::new(&[]), Fixture::new(&[]));
    let home = Home::on(engine).server("one", one.entry()).server("two", two.entry());
    let call = "print(await mcp_one.echo(text='hi'))";
    assert_eq!(run(&home, &["run", "--server", "one", "-c", call], ""), left(0, "hi\n", ""));
    assert_eq!(run(&home, &["run", "-c", call], ""), left(0, "hi\n", ""));
    let refused =
        run(&home, &["run", "--server", "two", "-c", "await mcp_servers['one'].echo(text='hi')"], "");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("Server 'one' is not available"), "{}", refused.stderr);
}

fn run_that_fails_tells_the_calls_that_it_has_made_as_a_reply_does(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let code = "await mcp_fixture.echo(text='x')\nawait mcp_fixture.add(a=1, b=2)\n1 / 0";
    let failed = run(&home, &["run", "-c", code], "");
    let told = failed.stderr.lines().last().unwrap().strip_prefix("belljar: ").unwrap().to_owned();
    assert_eq!(told, "calls made: fixture.echo* 1 ok, fixture.add* 1 ok (* not marked read-only)");
    let reply = Bridge::start(&home).warm().run(code);
    assert!(reply.text.lines().any(|line| line == told), "{}", reply.text);
    let cut = run(&home, &["run", "--timeout", "4", "-c", "await mcp_fixture.hang()"], "");
    let unknown = "belljar: calls made: fixture.hang* 1 of unknown outcome (* not marked read-only)\n\
                   belljar: calls with unknown outcome (they may have taken effect): fixture.hang\n";
    assert!(cut.stderr.ends_with(unknown), "{}", cut.stderr);
    assert_eq!(run(&home, &["run", "-c", "await mcp_fixture.echo(text='x')"], ""), left(0, "'x'\n", ""));
}

fn run_ends_code_over_its_time(engine: &Engine) {
    let home = Home::on(engine);
    let code = "print('tick', flush=True)\nwhile True: pass";
    let output = run(&home, &["run", "--timeout", "3.5", "-c", code], "");
    assert_eq!((output.code, output.stdout.as_str()), (Some(124), "tick\n"));
    assert_eq!(
        output.stderr,
        "belljar: it was interrupted at line 2 of the code\nbelljar: ended after 3.5 s, as it was interrupted\n"
    );
}

fn run_that_the_user_interrupts_tells_what_it_has_printed_and_called_and_leaves_nothing(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let code = "print('so far')\nawait mcp_fixture.hang()";
    let mut command = home.command(&["run", "-c", code]);
    let child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the call is under way", crate::support::PATIENCE, || !fixture.ledger().is_empty());
    let owners = home.owners();
    assert_eq!(engine.containers_of(&owners).len(), 1);
    // As a terminal does: to all processes of the group.
    killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(130), &b"so far\n"[..]), "{said}");
    for line in [
        "belljar: interrupted",
        "belljar: calls made: fixture.hang* 1 of unknown outcome (* not marked read-only)",
    ] {
        assert!(said.lines().any(|said| said == line), "{said}");
    }
    eventually("the container goes", std::time::Duration::from_secs(3), || {
        engine.containers_of(&owners).is_empty()
    });
    assert_eq!(fixture.living(), [0; 0]);
}

fn run_tells_what_becomes_of_jobs_and_saved_files(engine: &Engine) {
    let home = Home::on(engine);
    let spawned = run(&home, &["run", "-c", "import time\nruntime.spawn(time.sleep, 600);"], "");
    assert_eq!(spawned.code, Some(0));
    assert!(
        spawned
            .stderr
            .ends_with("belljar: jobs that go on end with this command: `await` them in the code\n"),
        "{}",
        spawned.stderr
    );
    let save = "open('a b.txt', 'w').write('x')\nruntime.save('a b.txt');";
    let saved = run(&home, &["run", "-c", save], "");
    let says =
        saved.stderr.strip_prefix("belljar: kept for the user after this session: `belljar files --session ");
    let (id, get) = says.unwrap_or_else(|| panic!("{saved:?}")).split_once(' ').unwrap();
    assert_eq!((saved.code, get), (Some(0), "get 'a b.txt'`\n"));
    assert_eq!(run(&home, &["files", "--session", id, "get", "a b.txt", "-"], "").stdout, "x");
    let kept =
        "belljar: kept for the user after this session: `belljar files --workspace kept get 'a b.txt'`\n";
    let home = home.env("MCP_BRIDGE_WORKSPACE", "kept");
    assert_eq!(run(&home, &["run", "-c", save], ""), left(0, "", kept));
    assert_eq!(run(&home, &["files", "--workspace", "kept", "get", "a b.txt", "-"], "").stdout, "x");
}

fn run_leaves_nothing(engine: &Engine) {
    let fixture = Fixture::new(&["--grandchild"]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    // The owner's id is read by the code's own server call, while the sandbox is there.
    let mut child = home.command(&["run", "-c", "await mcp_fixture.slow(ms=500)"]).spawn().unwrap();
    eventually("the call is under way", crate::support::PATIENCE, || !fixture.ledger().is_empty());
    let owners = home.owners();
    assert_eq!(engine.containers_of(&owners).len(), 1);
    assert!(child.wait().unwrap().success());
    eventually("the container goes", std::time::Duration::from_secs(3), || {
        engine.containers_of(&owners).is_empty()
    });
    assert!(!fixture.pids().iter().any(|pid| crate::support::processes::is_alive(*pid)));
}

fn doctor_tells_engine_image_and_limits(engine: &Engine) {
    let output = Home::on(engine).run(&["doctor"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{}", output.stdout);
    let kind = engine.name.split('-').next().unwrap();
    let line = |label: &str| {
        let line = output.stdout.lines().find(|line| line.starts_with(label));
        line.unwrap_or_else(|| panic!("no {label} in\n{}", output.stdout)).to_owned()
    };
    let rootless = if engine.is_rootless() { "rootless" } else { "rootful" };
    assert!(line("engine").starts_with(&format!("engine     {kind} ")), "{}", output.stdout);
    assert!(line("engine").ends_with(&format!(", {rootless}")), "{}", output.stdout);
    let of_image = if engine.is_process() {
        assert!(
            !output.stdout.contains("\nruntime") && !output.stdout.contains("\nsocket"),
            "{}",
            output.stdout
        );
        ", for /usr/bin/python3"
    } else {
        let runtime = if kind == "podman" { "crun" } else { "runc" };
        assert!(line("runtime").starts_with(&format!("runtime    {runtime} 1.")), "{}", output.stdout);
        assert_eq!(line("socket"), format!("socket     {}", engine.address()));
        " (Python 3."
    };
    let image = format!("image      localhost/belljar-sandbox:latest{of_image}");
    assert!(line("image").starts_with(&image), "{}", output.stdout);
    assert_eq!(line("network"), "network    none");
    assert_eq!(line("sandbox"), "sandbox    starts and answers");
}

fn doctor_tells_what_the_kernel_ends_first(engine: &Engine) {
    let shown = |change: fn(&mut Value)| {
        let proxy = EngineProxy::changing(engine, change);
        let output = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address()).run(&["doctor"]);
        assert_eq!(output.code, Some(0), "{}", output.stdout);
        let line = output
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("oom        score 1000 of the interpreter, "));
        line.unwrap_or_else(|| panic!("no such line in\n{}", output.stdout)).to_owned()
    };
    let usual = shown(|_| ());
    let score: u32 =
        usual.strip_suffix(" of its supervisor").unwrap_or_else(|| panic!("{usual}")).parse().unwrap();
    // The engine is asked for 500. Nobody can lower what was set by the right to lower scores, which few machines take from
    // root.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let bounding = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap().trim();
    let has_right = u64::from_str_radix(bounding, 16).unwrap() & (1 << 24) != 0;
    assert!(score < 500 || (score == 500 && has_right && !engine.is_rootless()), "{usual}");
    // Podman makes no file of /proc read-only on request.
    if engine.name == "docker" {
        let forbidding = shown(|body| {
            body["HostConfig"]["OomScoreAdj"] = json!(1000);
            body["HostConfig"]["ReadonlyPaths"] = json!(["/proc/1/oom_score_adj"]);
        });
        let said = "1000 of its supervisor; the engine forbids a lower one, so too much memory may end the whole sandbox";
        assert_eq!(forbidding, said);
    }
}

fn doctor_warns_of_a_runtime_that_is_known_to_let_code_out(engine: &Engine) {
    let shown = |version: &str| {
        let components =
            json!([{"Name": "Engine", "Version": "29.0.0"}, {"Name": "runc", "Version": version}]);
        let body = json!({"Version": "29.0.0", "Components": components}).to_string();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let gate = EngineGate::new(engine, Hold::Instead("/version", answer.leak()));
        let output = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &gate.address()).run(&["doctor"]);
        assert_eq!(output.code, Some(0), "{}", output.stdout);
        let lines = output.stdout.lines().skip_while(|line| !line.starts_with("runtime"));
        lines.take_while(|line| !line.starts_with("kernel")).map(str::to_owned).collect::<Vec<_>>()
    };
    let warning = "           WARNING: older than 1.2.8, 1.3.3 and 1.4.0, which close ways out of containers \
                   (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881): update it, unless your distribution has \
                   mended it under this number";
    assert_eq!(shown("1.1.5+ds1"), ["runtime    runc 1.1.5+ds1", warning]);
    assert_eq!(shown("1.3.3"), ["runtime    runc 1.3.3"]);
}
