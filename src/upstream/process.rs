//! A server's process: below a keeper where there is one, its own group, its stderr kept, its end certain.
//!
//! It speaks no MCP, and decides nothing about when a server starts or ends.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::ProcessSpec;
use crate::guard::Keeper;

/// How long a server gets after each step of its ending.
const STEP: Duration = Duration::from_millis(700);

/// How long the last of a dead server's stderr may take to be read.
const STDERR_END: Duration = Duration::from_millis(100);

/// A running server process, or its keeper. Dropping it kills everything below.
pub(super) struct Process {
    child: Child,
    group: Pid,
    is_kept: bool,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    stderr_task: JoinHandle<()>,
}

/// The pipes of a new process.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// How a server ended.
pub(super) struct Ended {
    /// The last that it wrote.
    pub(super) stderr: StderrTail,
    /// Why it never started.
    pub(super) not_started: Option<std::io::Error>,
}

/// The last bytes of a server's stderr, readable after its end.
#[derive(Clone)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl Process {
    pub(super) fn start(spec: &ProcessSpec, stderr_bytes_max: usize) -> std::io::Result<(Self, Pipes)> {
        let mut command = match &spec.keeper {
            Some(keeper) => Command::from(keeper.command(&spec.program)),
            None => Command::new(&spec.program),
        };
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
        let is_kept = spec.keeper.is_some();
        let process = Self { child, group: Pid::from_raw(pid), is_kept, stderr, stderr_task };
        Ok((process, Pipes { stdin, stdout }))
    }

    pub(super) fn stderr(&self) -> StderrTail {
        StderrTail(Arc::clone(&self.stderr))
    }

    /// Ends the server and all that it started: its stdin is closed already; then SIGTERM, then SIGKILL, each after a
    /// while.
    pub(super) async fn end(mut self) -> Ended {
        if !self.ended_within(STEP).await {
            self.signal(Signal::SIGTERM);
            if !self.ended_within(STEP).await {
                self.end_at_once();
                self.ended_within(STEP).await;
            }
        }
        // Also when the leader has ended: npx and uvx leave grandchildren, and a keeper can be killed. It is not reaped
        // yet, so that its number still names this group and no other.
        self.signal(Signal::SIGKILL);
        let status = self.child.wait().await;
        // The group is dead, so its stderr ends, unless a process that left the group holds it.
        if tokio::time::timeout(STDERR_END, &mut self.stderr_task).await.is_err() {
            self.stderr_task.abort();
        }
        let stderr = self.stderr();
        let not_started = match status {
            Ok(status) if self.is_kept => Keeper::not_started(status, &stderr.last_words()),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, "a server's process could not be reaped");
                None
            }
        };
        Ended { stderr, not_started }
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

    /// A keeper finds also those that have left the group, and ends after them.
    fn end_at_once(&self) {
        if !self.is_kept {
            self.signal(Signal::SIGKILL);
        } else if let Err(error) = kill(self.group, Keeper::AT_ONCE) {
            tracing::debug!(%error, "a server's keeper had gone");
        }
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
            self.end_at_once();
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
