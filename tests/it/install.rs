//! `belljar install` and `uninstall`: belljar comes into every client's file and out again, and no other byte changes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};

use crate::clients::{files_below, fixtures, home_with_clients, said};
use crate::support::{Home, program};

/// Each client, and the file of the user's that belljar is put into.
const PLACES: [(&str, &str); 16] = [
    ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("claude-code", ".claude.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("windsurf", ".codeium/windsurf/mcp_config.json"),
    ("gemini", ".gemini/settings.json"),
    ("codex", ".codex/config.toml"),
    ("opencode", ".config/opencode/opencode.json"),
    ("qwen", ".qwen/settings.json"),
    ("copilot", ".copilot/mcp-config.json"),
    ("cline", ".cline/data/settings/cline_mcp_settings.json"),
    ("kilo", ".config/kilo/kilo.json"),
    ("vibe", ".vibe/config.toml"),
    ("continue", ".continue/config.yaml"),
    ("zed", ".config/zed/settings.json"),
    ("goose", ".config/goose/config.yaml"),
];

/// The file that Continue gets if it has no config.yaml.
const CONTINUE_BLOCK: &str = ".continue/mcpServers/belljar.yaml";

/// A line of each fixture that somebody else changes, and what to.
const EDITS: [(&str, &str, &str); 16] = [
    ("claude-desktop", "Ctrl+Space", "Alt+Space"),
    ("claude-code", "\"numStartups\": 17", "\"numStartups\": 18"),
    ("cursor", "Servers of every project", "Servers of mine"),
    ("vscode", "Perplexity API Key", "Key"),
    ("windsurf", "sleeper", "dreamer"),
    ("gemini", "\"GitHub\"", "\"Dark\""),
    ("codex", "# the newest", "# an older one"),
    ("opencode", "EVERYTHING_MODE", "MODE"),
    ("qwen", "\"default\"", "\"plan\""),
    ("copilot", "docs-copilot", "docs"),
    ("cline", "forecast", "alerts"),
    ("kilo", "anthropic/claude", "openai/gpt"),
    ("vibe", "# The weather", "# Wind"),
    ("continue", "# Notes of mine", "# Nobody's notes"),
    ("zed", "// Zed settings", "// Settings"),
    ("goose", "# Goose", "# The goose"),
];

fn read(home: &Home, path: &str) -> String {
    fs::read_to_string(home.path().join(path)).unwrap()
}

fn home_file(home: &Home, path: &str, content: &str) {
    fs::write(home.path().join(path), content).unwrap();
}

/// A home in which the fixture of Claude Desktop has no entry of belljar's name.
fn home() -> Home {
    let home = home_with_clients();
    let path = ".config/Claude/claude_desktop_config.json";
    let own = ",\n    \"belljar\": { \"command\": \"/usr/local/bin/belljar\" }";
    let content = read(&home, path).replace(own, "");
    home.file(path, &content)
}

#[test]
fn belljar_comes_into_every_client_s_file_and_out_again_byte_for_byte() {
    let home = home();
    let mut shown = String::new();
    for (client, path) in PLACES {
        let before = read(&home, path);
        let output = home.run(&["install", "--client", client]);
        assert_eq!(output.code, Some(0), "{client}: {}{}", output.stdout, output.stderr);
        shown.push_str(&said(&home, &output).replace(program("belljar").to_str().unwrap(), "/bin/belljar"));
        assert_ne!(read(&home, path), before, "{client}");
        let again = home.run(&["install", "--client", client]);
        assert_eq!(said(&home, &again), format!("belljar is in ~/{path} already\n"));
        // The client's reader agrees that it is belljar, and has lost no other server.
        let import = home.run(&["import", "--client", client]);
        assert!(import.stdout.contains("belljar: is belljar itself, and left out"), "{}", import.stdout);

        let output = home.run(&["uninstall", "--client", client]);
        assert_eq!(output.code, Some(0), "{client}: {}", output.stderr);
        said(&home, &output);
        assert_eq!(read(&home, path), before, "{client}");
        let gone = home.run(&["uninstall", "--client", client]);
        assert_eq!(said(&home, &gone), format!("belljar is not in ~/{path}\n"));
    }
    insta::assert_snapshot!(shown);
    assert_eq!(files_below(&home.path().join(".local/state/belljar/installed")), Vec::<PathBuf>::new());
}

#[test]
fn everything_of_belljar_goes_at_once_and_what_is_the_user_s_stays() {
    let environment = json!({
        "python": {"program": "/usr/bin/python3", "version": [3, 11]}, "labels": {"org.belljar.content": "belljar"}, "bytes": 0,
        "created": "",
    });
    let own = |path: &str| format!(".local/share/belljar/environments/{path}");
    let kept = [".cache/belljar/strange/a", ".config/belljar/config.toml", "MCPs/a.json", "MCPs/tools/a.py"];
    let gone = [".cache/belljar/runtime/a", ".cache/belljar/catalog/a", ".local/share/belljar/model/a"];
    let home = kept.iter().chain(&gone).fold(home(), |home, path| home.file(path, ""));
    let home = home.file(&own("default.x/environment.json"), &environment.to_string());
    let home = home.file(&own("default.x/bin/a"), "").env("MCP_BRIDGE_RUNTIME", "process");
    symlink("default.x", home.path().join(own("default"))).unwrap();
    let before: Vec<String> = PLACES.iter().map(|(_, path)| read(&home, path)).collect();
    let clients = PLACES.iter().flat_map(|(client, _)| ["--client", *client]);
    assert_eq!(home.run(&["install"].into_iter().chain(clients).collect::<Vec<_>>()).code, Some(0));

    let there = files_below(home.path());
    let shown = home.run(&["uninstall", "--all", "--dry-run"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    insta::assert_snapshot!(said(&home, &shown));
    let unasked = home.run(&["uninstall", "--all"]);
    assert!(
        unasked.code == Some(2) && unasked.stderr.contains("nobody can be asked here; --yes"),
        "{}",
        unasked.stderr
    );
    assert_eq!(files_below(home.path()), there);

    let removed = home.run(&["uninstall", "--all", "--yes"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert!(
        removed.stdout.contains("removed the image localhost/belljar-sandbox:latest in "),
        "{}",
        removed.stdout
    );
    let after: Vec<String> = PLACES.iter().map(|(_, path)| read(&home, path)).collect();
    assert_eq!(after, before);
    assert!(!home.path().join(".local/share/belljar").exists());
    let exist = |path: &&str| home.path().join(path).exists();
    assert!(kept.iter().all(&exist) && !gone.iter().any(&exist), "{}", removed.stdout);
    let again = home.run(&["uninstall", "--all", "--yes"]);
    assert!(
        again.code == Some(0) && again.stdout.starts_with("belljar removes: nothing\n"),
        "{}",
        again.stdout
    );
}

#[test]
fn only_an_idle_folder_of_locks_goes_and_never_the_folder_above() {
    let run = tempfile::tempdir().unwrap();
    let home =
        home().env("MCP_BRIDGE_RUNTIME", "process").env("XDG_RUNTIME_DIR", run.path().to_str().unwrap());
    let locks = run.path().join("belljar");
    let uninstall = |files: &[&str]| {
        fs::create_dir(&locks).unwrap();
        fs::set_permissions(&locks, fs::Permissions::from_mode(0o700)).unwrap();
        for file in files {
            fs::write(locks.join(file), "").unwrap();
            fs::set_permissions(locks.join(file), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let lock = fs::File::open(locks.join("serve.lock")).unwrap();
        let of_bridge =
            files.contains(&"serve.sock").then(|| Flock::lock(lock, FlockArg::LockExclusive).unwrap());
        let done = home.run(&["uninstall", "--all", "--yes"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        drop(of_bridge);
        let is_there = locks.exists();
        let _gone = fs::remove_dir_all(&locks);
        is_there
    };
    assert!(!uninstall(&["folder-number", "serve.lock", "serve.log"]) && run.path().exists());
    assert!(uninstall(&["folder-number", "serve.lock", "owner-1.lock"]), "a bridge with a sandbox");
    assert!(uninstall(&["serve.lock", "serve.sock"]), "a shared bridge");
}

#[test]
fn what_somebody_else_has_changed_since_stays_and_only_the_entry_goes() {
    let home = home();
    for ((client, path), (of, from, to)) in PLACES.into_iter().zip(EDITS) {
        assert_eq!(client, of);
        let before = read(&home, path);
        home.run(&["install", "--client", client]);
        let installed = read(&home, path);
        home_file(&home, path, &installed.replace(from, to));
        let output = home.run(&["uninstall", "--client", client]);
        assert_eq!(output.code, Some(0), "{client}: {}", output.stderr);
        assert_eq!(read(&home, path), before.replace(from, to), "{client}");
    }
}

#[test]
fn a_client_without_a_file_gets_one_for_its_user_alone_and_loses_it_again() {
    for (client, path) in PLACES {
        let home = Home::new();
        // A new config.yaml would be one without models.
        let path = if client == "continue" { CONTINUE_BLOCK } else { path };
        let output = home.run(&["install", "--client", client, "--name", "python"]);
        assert_eq!(output.code, Some(0), "{client}: {}", output.stderr);
        assert!(
            output.stdout.contains("was not found here; its file is made all the same"),
            "{}",
            output.stdout
        );
        let file = home.path().join(path);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{client}");
        assert!(read(&home, path).contains("python"), "{client}");
        let output = home.run(&["uninstall", "--client", client, "--name", "python"]);
        assert_eq!(output.code, Some(0), "{client}: {}", output.stderr);
        assert!(!file.exists(), "{client}");
    }
}

#[test]
fn the_keys_are_each_client_s_own() {
    let home = Home::new().env("MCP_BRIDGE_MAX_TIMEOUT", "300");
    let program = program("belljar").to_str().unwrap().to_owned();
    let entry = |client: &str, path: &str, keys: &[&str]| {
        home.run(&["install", "--client", client]);
        let file: Value = serde_json::from_str(&read(&home, path)).unwrap();
        keys.iter().fold(file, |value, key| value[key].clone())
    };
    assert_eq!(
        entry("claude-code", ".claude.json", &["mcpServers", "belljar"]),
        json!({"type": "stdio", "command": program, "args": [], "alwaysLoad": true})
    );
    // A run of 300 s, 600 s for a human, and 30 s for the start of the sandbox.
    assert_eq!(
        entry("gemini", ".gemini/settings.json", &["mcpServers", "belljar", "timeout"]),
        json!(930_000)
    );
    assert_eq!(
        entry("opencode", ".config/opencode/opencode.json", &["mcp", "belljar"]),
        json!({"type": "local", "command": [program], "enabled": true, "timeout": 930_000})
    );
    let deep = "{\"mcp\": {\"servers\": {}}}";
    let home = home.file(".config/opencode/opencode.json", deep);
    home.run(&["install", "--client", "opencode"]);
    let file: Value = serde_json::from_str(&read(&home, ".config/opencode/opencode.json")).unwrap();
    assert_eq!(file["mcp"]["servers"]["belljar"], json!({"type": "local", "command": [program]}));
    home.run(&["install", "--client", "codex"]);
    assert_eq!(
        read(&home, ".codex/config.toml"),
        format!(
            "[mcp_servers.belljar]\ncommand = \"{program}\"\nargs = []\nstartup_timeout_sec = 30\n\
             tool_timeout_sec = 930\n"
        )
    );
    home.run(&["install", "--client", "vibe"]);
    assert_eq!(
        read(&home, ".vibe/config.toml"),
        format!(
            "[[mcp_servers]]\nname = \"belljar\"\ntransport = \"stdio\"\ncommand = [\"{program}\"]\nargs = []\n\
             startup_timeout_sec = 30\ntool_timeout_sec = 930\n"
        )
    );
    home.run(&["install", "--client", "continue"]);
    assert_eq!(
        read(&home, CONTINUE_BLOCK),
        format!(
            "name: belljar\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: \"belljar\"\n    command: \"{program}\"\n    \
             args: []\n    connectionTimeout: 930000\n"
        )
    );
}

#[test]
fn shared_sets_a_variable_in_each_client_s_form_and_is_taken_back_without_it() {
    let program = program("belljar").to_str().unwrap().to_owned();
    for (client, path) in PLACES {
        let home = Home::new();
        let path = if client == "continue" { CONTINUE_BLOCK } else { path };
        let install = |more: &[&str]| {
            let output = home.run(&[&["install", "--client", client], more].concat());
            assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{client}");
            (output.stdout, read(&home, path))
        };
        let (_, plain) = install(&[]);
        let (_, shared) = install(&["--shared"]);
        let key = match client {
            "opencode" | "kilo" => "environment",
            "goose" => "envs",
            _ => "env",
        };
        let joined: String = shared.split_whitespace().collect::<String>().replace(['"', '{', '=', ':'], "");
        assert!(joined.contains(&format!("{key}MCP_BRIDGE_SHARED1")), "{client}: {shared}");
        assert!(shared.contains(&program) && !plain.contains("SHARED"), "{client}: {shared}");
        assert!(install(&["--shared"]).0.contains(" already\n"), "{client}");
        assert_eq!(install(&[]).1.trim_start(), plain, "{client}");
        let output = home.run(&["uninstall", "--client", client]);
        assert_eq!(output.code, Some(0), "{client}: {}", output.stderr);
        assert!(!home.path().join(path).exists(), "{client}");
    }
}

#[test]
fn other_variables_of_belljar_s_entry_stay_when_it_becomes_shared_and_back() {
    let program = program("belljar").to_str().unwrap().to_owned();
    let variables = |shared: &str| {
        format!(
            r#"{{"mcpServers": {{"belljar": {{"command": "/old/belljar", "env": {{"A": "b"{shared}}}}}}}}}"#
        )
    };
    let home = Home::new().file(".cursor/mcp.json", &variables(""));
    let entry = |more: &[&str]| {
        home.run(&[&["install", "--client", "cursor"], more].concat());
        let file: Value = serde_json::from_str(&read(&home, ".cursor/mcp.json")).unwrap();
        file["mcpServers"]["belljar"].clone()
    };
    let own = |env: Value| json!({"type": "stdio", "command": program, "args": [], "env": env});
    assert_eq!(entry(&["--shared"]), own(json!({"MCP_BRIDGE_SHARED": "1", "A": "b"})));
    assert_eq!(entry(&[]), own(json!({"A": "b"})));
    // What a user has written by hand is the same variable.
    home_file(&home, ".cursor/mcp.json", &variables(r#", "MCP_BRIDGE_SHARED": "0""#));
    assert_eq!(entry(&["--shared"]), own(json!({"MCP_BRIDGE_SHARED": "1", "A": "b"})));
}

/// The options for belljar over HTTP.
const HTTP: [&str; 2] = ["--http", "http://127.0.0.1:8765/mcp"];
/// Clients that cannot reach belljar over HTTP without the token in their file.
const NO_HTTP: [&str; 3] = ["claude-desktop", "cline", "zed"];

#[test]
fn over_http_each_client_s_entry_has_the_address_and_names_the_variable_with_the_token() {
    let mut shown = String::new();
    for (client, path) in PLACES {
        let home = Home::new().env("BELLJAR_TOKEN", "belljar_s3cret");
        let path = if client == "continue" { CONTINUE_BLOCK } else { path };
        let install = |more: &[&str]| {
            let output = home.run(&[&["install", "--client", client], more].concat());
            assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{client}");
            (output.stdout, read(&home, path))
        };
        if NO_HTTP.contains(&client) {
            let refused = home.run(&[&["install", "--client", client][..], &HTTP].concat());
            assert_eq!((refused.code, home.path().join(path).exists()), (Some(1), false), "{client}");
            shown.push_str(&refused.stderr);
            continue;
        }
        let (_, by_http) = install(&HTTP);
        shown.push_str(&format!("{client}\n{by_http}"));
        assert!(!by_http.contains("s3cret"), "{client}: {by_http}");
        assert!(install(&HTTP).0.contains(" already\n"), "{client}");
        let import = home.run(&["import", "--client", client]).stdout;
        assert!(import.contains("belljar: is belljar itself, and left out"), "{client}: {import}");
        let doctor = home.run(&["doctor", "--client", client]);
        assert!(doctor.stderr.contains(" reaches belljar over HTTP, by "), "{client}: {}", doctor.stderr);
        // Nothing of the one way is left in an entry of the other.
        let (_, started) = install(&[]);
        let fresh = Home::new();
        fresh.run(&["install", "--client", client]);
        assert_eq!(started.trim_start(), read(&fresh, path), "{client}");
        assert_eq!(install(&HTTP).1.trim_start(), by_http, "{client}");
        // Another address and variable replace the former.
        let (_, moved) =
            install(&["--http", "https://bridge.example.com/me/mcp", "--token-variable", "OTHER"]);
        assert!(!moved.contains("127.0.0.1") && !moved.contains("BELLJAR_TOKEN"), "{client}: {moved}");
        let output = home.run(&["uninstall", "--client", client]);
        assert_eq!(output.code, Some(0), "{client}: {}", output.stderr);
        assert!(!home.path().join(path).exists(), "{client}");
        // An entry of another name is known by the backup, also after the file was changed.
        install(&[&HTTP[..], &["--name", "python"]].concat());
        home_file(&home, path, &format!("{}\n", read(&home, path)));
        assert!(install(&["--name", "python"]).1.contains(program("belljar").to_str().unwrap()), "{client}");
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn what_the_user_has_added_stays_over_http_unless_it_belongs_to_the_other_way() {
    let own = "url = \"http://127.0.0.1:8765/mcp\"\nbearer_token_env_var = \"BELLJAR_TOKEN\"\n";
    let added = "default_tools_approval_mode = \"approve\"\ndisabled_tools = [\"x\"]\n";
    let started =
        "[mcp_servers.belljar]\ncommand = \"/old/belljar\"\nargs = []\nenv = { A = \"b\" }\ncwd = \"/x\"\n";
    let home = Home::new().file(".codex/config.toml", &format!("{started}{added}"));
    let output = home.run(&[&["install", "--client", "codex"][..], &HTTP].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("when it starts next with a token in BELLJAR_TOKEN"), "{}", output.stdout);
    let times = "startup_timeout_sec = 30\ntool_timeout_sec = 750\n";
    assert_eq!(read(&home, ".codex/config.toml"), format!("\n[mcp_servers.belljar]\n{times}{own}{added}"));
}

#[test]
fn an_entry_for_http_that_is_not_belljar_s_is_replaced_only_by_force() {
    let entry = |url: &str, authorization: &str| json!({"mcpServers": {"belljar": {"type": "http", "url": url, "headers": {"Authorization": authorization}}}});
    let reference = "Bearer ${TOKEN}";
    for foreign in [
        entry("https://mcp.example.com/other", reference),
        entry("https://mcp.example.com/mcp?key=1", reference),
        entry("https://mcp.example.com/mcp", "Bearer t0ken"),
        json!({"mcpServers": {"belljar": {"type": "http", "url": "https://mcp.example.com/mcp"}}}),
    ] {
        let home = Home::new().file(".claude.json", &foreign.to_string());
        for more in [&[][..], &HTTP] {
            let refused = home.run(&[&["install", "--client", "claude-code"], more].concat());
            assert!(refused.stderr.contains("has another server called"), "{foreign}: {}", refused.stderr);
        }
        let kept = home.run(&["uninstall", "--client", "claude-code"]);
        assert!(kept.stderr.contains("does not start belljar, and stays"), "{}", kept.stderr);
        assert_eq!(read(&home, ".claude.json"), foreign.to_string());
    }
    let own = entry("https://bridge.example.com/me/mcp", reference).to_string();
    let home = Home::new().file(".claude.json", &own);
    assert_eq!(home.run(&["uninstall", "--client", "claude-code"]).code, Some(0));
    assert_eq!(read(&home, ".claude.json"), "{\"mcpServers\":{}}");
}

#[test]
fn addresses_and_variables_that_would_give_the_token_away_are_refused() {
    let home = Home::new();
    let refused = |url: &str, variable: &str| {
        let given = ["install", "--client", "cursor", "--http", url, "--token-variable", variable];
        let output = home.run(&given);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{url} {variable}");
        output.stderr
    };
    for url in
        ["http://10.0.0.5:8765/mcp", "http://bridge.example.com/mcp", "http://127.0.0.1.example.com/mcp"]
    {
        assert!(refused(url, "T").contains("the token can be read on its way to"), "{url}");
    }
    for url in [
        "ftp://127.0.0.1/mcp",
        "http://127.0.0.1:8765",
        "https://a:b@bridge.example.com/mcp",
        "https://bridge.example.com/mcp?token=x",
    ] {
        assert!(refused(url, "T").contains("must begin with http:// or https:// and end with /mcp"), "{url}");
    }
    assert!(refused("127.0.0.1:8765/mcp", "T").contains("write it like http://127.0.0.1:8765/mcp"));
    for variable in ["", "A-B", "belljar_Zm9vYmFy", "$T"] {
        let said = refused("http://127.0.0.1:8765/mcp", variable);
        assert!(said.contains("must be the name of a variable"), "{variable}: {said}");
    }
    // Another program may listen on the name's other address.
    for name in ["localhost", "[::]", "0.0.0.0", "[::ffff:0.0.0.0]"] {
        let said = refused(&format!("http://{name}:8765/mcp"), "T");
        let why = "can lead to another program, which would get the token; write the address that `belljar serve --http` has";
        assert!(said.contains(why), "{said}");
    }
    for url in ["http://127.0.0.1:8765/mcp", "http://[::1]:8765/mcp", "https://bridge.example.com/mcp"] {
        let output = home.run(&["install", "--client", "cursor", "--dry-run", "--http", url]);
        assert!(output.code == Some(0) && output.stdout.contains(url), "{url}: {}", output.stderr);
    }
    let both = home.run(&[&["install", "--client", "cursor", "--shared"][..], &HTTP].concat());
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
}

#[test]
fn the_guide_shows_what_is_written_for_http() {
    let guide = include_str!("../../docs/guides/http.md");
    let output = Home::new().run(&[&["install", "--client", "claude-code", "--dry-run"][..], &HTTP].concat());
    let added = output.stdout.lines().filter_map(|line| line.trim_start().strip_prefix('+'));
    let added: Vec<&str> =
        added.filter_map(|line| Some(line.trim()).filter(|line| !line.is_empty())).collect();
    assert!(added.len() > 5, "{}", output.stdout);
    let shown: Vec<&str> = guide.lines().map(str::trim).collect();
    assert!(shown.windows(added.len()).any(|lines| lines == added), "{}", output.stdout);
}

/// Lists of servers as people and clients write them, each with an older entry of belljar, and with where its path is
/// replaced by the present one.
#[test]
fn in_a_list_only_belljar_s_item_changes_and_goes() {
    let program = program("belljar").to_str().unwrap().to_owned();
    let others = "[[mcp_servers]] # first\nname = \"a\"\ntransport = \"http\"\nurl = \"http://a\"\n";
    let last = "\n# The last one.\n[[mcp_servers]]\nname = \"z\"\ntransport = \"stdio\"\ncommand = \"z\"\n\n\
                [mcp_servers.env]\nK = \"v\"\n\n[tools.bash]\npermission = \"ask\"\n";
    let vibe_entry = |command: &str, more: &str| {
        format!(
            "\n# belljar's\n[[mcp_servers]]\nname = \"belljar\"\ntransport = \"stdio\"\ncommand = {command}\nargs = []\n{more}"
        )
    };
    let times = "startup_timeout_sec = 30\ntool_timeout_sec = 750\n";
    let old = vibe_entry("[\"/old/belljar\"]", "prompt = \"mine\"\n");
    let new = vibe_entry(&format!("[\"{program}\"]"), &format!("{times}prompt = \"mine\"\n"));
    let continue_entry =
        |command: &str, more: &str| format!("- name: \"belljar\"\n  command: \"{command}\"\n{more}");
    let head = "name: Local # mine\nmcpServers:\n- name: a # first\n  command: x\n\n";
    let tail = "- uses: some/block\n# the end\nrules: []\n";
    let (old_item, new_item) = (
        continue_entry("/old/belljar", ""),
        continue_entry(&program, "  args: []\n  connectionTimeout: 750000\n"),
    );
    let inline = format!(
        "mcp_servers = [{{ name = \"belljar\", transport = \"stdio\", command = [\"{program}\"], args = [], \
         startup_timeout_sec = 30, tool_timeout_sec = 750 }}] # none\ntheme = \"x\"\n"
    );
    let indented = new_item.replace("- ", "  - ").replace("\n  ", "\n    ").replace("    - ", "  - ");
    let cases = [
        ("vibe", format!("{others}{old}{last}"), format!("{others}{new}{last}"), format!("{others}{last}")),
        (
            "vibe",
            "mcp_servers = [] # none\ntheme = \"x\"\n".into(),
            inline,
            "mcp_servers = [] # none\ntheme = \"x\"\n".into(),
        ),
        (
            "continue",
            format!("{head}{old_item}{tail}"),
            format!("{head}{new_item}{tail}"),
            format!("{head}{tail}"),
        ),
        (
            "continue",
            "mcpServers: [] # none\nrules: []\n".into(),
            format!("mcpServers: # none\n{indented}rules: []\n"),
            "mcpServers: [] # none\nrules: []\n".into(),
        ),
    ];
    for (client, before, installed, without) in cases {
        let (_, path) = PLACES.into_iter().find(|(name, _)| *name == client).unwrap();
        let home = Home::new().file(path, &before);
        let output = home.run(&["install", "--client", client]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        assert_eq!(read(&home, path), installed);
        let output = home.run(&["install", "--client", client]);
        assert!(output.stdout.contains(" already\n"), "{}", output.stdout);
        // With a file that was changed since, only the item goes.
        home_file(&home, path, &format!("{installed}# since\n"));
        let output = home.run(&["uninstall", "--client", client]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        assert_eq!(read(&home, path), format!("{without}# since\n"));
    }
}

#[test]
fn another_server_of_the_name_is_replaced_only_by_force_and_comes_back() {
    for (client, path) in PLACES {
        let home = home_with_clients();
        let former = read(&home, path);
        // Any server of the fixture.
        let name = match client {
            "claude-desktop" => "filesystem",
            "claude-code" => "sentry",
            "cursor" => "github",
            "vscode" => "docs",
            "windsurf" => "figma",
            "gemini" => "events",
            "codex" => "figma",
            "opencode" => "everything",
            "qwen" => "notes-qwen",
            "copilot" => "tickets",
            "cline" => "weather-cline",
            "kilo" => "files-kilo",
            "vibe" => "weather-vibe",
            "continue" => "notes-continue",
            "zed" => "custom-one",
            _ => "github",
        };
        let refused = home.run(&["install", "--client", client, "--name", name]);
        assert_eq!(refused.code, Some(1), "{client}");
        assert!(refused.stderr.contains("--force replaces it"), "{}", refused.stderr);
        let foreign = home.run(&["uninstall", "--client", client, "--name", name]);
        assert!(foreign.stderr.contains("does not start belljar, and stays"), "{}", foreign.stderr);
        assert_eq!(read(&home, path), former, "{client}");
        let forced = home.run(&["install", "--client", client, "--name", name, "--force"]);
        assert_eq!(forced.code, Some(0), "{client}: {}", forced.stderr);
        assert!(said(&home, &forced).contains("replaced another server called"), "{}", forced.stdout);
        let back = home.run(&["uninstall", "--client", client, "--name", name]);
        // What comes back is not belljar's, so nothing of it is shown.
        said(&home, &back);
        assert_eq!(read(&home, path), former, "{client}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_never_written() {
    for path in files_below(&fixtures("broken")) {
        let name = path.to_str().unwrap();
        let client = name.split('.').next().unwrap();
        let (_, place) = PLACES.into_iter().find(|(known, _)| *known == client).unwrap();
        let content = fs::read_to_string(fixtures("broken").join(&path)).unwrap();
        let home = Home::new().file(place, &content);
        let output = home.run(&["install", "--client", client]);
        // Entries that belljar cannot take over are the client's own business.
        let has_sound_syntax = ["bad-entries", "repeated", "alias"].iter().any(|word| name.contains(word));
        if !has_sound_syntax {
            assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{name}");
            assert_eq!(read(&home, place), content, "{name}");
        }
        assert!(!output.stderr.contains("hunter2") && !output.stdout.contains("hunter2"), "{name}");
    }
}

#[test]
fn what_cannot_be_edited_safely_is_shown_for_pasting() {
    let flow = "extensions: {a: {type: stdio, cmd: x}}\n";
    let home = Home::new().file(".config/goose/config.yaml", flow);
    let output = home.run(&["install", "--client", "goose"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
    assert!(
        output.stderr.contains("put this into it by hand:\nextensions:\n  belljar:\n"),
        "{}",
        output.stderr
    );
    assert_eq!(read(&home, ".config/goose/config.yaml"), flow);
}

#[test]
fn a_program_in_a_launchers_cache_is_written_as_the_launcher_starts_it() {
    for (folder, launcher, args) in [
        (".cache/uv/archive-v0/x1/bin", "uvx", &["belljar"][..]),
        (".npm/_npx/a1b2/node_modules/belljar-linux-x64/bin", "npx", &["-y", "belljar"]),
        (".local/share/pipx/.cache/c3/bin", "pipx", &["run", "belljar"]),
        ("projects/.cache/bin", "", &[]),
    ] {
        let home = Home::new().file("launchers/x", "");
        let launchers = home.path().join("launchers");
        for name in ["uvx", "npx", "pipx"] {
            let launcher = launchers.join(name);
            fs::write(&launcher, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let home = home.env("PATH", &format!("{}:/usr/bin:/bin", launchers.display()));
        let program = home.path().join(folder).join("belljar");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        if fs::hard_link(env!("CARGO_BIN_EXE_belljar"), &program).is_err() {
            fs::copy(env!("CARGO_BIN_EXE_belljar"), &program).unwrap();
        }
        for (client, file) in [("cursor", ".cursor/mcp.json"), ("opencode", ".config/opencode/opencode.json")]
        {
            let output = home.shell(&format!("exec '{}' install --client {client}", program.display()));
            assert_eq!(output.code, Some(0), "{output:?}");
            let text = read(&home, file);
            let written: Value = serde_json::from_str(&text).unwrap();
            let entry = written.pointer("/mcpServers/belljar").or(written.pointer("/mcp/belljar"));
            let entry = entry.unwrap_or_else(|| panic!("{text}"));
            let expected = if launcher.is_empty() { program.clone() } else { launchers.join(launcher) };
            let words: Vec<Value> = match &entry["command"] {
                Value::Array(words) => words.clone(),
                program => [vec![program.clone()], entry["args"].as_array().unwrap().clone()].concat(),
            };
            let wanted = std::iter::once(expected.to_str().unwrap()).chain(args.iter().copied());
            assert_eq!(words, wanted.map(Value::from).collect::<Vec<_>>(), "{client} {folder}");
            // It is known as belljar's own.
            let again = home.run(&["install", "--client", client]);
            assert_eq!(again.code, Some(0), "{again:?}");
        }
    }
}

#[test]
fn a_link_stays_a_link_and_a_file_keeps_its_rights() {
    let home = Home::new().file("dotfiles/cursor.json", "{\n  \"mcpServers\": {}\n}\n");
    let target = home.path().join("dotfiles/cursor.json");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(home.path().join(".cursor")).unwrap();
    let link = home.path().join(".cursor/mcp.json");
    symlink(&target, &link).unwrap();
    home.run(&["install", "--client", "cursor"]);
    assert!(link.is_symlink() && read(&home, "dotfiles/cursor.json").contains("belljar"));
    assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let kept = home.path().join(".local/state/belljar/installed");
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for path in files_below(&kept) {
        assert_eq!(kept.join(path).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    home.run(&["uninstall", "--client", "cursor"]);
    assert_eq!(read(&home, "dotfiles/cursor.json"), "{\n  \"mcpServers\": {}\n}\n");
    assert!(link.is_symlink());
}

#[test]
fn a_byte_order_mark_and_carriage_returns_stay() {
    let content = "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {\"command\": \"x\"}\r\n  }\r\n}\r\n";
    let home = Home::new().file(".cursor/mcp.json", content);
    home.run(&["install", "--client", "cursor"]);
    let installed = read(&home, ".cursor/mcp.json");
    assert!(
        installed.starts_with('\u{feff}') && !installed.replace("\r\n", "").contains('\n'),
        "{installed:?}"
    );
    let home = home.file(".cursor/mcp.json", &installed.replace("\"x\"", "\"y\""));
    home.run(&["uninstall", "--client", "cursor"]);
    assert_eq!(read(&home, ".cursor/mcp.json"), content.replace("\"x\"", "\"y\""));
}

#[test]
fn a_dry_run_writes_nothing_and_without_a_client_all_are_listed() {
    let home = home();
    let output = home.run(&["install", "--client", "goose", "--dry-run"]);
    assert!(said(&home, &output).ends_with("nothing was written: --dry-run only shows\n"));
    assert!(!read(&home, ".config/goose/config.yaml").contains("belljar"));
    assert!(!home.path().join(".local").exists());
    let output = home.run(&["install"]);
    let listed = said(&home, &output);
    for (client, path) in PLACES {
        let line = format!("  {client:16} found        ~/{path}\n");
        assert!(listed.contains(&line), "{line}in {listed}");
    }
    assert!(Home::new().run(&["install"]).stdout.contains("  zed              -            "));
}

#[test]
fn a_project_s_file_is_written_when_asked_for_and_where_there_is_one() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let output = home.command(arguments).current_dir(home.path().join("MCPs")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["install", "--client", "vscode", "--project"]), (Some(0), String::new()));
    assert!(Path::new(&home.path().join("MCPs/.vscode/mcp.json")).is_file());
    assert_eq!(run(&["uninstall", "--client", "vscode", "--project"]), (Some(0), String::new()));
    assert_eq!(
        run(&["install", "--client", "goose", "--project"]),
        (Some(1), "belljar: Goose has no file of servers in projects; leave --project out\n".into())
    );
}

#[test]
fn belljar_at_another_place_is_brought_up_to_date_without_force() {
    let home = Home::new()
        .file(".cursor/mcp.json", r#"{"mcpServers": {"belljar": {"command": "/old/bin/belljar"}}}"#);
    let output = home.run(&["install", "--client", "cursor"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("put belljar into"), "{}", output.stdout);
    let written: Value = serde_json::from_str(&read(&home, ".cursor/mcp.json")).unwrap();
    assert_eq!(written["mcpServers"]["belljar"]["command"], program("belljar").to_str().unwrap());
    home_file(&home, ".cursor/mcp.json", r#"{"mcpServers": {"belljar": {"command": "other"}}}"#);
    let output = home.run(&["install", "--client", "cursor"]);
    assert!(output.stderr.contains("has another server called \"belljar\""), "{}", output.stderr);
}

#[test]
fn without_a_client_uninstall_lists_them() {
    let output = Home::new().run(&["uninstall"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.starts_with("uninstall takes belljar out of the client that --client names:\n"));
    assert_eq!(output.stdout.lines().count(), 1 + PLACES.len());
}

#[test]
fn the_list_of_clients_says_which_have_belljar() {
    let home = Home::new();
    home.run(&["install", "--client", "cursor"]);
    for verb in ["install", "uninstall"] {
        let shown = home.run(&[verb]).stdout;
        assert!(shown.lines().any(|line| line.contains("cursor") && line.contains("has belljar")), "{shown}");
        let rows = home.run(&[verb, "--json"]).stdout;
        let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        assert_eq!(rows.len(), PLACES.len());
        let have: Vec<&Value> = rows.iter().filter(|row| row["has_belljar"] == true).collect();
        assert_eq!(have.len(), 1);
        assert_eq!((&have[0]["client"], &have[0]["found"]), (&json!("cursor"), &json!(true)));
        assert_eq!(home.run(&[verb, "--json", "--client", "cursor"]).code, Some(2));
    }
}

#[test]
fn nothing_is_written_outside_of_a_project_through_its_links() {
    let home = Home::new().file("mine.json", "{}").file("elsewhere/mcp.json", "{}").file("p/x", "");
    let project = home.path().join("p");
    let install = |client: &str| {
        let arguments = ["install", "--project", "--client", client];
        let output = home.command(&arguments).current_dir(&project).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    symlink("../mine.json", project.join(".mcp.json")).unwrap();
    symlink("../elsewhere", project.join(".vscode")).unwrap();
    symlink("../no/such", project.join(".cursor")).unwrap();
    for client in ["claude-code", "vscode", "cursor"] {
        let (code, said) = install(client);
        assert!(
            code == Some(1) && said.contains("leads out of the project by a symbolic link"),
            "{client}: {said}"
        );
    }
    assert_eq!((read(&home, "mine.json"), read(&home, "elsewhere/mcp.json")), ("{}".into(), "{}".into()));
    // A link within it, and a folder that is not there yet, are the project's own.
    fs::create_dir(project.join("editor")).unwrap();
    fs::remove_file(project.join(".cursor")).unwrap();
    symlink("editor", project.join(".cursor")).unwrap();
    assert_eq!((install("cursor").0, install("zed").0), (Some(0), Some(0)));
    assert!(project.join("editor/mcp.json").exists() && project.join(".zed/settings.json").exists());
}

#[test]
fn a_stranger_s_entry_of_belljar_in_a_project_is_not_taken_for_belljar_s_own() {
    let own = program("belljar").to_str().unwrap().to_owned();
    for (client, file) in [("claude-code", "p/.mcp.json"), ("cursor", "p/.cursor/mcp.json")] {
        let entry =
            json!({"command": "belljar", "env": {"MCP_SERVERS_CONFIG": ".s.json"}, "autoApprove": ["x"]});
        let home = Home::new().file(file, &json!({"mcpServers": {"belljar": entry}}).to_string());
        let install = |more: &[&str]| {
            let arguments = [&["install", "--project", "--client", client], more].concat();
            let output = home.command(&arguments).current_dir(home.path().join("p")).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (code, said) = install(&[]);
        assert!(code == Some(1) && said.contains("did not write: env, autoApprove"), "{client}: {said}");
        assert_eq!(install(&["--force"]).0, Some(0));
        let written: Value = serde_json::from_str(&read(&home, file)).unwrap();
        let entry = &written["mcpServers"]["belljar"];
        assert_eq!((&entry["command"], &entry["env"]), (&json!(own), &Value::Null), "{client}");
        assert_eq!(entry["autoApprove"], Value::Null, "{client}");
        // What the user has chosen with belljar stays.
        if client == "cursor" {
            continue;
        }
        assert_eq!(install(&[]).0, Some(0));
    }
}
