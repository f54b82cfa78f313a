//! Completions in real shells, and man pages: both come from the definition of the command line.

use serde_json::json;

use crate::support::{Home, program};

/// A home with a server, a workspace, a token and a session, and belljar in PATH; what the session is called.
fn home() -> (Home, String) {
    let programs = program("belljar").parent().unwrap().display().to_string();
    let home = Home::new().server("weather", json!({"command": "true"})).file("notes.txt", "");
    let path = home.search_path();
    let home = home.env("PATH", &format!("{programs}:{path}"));
    for arguments in [&["files", "--workspace", "diary", "put", "notes.txt"][..], &["token", "add", "phone"]]
    {
        assert_eq!(home.run(arguments).code, Some(0));
    }
    // It finds no engine, and is recorded.
    assert_eq!(home.run(&["run", "-c", "1"]).code, Some(125));
    let sessions = home.run(&["session", "ls", "--json"]).stdout;
    let session: serde_json::Value = serde_json::from_str(&sessions).unwrap();
    (home, session["id"].as_str().unwrap()[..8].to_owned())
}

/// Has a shell complete the last word of its arguments, by a script that prints the candidates.
#[track_caller]
fn completes(shell: &str, script: &str) {
    let (home, session) = home();
    if home.shell(&format!("command -v {shell}")).code != Some(0) {
        eprintln!("{shell} is not installed, so its completions are not tested");
        return;
    }
    let home = home.file("script", script);
    for (words, expected) in [
        ("belljar trus", "trust"),
        ("belljar completions ''", "bash fish zsh"),
        ("belljar trust ''", "weather"),
        ("belljar run --server ''", "weather"),
        ("belljar session show ''", &session),
        ("belljar files --workspace ''", "diary"),
        ("belljar token rm ''", "phone"),
        ("belljar run not", "notes.txt"),
    ] {
        let output = home.shell(&format!("{shell} ./script {words}"));
        let mut found: Vec<&str> =
            output.stdout.split_whitespace().filter(|word| !word.starts_with('-')).collect();
        found.sort_unstable();
        assert_eq!((found.join(" ").as_str(), output.stderr.as_str()), (expected, ""), "{shell}: {words}");
    }
}

#[test]
fn bash_completes_commands_and_names() {
    completes(
        "bash",
        ". <(belljar completions bash)
         compopt() { false; }
         COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1))
         _clap_complete_belljar belljar \"${@: -1}\"
         printf '%s\\n' \"${COMPREPLY[@]}\"",
    );
}

/// The script is a function that zsh loads at the first completion, as a package installs it.
#[test]
fn zsh_completes_commands_and_names() {
    completes(
        "zsh",
        "belljar completions zsh >_belljar
         fpath=(. $fpath)
         autoload -Uz _belljar
         compdef() { }
         _describe() { local value; for value in ${(P)3}; do print -r -- ${value%%:*}; done }
         words=(\"$@\") CURRENT=$#
         _belljar",
    );
}

#[test]
fn fish_completes_commands_and_names() {
    completes(
        "fish",
        "belljar completions fish | source
         complete -C \"$argv\" | string replace -r '\\t.*' ''",
    );
}

#[test]
fn each_command_has_a_man_page() {
    let home = Home::new();
    assert_eq!(home.run(&["man-pages", "."]).code, Some(0));
    let shown = home.run(&["run", "--help"]).stdout;
    let page = std::fs::read_to_string(home.path().join("belljar-run.1")).unwrap();
    for option in shown.split_whitespace().filter(|word| word.starts_with("--")) {
        assert!(page.contains(&option.replace('-', "\\-")), "{option}: {page}");
    }
    assert!(home.path().join("belljar-session-show.1").exists());
    assert!(!home.path().join("belljar-guardian.1").exists(), "it is internal");
}
