//! Ends a call that takes longer than its run has left, or than the server's entry allows.

use std::pin::Pin;
use std::time::Duration;

use belljar_base::names::ServerName;

use crate::CallBounds;
use crate::error::UpstreamError;

/// The time of the caller, which may be paused.
pub trait Clock {
    /// Returns when no time is left.
    fn over(&self) -> impl Future<Output = ()> + Send;
    /// The time that is left.
    fn left(&self) -> Duration;
    /// Returns when this much time has passed from now on.
    fn passed(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// The time of one call, over all of its rounds.
pub(super) struct CallTimeout<'c, C> {
    clock: &'c C,
    /// The time that the entry allows. It begins in the first round, when the call has its permit.
    of_entry: Option<Pin<Box<dyn Future<Output = ()> + Send + 'c>>>,
}

impl<'c, C: Clock> CallTimeout<'c, C> {
    pub(super) fn new(clock: &'c C) -> Self {
        Self { clock, of_entry: None }
    }

    /// Whether a wait of this length ends before the call has to.
    pub(super) fn has(&self, time: Duration, bounds: &CallBounds) -> bool {
        time < self.clock.left() && bounds.time.is_none_or(|of_entry| time < of_entry)
    }

    /// Returns the error when the run has no time left, whatever time the entry allows.
    pub(super) async fn of_run(&mut self, server: &ServerName) -> UpstreamError {
        self.clock.over().await;
        UpstreamError::Deadline { server: server.clone() }
    }

    /// Returns the error when the run has no time left, or when the call has taken all the time that the entry allows.
    pub(super) async fn of_call(&mut self, server: &ServerName, bounds: &CallBounds) -> UpstreamError {
        let Some(time) = bounds.time else { return self.of_run(server).await };
        let clock = self.clock;
        let passed = self.of_entry.get_or_insert_with(|| Box::pin(clock.passed(time)));
        tokio::select! {
            () = clock.over() => UpstreamError::Deadline { server: server.clone() },
            () = passed => UpstreamError::CallTime { server: server.clone(), time, set_in: bounds.set_in.clone() },
        }
    }
}
