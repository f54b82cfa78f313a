//! Settings that are edited while the bridge runs. (What becomes of servers: `servers_tests`.)

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::super::{SandboxServers, edited_settings};
use super::*;
use crate::config::test_home::Home;

/// A user's folder.
struct User(tempfile::TempDir);

impl User {
    fn new(config: &str) -> (Self, ConfigFiles) {
        let user = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(user.path("MCPs")).unwrap();
        fs::create_dir_all(user.path(".config/belljar")).unwrap();
        fs::create_dir_all(user.path("project/.belljar")).unwrap();
        let servers = r#"{"mcpServers": {"a": {"command": "c"}, "b": {"command": "c"}}}"#;
        fs::write(user.path("MCPs/servers.json"), servers).unwrap();
        user.writes(config);
        let (_, files) = ConfigFiles::load(Environment {
            variables: BTreeMap::new(),
            home: Some(user.0.path().into()),
            uid: nix::unistd::geteuid().as_raw(),
            cwd: Some(user.path("project")),
            executable: None,
            owner: None,
        });
        (user, files)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn writes(&self, config: &str) {
        fs::write(self.path(".config/belljar/config.toml"), config).unwrap();
    }
}

fn names(files: &ConfigFiles) -> String {
    files.servers().iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn timeout(files: &ConfigFiles) -> u64 {
    files.told().borrow().timeout.as_secs()
}

#[test]
fn settings_are_followed_with_what_depends_on_them_and_a_file_that_goes_leaves_the_defaults() {
    let (user, mut files) = User::new("[run]\ntimeout = 20\nservers = [\"a\"]\n");
    assert_eq!((timeout(&files), names(&files).as_str()), (20, "a"));
    let told = files.told();
    user.writes("[run]\ntimeout = 25\nservers = [\"b\"]\n");
    assert!(!told.has_changed().unwrap(), "nobody has looked");
    assert_eq!(files.look(), []);
    assert!(told.has_changed().unwrap());
    assert_eq!((timeout(&files), names(&files).as_str(), files.refused().len()), (25, "b", 1));
    // The settings are not read again: a file of servers alone leaves them unchanged.
    fs::write(user.path("MCPs/more.json"), r#"{"mcpServers": {"d": {"command": "c"}}}"#).unwrap();
    assert_eq!(files.look(), []);
    assert_eq!((timeout(&files), files.refused().len()), (25, 2));
    fs::remove_file(user.path(".config/belljar/config.toml")).unwrap();
    assert_eq!(files.look(), []);
    assert_eq!((timeout(&files), names(&files).as_str()), (30, "a b d"));
}

#[test]
fn settings_stay_as_they_were_while_one_cannot_be_read_and_the_problem_is_told_once() {
    let good = "[run]\nservers = [\"a\"]\ntimeout = 20\n";
    let (user, mut files) = User::new(good);
    for (broken, said) in [
        ("[run]\ntimeout = \"x\"\n", "config.toml:2:11: run.timeout: must be a whole number"),
        ("[run]\ntimout = 3\n", "did you mean \"timeout\"?"),
        ("[run]\nservers = [\"b\"\n", "is no TOML"),
    ] {
        user.writes(broken);
        let problems = files.look();
        assert!(problems.iter().any(|problem| problem.to_string().contains(said)), "{problems:?}");
        let unread = files.unread();
        assert!(unread.len() == 1 && unread[0].to_string().contains(said), "{unread:?}");
        assert_eq!((timeout(&files), names(&files).as_str()), (20, "a"), "{broken}");
        // Another file's change is no reason to say it again.
        fs::write(
            user.path("MCPs/more.json"),
            format!("{{\"mcpServers\": {{}}}}{}", " ".repeat(broken.len())),
        )
        .unwrap();
        let again = files.look();
        assert!(!again.iter().any(|problem| problem.to_string().contains(said)), "{again:?}");
        assert_eq!((timeout(&files), files.unread().len()), (20, 1));
    }
    // Emptied: somebody is about to write it.
    user.writes("");
    assert_eq!(files.look(), []);
    assert_eq!((timeout(&files), names(&files).as_str(), files.unread().len()), (20, "a", 1));
    user.writes("# nothing\n");
    assert_eq!(files.look(), []);
    assert_eq!((timeout(&files), names(&files).as_str()), (30, "a b"));
}

#[test]
fn what_is_edited_is_said_with_from_when_on_it_counts() {
    let (user, mut files) = User::new("[run]\ntimeout = 20\n");
    let mut edited = |config: &str| {
        let before = Arc::clone(files.config());
        user.writes(config);
        assert_eq!(files.look(), []);
        edited_settings(&before, files.config())
    };
    assert_eq!(edited("# moved\n[run]\ntimeout = 20\n"), None);
    assert_eq!(
        edited("[run]\ntimeout = 21\nmax_timeout = 200\n").unwrap(),
        "the user has changed settings (run.timeout, run.max_timeout)"
    );
    let said = edited(
        "[sandbox]\nmemory = \"1g\"\n[servers]\nroots = [\"/\"]\n[log]\naudit = \"off\"\n[policy]\nallow_cmd = true\n",
    );
    assert_eq!(
        said.unwrap(),
        "the user has changed settings (run.timeout, run.max_timeout, policy.allow_cmd; sandbox.memory for the next \
         sandbox; servers.roots for servers started from now on; log.audit once belljar is started again)"
    );
}

#[test]
fn what_is_otherwise_here_stays_so_when_the_files_are_read_again() {
    let (user, files) = User::new("[run]\ntimeout = 20\n");
    let (config, mut files) = files.adjusted(|config| config.timeout_max = std::time::Duration::from_secs(7));
    assert_eq!((config.timeout_max.as_secs(), timeout(&files)), (7, 20));
    user.writes("[run]\ntimeout = 25\n");
    files.look();
    assert_eq!((files.told().borrow().timeout_max.as_secs(), timeout(&files)), (7, 25));
}

#[test]
fn nothing_that_a_project_holds_keeps_the_users_edits_from_counting() {
    let (user, mut files) = User::new("[run]\ntimeout = 20\nservers = [\"a\"]\n");
    for (at, project) in ["", "[run]\ntimeout = \"x\"\n", "[run\n"].into_iter().enumerate() {
        fs::write(user.path("project/.belljar/config.toml"), project).unwrap();
        files.look();
        user.writes(&format!("[run]\ntimeout = {}\nservers = [\"b\"]\n", 21 + at));
        files.look();
        assert_eq!((timeout(&files), names(&files).as_str()), (21 + at as u64, "b"), "{project:?}");
    }
}

#[test]
fn a_setting_of_the_sandbox_that_cannot_be_read_keeps_the_next_one_from_starting_as_at_a_start() {
    let (user, mut files) = User::new("[sandbox]\nmemory = \"700m\"\n");
    user.writes("[sandbox]\nmemroy = \"100m\"\n");
    assert_eq!(files.look().len(), 1);
    assert!(files.config().sandbox_problem.is_some() && files.config().memory_bytes == 700 << 20);
    user.writes("[sandbox]\nmemory = \"100m\"\n");
    files.look();
    assert!(files.config().sandbox_problem.is_none() && files.config().memory_bytes == 100 << 20);
}

#[test]
fn an_edit_never_takes_the_confinement_from_servers() {
    let (user, mut files) = User::new("[servers]\nsandbox = \"true\"\n");
    let mut edited = |config: &str| {
        user.writes(config);
        files.look();
        (names(&files), files.config().sandbox_servers == SandboxServers::Yes)
    };
    let refused = || (String::new(), false);
    for config in [
        "[servers]\nsandbox = 1\n",
        "[servers\nsandbox = true\n",
        "",
        "[servers]\nsandbox = true\n[run]\ntimeout = \"x\"\n",
    ] {
        assert_eq!(edited(config), refused(), "{config}");
    }
    assert_eq!(edited("[servers]\nsandbox = true\n"), ("a b".to_owned(), true));
    for config in ["[servers\nsandbox = true\n", "", "[run]\ntimeout = \"x\"\n"] {
        assert_eq!(edited(config), ("a b".to_owned(), true), "{config}: what it said before counts");
    }
    assert_eq!(edited("[servers]\nsandbx = true\n").0, "");
    assert_eq!(edited("# Nothing\n"), ("a b".to_owned(), false));
}

#[test]
fn a_folder_that_stays_as_it_is_is_not_listed_again_and_what_is_put_into_it_is_found() {
    let (user, mut files) = User::new("");
    assert!(!files.listing.is_still_so(), "it has just been made: another file may bear the same time");
    while !files.listing.is_settled {
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        assert_eq!(files.look(), []);
    }
    assert!(files.listing.is_still_so());
    fs::write(user.path("MCPs/more.json"), r#"{"mcpServers": {"d": {"command": "c"}}}"#).unwrap();
    assert!(!files.listing.is_still_so());
    assert_eq!(files.look(), []);
    assert_eq!(names(&files), "a b d");
}

/// Moves a file or folder of the user into a folder, and leaves a link to it.
fn moves(user: &User, from: &str, to: &str) {
    fs::rename(user.path(from), user.path(to)).unwrap();
    std::os::unix::fs::symlink(user.path(to), user.path(from)).unwrap();
}

fn said(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

const MOUNT: &str = "[[mount]]\nhost = \"~/dots\"\nwritable = true\n";

fn with_dots(config: &str) -> (User, ConfigFiles) {
    let (user, _) = User::new("");
    fs::create_dir(user.path("dots")).unwrap();
    user.writes(config);
    let environment = Environment {
        variables: BTreeMap::new(),
        home: Some(user.0.path().into()),
        uid: nix::unistd::geteuid().as_raw(),
        cwd: Some(user.path("project")),
        executable: None,
        owner: None,
    };
    let (_, files) = ConfigFiles::load(environment);
    (user, files)
}

#[test]
fn settings_that_come_into_a_folder_that_code_can_change_stay_as_they_were() {
    let (user, mut files) = with_dots(&format!("{MOUNT}[servers]\nsandbox = true\n"));
    let is_kept = |files: &ConfigFiles| {
        let config = files.config();
        config.sandbox_servers == SandboxServers::Yes
            && config.sandbox_problem.as_ref().is_some_and(|problem| {
                problem.message.contains("its path leads through")
                    && problem.message.contains("code can change")
            })
    };
    assert_eq!(files.config().sandbox_servers, SandboxServers::Yes);
    assert!(files.config().sandbox_problem.is_none(), "the control");
    moves(&user, ".config/belljar", "dots/belljar");
    assert!(said(&files.look()).contains("its path leads through"));
    assert!(is_kept(&files));
    // What code makes of it: nothing, and a file without the mount.
    fs::rename(user.path("dots/belljar"), user.path("dots/aside")).unwrap();
    files.look();
    assert!(is_kept(&files));
    fs::create_dir(user.path("dots/belljar")).unwrap();
    fs::write(user.path("dots/belljar/config.toml"), "[servers.evil]\ncommand = \"c\"\n").unwrap();
    files.look();
    assert!(is_kept(&files));
    assert_eq!(names(&files), "a b");
}

#[test]
fn entries_that_come_into_a_folder_that_a_server_can_change_are_not_used() {
    let entry = "[servers.w]\ncommand = \"c\"\n[servers.w.sandbox]\nwrite = [\"~/dots\"]\n";
    let (user, mut files) = with_dots(entry);
    assert_eq!(names(&files), "a b w");
    for (from, to, written) in [
        ("MCPs/servers.json", "dots/servers.json", "dots/servers.json"),
        ("MCPs", "dots/MCPs", "dots/MCPs/more.json"),
    ] {
        moves(&user, from, to);
        files.look();
        let evil = json!({"mcpServers": {format!("evil-{from}").replace(['/', '.'], "-"): {"command": "c"}}});
        fs::write(user.path(written), evil.to_string()).unwrap();
        let told = said(&files.look());
        assert!(!names(&files).contains("evil"), "{to}: {told}");
        fs::remove_file(user.path(from)).unwrap();
        fs::rename(user.path(to), user.path(from)).unwrap();
        files.look();
    }
    assert_eq!(names(&files), "evil-MCPs evil-MCPs-servers-json w", "back in its place, it is the user's");
}

#[test]
fn a_policy_that_comes_into_a_folder_that_others_can_change_lets_nothing_pass() {
    for (config, from, to) in [
        (MOUNT, ".config/belljar", "dots/belljar"),
        (MOUNT, ".config/belljar/policy.toml", "dots/policy.toml"),
        (MOUNT, ".config/belljar/config.toml", "dots/config.toml"),
        ("", ".config/belljar/policy.toml", "dots/policy.toml"),
    ] {
        let (user, mut files) = with_dots(config);
        let mut policy = files.config().policy.clone();
        fs::write(user.path(".config/belljar/policy.toml"), "[budgets]\ncalls_per_run = 7\n").unwrap();
        assert!(policy.look().is_some_and(|problems| problems.is_empty()), "the control");
        // The folder is writable from now on only.
        user.writes(MOUNT);
        files.look();
        policy.look();
        assert_eq!(policy.policy().defect, None);
        moves(&user, from, to);
        let told = said(&policy.look().unwrap());
        assert!(
            policy.policy().defect.as_ref().is_some_and(|why| why.contains("its path leads through")),
            "{told}"
        );
        fs::rename(user.path(to), user.path("dots/aside")).unwrap();
        policy.look();
        assert!(policy.policy().defect.is_some(), "{from}: it is absent, as code has moved it");
    }
}

#[test]
fn a_policy_in_a_store_of_code_lets_nothing_pass_once_it_is_changed() {
    let (user, files) = with_dots("");
    let mut policy = files.config().policy.clone();
    fs::create_dir_all(user.path("MCPs/workspaces")).unwrap();
    moves(&user, ".config/belljar", "MCPs/workspaces/w");
    fs::write(user.path("MCPs/workspaces/w/policy.toml"), "[budgets]\ncalls_per_run = 7\n").unwrap();
    let told = said(&policy.look().unwrap());
    assert!(
        policy.policy().defect.as_ref().is_some_and(|why| why.contains("its path leads through")),
        "{told}"
    );
}

#[test]
fn a_mount_that_is_refused_counts_only_while_it_is_written() {
    let (user, mut files) = with_dots("[[mount]]\nhost = \"~/.config\"\nwritable = true\n");
    let mut policy = files.config().policy.clone();
    assert!(files.config().sandbox_problem.is_some() && policy.policy().defect.is_some(), "the control");
    user.writes("[run]\ntimeout = 20\n");
    files.look();
    policy.look();
    assert_eq!((files.config().sandbox_problem.clone(), policy.policy().defect.clone()), (None, None));
    assert_eq!(timeout(&files), 20);
}

#[test]
fn what_a_server_could_change_is_not_trusted_by_others_after_it_is_gone() {
    let (user, mut files) =
        with_dots("[servers.w]\ncommand = \"c\"\n[servers.w.sandbox]\nwrite = [\"~/dots\"]\n");
    let dots = user.path("dots").canonicalize().unwrap();
    for config in ["[run]\ntimeout = 20\n", "[run]\ntimeout = 21\n"] {
        user.writes(config);
        files.look();
        assert!(files.config().changeable.contains(&dots), "{:?}", files.config().changeable);
    }
}

#[test]
fn what_was_given_once_counts_for_every_later_bridge_of_the_user() {
    use std::os::unix::fs::symlink;
    let entry = |more: &str| {
        format!("[servers.w]\ncommand = \"c\"\n{more}\n[servers.w.sandbox]\nwrite = [\"${{HOME}}/dots\"]\n")
    };
    let mount = |more: &str| format!("[[mount]]\nhost = \"~/dots\"\nwritable = true\n{more}\n");
    for (given, later) in [
        (
            entry(""),
            vec![
                entry("disabled = true"),
                entry("timeout = \"abc\""),
                entry("[servers.w]"),
                entry("").replace("[\"${HOME}/dots\"]", "3"),
                String::new(),
            ],
        ),
        (mount(""), vec![mount("unknown = 1"), String::new()]),
    ] {
        for later in later {
            let (user, _) = User::new("");
            let real = |name: &str| user.path(name).canonicalize().unwrap();
            for folder in ["dots/bin", "private", "temporary"] {
                fs::create_dir_all(user.path(folder)).unwrap();
            }
            let program = user.path("dots/bin/podman");
            fs::write(&program, "").unwrap();
            fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            symlink(user.path("private"), user.path("dots/link")).unwrap();
            let load = |config: &str, temporary: PathBuf| {
                user.writes(config);
                let path = real("dots").join("bin");
                ConfigFiles::load(Environment {
                    variables: BTreeMap::from([
                        ("HOME".into(), user.0.path().into()),
                        ("PATH".into(), path.into()),
                        ("TMPDIR".into(), temporary.into()),
                    ]),
                    home: Some(user.0.path().into()),
                    uid: nix::unistd::geteuid().as_raw(),
                    cwd: Some(user.path("project")),
                    executable: None,
                    owner: None,
                })
            };
            let later = format!("[[mount]]\nhost = \"~/dots/link\"\nguest = \"/mnt/link\"\n{later}");
            let found = |config: &Config| {
                let is_mounted = config.mounts.iter().any(|mount| mount.guest == "/mnt/link");
                let locks = config.lock_dir.starts_with(real("dots"));
                (is_mounted, config.engine.podman.is_some(), locks)
            };
            // A folder for locks that is mounted is refused by itself.
            let is_server = given.starts_with("[servers");
            let locks = real(if is_server { "dots" } else { "temporary" });
            let (_, mut files) = load(&given, real("temporary"));
            let control = found(&load(&later, locks.clone()).0);
            assert_eq!(control, (true, true, is_server), "the control: {later}");
            let (_, mut running) = load(&later, locks.clone());
            files.record_given();
            assert_eq!(found(&load(&later, locks.clone()).0), (false, false, false), "{later}");
            // One that runs already sees it.
            running.look();
            assert_eq!(found(running.config()), (false, false, false), "{later}");
            // The user has looked at what is there.
            fs::remove_file(user.path(".local/state/belljar/given-places")).unwrap();
            assert_eq!(found(&load(&later, locks.clone()).0), control, "{later}");
        }
    }
}

#[test]
fn a_base_directory_that_a_server_could_change_is_not_used() {
    let entry = "[servers.w]\ncommand = \"c\"\n[servers.w.sandbox]\nwrite = [\"~/dots\"]\n";
    let (user, mut files) = with_dots(entry);
    let dots = user.path("dots").canonicalize().unwrap();
    let environment = Environment::clone(files.environment());
    let load = |variable: &str| {
        let variables = BTreeMap::from([(variable.into(), dots.join("base").into())]);
        Config::load(&Environment { variables, ..environment.clone() })
    };
    let in_dots = |config: &Config| {
        let dirs = [&config.own_state_dir, &config.cache_dir, &config.engine.environments];
        dirs.into_iter().flatten().any(|dir| dir.starts_with(&dots))
    };
    let variables = ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"];
    // Here the entry counts as well, and the folder is belljar's own by this.
    assert!(load("XDG_STATE_HOME").own_state_dir.unwrap().starts_with(&dots), "the control");
    files.record_given();
    for variable in variables {
        let config = load(variable);
        let problem = config.sandbox_problem.as_ref().unwrap().to_string();
        assert!(problem.contains(variable) && problem.contains("the confined server 'w'"), "{problem}");
        assert!(!in_dots(&config), "{variable}");
    }
}

#[test]
fn no_engine_is_looked_for_where_a_confined_server_could_listen() {
    let has_colima = |written: &str| {
        let entry = format!("[servers.w]\ncommand = \"c\"\n[servers.w.sandbox]\nwrite = [\"{written}\"]\n");
        let (user, files) = with_dots(&entry);
        fs::create_dir_all(user.path(".colima/default")).unwrap();
        let sockets = Config::load(files.environment()).engine.desktops;
        sockets.iter().any(|socket| socket.path.ends_with(".colima/default/docker.sock"))
    };
    assert!(has_colima("~/dots"), "the control");
    assert!(!has_colima("~/.colima"));
}

#[test]
fn nothing_starts_while_what_belljar_stores_lies_in_a_place_that_a_server_was_given() {
    use std::os::unix::fs::symlink;
    for stored in [".cache/belljar", ".local/share/belljar"] {
        let entry = "[servers.w]\ncommand = \"c\"\n[servers.w.sandbox]\nwrite = [\"~/dots\"]\n";
        let (user, mut files) = with_dots(entry);
        files.record_given();
        user.writes("");
        let load = || Config::load(files.environment()).sandbox_problem.map(|problem| problem.to_string());
        assert_eq!(load(), None, "the control");
        fs::create_dir_all(user.path(stored).parent().unwrap()).unwrap();
        fs::create_dir_all(user.path("dots/own")).unwrap();
        symlink(user.path("dots/own"), user.path(stored)).unwrap();
        let problem = load().unwrap();
        assert!(problem.contains(stored) && problem.contains("the confined server 'w'"), "{problem}");
    }
}

#[test]
fn where_it_cannot_be_read_what_was_given_nothing_starts() {
    let (user, mut files) = User::new("");
    files.record_given();
    let file = user.path(".local/state/belljar/given-places");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "what\twho\n").unwrap();
    user.writes("[run]\ntimeout = 20\n[servers.a]\nurl = \"https://a.test/mcp\"\n");
    files.look();
    let (at_start, _) = ConfigFiles::load(Environment::clone(files.environment()));
    for config in [files.config(), &at_start] {
        let problem = config.sandbox_problem.clone().unwrap().to_string();
        assert!(problem.contains("a line is no place"), "{problem}");
    }
    assert_eq!((names(&files).as_str(), at_start.servers.len(), at_start.refused.len()), ("a b", 0, 2));
}

#[test]
fn what_was_given_still_counts_while_the_record_cannot_be_read() {
    use std::os::unix::fs::symlink;
    let (user, mut files) =
        with_dots("[servers.w]\ncommand = \"c\"\n[servers.w.sandbox]\nwrite = [\"~/dots\"]\n");
    files.record_given();
    fs::write(user.path("key"), "k").unwrap();
    symlink(user.path("key"), user.path("dots/key")).unwrap();
    let entry = "[servers.a]\ncommand = \"c\"\nenv = { K = \"${file:~/dots/key}\" }\n";
    user.writes(entry);
    let (_, mut running) = ConfigFiles::load(Environment::clone(files.environment()));
    assert_eq!(running.refused().len(), 1, "the control");
    fs::write(user.path(".local/state/belljar/given-places"), "what\twho\n").unwrap();
    running.look();
    assert_eq!((names(&running).as_str(), running.refused().len()), ("b", 1));
}

#[test]
fn nothing_starts_while_it_cannot_be_recorded_what_is_given() {
    let (user, mut files) =
        with_dots("[servers.w]\ncommand = \"c\"\n[servers.w.sandbox]\nwrite = [\"~/dots\"]\n");
    let of_all = user.path(".local/state/belljar");
    let _ = fs::remove_dir_all(&of_all);
    fs::create_dir_all(of_all.parent().unwrap()).unwrap();
    fs::create_dir(user.path("open")).unwrap();
    fs::set_permissions(user.path("open"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(user.path("open"), &of_all).unwrap();
    files.record_given();
    let problem = files.config().unrecorded.clone().unwrap().to_string();
    assert!(problem.contains("cannot be recorded") && problem.contains("given-places"), "{problem}");
    assert_eq!(files.told().borrow().unrecorded, files.config().unrecorded);
    user.writes("[run]\ntimeout = 20\n");
    let (_, mut without) = ConfigFiles::load(Environment::clone(files.environment()));
    without.record_given();
    assert_eq!(without.config().unrecorded, None, "nothing but belljar's own folders is given");
    fs::remove_file(&of_all).unwrap();
    files.record_given();
    assert_eq!(files.config().unrecorded, None);
}

#[test]
fn an_emptied_file_keeps_its_servers_and_lets_no_looser_one_take_their_place() {
    let home = Home::new()
        .user("[servers.a]\ncommand = \"c\"\nsandbox = true\n")
        .file("MCPs/a.json", r#"{"mcpServers": {"a": {"command": "loose"}}}"#);
    let (config, mut files) = ConfigFiles::load(home.environment());
    let of = |config: &Config| config.servers.iter().map(ServerConfig::shown_reach).collect::<Vec<_>>();
    let before = of(&config);
    let home = home.user("");
    files.look();
    assert_eq!(of(files.config()), before);
    let said = |files: &ConfigFiles| files.unread().iter().map(ToString::to_string).collect::<String>();
    assert!(said(&files).contains("is empty, as before it is written anew"), "{}", said(&files));
    // A mount is taken back at once, and a comment takes back everything.
    let mount =
        format!("[run]\ntimeout = 20\n[[mount]]\nhost = {:?}\n", home.path("data").display().to_string());
    let mut home = home.file("data/x", "");
    for (text, mounts, timeout, is_said) in
        [(mount.as_str(), 1, 20, false), ("", 0, 20, true), ("#", 0, 30, false)]
    {
        home = home.user(text);
        files.look();
        let config = files.config();
        assert_eq!((config.mounts.len(), config.timeout.as_secs()), (mounts, timeout), "{text:?}");
        assert_eq!(said(&files).contains("is empty, as before"), is_said, "{text:?}: {}", said(&files));
    }
}

#[test]
fn what_differs_between_sessions_that_share_servers_counts_as_not_set() {
    let (user, files) = User::new("");
    let environment = |token: &str| {
        let variables = [("SAME", "s"), ("TOKEN", token)];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        Environment { variables: variables.into(), ..Environment::clone(files.environment()) }
    };
    let entry = r#"{"mcpServers": {"a": {"command": "c", "env": {"T": "${TOKEN}", "S": "${SAME}"}}}}"#;
    assert!(!environment("x").has_settings_of(&Environment {
        home: None,
        variables: [("MCP_BRIDGE_JOBS".into(), "2".into())].into(),
        ..environment("x")
    }));
    assert!(environment("x").has_settings_of(&environment("y")));
    for (other, is_usable) in [("one", true), ("another", false)] {
        fs::write(user.path("MCPs/servers.json"), r#"{"mcpServers": {}}"#).unwrap();
        let (_, mut files) = ConfigFiles::load(environment("one"));
        files.share_with(&environment(other));
        fs::write(user.path("MCPs/servers.json"), entry).unwrap();
        let problems = files.look();
        assert_eq!(names(&files) == "a", is_usable, "{other}: {problems:?}");
        assert!(is_usable || problems[0].to_string().contains("TOKEN"), "{problems:?}");
    }
}
