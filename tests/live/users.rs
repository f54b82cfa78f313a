//! The user of each sandbox: no other sandbox and no account of the machine has it, and the kernel's limits of a user
//! that one sandbox has exhausted are untouched in another.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::{Value, json};

use crate::support::engine_proxy::EngineProxy;
use crate::support::{Bridge, Engine, Home};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(
    sandboxes_have_different_users_on_the_host,
    exhausted_limits_of_a_user_leave_other_sandboxes_alone,
    exhausted_limits_reach_sandboxes_of_the_same_user,
    libraries_find_the_account_of_the_user,
    code_cannot_log_in_because_pid_1_has,
    writable_folder_has_one_owner_in_all_sandboxes,
);

on_every_container_engine!(
    unmapped_users_are_replaced_by_mapped_ones,
    engine_that_maps_no_users_shares_one_with_a_notice,
);

/// The users of the sandboxes' first processes, as this machine numbers them.
fn host_users(engine: &Engine, home: &Home) -> Vec<u32> {
    let user = |id: &String| {
        let pid = &engine.inspect_container(id)["State"]["Pid"];
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
        let users: BTreeSet<u32> = line.split_whitespace().map(|user| user.parse().unwrap()).collect();
        assert_eq!(users.len(), 1, "{line}");
        users.into_iter().next().unwrap()
    };
    engine.containers_of(&home.owners()).iter().map(user).collect()
}

fn sandboxes_have_different_users_on_the_host(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridges = [0; 3].map(|_| Bridge::start(&home).warm());
    let code = "import os\n{os.stat(f'/proc/{pid}').st_uid for pid in os.listdir('/proc') if pid.isdigit()}";
    let inside: BTreeSet<String> = bridges.iter_mut().map(|bridge| bridge.ok(code)).collect();
    // With a user namespace for each sandbox, code can see the same number in all of them.
    assert_eq!(inside.len(), if engine.is_process() { 1 } else { 3 }, "{inside:?}");
    assert!(
        inside.iter().all(|users| !users.contains(',')),
        "all processes of a sandbox have its user: {inside:?}"
    );
    let users = host_users(engine, &home);
    assert_eq!(users.iter().collect::<BTreeSet<_>>().len(), 3, "{users:?}");
    let is_reserved = |user: &String| {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        sockets.lines().any(|line| line.ends_with(&format!("@belljar-user-{user}")))
    };
    let reserved: Vec<String> = match engine.is_process() {
        true => users.iter().map(ToString::to_string).collect(),
        false => inside.iter().map(|user| user.trim_matches(['{', '}']).to_owned()).collect(),
    };
    assert!(reserved.iter().all(is_reserved), "{reserved:?}");
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let accounts: BTreeSet<u32> =
        accounts.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect();
    assert!(users.iter().all(|user| !accounts.contains(user)), "{users:?}");
    drop(bridges);
    assert!(!inside.iter().any(is_reserved), "{inside:?}");
}

fn exhausted_limits_of_a_user_leave_other_sandboxes_alone(engine: &Engine) {
    let home = Home::on(engine);
    let (mut greedy, mut other) = (Bridge::start(&home).warm(), Bridge::start(&home).warm());
    // The control: each limit is reached by the one that holds on to what it has. The filter of system calls refuses inotify
    // and queued signals altogether.
    assert_eq!(
        greedy.ok(include_str!("hold_limits.py")),
        "descriptors_in_flight ETOOMANYREFS\npipe_pages EPERM"
    );
    let said = other.ok(include_str!("use_limits.py"));
    assert_eq!(said.replace("finished\n", ""), "used");
}

fn exhausted_limits_reach_sandboxes_of_the_same_user(engine: &Engine) {
    // One that no other test has, since others of it would be starved.
    let number = match engine.name {
        "docker" => 50_001,
        "podman-rootful" => 50_002,
        _ => 50_003,
    };
    let home = Home::on(engine).env("MCP_BRIDGE_CONTAINER_USER", &format!("{number}:65534"));
    let (mut greedy, mut other) = (Bridge::start(&home).warm(), Bridge::start(&home).warm());
    let exhausted = "descriptors_in_flight ETOOMANYREFS\npipe_pages EPERM";
    assert_eq!(greedy.ok(include_str!("hold_limits.py")), exhausted);
    let said = other.run(include_str!("use_limits.py")).text;
    assert!(exhausted.lines().all(|limit| said.contains(limit)), "{said}");
}

fn libraries_find_the_account_of_the_user(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let code = "import getpass, os, pathlib, pwd\naccount = pwd.getpwuid(os.getuid())\n\
                (getpass.getuser(), account.pw_uid == os.getuid(), pwd.getpwnam(getpass.getuser()).pw_uid == os.getuid(), \
                os.path.expanduser('~'), str(pathlib.Path.home()))";
    assert_eq!(bridge.ok(code), "('sandbox', True, True, '/workspace', '/workspace')");
    let unknown = bridge.run("pwd.getpwuid(4242)");
    assert!(unknown.text.contains("KeyError: 'getpwuid(): uid not found: 4242'"), "{}", unknown.text);
    let nobody = "pwd.getpwnam('root').pw_uid, pwd.getpwuid(65534).pw_name";
    assert_eq!(bridge.ok(nobody), "(0, 'nobody')");
}

fn code_cannot_log_in_because_pid_1_has(engine: &Engine) {
    let login = |process: &str| {
        fs::read_to_string(format!("/proc/{process}/loginuid")).ok()?.trim().parse::<u32>().ok()
    };
    let Some(own) = login("self") else {
        eprintln!("SKIPPED: this kernel has no audit log, so that nobody logs in");
        return;
    };
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let user: u32 = bridge.ok("import os\nos.getuid()").parse().unwrap();
    let supervisor =
        engine.inspect_container(&engine.containers_of(&home.owners())[0])["State"]["Pid"].to_string();
    // As the machine numbers users, of which a user namespace does not know all.
    let seen = login(&supervisor).unwrap();
    assert_ne!(seen, u32::MAX, "whoever has no login may still claim one");
    if own == u32::MAX && !engine.is_rootless() {
        // The engine has none either, so that the login is the user that PID 1 has set.
        assert_eq!(seen, user);
        assert_eq!(bridge.ok("open('/proc/self/loginuid').read()"), format!("'{user}'"));
    }
}

fn unmapped_users_are_replaced_by_mapped_ones(engine: &Engine) {
    // Behind a proxy the listener is a process of this machine's root, and tells nothing of the engine's mapping.
    let proxy = EngineProxy::changing(engine, |_| ());
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
    let mut bridge = Bridge::start(&home).warm();
    let user: u32 = bridge.ok("import os\nos.getuid()").parse().unwrap();
    let is_mapped = (10_000..65_534).contains(&user);
    assert_eq!(is_mapped, engine.is_rootless() || !nix::unistd::getuid().is_root(), "{user}");
    assert_eq!(engine.containers_of(&home.owners()).len(), 1, "what was refused is gone");
}

fn engine_that_maps_no_users_shares_one_with_a_notice(engine: &Engine) {
    // Only rootless engines map too few.
    if !engine.is_rootless() {
        return;
    }
    let proxy = EngineProxy::changing(engine, |body: &mut Value| {
        if body["User"] != "65534:65534" {
            body["User"] = json!("2014000000:65534");
        }
    });
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
    let mut bridge = Bridge::start(&home);
    let first = bridge.ok("import os\nos.getuid()");
    let notice = "note: the engine maps too few users for one of each sandbox: sandboxes share user 65534";
    assert!(first.starts_with("65534") && first.contains(notice), "{first}");
    assert_eq!(engine.containers_of(&home.owners()).len(), 1, "what was refused is gone");
}

fn writable_folder_has_one_owner_in_all_sandboxes(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let config =
        format!("[[mount]]\nhost = \"{}\"\nguest = \"/mnt/out\"\nwritable = true\n", folder.path().display());
    let mut home = Home::on(engine).file(".config/belljar/config.toml", &config);
    if engine.name == "docker" {
        // It mounts no folder writable in which nothing can be executed.
        home = home.env("MCP_BRIDGE_ALLOW_WEAK", "mounts");
    }
    let (mut one, mut other) = (Bridge::start(&home).warm(), Bridge::start(&home).warm());
    one.ok("with open('/mnt/out/notes', 'w') as file: file.write('one')");
    other.ok("with open('/mnt/out/notes', 'a') as file: file.write(' other')");
    let notes = folder.path().join("notes");
    assert_eq!(fs::read_to_string(&notes).unwrap(), "one other");
    let owner = fs::metadata(&notes).unwrap().uid();
    assert!(host_users(engine, &home).iter().all(|user| *user == owner));
    assert!(engine.is_rootless() || owner == 65_534, "{owner}");
}
