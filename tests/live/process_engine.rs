//! Sandboxes without a container engine, as other users than root have them, and on machines that forbid them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::on_every_container_engine;
use crate::support::images::with_sources;
use crate::support::{Bridge, Engine, Home, PATIENCE, environments, eventually};

on_every_container_engine!(inside_a_container_it_works_with_the_options_that_the_remedy_names,);

/// An option of Docker's command line.
const SYSTEMPATHS: &str = "systempaths=unconfined";

/// An ordinary user that the set-up has made, with subordinate numbers.
const USER: &str = "belljar-test";

/// The user and the group of an account by its name, or of a number that has no account. After a colon may be another
/// group.
fn numbers(user: &str) -> (u32, u32) {
    if let Some((user, group)) = user.split_once(':') {
        return (numbers(user).0, group.parse().unwrap());
    }
    match nix::unistd::User::from_name(user).unwrap() {
        Some(user) => (user.uid.as_raw(), user.gid.as_raw()),
        None => user
            .parse()
            .map(|number| (number, number))
            .unwrap_or_else(|_| panic!("there is no user {user}: run `scripts/setup.sh test`")),
    }
}

/// The number of a user that has no account, and so no subordinate numbers.
fn no_account() -> String {
    let has_none = |number: &u32| nix::unistd::User::from_uid((*number).into()).unwrap().is_none();
    (4242..).find(has_none).expect("some number has no account").to_string()
}

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
        let (user, group) = numbers(user);
        nix::unistd::chown(&home, Some(user.into()), Some(group.into())).unwrap();
        // Podman would be started.
        let path = if engine == "auto" { "/nowhere" } else { "/usr/bin:/bin" };
        let (program, home) = (self.dir.path().join("belljar"), home.display().to_string());
        let line = format!(
            "mount --make-rprivate / && {first} && exec setpriv --reuid {user} --regid {group} --clear-groups \
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
    let user = no_account();
    let (code, said) = world.run(&user, "true", OUTSIDE);
    assert!(code == Some(0) && said.starts_with(&format!("is {user}\n")), "{said}");
    let own = format!("code runs as your own user {user}");
    assert!(said.contains(&own) && said.contains("usermod --add-subuids"), "{said}");
}

#[test]
fn a_user_in_another_group_than_that_of_the_account_is_told_that_code_has_its_own() {
    let Some(world) = World::new() else { return };
    let (user, group) = numbers(USER);
    let (code, said) = world.run(&format!("{USER}:{}", group + 1), "true", OUTSIDE);
    assert!(code == Some(0) && said.starts_with(&format!("is {user}\n")), "{said}");
    assert!(said.contains("while your group is not the one of your account"), "{said}");
}

#[test]
fn a_machine_with_hidden_processes_or_without_shared_memory_has_sandboxes() {
    let Some(world) = World::new() else { return };
    // Before Linux 5.8 the option is that of all mounts of a PID namespace.
    let own_processes: &[_] = &["--mount", "--pid", "--fork", "--mount-proc"];
    let hidden = (own_processes, "mount -t proc -o hidepid=2 proc /proc");
    for (namespaces, first) in [hidden, (&["--mount"], "umount /dev/shm")] {
        for user in ["0", USER, &no_account()] {
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
fn nothing_of_a_sandbox_runs_on_the_last_processor_nor_can_move_there() {
    let Some(engine) = Engine::find("process") else { return };
    let processors = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    let mut others: Vec<usize> =
        (0..nix::sched::CpuSet::count()).filter(|number| processors.is_set(*number).unwrap()).collect();
    let last = others.pop().unwrap();
    if others.is_empty() {
        return eprintln!("SKIPPED: this machine has only one processor");
    }
    let code = format!(
        "import errno, os, subprocess, sys\n\
         def own(): return sorted(os.sched_getaffinity(0))\n\
         program = 'import os; print(sorted(os.sched_getaffinity(0)))'\n\
         started = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)\n\
         print(own(), await runtime.spawn(own), started.stdout.strip(), sep='\\n')\n\
         for process in (0, os.getpid()):\n  try:\n    os.sched_setaffinity(process, {{{last}}})\n  \
         except OSError as error:\n    print(errno.errorcode[error.errno])\n\
         print(own())"
    );
    let mut bridge = Bridge::start(&Home::on(&engine)).warm();
    let expected = format!("{others:?}\n{others:?}\n{others:?}\nEPERM\nEPERM\n{others:?}");
    assert_eq!(bridge.ok(&code), expected);
    // A later interpreter of the same sandbox is no different.
    let reply = bridge.run_with(json!({"code": code, "reset": true}));
    assert!(reply.text.starts_with(&expected), "{}", reply.text);
}

#[test]
fn the_path_of_a_mounted_folder_is_in_a_command_line_of_the_machine_and_in_none_of_the_sandbox() {
    use std::os::unix::fs::PermissionsExt;
    let Some(engine) = Engine::find("process") else { return };
    let open = std::fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(open).tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let config = format!("[[mount]]\nhost = \"{path}\"\nguest = \"/mnt/data\"\n");
    let mut bridge = Bridge::start(&Home::on(&engine).file(".config/belljar/config.toml", &config)).warm();
    // SECURITY.md says so.
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.map(|process| std::fs::read(process.path().join("cmdline")).unwrap_or_default());
    assert!(lines.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| line.contains(path)));
    // The path is split, so that the code of the run itself does not hold it.
    let (start, end) = path.split_at(path.len() / 2);
    let code = format!(
        "import glob\nlines = [open(name).read() for name in glob.glob('/proc/[0-9]*/cmdline')]\n\
         print(len(lines) > 1, any({start:?} + {end:?} in line for line in lines))"
    );
    assert_eq!(bridge.ok(&code), "True False");
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
    Bridge::start(&Home::on(&engine)).ok("print('ran')");
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

/// An environment that has only its record.
fn made_for(python: &str, version: &str) -> Home {
    let record = json!({
        "python": {"program": python, "version": version.split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>()},
        "labels": {}, "bytes": 0, "created": "",
    });
    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "process");
    let environments = home.path().join(".local/share/belljar/environments");
    let home = home.file(".local/share/belljar/environments/default.x/environment.json", &record.to_string());
    std::os::unix::fs::symlink("default.x", environments.join("default")).unwrap();
    home
}

#[test]
fn an_environment_that_cannot_be_used_is_said_with_the_remedy() {
    if Engine::find("process").is_none() {
        return;
    }
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let python = python.to_str().unwrap();
    let version = python.rsplit_once("/python").unwrap().1;
    let broken =
        made_for(python, version).file(".local/share/belljar/environments/default.x/environment.json", "{");
    let dangling = made_for(python, version);
    std::fs::remove_dir_all(dangling.path().join(".local/share/belljar/environments/default.x")).unwrap();
    for (home, why) in [
        (
            made_for("/usr/bin/python3.99", "3.99"),
            "they are for Python 3.99 in /usr/bin/python3.99, which is not there any more",
        ),
        (
            made_for(python, "3.99"),
            &*format!("they are for Python 3.99 in {python}, which is Python {version} now"),
        ),
        (made_for(python, version), "has no packages"),
        (broken, "EOF while parsing"),
        (dangling, "No such file or directory"),
    ] {
        let said = home.run(&["run", "-c", "print('ran')"]).stderr;
        assert!(
            said.contains("the packages of the image default cannot be used: ") && said.contains(why),
            "{said}"
        );
        assert!(said.contains("build it again with `belljar image build`"), "{said}");
        assert!(home.run(&["doctor"]).stdout.contains(why));
    }
    let home = Home::new()
        .env("MCP_BRIDGE_RUNTIME", "process")
        .env("MCP_BRIDGE_IMAGE", "localhost/belljar/geo:latest");
    let said = home.run(&["run", "-c", "print('ran')"]).stderr;
    assert!(
        said.contains("the image geo is missing on this machine") && said.contains("--name geo"),
        "{said}"
    );
}

#[test]
fn a_machine_without_environment_has_its_own_packages_and_says_how_to_add_others() {
    if Engine::find("process").is_none() {
        return;
    }
    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "process");
    let ran = home.run(&["run", "-c", "import sys; print(sys.prefix)"]);
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "/usr"), "{}", ran.stderr);
    let said = home.run(&["run", "-c", "import no_such_package"]).stderr;
    assert!(said.contains("the user can run `belljar image build --with no_such_package --use`"), "{said}");
    let nothing = home.run(&["image", "ls"]);
    assert_eq!((nothing.code, nothing.stdout.lines().count()), (Some(0), 1), "{}", nothing.stdout);
    for (arguments, says) in [
        (&["--with-languages", "ruby"][..], "--with-languages takes Podman or Docker"),
        (
            &["--from", "docker.io/library/python:3.14-slim"],
            "--from: docker.io/library/python:3.14-slim is not here",
        ),
    ] {
        let refused = home.run(&[&["image", "build"], arguments].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains(says), "{}", refused.stderr);
    }
}

/// What is below the folder of environments.
fn left(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.path().join(".local/share/belljar/environments"));
    entries.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_build_that_is_killed_leaves_no_environment_and_no_process() {
    if Engine::find("process").is_none() {
        return;
    }
    let home = with_sources(Home::new().env("MCP_BRIDGE_RUNTIME", "process"));
    let mut build = home.command(&["image", "build"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    let own = home.path().to_str().unwrap().to_owned();
    let pips = || {
        let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let lines = std::fs::read_dir("/proc").unwrap().flatten().map(line);
        lines.filter(|line| String::from_utf8_lossy(line).contains(&own)).count()
    };
    eventually("pip", PATIENCE, || {
        let folders = left(&home);
        folders.iter().any(|name| {
            home.path().join(format!(".local/share/belljar/environments/{name}/lib64")).exists() && pips() > 1
        })
    });
    build.kill().unwrap();
    build.wait().unwrap();
    eventually("the end of pip", PATIENCE, || pips() == 0);
    let listed = home.run(&["image", "ls"]);
    assert_eq!((listed.code, listed.stdout.lines().count()), (Some(0), 1), "{}", listed.stdout);
    assert_eq!(left(&home), [""; 0]);
    assert_eq!(home.run(&["run", "-c", "print('ran')"]).stdout, "ran\n");
}

#[test]
fn a_build_on_a_full_disk_leaves_nothing_and_says_so() {
    let Some(_world) = World::new() else { return };
    let home = with_sources(Home::new().env("MCP_BRIDGE_RUNTIME", "process"));
    let data = home.path().join(".local/share/belljar");
    std::fs::create_dir_all(&data).unwrap();
    let mut small = Command::new("unshare");
    let line =
        "mount -t tmpfs -o size=64m,mode=700 tmpfs \"$0\" && \"$@\"; echo \"$?\"; ls -A \"$0/environments\"";
    let build = home.command(&["image", "build"]);
    small
        .args(["--mount", "sh", "-c", line])
        .arg(&data)
        .arg(build.get_program())
        .args(build.get_args())
        .env_clear();
    small.envs(build.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = small.output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "1\n", "{said}");
    assert!(said.lines().last().unwrap().contains("the image was not built: ERROR: "), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn an_environment_where_nothing_can_be_executed_is_refused_with_the_remedy() {
    let Some(world) = World::new() else { return };
    let home = world.dir.path().join("home-0/.local/share/belljar/environments");
    std::fs::create_dir_all(&home).unwrap();
    let shared = environments::usual();
    let noexec = format!(
        "mount --bind '{}' '{1}' && mount -o remount,bind,noexec '{1}'",
        shared.display(),
        home.display()
    );
    let (code, said) = world.run("0", &noexec, "print('ran')");
    assert!(
        code != Some(0) && said.contains("it is mounted noexec") && said.contains("set XDG_DATA_HOME"),
        "{said}"
    );
}

#[test]
fn an_environment_of_an_ordinary_user_works_whoever_its_code_is() {
    let Some(world) = World::new() else { return };
    for user in [USER, &no_account()] {
        let (number, group) = numbers(user);
        let data = world.dir.path().join(format!("home-{user}/.local/share/belljar"));
        std::fs::create_dir_all(&data).unwrap();
        let shared = environments::usual();
        let dir = std::fs::canonicalize(shared.join("default")).unwrap();
        let line = "mkdir -m 700 environments && cp -a \"$0\" environments/default.x && ln -s default.x environments/default && \
                    chown -Rh \"$1\" \"$2\"";
        let home = world.dir.path().join(format!("home-{user}"));
        let copied = Command::new("sh")
            .args(["-c", line])
            .arg(dir)
            .arg(format!("{number}:{group}"))
            .arg(home)
            .current_dir(&data)
            .status();
        assert!(copied.unwrap().success());
        let code =
            "import pandas, os; print(pandas.Series([1, 2]).sum(), os.access(pandas.__file__, os.W_OK))";
        let (code, said) = world.run(user, "true", code);
        assert!(code == Some(0) && said.starts_with("3 False\n"), "{user}: {said}");
        std::fs::remove_dir_all(data).unwrap();
    }
}

#[test]
fn code_cannot_change_its_environment_nor_learn_where_it_is() {
    let Some(engine) = Engine::find("process") else { return };
    let home = Home::on(&engine);
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(bridge.ok("import sys\nsys.prefix"), "'/opt/belljar'");
    assert_eq!(
        bridge.ok("import os\n[entry for entry in os.listdir(sys.prefix) if entry == '.build']"),
        "[]"
    );
    let reply = bridge.run("open('/opt/belljar/x', 'w')");
    assert!(
        reply.is_error && reply.text.contains("OSError") || reply.text.contains("PermissionError"),
        "{}",
        reply.text
    );
    assert_eq!(
        bridge.ok("import subprocess\nsubprocess.run(['tabulate', '-h'], capture_output=True).returncode"),
        "0"
    );
    // It names no folder of the machine.
    let code = "import pathlib\n[str(file) for file in [sys.prefix + '/pyvenv.cfg', *pathlib.Path(sys.prefix, 'bin').iterdir()] \
                if b'test-environments' in pathlib.Path(file).read_bytes()]";
    assert_eq!(bridge.ok(code), "[]");
}

fn inside_a_container_it_works_with_the_options_that_the_remedy_names(engine: &Engine) {
    let Some(world) = World::new() else { return };
    let dir = world.dir.path().display();
    let run = |user: &str, security: &[&str]| {
        let opens = |option: &str| security.contains(&option);
        let limit = |name: &str| json!({"Name": name, "Soft": 1024, "Hard": 4096});
        let of_api: Vec<&str> = security.iter().copied().filter(|option| *option != SYSTEMPATHS).collect();
        let host = json!({
            "NetworkMode": "none",
            "Binds": [format!("{dir}:/belljar:ro")],
            "SecurityOpt": of_api,
            "Ulimits": [limit("nofile"), limit("nproc")],
            "LogConfig": {"Type": "json-file"},
        });
        let mut configuration = json!({
            "Image": "localhost/belljar-sandbox:latest",
            "Cmd": ["sh", "-c", "/belljar/belljar run -c 'print(\"ran\")' 2>&1"],
            "User": user,
            "Env": ["HOME=/tmp", "MCP_BRIDGE_RUNTIME=process"],
            "HostConfig": host,
        });
        // Docker's command line does this.
        if opens(SYSTEMPATHS) {
            configuration["HostConfig"]["MaskedPaths"] = json!([]);
            configuration["HostConfig"]["ReadonlyPaths"] = json!([]);
        }
        engine.run_container(&configuration)
    };
    let options = match engine.name {
        "docker" => ["seccomp=unconfined", SYSTEMPATHS],
        _ => ["seccomp=unconfined", "unmask=ALL"],
    };
    let remedy = options.map(|option| format!("--security-opt {option}")).join(" ");
    for user in ["0", "4242"] {
        for too_few in [&[][..], &options[..1]] {
            let said = run(user, too_few);
            assert!(
                said.contains("does not allow sandboxes") && said.contains(&remedy),
                "{user} {too_few:?}: {said}"
            );
        }
        let said = run(user, &options);
        assert!(said.lines().any(|line| line == "ran"), "{user}: {said}");
    }
}

/// A command line after which /usr/bin lacks the programs `gone`, and has those that `first` makes in an empty folder.
fn with_programs(world: &World, gone: &[&str], first: &str) -> String {
    let own = tempfile::tempdir_in(world.dir.path()).unwrap().keep();
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let whiteouts: String =
        gone.iter().map(|name| format!("rm -f {name} && mknod {name} c 0 0 && ")).collect();
    let own = own.display();
    format!(
        "cd {own} && {whiteouts} {first} && mount -t overlay none -o lowerdir={own}:/usr/bin /usr/bin && cd /"
    )
}

#[test]
fn a_machine_without_a_new_python_is_said_with_the_remedy() {
    let Some(world) = World::new() else { return };
    if std::fs::exists("/usr/local/bin/python3").unwrap() {
        return eprintln!("SKIPPED: this machine has a Python in /usr/local/bin as well");
    }
    let real = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let real = real.file_name().unwrap().to_str().unwrap().to_owned();
    let old = "printf '#!/bin/sh\\necho 3.9\\n' > python3 && chmod 755 python3";
    for (first, found) in [
        (with_programs(&world, &["python3", &real], "true"), "no python3"),
        (with_programs(&world, &[&real], old), "/usr/bin/python3 is Python 3.9"),
    ] {
        for user in ["0", USER] {
            let (code, said) = world.run(user, &first, "print('ran')");
            let what = format!("need Python 3.11 or newer in /usr/local/bin or /usr/bin: {found}");
            assert!(code != Some(0) && said.contains(&what), "{user}: {said}");
            assert!(said.contains("install it with `sudo apt-get install python3`"), "{user}: {said}");
        }
    }
}

/// A Podman with a store of its own, and its service.
struct OwnPodman {
    dir: tempfile::TempDir,
    service: std::process::Child,
}

impl OwnPodman {
    fn start(socket: &std::path::Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = format!("unix://{}", socket.display());
        let service =
            Self::command(&dir).args(["system", "service", "--time", "0", &address]).spawn().unwrap();
        eventually("Podman's service", PATIENCE, || std::os::unix::net::UnixStream::connect(socket).is_ok());
        Self { dir, service }
    }

    fn command(dir: &tempfile::TempDir) -> Command {
        let mut command = Command::new("podman");
        command.arg("--root").arg(dir.path().join("root")).arg("--runroot").arg(dir.path().join("run"));
        command
    }
}

impl Drop for OwnPodman {
    fn drop(&mut self) {
        drop(self.service.kill());
        drop(self.service.wait());
    }
}

#[test]
fn a_podman_without_image_is_replaced_until_it_has_one_and_that_is_said() {
    if !nix::unistd::geteuid().is_root() || Engine::find("podman-rootful").is_none() {
        return eprintln!("SKIPPED: it needs root and Podman");
    }
    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "auto");
    std::fs::create_dir(home.path().join("run/podman")).unwrap();
    let podman = OwnPodman::start(&home.path().join("run/podman/podman.sock"));
    let ran = home.run(&["run", "-c", "print('ran')"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "ran\n"), "{}", ran.stderr);
    let notice = "Podman has no image for sandboxes, which `belljar image build` builds, so sandboxes are processes of this \
                  machine";
    assert!(ran.stderr.contains(notice), "{}", ran.stderr);
    assert!(home.run(&["doctor"]).stdout.contains(notice));
    // What is asked for by name is not replaced.
    for (variable, value) in [("MCP_BRIDGE_IMAGE", "localhost/mine:1"), ("MCP_BRIDGE_RUNTIME", "podman")] {
        let said = home.clone().env(variable, value).run(&["run", "-c", "print('ran')"]).stderr;
        assert!(said.contains("the sandbox image is missing: "), "{variable}: {said}");
    }
    // One that has nothing in it shows that Podman is used.
    let empty = "tar --create --files-from /dev/null | \"$@\" import - localhost/belljar-sandbox:latest";
    let import = OwnPodman::command(&podman.dir);
    let words: Vec<_> = std::iter::once(import.get_program()).chain(import.get_args()).collect();
    assert!(Command::new("sh").args(["-c", empty, "sh"]).args(words).status().unwrap().success());
    let said = home.run(&["run", "-c", "print('ran')"]).stderr;
    assert!(!said.contains("processes of this machine") && said.contains("python3"), "{said}");
}
