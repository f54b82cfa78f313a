//! The program as the package of npm starts it, by a Node.js that a program can replace and by one that it cannot.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::{Home, program};

/// What starting by the package may take beyond starting Node.js and the program.
const COST_MAX: Duration = Duration::from_millis(40);

/// The script of the package, installed with a package of this platform.
fn installed(home: &Home) -> String {
    let arch = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    let name = format!("@owner/belljar-linux-{arch}");
    let content = json!({"optionalDependencies": {"@owner/belljar-darwin-arm64": "1", &name: "1"}});
    let script = include_str!("../../packaging/belljar.js");
    let home = home.clone().file("node_modules/belljar/package.json", &content.to_string());
    let home = home.file("node_modules/belljar/belljar.js", script);
    let modules = home.path().join("node_modules");
    std::fs::create_dir_all(modules.join(&name)).unwrap();
    symlink(program("belljar"), modules.join(name).join("belljar")).unwrap();
    modules.join("belljar/belljar.js").display().to_string()
}

/// The usual Node.js, and that of the conformance suite, which is newer.
fn nodes() -> Vec<PathBuf> {
    let cache = std::env::var_os("BELLJAR_CACHE").map(PathBuf::from);
    let own = |home| Path::new(&home).join(".cache/belljar");
    let cache = cache.or_else(|| std::env::var_os("HOME").map(own)).unwrap();
    let arch = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    let newer = cache.join(format!("conformance/node_modules/node-linux-{arch}/bin/node"));
    [Some(newer).filter(|node| node.exists()), Some("node".into())].into_iter().flatten().collect()
}

/// The command with the variables of the home.
fn command(home: &Home, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    let own = home.command(&[]);
    let variables = own.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(arguments).env_clear().envs(variables).current_dir(home.path());
    command
}

#[test]
fn arguments_exit_codes_and_signals_pass_through() {
    let home = Home::new();
    let script = installed(&home);
    let expected = home.run(&["run", "-c", "print('a b')", "--timeout", "5"]);
    assert_eq!(expected.code, Some(125));
    for node in nodes() {
        let arguments = [&script, "run", "-c", "print('a b')", "--timeout", "5"];
        let output = command(&home, &node, &arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said), (expected.code, expected.stderr.clone()), "{node:?}");
        let is_replaced = command(&home, &node, &["-e", "process.exit(process.execve ? 0 : 1)"]);
        let is_replaced = { is_replaced }.status().unwrap().success();
        for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
            let mut server = command(&home, &node, &[&script]);
            let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
            }});
            // Both stay open, also during `wait()`: a client that closes one has ended, and belljar ends with 0.
            let mut requests = server.stdin.take().unwrap();
            writeln!(requests, "{initialize}").unwrap();
            let mut reply = String::new();
            let mut replies = BufReader::new(server.stdout.take().unwrap());
            replies.read_line(&mut reply).unwrap();
            assert!(reply.contains("serverInfo"), "{reply}");
            let running = std::fs::read_link(format!("/proc/{}/exe", server.id())).unwrap();
            assert_eq!(running == program("belljar"), is_replaced, "{node:?}");
            kill(Pid::from_raw(server.id().cast_signed()), signal).unwrap();
            assert_eq!(server.wait().unwrap().code(), Some(code), "{node:?}: {signal}");
            drop((requests, replies));
        }
    }
}

#[test]
fn a_missing_platform_package_is_named() {
    let home = Home::new();
    let script = installed(&home);
    std::fs::remove_dir_all(home.path().join("node_modules/@owner")).unwrap();
    let output = command(&home, Path::new("node"), &[&script]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("-linux-")
            && said.ends_with(" is missing; install belljar again, with optional packages\n"),
        "{said}"
    );
}

#[test]
fn the_package_costs_little_more_than_node_and_the_program() {
    let home = Home::new();
    let script = installed(&home);
    for node in nodes() {
        let time = |program: &Path, arguments: &[&str]| {
            let started = Instant::now();
            assert!(command(&home, program, arguments).output().unwrap().status.success());
            started.elapsed()
        };
        let (mut own, mut floor, mut through) = (Duration::MAX, Duration::MAX, Duration::MAX);
        // By turns, since the machine may be busy for a while.
        for _ in 0..15 {
            own = own.min(time(&program("belljar"), &["--version"]));
            floor = floor.min(time(&node, &["-e", "0"]));
            through = through.min(time(&node, &[&script, "--version"]));
        }
        println!("{}: belljar {own:?}, node -e 0 {floor:?}, through the package {through:?}", node.display());
        // Twice the floor, since a busy machine slows a process of two programs more than one of one.
        assert!(through < 2 * (own + floor) + COST_MAX, "{own:?}, {floor:?}, {through:?}");
    }
}
