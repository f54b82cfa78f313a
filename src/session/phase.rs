//! The phases of a session, and the run that some of them carry.

use belljar_base::names::{RunId, ServerName};
use belljar_base::run::{FreshReason, RunOutcome, RunReport, RunRequest};
use tokio::time::Instant;

use super::ending::Notes;
use super::output::OutputBuffer;

/// The reason for which a run is ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    TimedOut,
    Cancelled,
    /// The run exceeds a limit that the bridge watches. `Machine::exceeded` names the limit.
    OverLimit,
}

#[derive(Debug)]
pub(super) enum Phase {
    Absent,
    Starting {
        run: Option<Box<Run>>,
    },
    Idle,
    /// `replace` was sent for a reset. The run waits for the fresh worker.
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
    /// `replace` was sent because the interrupt did not end the run or because the run exceeds a limit.
    Replacing {
        run: Box<Run>,
        cause: Cause,
        until: Instant,
    },
    /// The interpreter is gone. The run's report waits for the worker that replaces it.
    Recovering {
        run: Box<Run>,
        outcome: RunOutcome,
        until: Instant,
    },
    /// `keep` was sent. The report of a run that has ended waits until its files are stored. Without a report, the
    /// sandbox is stopped after that.
    StoringFiles {
        report: Option<Box<RunReport>>,
        /// Whether the worker has ended meanwhile, so that another one is awaited.
        is_worker_gone: bool,
        until: Instant,
    },
    /// A snapshot of the workspace is being taken or restored.
    Snapshot {
        until: Instant,
    },
    /// `replace` was sent with a checkpoint. A report or a run waits for the worker.
    RollingBack {
        rollback: Box<CheckpointRollback>,
        until: Instant,
    },
    /// There is no run, and no worker yet.
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

/// An unfinished return of the variables to a checkpoint.
#[derive(Debug)]
pub(super) struct CheckpointRollback {
    pub(super) name: String,
    pub(super) then: AfterRollback,
    pub(super) is_worker_gone: bool,
    /// Whether this is the second attempt, which is the last one. The first has failed because the worker died by
    /// itself.
    pub(super) is_second: bool,
}

/// The step that follows a rollback.
#[derive(Debug)]
pub(super) enum AfterRollback {
    /// Give the report of the run that goes back, after its files were stored if the flag says so.
    Report(Box<RunReport>, bool),
    /// Begin this run.
    Begin(Box<Run>),
}

impl Phase {
    /// When the machine has to act if nothing happens; `idle_until` is that time for an idle machine.
    pub(super) fn deadline(&self, idle_until: Option<Instant>) -> Option<Instant> {
        match self {
            Phase::Absent | Phase::Starting { .. } => None,
            Phase::Idle => idle_until,
            Phase::Resetting { until, .. }
            | Phase::Running { until, .. }
            | Phase::Interrupting { until, .. }
            | Phase::Replacing { until, .. }
            | Phase::Recovering { until, .. }
            | Phase::StoringFiles { until, .. }
            | Phase::RollingBack { until, .. }
            | Phase::Snapshot { until }
            | Phase::AwaitingWorker { until } => Some(*until),
        }
    }

    /// The run whose code is executed, or is being ended.
    pub(super) fn current(&mut self) -> Option<&mut Run> {
        match self {
            Phase::Running { run, .. } | Phase::Interrupting { run, .. } | Phase::Replacing { run, .. } => {
                Some(run)
            }
            _ => None,
        }
    }
}
