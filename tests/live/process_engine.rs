//! Sandboxes without a container engine, as other users than root have them, and on machines that forbid them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::support::{Bridge, Engine, Home};

/// An ordinary user that the set-up has made, with subordinate numbers.
const USER: &str = "belljar-test";

/// A world of its own for commands: a copy of the program and a folder that any user can reach.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    /// None where this test cannot become other users.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || Engine::find("process").is_none() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "it needs root, and this is CI");
            eprintln!("SKIPPED: it needs root, to become other users and to change mounts");
            return None;
        }
        use std::os::unix::fs::PermissionsExt;
        let open = std::fs::Permissions::from_mode(0o777);
        let dir = tempfile::Builder::new().permissions(open).tempdir().unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_belljar"), dir.path().join("belljar")).unwrap();
        Some(Self { dir })
    }

    /// Runs code as this user in mounts of its own that `first` has changed; the exit code, and all that was said.
    fn run(&self, user: &str, first: &str, code: &str) -> (Option<i32>, String) {
        self.run_with((&["--mount"], first), user, "process", code)
    }

    fn run_with(
        &self,
        (namespaces, first): (&[&str], &str),
        user: &str,
        engine: &str,
        code: &str,
    ) -> (Option<i32>, String) {
        let home: PathBuf = self.dir.path().join(format!("home-{user}"));
        std::fs::create_dir_all(&home).unwrap();
        let user =
            nix::unistd::User::from_name(user).unwrap().map_or(user.to_owned(), |user| user.uid.to_string());
        let number = user.parse().unwrap();
        nix::unistd::chown(&home, Some(nix::unistd::Uid::from_raw(number)), None).unwrap();
        // Podman would be started.
        let path = if engine == "auto" { "/nowhere" } else { "/usr/bin:/bin" };
        let (program, home) = (self.dir.path().join("belljar"), home.display().to_string());
        let line = format!(
            "mount --make-rprivate / && {first} && exec setpriv --reuid {user} --regid {user} --clear-groups \
             env --ignore-environment HOME={home} PATH={path} MCP_BRIDGE_RUNTIME={engine} {} run -c \"$0\"",
            program.display()
        );
        let ran = Command::new("unshare").args(namespaces).args(["sh", "-c", &line, code]).output().unwrap();
        let said = [ran.stdout, ran.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        (ran.status.code(), said)
    }
}

/// The number of the sandbox's user on the machine.
const OUTSIDE: &str = "print('is', open('/proc/self/uid_map').read().split()[1])";

#[test]
fn a_user_with_subordinate_numbers_has_code_run_as_one_of_them() {
    let Some(world) = World::new() else { return };
    let (code, said) = world.run(USER, "true", OUTSIDE);
    let number = said.split_whitespace().nth(1).and_then(|number| number.parse::<u32>().ok());
    assert!(code == Some(0) && number.is_some_and(|number| number >= 100_000), "{said}");
    assert!(!said.contains("your own user"), "{said}");
}

#[test]
fn a_user_without_subordinate_numbers_is_told_that_code_has_its_own() {
    let Some(world) = World::new() else { return };
    let (code, said) = world.run("4242", "true", OUTSIDE);
    assert!(code == Some(0) && said.starts_with("is 4242\n"), "{said}");
    assert!(
        said.contains("code runs as your own user 4242") && said.contains("usermod --add-subuids"),
        "{said}"
    );
}

#[test]
fn a_machine_with_hidden_processes_or_without_shared_memory_has_sandboxes() {
    let Some(world) = World::new() else { return };
    // Before Linux 5.8 the option is that of all mounts of a PID namespace.
    let own_processes: &[_] = &["--mount", "--pid", "--fork", "--mount-proc"];
    let hidden = (own_processes, "mount -t proc -o hidepid=2 proc /proc");
    for (namespaces, first) in [hidden, (&["--mount"], "umount /dev/shm")] {
        for user in ["0", USER, "4242"] {
            let (code, said) = world.run_with((namespaces, first), user, "process", "print('ran')");
            assert!(code == Some(0) && said.starts_with("ran\n"), "{first} {user}: {said}");
        }
    }
}

#[test]
fn a_machine_that_forbids_it_is_said_with_the_remedy() {
    let Some(world) = World::new() else { return };
    // As an outer container masks it.
    let (code, said) = world.run(USER, "mount -t tmpfs none /proc/irq", "print('ran')");
    assert!(code != Some(0) && said.contains("a process could not mount /proc"), "{said}");
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let broken = format!("mount --bind /dev/null {}", python.display());
    let (code, said) = world.run(USER, &broken, "print('ran')");
    assert!(code != Some(0) && said.contains("Python could not be executed: Permission denied"), "{said}");

    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "process");
    let program = home.command(&["run", "-c", "print('ran')"]);
    let mut forbidden = Command::new("unshare");
    let line = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" run -c \"print('ran')\"";
    forbidden.args(["--user", "--map-root-user", "sh", "-c", line]).arg(program.get_program()).env_clear();
    forbidden.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = String::from_utf8(forbidden.output().unwrap().stderr).unwrap();
    assert!(said.contains("a process could not make a user namespace"), "{said}");
    assert!(said.contains("`sudo sysctl -w user.max_user_namespaces=10000`"), "{said}");
}

#[test]
fn empty_files_end_with_the_places_they_are_in() {
    let Some(engine) = Engine::find("process") else { return };
    let code = "import errno\nfor place in ('/run', '/var/tmp'):\n    \
                try:\n        for number in range(70_000): open(f'{place}/{number}', 'x').close()\n    \
                except OSError as error: print(errno.errorcode[error.errno], number <= 4096)";
    let mut bridge = Bridge::start(&Home::on(&engine)).warm();
    assert_eq!(bridge.ok(code), "ENOSPC True\nENOSPC True");
}

#[test]
fn devices_can_be_written_to_and_not_changed() {
    let Some(engine) = Engine::find("process") else { return };
    let code = "import os\nwith open('/dev/null', 'w') as file: file.write('x')\n\
                print(len(open('/dev/zero', 'rb').read(3)), len(os.urandom(3)))\n\
                for name in ('null', 'zero', 'full', 'random', 'urandom'):\n    \
                print(name, os.statvfs(f'/dev/{name}').f_flag & 15)";
    let mut bridge = Bridge::start(&Home::on(&engine)).warm();
    // Read-only, nosuid and noexec.
    assert_eq!(bridge.ok(code), "3 3\nnull 11\nzero 11\nfull 11\nrandom 11\nurandom 11");
}

#[test]
fn what_takes_containers_is_refused() {
    let Some(engine) = Engine::find("process") else { return };
    for (variable, what) in
        [("MCP_BRIDGE_OCI_RUNTIME", "the OCI runtime runsc"), ("MCP_BRIDGE_IMAGE", "the image runsc")]
    {
        let home = Home::on(&engine).env(variable, "runsc").server("none", json!({"command": "none"}));
        let reply = Bridge::start(&home).run("print('ran')");
        let says = format!("{what} is asked for, which takes Podman or Docker");
        assert!(reply.is_error && reply.text.contains(&says), "{}", reply.text);
    }
}

#[test]
fn any_engine_will_do_and_none_answers_so_processes_serve_and_that_is_said() {
    let Some(world) = World::new() else { return };
    // Where engines listen, there is nothing.
    let nothing = "mount -t tmpfs none /run";
    let (code, said) = world.run_with((&["--mount"], nothing), USER, "auto", "print('ran')");
    assert!(code == Some(0) && said.starts_with("ran\n"), "{said}");
    assert!(
        said.contains("no Podman or Docker answers, so sandboxes are processes of this machine"),
        "{said}"
    );
    let without = format!("{nothing} && mount -t tmpfs none /proc/irq");
    let (code, said) = world.run_with((&["--mount"], &without), USER, "auto", "print('ran')");
    let both = [
        "no container engine is running (",
        ", and this machine does not allow sandboxes",
        "without a container engine: ",
    ];
    assert!(code != Some(0) && both.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn an_engine_that_is_named_is_not_replaced() {
    let Some(engine) = Engine::find("process") else { return };
    for (variable, value) in [
        ("MCP_BRIDGE_RUNTIME", "docker"),
        ("MCP_BRIDGE_RUNTIME", "podman"),
        ("CONTAINER_HOST", "unix:///none"),
        ("DOCKER_HOST", "unix:///none"),
    ] {
        let home = Home::on(&engine).env("MCP_BRIDGE_RUNTIME", "auto");
        let reply = Bridge::start(&home.env(variable, value).env("PATH", "/none")).run("print('ran')");
        if !reply.is_error {
            // The machine has that engine at one of its usual places.
            assert_eq!(variable, "MCP_BRIDGE_RUNTIME", "{}", reply.text);
            assert!(!reply.text.contains("processes of this machine"), "{}", reply.text);
            continue;
        }
        assert!(reply.text.contains("no container engine is running ("), "{}", reply.text);
    }
}
