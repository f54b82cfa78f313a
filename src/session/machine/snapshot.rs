//! How the machine takes and restores a snapshot of the workspace, between runs.

use belljar_protocol::ToSupervisor;
use tokio::time::Instant;

use super::{Effect, Machine};
use crate::session::phase::Phase;
use crate::session::request::Snapshot;

impl Machine {
    /// Takes a request for a snapshot. May be called only while [`Self::takes_runs`]. [`Effect::SnapshotDone`] answers
    /// it once, unless the session ends.
    pub(crate) fn ask_snapshot(&mut self, snapshot: Snapshot, now: Instant) -> Vec<Effect> {
        self.snapshot = Some(snapshot);
        if matches!(self.phase, Phase::Idle) {
            return self.send_snapshot(now);
        }
        self.prewarm()
    }

    /// Sends the requested snapshot, if there is one, to the idle sandbox.
    pub(super) fn send_snapshot(&mut self, now: Instant) -> Vec<Effect> {
        let Some(snapshot) = self.snapshot.take() else { return vec![] };
        self.phase = Phase::Snapshot { until: now + self.limits.keep_files };
        match snapshot {
            Snapshot::Take => vec![Effect::Send(ToSupervisor::TakeSnapshot)],
            Snapshot::Restore { forget } => {
                let forgotten = forget.into_iter().map(|name| Effect::Send(ToSupervisor::Forget { name }));
                forgotten.chain([Effect::Send(ToSupervisor::RestoreSnapshot)]).collect()
            }
        }
    }

    /// Handles the sandbox's answer.
    pub(super) fn snapshot_done(&mut self, failed: Option<String>, now: Instant) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Snapshot { .. }) {
            return vec![];
        }
        self.idle(now);
        vec![Effect::SnapshotDone(Ok(failed.map_or(Ok(()), Err)))]
    }

    /// The answer to a snapshot whose sandbox or interpreter has ended; `None` if `phase` is not a snapshot.
    pub(super) fn no_snapshot(phase: &Phase, why: &str) -> Option<Effect> {
        matches!(phase, Phase::Snapshot { .. }).then(|| Effect::SnapshotDone(Ok(Err(why.to_owned()))))
    }
}

#[cfg(test)]
mod tests {
    use belljar_base::run::{FaultCode, FreshReason, StateNote, ToolFault};
    use belljar_protocol::{DoneOutcome, FromSupervisor};

    use super::*;
    use crate::session::machine::tests::Bench;

    #[test]
    fn a_snapshot_starts_the_sandbox_and_the_first_run_is_still_the_first() {
        let mut bench = Bench::new();
        bench.snapshot(Snapshot::Take);
        assert!(!bench.machine.takes_runs());
        bench.up();
        assert_eq!(bench.effects(), ["start sandbox", "take snapshot"]);
        bench.supervisor(FromSupervisor::SnapshotDone { failed: None });
        assert_eq!(bench.snapshots, [Ok(Ok(()))]);
        bench.ask(false);
        bench.done(DoneOutcome::Finished);
        assert_eq!(bench.report().state, StateNote::Fresh(FreshReason::First));
    }

    #[test]
    fn checkpoints_are_forgotten_before_a_snapshot_is_restored() {
        let mut bench = Bench::used();
        bench.snapshot(Snapshot::Restore { forget: vec!["a".into()] });
        assert_eq!(bench.effects(), ["send", "restore snapshot"]);
        bench.supervisor(FromSupervisor::SnapshotDone { failed: Some("no space".into()) });
        assert_eq!(bench.snapshots, [Ok(Err("no space".into()))]);
        assert!(bench.machine.takes_runs());
    }

    #[test]
    fn a_snapshot_is_answered_when_its_sandbox_fails() {
        let mut bench = Bench::new();
        bench.snapshot(Snapshot::Take);
        let fault = ToolFault::new(FaultCode::SandboxUnavailable, "no engine");
        let effects = bench.machine.sandbox_failed(fault.clone());
        bench.take(effects);
        assert_eq!(bench.snapshots, [Err(fault)]);

        let mut bench = Bench::used();
        bench.snapshot(Snapshot::Take);
        bench.wait();
        assert_eq!(bench.snapshots, [Ok(Err("the sandbox did not answer in time".into()))]);
        assert_eq!(bench.effects(), ["take snapshot", "close sandbox"]);

        let mut bench = Bench::used();
        bench.snapshot(Snapshot::Take);
        bench.exited(Some(9), false, false);
        assert_eq!(bench.snapshots, [Ok(Err("the interpreter ended".into()))]);
        bench.supervisor(FromSupervisor::SnapshotDone { failed: Some("its process was killed".into()) });
        bench.restored(None);
        assert_eq!(bench.snapshots.len(), 1);
        assert!(bench.machine.takes_runs());
    }
}
