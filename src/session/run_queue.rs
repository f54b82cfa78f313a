//! One run after the other, with all that goes with it: what it begins with, and where it goes back to. Those that wait are
//! bounded, in order, and can be cancelled.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::run::{FaultCode, ToolFault};

/// The turns of a session.
pub(super) struct Turns {
    turn: Mutex<()>,
    waiting: AtomicUsize,
    max: usize,
    closing: CancellationToken,
}

/// A place among those that wait.
struct Place<'t>(&'t AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Turns {
    /// So many may wait, until the session closes.
    pub(super) fn new(max: usize, closing: CancellationToken) -> Self {
        Self { turn: Mutex::default(), waiting: AtomicUsize::new(0), max, closing }
    }

    /// The turn, behind those that were asked for before; as long as it is held no other run begins.
    ///
    /// # Errors
    /// Too many wait already, it was cancelled meanwhile, or the session has ended.
    pub(super) async fn next(&self, cancel: &CancellationToken) -> Result<MutexGuard<'_, ()>, ToolFault> {
        if let Ok(turn) = self.turn.try_lock() {
            return Ok(turn);
        }
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _place = Place(&self.waiting);
        if before >= self.max {
            let said = format!("{} runs are waiting already", self.max);
            return Err(ToolFault::new(FaultCode::Busy, said).hint("wait for one of them"));
        }
        tokio::select! {
            turn = self.turn.lock() => Ok(turn),
            () = cancel.cancelled() => Err(before_it_started()),
            () = self.closing.cancelled() => Err(closed()),
        }
    }
}

pub(super) fn before_it_started() -> ToolFault {
    ToolFault::new(FaultCode::Cancelled, "the run was cancelled before it started")
}

pub(super) fn closed() -> ToolFault {
    ToolFault::new(FaultCode::Internal, "the session has ended")
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn those_that_wait_are_bounded_come_in_order_and_give_their_place_up_when_they_are_cancelled() {
        let turns = Turns::new(2, CancellationToken::new());
        let [never, cancelled] = [(); 2].map(|()| CancellationToken::new());
        let first = turns.next(&never).await.unwrap();
        let mut second = Box::pin(turns.next(&cancelled));
        let mut third = Box::pin(turns.next(&never));
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        assert_eq!(turns.next(&never).await.unwrap_err().message, "2 runs are waiting already");
        cancelled.cancel();
        assert_eq!(second.await.unwrap_err().code, FaultCode::Cancelled);
        let mut fourth = Box::pin(turns.next(&never));
        assert!(poll!(&mut fourth).is_pending());
        drop(first);
        let third = third.await.unwrap();
        assert!(poll!(&mut fourth).is_pending());
        drop(third);
        drop(fourth.await.unwrap());
    }

    #[tokio::test]
    async fn who_waits_when_the_session_ends_is_told() {
        let closing = CancellationToken::new();
        let turns = Turns::new(2, closing.clone());
        let never = CancellationToken::new();
        let _first = turns.next(&never).await.unwrap();
        closing.cancel();
        assert_eq!(turns.next(&never).await.unwrap_err().message, "the session has ended");
    }
}
