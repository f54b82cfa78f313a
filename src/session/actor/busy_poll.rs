//! Keeps the runtime awake for a moment while a run is in progress: to fall asleep and wake up takes longer than most
//! answers.
//!
//! On a machine with two processors this saves a third of the time of a warm run and of a call (`make bench`). It costs
//! at most [`AWAKE_MAX`] of one processor for each wait, and nothing if the previous wait of the same kind was longer.
//! So it costs nothing between two runs, unless a program sends runs in quick succession.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The longest wait during which the runtime stays awake. A warm run takes less, and so does a call.
const AWAKE_MAX: Duration = Duration::from_micros(500);

/// The event that the session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// An event that belongs to the run in progress.
    Answer,
    /// The next run.
    Run,
}

/// Keeps the runtime awake during short waits, and learns from each wait whether the next one may be short.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    waits: Option<(WaitKind, Instant)>,
    /// Whether the last wait of each kind was short, so that the next one may be short, too.
    is_soon: [bool; 2],
    awake: Arc<AwakeState>,
    staying: JoinHandle<()>,
}

/// The time until which the polling task stays awake, shared with that task.
#[derive(Debug)]
struct AwakeState {
    started: Instant,
    /// The time at which the polling ends, in nanoseconds since `started`.
    until: AtomicU64,
    asked: Notify,
}

impl BusyPoll {
    /// Starts the polling task. Must be called inside a tokio runtime.
    pub(crate) fn start() -> Self {
        let awake =
            Arc::new(AwakeState { started: Instant::now(), until: AtomicU64::new(0), asked: Notify::new() });
        let staying = tokio::spawn(stay(Arc::clone(&awake)));
        Self { waits: None, is_soon: [true, false], awake, staying }
    }

    /// Ends the present wait, and begins one of this kind.
    pub(crate) fn waits_for(&mut self, kind: WaitKind) {
        let now = Instant::now();
        match self.waits {
            // The event was no run, so the wait for a run continues.
            Some((WaitKind::Run, _)) if kind == WaitKind::Run => return,
            Some((before, since)) => self.is_soon[before as usize] = now.duration_since(since) < AWAKE_MAX,
            None => {}
        }
        self.waits = Some((kind, now));
        let until = if self.is_soon[kind as usize] { now + AWAKE_MAX } else { self.awake.started };
        self.awake.stay_until(until);
    }
}

impl Drop for BusyPoll {
    fn drop(&mut self) {
        self.staying.abort();
    }
}

impl AwakeState {
    fn stay_until(&self, until: Instant) {
        let nanos = until.duration_since(self.started).as_nanos();
        self.until.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
        if !self.is_over() {
            self.asked.notify_one();
        }
    }

    fn is_over(&self) -> bool {
        self.started.elapsed().as_nanos() >= u128::from(self.until.load(Ordering::Relaxed))
    }
}

/// The polling task. The runtime checks for input each time before it polls this task, and sleeps only if no task is
/// ready.
async fn stay(awake: Arc<AwakeState>) {
    loop {
        awake.asked.notified().await;
        while !awake.is_over() {
            // Other threads that want this processor go first.
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_awake(busy_poll: &BusyPoll) -> bool {
        !busy_poll.awake.is_over()
    }

    #[tokio::test]
    async fn waits_are_not_slept_through_as_long_as_what_is_waited_for_comes_soon() {
        // On a busy machine each line may take longer than that, and then the test tries again.
        let is_kept_awake = |waits: &[(WaitKind, Duration)], kind| {
            (0..1_000).any(|_| {
                let mut busy_poll = BusyPoll::start();
                for (before, time) in waits {
                    busy_poll.waits_for(*before);
                    busy_poll.waits = Some((*before, Instant::now().checked_sub(*time).unwrap()));
                }
                busy_poll.waits_for(kind);
                is_awake(&busy_poll)
            })
        };
        use WaitKind::{Answer, Run};
        let (soon, late) = (Duration::ZERO, AWAKE_MAX * 2);
        assert!(is_kept_awake(&[], Answer));
        assert!(!is_kept_awake(&[(Answer, late)], Answer));
        assert!(is_kept_awake(&[(Answer, late), (Answer, soon)], Answer));
        assert!(!is_kept_awake(&[(Answer, soon)], Run), "the next run mostly comes much later");
        assert!(is_kept_awake(&[(Run, soon), (Answer, late)], Run));
        assert!(!is_kept_awake(&[(Run, late), (Answer, soon)], Run));
        assert!(!is_kept_awake(&[(Run, soon)], Run), "what came was no run");
        assert!(is_kept_awake(&[(Answer, soon), (Run, late)], Answer), "which is another matter");
    }

    #[tokio::test]
    async fn others_of_the_same_thread_go_on_meanwhile_and_it_ends() {
        let mut busy_poll = BusyPoll::start();
        busy_poll.waits_for(WaitKind::Answer);
        tokio::time::sleep(AWAKE_MAX * 2).await;
        assert!(!is_awake(&busy_poll));
        assert!(!busy_poll.staying.is_finished(), "it waits for the next run");
    }
}
