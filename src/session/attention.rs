//! Stays awake for a moment while a run is under way: to fall asleep and be woken takes longer than most answers do.
//!
//! On a machine with two processors it takes a third off a warm run and off a call (`make bench`). It costs at most
//! [`AWAKE_MAX`] of one processor for each wait, none where answers take longer than that, and none between two runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Longest wait that is not slept through: a warm run, and a call, take less than that.
const AWAKE_MAX: Duration = Duration::from_micros(500);

/// When to stay awake, for the one who waits.
#[derive(Debug)]
pub(super) struct Attention {
    waits_since: Option<Instant>,
    /// The last wait was over before it would have been given up: so may be the next.
    is_worth_it: bool,
    awake: Arc<Awake>,
    staying: JoinHandle<()>,
}

#[derive(Debug)]
struct Awake {
    started: Instant,
    /// In nanoseconds since the start.
    until: AtomicU64,
    asked: Notify,
}

impl Attention {
    /// Must be called inside a tokio runtime.
    pub(super) fn start() -> Self {
        let awake =
            Arc::new(Awake { started: Instant::now(), until: AtomicU64::new(0), asked: Notify::new() });
        let staying = tokio::spawn(stay(Arc::clone(&awake)));
        Self { waits_since: None, is_worth_it: true, awake, staying }
    }

    /// Something of a run is expected from now on.
    pub(super) fn waits(&mut self) {
        let now = Instant::now();
        self.waits_since = Some(now);
        if self.is_worth_it {
            self.awake.stay_until(now + AWAKE_MAX);
        }
    }

    /// Something has come.
    pub(super) fn heard(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.is_worth_it = since.elapsed() < AWAKE_MAX;
        }
    }

    /// Nothing of a run is expected.
    pub(super) fn rests(&self) {
        self.awake.stay_until(self.awake.started);
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        self.staying.abort();
    }
}

impl Awake {
    fn stay_until(&self, until: Instant) {
        let nanos = until.duration_since(self.started).as_nanos();
        self.until.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
        if nanos > 0 {
            self.asked.notify_one();
        }
    }

    fn is_over(&self) -> bool {
        self.started.elapsed().as_nanos() >= u128::from(self.until.load(Ordering::Relaxed))
    }
}

/// The runtime looks for input each time that this is about to be polled again, and sleeps only when nothing is.
async fn stay(awake: Arc<Awake>) {
    loop {
        awake.asked.notified().await;
        while !awake.is_over() {
            // Whoever else wants this processor goes first.
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_awake(attention: &Attention) -> bool {
        !attention.awake.is_over()
    }

    #[tokio::test]
    async fn waits_are_not_slept_through_as_long_as_answers_come_soon() {
        let mut attention = Attention::start();
        assert!(!is_awake(&attention), "no run is under way");
        attention.waits();
        // A machine that is busy may have taken that long by now.
        let was_awake = is_awake(&attention);
        assert!(was_awake || attention.waits_since.unwrap().elapsed() >= AWAKE_MAX);
        attention.rests();
        assert!(!is_awake(&attention));
        // An answer that took longer: the next wait is slept through, and what it takes tells of the one after it.
        attention.waits_since = Instant::now().checked_sub(AWAKE_MAX);
        attention.heard();
        attention.waits();
        assert!(!is_awake(&attention));
        attention.waits_since = Some(Instant::now() + AWAKE_MAX);
        attention.heard();
        assert!(attention.is_worth_it);
    }

    #[tokio::test]
    async fn others_of_the_same_thread_go_on_meanwhile_and_it_ends() {
        let mut attention = Attention::start();
        attention.waits();
        tokio::time::sleep(AWAKE_MAX * 2).await;
        assert!(!is_awake(&attention));
        assert!(!attention.staying.is_finished(), "it waits for the next run");
    }
}
