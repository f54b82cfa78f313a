//! Folders of the user in the sandbox: what is configured is there as it was asked for, and nothing else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use serde_json::{Value, json};

use crate::docs::{Step, steps};
use crate::support::engine_proxy::EngineProxy;
use crate::support::{Bridge, Engine, Home, PATIENCE, eventually};
use crate::{on_every_container_engine, on_every_engine, on_one_engine_and_processes};

on_every_engine!(
    folders_are_there_as_configured_and_errors_say_where_a_file_is,
    without_a_mount_an_error_names_it,
    a_folder_with_a_pipe_or_socket_is_not_mounted,
    code_does_not_rewrite_a_configuration_file_that_is_a_link,
    code_does_not_choose_what_is_mounted_next,
    a_dry_run_stores_no_file_and_says_which_folders_it_can_change,
    a_later_mount_of_the_host_does_not_appear_and_stays_on_the_host,
    a_confined_server_does_not_choose_what_code_sees,
    examples_on_mounts_reply_as_the_page_says,
);

on_every_container_engine!(
    a_folder_that_is_looser_than_asked_for_is_refused,
    a_folder_that_another_one_has_replaced_since_it_was_checked_is_refused,
    a_later_mount_of_the_host_appears_where_mounts_are_shared_with_it,
);

on_one_engine_and_processes!(
    a_folder_that_is_exchanged_again_and_again_is_never_the_one_that_was_refused,
    code_gets_no_folder_to_change_while_that_cannot_be_recorded,
);

const CONFIG: &str = ".config/belljar/config.toml";

/// A folder that a rootless engine's user can reach too, with a file that everybody may read.
fn data() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    write(folder.path(), "sales.csv", "city,sold\nOslo,3\nBergen,5\n", 0o644);
    folder
}

fn write(folder: &Path, name: &str, text: &str, mode: u32) {
    fs::write(folder.join(name), text).unwrap();
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
}

fn mount(host: &Path, guest: &str, more: &str) -> String {
    format!("[[mount]]\nhost = \"{}\"\nguest = \"{guest}\"\n{more}\n", host.display())
}

fn code_gets_no_folder_to_change_while_that_cannot_be_recorded(engine: &Engine) {
    let data = data();
    fs::set_permissions(data.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let home = Home::on(engine).file(CONFIG, &mount(data.path(), "/mnt/data", "writable = true"));
    // The user's own link, to a folder that others see.
    let (state, open) = (home.path().join(".local/state/belljar"), home.path().join("open"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(state.parent().unwrap()).unwrap();
    let _ = fs::remove_dir_all(&state);
    symlink(&open, &state).unwrap();
    let code = "print(open('/mnt/data/sales.csv').read(4))";
    let refused = Bridge::start(&home).run(code).text;
    assert!(refused.contains("no sandbox is started: ") && refused.contains("given-places"), "{refused}");
    let hint = "the user has to make that folder writable, and private";
    assert!(refused.contains(hint) && refused.contains(&open.display().to_string()), "{refused}");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(Bridge::start(&home).warm().ok(code), "city");
}

fn folders_are_there_as_configured_and_errors_say_where_a_file_is(engine: &Engine) {
    let (data, out) = (data(), data());
    write(data.path(), "own.csv", "x", 0o600);
    write(data.path(), "run.sh", "#!/bin/sh\necho ran\n", 0o755);
    fs::set_permissions(out.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let config =
        mount(data.path(), "/mnt/data", "") + &mount(out.path(), "/mnt/results/mine", "writable = true");
    let mut home = Home::on(engine).file(CONFIG, &config);
    if engine.name == "docker" {
        // It mounts no folder writable in which nothing can be executed.
        let reply = Bridge::start(&home).run("print('ran')");
        let says = "mounts: got /mnt/results/mine (ext4, rw,relatime), expected rw,noexec,nosuid,nodev";
        assert!(reply.is_error && reply.text.contains(says), "{}", reply.text);
        home = home.env("MCP_BRIDGE_ALLOW_WEAK", "mounts");
    }
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(bridge.ok("print(open('/mnt/data/sales.csv').readline())"), "city,sold");
    let raises = |bridge: &mut Bridge, code: &str, says: &str| {
        let reply = bridge.run(code);
        assert!(reply.is_error && reply.text.contains(says), "{code}: {}", reply.text);
    };
    raises(&mut bridge, "open('/mnt/data/new', 'w')", "Read-only file system");
    raises(&mut bridge, "import os\nos.remove('/mnt/data/sales.csv')", "Read-only file system");
    raises(&mut bridge, "import subprocess\nsubprocess.run(['/mnt/data/run.sh'])", "Permission denied");
    bridge.ok("with open('/mnt/results/mine/out.txt', 'w') as file: file.write('done')");
    assert_eq!(fs::read_to_string(out.path().join("out.txt")).unwrap(), "done");
    raises(&mut bridge, "open('/home/me/2026/data/sales.csv')", "in here that may be /mnt/data/sales.csv");
    raises(
        &mut bridge,
        "open('/home/me/else.csv')",
        "only these folders are in here: /mnt/data, /mnt/results/mine; the user adds others with [[mount]]",
    );
    raises(&mut bridge, "open('/mnt/data/own.csv')", "its mode lets only its owner read");
    // Docker alone needs one.
    assert_eq!(engine.volumes_of(data.path()).len(), usize::from(engine.name == "docker"));
    bridge.hang_up();
    bridge.wait(Duration::from_secs(10));
    eventually("what was made for it goes", PATIENCE, || engine.volumes_of(data.path()).is_empty());
}

fn without_a_mount_an_error_names_it(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let reply = bridge.run("open('/home/me/data.csv')");
    assert!(reply.text.contains("files of the host are not in here"), "{}", reply.text);
    assert!(reply.text.contains("[[mount]] in config.toml"), "{}", reply.text);
    assert!(reply.text.contains("`belljar run --file`"), "{}", reply.text);
}

fn a_folder_that_is_looser_than_asked_for_is_refused(engine: &Engine) {
    let data = data();
    let proxy = EngineProxy::changing(engine, |body: &mut Value| {
        let host = &mut body["HostConfig"];
        let loosened = |text: &str| text.replace("ro,noexec", "rw");
        if let Some(bind) = host["Binds"][0].as_str() {
            host["Binds"][0] = json!(loosened(bind));
        } else {
            let options = &mut host["Mounts"][0]["VolumeOptions"]["DriverConfig"]["Options"]["o"];
            *options = json!(loosened(options.as_str().unwrap()));
        }
    });
    let home = Home::on(engine)
        .env("MCP_BRIDGE_RUNTIME", &proxy.address())
        .file(CONFIG, &mount(data.path(), "/mnt/data", ""));
    let reply = Bridge::start(&home).run("print('ran')");
    assert!(reply.is_error && reply.text.contains("mounts: got /mnt/data ("), "{}", reply.text);
    assert!(reply.text.contains("expected ro,noexec,nosuid,nodev"), "{}", reply.text);
}

fn a_folder_with_a_pipe_or_socket_is_not_mounted(engine: &Engine) {
    let (with_pipe, with_socket, plain) = (data(), data(), data());
    fs::create_dir(with_pipe.path().join("deep")).unwrap();
    let pipe = with_pipe.path().join("deep/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _socket = UnixDatagram::bind(with_socket.path().join("socket")).unwrap();
    let config = mount(with_pipe.path(), "/mnt/pipe", "")
        + &mount(with_socket.path(), "/mnt/socket", "")
        + &mount(plain.path(), "/mnt/plain", "");
    let home = Home::on(engine).file(CONFIG, &config);
    let mut bridge = Bridge::start(&home);
    let listed = bridge.ok("import os; print(sorted(os.listdir('/mnt')))");
    for says in [
        "/mnt/pipe is not mounted: /mnt/pipe/deep/pipe is a named pipe, which leads out of the sandbox; remove it",
        "/mnt/socket is not mounted: /mnt/socket/socket is a socket, which leads out of the sandbox; remove it",
    ] {
        assert!(listed.contains(says), "{listed}");
    }
    assert!(listed.contains("['plain']"), "{listed}");
    let allowed = Bridge::start(&home.env("MCP_BRIDGE_ALLOW_WEAK", "mounts"))
        .ok("os = __import__('os')\nos.listdir('/mnt/pipe')");
    assert!(allowed.contains("/mnt/pipe is mounted, as MCP_BRIDGE_ALLOW_WEAK allows: "), "{allowed}");
    assert!(allowed.contains("sales.csv"), "{allowed}");
    // The next sandbox finds the folder without it.
    fs::remove_file(pipe).unwrap();
    let home = Home::on(engine).file(CONFIG, &mount(with_pipe.path(), "/mnt/pipe", ""));
    let found = Bridge::start(&home)
        .ok("import os; print(os.listdir('/mnt/pipe/deep'), os.path.exists('/mnt/pipe/sales.csv'))");
    assert!(found.starts_with("[] True"), "{found}");
}

/// A folder that code of every engine may write to.
fn shared() -> tempfile::TempDir {
    let folder = data();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// A home whose engine mounts writable folders.
fn writing_home(engine: &Engine) -> Home {
    let home = Home::on(engine);
    // Docker mounts no folder writable in which nothing can be executed.
    if engine.name == "docker" { home.env("MCP_BRIDGE_ALLOW_WEAK", "mounts") } else { home }
}

fn code_does_not_rewrite_a_configuration_file_that_is_a_link(engine: &Engine) {
    let stow = shared();
    write(stow.path(), "s.json", r#"{"mcpServers": {}}"#, 0o600);
    let home = writing_home(engine).file(CONFIG, &mount(stow.path(), "/mnt/stow", "writable = true"));
    let mark = home.path().join("ran");
    let command = json!({"command": "sh", "args": ["-c", format!("touch '{}'", mark.display())]});
    let evil = json!({"mcpServers": {"evil": command}}).to_string();
    // Code may replace the file of another owner, since the folder is its to write to.
    let attack = format!(
        "import os\nopen('/mnt/stow/new', 'w').write({evil:?})\nos.chmod('/mnt/stow/new', 0o644)\n\
         os.replace('/mnt/stow/new', '/mnt/stow/s.json')"
    );
    let linked = home.path().join("MCPs/s.json");
    symlink(stow.path().join("s.json"), &linked).unwrap();
    let mut bridge = Bridge::start(&home);
    let reply = bridge.run(&attack);
    assert!(reply.is_error && reply.text.contains("/mnt/stow"), "{}", reply.text);
    assert_eq!(fs::read_to_string(stow.path().join("s.json")).unwrap(), r#"{"mcpServers": {}}"#);
    bridge.says("holds belljar's own files");
    assert!(!home.run(&["doctor", "--ask"]).stdout.contains("evil") && !mark.exists());
    // The same folder is code's as long as nothing that belljar reads is in it.
    fs::remove_file(&linked).unwrap();
    Bridge::start(&home).ok(&attack);
    assert_eq!(fs::read_to_string(stow.path().join("s.json")).unwrap(), evil);
    // What would happen without the check: the file is read, and its command runs with the user's rights.
    let home = home.file(CONFIG, "");
    fs::copy(stow.path().join("s.json"), &linked).unwrap();
    home.run(&["doctor", "--ask"]);
    assert!(mark.exists());
}

fn a_dry_run_stores_no_file_and_says_which_folders_it_can_change(engine: &Engine) {
    let out = shared();
    let config = mount(out.path(), "/mnt/out", "writable = true");
    let home = writing_home(engine).env("MCP_BRIDGE_WORKSPACE", "kept").file(CONFIG, &config);
    let kept = home.path().join("MCPs/workspaces/kept/files/f.txt");
    let run = |more: &[&str], text: &str| {
        let code = format!("for f in '/workspace/f.txt', '/mnt/out/f.txt': open(f, 'w').write('{text}')");
        home.run(&[&["run"], more, &["-c", &code]].concat()).stderr
    };
    assert!(!run(&[], "first").contains("dry run"));
    let said = run(&["--dry-run"], "second");
    assert!(said.contains("what a dry run writes to /mnt/out stays there"), "{said}");
    assert_eq!(fs::read_to_string(kept).unwrap(), "first");
    assert_eq!(fs::read_to_string(out.path().join("f.txt")).unwrap(), "second");
}

/// The record of what servers and code were given.
const GIVEN: &str = ".local/state/belljar/given-places";

fn code_does_not_choose_what_is_mounted_next(engine: &Engine) {
    let (open, secret) = (shared(), data());
    write(secret.path(), "secret", "secret", 0o644);
    let below = open.path().join("below");
    fs::create_dir(&below).unwrap();
    fs::set_permissions(&below, fs::Permissions::from_mode(0o777)).unwrap();
    let writable = mount(open.path(), "/mnt/open", "writable = true");
    let nested = mount(&below, "/mnt/below", "");
    let home = writing_home(engine).file(CONFIG, &writable);
    Bridge::start(&home).ok(&format!(
        "import os\nos.rmdir('/mnt/open/below')\nos.symlink({:?}, '/mnt/open/below')",
        secret.path().display().to_string()
    ));
    let seen = "import os; print(sorted(os.listdir('/mnt') if os.path.isdir('/mnt') else []))";
    let home = home.file(CONFIG, &format!("{writable}{nested}"));
    let mut bridge = Bridge::start(&home);
    assert!(bridge.ok(seen).contains("['open']"));
    bridge.says("which code can replace, and so choose what is mounted");
    // Nor is it when the writable mount has gone and the link is the user's: code may have had it made.
    fs::remove_file(&below).unwrap();
    symlink(secret.path(), &below).unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = home.file(CONFIG, &nested);
    let mut bridge = Bridge::start(&home);
    assert!(!bridge.ok(seen).contains("below"));
    bridge.says("which code (noted in ");
    // The user has looked, and has deleted the record.
    fs::remove_file(home.path().join(GIVEN)).unwrap();
    let found = Bridge::start(&home).ok("print(open('/mnt/below/secret').read())");
    assert!(found.contains("secret"), "{found}");
}

fn a_confined_server_does_not_choose_what_code_sees(engine: &Engine) {
    let (notes, secret) = (data(), data());
    write(secret.path(), "secret", "secret", 0o644);
    let shown = notes.path().join("data");
    fs::create_dir(&shown).unwrap();
    let flip = format!(
        "import os; os.rename('{0}', '{0}.old'); os.symlink('{1}', '{0}')",
        shown.display(),
        secret.path().display()
    );
    let confined = json!({"command": "python3", "args": ["-c", flip], "sandbox": {"write": [notes.path()]}});
    let home = Home::on(engine).file(CONFIG, &mount(&shown, "/mnt/data", "")).server("notes", confined);
    home.run(&["doctor", "--ask"]);
    assert_eq!(fs::read_link(&shown).unwrap(), secret.path());
    let seen = "import os; print(os.path.exists('/mnt/data/secret'))";
    let mut bridge = Bridge::start(&home);
    assert!(bridge.ok(seen).starts_with("False"));
    bridge.says("which the confined server 'notes' can replace, and so choose what is mounted");
    // Nor does one whose entry has gone. The control: the user has looked, and has deleted the record.
    let home = home.server("notes", json!({"command": "true"}));
    let mut bridge = Bridge::start(&home);
    assert!(bridge.ok(seen).starts_with("False"));
    bridge.says("which the confined server 'notes' (noted in ");
    fs::remove_file(home.path().join(GIVEN)).unwrap();
    assert!(Bridge::start(&home).ok(seen).starts_with("True"));
}

fn a_folder_that_another_one_has_replaced_since_it_was_checked_is_refused(engine: &Engine) {
    let (data, other) = (data(), data());
    let (from, to) = (data.path().display().to_string(), other.path().display().to_string());
    // The engine mounts what is at the path when it starts the container.
    let proxy = EngineProxy::changing(engine, move |body: &mut Value| {
        let host = &mut body["HostConfig"];
        if let Some(bind) = host["Binds"][0].as_str() {
            host["Binds"][0] = json!(bind.replace(&from, &to));
        } else {
            let device = &mut host["Mounts"][0]["VolumeOptions"]["DriverConfig"]["Options"]["device"];
            *device = json!(to);
        }
    });
    let config = mount(data.path(), "/mnt/data", "");
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address()).file(CONFIG, &config);
    let reply = Bridge::start(&home).run("print('ran')");
    let says = "mounts: got another folder at /mnt/data, expected the one that was checked";
    assert!(reply.is_error && reply.text.contains(says), "{}", reply.text);
    let home = home.env("MCP_BRIDGE_RUNTIME", engine.address());
    assert!(Bridge::start(&home).ok("print('ran')").contains("ran"));
}

/// Puts each folder in the place of the other one, again and again, until it is dropped.
struct Exchanges {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exchanges {
    fn of(one: &Path, other: &Path) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (one, other, ends) = (one.to_owned(), other.to_owned(), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            // It is slow enough that most checks see one folder only, and quick enough that a start sees both.
            for pause in [1, 7, 3, 13, 5, 17].into_iter().cycle() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                renameat2(AT_FDCWD, &one, AT_FDCWD, &other, RenameFlags::RENAME_EXCHANGE).unwrap();
                std::thread::park_timeout(Duration::from_millis(pause));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn a_folder_that_is_exchanged_again_and_again_is_never_the_one_that_was_refused(engine: &Engine) {
    let parent = data();
    let (shown, with_pipe) = (parent.path().join("shown"), parent.path().join("with-pipe"));
    for folder in [&shown, &with_pipe] {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    write(&shown, "plain", "", 0o644);
    assert!(Command::new("mkfifo").arg(with_pipe.join("pipe")).status().unwrap().success());
    let home = Home::on(engine).file(CONFIG, &mount(&shown, "/mnt/data", ""));
    let _exchanges = Exchanges::of(&shown, &with_pipe);
    // A start sees a folder at least twice: belljar searches it, and mounts it.
    let outcomes = [
        ("sees ['plain']", "the folder without a pipe is mounted"),
        ("/mnt/data/pipe is a named pipe", "the folder with the pipe is found"),
        ("mounts: got another folder at /mnt/data", "the folder is another one when it is mounted"),
    ];
    let mut seen = [0; 3];
    for _ in 0..200 {
        let code = "import os; print('sees', os.listdir('/mnt/data') if os.path.exists('/mnt/data') else [])";
        let ran = home.run(&["run", "-c", code]);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!said.contains("sees ['pipe']"), "{said}");
        for (count, (words, _)) in seen.iter_mut().zip(outcomes) {
            *count += usize::from(said.contains(words));
        }
        if !seen.contains(&0) {
            return;
        }
    }
    panic!("{seen:?} of {outcomes:?}");
}

/// A folder of the host that passes mounts on, with another one mounted in it. Both are unmounted in the end.
struct Propagating<'a>(&'a Path);

impl Propagating<'_> {
    fn mount(&self, arguments: &[&str]) -> bool {
        Command::new("mount").args(arguments).arg(self.0).output().is_ok_and(|output| output.status.success())
    }

    fn has_inner(&self) -> bool {
        let inner = format!(" {} ", self.0.join("inner").display());
        fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&inner)
    }
}

impl Drop for Propagating<'_> {
    fn drop(&mut self) {
        for folder in [self.0.join("inner"), self.0.to_owned()] {
            drop(Command::new("umount").arg("--lazy").arg(folder).output());
        }
    }
}

/// Mounts a folder of the host below a mounted one while a sandbox runs. Returns whether code sees the new one, and whether
/// it is still there on the host after the end of the sandbox. `None` where this user cannot mount.
fn later_mount(engine: &Engine, address: &str) -> Option<(bool, bool)> {
    let data = data();
    let folder = Propagating(data.path());
    let itself = data.path().to_str().unwrap();
    if !folder.mount(&["--bind", itself]) || !folder.mount(&["--make-shared"]) {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "this user cannot mount, and this is CI");
        eprintln!("SKIPPED: this user cannot mount");
        return None;
    }
    let inner = data.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let home = Home::on(engine)
        .env("MCP_BRIDGE_RUNTIME", address)
        .file(CONFIG, &mount(data.path(), "/mnt/data", ""));
    let mut bridge = Bridge::start(&home).warm();
    let code = "import os\nprint(os.listdir('/mnt/data/inner'), open('/proc/self/mountinfo').read().count('/inner'))";
    assert_eq!(bridge.ok(code), "[] 0");
    let tmpfs = Command::new("mount").args(["-t", "tmpfs", "later"]).arg(&inner).status().unwrap();
    assert!(tmpfs.success());
    fs::write(inner.join("later"), "").unwrap();
    let seen = bridge.ok(code);
    assert!(["[] 0", "['later'] 1"].contains(&&*seen), "{seen}");
    bridge.hang_up();
    bridge.wait(Duration::from_secs(10));
    eventually("what was made for it goes", PATIENCE, || engine.volumes_of(data.path()).is_empty());
    Some((seen != "[] 0", folder.has_inner()))
}

fn a_later_mount_of_the_host_does_not_appear_and_stays_on_the_host(engine: &Engine) {
    let Some(found) = later_mount(engine, engine.address()) else { return };
    assert_eq!(found, (false, true));
}

fn a_later_mount_of_the_host_appears_where_mounts_are_shared_with_it(engine: &Engine) {
    // The same with an engine that is asked for mounts that it shares with the host.
    let proxy = EngineProxy::changing(engine, |body: &mut Value| {
        let host = &mut body["HostConfig"];
        if let Some(bind) = host["Binds"][0].as_str() {
            host["Binds"][0] = json!(bind.replace("rprivate", "rshared"));
        } else {
            let options = &mut host["Mounts"][0]["VolumeOptions"]["DriverConfig"]["Options"]["o"];
            *options = json!(options.as_str().unwrap().replace("private", "shared"));
        }
    });
    let Some(found) = later_mount(engine, &proxy.address()) else { return };
    let expected = match engine.name {
        "podman-rootful" => (true, true),
        // Its volume is a mount of the host, which takes the later one with it.
        "docker" => (true, false),
        // Its containers are in mounts of its own, into which no later mount of the host gets.
        _ => (false, true),
    };
    assert_eq!(found, expected);
}

fn examples_on_mounts_reply_as_the_page_says(engine: &Engine) {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides/mounts.md")).unwrap();
    let data = data();
    let toml = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let toml = toml.replace("~/data", &data.path().display().to_string());
    let mut bridge = Bridge::start(&Home::on(engine).file(CONFIG, &toml)).warm();
    let (mut reply, mut compared) = (String::new(), 0);
    for step in steps(&page) {
        match step {
            Step::Run(code) => reply = bridge.run(&code).text,
            Step::Says(text) => {
                assert_eq!(reply, text);
                compared += 1;
            }
            other => panic!("the page has {other:?}"),
        }
    }
    assert_eq!(compared, 3);
}
