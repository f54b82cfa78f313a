//! Recognises entries that would start belljar itself, or the bridge that it replaces, as one of its own servers.
//!
//! It knows names and common launchers only; a disguise that it misses is stopped by `PARENT_VARIABLE`.

use std::path::Path;

use belljar_base::programs::find_program;

use crate::config::read::environment::Environment;

const OWN_NAMES: [&str; 3] = ["belljar", "mcp-server-code-execution-mode", "mcp_server_code_execution_mode"];

/// Options of launchers that take the next argument as their value.
const OPTIONS_WITH_VALUE: [&str; 14] = [
    "--directory",
    "--project",
    "--with",
    "--python",
    "--env-file",
    "--index-url",
    "--extra-index-url",
    "--cache",
    "--registry",
    "--network",
    "--env",
    "--volume",
    "--mount",
    "--user",
];

/// Options whose next argument names the package, module or program that is started.
const OPTIONS_NAMING: [&str; 6] = ["--from", "-p", "--package", "-m", "--spec", "--bin"];

/// How many nested launchers are followed; `PARENT_VARIABLE` stops deeper nests.
const DEPTH_MAX: usize = 8;

/// Whether a command line starts this bridge.
#[must_use]
pub fn is_own(program: &str, args: &[String], cwd: &Path, environment: &Environment) -> bool {
    names_own(program, args, DEPTH_MAX) || is_running_file(program, cwd, environment)
}

fn is_running_file(program: &str, cwd: &Path, environment: &Environment) -> bool {
    let own = environment.executable.as_ref().and_then(|file| file.canonicalize().ok());
    let (path, home) = (environment.variable("PATH"), environment.home.as_deref());
    let located = find_program(Path::new(program), path, cwd, home).and_then(|file| file.canonicalize().ok());
    own.is_some() && own == located
}

fn names_own(program: &str, args: &[String], depth_left: usize) -> bool {
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return false;
    };
    if is_own_name(program) {
        return true;
    }
    let name = base_name(program);
    match name {
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "fish" | "ash" => shell_names_own(args, depth_left),
        "uvx" | "npx" | "bunx" | "pipx" | "uv" | "npm" | "pnpm" | "yarn" | "bun" | "deno" | "poetry"
        | "hatch" | "env" | "exec" | "nohup" | "command" | "sudo" | "nice" | "timeout" | "setsid"
        | "stdbuf" | "cargo" | "node" | "docker" | "podman" => launched(name, args, depth_left),
        _ if name.starts_with("python") || name.starts_with("pypy") => launched(name, args, depth_left),
        _ => false,
    }
}

/// Whether what a launcher starts is this bridge. It looks at the first argument that is no option: a package, a
/// module, a script, an image, or another launcher.
fn launched(launcher: &str, args: &[String], depth_left: usize) -> bool {
    let mut rest = args;
    while let Some((first, after)) = rest.split_first() {
        if OPTIONS_NAMING.contains(&first.as_str()) {
            if after.first().is_some_and(|named| is_own_name(named)) {
                return true;
            }
            rest = after.get(1..).unwrap_or_default();
        } else if takes_value(launcher, first) {
            rest = after.get(1..).unwrap_or_default();
        } else if first.starts_with('-') || is_preamble(first) {
            rest = after;
        } else {
            return names_own(first, after, depth_left);
        }
    }
    false
}

fn takes_value(launcher: &str, option: &str) -> bool {
    OPTIONS_WITH_VALUE.contains(&option)
        || match launcher {
            "docker" | "podman" => matches!(option, "-e" | "-v" | "-u" | "-w" | "--name" | "-l" | "--label"),
            "env" | "sudo" => option == "-u",
            _ => matches!(option, "-W" | "-X"),
        }
}

/// Whether an argument is a verb, an assignment or an amount, behind which the program follows.
fn is_preamble(argument: &str) -> bool {
    matches!(argument, "run" | "tool" | "exec" | "x" | "dlx" | "start" | "container")
        || (argument.contains('=') && !argument.contains('@'))
        || argument.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether any simple command in the text of `-c` starts this bridge.
fn shell_names_own(args: &[String], depth_left: usize) -> bool {
    let Some(flag) =
        args.iter().position(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('c'))
    else {
        return args.iter().find(|arg| !arg.starts_with('-')).is_some_and(|script| is_own_name(script));
    };
    let Some(script) = args.get(flag + 1) else {
        return false;
    };
    script.split([';', '&', '|', '\n', '(', ')', '`', '{', '}']).any(|command| {
        let words: Vec<String> = command
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'', '$']).to_owned())
            .skip_while(|word| {
                word.contains('=') || matches!(word.as_str(), "then" | "do" | "else" | "!" | "")
            })
            .collect();
        words.split_first().is_some_and(|(program, args)| names_own(program, args, depth_left))
    })
}

fn is_own_name(text: &str) -> bool {
    OWN_NAMES.contains(&base_name(text))
}

/// The last part of a path, package or image, without version, tag, extras and extension.
fn base_name(text: &str) -> &str {
    let last = text.rsplit('/').next().unwrap_or(text);
    let end = last.find(['@', ':', '=', '[', '<', '>', '~', '!', ' ']).unwrap_or(last.len());
    let name = &last[..end];
    name.strip_suffix(".py")
        .or_else(|| name.strip_suffix(".exe"))
        .or_else(|| name.strip_suffix(".git"))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(command: &str) -> bool {
        let (program, args) = command.split_once(' ').unwrap_or((command, ""));
        let args: Vec<String> = match args.split_once("-c ") {
            Some(("", script)) => vec!["-c".into(), script.into()],
            _ => args.split_whitespace().map(str::to_owned).collect(),
        };
        names_own(program, &args, DEPTH_MAX)
    }

    #[test]
    fn every_usual_way_of_starting_a_bridge_is_recognised() {
        for command in [
            "belljar",
            "/usr/local/bin/belljar",
            "belljar.exe --flag",
            "mcp-server-code-execution-mode",
            "uvx mcp-server-code-execution-mode",
            "uvx mcp-server-code-execution-mode@latest",
            "uvx --from git+https://github.com/elusznik/mcp-server-code-execution-mode.git mcp-server-code-execution-mode",
            "uvx --from belljar serve",
            "npx -y belljar@latest",
            "uv run python /abs/mcp_server_code_execution_mode.py",
            "uv run --directory /abs python mcp_server_code_execution_mode.py",
            "python3 -u /abs/mcp_server_code_execution_mode.py",
            "python3.12 -m mcp_server_code_execution_mode",
            "env A=b belljar",
            "timeout 30 belljar",
            "docker run -i --rm -v /x:/y ghcr.io/x/belljar:latest",
            "sh -c cd /x && exec belljar",
            "bash -c A=1 uvx mcp-server-code-execution-mode",
            "sh -c sh -c belljar; true",
        ] {
            assert!(own(command), "{command}");
        }
    }

    #[test]
    fn a_folder_or_argument_of_that_name_is_no_reference() {
        for command in [
            "npx -y @modelcontextprotocol/server-filesystem /home/me/belljar",
            "mcp-server-git --repository /home/me/belljar",
            "uvx mcp-server-git --repository /home/me/belljar",
            "sh -c cd /home/me/belljar && npx -y server-everything",
            "python3 server.py belljar",
            "belljarar",
        ] {
            assert!(!own(command), "{command}");
        }
    }
}
