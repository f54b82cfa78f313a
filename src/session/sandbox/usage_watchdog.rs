//! The second line of defence if an engine does not enforce a limit: reads the sandbox's usage and reports an excess.
//!
//! It ends nothing: the machine does.

use std::io;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::engine::Usage;
use crate::limits::Limits;

/// The number of consecutive reads that may fail, for example because the bridge has no free descriptor. While a run is
/// in progress, they take about a second.
const FAILED_LOOKS_MAX: u32 = 40;

/// The limits that the bridge watches. A limit that the engine enforces is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WatchedLimits {
    pub(super) memory_bytes: Option<u64>,
    pub(crate) processes: Option<u64>,
}

/// Watches one sandbox until it is dropped.
pub(crate) struct Watchdog {
    exceeded: mpsc::Receiver<String>,
    running: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Watchdog {
    /// Starts to watch. `read` reads the usage, as [`crate::engine::UsageMeter::read`] does.
    pub(crate) fn start(
        read: impl Fn(u64) -> io::Result<Option<Usage>> + Clone + Send + 'static,
        watched: WatchedLimits,
        limits: Arc<Limits>,
    ) -> Self {
        let (told, exceeded) = mpsc::channel(1);
        let (running, mut is_running) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut read_at = Instant::now();
            let mut failed = 0;
            loop {
                let pause =
                    if *is_running.borrow_and_update() { limits.watch_running } else { limits.watch_idle };
                // The pause counts from the last read, so that frequent runs cannot delay the next one.
                tokio::select! {
                    () = sleep_until(read_at + pause) => {}
                    changed = is_running.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                }
                // A thread of its own does the read: files of /proc never wait for a disk, but a sandbox can have many
                // processes.
                let read = read.clone();
                let look = move || {
                    let memory_bytes = watched.memory_bytes.unwrap_or(u64::MAX);
                    let usage = read(memory_bytes)?;
                    // An excess is read twice, since processes that come and go during a read can be counted for more
                    // than they use.
                    let exceeds = usage.is_some_and(|usage| watched.exceeded_by(usage).is_some());
                    if exceeds { read(memory_bytes) } else { Ok(usage) }
                };
                let looked = tokio::task::spawn_blocking(look).await;
                read_at = Instant::now();
                let exceeded = match looked.unwrap_or_else(|broken| Err(io::Error::other(broken))) {
                    Ok(None) => return,
                    Ok(Some(usage)) => {
                        failed = 0;
                        watched.exceeded_by(usage)
                    }
                    Err(error) => {
                        failed += 1;
                        (failed >= FAILED_LOOKS_MAX).then(|| {
                            failed = 0;
                            format!(
                                "what the sandbox uses cannot be read, so its limits cannot be kept: {error}"
                            )
                        })
                    }
                };
                if let Some(exceeded) = exceeded
                    && told.send(exceeded).await.is_err()
                {
                    return;
                }
            }
        });
        Self { exceeded, running, task }
    }

    /// Sets whether a run is in progress: usage is read more often then.
    pub(crate) fn set_running(&self, running: bool) {
        self.running.send_replace(running);
    }

    /// Waits for the next limit that is exceeded, and returns the message. Never returns if nothing is watched any
    /// more. Cancel-safe.
    pub(crate) async fn exceeded(&mut self) -> String {
        match self.exceeded.recv().await {
            Some(exceeded) => exceeded,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WatchedLimits {
    fn exceeded_by(&self, usage: Usage) -> Option<String> {
        let Usage { memory_bytes, processes } = usage;
        if let Some(limit) = self.memory_bytes.filter(|limit| memory_bytes > *limit) {
            let (used, limit) = (memory_bytes >> 20, limit >> 20);
            return Some(format!(
                "the sandbox used {used} MiB of memory, more than its limit of {limit} MiB"
            ));
        }
        let limit = self.processes.filter(|limit| processes > *limit)?;
        Some(format!("the sandbox had {processes} processes and threads, more than its limit of {limit}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn what_exceeds_a_watched_limit_is_said_and_nothing_else() {
        let both = WatchedLimits { memory_bytes: Some(64 << 20), processes: Some(8) };
        let usage = |mib: u64, processes| Usage { memory_bytes: mib << 20, processes };
        assert_eq!(both.exceeded_by(usage(64, 8)), None);
        assert_eq!(
            both.exceeded_by(usage(65, 8)).unwrap(),
            "the sandbox used 65 MiB of memory, more than its limit of 64 MiB"
        );
        assert_eq!(
            both.exceeded_by(usage(64, 9)).unwrap(),
            "the sandbox had 9 processes and threads, more than its limit of 8"
        );
        assert_eq!(WatchedLimits { memory_bytes: None, ..both }.exceeded_by(usage(9999, 8)), None);
        assert_eq!(WatchedLimits { processes: None, ..both }.exceeded_by(usage(64, 9999)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_fails_is_made_again_and_when_none_succeeds_that_is_said() {
        let watched = WatchedLimits { memory_bytes: None, processes: Some(8) };
        let too_many = Usage { memory_bytes: 0, processes: 9 };
        let looks = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&looks);
        let read = move |_| match seen.fetch_add(1, Ordering::Relaxed) {
            0..3 => Err(io::Error::from_raw_os_error(24)),
            3..5 => Ok(Some(too_many)),
            _ => Err(io::Error::other("nothing is left")),
        };
        let mut watchdog = Watchdog::start(read, watched, Arc::default());
        assert_eq!(
            watchdog.exceeded().await,
            "the sandbox had 9 processes and threads, more than its limit of 8"
        );
        assert_eq!(
            watchdog.exceeded().await,
            "what the sandbox uses cannot be read, so its limits cannot be kept: nothing is left"
        );
        assert!(looks.load(Ordering::Relaxed) >= 5 + FAILED_LOOKS_MAX);
    }
}
