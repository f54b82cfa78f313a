//! Refused system calls are named when the user asks for it, and the user's own configuration can allow some.

use crate::on_every_engine;
use crate::support::{Bridge, Engine, Home};

on_every_engine!(refused_calls_are_named_after_the_run, calls_can_be_added_and_are_announced);

fn refused_calls_are_named_after_the_run(engine: &Engine) {
    let home = Home::on(engine);
    let code = "import os, socket\n\
                for action in (socket.socket, socket.socket, os.memfd_create):\n  \
                  try: action(*['x'] * (action is os.memfd_create))\n  \
                  except OSError as error: print(error.errno)";
    let traced = home.run(&["run", "--trace-denied", "-c", code]);
    assert_eq!((traced.code, traced.stdout.as_str()), (Some(0), "1\n1\n1\n"), "{}", traced.stderr);
    let line =
        traced.stderr.lines().find(|line| line.starts_with("belljar: refused system calls of ")).unwrap();
    assert!(line.contains("socket (2)") && line.contains("memfd_create (1)"), "{line}");
    let without = home.run(&["run", "-c", code]);
    assert_eq!((without.code, without.stdout.as_str()), (Some(0), "1\n1\n1\n"), "{}", without.stderr);
    assert!(!without.stderr.contains("refused system calls"), "{}", without.stderr);
    let nothing = home.run(&["run", "--trace-denied", "-c", "1"]);
    assert!(nothing.stderr.contains("belljar: no system call was refused\n"), "{}", nothing.stderr);
}

fn calls_can_be_added_and_are_announced(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_EXTRA_SYSCALLS", "memfd_create");
    let said = "system calls allowed by sandbox.extra_syscalls: memfd_create";
    let mut bridge = Bridge::start(&home);
    let reply = bridge.run("import os\nos.close(os.memfd_create('x'))");
    assert!(!reply.is_error && reply.text.contains(&format!("note: {said}")), "{}", reply.text);
    let reply = bridge.run("import socket\nsocket.socket()");
    assert!(reply.is_error && reply.text.contains("PermissionError"), "{}", reply.text);
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains(said), "{}", doctor.stdout);
    let home = Home::on(engine).env("MCP_BRIDGE_EXTRA_SYSCALLS", "memfd_create,ptrace");
    let refused = home.run(&["run", "-c", "1"]);
    let why = "has \"ptrace\", which cannot be added: it reaches into other processes";
    assert!(
        refused.code == Some(125) && refused.stderr.contains(why),
        "{:?} {}",
        refused.code,
        refused.stderr
    );
}
