//! Containers of servers that `docker run` and the like start. The engine, not the server's command, is the parent
//! of such a container: it stays when the command is killed.
//!
//! Each gets a label of its own, and only containers with that label are removed.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::mark::{Mark, PARENT_VARIABLE};
use super::processes::marked;

/// The label of a server's container. Its value is the bridge's mark, a dot, and a word of the server's own.
pub const SERVER_LABEL: &str = "belljar.server";

/// Programs whose `run` starts a container, with the same options.
const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];
/// Programs that start the program that their first argument names.
const STARTERS: [&str; 2] = ["sudo", "env"];

/// Removes the containers with the label `$0`. `$@`: the engine's command with its options. A container that the engine
/// was about to create comes later, so it looks more than once.
const REMOVE: &str = r#"for pause in 0 1 4; do
  command -p sleep "$pause"
  found=$("$@" ps -aq --filter "label=$0") && [ -n "$found" ] && "$@" rm -f $found
done"#;

/// The arguments of a server's command, with a new label if the command runs a container.
#[must_use]
pub fn labelled(program: &Path, args: &[String], mark: &str) -> Option<Vec<String>> {
    let at = place_of_run(program, args)?;
    let label = format!("{SERVER_LABEL}={mark}.{}", Mark::new().as_str());
    let (before, after) = args.split_at(at + 1);
    Some([before, &["--label".to_owned(), label], after].concat())
}

/// The engine's command with its options before `run`, if a server's command runs a container.
#[must_use]
pub fn engine_of(program: &Path, args: &[String]) -> Option<Vec<OsString>> {
    let at = place_of_run(program, args)?;
    let args = args[..at].iter().filter(|arg| *arg != "container").map(OsString::from);
    Some([program.into()].into_iter().chain(args).collect())
}

/// The command that removes the container of a server's command with [`labelled`] arguments. It outlives its parent, and
/// has neither the bridge's mark nor a stream of it.
#[must_use]
pub fn removal(command: &[OsString]) -> Option<Command> {
    let is_label = |arg: &OsString| arg.to_str().is_some_and(|arg| arg.starts_with(SERVER_LABEL));
    let at = command
        .iter()
        .position(is_label)
        .filter(|at| *at > 2 && command[at - 2] == "run" && command[at - 1] == "--label")?;
    let mut removal = Command::new("/bin/sh");
    let engine = command[..at - 2].iter().filter(|arg| *arg != "container");
    removal.args([OsStr::new("-c"), OsStr::new(REMOVE), &command[at]]).args(engine);
    removal.env_remove(PARENT_VARIABLE).process_group(0);
    removal.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(removal)
}

/// Whether the bridge that has set this label is gone: none of its processes is left.
#[must_use]
pub fn is_left_over(label: &str) -> bool {
    let mark = label.split_once('.').map_or(label, |(mark, _)| mark);
    cfg!(target_os = "linux") && !mark.is_empty() && marked(&Mark::from(mark.to_owned())).is_empty()
}

/// The index of the subcommand `run` of an engine that is started directly, or by one of [`STARTERS`]. Before it stand options
/// only, some of which have a value.
fn place_of_run(program: &Path, args: &[String]) -> Option<usize> {
    let is_one = |program: &Path, of: &[&str]| {
        program.file_name().is_some_and(|name| of.iter().any(|one| name == *one))
    };
    let is_option = |arg: &String| arg.starts_with('-');
    let first = if is_one(program, &ENGINES) {
        0
    } else {
        let engine = args.iter().position(|arg| !is_option(arg) && !arg.contains('='))?;
        (is_one(program, &STARTERS) && is_one(Path::new(&args[engine]), &ENGINES)).then_some(engine + 1)?
    };
    let mut before: Option<&String> = None;
    for (at, arg) in args.iter().enumerate().skip(first) {
        let is_value = before.is_some_and(|before| is_option(before) && !before.contains('='));
        match arg.as_str() {
            "run" => return Some(at),
            "container" => {}
            _ if is_option(arg) || is_value => {}
            _ => return None,
        }
        before = Some(arg);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_container_of_a_server_gets_a_label_behind_run() {
        let with_label = |line: &str| {
            let words = words(line);
            let labelled = labelled(Path::new(&words[0]), &words[1..], "m")?;
            let label = labelled.iter().find(|word| word.starts_with(SERVER_LABEL)).unwrap();
            Some(labelled.join(" ").replace(label, "L"))
        };
        for (line, expected) in [
            ("docker run -i --rm image run", "run --label L -i --rm image run"),
            ("/usr/bin/podman --remote run image", "--remote run --label L image"),
            ("docker -H tcp://a container run image", "-H tcp://a container run --label L image"),
            ("docker --context=far run image", "--context=far run --label L image"),
            ("nerdctl run image", "run --label L image"),
            ("sudo -n /usr/bin/docker run image", "-n /usr/bin/docker run --label L image"),
            ("env -i A=run docker run image", "-i A=run docker run --label L image"),
        ] {
            assert_eq!(with_label(line).as_deref(), Some(expected), "{line}");
        }
        for line in [
            "docker exec -i box run",
            "docker compose run web",
            "docker",
            "sh run",
            "npx run",
            "sudo npx docker run x",
        ] {
            assert_eq!(with_label(line), None, "{line}");
        }
    }

    #[test]
    fn a_removal_has_the_engine_and_the_label_and_not_the_mark() {
        let mut args = labelled(Path::new("docker"), &words("-H tcp://a container run image"), "m").unwrap();
        let label = args[5].clone();
        args.insert(0, "docker".into());
        let command: Vec<OsString> = args.iter().map(OsString::from).collect();
        let removal = removal(&command).unwrap();
        let said: Vec<_> = removal.get_args().skip(2).map(|arg| arg.to_str().unwrap()).collect();
        assert_eq!(said, [label.as_str(), "docker", "-H", "tcp://a"]);
        assert!(removal.get_envs().any(|(name, value)| name == PARENT_VARIABLE && value.is_none()));
        assert!(
            super::removal(
                &words("docker run image belljar.server=x").iter().map(Into::into).collect::<Vec<_>>()
            )
            .is_none()
        );
    }

    #[test]
    fn a_label_is_left_over_when_no_process_has_its_mark() {
        let mark = Mark::new();
        let mut command = Command::new("cat");
        command.env(PARENT_VARIABLE, mark.as_str()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        // Before it has answered, the system may not show its variables yet.
        process.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        process.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let label = format!("{}.word", mark.as_str());
        assert!(!is_left_over(&label));
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(is_left_over(&label) || !cfg!(target_os = "linux"));
    }
}
