//! The guardian: a process that outlives the bridge, and cleans up if the bridge is killed.
//!
//! Until then it only reads its stdin: each line lists all resources of one session, and replaces the session's line
//! before. It removes nothing while its stdin is open.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
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

async fn remove(resources: Vec<GuardedResources>, bridge: Pid) -> Result<(), belljar_engine::EngineError> {
    let mut removed = Ok(());
    for resources in &resources {
        removed = removed.and(resources.cleanup_list.remove().await);
    }
    // The kernel releases the lock of its workspace before it gives the guardian another parent.
    let ended = async {
        while getppid() == bridge {
            tokio::time::sleep(PAUSE).await;
        }
    };
    if tokio::time::timeout(ENDING, ended).await.is_err() {
        tracing::debug!("the bridge's process has not ended yet");
    }
    let folders: BTreeSet<&PathBuf> = resources.iter().map(|resources| &resources.workspaces).collect();
    folders.into_iter().for_each(|workspaces| sweep(workspaces));
    removed
}

/// The content of the last valid line of each session that has something; an invalid line changes nothing.
fn last_told() -> Vec<GuardedResources> {
    let mut input = BufReader::with_capacity(4096, std::io::stdin());
    let mut told = BTreeMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return told.into_values().flatten().collect();
        }
        let of_session = line.splitn(2, |byte| *byte == b' ').map(<[u8]>::to_vec).collect::<Vec<_>>();
        if let [session, resources] = &of_session[..]
            && let Ok(now) = serde_json::from_slice::<Option<GuardedResources>>(resources)
        {
            told.insert(session.clone(), now);
        }
    }
}
