//! The commands for people: their output, their refusals, their exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::json;

use crate::support::home::Output;
use crate::support::http_fixture::{HttpFixture, reply, usual_answer};
use crate::support::{Bridge, Fixture, Home, PATIENCE};

fn failed(code: i32, stderr: &str) -> Output {
    Output { code: Some(code), stdout: String::new(), stderr: stderr.to_owned() }
}

/// What a command whose stdout is a terminal shows there.
fn on_terminal(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = home.command(arguments);
    command.stdin(Stdio::null()).stdout(terminal.slave).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // It holds the other end of the terminal.
    drop(command);
    let (mut shown, mut master) = (Vec::new(), std::fs::File::from(terminal.master));
    // Linux says that the last writer has gone by an error.
    drop(master.read_to_end(&mut shown));
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8(shown).unwrap().replace("\r\n", "\n");
    (output.status.code(), shown, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn files_steer_no_terminal_and_are_whole_elsewhere() {
    let text = "first\n\u{1b}]0;owned\u{7}\u{202e}\u{9b}5n\tend";
    let home = Home::new().file("text", text);
    std::fs::write(home.path().join("binary"), b"\x1b[2J\xff\0").unwrap();
    let of = |arguments: &[&'static str]| [&["files", "--workspace", "notes"], arguments].concat();
    for file in ["text", "binary"] {
        assert_eq!(home.run(&of(&["put", file])).code, Some(0));
    }
    let raw = home.run(&of(&["get", "text", "-"])).stdout;
    assert_eq!(raw, text);
    let escaped = "first\n\\x1b]0;owned\\x07\\u202e\\x9b5n\tend";
    assert_eq!(on_terminal(&home, &of(&["get", "text", "-"])), (Some(0), escaped.to_owned(), String::new()));
    let refused = "belljar: binary is not text, and a terminal shows only that: redirect it with >FILE\n";
    assert_eq!(
        on_terminal(&home, &of(&["get", "binary", "-"])),
        (Some(1), String::new(), refused.to_owned())
    );
    let output = home.command(&of(&["get", "binary", "-"])).output().unwrap();
    assert_eq!(output.stdout, b"\x1b[2J\xff\0");
}

#[test]
fn the_version_is_the_packages() {
    let version = format!("belljar {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        Home::new().run(&["--version"]),
        Output { code: Some(0), stdout: version, stderr: String::new() }
    );
}

#[test]
fn help_names_every_command() {
    let help = Home::new().run(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for line in [
        "Usage: belljar [COMMAND]",
        "  run          Run Python",
        "  doctor       Check the engine",
        "  config       Show each",
        "  login        Log in to a remote server",
        "  logout       Delete the login",
    ] {
        assert!(help.stdout.contains(line), "{}", help.stdout);
    }
}

#[test]
fn doctor_without_an_engine_says_what_to_do_and_fails() {
    let fixture = Fixture::new(&[]);
    let home =
        Home::new().server("good", fixture.entry()).server("lost", json!({"command": "no-such-command"}));
    let socket = home.path().join("no-engine.sock").display().to_string();
    let config = home.path().join("MCPs/servers.json").display().to_string();
    let program = Fixture::program().display().to_string();
    let path = home.search_path();
    assert_eq!(
        home.run(&["doctor"]),
        Output {
            code: Some(1),
            stdout: format!(
                "belljar {}\n\
                 sandbox    MISSING: no container engine is running (unix://{socket}: Socket not found: {socket})\n\
                 \x20          what to do: start the engine there (`systemctl --user start podman.socket` for rootless Podman), or correct MCP_BRIDGE_RUNTIME, or unset it to have an engine looked for\n\
                 model      the client's, where the client offers one\n\
                 server     good: found at {program} ({config})\n\
                 server     lost: NOT FOUND: command no-such-command in PATH ({path}) and the usual folders of nvm, fnm, pnpm, volta, asdf, mise, pyenv, Homebrew and ~/.local/bin ({config})\n\
                 rights     2 of 2 servers that a command starts run with all your rights; `sandbox = true` in an entry confines one\n",
                env!("CARGO_PKG_VERSION")
            ),
            stderr: String::new()
        }
    );
    // Asking is not starting.
    assert_eq!(fixture.pids(), [0; 0]);
}

#[test]
fn doctor_names_servers_that_cannot_be_used_and_shows_no_secret_of_the_others() {
    let user = ".config/belljar/config.toml";
    let home = Home::new().env("TOKEN", "s3cret-token").file(
        user,
        "[policy]\nallow_cmd = true\n[servers.off]\ncommand = \"c\"\ndisabled = true\n[servers.later]\ncommand = \"${cmd:p}\"\n\
         [servers.path]\ncommand = \"/no/${TOKEN}/run\"\n",
    );
    let shown = home.run(&["doctor"]).stdout;
    let place = home.path().join(user).display().to_string();
    for line in [
        format!("server     off: NOT USED: {place}:3:10: servers.off: is switched off in its entry"),
        format!("server     later: known when it is started ({place})"),
        format!("server     path: NOT FOUND: command /no/[TOKEN]/run ({place})"),
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    assert_eq!(shown.matches("is switched off").count(), 1, "{shown}");
}

/// The line of `doctor` about a server, and the one below it.
fn of_server(output: &Output, name: &str) -> (String, String) {
    let begin = format!("server     {name}: ");
    let mut lines = output.stdout.lines().skip_while(|line| !line.starts_with(&begin));
    let line = lines.next().unwrap_or_else(|| panic!("no {name} in {}", output.stdout));
    (line[begin.len()..].to_owned(), lines.next().unwrap_or_default().trim_start().to_owned())
}

#[test]
fn doctor_says_what_an_address_answers_that_is_no_server_and_which_folder_is_missing() {
    let page = |status: &'static str| {
        HttpFixture::start(move |_, out| {
            write!(out, "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>")
        })
    };
    let (gone, site) = (page("404 Not Found"), page("200 OK"));
    let refusing = HttpFixture::start(|_, out| {
        let refusal =
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no initialize"}});
        reply(out, "404 Not Found", &[], &refusal.to_string())
    });
    let home = Home::new()
        .server("gone", json!({"url": gone.url}))
        .server("site", json!({"url": site.url}))
        .server("refusing", json!({"url": refusing.url}))
        .server("adrift", json!({"command": "true", "cwd": "no-such-folder"}));
    let output = home.run(&["doctor"]);
    for (name, said) in [
        ("gone", ", NO SERVER THERE: it answers HTTP 404 Not Found, not MCP; correct its url ("),
        ("site", ", NO SERVER THERE: it answers HTTP 200 OK with text/html, not MCP; correct its url ("),
        ("refusing", ", answers ("),
        ("adrift", &format!("NOT FOUND: cwd {}/MCPs/no-such-folder (", home.path().display())),
    ] {
        let (line, _) = of_server(&output, name);
        assert!(line.contains(said), "{line}");
    }
    let login = home.run(&["login", "gone", "--no-browser"]);
    let why = "belljar: no login at gone: it answers HTTP 404 Not Found, not MCP\n";
    assert_eq!(login, failed(1, why));
}

#[test]
fn doctor_asks_each_server_for_its_tools_when_it_is_told_to_and_says_why_it_does_not_else() {
    let near = Fixture::new(&[]);
    let far = HttpFixture::usual(|_, out| reply(out, "405 No", &[], ""));
    let home = Home::new()
        .server("near", near.entry())
        .server("far", json!({"url": far.url, "headers": {"Authorization": "Bearer t0ken-of-mine"}}))
        .server("lost", json!({"command": "no-such-command"}));
    let quiet = home.run(&["doctor"]);
    let (line, below) = of_server(&quiet, "far");
    let why = ", not asked, since it would be sent its own credentials; `belljar doctor --ask` does that (";
    assert!(line.contains(why) && !below.contains("answers"), "{quiet:?}");
    assert_eq!((far.requests().len(), near.pids().len()), (0, 0));
    let asked = home.run(&["doctor", "--ask"]);
    assert_eq!(of_server(&asked, "near").1, "answers; tools: 15");
    assert_eq!(of_server(&asked, "far").1, "answers; tools: 1");
    let lost =
        "FAILED: server 'lost' could not be started: its command \"no-such-command\" was not found in PATH (";
    assert!(of_server(&asked, "lost").1.starts_with(lost), "{asked:?}");
    assert!(
        far.requests().iter().all(|request| request.header("authorization") == Some("Bearer t0ken-of-mine"))
    );
    assert!(!asked.stdout.contains("t0ken"), "{asked:?}");
    assert_eq!(near.living(), [0; 0]);
}

#[test]
fn doctor_says_what_servers_inherit_and_which_key_passes_on_what_one_lacks() {
    let lacking = json!({"command": "sh", "args": ["-c", "echo \"KeyError: 'AWS_PROFILE'\" >&2; exit 1"]});
    let mut given = lacking.clone();
    given["env_inherit"] = json!(["AWS_*", "NONE_*"]);
    let mut vain = lacking.clone();
    vain["env_inherit"] = json!(["NONE_*"]);
    let home = Home::new()
        .env("AWS_PROFILE", "work")
        .server("lacking", lacking)
        .server("given", given)
        .server("vain", vain);
    let asked = home.run(&["doctor", "--ask"]).stdout;
    let place = home.path().join("MCPs/servers.json").display().to_string();
    let advice = format!(
        "what to do: AWS_PROFILE is set where belljar runs and not passed on to this server; to pass on what it needs, \
         add the key env_inherit with [\"AWS_PROFILE\"] to its entry (mcpServers.lacking of {place})"
    );
    assert!(asked.lines().any(|line| line.trim() == advice), "{asked}");
    assert!(!asked.contains("mcpServers.given of"), "{asked}");
    assert!(asked.contains("inherits by env_inherit: AWS_PROFILE\n"), "{asked}");
    assert!(asked.contains("inherits by env_inherit: no variable that is set\n"), "{asked}");
}

#[test]
fn doctor_starts_no_more_servers_at_once_than_there_are_processors() {
    let home = Home::new();
    let log = home.path().join("log");
    let script = format!("echo begins >>'{0}'; sleep 0.2; echo ends >>'{0}'", log.display());
    let entry = json!({"command": "sh", "args": ["-c", script]});
    let home = (0..8).fold(home, |home, number| home.server(&format!("s{number}"), entry.clone()));
    home.run(&["doctor", "--ask"]);
    let events = std::fs::read_to_string(&log).unwrap();
    let mut now = 0_usize;
    let most = events.lines().map(|event| {
        now = if event == "begins" { now + 1 } else { now - 1 };
        now
    });
    let processors = std::thread::available_parallelism().unwrap().get();
    assert_eq!(most.max(), Some(processors.min(8)), "{events}");
}

#[test]
fn doctor_shows_the_first_error_of_a_server_that_does_not_start_in_time() {
    let script = "echo 'loading' >&2; echo 'Error: no licence' >&2; trap 'echo interrupted >&2; exit 1' TERM; \
                  while :; do sleep 0.05; done";
    let entry = json!({"command": "sh", "args": ["-c", script], "start_timeout": 0.5});
    let asked = Home::new().server("slow", entry).run(&["doctor", "--ask"]);
    let (_, below) = of_server(&asked, "slow");
    assert!(
        below.starts_with("FAILED: server 'slow' did not start: no answer within 0.5 s (start_timeout in "),
        "{below}"
    );
    assert!(below.ends_with("; its last words: Error: no licence"), "{below}");
}

#[test]
fn doctor_names_the_servers_that_it_waits_for() {
    let (release, slow) = held_server();
    let home =
        Home::new().server("slow", json!({"url": slow.url})).server("near", json!({"command": "true"}));
    let mut command = home.command(&["doctor"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut first, mut rest) = (String::new(), String::new());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut first).unwrap();
    assert_eq!(first, "belljar: waiting for slow\n");
    drop(release);
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains(", answers ("));
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "no line of progress");
}

#[test]
fn terminal_shows_at_least_every_two_seconds_what_doctor_waits_for() {
    let (release, slow) = held_server();
    let home = Home::new().server("slow", json!({"url": slow.url}));
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = home.command(&["doctor"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1").stdin(Stdio::null());
    command.stdout(terminal.slave.try_clone().unwrap()).stderr(terminal.slave);
    let mut child = command.spawn().unwrap();
    // It holds the other ends of the terminal.
    drop(command);
    let mut master = std::fs::File::from(terminal.master);
    let (mut shown, mut piece) = (Vec::new(), [0; 4_096]);
    let seconds = |shown: &[u8]| -> Vec<u32> {
        let shown = String::from_utf8_lossy(shown);
        let lines = shown.match_indices(" waiting for slow");
        lines.map(|(at, _)| shown[at - 2..at].parse().unwrap()).collect()
    };
    while seconds(&shown).last() < Some(&5) {
        let bytes = master.read(&mut piece).unwrap();
        shown.extend_from_slice(&piece[..bytes]);
    }
    drop(release);
    // Linux says that the last writer has gone by an error.
    drop(master.read_to_end(&mut shown));
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let seconds = seconds(&shown);
    assert!(seconds[0] <= 3 && seconds.windows(2).all(|pair| pair[1] - pair[0] <= 2), "{seconds:?}");
    let shown = String::from_utf8(shown).unwrap();
    // Each line of the report begins a line of the terminal.
    for line in ["✗ sandbox    MISSING: ", "✓ server     slow: at "] {
        let at = shown.find(line).unwrap_or_else(|| panic!("{line}: {shown:?}"));
        assert!(shown[..at].ends_with(['\n', '\r', 'K']), "{line}: {shown:?}");
    }
    assert!(!shown.contains("belljar: waiting"), "{shown:?}");
}

/// A server over HTTP that answers once nobody holds the first value any more.
fn held_server() -> (std::sync::mpsc::Sender<()>, HttpFixture) {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let server = HttpFixture::start(move |request, out| {
        assert!(released.lock().unwrap().recv().is_err());
        reply(out, "200 OK", &[], &usual_answer(request).unwrap_or_default().to_string())
    });
    (release, server)
}

#[test]
fn run_without_an_engine_exits_as_container_commands_do() {
    let home = Home::new();
    let socket = home.path().join("no-engine.sock").display().to_string();
    assert_eq!(
        home.run(&["run", "-c", "print(1)"]),
        failed(
            125,
            &format!(
                "belljar: no container engine is running (unix://{socket}: Socket not found: {socket})\n  \
                 start the engine there (`systemctl --user start podman.socket` for rootless Podman), or correct MCP_BRIDGE_RUNTIME, or unset it to have an engine looked for\n"
            )
        )
    );
}

#[test]
fn a_setting_of_the_sandbox_that_cannot_be_read_starts_no_sandbox() {
    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "pdoman");
    let output = home.run(&["run", "-c", "print(1)"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(125), ""));
    let refusal = "belljar: no sandbox is started with a setting that cannot be read: MCP_BRIDGE_RUNTIME: is \"pdoman\"";
    assert!(output.stderr.contains(refusal), "{}", output.stderr);
}

#[test]
fn bad_usage_of_run_is_refused_before_anything_starts() {
    let home = Home::new().server("time", Fixture::new(&[]).entry());
    let cases: [(&[&str], &str); 8] = [
        (&["run", "."], "belljar: . is no plain file\n"),
        (&["run", "\u{1b}[2J.py"], "belljar: \\x1b[2J.py: No such file or directory (os error 2)\n"),
        (
            &["run", "--timeout", "-1", "-c", "1"],
            "belljar: --timeout is -1, it must be above 0 and up to 120\n",
        ),
        (&["run", "gone.py"], "belljar: gone.py: No such file or directory (os error 2)\n"),
        (
            &["run", "--timeout", "0", "-c", "1"],
            "belljar: --timeout is 0, it must be above 0 and up to 120\n",
        ),
        (
            &["run", "--timeout", "121", "-c", "1"],
            "belljar: --timeout is 121, it must be above 0 and up to 120\n",
        ),
        (
            &["run", "--timeout", "nan", "-c", "1"],
            "belljar: --timeout is NaN, it must be above 0 and up to 120\n",
        ),
        (
            &["run", "--server", "clock", "-c", "1"],
            "belljar: no server \"clock\" is configured; configured: time\n",
        ),
    ];
    for (arguments, stderr) in cases {
        assert_eq!(home.run(arguments), failed(2, stderr), "{arguments:?}");
    }
}

#[test]
fn bad_usage_of_the_command_line_exits_with_2_and_nothing_on_stdout() {
    let home = Home::new();
    let cases: [&[&str]; 6] = [
        &["run"],
        &["run", "-c", "1", "x.py"],
        &["walk"],
        &["--no-such"],
        &["doctor", "now"],
        &["log", "-n", "-1"],
    ];
    for arguments in cases {
        let output = home.run(arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
    }
}

#[test]
fn a_server_that_a_command_names_wrongly_is_told_with_the_nearest_one() {
    let home = Home::new();
    for arguments in [&["run", "-c", "1", "--server", "gihub"][..], &["trust", "gihub"], &["login", "gihub"]]
    {
        let none = "belljar: no server \"gihub\" is configured; there is none at all\n";
        assert_eq!(home.run(arguments), failed(2, none), "{arguments:?}");
    }
    let home = home
        .server("github", json!({"command": "true"}))
        .server("files", json!({"command": "true"}))
        .server("off", json!({"command": "true", "disabled": true}));
    for command in [&["run", "-c", "1", "--server"][..], &["trust"], &["login"], &["logout"]] {
        let refused = |name| home.run(&[command, &[name]].concat());
        let near = "belljar: no server \"gihub\" is configured; did you mean \"github\"? configured: files, github\n";
        assert_eq!(refused("gihub"), failed(2, near), "{command:?}");
        let strange = "belljar: no server \"\\x1b[2J\" is configured; configured: files, github\n";
        assert_eq!(refused("\u{1b}[2J"), failed(2, strange), "{command:?}");
        let off = format!(
            "belljar: server 'off' is configured, but is not used: {}:1:71: mcpServers.off: is switched off in its entry\n",
            home.path().join("MCPs/servers.json").display()
        );
        assert_eq!(refused("off"), failed(2, &off), "{command:?}");
    }
}

#[test]
fn a_file_that_is_no_text_or_too_large_is_refused() {
    let home = Home::new().file("large.py", &"#".repeat((4 << 20) + 1));
    std::fs::write(home.path().join("binary.py"), b"# caf\xc3\xa9\n\xff\xfe").unwrap();
    let wide = ["#".repeat(4 << 20), "\u{e9}".into()].concat();
    std::fs::write(home.path().join("wide.py"), &wide).unwrap();
    let too_wide = failed(2, "belljar: wide.py is larger than 4194304 bytes\n");
    assert_eq!(home.run(&["run", "wide.py"]), too_wide);
    assert_eq!(home.run(&["run", "large.py"]), failed(2, "belljar: large.py is larger than 4194304 bytes\n"));
    assert_eq!(home.run(&["run", "binary.py"]), failed(2, "belljar: binary.py:2: is not UTF-8\n"));
}

#[test]
fn config_shows_each_value_and_where_it_comes_from_without_secrets() {
    let home = Home::new()
        .env("MCP_BRIDGE_MODEL_ENDPOINT", "https://box/v1?token=s3cret")
        .env("MCP_BRIDGE_MODEL_NAME", "m")
        .file(".config/belljar/config.toml", "[run]\ntimeout = 20\n")
        .file(".belljar/config.toml", "[sandbox]\nimage = \"evil\"\n");
    let shown = home.run(&["config"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    let lines: Vec<String> =
        shown.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let place = home.path().display();
    for line in [
        "model.endpoint \"https://box/v1?…\" MCP_BRIDGE_MODEL_ENDPOINT".to_owned(),
        format!("run.timeout 20 {place}/.config/belljar/config.toml:2:11"),
        "sandbox.memory \"512m\" default".to_owned(),
        "sandbox.image - default".to_owned(),
        format!(
            "warning: {place}/.belljar/config.toml:2:9: sandbox.image: is not taken from a project that is not \
             trusted; read the file, then run `belljar config trust` in {place}"
        ),
    ] {
        assert!(lines.contains(&line), "{line}: {}", shown.stdout);
    }
    let as_json: serde_json::Value = serde_json::from_str(&home.run(&["config", "--json"]).stdout).unwrap();
    let timeout = json!({"name": "run.timeout", "value": 20, "source": {"kind": "file",
        "path": home.path().join(".config/belljar/config.toml"), "line": 2, "column": 11}});
    assert!(as_json["settings"].as_array().unwrap().contains(&timeout), "{as_json:#}");
}

#[test]
fn a_project_is_trusted_by_its_bytes_and_can_be_distrusted() {
    let path = ".belljar/config.toml";
    let home = Home::new().file(path, "[sandbox]\nmemory = \"2g\"\n");
    let memory = |home: &Home| {
        let shown = home.run(&["config"]).stdout;
        shown.lines().find(|line| line.starts_with("sandbox.memory ")).unwrap().contains("2g")
    };
    assert!(!memory(&home));
    let place = home.path().join(path).display().to_string();
    let trusted = home.run(&["config", "trust"]);
    assert_eq!(
        (trusted.code, trusted.stdout),
        (Some(0), format!("[sandbox]\nmemory = \"2g\"\nbelljar: trusted until it changes: {place}\n"))
    );
    assert!(memory(&home));
    let home = home.file(path, "# other bytes\n[sandbox]\nmemory = \"2g\"\n");
    assert!(!memory(&home));
    assert_eq!(home.run(&["config", "trust"]).code, Some(0));
    let gone = home.run(&["config", "untrust"]);
    assert_eq!((gone.code, gone.stdout), (Some(0), format!("belljar: not trusted: {place}\n")));
    assert!(!memory(&home));
    std::fs::remove_file(home.path().join(path)).unwrap();
    assert_eq!(home.run(&["config", "trust"]), failed(1, &format!("belljar: {place}: does not exist\n")));
}

#[test]
fn on_a_terminal_a_project_is_trusted_only_after_a_yes() {
    for (answer, is_trusted) in [("y\n", true), ("\n", false), ("no\n", false)] {
        let home = Home::new().file(".belljar/config.toml", "[sandbox]\nmemory = \"2g\"\n");
        let terminal = nix::pty::openpty(None, None).unwrap();
        let mut command = home.command(&["config", "trust"]);
        command.stdin(Stdio::from(terminal.slave)).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        std::fs::File::from(terminal.master.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.success(), is_trusted, "{answer:?}");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.starts_with("[sandbox]\nmemory = \"2g\"\ntrust this file? [y/N] "), "{shown}");
        assert_eq!(home.run(&["config"]).stdout.contains("2g"), is_trusted, "{answer:?}");
    }
}

#[test]
fn doctor_prints_one_json_line_for_each_check() {
    let home = Home::new().server("lost", json!({"command": "no-such-command"}));
    let home = home.server("near", json!({"command": "sh", "args": ["-c", "exit 3"], "sandbox": true}));
    let asked = |arguments: &[&str]| {
        let output = home.run(&[&["doctor"], arguments].concat());
        assert_eq!(output.code, Some(1), "{output:?}");
        output.stdout
    };
    let (lines, json) = (asked(&["--ask"]), asked(&["--ask", "--json"]));
    let checks: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // It has the same words as the report for a person.
    let mut told = String::new();
    for check in &checks {
        let (name, text) = (check["check"].as_str().unwrap(), check["text"].as_str().unwrap());
        told += &match name {
            "version" => format!("belljar {text}\n"),
            name => format!("{name:10} {text}\n"),
        };
        for detail in check["details"].as_array().unwrap() {
            told += &format!("{:10} {}\n", "", detail.as_str().unwrap());
        }
        assert_eq!(check.as_object().unwrap().len(), 4, "{check}");
    }
    // What the log has of a server grows with each start.
    let stable = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains(" said: ")).map(str::to_owned).collect()
    };
    assert_eq!(stable(&told), stable(&lines));
    let states = |name: &str, text: &str| {
        let is_it = |check: &&serde_json::Value| {
            check["check"] == name && check["text"].as_str().unwrap().starts_with(text)
        };
        checks.iter().filter(is_it).map(|check| check["state"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(states("version", env!("CARGO_PKG_VERSION")), ["ok"]);
    assert_eq!(states("sandbox", "MISSING: "), ["failed"]);
    assert_eq!(states("server", "lost: NOT FOUND: "), ["failed"]);
    // Its command is found, and a line below says that it does not answer.
    assert_eq!(states("server", "near: found at "), ["failed"]);
    assert_eq!(states("model", ""), ["ok"]);
}

#[test]
fn doctor_marks_its_lines_on_a_terminal_and_colours_them_unless_that_is_switched_off() {
    // What a server's description says steers no terminal.
    let home = Home::new().server("lost", json!({"command": "no-such-\u{1b}[2Jcommand"}));
    let shown = |variable| home.on_terminal(&["doctor"], &[("TERM", "xterm"), variable]);
    let coloured = shown(("LANG", "C"));
    let (trouble, bold, end) = ("\u{1b}[31m✗\u{1b}[0m", "\u{1b}[1m", "\u{1b}[0m");
    assert!(coloured.contains(&format!("{trouble} {bold}sandbox{end}    MISSING: ")), "{coloured:?}");
    assert!(coloured.contains(&format!("\u{1b}[32m✓\u{1b}[0m {bold}model{end}      ")), "{coloured:?}");
    assert!(coloured.contains("no-such-\\x1b[2Jcommand"), "{coloured:?}");
    for switch in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = shown(switch);
        // A line of progress moves the cursor, but has no colours.
        let is_coloured = ["\u{1b}[1m", "\u{1b}[3"].iter().any(|begin| plain.contains(begin));
        assert!(plain.contains("✗ sandbox    MISSING: ") && !is_coloured, "{switch:?} {plain:?}");
    }
    let piped = home.run(&["doctor"]).stdout;
    assert!(piped.contains("\nsandbox    MISSING: ") && !piped.contains(['✗', '✓']), "{piped:?}");
}

#[test]
fn a_file_beyond_the_users_limit_of_size_is_an_error_and_does_not_end_belljar() {
    let home = Home::new().file(".belljar/config.toml", "[sandbox]\nmemory = \"2g\"\n");
    let trust = |limit: &str| {
        home.shell(&format!("ulimit -f {limit}; exec {} config trust", env!("CARGO_BIN_EXE_belljar")))
    };
    let refused = trust("0");
    assert!(refused.code == Some(1) && refused.stderr.contains("File too large"), "{refused:?}");
    assert_eq!(trust("unlimited").code, Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_confines_itself_by_hand_is_refused() {
    let home = Home::new();
    let sandbox = home.run(&["confine", "--inside", "{}"]);
    let plan =
        json!({"network": "None", "folder": "/", "home": "/home", "links": [], "visible": []}).to_string();
    let keeper = std::process::id().to_string();
    let server = home.run(&["keep", "--inside", &keeper, "--confine", &plan, "--", "true"]);
    let refused = "find itself in namespaces of its own";
    assert!(sandbox.code == Some(70) && sandbox.stdout.contains(refused), "{sandbox:?}");
    assert!(server.code != Some(0) && server.stderr.contains(refused), "{server:?}");
}

#[test]
fn a_limit_that_a_file_misspells_starts_no_sandbox() {
    let home = Home::new().file(".config/belljar/config.toml", "[sandbox]\nmemroy = \"64m\"\n");
    let output = home.run(&["run", "-c", "1"]);
    assert_eq!(output.code, Some(125));
    assert!(output.stderr.contains("did you mean \"memory\"?"), "{}", output.stderr);
    assert_eq!(home.run(&["config"]).code, Some(1));
}

#[test]
fn the_log_has_a_line_for_each_request_that_became_no_run_and_says_why_it_shows_nothing() {
    let home = Home::new();
    let nothing = format!(
        "belljar: nothing has been written down yet in {}\n",
        home.path().join(".local/state/belljar").display()
    );
    assert_eq!(home.run(&["log"]), Output { code: Some(0), stdout: String::new(), stderr: nothing });
    let mut bridge = Bridge::start(&home);
    for arguments in
        [json!({"code": 5}), json!({"code": "1", "servers": ["\u{1b}none"]}), json!({"code": "print(1)"})]
    {
        assert!(bridge.run_with(arguments).is_error);
    }
    bridge.hang_up();
    bridge.wait(PATIENCE);
    let shown = home.run(&["log"]);
    let told: Vec<&str> = shown.stdout.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
    assert_eq!(
        told[..2],
        [
            "refused invalid_arguments: code is a number, it must be a string of Python source",
            "refused server_unavailable: Server '\\x1bnone' is not available",
        ],
        "{shown:?}"
    );
    assert!(told[2].starts_with("run 1 not_started, "), "{shown:?}");
    assert!(told[2].contains(" ms, 0 calls: no container engine is running ("), "{shown:?}");
    assert_eq!((told.len(), shown.stderr.as_str()), (3, ""));
    let unlike = "belljar: nothing in the log is like that; `belljar log` alone shows the last of all\n";
    for filter in [["--server", "nobody"], ["--outcome", "fine"], ["--since", "1m"]] {
        let home = if filter[0] == "--since" { &Home::new() } else { &home };
        let unlike = Output { code: Some(0), stdout: String::new(), stderr: unlike.to_owned() };
        assert_eq!(home.run(&[&["log"][..], &filter].concat()), unlike);
    }
    let off = home.env("MCP_BRIDGE_AUDIT", "off").run(&["log", "--denied"]);
    assert!(off.stderr.ends_with("; nothing is added, since MCP_BRIDGE_AUDIT is off\n"), "{off:?}");
}

/// How each command is tried where nobody reads what it prints.
const UNREAD: [&[&str]; 43] = [
    &["--help"],
    &["--version"],
    &["run", "-c", "print(1)"],
    &["run", "gone.py"],
    &["doctor"],
    &["doctor", "--json"],
    &["config"],
    &["config", "--json"],
    &["config", "schema"],
    &["config", "trust"],
    &["config", "untrust"],
    &["import", "--client", "cursor", "--yes"],
    &["install"],
    &["install", "--client", "cursor"],
    &["uninstall", "--client", "cursor"],
    &["log"],
    &["log", "--since", "never"],
    &["files", "ls"],
    &["files", "get", "x"],
    &["session", "ls"],
    &["session", "show", "last"],
    &["session", "export", "last"],
    &["session", "replay", "last"],
    &["session", "rm", "--all"],
    &["skill", "ls"],
    &["skill", "history", "gone", "--json"],
    &["skill", "run", "gone"],
    &["trust", "good"],
    &["trust", "bad"],
    &["login", "good"],
    &["logout", "far"],
    &["image", "ls"],
    &["token", "ls"],
    &["token", "add", "x", "--quiet"],
    &["token", "rm", "x"],
    &["kubernetes", "manifests"],
    &["completions", "bash"],
    &["serve", "status"],
    &["serve", "status", "--json"],
    &["serve", "stop"],
    &["serve", "--unit", "systemd"],
    &["install", "--client", "cursor", "--shared"],
    &["install", "--client", "cursor", "--http", "http://127.0.0.1:8765/mcp"],
];

#[test]
fn every_command_does_its_work_and_does_not_break_where_nobody_reads() {
    let help = Home::new().run(&["--help"]).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    for command in commands.map_while(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        assert!(UNREAD.iter().any(|arguments| arguments[0] == command), "{command} is not tried");
    }
    let home = || {
        let entry = json!({"time": "2026-01-01T00:00:00.000Z", "session": "a", "kind": "run", "run": 1,
            "outcome": "finished", "calls": 0, "code_bytes": 1, "ms": 1});
        Home::new()
            .server("good", json!({"command": "true"}))
            .server("far", json!({"url": "http://127.0.0.1:1/mcp"}))
            .file(".config/belljar/config.toml", "[run]\nunknown_key = 1\n")
            .file(".belljar/config.toml", "[run]\ntimeout = 5\n")
            .file(".cursor/mcp.json", "{\"mcpServers\": {\"x\": {\"command\": \"x\"}}}")
            .file(".local/state/belljar/audit.jsonl", &format!("{entry}\n").repeat(60))
    };
    let (read, unread) = (home(), home());
    let closed = || std::process::Stdio::from(std::io::pipe().unwrap().1);
    for arguments in UNREAD {
        let expected = read.run(arguments);
        let silent = unread.command(arguments).stdin(closed()).stdout(closed()).output().unwrap();
        let said = String::from_utf8_lossy(&silent.stderr);
        let own = |text: &str, home: &Home| text.replace(home.path().to_str().unwrap(), "~");
        assert_eq!(
            (silent.status.code(), own(&said, &unread)),
            (expected.code, own(&expected.stderr, &read)),
            "{arguments:?}"
        );
        let deaf = unread.command(arguments).stdout(closed()).stderr(closed()).status().unwrap();
        assert_ne!(deaf.code(), Some(101), "{arguments:?}");
    }
    for file in ["MCPs/cursor.json", ".cursor/mcp.json"] {
        let content = |home: &Home| std::fs::read_to_string(home.path().join(file)).ok();
        assert_eq!(content(&unread), content(&read), "{file}");
    }
}

#[test]
fn words_that_a_full_disk_takes_are_told_of_by_the_exit_code() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Home::new().command(&["config"]).stdout(full()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), said.as_ref()),
        (Some(74), "belljar: cannot write to stdout: No space left on device (os error 28)\n")
    );
}

#[test]
fn state_of_a_newer_belljar_is_not_written_over() {
    let state = ".local/state/belljar";
    let home = Home::new().file(&format!("{state}/version"), "2\n").file("a.py", "1");
    let dir = home.path().join(state);
    let version = dir.join("version");
    std::fs::set_permissions(&version, std::fs::Permissions::from_mode(0o600)).unwrap();
    let names = || std::fs::read_dir(&dir).unwrap().count();
    for arguments in [
        &[][..],
        &["run", "a.py"],
        &["serve"],
        &["log"],
        &["token", "add", "a"],
        &["install", "--client", "cursor"],
        &["uninstall", "--client", "cursor"],
        &["uninstall", "--all", "--yes"],
        &["import", "--yes"],
        &["config", "trust"],
        &["session", "ls"],
        &["doctor"],
    ] {
        let output = home.run(arguments);
        assert!(output.code == Some(1) && output.stdout.is_empty(), "{arguments:?}: {output:?}");
        assert!(
            output.stderr.contains("says \"2\", and this belljar reads version 1, so nothing runs"),
            "{}",
            output.stderr
        );
        assert_eq!(names(), 1, "{arguments:?}");
    }
    for known in ["1", "1\n"] {
        std::fs::write(&version, known).unwrap();
        assert_eq!(home.run(&["log"]).code, Some(0));
    }
    // Journals can be elsewhere.
    let named = home.path().join("named");
    std::fs::create_dir(&named).unwrap();
    std::fs::write(named.join("version"), "2").unwrap();
    std::fs::set_permissions(named.join("version"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let home = home.env("MCP_BRIDGE_STATE_DIR", named.to_str().unwrap());
    let output = home.run(&["session", "ls"]);
    assert!(output.code == Some(1) && output.stderr.contains("named/version says \"2\""), "{output:?}");
}

/// A terminal without a size counts as one of 80 columns.
#[test]
fn tables_fit_a_terminal() {
    let entry = json!({"command": "a-program-that-is-missing", "args": ["some", "words", "of", "a", "long", "command", "line"]});
    let home = Home::new().server("one", entry).env("MCP_BRIDGE_RUNTIME", "process");
    home.run(&["token", "add", "a-token-with-a-long-name", "--servers", "one,two,three,four,five,six,seven"]);
    for table in [&["config"][..], &["install"], &["uninstall"], &["token", "ls"], &["doctor"]] {
        let shown = home.on_terminal(table, &[("TERM", "xterm"), ("NO_COLOR", "1")]);
        // The line of progress draws over itself.
        let lines = shown.lines().map(|line| line.rsplit("\u{1b}[2K").next().unwrap());
        let is_fitting =
            |line: &str| line.chars().count() <= 80 || !line.trim().contains(char::is_whitespace);
        let wider: Vec<&str> = lines.filter(|line| !is_fitting(line)).collect();
        assert!(wider.is_empty() && shown.lines().count() > 1, "{table:?}: {wider:#?} of {shown}");
    }
}
