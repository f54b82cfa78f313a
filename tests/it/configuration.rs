//! Configuration: good entries load whatever stands beside them, and every problem is said with its place.

use serde_json::json;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::support::{Bridge, Fixture, Home};

/// The user's own file.
const USER: &str = ".config/belljar/config.toml";

/// The servers that the client is told of.
fn servers(bridge: &mut Bridge) -> String {
    let listed = bridge.request("tools/list", json!({})).unwrap();
    let description = listed["tools"][0]["description"].as_str().unwrap().to_owned();
    let line = description.lines().find_map(|line| line.strip_prefix("MCP servers as Python functions: "));
    line.map(|line| line.trim_end_matches('.').to_owned()).unwrap_or_default()
}

#[test]
fn a_broken_file_costs_no_good_server_and_is_said_with_its_line() {
    let broken = [
        ("comma.json", "{\n  \"mcpServers\": {\"a\": {\"command\": \"x\"},,}\n}", "comma.json:2:"),
        ("cut.json", "{\"mcpServers\": {\"a\":", "cut.json:1:"),
        ("empty.json", "", "empty.json: is empty"),
        ("list.json", "[]", "list.json:1:1"),
        ("args.json", "{\"mcpServers\": {\"b\": {\"command\": \"x\", \"args\": \"-y\"}}}", "args.json:1:"),
        ("nameless.json", "{\"mcpServers\": {\" \": {\"command\": \"x\"}}}", "nameless.json:1:"),
    ];
    let mut home = Home::new().server("good", Fixture::new(&[]).entry());
    for (name, content, _) in broken {
        home = home.file(&format!("MCPs/{name}"), content);
    }
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "good");
    for (_, _, place) in broken {
        bridge.says(place);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_where_no_other_is_there_and_one_with_comments_is_read() {
    let home = Home::new().file("MCPs/only.json", "{\"mcpServers\": {");
    let mut bridge = Bridge::start(&home);
    let listed = bridge.request("tools/list", json!({})).unwrap();
    let description = listed["tools"][0]["description"].as_str().unwrap();
    let said = "\nNo MCP server can be used now: a configuration file cannot be used: ";
    assert!(description.contains(said) && description.contains("only.json:1:"), "{description}");
    let commented = "{ // of mine\n \"mcpServers\": {\"good\": {\"command\": \"x\"}, /* the end */}\n}";
    let home = home.file("MCPs/only.json", commented);
    assert_eq!(servers(&mut Bridge::start(&home)), "good");
}

/// Every invalid example, and what is no file at all.
fn make_every_defect(folder: &Path) -> Vec<String> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples/invalid");
    for example in examples.read_dir().unwrap() {
        let example = example.unwrap();
        std::fs::copy(example.path(), folder.join(example.file_name())).unwrap();
    }
    std::fs::create_dir(folder.join("19-folder.json")).unwrap();
    nix::unistd::mkfifo(&folder.join("19-pipe.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    drop(UnixListener::bind(folder.join("19-socket.json")).unwrap());
    symlink("nothing", folder.join("19-dangling.json")).unwrap();
    symlink("19-loop.json", folder.join("19-loop.json")).unwrap();
    symlink("/dev/zero", folder.join("19-endless.json")).unwrap();
    std::fs::write(folder.join("09-deep.json"), "[".repeat(200_000)).unwrap();
    std::fs::File::create(folder.join("10-large.json")).unwrap().set_len(100 << 20).unwrap();
    let entries = folder.read_dir().unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_kind_of_defect_at_once_costs_no_good_server_wherever_they_stand() {
    let more = ["00-first.json", "99-last.json"].map(|name| format!("more/{name}"));
    for place in ["MCPs", "more"] {
        let mut home =
            Home::new().env("MCP_SERVERS_CONFIG", "more").server("good", Fixture::new(&[]).entry());
        for (index, file) in more.iter().enumerate() {
            let entry = json!({"mcpServers": {format!("z{index}"): Fixture::new(&[]).entry()}});
            home = home.file(file, &entry.to_string());
        }
        let kept: Vec<String> = more.iter().map(|file| file.replace("more/", "")).collect();
        let mut defects = make_every_defect(&home.path().join(place));
        defects.retain(|name| name != "servers.json" && !kept.contains(name));
        assert!(defects.len() >= 28, "{defects:?}");
        let mut bridge = Bridge::start(&home);
        let seen = servers(&mut bridge);
        assert!(seen.starts_with("beside-a, ") && seen.ends_with(", good, z0, z1"), "{seen}");
        assert_eq!(seen.matches("beside-").count(), 12, "{seen}");
        for defect in &defects {
            // The second of the two files with one name is named by the first's line.
            bridge.says(&format!("{place}/{defect}"));
        }
    }
}

#[test]
fn a_file_that_is_changed_while_it_runs_counts_for_what_is_asked_next() {
    let home = Home::new().server("first", Fixture::new(&[]).entry());
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "first");
    let home = home.server("second", json!({"command": "true"}));
    assert_eq!(servers(&mut bridge), "first, second");
    let home = home.file("MCPs/broken.json", "{\"mcpServers\": {\"third\": 3}}");
    assert_eq!(servers(&mut bridge), "first, second");
    bridge.says("broken.json:1:26: mcpServers.third");
    std::fs::remove_file(home.path().join("MCPs/servers.json")).unwrap();
    assert_eq!(servers(&mut bridge), "");
}

#[test]
fn servers_of_config_toml_stand_beside_the_others_and_are_followed() {
    let home = Home::new().server("json", Fixture::new(&[]).entry());
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "json");
    let home = home.file(USER, "[servers.toml]\ncommand = \"true\"\n");
    assert_eq!(servers(&mut bridge), "json, toml");
    // The user's counts more than the folder's.
    let home = home
        .file(USER, "[servers.json]\ncommand = \"true\"\ndisabled = true\n[servers.other]\ncommand = 3\n");
    assert_eq!(servers(&mut bridge), "");
    bridge.says(&format!("{USER}:5:11: servers.other.command: must be a string"));
    std::fs::remove_file(home.path().join(USER)).unwrap();
    assert_eq!(servers(&mut bridge), "json");
}

#[test]
fn a_project_s_servers_are_there_once_it_is_trusted_also_for_a_bridge_that_runs() {
    let home = Home::new().file(".belljar/config.toml", "[servers.ours]\ncommand = \"true\"\n");
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "");
    bridge.says(".belljar/config.toml:1:10: servers.ours: is not taken from a project that is not trusted");
    assert_eq!(home.run(&["config", "trust"]).code, Some(0));
    assert_eq!(servers(&mut bridge), "ours");
    let home = home.file(".belljar/config.toml", "[servers.theirs]\ncommand = \"true\"\n");
    assert_eq!(servers(&mut bridge), "");
    assert_eq!(home.run(&["config", "untrust"]).code, Some(0));
}

#[test]
fn a_run_that_asks_for_a_server_that_cannot_be_used_is_told_why() {
    let home = Home::new().file(
        USER,
        "[servers.off]\ncommand = \"true\"\ndisabled = true\n[servers.unset]\ncommand = \"true\"\nargs = [\"${NO_SUCH}\"]\n",
    );
    let place = home.path().join(USER).display().to_string();
    let mut bridge = Bridge::start(&home);
    for (server, said) in [
        ("off", format!("is not used: {place}:1:10: servers.off: is switched off in its entry")),
        (
            "unset",
            format!(
                "cannot be used: {place}:6:9: servers.unset.args[0]: refers to ${{NO_SUCH}}, which is not set"
            ),
        ),
    ] {
        let reply = bridge.run_with(json!({"code": "1", "servers": [server]}));
        let said = format!("server '{server}' is configured, but {said}");
        assert!(reply.is_error && reply.text.contains(&said), "{}", reply.text);
    }
    let output = home.run(&["run", "--server", "off", "-c", "1"]);
    assert!(
        output.code == Some(2) && output.stderr.contains("server 'off' is configured, but is not used"),
        "{}",
        output.stderr
    );
}

#[test]
fn no_command_of_an_entry_runs_before_its_server_is_used() {
    let home = Home::new().env("MCP_BRIDGE_ALLOW_CMD", "1");
    let mark = home.path().join("ran");
    let entry = format!(
        "[servers.slow]\ncommand = \"true\"\nargs = [\"\"\"${{cmd:sh -c 'echo >\"{}\"; sleep 600'}}\"\"\"]\n",
        mark.display()
    );
    let home = home.file(USER, &entry);
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "slow");
    assert_eq!(home.run(&["config"]).code, Some(0));
    assert!(!mark.exists());
}

#[test]
fn config_shows_servers_with_their_places_and_why_others_are_not_used_without_secrets() {
    let home = Home::new().env("TOKEN", "s3cret-token").file(
        USER,
        "[servers.far]\nurl = \"https://example.com/${TOKEN}/mcp?key=s3cret\"\ntimeout = 5\n[servers.near]\n\
         command = \"/opt/${TOKEN}/run\"\nargs = [\"s3cret-arg\"]\nenv.A = \"s3cret-env\"\n[servers.off]\ncommand = \"c\"\n\
         disabled = true\n",
    );
    let shown = home.run(&["config"]);
    let place = home.path().join(USER).display().to_string();
    let lines: Vec<String> =
        shown.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        format!("server far at https://example.com, {place}:1:10"),
        format!("server near command /opt/[TOKEN]/run, {place}:4:10"),
        format!(
            "server off NOT USED, {place}:8:10: is not used: {place}:8:10: servers.off: is switched off in its entry"
        ),
    ] {
        assert!(lines.contains(&line), "{line}: {}", shown.stdout);
    }
    let json = home.run(&["config", "--json"]).stdout;
    assert!(!shown.stdout.contains("s3cret") && !json.contains("s3cret"), "{json}");
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let path = home.path().join(USER);
    assert_eq!(
        value["servers"][0],
        json!({"name": "far", "path": path, "line": 1, "column": 10, "kind": "url", "reach": "at https://example.com",
               "env_inherit": [], "start_timeout": null, "timeout": 5.0, "max_concurrency": null, "sandbox": null, "sandbox_files": true, "private": false, "commands": 0})
    );
    assert_eq!(value["refused_servers"][0]["name"], "off");
    assert_eq!(shown.code, Some(0), "what is as the user asked is no error");
}

#[test]
fn entries_in_a_place_that_code_or_a_confined_server_can_change_are_not_used() {
    let entry = |name: &str| json!({"mcpServers": {name: {"command": "true"}}}).to_string();
    let linked = |target: &str| {
        let home = Home::new().server("plain", Fixture::new(&[]).entry()).file(target, &entry("linked"));
        symlink(home.path().join(target), home.path().join("MCPs/linked.json")).unwrap();
        home
    };
    assert_eq!(servers(&mut Bridge::start(&linked("dotfiles/s.json"))), "linked, plain");
    for target in ["MCPs/workspaces/mine/files/s.json", "MCPs/outbox/session-1/s.json"] {
        let mut bridge = Bridge::start(&linked(target));
        assert_eq!(servers(&mut bridge), "plain", "{target}");
        bridge.says("MCPs/linked.json: is not used: its path leads through ");
    }
    // A mount and a server do not get the file, and the file is not used while they ask for it.
    let home = linked("dotfiles/s.json").file(USER, "[[mount]]\nhost = \"~/dotfiles\"\nwritable = true\n");
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "plain");
    bridge.says("/MCPs/linked.json: is not used: its path leads through ");
    bridge.says("holds belljar's own files");
    let writes = "[servers.writes]\ncommand = \"true\"\nsandbox = { write = [\"~/dotfiles\"] }\n";
    let mut bridge = Bridge::start(&linked("dotfiles/s.json").file(USER, writes));
    assert_eq!(servers(&mut bridge), "linked, plain");
    bridge.says("servers.writes.sandbox.write[0]: would let the server change its own rights");
}

#[test]
fn a_configuration_that_code_can_change_starts_no_sandbox_and_allows_no_call() {
    let linked = |name: &str, target: &str| {
        let home = Home::new().file(target, "# nothing\n");
        let link = home.path().join(".config/belljar").join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(home.path().join(target), link).unwrap();
        home
    };
    for (target, place, is_refused) in [
        ("MCPs/outbox/x/f.toml", "/MCPs/outbox", true),
        ("MCPs/workspaces/w/files/f.toml", "/MCPs/workspaces", true),
        ("dotfiles/f.toml", "/dotfiles", false),
    ] {
        let said =
            format!("{place}, which code can change; keep it outside of what servers and code can change");
        let reply = Bridge::start(&linked("config.toml", target)).run("1").text;
        assert_eq!(reply.contains(&said), is_refused, "{target}: {reply}");
        let shown = linked("policy.toml", target).run(&["config"]).stdout;
        let said = format!("{said}; no call of a tool passes until that is right");
        assert_eq!(shown.contains(&said), is_refused, "{shown}");
    }
}

#[test]
fn a_link_of_another_user_leads_to_no_configuration() {
    if !nix::unistd::geteuid().is_root() {
        return; // Only root makes links for others. `config/read/file.rs` tests the same without being root.
    }
    let home =
        Home::new().file("private.json", &json!({"mcpServers": {"s": {"command": "true"}}}).to_string());
    let link = home.path().join("MCPs/s.json");
    symlink("../private.json", &link).unwrap();
    assert_eq!(servers(&mut Bridge::start(&home)), "s");
    std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "");
    bridge.says("MCPs/s.json, a link that belongs to another user");
}

#[test]
fn a_program_with_all_rights_that_others_can_change_is_warned_of() {
    let home = Home::new()
        .file("notes/server.py", "")
        .file("notes/data.txt", "")
        .file("notes/package/package.json", "{}")
        .file("shared/run", "#!/bin/sh\n")
        .file("apart/server.py", "")
        .file("own/s.py", "");
    let at = |path: &str| home.path().join(path).to_str().unwrap().to_owned();
    std::fs::set_permissions(at("shared/run"), PermissionsExt::from_mode(0o755)).unwrap();
    let home = home
        .clone()
        .file(USER, "[[mount]]\nhost = \"~/shared\"\nwritable = true\n")
        .server("writes", json!({"command": "true", "sandbox": {"write": [at("notes")]}}))
        .server("script", json!({"command": "python3", "args": ["-u", at("notes/server.py")]}))
        .server(
            "option",
            json!({"command": "python3", "args": [format!("--file={}", at("notes/server.py"))]}),
        )
        .server("package", json!({"command": "npm", "args": ["--prefix", at("notes/package"), "start"]}))
        .server("folder", json!({"command": "npm", "args": ["start"], "cwd": at("notes/package")}))
        .server("program", json!({"command": at("shared/run")}))
        .server("relative", json!({"command": "./run", "cwd": at("shared")}))
        .server("confined", json!({"command": "python3", "args": [at("notes/server.py")], "sandbox": true}))
        .server(
            "named",
            json!({"command": "python3", "args": [at("notes/server.py")], "sandbox": {"network": "host"}}),
        )
        .server(
            "login",
            json!({"command": "python3", "args": [at("notes/server.py")], "env": {"A": "b"}, "sandbox": true}),
        )
        .server(
            "own",
            json!({"command": "python3", "args": [at("own/s.py")], "sandbox": {"write": [at("own")]}}),
        )
        .server("data", json!({"command": "cat", "args": [at("notes/data.txt"), at("notes")]}))
        .server("project", json!({"command": "npx", "args": ["-y", "mcp-files", at("notes/package")]}))
        .server("unnamed", json!({"command": "node", "args": ["--no-warnings", at("notes/build/index")]}))
        .server("module file", json!({"command": "/usr/bin/python3.11", "args": [at("notes/mod")]}))
        .server("other", json!({"command": "python3", "args": [at("apart/server.py")]}))
        .server("module", json!({"command": "python3", "args": ["-m", "x"], "cwd": at("notes")}))
        .server("apart", json!({"command": "python3", "args": ["-m", "x"], "cwd": at("apart")}));
    let said = home.run(&["doctor"]).stdout;
    let bridge = Bridge::start(&home);
    for (server, who) in [
        ("script", "the confined server 'writes'"),
        ("option", "the confined server 'writes'"),
        ("package", "the confined server 'writes'"),
        ("folder", "the confined server 'writes'"),
        ("module", "the confined server 'writes'"),
        ("program", "code"),
        ("relative", "code"),
        ("unnamed", "the confined server 'writes'"),
        ("module file", "the confined server 'writes'"),
    ] {
        let does = if ["folder", "module"].contains(&server) { "starts in" } else { "runs" };
        let of_it = format!("mcpServers.{server}: {does} ");
        let line =
            said.lines().find(|line| line.contains(&of_it)).unwrap_or_else(|| panic!("{server}: {said}"));
        assert!(line.contains(&format!("with all your rights, and {who} can change ")), "{line}");
        bridge.says(&of_it);
    }
    assert_eq!(said.matches("with all your rights, and").count(), 9, "{said}");
    for confined in ["confined", "named", "login"] {
        let of_it = format!("mcpServers.{confined}: runs ");
        let line = said.lines().find(|line| line.contains(&of_it)).unwrap_or_else(|| panic!("{said}"));
        assert!(
            line.contains("with what its entry gives it, and the confined server 'writes' can"),
            "{line}"
        );
    }
    assert_eq!(said.matches("with what its entry gives it, and").count(), 3, "{said}");
}

#[test]
fn a_project_s_file_is_not_read_through_a_link_of_the_project() {
    let home = Home::new().file("one/.belljar/config.toml", "[servers.ours]\ncommand = \"bin/server\"\n");
    let in_folder = |folder: &str, arguments: &[&str]| {
        let done = home.command(arguments).current_dir(home.path().join(folder)).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    in_folder("one", &["config", "trust"]);
    std::fs::create_dir(home.path().join("two")).unwrap();
    symlink("../one/.belljar", home.path().join("two/.belljar")).unwrap();
    let used = format!("command {}", home.path().join("one/.belljar/bin/server").display());
    assert!(in_folder("one", &["config"]).contains(&used));
    let refused = "servers.ours: is not taken from a project that is not trusted";
    let said = in_folder("two", &["config"]);
    assert!(said.contains("is reached by a symbolic link of the project, so it is not read"), "{said}");
    assert!(!said.contains("bin/server"), "{said}");
    let trust = home.command(&["config", "trust"]).current_dir(home.path().join("two")).output().unwrap();
    let said = String::from_utf8(trust.stderr).unwrap();
    assert!(trust.status.code() == Some(1) && said.contains("a symbolic link of the project"), "{said}");
    assert!(!said.contains("bin/server") && trust.stdout.is_empty(), "{said}");
    // Trust belongs to the project, by whatever path its folder is reached.
    symlink("one", home.path().join("again")).unwrap();
    assert!(!in_folder("again", &["config"]).contains(refused));
}

#[test]
fn a_record_of_trust_that_others_could_have_written_trusts_nothing() {
    let home = Home::new().file(".belljar/config.toml", "[servers.ours]\ncommand = \"true\"\n");
    home.run(&["config", "trust"]);
    let record = home.path().join(".local/state/belljar/trusted.json");
    let refused = "servers.ours: is not taken from a project that is not trusted";
    for (mode, is_trusted) in [(0o600, true), (0o660, false), (0o620, false), (0o602, false), (0o600, true)] {
        std::fs::set_permissions(&record, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(!home.run(&["config"]).stdout.contains(refused), is_trusted, "{mode:o}");
    }
    let moved = home.path().join("moved.json");
    std::fs::rename(&record, &moved).unwrap();
    symlink(&moved, &record).unwrap();
    assert!(home.run(&["config"]).stdout.contains(refused), "a link could have been turned");
}

#[test]
fn another_name_of_a_folder_that_code_can_change_is_known() {
    let second = [("data", "alias"), ("data/sub", "part"), (".ssh/work", "keys")];
    let of = |name: &str, host: &str| format!("[[mount]]\nhost = \"{host}\"\nguest = \"/mnt/{name}\"\n");
    let config = [
        "[policy]\nallow_cmd = true\n[[mount]]\nhost = \"~/data\"\nwritable = true\n".to_owned(),
        of("sub", "~/alias/sub"),
        of("part", "~/part"),
        of("keys", "~/keys"),
    ]
    .concat();
    let home = || {
        let entry = |script: &str| json!({"command": "true", "env": {"T": format!("${{cmd:~/{script}}}")}});
        let home = Home::new().file(USER, &config).file(".ssh/work/id", "").file("keys/x", "");
        // The names are folders of their own as long as nothing is mounted there.
        let scripts = ["data/tok.sh", "data/sub/tok.sh", "alias/tok.sh", "alias/sub/tok.sh", "part/tok.sh"];
        let home = scripts.iter().fold(home, |home, script| {
            let home = home.file(script, "#!/bin/sh\n");
            std::fs::set_permissions(home.path().join(script), PermissionsExt::from_mode(0o700)).unwrap();
            home
        });
        home.server("script", entry("alias/tok.sh")).server("deep", entry("part/tok.sh"))
    };
    let said = home().run(&["config"]).stdout;
    assert!(!said.contains("code can") && !said.contains("keys or logins"), "{said}");
    assert!(!said.contains("one of them is writable"), "{said}");
    let home = home().bound(&second);
    let said = home.run(&["config"]).stdout;
    let at = |name: &str| home.path().join(name).display().to_string();
    for says in [
        format!("leads through {}, which code can replace, and so choose what is mounted", at("alias/sub")),
        format!("{} lies in or above that of /mnt/data, and one of them is writable", at("part")),
        format!("{} holds keys or logins ({})", at("keys"), at(".ssh")),
        format!("alias/tok.sh …}}, and code can change {}", at("alias")),
        format!("part/tok.sh …}}, and code can change {}", at("part")),
    ] {
        assert!(said.contains(&says), "{says}: {said}");
    }
}

#[test]
fn another_user_does_not_choose_what_is_mounted_or_given_to_a_server() {
    let home = Home::new().file("team/data/x", "").file("own/x", "");
    symlink("../own", home.path().join("team/link")).unwrap();
    let entry = |path: &str| json!({"command": "true", "sandbox": {"read": [path], "write": [path]}});
    let home = home
        .file(USER, "[[mount]]\nhost = \"~/team/data\"\n[[mount]]\nhost = \"~/team/link\"\n")
        .server("data", entry("~/team/data"))
        .server("link", entry("~/team/link"));
    let team = home.path().join("team");
    let of_mount = |name: &str| format!("host: the path of {} leads through ", team.join(name).display());
    let is_refused = |name: &str, why: &str| {
        let said = home.run(&["config"]).stdout;
        let of_server = |key| format!("mcpServers.{name}.sandbox.{key}[0]: leads through ");
        let found = [of_mount(name), of_server("read"), of_server("write")].map(|says| {
            let line = said.lines().find(|line| line.starts_with("error: ") && line.contains(&says));
            line.inspect(|line| assert!(line.contains(why), "{line}")).is_some()
        });
        assert!(found[1..].iter().all(|one| *one == found[0]), "{found:?}: {said}");
        found[0]
    };
    let team_real = team.canonicalize().unwrap();
    let shared = format!("{}, a folder that other users can write", team_real.display());
    for (mode, expected) in [(0o755, false), (0o1777, false), (0o757, true)] {
        std::fs::set_permissions(&team, PermissionsExt::from_mode(mode)).unwrap();
        for name in ["data", "link"] {
            assert_eq!(is_refused(name, &shared), expected, "{mode:o} {name}");
        }
    }
    std::fs::set_permissions(&team, PermissionsExt::from_mode(0o755)).unwrap();
    if nix::unistd::geteuid().is_root() {
        // Only root gives files away. `confine/resolved_path.rs` tests the same without being root.
        std::os::unix::fs::lchown(team.join("link"), Some(12_345), None).unwrap();
        assert!(is_refused("link", "team/link, a link that belongs to another user"));
        assert!(!is_refused("data", ""));
        std::os::unix::fs::chown(&team, None, Some(12_345)).unwrap();
        std::fs::set_permissions(&team, PermissionsExt::from_mode(0o2775)).unwrap();
        assert!(is_refused("data", &shared));
    }
}

#[test]
fn a_misspelt_variable_is_said_with_the_nearest_name() {
    let bridge = Bridge::start(&Home::new().env("MCP_BRIDGE_OUTPUT_MOD", "toon"));
    bridge.says(
        "MCP_BRIDGE_OUTPUT_MOD: is no variable that belljar reads; did you mean MCP_BRIDGE_OUTPUT_MODE?",
    );
}

#[test]
fn one_name_in_two_files_is_an_error_that_names_both() {
    let entry = "{\"mcpServers\": {\"twice\": {\"command\": \"true\"}}}";
    let home = Home::new().file("MCPs/a.json", entry).file("MCPs/b.json", entry);
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "");
    bridge.says("MCPs/a.json:1:");
    bridge.says("MCPs/b.json:1:");
}

#[test]
fn one_more_file_is_named_by_a_variable() {
    let home = Home::new()
        .server("first", Fixture::new(&[]).entry())
        .file("elsewhere/more.json", "{\"mcpServers\": {\"second\": {\"command\": \"true\"}}}")
        .env("MCP_SERVERS_CONFIG", "elsewhere/more.json");
    assert_eq!(servers(&mut Bridge::start(&home)), "first, second");
}

#[test]
fn a_bad_variable_is_said_and_its_default_counts() {
    let home = Home::new().env("MCP_BRIDGE_TIMEOUT", "soon").env("MCP_BRIDGE_OUTPUT_MODE", "xml");
    let mut bridge = Bridge::start(&home);
    bridge.says("MCP_BRIDGE_TIMEOUT");
    bridge.says("MCP_BRIDGE_OUTPUT_MODE");
    let listed = bridge.request("tools/list", json!({})).unwrap();
    let timeout = &listed["tools"][0]["inputSchema"]["properties"]["timeout"];
    assert_eq!(timeout["description"], "seconds, default 30, max 120");
}

#[test]
fn a_bridge_is_not_its_own_server() {
    let belljar = crate::support::program("belljar");
    let entry = json!({"command": belljar});
    let home = Home::new().server("belljar", entry.clone()).server("good", Fixture::new(&[]).entry());
    assert_eq!(servers(&mut Bridge::start(&home)), "good");
    let allowed = home.env("MCP_BRIDGE_ALLOW_SELF_SERVER", "1");
    assert_eq!(servers(&mut Bridge::start(&allowed)), "belljar, good");
}

#[test]
fn a_bridge_that_was_started_by_a_bridge_loads_no_servers() {
    let home = Home::new().server("good", Fixture::new(&[]).entry()).env("BELLJAR_PARENT", "1");
    let mut bridge = Bridge::start(&home);
    assert_eq!(servers(&mut bridge), "");
    bridge.says("BELLJAR_PARENT");
}

#[test]
fn logs_are_as_loud_as_asked_and_never_on_stdout() {
    for (level, is_loud) in [("DEBUG", true), ("OFF", false)] {
        let home = Home::new().env("MCP_BRIDGE_LOG_LEVEL", level).env("MCP_BRIDGE_TIMEOUT", "soon");
        let mut bridge = Bridge::start(&home);
        bridge.run("1");
        assert_eq!(bridge.rest(), [json!(null); 0]);
        if is_loud {
            bridge.says("MCP_BRIDGE_TIMEOUT");
        } else {
            assert_eq!(bridge.stderr(), "", "{level}");
        }
    }
}

#[test]
fn no_program_of_the_opened_project_is_run_because_it_is_in_path() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::new();
    let project = home.path().join("code/clone");
    let bin = project.join("node_modules/.bin");
    std::fs::create_dir_all(&bin).unwrap();
    let ran = home.path().join("ran");
    for program in ["podman", "keys"] {
        let script = format!("#!/bin/sh\necho {program} >> '{}'\n", ran.display());
        std::fs::write(bin.join(program), script).unwrap();
        std::fs::set_permissions(bin.join(program), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let entry = json!({"command": "sh", "args": ["-c", "keys; exec cat"], "env": {"K": "${cmd:keys get}"}});
    let home =
        home.server("keyed", entry).env("MCP_BRIDGE_ALLOW_CMD", "1").env("MCP_BRIDGE_RUNTIME", "podman");
    let doctor = |folder: &std::path::Path| {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
        let output =
            home.command(&["doctor", "--ask"]).current_dir(folder).env("PATH", path).output().unwrap();
        let ran_programs = std::fs::read_to_string(&ran).unwrap_or_default();
        (String::from_utf8(output.stderr).unwrap(), ran_programs)
    };
    let (said, ran_programs) = doctor(&project);
    assert_eq!(ran_programs, "", "{said}");
    assert!(said.contains(&format!("searches no programs in {}", bin.display())), "{said}");
    // A folder that was removed meanwhile counts as opened still.
    let removed = format!(
        "mkdir '{0}/sub'; cd '{0}/sub'; rmdir '{0}/sub'; exec \"$0\" doctor --ask",
        project.display()
    );
    std::fs::create_dir(project.join(".git")).unwrap();
    let belljar = env!("CARGO_BIN_EXE_belljar");
    let mut command = home.command(&[]);
    let environment: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command = std::process::Command::new("sh");
    command
        .args(["-c", &removed, belljar])
        .env_clear()
        .envs(environment.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let output = command.env("PATH", path).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(std::fs::read_to_string(&ran).unwrap_or_default(), "", "{said}");
    assert!(said.contains("searches no programs in"), "{said}");
    // Where nothing is left, the system's folders are searched.
    for path in ["", ":", bin.to_str().unwrap()] {
        let output = home.command(&["config"]).current_dir(&project).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{path}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap().matches("searches no programs").count(),
            1,
            "{path}"
        );
    }
    assert!(
        home.command(&["config"]).current_dir(&project).env_remove("PATH").output().unwrap().status.success()
    );
    // The same folder is the user's own choice where another one is opened.
    let (said, ran_programs) = doctor(home.path());
    assert!(ran_programs.contains("keys") && !said.contains("searches no programs"), "{said} {ran_programs}");
}

#[test]
fn a_long_list_in_a_project_s_file_costs_no_time_and_few_lines() {
    let names: Vec<String> = (0..60_000).map(|number| format!("\"s{number}\"")).collect();
    let home = Home::new().file(USER, "[run]\nservers = [\"a\"]\n");
    let home = home.file("p/.belljar/config.toml", "x = 1\n");
    let time = |home: &Home| {
        let start = std::time::Instant::now();
        let output = home.command(&["config"]).current_dir(home.path().join("p")).output().unwrap();
        (start.elapsed(), String::from_utf8(output.stdout).unwrap().lines().count())
    };
    let (floor, lines) = time(&home);
    let long = format!("[run]\nservers = [{}]\n", names.join(","));
    let broken = "=\n".repeat(500_000);
    for text in [long, broken] {
        std::fs::write(home.path().join("p/.belljar/config.toml"), text).unwrap();
        let (taken, more) = time(&home);
        assert!(more < lines + 60, "{more} lines");
        assert!(taken < floor * 20 + std::time::Duration::from_secs(5), "{taken:?} instead of {floor:?}");
    }
}

#[test]
fn trust_in_a_project_is_for_its_own_folder_only() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let text = "[servers.ours]\ncommand = \"./run.sh\"\n";
    let home = Home::new().file("own/.belljar/config.toml", text);
    let in_folder = |folder: &OsStr, arguments: &[&str]| {
        let done = home.command(arguments).current_dir(home.path().join(folder)).output().unwrap();
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    };
    // Names that look the same once they are shown.
    for name in [&b"p\xe9"[..], b"p\xea"] {
        let folder = home.path().join(OsStr::from_bytes(name)).join(".belljar");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), text).unwrap();
    }
    let said = in_folder(OsStr::from_bytes(b"p\xe9"), &["config", "trust"]);
    assert!(said.contains("its path is not UTF-8"), "{said}");
    let refused = "servers.ours: is not taken from a project that is not trusted";
    assert!(in_folder(OsStr::from_bytes(b"p\xea"), &["config"]).contains(refused));
    // A folder that becomes a link to a trusted project while belljar runs in it.
    in_folder(OsStr::new("own"), &["config", "trust"]);
    assert!(!in_folder(OsStr::new("own"), &["config"]).contains(refused));
    std::fs::create_dir(home.path().join("sub")).unwrap();
    let place = home.path().to_owned();
    let mut bridge = Bridge::start(&home.started_in("sub"));
    assert_eq!(servers(&mut bridge), "");
    std::fs::rename(place.join("sub"), place.join("moved")).unwrap();
    symlink("own", place.join("sub")).unwrap();
    assert_eq!(servers(&mut bridge), "");
}
