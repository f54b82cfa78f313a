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
use super::redaction::Redaction;
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
    stderr: StderrTail,
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
pub(super) struct StderrTail {
    kept: Arc<Mutex<Kept>>,
    redaction: Redaction,
}

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Whether there were more.
    is_cut: bool,
}

/// How much of it is told, in bytes.
const LAST_WORDS_BYTES_MAX: usize = 2048;
/// The same in lines.
const LAST_LINES_MAX: usize = 5;

impl Process {
    pub(super) fn start(
        spec: &ProcessSpec,
        redaction: &Redaction,
        stderr_bytes_max: usize,
    ) -> std::io::Result<(Self, Pipes)> {
        let mut command = match &spec.keeper {
            Some(keeper) => Command::from(keeper.command(&spec.program)),
            None => Command::new(&spec.program),
        };
        for name in &spec.without {
            command.env_remove(name);
        }
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
        let kept = Arc::<Mutex<Kept>>::default();
        let stderr_task = tokio::spawn(keep_tail(pipe, Arc::clone(&kept), stderr_bytes_max));
        let stderr = StderrTail { kept, redaction: redaction.clone() };
        let is_kept = spec.keeper.is_some();
        let process = Self { child, group: Pid::from_raw(pid), is_kept, stderr, stderr_task };
        Ok((process, Pipes { stdin, stdout }))
    }

    pub(super) fn stderr(&self) -> StderrTail {
        self.stderr.clone()
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
    /// The last lines, at most 2 KiB, as one line of text without secrets: they are taken out first, since a part of one would
    /// not be known for what it is.
    pub(super) fn last_words(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, is_cut): (Vec<u8>, bool) = (kept.bytes.iter().copied().collect(), kept.is_cut);
        drop(kept);
        let text = match is_cut {
            true => self.redaction.tail(&bytes),
            false => self.redaction.text(String::from_utf8_lossy(&bytes).into_owned()),
        };
        let mut begin = text.len().saturating_sub(LAST_WORDS_BYTES_MAX);
        while !text.is_char_boundary(begin) {
            begin += 1;
        }
        let lines: Vec<&str> = text[begin..].lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LAST_LINES_MAX)..].join(" | ")
    }
}

async fn keep_tail(mut pipe: ChildStderr, kept: Arc<Mutex<Kept>>, bytes_max: usize) {
    let mut chunk = vec![0; 8192];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        kept.lock().unwrap_or_else(PoisonError::into_inner).take_in(&chunk[..read], bytes_max);
    }
}

impl Kept {
    fn take_in(&mut self, read: &[u8], bytes_max: usize) {
        self.bytes.extend(read);
        let excess = self.bytes.len().saturating_sub(bytes_max);
        self.is_cut |= excess > 0;
        self.bytes.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::redaction::tests::of;

    fn last_words(said: &str, bytes_max: usize) -> String {
        let mut kept = Kept::default();
        for chunk in said.as_bytes().chunks(700) {
            kept.take_in(chunk, bytes_max);
        }
        let redaction = of(&[("KEY", "first-line-0123456789\nsecond-line-0123456789")]);
        StderrTail { kept: Arc::new(Mutex::new(kept)), redaction }.last_words()
    }

    #[test]
    fn a_secret_is_taken_out_before_anything_is_cut_off() {
        let secret = "first-line-0123456789\nsecond-line-0123456789";
        // Wherever the cuts fall, nothing of the secret is left but its name.
        for blanks in 0..60 {
            let said = format!("{}{secret}{}\nend", "x".repeat(3000), ".".repeat(2005 + blanks));
            for bytes_max in [64 * 1024, 2020 + 60] {
                let words = last_words(&said, bytes_max);
                assert!(words.ends_with(". | end") && words.len() <= LAST_WORDS_BYTES_MAX + 2, "{words}");
                assert!(!words.contains("line") && !words.contains("6789"), "{blanks} {bytes_max}: {words}");
            }
        }
        assert_eq!(last_words(&format!("\u{e4}\n\nkey {secret}\n end \n"), 1024), "\u{e4} | key [KEY] | end");
        assert_eq!(last_words("1\n2\n3\n4\n5\n6", 1024), "2 | 3 | 4 | 5 | 6");
    }
}
