//! What comes through the clients that give their servers little of their environment, and what `install` and `doctor` do
//! about it.

use std::fs;

use serde_json::{Value, json};

use crate::support::Home;

/// With a server that refers to variables.
fn home() -> Home {
    let env = json!({"A": "${TOKEN}", "B": "${UNSET_ONE:-a}", "C": "${HOME}/x", "D": "${PLAIN}"});
    Home::new().env("TOKEN", "sesame").env("PLAIN", "plain").server("s", json!({"command": "sh", "env": env}))
}

fn install(home: &Home, arguments: &[&str]) -> String {
    let output = home.run(&[&["install", "--client"], arguments].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    output.stdout
}

fn read(home: &Home, path: &str) -> String {
    fs::read_to_string(home.path().join(path)).unwrap()
}

/// What `doctor` says of the client and of the server; there is no engine.
fn doctor(home: &Home, client: &str) -> String {
    let output = home.run(&["doctor", "--client", client]);
    let is_of_these = |line: &&str| {
        line.starts_with("client")
            || line.starts_with("      ")
            || line.starts_with("server")
            || line.starts_with("config")
    };
    let said: Vec<&str> = output.stdout.lines().filter(is_of_these).collect();
    said.join("\n").replace(home.path().to_str().unwrap(), "~")
}

#[test]
fn install_names_the_variables_that_a_client_would_keep_back() {
    let home = home();
    install(&home, &["codex"]);
    let codex = ".codex/config.toml";
    assert!(
        read(&home, codex).contains("\nenv_vars = [\"PLAIN\", \"TOKEN\", \"UNSET_ONE\"]\n"),
        "{}",
        read(&home, codex)
    );
    install(&home, &["gemini"]);
    let gemini: Value = serde_json::from_str(&read(&home, ".gemini/settings.json")).unwrap();
    // It passes on what does not look like a secret.
    assert_eq!(gemini["mcpServers"]["belljar"]["env"], json!({"TOKEN": "$TOKEN"}));
    install(&home, &["cursor"]);
    assert!(!read(&home, ".cursor/mcp.json").contains("TOKEN"));
    install(&home, &["continue"]);
    let block = ".continue/mcpServers/belljar.yaml";
    let env = json!({"PLAIN": "${{ secrets.PLAIN }}", "TOKEN": "${{ secrets.TOKEN }}",
                     "UNSET_ONE": "${{ secrets.UNSET_ONE }}"});
    assert!(read(&home, block).ends_with(&format!("    env: {env}\n")), "{}", read(&home, block));
    // Vibe has only values, and belljar writes none.
    let shown = home.run(&["install", "--client", "vibe", "--dry-run"]).stdout;
    let said = install(&home, &["vibe"]);
    let note = "note: Vibe does not pass on PLAIN, TOKEN, UNSET_ONE, which your servers' entries refer to: write `env` with \
                the values into belljar's entry, or write ${file:PATH} in your servers' entries\n";
    assert!(said.contains(note) && shown.contains(note), "{shown}{said}");
    let vibe = ".vibe/config.toml";
    assert!(!read(&home, vibe).contains("TOKEN"));
    for path in [codex, ".gemini/settings.json", ".cursor/mcp.json", block, vibe] {
        assert!(!read(&home, path).contains("sesame"), "{path}");
    }
}

#[test]
fn what_the_user_has_added_to_belljar_s_entry_stays_when_it_is_brought_up_to_date() {
    let home = home();
    let codex = ".codex/config.toml";
    install(&home, &["codex"]);
    let added = read(&home, codex).replace("[\"PLAIN\", ", "[\"MINE\", \"PLAIN\", ")
        + "enabled_tools = [\"run_python\"]\n\n[mcp_servers.belljar.env]\nMCP_BRIDGE_WORKSPACE = \"w\"\n";
    fs::write(home.path().join(codex), added).unwrap();
    let home = home.server("t", json!({"command": "sh", "env": {"E": "${OTHER}"}}));
    install(&home, &["codex"]);
    let entry = read(&home, codex);
    for kept in [
        "env_vars = [\"OTHER\", \"PLAIN\", \"TOKEN\", \"UNSET_ONE\", \"MINE\"]\n",
        "enabled_tools = [\"run_python\"]\n",
        "env = { MCP_BRIDGE_WORKSPACE = \"w\" }\n",
    ] {
        assert!(entry.contains(kept), "{kept}: {entry}");
    }
    let again = install(&home, &["codex"]);
    assert!(again.contains("belljar is in ") && again.contains(" already\n"), "{again}");
}

#[test]
fn calls_are_approved_for_codex_only_when_that_is_asked_for() {
    let home = Home::new();
    let codex = ".codex/config.toml";
    let said = install(&home, &["codex"]);
    let note = "note: `codex exec`, which can ask nobody, refuses each call without `default_tools_approval_mode`; `belljar \
                install --client codex --approve-calls` sets it: Codex then makes every call of run_python without asking you, \
                and only belljar's own policy decides what code calls\n";
    assert!(said.ends_with(note), "{said}");
    assert!(!read(&home, codex).contains("approval"));
    let said = install(&home, &["codex", "--approve-calls"]);
    assert!(
        said.contains("+default_tools_approval_mode = \"approve\"") && !said.contains("note: "),
        "{said}"
    );
    assert!(read(&home, codex).contains("\ndefault_tools_approval_mode = \"approve\"\n"));
    // It stays as it is set.
    let again = install(&home, &["codex"]);
    assert!(again.contains(" already\n"), "{again}");
    let other = home.run(&["install", "--client", "cursor", "--approve-calls"]);
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.contains("--approve-calls: Cursor has no such setting"), "{}", other.stderr);
    assert!(!home.path().join(".cursor").exists());
}

#[test]
fn doctor_says_which_variables_come_through_a_client() {
    // The variable with the engine does not come through either.
    let settings = "[sandbox]\nruntime = \"unix:///nobody/listens\"\n";
    let home = home().env("MCP_BRIDGE_TIMEOUT", "20").file(".config/belljar/config.toml", settings);
    let missing = home.run(&["doctor", "--client", "codex"]);
    let says = "/.codex/config.toml; `belljar install --client codex` puts it there\n";
    assert!(missing.code == Some(1) && missing.stderr.ends_with(says), "{missing:?}");
    // From before the entries referred to anything.
    let home = home.server("s", json!({"command": "sh"}));
    install(&home, &["codex"]);
    install(&home, &["gemini"]);
    install(&home, &["cursor"]);
    let home = home.server("s", json!({"command": "sh", "env": {"A": "${TOKEN}", "B": "${UNSET_ONE:-a}"}}));
    let said = doctor(&home, "codex");
    for line in [
        "client     Codex, by ~/.codex/config.toml; what follows is with the variables that it gives belljar\n",
        "           TOKEN DOES NOT COME THROUGH: `belljar install --client codex` passes it on\n",
        "           UNSET_ONE is not set here, and not in its file\n",
        "set here, and not for belljar there: MCP_BRIDGE_RUNTIME, MCP_BRIDGE_TIMEOUT, XDG_RUNTIME_DIR; settings in config.toml count",
        "server     s: NOT USED",
        "refers to ${TOKEN}, which is not set",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(doctor(&home, "gemini").contains("TOKEN DOES NOT COME THROUGH"));
    for client in ["codex", "gemini"] {
        install(&home, &[client]);
        let said = doctor(&home, client);
        assert!(said.contains("           TOKEN comes through\n"), "{said}");
        assert!(said.contains("server     s: found at "), "{said}");
    }
    install(&home, &["vibe"]);
    let said = doctor(&home, "vibe");
    let way = "TOKEN DOES NOT COME THROUGH: write it with its value as `env` of belljar's entry there, or write ${file:PATH} \
               instead of it\n";
    assert!(said.contains(way), "{said}");
    let vibe = ".vibe/config.toml";
    let with_env = read(&home, vibe) + "env = { TOKEN = \"sesame\" }\n";
    fs::write(home.path().join(vibe), with_env).unwrap();
    install(&home, &["continue"]);
    for client in ["vibe", "continue"] {
        let said = doctor(&home, client);
        assert!(said.contains("           TOKEN comes through\n"), "{said}");
    }
    let unknown = doctor(&home, "cursor");
    assert!(unknown.contains("it is not known which variables it gives belljar"), "{unknown}");
    assert!(unknown.contains("server     s: found at "), "{unknown}");
}
