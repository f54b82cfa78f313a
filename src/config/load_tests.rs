//! Claims about `Config::load`: what is good loads, and each defect is one problem at its place.
//!
//! They use real files in a temporary home, and never the developer's own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use belljar_engine::{Choice, User};
use belljar_upstream::RemoteTransport;

use belljar_base::run::OutputMode;
use belljar_protocol::PostureField;
use tracing::level_filters::LevelFilter;

use super::*;
use crate::config::servers::transport::{Launch, Transport};
use crate::config::test_home::Home;

impl Home {
    /// Server names, then problems with the home's place replaced.
    fn names(&self) -> String {
        let config = self.load();
        let mut lines: Vec<String> =
            config.servers.iter().map(|server| format!("+ {}", server.name)).collect();
        let home = self.folder.path().display().to_string();
        lines.extend(
            config
                .problems
                .iter()
                .map(|problem| format!("{} {}", problem.severity, problem.to_string().replace(&home, "~"))),
        );
        lines.join("\n")
    }
}

fn one(entry: &str) -> String {
    Home::of_servers().file("a.json", format!("{{\"mcpServers\": {{\"x\": {entry}}}}}")).names()
}

fn examples(kind: &str) -> Home {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples").join(kind);
    let mut home = Home::of_servers();
    for item in folder.read_dir().unwrap() {
        let item = item.unwrap();
        home = home.file(item.file_name().to_str().unwrap(), fs::read(item.path()).unwrap());
    }
    home
}

#[test]
fn without_anything_the_defaults_count() {
    let config = Home::of_servers().load();
    assert_eq!(config.engine.choice, Choice::Auto);
    assert_eq!(config.image, None);
    assert_eq!((config.timeout.as_secs(), config.timeout_max.as_secs()), (30, 120));
    assert_eq!((config.memory_bytes, config.pids, config.cpu_millis), (512 << 20, 128, None));
    assert_eq!(config.container_user, None);
    assert_eq!(config.idle_stop, Some(Duration::from_secs(300)));
    assert!(config.owner.saved.ends_with("MCPs") && config.owner.saved.is_absolute());
    assert_eq!((config.output_mode, config.log_level), (OutputMode::Compact, LevelFilter::INFO));
    assert_eq!(config.self_servers, SelfServers::Skip);
    assert_eq!((config.prewarm, config.structured), (1, StructuredContent::Off));
    assert_eq!(config.learn_shapes, LearnShapes::On);
    assert_eq!((config.servers, config.problems), (vec![], vec![]));
}

#[test]
fn a_missing_home_is_said() {
    let environment = Environment { home: None, ..Home::of_servers().environment() };
    let problems: Vec<String> = Config::load(&environment).problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["HOME: is not set and no home folder is known, so \"~\" leads nowhere"]);
}

#[test]
fn every_variable_is_read() {
    let config = Home::of_servers()
        .variable("MCP_BRIDGE_RUNTIME", "docker")
        .variable("MCP_BRIDGE_IMAGE", "python:3.13")
        .variable("MCP_BRIDGE_TIMEOUT", "5")
        .variable("MCP_BRIDGE_MAX_TIMEOUT", "600")
        .variable("MCP_BRIDGE_MEMORY", "1g")
        .variable("MCP_BRIDGE_PIDS", "64")
        .variable("MCP_BRIDGE_CPUS", "0.5")
        .variable("MCP_BRIDGE_CONTAINER_USER", "1000:1000")
        .variable("MCP_BRIDGE_ALLOW_WEAK", "memory,mounts")
        .variable("MCP_BRIDGE_EXTRA_SYSCALLS", "mincore, inotify_init1")
        .variable("MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT", "0")
        .variable("MCP_BRIDGE_STATE_DIR", "~/state")
        .variable("MCP_BRIDGE_OUTPUT_MODE", "TOON")
        .variable("MCP_BRIDGE_LOG_LEVEL", "debug")
        .variable("MCP_BRIDGE_ALLOW_SELF_SERVER", "1")
        .variable("MCP_BRIDGE_PREWARM", "0")
        .variable("MCP_BRIDGE_STRUCTURED", "1")
        .variable("MCP_BRIDGE_LEARN_SHAPES", "0")
        .variable("DOCKER_HOST", "tcp://box:1")
        .load();
    assert_eq!((config.engine.choice, config.image.as_deref()), (Choice::Docker, Some("python:3.13")));
    assert_eq!((config.timeout.as_secs(), config.timeout_max.as_secs()), (5, 600));
    assert_eq!((config.memory_bytes, config.pids, config.cpu_millis), (1 << 30, 64, Some(500)));
    assert_eq!(config.container_user, Some(User { uid: 1000, gid: 1000 }));
    assert_eq!(config.allow_weak, [PostureField::Memory, PostureField::Mounts]);
    let extra: Vec<String> = config.extra_syscalls.iter().map(ToString::to_string).collect();
    assert_eq!(extra, ["mincore", "inotify_init1"]);
    assert_eq!((config.idle_stop, config.owner.saved.ends_with("state")), (None, true));
    assert_eq!(config.owner.journals(), Some(config.owner.saved.join("sessions")));
    assert_eq!(config.cache_dir, Some(config.owner.saved.join("cache")));
    assert_eq!((config.output_mode, config.log_level), (OutputMode::Toon, LevelFilter::DEBUG));
    assert_eq!(config.self_servers, SelfServers::Allow);
    assert_eq!((config.prewarm, config.structured), (0, StructuredContent::On));
    assert_eq!(config.learn_shapes, LearnShapes::Off);
    assert_eq!(config.engine.docker_host.as_deref(), Some("tcp://box:1"));
    assert_eq!(config.problems, vec![]);
}

#[test]
fn a_relative_folder_of_path_supplies_no_program_of_an_engine() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tools")).unwrap();
    for name in ["podman", "ssh", "tools/podman", "tools/ssh"] {
        let file = folder.path().join(name);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let found = |path: &str| {
        let engine = Config::load(&Environment {
            variables: BTreeMap::from([("PATH".into(), path.into())]),
            home: None,
            uid: nix::unistd::geteuid().as_raw(),
            cwd: Some(folder.path().into()),
            executable: None,
            owner: None,
        })
        .engine;
        (engine.podman.is_some(), engine.ssh.is_some())
    };
    assert_eq!(found("tools::"), (false, false));
    assert_eq!(found(folder.path().to_str().unwrap()), (true, true), "the control");
}

#[test]
fn each_bad_variable_is_one_problem_and_its_default_counts() {
    let names = crate::config::settings::definitions::definitions();
    let mut home = Home::of_servers();
    for variable in names.iter().filter(|row| {
        !["MCP_BRIDGE_IMAGE", "MCP_BRIDGE_STATE_DIR", "MCP_SERVERS_CONFIG"].contains(&row.variable.as_str())
    }) {
        home = home.variable(&variable.variable, "b\u{1b}d");
    }
    let config = home.load();
    assert_eq!((config.timeout.as_secs(), config.memory_bytes, config.pids), (30, 512 << 20, 128));
    insta::assert_snapshot!(home.names());
}

#[test]
fn a_usual_time_longer_than_the_longest_is_cut_and_said() {
    let home = Home::of_servers().variable("MCP_BRIDGE_TIMEOUT", "300");
    assert_eq!(home.load().timeout.as_secs(), 120);
    assert_eq!(
        home.names(),
        "error MCP_BRIDGE_TIMEOUT: is 300, more than MCP_BRIDGE_MAX_TIMEOUT allows; using 120"
    );
    let home = Home::of_servers().variable("MCP_BRIDGE_MAX_TIMEOUT", "10");
    assert_eq!((home.load().timeout.as_secs(), home.names()), (10, String::new()));
}

#[test]
fn valid_examples_load_without_a_problem() {
    insta::assert_snapshot!(examples("valid").names(), @r"
    + bom
    + filesystem
    + github
    + issues
    + legacy
    + notes
    + time
    note ~/MCPs/local-script.json:10:5: mcpServers.parked: is switched off in its entry
    ");
}

#[test]
fn invalid_examples_lose_only_what_is_wrong() {
    insta::assert_snapshot!(examples("invalid").names());
}

#[test]
fn an_entry_is_read_whole_and_its_paths_are_resolved() {
    let home = Home::of_servers()
        .file(
            "a.json",
            r#"{"mcpServers": {"x": {"command": "./run", "args": ["a", "${A}"], "env": {"Z": "1", "B": "${A}"},
                "cwd": "${S:-sub}", "description": "d"}, "y": {"command": "~/bin/y"}, "z": {"command": "bin/z"}}}"#,
        )
        .variable("A", "from outside");
    let servers = home.load().servers;
    let launches: Vec<&Launch> = servers
        .iter()
        .filter_map(|server| match &server.transport {
            Transport::Launch(launch) => Some(launch),
            Transport::Endpoint(_) => None,
        })
        .collect();
    let x = launches[0];
    assert_eq!(x.args, ["a", "from outside"]);
    assert_eq!(x.env.iter().collect::<Vec<_>>(), [("Z", "1"), ("B", "from outside")]);
    assert_eq!(format!("{:?}", x.env), r#"{"Z": …, "B": …}"#);
    assert_eq!(x.cwd, Some(home.path("sub")));
    assert_eq!(x.program, home.path("sub").join("./run"));
    assert_eq!(servers[0].description.as_deref(), Some("d"));
    assert_eq!(servers[0].source, home.path("a.json"));
    assert_eq!(launches[1].program, home.folder.path().join("bin/y"));
    assert_eq!(launches[2].program, home.path("bin/z"));
}

#[test]
fn a_remote_entry_is_read_whole_under_every_name_of_its_parts() {
    let endpoint = |entry: &str| {
        let home = Home::of_servers().file("a.json", format!("{{\"mcpServers\": {{\"x\": {entry}}}}}"));
        let config = home.variable("TOKEN", "t0ken").variable("HOST", "example.com").load();
        assert_eq!(config.problems, vec![], "{entry}");
        match config.servers[0].transport.clone() {
            Transport::Endpoint(endpoint) => endpoint,
            Transport::Launch(launch) => panic!("{launch:?}"),
        }
    };
    let read = endpoint(
        r#"{"url": "https://${HOST}/mcp?a=b", "headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "a b"}}"#,
    );
    assert_eq!(read.url.as_str(), "https://example.com/mcp?a=b");
    assert_eq!(
        read.headers.iter().collect::<Vec<_>>(),
        [("Authorization", "Bearer t0ken"), ("X-Team", "a b")]
    );
    assert_eq!(read.transport, None);
    for (kind, transport) in [
        ("http", RemoteTransport::Streamable),
        ("streamable-http", RemoteTransport::Streamable),
        ("streamableHttp", RemoteTransport::Streamable),
        ("sse", RemoteTransport::Sse),
    ] {
        let read = endpoint(&format!(r#"{{"type": "{kind}", "serverUrl": "http://127.0.0.1:1/"}}"#));
        assert_eq!(read.transport, Some(transport), "{kind}");
    }
}

#[test]
fn what_a_remote_entry_sends_in_the_clear_beyond_this_machine_is_warned_about() {
    let warns = |entry: &str| one(entry).contains("whoever is on the way can read");
    assert!(warns(r#"{"url": "http://example.com/", "headers": {"A": "b"}}"#));
    assert!(warns(r#"{"url": "http://10.0.0.1/?key=b"}"#));
    assert!(!warns(r#"{"url": "http://example.com/"}"#));
    for host in ["127.0.0.1", "[::1]", "localhost:3000"] {
        assert!(!warns(&format!(r#"{{"url": "http://{host}/", "headers": {{"A": "b"}}}}"#)), "{host}");
    }
}

#[test]
fn each_defect_of_a_remote_entry_is_named_and_none_repeats_a_value() {
    insta::assert_snapshot!(
        [
            r#"{"url": 1}"#,
            r#"{"url": "s3cret"}"#,
            r#"{"url": "ftp://s3cret/"}"#,
            r#"{"url": "https://user:s3cret@example.com/"}"#,
            r#"{"url": "https://example.com/#s3cret"}"#,
            r#"{"url": "https://example.com/${NONE}"}"#,
            r#"{"url": "https://example.com/", "serverUrl": "https://example.com/"}"#,
            r#"{"url": "https://example.com/", "type": "stdio"}"#,
            r#"{"url": "https://example.com/", "type": "carrier-pigeon"}"#,
            r#"{"url": "https://example.com/", "headers": ["s3cret"]}"#,
            r#"{"url": "https://example.com/", "headers": {"a b": "s3cret"}}"#,
            r#"{"url": "https://example.com/", "headers": {"A": "s3cret\nB: c"}}"#,
            r#"{"url": "https://example.com/", "headers": {"A": "s3cret", "a": "s3cret"}}"#,
            r#"{"url": "https://example.com/", "headers": {"MCP-Session-Id": "s3cret"}}"#,
            r#"{"url": "https://example.com/", "args": [], "env": {}, "cwd": "/"}"#,
            r#"{"command": "c", "headers": {}}"#,
            r#"{"type": "sse"}"#,
            r#"{"type": "http", "command": "c"}"#,
        ]
        .map(|entry| {
            let seen = one(entry);
            assert!(!seen.contains("s3cret"), "{seen}");
            seen.replace("~/MCPs/a.json:1:", "")
        })
        .join("\n")
    );
}

#[test]
fn keys_of_other_clients_are_tolerated_and_slips_are_errors_with_the_nearest_key() {
    assert_eq!(
        one(r#"{"command": "c", "type": "stdio", "autoApprove": [], "alwaysAllow": [], "timeout": 3}"#),
        "+ x"
    );
    let slip = |key: &str| {
        one(&format!(r#"{{"command": "c", "{key}": 1}}"#)).replace("~/MCPs/a.json:1:39: mcpServers.x.", "")
    };
    assert_eq!(slip("comand"), "error comand: is no key that belljar knows; did you mean \"command\"?");
    assert_eq!(
        slip("maxConcurency"),
        "error maxConcurency: is no key that belljar knows; did you mean \"max_concurrency\"?"
    );
    assert_eq!(slip("denny"), "error denny: is no key that belljar knows; did you mean \"deny\"?");
    assert!(
        slip("colour").starts_with("error colour: is no key that belljar knows; known are command, args, ")
    );
    assert_eq!(
        slip("envFile"),
        "+ x\nwarning envFile: is a client's own key and has no effect here; write \"env\" for it"
    );
}

#[test]
fn several_defects_of_one_entry_are_all_named() {
    insta::assert_snapshot!(one(
        r#"{"command": 1, "args": [2, "ok", null], "env": {"": "a", "A": "1", "A": "2"}, "cwd": {}}"#
    ));
}

#[test]
fn deep_and_large_files_are_refused_whole() {
    let home = Home::of_servers()
        .file("deep.json", "[".repeat(200_000))
        .file("good.json", r#"{"mcpServers": {"good": {"command": "c"}}}"#);
    let large = fs::File::create(home.path("large.json")).unwrap();
    large.set_len(100 << 20).unwrap();
    assert_eq!(
        home.names(),
        "+ good\n\
         error ~/MCPs/deep.json:1:513: nesting deeper than 128 levels\n\
         error ~/MCPs/large.json: is larger than the 1048576 bytes allowed"
    );
}

#[test]
fn only_ordinary_files_of_trusted_owners_are_read_and_nothing_blocks() {
    let home = Home::of_servers()
        .file("good.json", r#"{"mcpServers": {"good": {"command": "c"}}}"#)
        .file("open.json", "{}");
    fs::set_permissions(home.path("open.json"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::create_dir(home.path("folder.json")).unwrap();
    nix::unistd::mkfifo(&home.path("pipe.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(home.path("socket.json")).unwrap();
    symlink("nothing", home.path("dangling.json")).unwrap();
    symlink("loop.json", home.path("loop.json")).unwrap();
    symlink("/dev/zero", home.path("zero.json")).unwrap();
    symlink("good.json", home.path("same.json")).unwrap();
    insta::assert_snapshot!(home.names(), @r"
    + good
    error ~/MCPs/dangling.json: is a symbolic link to nothing
    error ~/MCPs/folder.json: is a folder, not a file
    error ~/MCPs/loop.json: is a symbolic link that leads back to itself
    error ~/MCPs/open.json: other users may write to this file, so what it says is not trusted; run: chmod go-w ~/MCPs/open.json
    error ~/MCPs/pipe.json: is a pipe, not a file
    error ~/MCPs/socket.json: is a socket, not a file
    error ~/MCPs/zero.json: is a device, not a file
    ");
}

#[test]
fn a_file_of_another_user_is_refused() {
    let home = Home::of_servers().file("a.json", r#"{"mcpServers": {"x": {"command": "c"}}}"#);
    if !nix::unistd::geteuid().is_root() {
        return; // Only root may give a file away.
    }
    std::os::unix::fs::chown(home.path("a.json"), Some(12345), None).unwrap();
    assert_eq!(
        home.names(),
        "error ~/MCPs/a.json: belongs to another user, so what it says is not trusted; run: chown 0 ~/MCPs/a.json"
    );
}

#[test]
fn a_folder_of_another_user_is_refused_even_if_it_is_sticky() {
    let home = Home::of_servers().file("a.json", r#"{"mcpServers": {"x": {"command": "c"}}}"#);
    if !nix::unistd::geteuid().is_root() {
        return; // Only root may give a folder away.
    }
    std::os::unix::fs::chown(home.path(""), Some(12345), None).unwrap();
    for mode in [0o755, 0o1777] {
        fs::set_permissions(home.path(""), fs::Permissions::from_mode(mode)).unwrap();
        let names = home.names();
        let (folder, store) = names.split_once('\n').unwrap();
        assert_eq!(
            folder,
            "error ~/MCPs: belongs to another user, so its files are not trusted; run: chown 0 ~/MCPs"
        );
        assert!(store.starts_with("error ~/MCPs/workspaces: is not used: "), "{store}");
    }
}

#[test]
fn a_folder_that_everybody_may_write_to_is_refused() {
    let home = Home::of_servers().file("a.json", r#"{"mcpServers": {"x": {"command": "c"}}}"#);
    fs::set_permissions(home.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let names = home.names();
    let (folder, store) = names.split_once('\n').unwrap();
    assert_eq!(
        folder,
        "error ~/MCPs: other users may write to this folder, so its files are not trusted; run: chmod go-w ~/MCPs"
    );
    assert!(store.starts_with("error ~/MCPs/workspaces: is not used: "), "{store}");
}

#[test]
fn the_extra_source_is_a_file_or_a_folder_read_once() {
    let extra = tempfile::tempdir().unwrap();
    fs::write(extra.path().join("e.json"), r#"{"mcpServers": {"extra": {"command": "c"}}}"#).unwrap();
    let home = Home::of_servers().file("a.json", r#"{"mcpServers": {"x": {"command": "c"}}}"#);
    let with = |path: &str| Home::of_servers().variable("MCP_SERVERS_CONFIG", path).names();
    assert_eq!(with(extra.path().to_str().unwrap()), "+ extra");
    assert_eq!(with(extra.path().join("e.json").to_str().unwrap()), "+ extra");
    assert_eq!(with("/no/such"), "error MCP_SERVERS_CONFIG: names /no/such, which does not exist");
    assert_eq!(home.variable("MCP_SERVERS_CONFIG", "MCPs/a.json").names(), "+ x");
}

#[test]
fn a_name_in_two_files_is_lost_whatever_their_order() {
    let files = [("a", "one"), ("b", "two")];
    for order in [[0, 1], [1, 0]] {
        let home = order.iter().enumerate().fold(Home::of_servers(), |home, (place, which)| {
            let command = files[*which].1;
            home.file(
                &format!("{place}.json"),
                format!("{{\"mcpServers\": {{\"x\": {{\"command\": \"{command}\"}}}}}}"),
            )
        });
        assert_eq!(
            home.names(),
            "error ~/MCPs/0.json:1:17: mcpServers.x: is defined in ~/MCPs/1.json:1:17 too, and none of them is used; rename or remove one"
        );
    }
}

#[test]
fn entries_that_start_the_bridge_are_skipped_unless_allowed() {
    let file = r#"{"mcpServers": {"me": {"command": "uvx", "args": ["mcp-server-code-execution-mode"]}}}"#;
    assert_eq!(
        Home::of_servers().file("a.json", file).names(),
        "note ~/MCPs/a.json:1:17: mcpServers.me: would start this bridge as its own server, and is skipped; MCP_BRIDGE_ALLOW_SELF_SERVER=1 allows it"
    );
    assert_eq!(
        Home::of_servers().file("a.json", file).variable("MCP_BRIDGE_ALLOW_SELF_SERVER", "1").names(),
        "+ me"
    );
}

#[test]
fn the_running_executable_is_recognised_under_another_name() {
    let home = Home::of_servers()
        .file("a.json", r#"{"mcpServers": {"me": {"command": "./other"}}}"#)
        .file("real", "");
    fs::set_permissions(home.path("real"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("real", home.path("other")).unwrap();
    let environment = Environment { executable: Some(home.path("real")), ..home.environment() };
    assert_eq!(Config::load(&environment).servers, vec![]);
    assert_eq!(home.load().servers.len(), 1);
}

#[test]
fn a_nested_bridge_loads_no_servers_and_says_why() {
    let home = Home::of_servers()
        .file("a.json", r#"{"mcpServers": {"x": {"command": "c"}}}"#)
        .variable(belljar_guard::PARENT_VARIABLE, "1");
    assert_eq!(
        home.names(),
        "error BELLJAR_PARENT: is set: this bridge was started by another one and loads no servers, so that none can call itself"
    );
}

#[test]
fn no_problem_repeats_a_value_that_may_be_secret() {
    let seen = one(
        r#"{"command": "c\u0000 s3cret", "args": ["s3cret\r"], "env": {"T": "s3cret${", "U": "${NONE} s3cret"}}"#,
    );
    assert!(!seen.contains("s3cret"), "{seen}");
    assert_eq!(seen.lines().count(), 4, "{seen}");
}

#[test]
fn a_file_describes_the_entries_that_do_not_describe_themselves() {
    let config = Home::of_servers()
        .file(
            "a.json",
            r#"{"description": "of the file", "mcpServers": {"x": {"command": "/x"}, "y": {"command": "/y", "description": "own"}}}"#,
        )
        .load();
    let about: Vec<_> = config.servers.iter().map(|server| server.description.as_deref()).collect();
    assert_eq!(about, [Some("of the file"), Some("own")]);
}

#[test]
fn a_setting_of_the_sandbox_that_cannot_be_read_is_told_apart_from_others() {
    let problem = |name: &str, value: &str| {
        Home::of_servers().variable(name, value).load().sandbox_problem.map(|problem| problem.origin.clone())
    };
    for name in ["RUNTIME", "MEMORY", "PIDS", "CPUS", "CONTAINER_USER"] {
        let name = format!("MCP_BRIDGE_{name}");
        assert_eq!(problem(&name, "pdoman"), Some(belljar_base::problem::Origin::Variable(name.clone())));
    }
    assert_eq!(problem("MCP_BRIDGE_OUTPUT_MODE", "pdoman"), None);
}

#[test]
fn a_file_of_many_problems_is_read_at_once_and_tells_the_first_of_them() {
    let many = |of: &dyn Fn(usize) -> String| (0..20_000).map(of).collect::<Vec<_>>().join(",");
    let told = |text: &str| {
        let config = Home::of_servers().file("a.json", text).load();
        assert!(config.problems.len() <= 101, "{}", config.problems.len());
        (config.servers.len(), config.problems.last().unwrap().message.clone())
    };
    let keys = many(&|number| format!("\"key{number}\": 1"));
    assert_eq!(
        told(&format!("{{\"mcpServers\": {{\"x\": {{\"command\": \"c\", {keys}}}}}}}")),
        (0, "has 20001 keys, more than the 200 allowed".to_owned())
    );
    let entries = many(&|number| format!("\"s{number}\": {{\"comand\": 1}}"));
    assert_eq!(
        told(&format!("{{\"mcpServers\": {{\"x\": {{\"command\": \"c\"}}, {entries}}}}}")),
        (1, "has 19900 more problems, which are not told one by one".to_owned())
    );
    let names = many(&|number| format!("\"N{number}\": 1"));
    assert_eq!(
        told(&format!("{{\"mcpServers\": {{\"x\": {{\"command\": \"c\", \"env\": {{{names}}}}}}}}}")),
        (0, "has more than 1000 names".to_owned())
    );
}

#[test]
fn a_slip_is_told_rather_than_what_is_missing_for_it() {
    let seen = one(r#"{"comand": "c"}"#);
    assert!(seen.contains("comand: is no key that belljar knows; did you mean \"command\"?"), "{seen}");
    assert!(!seen.contains("has neither"), "{seen}");
    let home =
        Home::of_servers().file("a.json", r#"{"mcpServers": {}, "mcpServerz": {"a": {"command": "c"}}}"#);
    assert_eq!(
        home.names(),
        "warning ~/MCPs/a.json:1:20: mcpServerz: is no key that belljar knows, and its entries are not read; did you \
         mean \"mcpServers\"?"
    );
    let home = Home::of_servers().file("a.json", r#"{"mcpservers": {}}"#);
    assert!(home.names().contains("rename \"mcpservers\" to \"mcpServers\""), "{}", home.names());
}

#[test]
fn a_command_with_blanks_that_is_nowhere_should_be_parted() {
    let said = "warning ~/MCPs/a.json:1:34: mcpServers.x.command: holds blanks, and there is no such program; write the \
                program alone as command, and each argument in args";
    assert!(
        one(r#"{"command": "npx -y server"}"#).contains(said),
        "{}",
        one(r#"{"command": "npx -y server"}"#)
    );
    let home = Home::of_servers()
        .file("my server", "")
        .file("a.json", r#"{"mcpServers": {"x": {"command": "./my server"}}}"#);
    fs::set_permissions(home.path("my server"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(home.names(), "+ x");
}

#[test]
fn quotation_marks_blanks_and_tildes_that_were_pasted_are_named() {
    let quoted =
        "is in quotation marks, which become part of it, since no shell removes them; leave them out";
    let blank = "begins or ends with a blank, which becomes part of it; leave the blank out";
    let tilde =
        "has a ~, which is not expanded in args, since no shell reads them; write ${HOME} or the full path";
    for (entry, key, said) in [
        (r#"{"command": "\"/bin/sh\""}"#, "command", quoted),
        (r#"{"command": " /bin/sh"}"#, "command", blank),
        (r#"{"command": "/bin/sh", "cwd": "'/tmp'"}"#, "cwd", quoted),
        (r#"{"command": "/bin/sh", "args": ["a", "\"/tmp/my data\""]}"#, "args[1]", quoted),
        (r#"{"command": "/bin/sh", "args": ["--dir='/tmp'"]}"#, "args[0]", quoted),
        (r#"{"command": "/bin/sh", "args": ["/tmp/my data "]}"#, "args[0]", blank),
        (r#"{"command": "/bin/sh", "args": ["~/data"]}"#, "args[0]", tilde),
        (r#"{"command": "/bin/sh", "args": ["--dir=~"]}"#, "args[0]", tilde),
    ] {
        let shown = one(entry);
        assert!(shown.contains(&format!("mcpServers.x.{key}: {said}")), "{entry}: {shown}");
    }
    let usual = r#"{"command": "/bin/sh", "args": ["-c", "echo 'a b'\n", "\"", " ", "a~b", "say \"x\" "]}"#;
    let shown = one(usual);
    assert_eq!(shown.matches("mcpServers.x.args").count(), 1, "{shown}");
    assert_eq!(one(r#"{"command": "c", "args": ["${workspaceFolder}/x"]}"#), "+ x");
}

#[test]
fn tools_that_a_client_leaves_out_are_left_out_here() {
    let home = Home::of_servers()
        .file("a.json", r#"{"mcpServers": {"a": {"command": "c", "disabledTools": ["drop"], "includeTools": ["get_*"]}}}"#)
        .file("b.json", r#"{"mcpServers": {"b": {"command": "c", "excludeTools": ["x"], "deny": ["y"]}}}"#);
    let config = home.load();
    let [server] = config.servers.as_slice() else { panic!("{:?}", config.problems) };
    let written = Home::of_servers()
        .file("a.json", r#"{"mcpServers": {"a": {"command": "c", "deny": ["drop"], "allow": ["get_*"]}}}"#)
        .load();
    assert_eq!(server.rules, written.servers[0].rules);
    assert!(
        config.problems[0].to_string().contains("means the same as another key"),
        "{:?}",
        config.problems
    );
}

#[test]
fn what_is_not_chosen_or_would_start_this_bridge_is_refused_with_its_reason() {
    let home = Home::of_servers()
        .file("a.json", r#"{"mcpServers": {"a": {"command": "c"}, "b": {"command": "c"}, "own": {"command": "belljar"}}}"#)
        .variable("MCP_BRIDGE_SERVERS", "a,own");
    let config = home.load();
    let refused: Vec<String> = config.refused.iter().map(ToString::to_string).collect();
    assert_eq!(config.servers.len(), 1);
    assert_eq!(
        refused[0],
        "server 'b' is configured, but is not used: run.servers, or MCP_BRIDGE_SERVERS, does not name it"
    );
    assert!(refused[1].contains("'own'") && refused[1].contains("would start this bridge"), "{refused:?}");
}

#[test]
fn the_time_that_is_shown_is_the_one_that_counts() {
    let config = Home::of_servers().variable("MCP_BRIDGE_TIMEOUT", "500").load();
    let shown = config.settings.iter().find(|setting| setting.name == "run.timeout").unwrap();
    assert_eq!((shown.value.clone(), shown.source.clone()), (Some(120.into()), Source::Default));
    assert_eq!(config.timeout.as_secs(), 120);
}
