//! Runs the commands that print values of a server's configuration: in parallel, bounded in time and output.
//!
//! No shell interprets them, and none of their output is shown.

use std::process::{ExitStatus, Stdio};

use belljar_base::limits::Limits;
use belljar_base::text;
use futures_util::{StreamExt, TryStreamExt, stream};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::ProcessSpec;

/// The largest number of commands of one server that run in parallel.
const AT_ONCE_MAX: usize = 8;
/// The longest part of a program's name that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// Runs the commands and returns their output, in their order.
///
/// # Errors
/// The reason why the first failed command failed. It completes the sentence "server 'x' is configured, but …".
pub async fn printed(commands: &[ProcessSpec], limits: &Limits) -> Result<Vec<String>, String> {
    let runs: Vec<_> = commands.iter().map(|command| told(command, limits)).collect();
    stream::iter(runs).buffered(AT_ONCE_MAX).try_collect().await
}

async fn told(command: &ProcessSpec, limits: &Limits) -> Result<String, String> {
    let program = text::inert_excerpt(&command.program.to_string_lossy(), SHOWN_CHARS_MAX);
    one(command, limits).await.map_err(|reason| format!("cannot be used: its ${{cmd:{program} …}} {reason}"))
}

async fn one(spec: &ProcessSpec, limits: &Limits) -> Result<String, String> {
    let mut command = Command::new(&spec.program);
    spec.inherited.pass_to(command.as_std_mut());
    command
        .args(&spec.args)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "was not found".to_owned(),
        kind => format!("could not be started: {kind}"),
    })?;
    let bytes_max = limits.reference_bytes_max;
    let mut group = ProcessGroup::of(&child);
    let ended = tokio::time::timeout(limits.reference_command, output(&mut child, bytes_max)).await;
    let (status, bytes) = ended
        .map_err(|_| format!("did not end within {} s", limits.reference_command.as_secs_f64()))?
        .map_err(|error| format!("could not be read: {}", error.kind()))?;
    // The process group is not killed once its leader has ended. Its id may belong to another process by now, and child
    // processes such as a key agent may continue.
    group.0 = None;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("printed more than {bytes_max} bytes"));
    }
    if !status.success() {
        return Err(format!("failed ({status})"));
    }
    String::from_utf8(bytes).map_err(|_| "printed what is not UTF-8".to_owned())
}

/// Waits for the exit status and the output. If the output is too long, only its beginning is returned.
async fn output(child: &mut Child, bytes_max: u64) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        // The pipe is closed at the bound, which ends a program that continues to write.
        stdout.take(bytes_max + 1).read_to_end(&mut bytes).await?;
    }
    Ok((child.wait().await?, bytes))
}

/// The process group of a command. Dropping it kills the group, unless the command has ended by itself.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let Some(group) = self.0 else { return };
        match killpg(group, Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => tracing::debug!(%error, "a command's process group could not be killed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> ProcessSpec {
        ProcessSpec { env: vec![("MARK".into(), "m".into())], ..ProcessSpec::plain("sh", &["-c", script]) }
    }

    #[tokio::test]
    async fn commands_run_side_by_side_and_are_read_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // The first command ends only after the second has written.
        let path = pipe.display();
        let commands = [shell(&format!("cat {path}")), shell(&format!("echo through >{path}; printf $MARK"))];
        assert_eq!(printed(&commands, &Limits::default()).await.unwrap(), ["through\n", "m"]);
    }

    #[tokio::test]
    async fn each_way_to_fail_is_told_without_what_was_printed() {
        let limits = Limits {
            reference_bytes_max: 10,
            reference_command: Duration::from_millis(300),
            ..Limits::default()
        };
        for (script, said) in [
            ("echo s3cret; exit 3", "failed (exit status: 3)"),
            ("echo s3cret-s3cret", "printed more than 10 bytes"),
            ("printf '\\377'", "printed what is not UTF-8"),
            ("kill -9 $$", "failed (signal: 9 (SIGKILL))"),
            ("sleep 60 & sleep 60", "did not end within 0.3 s"),
        ] {
            let told = printed(&[shell(script)], &limits).await.unwrap_err();
            assert_eq!(told, format!("cannot be used: its ${{cmd:sh …}} {said}"), "{script}");
        }
        let none = ProcessSpec { program: "/no/such\n".into(), ..shell("") };
        let told = printed(&[none], &limits).await.unwrap_err();
        assert_eq!(told, "cannot be used: its ${cmd:/no/such …} was not found");
    }

    #[tokio::test]
    async fn whoever_gives_a_command_up_leaves_none_of_its_processes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pids");
        let script = format!("sleep 600 & echo $! $$ >{0}.new; mv {0}.new {0}; wait", file.display());
        let (commands, limits) = ([shell(&script)], Limits::default());
        let pids = tokio::select! {
            told = printed(&commands, &limits) => panic!("it ended: {told:?}"),
            pids = async {
                loop {
                    match std::fs::read_to_string(&file) {
                        Ok(pids) => break pids,
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
            } => pids,
        };
        for pid in pids.split_whitespace() {
            let stat = format!("/proc/{pid}/stat");
            let is_alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
            while is_alive() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}
