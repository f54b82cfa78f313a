//! The runs that wait: bounded, in order, and without those that nobody wants any more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A queue from many callers to one session.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Notify,
    max: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    asks: VecDeque<(CancellationToken, T)>,
    closed: bool,
}

/// Why an ask was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// So many wait already.
    Full(usize),
    /// Nobody will answer any more.
    Closed,
}

/// The session's end of the queue; without it the queue is closed.
#[derive(Debug)]
pub(super) struct Taker<T>(Arc<Queue<T>>);

/// A queue for so many asks.
pub(super) fn queue<T>(max: usize) -> (Arc<Queue<T>>, Taker<T>) {
    let waiting = Waiting { asks: VecDeque::new(), closed: false };
    let queue = Arc::new(Queue { waiting: Mutex::new(waiting), changed: Notify::new(), max });
    (Arc::clone(&queue), Taker(queue))
}

impl<T> Queue<T> {
    /// Puts an ask at the end. One that is cancelled gives its place up.
    pub(super) fn push(&self, cancel: CancellationToken, ask: T) -> Result<(), Refused> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(Refused::Closed);
        }
        waiting.asks.retain(|(cancel, _)| !cancel.is_cancelled());
        if waiting.asks.len() >= self.max {
            return Err(Refused::Full(self.max));
        }
        waiting.asks.push_back((cancel, ask));
        self.changed.notify_one();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Taker<T> {
    /// The first that is not cancelled; waits for it. Cancel-safe.
    pub(super) async fn next(&self) -> T {
        loop {
            let changed = self.0.changed.notified();
            while let Some((cancel, ask)) = self.pop() {
                if !cancel.is_cancelled() {
                    return ask;
                }
            }
            changed.await;
        }
    }

    fn pop(&self) -> Option<(CancellationToken, T)> {
        self.0.lock().asks.pop_front()
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        waiting.asks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancelled_ask_gives_its_place_up_and_is_never_taken() {
        let (queue, taker) = queue(2);
        let cancelled = CancellationToken::new();
        queue.push(cancelled.clone(), 1).unwrap();
        queue.push(CancellationToken::new(), 2).unwrap();
        assert_eq!(queue.push(CancellationToken::new(), 3), Err(Refused::Full(2)));
        cancelled.cancel();
        queue.push(CancellationToken::new(), 4).unwrap();
        assert_eq!((taker.next().await, taker.next().await), (2, 4));
        assert!(futures_util::poll!(std::pin::pin!(taker.next())).is_pending());
        queue.push(CancellationToken::new(), 5).unwrap();
        assert_eq!(taker.next().await, 5);
        drop(taker);
        assert_eq!(queue.push(CancellationToken::new(), 6), Err(Refused::Closed));
    }
}
