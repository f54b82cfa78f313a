//! A server's process: its own group, its stderr kept, its end certain.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::ServerSpec;

/// How long a server gets after each step of its ending.
const STEP: Duration = Duration::from_millis(700);

/// How long the last of a dead server's stderr may take to be read.
const STDERR_END: Duration = Duration::from_millis(100);

/// A running server process. Dropping it kills the whole group.
pub(super) struct Process {
    child: Child,
    group: Pid,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    stderr_task: JoinHandle<()>,
}

/// The pipes of a new process.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// The last bytes of a server's stderr, readable after its end.
#[derive(Clone)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl Process {
    pub(super) fn start(spec: &ServerSpec, stderr_bytes_max: usize) -> std::io::Result<(Self, Pipes)> {
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a pipe is missing");
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).ok_or_else(missing)?;
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let pipe = child.stderr.take().ok_or_else(missing)?;
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let stderr_task = tokio::spawn(keep_tail(pipe, Arc::clone(&stderr), stderr_bytes_max));
        let process = Self { child, group: Pid::from_raw(pid), stderr, stderr_task };
        Ok((process, Pipes { stdin, stdout }))
    }

    pub(super) fn stderr(&self) -> StderrTail {
        StderrTail(Arc::clone(&self.stderr))
    }

    /// Ends the group and returns its last words: its stdin is closed already; then SIGTERM, then SIGKILL, each after a while.
    pub(super) async fn end(mut self) -> StderrTail {
        if !self.ended_within(STEP).await {
            self.signal(Signal::SIGTERM);
            self.ended_within(STEP).await;
        }
        // Also when the leader has ended: npx and uvx leave grandchildren. It is not reaped yet, so that its number
        // still names this group and no other.
        self.signal(Signal::SIGKILL);
        if let Err(error) = self.child.wait().await {
            tracing::debug!(%error, "a server's process could not be reaped");
        }
        // The group is dead, so its stderr ends, unless a process that left the group holds it.
        if tokio::time::timeout(STDERR_END, &mut self.stderr_task).await.is_err() {
            self.stderr_task.abort();
        }
        self.stderr()
    }

    async fn ended_within(&self, limit: Duration) -> bool {
        let ended = async {
            loop {
                let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
                match waitid(Id::Pid(self.group), flags) {
                    Ok(WaitStatus::StillAlive) => tokio::time::sleep(Duration::from_millis(5)).await,
                    Ok(_) | Err(_) => return,
                }
            }
        };
        tokio::time::timeout(limit, ended).await.is_ok()
    }

    fn signal(&self, signal: Signal) {
        match killpg(self.group, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => tracing::warn!(%error, %signal, "a server's process group could not be signalled"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // None once it was reaped by `end`.
        if self.child.id().is_some() {
            self.signal(Signal::SIGKILL);
        }
        self.stderr_task.abort();
    }
}

impl StderrTail {
    /// The last lines, at most 2 KiB, as one line of text.
    pub(super) fn last_words(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = kept.len().saturating_sub(2048);
        let bytes: Vec<u8> = kept.iter().skip(skip).copied().collect();
        drop(kept);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}

async fn keep_tail(mut pipe: ChildStderr, kept: Arc<Mutex<VecDeque<u8>>>, bytes_max: usize) {
    let mut chunk = vec![0; 8192];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&chunk[..read]);
        let excess = kept.len().saturating_sub(bytes_max);
        kept.drain(..excess);
    }
}
