//! The guardian: a process that outlives the bridge, and removes what the bridge leaves when it is killed.
//!
//! Until then it does nothing but read: each line says all that there is, in place of the line before. It ends nothing
//! while its stdin is open.

use std::io::{BufRead, BufReader, Read};
use std::process::ExitCode;

use crate::engine::CleanupList;
use crate::guard::{LINE_BYTES_MAX, Mark, end_marked};

/// Waits for the bridge's end, then removes what it has left.
pub(super) fn guard(mark: Mark) -> ExitCode {
    // Out of the reach of what ends the bridge's group or terminal.
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

/// What the last line said; a line that cannot be read changes nothing.
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
