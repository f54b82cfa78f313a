//! The guardian: a process that outlives the bridge, and cleans up if the bridge is killed.
//!
//! Until then it only reads its stdin: each line lists all resources of the bridge, and replaces the line before. It
//! removes nothing while its stdin is open.

use std::io::{BufRead, BufReader, Read};
use std::process::ExitCode;
use std::time::Duration;

use belljar_guard::{LINE_BYTES_MAX, Mark, end_marked};
use nix::unistd::{Pid, getppid};

use crate::session::GuardedResources;
use crate::workspace::sweep;

/// The longest time for which the bridge's process may exist after it has closed the guardian's stdin.
const ENDING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits for the end of the bridge, then removes the resources that it has left.
pub(super) fn guard(mark: Mark) -> ExitCode {
    let bridge = getppid();
    // A session of its own protects the guardian from signals to the bridge's group or terminal.
    let alone = nix::unistd::setsid();
    let resources = last_told();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::from(70) };
    let removed = runtime.block_on(async {
        let (removed, ()) = tokio::join!(remove(resources, bridge), end_marked(&mark));
        removed
    });
    ExitCode::from(u8::from(removed.is_err() || alone.is_err()))
}

async fn remove(resources: Option<GuardedResources>, bridge: Pid) -> Result<(), belljar_engine::EngineError> {
    let Some(GuardedResources { cleanup_list, workspaces }) = resources else { return Ok(()) };
    let removed = cleanup_list.remove().await;
    // The kernel releases the lock of its workspace before it gives the guardian another parent.
    let ended = async {
        while getppid() == bridge {
            tokio::time::sleep(PAUSE).await;
        }
    };
    if tokio::time::timeout(ENDING, ended).await.is_err() {
        tracing::debug!("the bridge's process has not ended yet");
    }
    sweep(&workspaces);
    removed
}

/// The content of the last valid line; an invalid line changes nothing.
fn last_told() -> Option<GuardedResources> {
    let mut input = BufReader::with_capacity(4096, std::io::stdin());
    let mut told = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return told;
        }
        if let Ok(now) = serde_json::from_slice(&line) {
            told = now;
        }
    }
}
