//! The commands for people: their output, their refusals, their exit codes.

use serde_json::json;

use crate::support::home::Output;
use crate::support::{Fixture, Home};

fn failed(code: i32, stderr: &str) -> Output {
    Output { code: Some(code), stdout: String::new(), stderr: stderr.to_owned() }
}

#[test]
fn the_version_is_the_packages() {
    let version = format!("hotcell {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        Home::new().run(&["--version"]),
        Output { code: Some(0), stdout: version, stderr: String::new() }
    );
}

#[test]
fn help_names_every_command() {
    let help = Home::new().run(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for line in ["Usage: hotcell [COMMAND]", "  run     Run Python", "  doctor  Check the engine"] {
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
    assert_eq!(
        home.run(&["doctor"]),
        Output {
            code: Some(1),
            stdout: format!(
                "hotcell {}\n\
                 sandbox    MISSING: no container engine is running (unix://{socket}: Socket not found: {socket})\n\
                 \x20          what to do: start the engine there (`systemctl --user start podman.socket` for rootless Podman), or correct MCP_BRIDGE_RUNTIME, or unset it to have an engine looked for\n\
                 search     by words; `hotcell search install-model` adds meaning\n\
                 server     good: found at {program} ({config})\n\
                 server     lost: NOT FOUND: command no-such-command ({config})\n",
                env!("CARGO_PKG_VERSION")
            ),
            stderr: String::new()
        }
    );
    // Asking is not starting.
    assert_eq!(fixture.pids(), [0; 0]);
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
                "hotcell: no container engine is running (unix://{socket}: Socket not found: {socket})\n  \
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
    let refusal = "hotcell: no sandbox is started with a setting that cannot be read: MCP_BRIDGE_RUNTIME: is \"pdoman\"";
    assert!(output.stderr.contains(refusal), "{}", output.stderr);
}

#[test]
fn bad_usage_of_run_is_refused_before_anything_starts() {
    let home = Home::new().server("time", Fixture::new(&[]).entry());
    let cases: [(&[&str], &str); 5] = [
        (&["run", "gone.py"], "hotcell: cannot read gone.py: No such file or directory (os error 2)\n"),
        (
            &["run", "--timeout", "0", "-c", "1"],
            "hotcell: --timeout is 0, it must be above 0 and up to 120\n",
        ),
        (
            &["run", "--timeout", "121", "-c", "1"],
            "hotcell: --timeout is 121, it must be above 0 and up to 120\n",
        ),
        (
            &["run", "--timeout", "nan", "-c", "1"],
            "hotcell: --timeout is NaN, it must be above 0 and up to 120\n",
        ),
        (
            &["run", "--server", "clock", "-c", "1"],
            "hotcell: server 'clock' is not available; configured: time\n",
        ),
    ];
    for (arguments, stderr) in cases {
        assert_eq!(home.run(arguments), failed(2, stderr), "{arguments:?}");
    }
}

#[test]
fn bad_usage_of_the_command_line_exits_with_2_and_nothing_on_stdout() {
    let home = Home::new();
    let cases: [&[&str]; 5] =
        [&["run"], &["run", "-c", "1", "x.py"], &["walk"], &["--no-such"], &["doctor", "now"]];
    for arguments in cases {
        let output = home.run(arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
    }
}

#[test]
fn a_file_that_is_no_text_or_too_large_is_refused() {
    let home = Home::new().file("large.py", &"#".repeat((4 << 20) + 1));
    std::fs::write(home.path().join("binary.py"), b"\xff\xfe").unwrap();
    assert_eq!(home.run(&["run", "large.py"]), failed(2, "hotcell: large.py is larger than 4194304 bytes\n"));
    assert_eq!(
        home.run(&["run", "binary.py"]),
        failed(2, "hotcell: cannot read binary.py: stream did not contain valid UTF-8\n")
    );
}
