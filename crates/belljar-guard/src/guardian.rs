//! The bridge's end of its guardian: starts it, tells it what there is, and starts it again when it dies.
//!
//! For each session it sends one line of text, which replaces the session's earlier line. `app` has the guardian's own
//! side. The guardian acts when its stdin ends, and only the bridge holds the other end of that.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};

use super::mark::Mark;

/// Longest line that a guardian is told, in bytes.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// How long the guardian may take to read a line: a pipe takes many.
const TELLING: Duration = Duration::from_secs(1);
/// Between two starts: first, and longest where none succeeds.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Lines that may wait to be told; more wait in their callers.
const LINES_QUEUED_MAX: usize = 4;

/// Sends the guardian the lines of one session. The guardian acts when the last of these has gone, or the bridge has.
#[derive(Debug, Clone)]
pub struct Guardian {
    session: Arc<str>,
    lines: mpsc::Sender<Message>,
}

/// A session, its line, and where its caller waits.
type Message = (Arc<str>, String, oneshot::Sender<()>);
/// The last line of each session.
type Lines = BTreeMap<Arc<str>, String>;

impl Guardian {
    /// Prepares it for a first session; the process starts with the first line. Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(program: PathBuf, mark: Mark, session: &str) -> Self {
        let (lines, inbox) = mpsc::channel(LINES_QUEUED_MAX);
        // Ends by itself with the last sender.
        drop(tokio::spawn(own(program, mark, inbox)));
        Self { session: session.into(), lines }
    }

    /// The same guardian, for another session.
    #[must_use]
    pub fn of_session(&self, session: &str) -> Self {
        Self { session: session.into(), lines: self.lines.clone() }
    }

    /// Tells what the session has now. When it returns, the line is out of the bridge's hands, unless no guardian can be had:
    /// then the sandbox's own watch and the next start remain.
    pub async fn tell(&self, line: String) {
        let (told, done) = oneshot::channel();
        if self.lines.send((Arc::clone(&self.session), line, told)).await.is_err() || done.await.is_err() {
            tracing::warn!("there is no guardian");
        }
    }
}

async fn own(program: PathBuf, mark: Mark, mut inbox: mpsc::Receiver<Message>) {
    let mut last = Lines::new();
    let mut process: Option<Process> = None;
    let mut pause = PAUSE.0;
    loop {
        let asked = tokio::select! {
            asked = inbox.recv() => asked,
            // Nothing is to be guarded before the first line.
            () = due(&mut process, pause), if !last.is_empty() => {
                process = restarted(&program, &mark, &last).await;
                pause = if process.is_some() { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
                continue;
            }
        };
        let Some((session, line, told)) = asked else { return };
        let heard = match &mut process {
            Some(running) => running.tell(&session, &line).await,
            None => false,
        };
        last.insert(session, line);
        if !heard {
            if let Some(hanging) = process.take() {
                hanging.give_up();
            }
            process = restarted(&program, &mark, &last).await;
        }
        if told.send(()).is_err() {
            tracing::trace!("nobody waits for the guardian any more");
        }
    }
}

struct Process {
    child: Child,
    stdin: ChildStdin,
}

impl Process {
    fn start(program: &Path, mark: &Mark) -> std::io::Result<Self> {
        let mut command = std::process::Command::new(program);
        command.arg0("belljar").args(["guardian", "--mark", mark.as_str()]);
        // Nothing of the client's: whoever waits for the bridge's last words must not wait for the guardian.
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Command::from(std::mem::replace(streams, std::process::Command::new(""))).spawn()?;
        let stdin = child.stdin.take().ok_or_else(|| std::io::Error::other("a pipe is missing"))?;
        Ok(Self { child, stdin })
    }

    /// Whether the line was taken.
    async fn tell(&mut self, session: &str, line: &str) -> bool {
        let line = format!("{session} {line}\n");
        let written = tokio::time::timeout(TELLING, async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdin.flush().await
        });
        matches!(written.await, Ok(Ok(())))
    }

    /// Ends one that does not read: it would take the end of its stdin for the bridge's.
    fn give_up(mut self) {
        if let Err(error) = self.child.start_kill() {
            tracing::debug!(%error, "the guardian had ended");
        }
    }
}

async fn restarted(program: &Path, mark: &Mark, lines: &Lines) -> Option<Process> {
    match Process::start(program, mark) {
        Ok(mut process) => {
            let mut is_heard = true;
            for (session, line) in lines {
                is_heard = is_heard && process.tell(session, line).await;
            }
            if is_heard {
                return Some(process);
            }
            tracing::warn!("the guardian does not read");
            process.give_up();
            None
        }
        Err(error) => {
            tracing::warn!(%error, "the guardian could not be started");
            None
        }
    }
}

/// Until it is to be started again: some time after it has ended, or could not be started. Cancel-safe.
async fn due(process: &mut Option<Process>, pause: Duration) {
    if let Some(running) = process {
        if let Err(error) = running.child.wait().await {
            tracing::debug!(%error, "the guardian could not be waited for");
        }
        tracing::warn!("the guardian ended, and is started again");
        *process = None;
    }
    tokio::time::sleep(pause).await;
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nix::sys::stat::Mode;

    use super::*;

    const BOUND: Duration = Duration::from_secs(60);

    /// A program that does this, `TOLD` being a pipe, and that pipe.
    fn guardian(dir: &Path, does: &str) -> (PathBuf, PathBuf) {
        let (program, told) = (dir.join("guardian"), dir.join("told"));
        nix::unistd::mkfifo(&told, Mode::S_IRWXU).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\nTOLD={}\n{does}\n", told.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (program, told)
    }

    async fn what_is_told(told: &Path) -> String {
        tokio::time::timeout(BOUND, tokio::fs::read_to_string(told)).await.expect("it is started").unwrap()
    }

    #[tokio::test]
    async fn one_that_could_not_be_started_is_started_later_without_being_told_anything_new() {
        let dir = tempfile::tempdir().unwrap();
        let (program, told) = guardian(dir.path(), "read one; read other; echo \"$one, $other\" > $TOLD");
        let missing = dir.path().join("missing");
        let guardian = Guardian::new(missing.clone(), Mark::new(), "a");
        guardian.tell("before".into()).await;
        guardian.of_session("b").tell("of another".into()).await;
        guardian.tell("what there is".into()).await;
        std::fs::rename(program, missing).unwrap();
        assert_eq!(what_is_told(&told).await, "a what there is, b of another\n");
    }

    #[tokio::test]
    async fn one_that_does_not_read_is_ended_and_never_takes_the_bridge_for_dead() {
        let dir = tempfile::tempdir().unwrap();
        let (program, told) = guardian(dir.path(), "echo $$ > $TOLD; exec sleep 600");
        let guardian = Guardian::new(program, Mark::new(), "a");
        // More than a pipe takes.
        let telling = guardian.tell("x".repeat(1 << 20));
        let (pid, ()) = tokio::join!(what_is_told(&told), telling);
        let stat = format!("/proc/{}/stat", pid.trim());
        let ended = async {
            while std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains("(sleep)")) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(BOUND, ended).await.expect("it is ended");
    }
}
