//! The guardian: a process that outlives the bridge, and cleans up if the bridge is killed.
//!
//! Until then it only reads its stdin: each line lists all resources of the bridge, and replaces the line before. It
//! removes nothing while its stdin is open.

use std::io::{BufRead, BufReader, Read};
use std::process::ExitCode;

use crate::engine::CleanupList;
use crate::guard::{LINE_BYTES_MAX, Mark, end_marked};

/// Waits for the end of the bridge, then removes the resources that it has left.
pub(super) fn guard(mark: Mark) -> ExitCode {
    // A session of its own protects the guardian from signals to the bridge's group or terminal.
    let alone = nix::unistd::setsid();
    let cleanup_list = last_told();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::from(70) };
    let removed = runtime.block_on(async {
        let (removed, ()) = tokio::join!(remove(cleanup_list), end_marked(&mark));
        removed
    });
    ExitCode::from(u8::from(removed.is_err() || alone.is_err()))
}

async fn remove(cleanup_list: Option<CleanupList>) -> Result<(), crate::engine::EngineError> {
    match cleanup_list {
        Some(cleanup_list) => cleanup_list.remove().await,
        None => Ok(()),
    }
}

/// The content of the last valid line; an invalid line changes nothing.
fn last_told() -> Option<CleanupList> {
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
