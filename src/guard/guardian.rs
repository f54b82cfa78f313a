//! The bridge's end of its guardian: starts it, tells it what there is, and starts it again when it dies.
//!
//! What it tells is one line of text, which replaces the line before; `app` has the guardian's own side. The guardian
//! acts when its stdin ends, and only the bridge holds the other end of that.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};

use super::mark::Mark;

/// Longest line that a guardian is told, in bytes.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// How long the guardian may take to read a line: a pipe takes many.
const TELLING: Duration = Duration::from_secs(1);
/// Between two starts.
const PAUSE: Duration = Duration::from_millis(500);
/// Lines that may wait to be told; more wait in their callers.
const LINES_QUEUED_MAX: usize = 4;

/// Tells the guardian. The guardian acts when the last of these has gone, or the bridge has.
#[derive(Debug, Clone)]
pub struct Guardian {
    lines: mpsc::Sender<(String, oneshot::Sender<()>)>,
}

impl Guardian {
    /// Prepares it; the process starts with the first line. Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(program: PathBuf, mark: Mark) -> Self {
        let (lines, inbox) = mpsc::channel(LINES_QUEUED_MAX);
        // Ends by itself with the last sender.
        drop(tokio::spawn(own(program, mark, inbox)));
        Self { lines }
    }

    /// Tells what there is now. When it returns, the line is out of the bridge's hands, unless no guardian can be had:
    /// then the sandbox's own watch and the next start remain.
    pub async fn tell(&self, line: String) {
        let (told, done) = oneshot::channel();
        if self.lines.send((line, told)).await.is_err() || done.await.is_err() {
            tracing::warn!("there is no guardian");
        }
    }
}

async fn own(program: PathBuf, mark: Mark, mut inbox: mpsc::Receiver<(String, oneshot::Sender<()>)>) {
    let mut last = String::new();
    let mut process: Option<Process> = None;
    loop {
        let asked = tokio::select! {
            asked = inbox.recv() => asked,
            () = ended(&mut process) => {
                tracing::warn!("the guardian ended, and is started again");
                tokio::time::sleep(PAUSE).await;
                process = restarted(&program, &mark, &last).await;
                continue;
            }
        };
        let Some((line, told)) = asked else { return };
        last = line;
        let heard = match &mut process {
            Some(running) => running.tell(&last).await,
            None => false,
        };
        if !heard {
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
        command.arg0("hotcell").args(["guardian", "--mark", mark.as_str()]);
        // Nothing of the client's: whoever waits for the bridge's last words must not wait for the guardian.
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Command::from(std::mem::replace(streams, std::process::Command::new(""))).spawn()?;
        let stdin = child.stdin.take().ok_or_else(|| std::io::Error::other("a pipe is missing"))?;
        Ok(Self { child, stdin })
    }

    /// Whether the line was taken.
    async fn tell(&mut self, line: &str) -> bool {
        let line = format!("{line}\n");
        let written = tokio::time::timeout(TELLING, async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdin.flush().await
        });
        matches!(written.await, Ok(Ok(())))
    }
}

async fn restarted(program: &Path, mark: &Mark, line: &str) -> Option<Process> {
    match Process::start(program, mark) {
        Ok(mut process) => process.tell(line).await.then_some(process),
        Err(error) => {
            tracing::warn!(%error, "the guardian could not be started");
            None
        }
    }
}

async fn ended(process: &mut Option<Process>) {
    match process {
        Some(process) => {
            if let Err(error) = process.child.wait().await {
                tracing::debug!(%error, "the guardian could not be waited for");
            }
        }
        None => std::future::pending().await,
    }
}
