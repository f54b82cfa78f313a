//! Claims about entries of servers: their keys in every kind of file, which of several counts, and what happens to the
//! rest.
//!
//! They use real files in a temporary home.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use belljar_base::problem::Position;

use super::*;
use crate::config::servers::transport::Transport;
use crate::config::test_home::Home;
use crate::config::{ConfigFiles, SandboxFiles, ServerRules};

impl Home {
    /// Servers with their commands and places, those that are refused, and every problem.
    fn seen(&self) -> String {
        let config = self.load();
        let mut lines = Vec::new();
        for server in &config.servers {
            let Position { line, column } = server.position;
            let place = format!("{}:{line}:{column}", server.source.display());
            lines.push(format!("+ {} {} ({place})", server.name, server.shown_reach()));
        }
        lines.extend(config.refused.iter().map(|refused| format!("- {refused}")));
        lines.extend(config.problems.iter().map(|problem| format!("{} {problem}", problem.severity)));
        self.said(lines.join("\n"))
    }
}

/// The rules of the one server x, in a JSON file and as a table of a config.toml.
fn rules(json: &str, toml: &str) -> [ServerRules; 2] {
    let json =
        Home::new().file("MCPs/a.json", format!(r#"{{"mcpServers": {{"x": {{"command": "c", {json}}}}}}}"#));
    let toml = Home::new().user(&format!("[servers.x]\ncommand = \"c\"\n{toml}"));
    [json, toml].map(|home| {
        let config = home.load();
        assert_eq!(config.problems, []);
        config.servers[0].rules.clone()
    })
}

#[test]
fn the_keys_of_every_server_mean_the_same_in_json_and_toml() {
    let [json, toml] = rules(
        r#""startTimeout": 45.5, "timeout": 2.5, "maxConcurrency": 3, "allow": ["get_*"], "deny": ["*_all"], "sandboxFiles": false"#,
        "start_timeout = 45.5\ntimeout = 2.5\nmax_concurrency = 0x3\nallow = ['get_*']\ndeny = [\n  '*_all',\n]\nsandbox_files = false",
    );
    assert_eq!(json, toml);
    assert_eq!((json.call_time, json.calls_at_once), (Some(Duration::from_millis(2_500)), Some(3)));
    assert_eq!(json.start_time, Some(Duration::from_millis(45_500)));
    assert_eq!(json.sandbox_files, SandboxFiles::Kept);
    let kept_back = ["get_one", "get_all", "set"]
        .map(|tool| json.tools.kept_back(belljar_tools::policy::Names::only(tool)));
    assert_eq!(kept_back, [None, Some("deny"), Some("allow")]);
    let [json, toml] = rules(
        r#""timeout": 3600, "max_concurrency": 32, "deny": []"#,
        "timeout = 3600\nmax_concurrency = 32",
    );
    assert_eq!(json, toml);
    assert_eq!(json.call_time, Some(Duration::from_secs(3_600)));
}

/// The patterns of variables that the server x inherits.
fn inherits(home: &Home) -> Vec<String> {
    let config = home.load();
    let Transport::Launch(launch) = &config.servers[0].transport else { panic!("a command") };
    launch.env_inherit.iter().map(|pattern| pattern.as_str().to_owned()).collect()
}

#[test]
fn inherited_variables_are_named_alike_in_json_and_toml_and_are_nothing_beside_a_url() {
    for key in ["env_inherit", "envInherit"] {
        let json = format!(r#"{{"mcpServers": {{"x": {{"command": "c", "{key}": ["AWS_*", "A"]}}}}}}"#);
        assert_eq!(inherits(&Home::new().file("MCPs/a.json", &json)), ["AWS_*", "A"]);
    }
    let toml = Home::new().user("[servers.x]\ncommand = \"c\"\nenv_inherit = [\"AWS_*\", \"A\"]\n");
    assert_eq!(inherits(&toml), ["AWS_*", "A"]);
    let wrong = Home::new().user(
        "[servers.a]\ncommand = \"c\"\nenv_inherit = [\"A*B\", \"A=1\", 1]\n[servers.b]\ncommand = \"c\"\n\
         env_inherit = \"*\"\n[servers.far]\nurl = \"https://x.example\"\nenv_inherit = [\"A\"]\n",
    );
    insta::assert_snapshot!(wrong.seen());
}

#[test]
fn a_project_that_is_not_trusted_widens_what_no_server_inherits() {
    let entry = |patterns: &str| format!("[servers.x]\ncommand = \"c\"\nenv_inherit = [{patterns}]\n");
    let home = Home::new().user(&entry("\"A\"")).project(&entry("\"*\""));
    assert_eq!(inherits(&home), ["A"]);
    home.trusts();
    assert_eq!(inherits(&home), ["*"]);
    let changed = home.project(&entry("\"B\", \"*\""));
    assert_eq!(inherits(&changed), ["A"]);
}

#[test]
fn a_large_time_is_milliseconds_in_a_client_s_file_and_seconds_in_toml() {
    let home =
        Home::new().file("MCPs/a.json", r#"{"mcpServers": {"x": {"command": "c", "timeout": 60000}}}"#);
    assert_eq!(home.load().servers[0].rules.call_time, Some(Duration::from_secs(60)));
    assert_eq!(
        home.seen(),
        "+ x command c (MCPs/a.json:1:17)\n\
         warning MCPs/a.json:1:50: mcpServers.x.timeout: is 60000, which counts as milliseconds, as some clients write it: \
         60 s; write seconds, up to 3600 here"
    );
    let home = Home::new().user("[servers.x]\ncommand = \"c\"\ntimeout = 60000\n");
    assert_eq!(home.load().servers[0].rules.call_time, Some(Duration::from_secs(60_000)));
}

#[test]
fn a_table_is_read_by_the_reader_of_json_entries_with_its_own_places() {
    let home = Home::new()
        .user(
            "[run]\ntimeout = 7\n\n[servers.git]\ncommand = \"./git\"\nargs = [\"a\", \"${A}\"]\nenv = { K = \"v\" }\n\
             description = \"d\"\n[servers.\"far away\"]\nurl = \"https://example.com/mcp\"\ntype = \"sse\"\n\
             headers.Authorization = \"Bearer ${A}\"\n",
        )
        .variable("A", "from outside");
    assert_eq!(
        home.seen(),
        "+ far away at https://example.com (.config/belljar/config.toml:9:10)\n\
         + git command .config/belljar/./git (.config/belljar/config.toml:4:10)"
    );
    let config = home.load();
    assert_eq!(config.timeout.as_secs(), 7);
    let Transport::Launch(launch) = &config.servers[1].transport else { panic!("a command") };
    assert_eq!(
        (launch.args.as_slice(), launch.env.iter().next()),
        (&["a", "from outside"].map(String::from)[..], Some(("K", "v")))
    );
    let Transport::Endpoint(endpoint) = &config.servers[0].transport else { panic!("an address") };
    assert_eq!(endpoint.headers.iter().next(), Some(("Authorization", "Bearer from outside")));
    assert_eq!(config.servers[1].references.iter().collect::<Vec<_>>(), [("A", "from outside")]);
}

#[test]
fn each_defect_of_a_table_is_said_at_its_place_and_costs_its_entry_only() {
    let home = Home::new().user(
        "[servers]\nflat = 3\n[servers.good]\ncommand = \"c\"\n[servers.slip]\ncommand = \"c\"\nmaxConcurrency = 3\n\
         [servers.kinds]\ncommand = 1\nargs = \"a\"\nenv = { A = 2025-01-01 }\ntimeout = true\nmax_concurrency = 33\n\
         allow = [1]\ndeny = \"x\"\nsandbox_files = 1\ndisabled = \"no\"\n[servers.\" \"]\ncommand = \"c\"\n\
         [servers.off]\ncommand = \"c\"\ndisabled = true\n",
    );
    insta::assert_snapshot!(home.seen());
}

#[test]
fn a_file_that_is_no_toml_gives_none_of_its_servers_and_lets_no_other_take_their_names() {
    let home = Home::new().user("[servers.x]\ncommand = \"c\"\ndeny = [\"a\"\nallow = 3\n").file(
        "MCPs/a.json",
        r#"{"mcpServers": {"x": {"command": "other"}, "y": {"command": "c", "sandbox": false}}}"#,
    );
    let config = home.load();
    assert_eq!(config.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["y"]);
    let refused = home.said(&config.refused[0]);
    assert!(
        refused.starts_with(
            "server 'x' is configured, but cannot be used: .config/belljar/config.toml:4:1: is no TOML: "
        ),
        "{refused}"
    );
}

#[test]
fn servers_without_a_sandbox_are_refused_while_the_setting_cannot_be_read() {
    let entries = r#"{"mcpServers": {"left": {"command": "c"}, "free": {"command": "c", "sandbox": false},
        "own": {"command": "c", "sandbox": true}, "far": {"url": "https://x.test"}}}"#;
    let home = |text: &str| Home::new().user(text).file("MCPs/a.json", entries);
    let used = |home: &Home| {
        let names: Vec<String> = home.load().servers.iter().map(|server| server.name.to_string()).collect();
        names.join(" ")
    };
    for text in [
        "[servers]\nsandbox = \"true\"",
        "[servers]\nsandbox = 1",
        "[servers]\nsandbox = { network = \"none\" }",
        "[servers.sandbox]\nnetwork = \"none\"",
        "[servers]\nsanbdox = true",
        "[servers]\nSandbox = true",
        "[servers]\nsandboxed = \"yes\"",
        "[servers]\nSandbox = { write = [] }",
        "[servers]\nconfined = true",
        "[server]\nsandbox = true",
        "[run]\nsandbox = true",
        "[sandbox]\nservers = true",
        "sandbox = true",
        "[servers]\nsandbox = tru",
        "[servers]\nsandbox = true\nsandbox = true",
    ] {
        let home = home(text);
        assert_eq!(used(&home), "far free own", "{text}");
        let refused = home.load().refused.iter().map(|refused| home.said(refused)).collect::<Vec<_>>();
        let said = "server 'left' is configured, but is not started, since what confines all servers cannot be read and its entry \
                    has no sandbox of its own: .config/belljar/config.toml:";
        assert!(matches!(refused.as_slice(), [one] if one.starts_with(said)), "{text}: {refused:?}");
        assert_eq!(used(&home.variable("MCP_BRIDGE_SANDBOX_SERVERS", "0")), "far free left own", "{text}");
    }
    for (name, value) in [("MCP_BRIDGE_SANDBOX_SERVERS", "yess"), ("MCP_BRIDGE_SANDBOX_SERVER", "1")] {
        assert_eq!(used(&home("").variable(name, value)), "far free own", "{name}");
    }
    for text in [
        "",
        "[servers]\nflat = 3",
        "[servers.sandbox2]\ncommand = \"c\"\ndisabled = true",
        "[run]\ntimeot = 3",
    ] {
        assert_eq!(used(&home(text)), "far free left own", "{text}");
    }
    let project = Home::new().file("MCPs/a.json", entries).project("[servers]\nsandbox = \"true\"");
    assert_eq!(used(&project), "far free left own", "a project does not set it");
}

#[test]
fn a_link_that_a_confined_server_can_change_leads_to_no_file() {
    let home = Home::new()
        .file("w/token", "plain-token")
        .file("w/folder/token", "plain-token")
        .file("secret", "secret-key")
        .file("outside", "other-token");
    for (link, target) in
        [("w/link", "../secret"), ("w/up", ".."), ("mine", "w/link"), ("own", "secret"), ("alias", "w")]
    {
        std::os::unix::fs::symlink(target, home.path(link)).unwrap();
    }
    let writes =
        "[policy]\nallow_cmd = true\n[servers.e]\ncommand = \"c\"\nsandbox = { write = [\"~/alias\"] }\n";
    let of = |entry: &str| {
        let home_path = home.folder.path().to_str().unwrap();
        let config = format!("{writes}[servers.x]\n{}\n", entry.replace('@', home_path));
        fs::create_dir_all(home.path(".config/belljar")).unwrap();
        fs::write(home.path(".config/belljar/config.toml"), config).unwrap();
        let config = home.load();
        let refused = config.refused.first().map(|refused| home.said(refused));
        assert_eq!(refused.is_none(), config.servers.len() == 2, "{entry}");
        refused
    };
    for entry in [
        "command = \"c\"\nenv = { T = \"${file:~/w/token}\" }",
        "command = \"c\"\nenv = { T = \"${file:~/alias/folder/token}\" }",
        "command = \"c\"\nenv = { T = \"${file:~/own}\" }",
        "command = \"c\"\nenv = { T = \"${cmd:cat @/outside}\" }",
        "url = \"https://x.test\"\nlogin = { type = \"workload_identity\", assertion_file = \"~/own\" }",
    ] {
        assert_eq!(of(entry), None, "{entry}");
    }
    for (entry, said) in [
        ("command = \"c\"\nenv = { T = \"${file:~/w/link}\" }", "${file:~/w/link}"),
        ("command = \"c\"\nenv = { T = \"${file:~/mine}\" }", "${file:~/mine}"),
        ("command = \"c\"\nargs = [\"${file:~/w/up/secret}\"]", "${file:~/w/up/secret}"),
        ("url = \"https://x.test\"\nheaders = { T = \"${file:~/w/link}\" }", "${file:~/w/link}"),
    ] {
        let refused = of(entry).unwrap_or_else(|| panic!("{entry}"));
        let begin = format!("refers to {said}, and the confined server 'e' can change the link ");
        assert!(
            refused.contains(&begin) && refused.contains("name the file itself, or one outside"),
            "{refused}"
        );
    }
    // A file that is opened later may have been changed by then.
    for (entry, said) in [
        ("command = \"c\"\nenv = { T = \"${cmd:cat @/w/token}\" }", "${cmd:cat …}"),
        ("command = \"c\"\nenv = { T = \"${cmd:cat --file=@/mine}\" }", "${cmd:cat …}"),
        // It can be put there before the command runs.
        ("command = \"c\"\nenv = { T = \"${cmd:cat @/w/none}\" }", "${cmd:cat …}"),
        ("command = \"c\"\nenv = { T = \"${cmd:@/w/none}\" }", "${cmd:w/none …}"),
        (
            "url = \"https://x.test\"\nlogin = { type = \"workload_identity\", assertion_file = \"~/w/token\" }",
            "servers.x.login.assertion_file",
        ),
    ] {
        let refused = of(entry).unwrap_or_else(|| panic!("{entry}"));
        assert!(
            refused.contains(&format!("refers to {said}, and the confined server 'e' can change ")),
            "{refused}"
        );
    }
}

#[test]
fn a_command_s_entry_is_read_again_without_links_that_a_server_can_change() {
    let home = Home::new().file("w/token", "plain-token").file("secret", "secret-key").user(
        "[policy]\nallow_cmd = true\n[servers.e]\ncommand = \"c\"\nsandbox = { write = [\"~/w\"] }\n\
         [servers.x]\ncommand = \"c\"\nenv = { A = \"${cmd:echo a}\", T = \"${file:~/w/token}\" }\n",
    );
    let config = home.load();
    let deferred = config.servers[1].deferred.clone().unwrap();
    let printed = BTreeMap::from([("echo a".to_owned(), "a".to_owned())]);
    assert!(deferred.finished(&printed).is_ok());
    fs::remove_file(home.path("w/token")).unwrap();
    std::os::unix::fs::symlink("../secret", home.path("w/token")).unwrap();
    let said = deferred.finished(&printed).unwrap_err();
    assert!(said.contains("the confined server 'e' can change the link"), "{said}");
}

#[test]
fn what_would_free_a_confined_server_is_an_error_and_keys_and_start_files_a_warning() {
    let said = |sandbox: &str| {
        let home = Home::new()
            .user(&format!("[servers.x]\ncommand = \"c\"\nsandbox = {{ {sandbox} }}\n"))
            .file(".ssh/id", "")
            .file("linked/named.json", r#"{"mcpServers": {}}"#);
        fs::create_dir_all(home.path("MCPs")).unwrap();
        std::os::unix::fs::symlink(home.path("linked/named.json"), home.path("MCPs/named.json")).unwrap();
        let config = home.load();
        let [problem] = config.problems.as_slice() else { return format!("{:?}", config.problems) };
        let used = if config.servers.is_empty() { "refused" } else { "used" };
        let said = problem.to_string().replace(home.folder.path().to_str().unwrap(), "@");
        format!("{used}: {}", said.split_once(": servers.x.sandbox.").unwrap().1)
    };
    let frees = |path: &str, relation: &str, met: &str| {
        format!(
            "refused: write[0]: would let the server change its own rights: @{path} {relation} @{met}; name only the folders \
             that the server needs"
        )
    };
    for (sandbox, expected) in [
        (r#"write = ["~"]"#, frees("", "is or holds", "/.config/belljar")),
        (r#"write = ["~/.config"]"#, frees("/.config", "is or holds", "/.config/belljar")),
        (
            r#"write = ["~/.config/belljar/config.toml"]"#,
            frees("/.config/belljar/config.toml", "lies in", "/.config/belljar"),
        ),
        (r#"write = ["~/linked"]"#, frees("/linked", "lies in", "/MCPs/named.json")),
        (r#"write = ["~/.local"]"#, frees("/.local", "is or holds", "/.local/state/belljar")),
        (
            r#"read = ["~/.ssh/id"]"#,
            "used: read[0]: gives the server keys and logins: @/.ssh/id lies in @/.ssh; name only the folders that the server \
             needs"
                .to_owned(),
        ),
        (
            r#"write = ["~/.bashrc"]"#,
            "used: write[0]: lets the server run programs with all your rights: @/.bashrc is or holds @/.bashrc; name only the \
             folders that the server needs"
                .to_owned(),
        ),
        (
            r#"read = ["~/.config"]"#,
            "used: read[0]: gives the server what belljar keeps, such as logins and the key of the shared bridge: @/.config is or holds \
             @/.config/belljar; name only the folders that the server needs"
                .to_owned(),
        ),
        (r#"read = ["~/a"], write = ["~/b", "~/.config/other"]"#, "[]".to_owned()),
    ] {
        assert_eq!(said(sandbox), expected, "{sandbox}");
    }
    for (link, target) in [("root", "/"), ("dev", "/dev"), ("proc", "/proc/1")] {
        let home = Home::new().user("[servers.x]\ncommand = \"c\"\nsandbox = { read = [\"~/link\"] }\n");
        std::os::unix::fs::symlink(target, home.path("link")).unwrap();
        assert!(home.seen().contains("which cannot be passed on"), "{link}: {}", home.seen());
    }
    let home = Home::new().user(
        "[policy]\nallow_cmd = true\n[servers.x]\ncommand = \"c\"\nsandbox = { write = [\"${cmd:echo /}\"] }\n",
    );
    assert!(home.seen().contains("sandbox.write[0]: has a ${cmd:…}"), "{}", home.seen());
}

#[test]
fn the_first_level_that_has_a_name_counts_and_the_others_are_noted() {
    let entry = |command: &str| format!(r#"{{"mcpServers": {{"x": {{"command": "{command}"}}}}}}"#);
    let toml = |command: &str| format!("[servers.x]\ncommand = \"{command}\"\n");
    let home = Home::new()
        .file("named.json", entry("named"))
        .variable("MCP_SERVERS_CONFIG", "~/named.json")
        .file("MCPs/a.json", entry("folder"))
        .user(&toml("user"))
        .project(&toml("project"));
    let command = |home: &Home| home.load().servers[0].shown_reach();
    assert_eq!(command(&home), "command user", "the project is not trusted");
    home.trusts();
    assert_eq!(
        home.seen(),
        "+ x command project (work/.belljar/config.toml:1:10)\n\
         note .config/belljar/config.toml:1:10: servers.x: is not used: work/.belljar/config.toml:1:10 has the name too, \
         and counts more\n\
         note MCPs/a.json:1:17: mcpServers.x: is not used: work/.belljar/config.toml:1:10 has the name too, and counts more\n\
         note named.json:1:17: mcpServers.x: is not used: work/.belljar/config.toml:1:10 has the name too, and counts more"
    );
    fs::remove_file(home.path("work/.belljar/config.toml")).unwrap();
    assert_eq!(command(&home), "command user");
    fs::remove_file(home.path(".config/belljar/config.toml")).unwrap();
    assert_eq!(command(&home), "command folder");
    fs::remove_file(home.path("MCPs/a.json")).unwrap();
    assert_eq!(command(&home), "command named");
}

#[test]
fn an_entry_that_is_switched_off_or_broken_keeps_its_name_from_later_levels() {
    for (entry, said) in [
        (
            "disabled = true",
            "is not used: .config/belljar/config.toml:1:10: servers.x: is switched off in its entry",
        ),
        (
            "args = 3",
            "cannot be used: .config/belljar/config.toml:3:8: servers.x.args: must be an array of strings, not a number",
        ),
        (
            "env.T = \"${NONE}\"",
            "cannot be used: .config/belljar/config.toml:3:9: servers.x.env.T: refers to ${NONE}, which is not set; write \
             $${ for a literal ${",
        ),
    ] {
        let home = Home::new()
            .user(&format!("[servers.x]\ncommand = \"c\"\n{entry}\n"))
            .file("MCPs/a.json", r#"{"mcpServers": {"x": {"command": "other"}}}"#);
        let config = home.load();
        assert_eq!(config.servers, [], "{entry}");
        assert_eq!(home.said(&config.refused[0]), format!("server 'x' is configured, but {said}"));
    }
}

#[test]
fn a_project_s_servers_count_only_when_its_file_is_trusted_and_are_refused_by_name_before() {
    let home = Home::new()
        .project("[servers.evil]\ncommand = \"c\"\n[servers.x]\ncommand = \"c\"\ndisabled = true\n");
    let home = home.file("MCPs/a.json", r#"{"mcpServers": {"x": {"command": "mine"}}}"#);
    let refusal = |name: &str, row: u8, because: &str| {
        format!(
            "work/.belljar/config.toml:{row}:10: servers.{name}: is not taken from a project {because}; read the file, then \
             run `belljar config trust` in work"
        )
    };
    let unknown = "that is not trusted";
    assert_eq!(
        home.seen(),
        format!(
            "+ x command mine (MCPs/a.json:1:17)\n\
             - server 'evil' is configured, but is not used: {}\nwarning {}\nwarning {}",
            refusal("evil", 1, unknown),
            refusal("evil", 1, unknown),
            refusal("x", 3, unknown)
        )
    );
    home.trusts();
    assert!(home.seen().starts_with(
        "+ evil command c (work/.belljar/config.toml:1:10)\n- server 'x' is configured, but is not"
    ));
    let home = home.project("[servers.evil]\ncommand = \"d\"\n");
    let changed = "whose file has changed since it was trusted";
    assert!(home.seen().contains(&refusal("evil", 1, changed)), "{}", home.seen());
}

#[test]
fn a_chosen_server_that_cannot_be_used_is_no_unknown_one_and_others_are_refused_too() {
    let home = Home::new()
        .user("[servers.off]\ncommand = \"c\"\ndisabled = true\n[servers.other]\ncommand = \"c\"\ndisabled = true\n")
        .variable("MCP_BRIDGE_SERVERS", "off");
    let config = home.load();
    let refused: Vec<&str> = config.refused.iter().map(|refused| refused.name.as_str()).collect();
    assert_eq!(refused, ["off", "other"]);
    assert!(config.refused[1].reason.starts_with("is not used: run.servers, or"), "{:?}", config.refused);
    assert!(
        config.problems.iter().all(|problem| problem.severity == Severity::Note),
        "{:?}",
        config.problems
    );
}

#[test]
fn only_the_user_lets_commands_be_run() {
    let entry = "[servers.x]\ncommand = \"c\"\nargs = [\"${cmd:pass show}\"]\n";
    let allow = "[policy]\nallow_cmd = true\n";
    let runs = |home: &Home| home.load().servers.first().is_some_and(|server| server.deferred.is_some());
    assert!(runs(&Home::new().user(&format!("{allow}{entry}"))));
    assert!(runs(&Home::new().user(entry).variable("MCP_BRIDGE_ALLOW_CMD", "1")));
    let home = Home::new().user(entry);
    assert_eq!(
        home.said(&home.load().refused[0]),
        "server 'x' is configured, but cannot be used: .config/belljar/config.toml:3:9: servers.x.args[0]: refers to \
         ${cmd:pass …}, and commands are not run; the user may set policy.allow_cmd = true in the own config.toml, or \
         MCP_BRIDGE_ALLOW_CMD=1"
    );
    let home = Home::new().user(entry).project(allow);
    home.trusts();
    assert!(!runs(&home));
    let said = "warning work/.belljar/config.toml:2:13: policy.allow_cmd: is not taken from a project even though it is \
                trusted; only the user's own config.toml and the environment set it";
    assert!(home.seen().lines().any(|line| line == said), "{}", home.seen());
    // A trusted project may use a permission that the user has given.
    let home = Home::new().user(allow).project(entry);
    home.trusts();
    assert!(runs(&home));
}

#[test]
fn what_commands_print_completes_an_entry_under_the_same_checks() {
    let finished = |entry: &str, printed: &str| {
        let home = Home::new().user(&format!("[policy]\nallow_cmd = true\n[servers.x]\n{entry}\n"));
        let config = home.load();
        assert_eq!(config.problems, [], "{entry}");
        let deferred = config.servers[0].deferred.clone().unwrap();
        let [command] = deferred.commands() else { panic!("one command") };
        let outputs = [(command.written.clone(), printed.to_owned())].into();
        deferred.finished(&outputs).map_err(|reason| home.said(reason))
    };
    let server = finished("command = \"c\"\nenv.T = \"Bearer ${cmd:pass show t}\"", "t0ken\n").unwrap();
    let Transport::Launch(launch) = &server.transport else { panic!("a command") };
    assert_eq!(launch.env.iter().collect::<Vec<_>>(), [("T", "Bearer t0ken")]);
    assert_eq!(server.references.iter().collect::<Vec<_>>(), [("cmd", "t0ken")]);
    assert_eq!(server.deferred, None);
    let server = finished("url = \"${cmd:where is it}\"", "https://example.com/s3cret").unwrap();
    assert_eq!(server.shown_reach(), "at ${cmd:where …}");
    for (entry, printed, said) in [
        ("url = \"${cmd:where}\"", "s3cret", "3:7: servers.x.url: is no address; write https://HOST/PATH"),
        (
            "url = \"https://a.b\"\nheaders.A = \"${cmd:t}\"",
            "s3cret\u{7}",
            "5:13: servers.x.headers.A: holds a character",
        ),
        (
            "command = \"c\"\nargs = [\"${cmd:t}\"]",
            "s3cret\0",
            "5:9: servers.x.args[0]: holds a NUL character",
        ),
        ("command = \"${cmd:t}\"", "\n", "3:10: servers.x.command: is empty"),
    ] {
        let reason = finished(entry, printed).unwrap_err();
        let place = ".config/belljar/config.toml:";
        assert!(
            reason.starts_with(&format!("cannot be used: {place}"))
                && reason.contains(said.split_once(": ").unwrap().1),
            "{reason}"
        );
        assert!(!reason.contains("s3cret"), "{reason}");
    }
}

#[test]
fn what_is_shown_of_a_server_is_no_secret() {
    let home = Home::new()
        .user("[policy]\nallow_cmd = true\n[servers.a]\ncommand = \"/opt/${TOKEN}/run\"\n[servers.b]\ncommand = \"${cmd:p}\"\n")
        .variable("TOKEN", "s3cret-token");
    let config = home.load();
    let shown: Vec<String> = config.servers.iter().map(ServerConfig::shown_reach).collect();
    assert_eq!(shown, ["command /opt/[TOKEN]/run", "known when it is started"]);
    let debug = format!("{:?}", config.servers);
    assert!(!debug.contains("s3cret-token\")]"), "{debug}");
}

fn followed(home: &Home) -> ConfigFiles {
    ConfigFiles::load(home.environment()).1
}

fn names(files: &ConfigFiles) -> String {
    files.servers().iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_config_toml_that_is_made_changed_and_removed_is_followed_with_its_problems() {
    let home = Home::new().file("MCPs/a.json", r#"{"mcpServers": {"a": {"command": "c"}}}"#);
    let mut files = followed(&home);
    assert_eq!((files.look(), names(&files).as_str()), (vec![], "a"));
    let home = home.user("[servers.b]\ncommand = \"c\"\n");
    assert_eq!((files.look(), names(&files).as_str()), (vec![], "a b"));
    let before = files.servers().to_vec();
    let home = home.user("# moved down, and otherwise the same\n[servers.b]\ncommand = \"c\"\n");
    assert_eq!((files.look(), files.servers()), (vec![], before.as_slice()));
    let home = home.user("[servers.b]\ncommand = \"c\"\ndeny = [\"x\"]\n");
    assert_eq!(files.look(), []);
    assert_ne!(files.servers(), before);
    let home = home.user("[servers.b]\ncommand = 3\n");
    let said: Vec<String> = files.look().iter().map(|problem| home.said(problem)).collect();
    assert_eq!(
        said,
        [
            ".config/belljar/config.toml:2:11: servers.b.command: must be a string, not a number; put it in double quotes"
        ]
    );
    assert_eq!((names(&files).as_str(), files.refused().len()), ("a", 1));
    let home = home.user("[servers.b]\ncommand = [\n");
    assert!(files.look().iter().any(|problem| problem.to_string().contains("is no TOML")));
    fs::remove_file(home.path(".config/belljar/config.toml")).unwrap();
    assert_eq!((files.look(), names(&files).as_str(), files.refused().len()), (vec![], "a", 0));
}

#[test]
fn a_file_that_cannot_be_read_any_more_keeps_its_servers_and_one_that_is_gone_does_not() {
    let own = r#"{"mcpServers": {"a": {"command": "c", "deny": ["x"]}}}"#;
    let home = Home::new().file("MCPs/a.json", own).user("[servers.b]\ncommand = \"c\"\n");
    let home = home.file("other/b.json", r#"{"mcpServers": {"b": {"command": "looser"}}}"#);
    let home = home.variable("MCP_SERVERS_CONFIG", "../other");
    let mut files = followed(&home);
    let before = files.servers().to_vec();
    let unread = |files: &ConfigFiles| {
        let said = files.unread().iter().map(|problem| home.said(problem));
        said.collect::<Vec<_>>().join("\n")
    };
    assert_eq!((unread(&files), before.len()), (String::new(), 2));
    let write = |name: &str, text: &str| fs::write(home.path(name), text).unwrap();
    for (name, broken, said) in [
        ("MCPs/a.json", "{\"mcpServers\": {", "MCPs/a.json:1:16: unterminated object"),
        ("MCPs/a.json", "", "MCPs/a.json: is empty"),
        (".config/belljar/config.toml", "[servers.b]\ncommand = [", "config.toml:2:12: is no TOML"),
        (".config/belljar/config.toml", "\u{0}", "config.toml: is not UTF-8"),
    ] {
        let good = fs::read_to_string(home.path(name)).unwrap();
        write(name, broken);
        assert!(!files.look().is_empty(), "{broken}");
        assert_eq!(files.servers(), before, "{broken}");
        assert!(unread(&files).contains(said), "{}", unread(&files));
        write(name, &good);
        assert!(files.look().iter().all(|problem| problem.severity == Severity::Note));
        assert_eq!((files.servers(), unread(&files)), (before.as_slice(), String::new()));
    }
    fs::remove_file(home.path("MCPs/a.json")).unwrap();
    assert!(files.look().iter().all(|problem| problem.severity == Severity::Note));
    assert_eq!((names(&files).as_str(), unread(&files)), ("b", String::new()));
}

#[test]
fn trust_in_a_project_is_followed() {
    let home = Home::new().project("[servers.p]\ncommand = \"c\"\n");
    let mut files = followed(&home);
    assert_eq!((names(&files).as_str(), files.refused().len()), ("", 1));
    home.trusts();
    assert_eq!((files.look(), names(&files).as_str()), (vec![], "p"));
}

#[test]
fn a_file_that_is_referred_to_is_followed() {
    let home = Home::new()
        .file("MCPs/token", "first\n")
        .file("MCPs/a.json", r#"{"mcpServers": {"a": {"command": "c", "env": {"T": "${file:token}"}}}}"#);
    let mut files = followed(&home);
    let before = files.servers().to_vec();
    assert_eq!((files.look(), files.servers()), (vec![], before.as_slice()));
    let home = home.file("MCPs/token", "second\n");
    assert_eq!(files.look(), []);
    assert_eq!(files.servers()[0].references.iter().collect::<Vec<_>>(), [("file", "second")]);
    fs::set_permissions(home.path("MCPs/token"), fs::Permissions::from_mode(0o666)).unwrap();
    let said: Vec<String> = files.look().iter().map(|problem| home.said(problem)).collect();
    assert!(
        said[0].contains("refers to ${file:token}, which other users may write to this file"),
        "{said:?}"
    );
    assert_eq!(names(&files), "");
    fs::set_permissions(home.path("MCPs/token"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!((files.look(), names(&files).as_str()), (vec![], "a"));
}

#[test]
fn a_misspelt_variable_is_warned_about_with_the_nearest_name() {
    let home = Home::new()
        .variable("MCP_BRIDGE_TIMOUT", "3")
        .variable("mcp_bridge_memory", "1g")
        .variable("MCP_BRIDGE_COLOUR", "red")
        .variable("MCP_BRIDGE_EMPTY", " ")
        .variable("MCP_OTHER", "1");
    assert_eq!(
        home.seen(),
        "warning MCP_BRIDGE_COLOUR: is no variable that belljar reads; `belljar config` shows what can be set\n\
         warning MCP_BRIDGE_TIMOUT: is no variable that belljar reads; did you mean MCP_BRIDGE_TIMEOUT?\n\
         warning mcp_bridge_memory: is no variable that belljar reads; did you mean MCP_BRIDGE_MEMORY?"
    );
}

#[test]
fn the_example_of_a_config_toml_loads_without_a_problem() {
    let home = Home::new().user(include_str!("../../../config/examples/valid/config.toml"));
    assert_eq!(
        home.seen(),
        "+ github command github-mcp-server (.config/belljar/config.toml:9:10)\n\
         + issues at https://example.com (.config/belljar/config.toml:20:10)\n\
         - server 'parked' is configured, but is not used: .config/belljar/config.toml:26:10: servers.parked: is switched off \
         in its entry\n\
         note .config/belljar/config.toml:26:10: servers.parked: is switched off in its entry"
    );
}

#[test]
fn only_a_trusted_projects_entry_or_its_cwd_starts_a_server_in_the_folder_of_the_bridge() {
    let folders = |entry: &str| {
        let home = Home::new().project(&format!("[servers.project]\n{entry}")).trusted();
        let home = home.user(&format!("[servers.user]\n{entry}"));
        let environment = home.environment();
        let config = home.load();
        let folder = |name: &str| {
            let server = config.servers.iter().find(|server| server.name.as_str() == name).unwrap();
            let Transport::Launch(launch) = &server.transport else { panic!("{server:?}") };
            home.said(launch.folder(&environment).join("").display())
        };
        [folder("project"), folder("user")]
    };
    assert_eq!(folders("command = 'c'\n"), ["work/", ""]);
    assert_eq!(folders("command = 'c'\ncwd = '${workspaceFolder}'\n"), ["work/", "work/"]);
    assert_eq!(folders("command = 'c'\ncwd = '.'\n"), ["work/.belljar/./", ".config/belljar/./"]);
    assert_eq!(folders("command = 'c'\ncwd = 'x'\n"), ["work/.belljar/x/", ".config/belljar/x/"]);
}

#[test]
fn a_trusted_projects_entry_is_not_led_out_of_the_project_by_a_link() {
    let entry = "[servers.project]\ncommand = 'c'\nenv = { T = '${file:../token}' }\n";
    let home = || Home::new().file("key", "secret").file("work/own", "own").project(entry);
    for (target, is_used) in [(Some("../key"), false), (Some("own"), false), (None, true)] {
        let home = match target {
            Some(target) => {
                let home = home();
                std::os::unix::fs::symlink(target, home.path("work/token")).unwrap();
                home
            }
            None => home().file("work/token", "own"),
        };
        let config = home.trusted().load();
        assert_eq!(config.servers.len(), usize::from(is_used), "{target:?}: {:?}", config.problems);
        if !is_used {
            let reason = &config.refused[0].reason;
            assert!(reason.contains("which goes through the project's symlink"), "{reason}");
        }
    }
}

#[test]
fn arguments_of_commands_are_no_symlinks_of_the_project_now_or_when_they_run() {
    let home = Home::new().file("key", "secret").file("work/token", "own").file("work/tool", "").user(
        "[policy]\nallow_cmd = true\n[servers.x]\ncommand = 'c'\n\
         env = { A = '${cmd:~/work/python ../../work/token}' }\n",
    );
    // A program may be one, as in a virtual environment.
    std::os::unix::fs::symlink("tool", home.path("work/python")).unwrap();
    let config = home.load();
    let deferred = config.servers.first().and_then(|server| server.deferred.clone());
    let deferred = deferred.unwrap_or_else(|| panic!("{:?}", config.refused));
    assert_eq!(deferred.check(), Ok(()));
    std::fs::remove_file(home.path("work/token")).unwrap();
    std::os::unix::fs::symlink("../key", home.path("work/token")).unwrap();
    let reason = deferred.check().unwrap_err();
    assert!(reason.contains("which goes through the project's symlink"), "{reason}");
    assert!(home.load().servers.is_empty());
}

#[test]
fn no_command_runs_that_looks_for_programs_where_servers_or_code_can_put_them() {
    for (path, is_refused) in
        [("/usr/bin:@/w", true), ("@/w:/usr/bin", true), ("@/MCPs/tools", true), ("/usr/bin", false)]
    {
        let home = Home::new().file("w/x", "").file("MCPs/tools/x", "").user(
            "[policy]\nallow_cmd = true\n[servers.e]\ncommand = 'c'\nsandbox = { write = ['~/w'] }\n\
             [servers.x]\ncommand = 'c'\nenv = { T = '${cmd:/usr/bin/env python3}' }\n",
        );
        let path = path.replace('@', home.folder.path().to_str().unwrap());
        let config = home.variable("PATH", &path).load();
        assert_eq!(config.refused.len(), usize::from(is_refused), "{path}: {:?}", config.refused);
    }
}

#[test]
fn a_sandbox_at_the_wrong_place_of_a_file_starts_no_server_without_one() {
    let used = |text: &str| {
        let config = Home::new().file("MCPs/a.json", text).load();
        assert_eq!(config.problems.is_empty(), config.servers.len() == 2, "{text}: {:?}", config.problems);
        config.servers.iter().map(|server| server.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    let entries = r#""a": {"command": "c"}, "b": {"command": "c", "sandbox": false}"#;
    assert_eq!(used(&format!(r#"{{"mcpServers": {{{entries}}}}}"#)), "a b");
    assert_eq!(used(&format!(r#"{{"sandbox": true, "mcpServers": {{{entries}}}}}"#)), "b");
    assert_eq!(used(&format!(r#"{{"mcpServers": {{"sandbox": true, {entries}}}}}"#)), "b");
    let limits = r#""sandbox": {"network": "none"}"#;
    assert_eq!(used(&format!(r#"{{{limits}, "mcpServers": {{{entries}}}}}"#)), "b");
    assert_eq!(used(&format!(r#"{{"mcpServers": {{{limits}, {entries}}}}}"#)), "b");
    // Gemini CLI has these beside its servers.
    for own in ["false", "\"docker\""] {
        assert_eq!(used(&format!(r#"{{"sandbox": {own}, "mcpServers": {{{entries}}}}}"#)), "a b", "{own}");
    }
}

#[test]
fn a_choice_of_servers_does_not_change_the_names_of_the_chosen() {
    let home = Home::new()
        .file("MCPs/a.json", r#"{"mcpServers": {"x-y": {"command": "c"}, "x_y": {"command": "c"}}}"#)
        .project("[run]\nservers = [\"x-y\"]\n");
    let config = home.load();
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    let others: Vec<&str> = config.not_used.iter().map(|name| name.as_str()).collect();
    assert_eq!((names, others), (vec!["x-y"], vec!["x_y"]));
    let unasked = |others: &[_]| {
        let servers = config.servers.iter().map(|server| (server.name.clone(), None, None));
        let catalog = belljar_tools::catalog::Catalog::beside(servers, others, &Limits::default());
        catalog.servers()[0].names().alias.to_owned()
    };
    assert_eq!(unasked(&[]), "x_y");
    assert!(unasked(&config.not_used).starts_with("x_y_"));
}
