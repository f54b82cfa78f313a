//! Stays awake for a moment while a run is under way: to fall asleep and be woken takes longer than most answers do.
//!
//! On a machine with two processors it takes a third off a warm run and off a call (`make bench`). It costs at most
//! [`AWAKE_MAX`] of one processor for each wait, and none where the wait before it took longer than that: so none between
//! two runs, unless a program sends one right behind the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Longest wait that is not slept through: a warm run, and a call, take less than that.
const AWAKE_MAX: Duration = Duration::from_micros(500);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Awaited {
    /// Something of the run under way.
    Answer,
    /// The next run.
    Run,
}

/// When to stay awake, for the one who waits.
#[derive(Debug)]
pub(in crate::session) struct Attention {
    waits: Option<(Awaited, Instant)>,
    /// For what the last wait was over before it would have been given up: so may be the next.
    is_soon: [bool; 2],
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
    pub(in crate::session) fn start() -> Self {
        let awake =
            Arc::new(Awake { started: Instant::now(), until: AtomicU64::new(0), asked: Notify::new() });
        let staying = tokio::spawn(stay(Arc::clone(&awake)));
        Self { waits: None, is_soon: [true, false], awake, staying }
    }

    /// Something has come, and this is what is waited for now.
    pub(in crate::session) fn waits_for(&mut self, awaited: Awaited) {
        let now = Instant::now();
        match self.waits {
            // What has come meanwhile was no run.
            Some((Awaited::Run, _)) if awaited == Awaited::Run => return,
            Some((before, since)) => self.is_soon[before as usize] = now.duration_since(since) < AWAKE_MAX,
            None => {}
        }
        self.waits = Some((awaited, now));
        let until = if self.is_soon[awaited as usize] { now + AWAKE_MAX } else { self.awake.started };
        self.awake.stay_until(until);
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
        if !self.is_over() {
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
    async fn waits_are_not_slept_through_as_long_as_what_is_waited_for_comes_soon() {
        // On a machine that is busy each line may take longer than that: then it is all tried again.
        let is_kept_awake = |waits: &[(Awaited, Duration)], awaited| {
            (0..1_000).any(|_| {
                let mut attention = Attention::start();
                for (before, time) in waits {
                    attention.waits_for(*before);
                    attention.waits = Some((*before, Instant::now().checked_sub(*time).unwrap()));
                }
                attention.waits_for(awaited);
                is_awake(&attention)
            })
        };
        use Awaited::{Answer, Run};
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
        let mut attention = Attention::start();
        attention.waits_for(Awaited::Answer);
        tokio::time::sleep(AWAKE_MAX * 2).await;
        assert!(!is_awake(&attention));
        assert!(!attention.staying.is_finished(), "it waits for the next run");
    }
}
