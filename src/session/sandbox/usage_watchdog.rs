//! The second line of defence if an engine does not enforce a limit: reads the sandbox's usage and reports an excess.
//!
//! The machine ends what exceeds a limit. If the bridge is too busy to take a report, the watch ends the sandbox itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use belljar_base::limits::Limits;
use belljar_engine::{Usage, UsageMeter};
use tokio::sync::mpsc::error::TrySendError;

/// The number of consecutive reads that may fail, for example because the bridge has no free descriptor. While a run is
/// in progress, they take about a second.
const FAILED_LOOKS_MAX: u32 = 40;

/// The limits that the bridge watches. A limit that the engine enforces is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WatchedLimits {
    pub(super) memory_bytes: Option<u64>,
    pub(crate) processes: Option<u64>,
}

/// A sandbox whose usage is watched.
pub(crate) trait Watched: Send + 'static {
    /// Reads the usage, as [`UsageMeter::read`] does.
    fn read(&self, memory_bytes: u64) -> io::Result<Option<Usage>>;
    /// Ends the whole sandbox.
    fn end(&self);
}

impl Watched for UsageMeter {
    fn read(&self, memory_bytes: u64) -> io::Result<Option<Usage>> {
        Self::read(self, memory_bytes)
    }

    fn end(&self) {
        if let Err(error) = Self::end(self) {
            tracing::warn!(%error, "a sandbox that exceeds its limits cannot be ended");
        }
    }
}

/// Watches one sandbox until it is dropped, on a thread of its own: whatever keeps the bridge's thread busy does not
/// delay it.
pub(crate) struct Watchdog {
    exceeded: tokio::sync::mpsc::Receiver<String>,
    pace: Arc<Pace>,
    thread: Thread,
}

/// What decides how often the thread reads.
#[derive(Debug, Default)]
struct Pace {
    /// Whether a run is in progress.
    is_running: AtomicBool,
    /// Whether the thread makes the long pause, so that the beginning of a run has to wake it. To wake it for each run
    /// would cost as much as a tenth of a warm run.
    rests: AtomicBool,
    /// Whether the thread is to end.
    is_over: AtomicBool,
}

impl Watchdog {
    /// Starts to watch.
    ///
    /// # Errors
    /// The machine has no room for another thread.
    pub(crate) fn start(
        sandbox: impl Watched,
        watched: WatchedLimits,
        limits: Arc<Limits>,
    ) -> io::Result<Self> {
        let (told, exceeded) = tokio::sync::mpsc::channel(1);
        let pace = Arc::new(Pace::default());
        let of_thread = Arc::clone(&pace);
        let watch = move || watch(&sandbox, watched, &limits, &told, &of_thread);
        let thread = thread::Builder::new().name("watchdog".into()).spawn(watch)?.thread().clone();
        Ok(Self { exceeded, pace, thread })
    }

    /// Sets whether a run is in progress: usage is read more often then.
    pub(crate) fn set_running(&self, running: bool) {
        self.pace.is_running.store(running, Ordering::SeqCst);
        if running && self.pace.rests.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
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
        self.pace.is_over.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Pace {
    /// The pause until the next read. Whoever sets `is_running` afterwards sees that the thread rests, and wakes it.
    fn pause(&self, limits: &Limits) -> Duration {
        let is_running = || self.is_running.load(Ordering::SeqCst);
        self.rests.store(!is_running(), Ordering::SeqCst);
        if is_running() { limits.watch_running } else { limits.watch_idle }
    }
}

/// Reads the usage again and again, until the sandbox or the [`Watchdog`] is gone.
fn watch(
    sandbox: &impl Watched,
    watched: WatchedLimits,
    limits: &Limits,
    told: &tokio::sync::mpsc::Sender<String>,
    pace: &Pace,
) {
    let mut read_at = Instant::now();
    let mut failed = 0;
    // Since when a report waits for the bridge.
    let mut unheard: Option<Instant> = None;
    while !pace.is_over.load(Ordering::SeqCst) {
        // The pause counts from the last read, so that frequent runs cannot delay the next one.
        let left = (read_at + pace.pause(limits)).saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::park_timeout(left);
            continue;
        }
        let looked = look(sandbox, watched);
        read_at = Instant::now();
        let exceeded = match looked {
            Ok(None) => return,
            Ok(Some(usage)) => {
                failed = 0;
                watched.exceeded_by(usage)
            }
            Err(error) => {
                failed += 1;
                (failed >= FAILED_LOOKS_MAX).then(|| {
                    failed = 0;
                    format!("what the sandbox uses cannot be read, so its limits cannot be kept: {error}")
                })
            }
        };
        unheard = match exceeded.map(|exceeded| told.try_send(exceeded)) {
            Some(Err(TrySendError::Closed(_))) => return,
            Some(Err(TrySendError::Full(_))) => unheard,
            Some(Ok(())) => Some(read_at),
            None => unheard.filter(|_| failed > 0),
        };
        if unheard.is_some_and(|since| since.elapsed() >= limits.watch_unheard) {
            sandbox.end();
        }
    }
}

/// One look at the usage. An excess is read twice, since processes that come and go during a read can be counted for
/// more than they use.
fn look(sandbox: &impl Watched, watched: WatchedLimits) -> io::Result<Option<Usage>> {
    let memory_bytes = watched.memory_bytes.unwrap_or(u64::MAX);
    let usage = sandbox.read(memory_bytes)?;
    let exceeds = usage.is_some_and(|usage| watched.exceeded_by(usage).is_some());
    if exceeds { sandbox.read(memory_bytes) } else { Ok(usage) }
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
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::{self, RecvTimeoutError};

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

    /// A sandbox with these looks, and what says that it was ended.
    struct Sandbox<F>(F, mpsc::Sender<()>);

    impl<F: Fn() -> io::Result<Option<Usage>> + Send + 'static> Watched for Sandbox<F> {
        fn read(&self, _: u64) -> io::Result<Option<Usage>> {
            self.0()
        }

        fn end(&self) {
            let _ = self.1.send(());
        }
    }

    const WATCHED: WatchedLimits = WatchedLimits { memory_bytes: None, processes: Some(8) };
    const TOO_MANY: Usage = Usage { memory_bytes: 0, processes: 9 };
    const SAID: &str = "the sandbox had 9 processes and threads, more than its limit of 8";

    fn limits(unheard: Duration) -> Arc<Limits> {
        let pause = Duration::from_millis(1);
        Arc::new(Limits {
            watch_idle: pause,
            watch_running: pause,
            watch_unheard: unheard,
            ..Limits::default()
        })
    }

    #[tokio::test]
    async fn a_look_that_fails_is_made_again_and_when_none_succeeds_that_is_said() {
        let looks = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&looks);
        let read = move || match seen.fetch_add(1, Ordering::Relaxed) {
            0..3 => Err(io::Error::from_raw_os_error(24)),
            3..5 => Ok(Some(TOO_MANY)),
            _ => Err(io::Error::other("nothing is left")),
        };
        let (ended, _has_ended) = mpsc::channel();
        let mut watchdog =
            Watchdog::start(Sandbox(read, ended), WATCHED, limits(Duration::from_secs(600))).unwrap();
        assert_eq!(watchdog.exceeded().await, SAID);
        assert_eq!(
            watchdog.exceeded().await,
            "what the sandbox uses cannot be read, so its limits cannot be kept: nothing is left"
        );
        assert!(looks.load(Ordering::Relaxed) >= 5 + FAILED_LOOKS_MAX);
    }

    /// The test's runtime has one thread, as the bridge's.
    #[tokio::test]
    async fn a_sandbox_is_ended_while_the_bridge_does_not_listen_and_then_it_hears_why() {
        let (ended, has_ended) = mpsc::channel();
        let sandbox = Sandbox(|| Ok(Some(TOO_MANY)), ended);
        let mut watchdog = Watchdog::start(sandbox, WATCHED, limits(Duration::from_millis(50))).unwrap();
        has_ended.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(watchdog.exceeded().await, SAID);
    }

    /// Without the wake-up, the second look would be made after ten minutes.
    #[tokio::test]
    async fn the_beginning_of_a_run_ends_a_long_pause() {
        let (ended, _has_ended) = mpsc::channel();
        let limits = Limits { watch_idle: Duration::from_secs(600), ..Limits::default() };
        let sandbox = Sandbox(|| Ok(Some(TOO_MANY)), ended);
        let mut watchdog = Watchdog::start(sandbox, WATCHED, Arc::new(limits)).unwrap();
        watchdog.set_running(true);
        assert_eq!(watchdog.exceeded().await, SAID);
        watchdog.set_running(false);
        watchdog.set_running(true);
        assert_eq!(watchdog.exceeded().await, SAID);
    }

    #[tokio::test]
    async fn a_sandbox_whose_bridge_listens_is_left_to_it() {
        let (ended, has_ended) = mpsc::channel();
        let sandbox = Sandbox(|| Ok(Some(TOO_MANY)), ended);
        let mut watchdog = Watchdog::start(sandbox, WATCHED, limits(Duration::from_secs(600))).unwrap();
        for _ in 0..5 {
            assert_eq!(watchdog.exceeded().await, SAID);
        }
        drop(watchdog);
        // The thread has ended, and with it the sandbox's sender.
        assert_eq!(has_ended.recv_timeout(Duration::from_secs(30)), Err(RecvTimeoutError::Disconnected));
    }
}
