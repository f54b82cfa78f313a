//! Where the session stands: its phases, and the run that some of them carry.

use tokio::time::Instant;

use super::notes::Notes;
use super::output::OutputBuffer;
use crate::names::{RunId, ServerName};
use crate::run::{FreshReason, RunOutcome, RunReport, RunRequest};

/// Why a run is being ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    TimedOut,
    Cancelled,
    /// Of a limit that the bridge watches; `Machine::exceeded` says which.
    OverLimit,
}

#[derive(Debug)]
pub(super) enum Phase {
    Absent,
    Starting {
        run: Option<Box<Run>>,
    },
    Idle,
    /// `replace` was sent for a reset; the run waits for the fresh worker.
    Resetting {
        run: Box<Run>,
        until: Instant,
    },
    Running {
        run: Box<Run>,
        until: Instant,
    },
    Interrupting {
        run: Box<Run>,
        cause: Cause,
        until: Instant,
    },
    /// `replace` was sent because the interrupt did not help.
    Replacing {
        run: Box<Run>,
        cause: Cause,
        until: Instant,
    },
    /// The interpreter is gone; the run's report waits for what takes its place.
    Recovering {
        run: Box<Run>,
        outcome: RunOutcome,
        until: Instant,
    },
    /// `keep` was sent; the report of the run, which has ended, waits for its files to be kept. Without a report the
    /// sandbox is stopped then.
    Keeping {
        report: Option<Box<RunReport>>,
        /// The worker has ended meanwhile, and another one is awaited.
        is_worker_gone: bool,
        until: Instant,
    },
    /// A snapshot of the workspace is being taken or restored.
    Snapshot {
        until: Instant,
    },
    /// `replace` was sent with a checkpoint; a report or a run waits for it.
    GoingBack {
        going: Box<GoingBack>,
        until: Instant,
    },
    /// No run, and no worker yet.
    AwaitingWorker {
        until: Instant,
    },
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) request: RunRequest,
    pub(super) servers: Vec<ServerName>,
    pub(super) output: OutputBuffer,
    pub(super) fresh: Option<FreshReason>,
    pub(super) notes: Notes,
}

/// Under way to a checkpoint.
#[derive(Debug)]
pub(super) struct GoingBack {
    pub(super) name: String,
    pub(super) then: Then,
    pub(super) is_worker_gone: bool,
    /// The worker that died by itself before it could be replaced counts: so it is asked for twice, and no more.
    pub(super) is_second: bool,
}

/// What waits for it.
#[derive(Debug)]
pub(super) enum Then {
    /// The report of the run that goes back, and whether files are to be stored before it is given.
    Report(Box<RunReport>, bool),
    /// A run that is to begin there.
    Begin(Box<Run>),
}

impl Phase {
    /// When the machine has to act if nothing happens; an idle one is given the time.
    pub(super) fn deadline(&self, idle_until: Option<Instant>) -> Option<Instant> {
        match self {
            Phase::Absent | Phase::Starting { .. } => None,
            Phase::Idle => idle_until,
            Phase::Resetting { until, .. }
            | Phase::Running { until, .. }
            | Phase::Interrupting { until, .. }
            | Phase::Replacing { until, .. }
            | Phase::Recovering { until, .. }
            | Phase::Keeping { until, .. }
            | Phase::GoingBack { until, .. }
            | Phase::Snapshot { until }
            | Phase::AwaitingWorker { until } => Some(*until),
        }
    }

    /// The run whose code is executing, or being ended.
    pub(super) fn current(&mut self) -> Option<&mut Run> {
        match self {
            Phase::Running { run, .. } | Phase::Interrupting { run, .. } | Phase::Replacing { run, .. } => {
                Some(run)
            }
            _ => None,
        }
    }
}
