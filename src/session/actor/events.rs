//! The events that the actor's loop waits for. An event whose source is absent never comes.

use belljar_protocol::{DroppedLine, FromSandbox};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::sandbox::Sandbox;
use super::{Current, PendingFiles};
use crate::broker::{Broker, HumanWaits};
use crate::session::sandbox::usage_watchdog::Watchdog;

pub(super) async fn cancelled(current: Option<&Current>) {
    match current {
        Some(current) => current.cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Returns whether the run waits for the human, each time that this changes.
pub(super) async fn waiting(waiting: Option<&mut watch::Receiver<HumanWaits>>) -> bool {
    if let Some(waiting) = waiting
        && waiting.changed().await.is_ok()
    {
        return waiting.borrow_and_update().is_waiting();
    }
    // There is no run, or it has ended, so this never returns.
    std::future::pending().await
}

/// Waits until the files are stored, and returns the problem with those that could not be.
pub(super) async fn answered(pending_files: Option<&mut PendingFiles>) -> Option<String> {
    match pending_files {
        Some(PendingFiles { kept, .. }) => {
            (&mut *kept).await.unwrap_or_else(|_| Some("what keeps them has broken".into()))
        }
        None => std::future::pending().await,
    }
}

/// The jobs that code wants to cancel.
pub(super) async fn to_cancel(broker: &Broker) -> Vec<u64> {
    broker.jobs().to_cancel().await
}

pub(super) async fn exceeded(watchdog: Option<&mut Watchdog>) -> String {
    match watchdog {
        Some(watchdog) => watchdog.exceeded().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

pub(super) async fn joined<T>(task: Option<&mut JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

pub(super) async fn next_frame(sandbox: Option<&mut Sandbox>) -> Option<Result<FromSandbox, DroppedLine>> {
    match sandbox {
        Some(sandbox) => sandbox.next().await,
        None => std::future::pending().await,
    }
}
