//! The context of a run, or of a job that a run has started. Everything that acts for the run gets it.
//!
//! Each run has its own, so that simultaneous runs cannot be confused.

use std::sync::Arc;

use belljar_base::names::{RunId, SessionId};
use belljar_base::run::{DryRunReason, Progress, ServerScope};
use belljar_base::text;
use belljar_tools::policy;
use belljar_tools::policy::PolicyCall;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::record::RunRecord;
use crate::broker::human::Human;
use crate::broker::record::replay::Replay;
use crate::models;

/// Longest name of a call in a note, in characters.
const NAME_CHARS_MAX: usize = 200;
/// The largest number of names that a run and its jobs have compared with unknown ones. It takes milliseconds for a thousand.
const COMPARED_MAX: usize = 4_000;

/// The specification of a run that is to begin.
pub struct RunSpec {
    /// The number of the run.
    pub id: RunId,
    /// The origin of the run.
    pub origin: Origin,
    /// The servers that it may reach.
    pub servers: ServerScope,
    /// Whether its calls are sent.
    pub mode: ExecutionMode,
    /// The human who answers questions.
    pub human: Human,
    /// Receives its progress. If the channel is full, progress is dropped.
    pub progress: mpsc::Sender<Progress>,
}

/// A run, or a job of one.
pub struct RunContext {
    /// The session of the run.
    pub session: SessionId,
    /// The run's number in the session.
    pub id: RunId,
    /// The origin of the run.
    pub origin: Origin,
    /// The servers that it may reach, fixed when it begins.
    pub servers: ServerScope,
    /// Whether its calls are sent.
    pub mode: ExecutionMode,
    /// The human who answers questions of the policy and of servers.
    pub human: Human,
    /// Receives its progress. If the channel is full, progress is dropped.
    pub progress: mpsc::Sender<Progress>,
    /// Cancels all its calls.
    pub cancel: CancellationToken,
    /// The time of its beginning.
    pub began: Instant,
    /// The use of the run's budgets, which its jobs share.
    budget: Arc<Mutex<Budget>>,
    /// `None` after the run has ended.
    record: Mutex<Option<RunRecord>>,
}

/// The origin of a run.
#[derive(Clone, Default)]
pub enum Origin {
    /// A client's request.
    #[default]
    Client,
    /// A run that belljar makes by itself. The journal marks it as aside, so that it is left out when the journal is
    /// read.
    Own,
    /// A replay of a recorded run.
    Replay {
        /// The source of the answers to its calls.
        replay: Arc<Replay>,
        /// Whether it only restores a lost checkpoint, so that the journal marks it as aside.
        is_aside: bool,
    },
    /// A job that continues beside later runs.
    Job {
        /// The number of the job.
        job: u64,
        /// The run that started it.
        parent: Arc<RunContext>,
    },
}

/// The mode of a run, which decides whether its calls are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionMode {
    /// Calls are sent.
    Execute,
    /// Only calls of read-only tools are sent; the others are listed.
    DryRun,
}

/// How much of its budgets a run and its jobs have used.
#[derive(Default)]
pub(crate) struct Budget {
    pub(crate) policy: policy::RunBudget,
    pub(crate) models: models::RunBudget,
    /// The number of names that unknown ones were compared with.
    compared: usize,
}

impl Budget {
    /// With how many of these names another unknown one is compared to find what may have been meant.
    pub(crate) fn compare(&mut self, names: usize) -> usize {
        let count = names.min(COMPARED_MAX - self.compared);
        self.compared += count;
        count
    }
}

impl RunContext {
    pub(crate) fn new(session: SessionId, spec: RunSpec) -> Self {
        let RunSpec { id, origin, servers, mode, human, progress } = spec;
        let (cancel, began) = (CancellationToken::new(), Instant::now());
        let (budget, record) = (Arc::default(), Mutex::new(Some(RunRecord::default())));
        Self { session, id, origin, servers, mode, human, progress, cancel, began, budget, record }
    }

    /// The context of a job of this run. It shares the run's budgets, and may reach these servers.
    #[must_use]
    pub fn job(self: &Arc<Self>, job: u64, servers: ServerScope) -> Self {
        let spec = RunSpec {
            id: self.id,
            origin: Origin::Job { job, parent: Arc::clone(self) },
            servers,
            mode: self.mode,
            human: self.human.of_job(),
            // The progress of a job has no receiver.
            progress: mpsc::channel(1).0,
        };
        Self { budget: Arc::clone(&self.budget), ..Self::new(self.session.clone(), spec) }
    }

    /// The job's number, if it is one.
    #[must_use]
    pub fn job_number(&self) -> Option<u64> {
        match &self.origin {
            Origin::Job { job, .. } => Some(*job),
            Origin::Client | Origin::Own | Origin::Replay { .. } => None,
        }
    }

    pub(crate) fn replay(&self) -> Option<&Replay> {
        match &self.origin {
            Origin::Replay { replay, .. } => Some(replay),
            Origin::Client | Origin::Own | Origin::Job { .. } => None,
        }
    }

    /// Whether the journal marks the run as aside.
    pub(crate) fn is_aside(&self) -> bool {
        matches!(&self.origin, Origin::Own | Origin::Replay { is_aside: true, .. })
    }

    pub(crate) fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock()
    }

    /// Adds a sentence for the reader of the report. A job's sentence goes into the report of its run, or after that
    /// into the report of the job's end.
    pub(crate) fn note(&self, note: String) {
        self.reported(|record| record.note(self.named(note)));
    }

    /// Adds a sentence about the code. A few of these are shown, so that they do not crowd out the others.
    pub(crate) fn remark(&self, remark: String) {
        self.reported(|record| record.remark(self.named(remark)));
    }

    /// Notes that a rule let a call pass and wants the user to know of it.
    pub(crate) fn warn(&self, tool: &str, because: &str) {
        self.reported(|record| record.warn(self.named(tool.to_owned()), because));
    }

    fn named(&self, note: String) -> String {
        match &self.origin {
            Origin::Job { job, .. } => format!("job {job}: {note}"),
            _ => note,
        }
    }

    /// Lists a call as planned instead of making it. A call of a job whose run has ended becomes a note.
    pub(crate) fn plan(
        &self,
        called: &PolicyCall<'_>,
        why: (bool, DryRunReason),
        redacted: &dyn Fn(String) -> String,
    ) {
        let (run, job) = (self.run(), self.job_number());
        if run.with_record(|record| record.plan(called, job, why, redacted)).is_none() {
            let name = format!("{}.{}", called.server.name, called.tool.name);
            let name = text::inert_excerpt(&name, NAME_CHARS_MAX);
            self.remark(format!("{name} was planned and not called: its run was a dry run"));
        }
    }

    /// Reports progress. If the channel is full, the progress is dropped.
    pub fn tell(&self, progress: Progress) {
        if self.progress.try_send(progress).is_err() {
            tracing::trace!("progress that nobody has read yet is left out");
        }
    }

    /// Changes the record; `None` after the end of the run.
    pub(crate) fn with_record<T>(&self, change: impl FnOnce(&mut RunRecord) -> T) -> Option<T> {
        self.record.lock().as_mut().map(change)
    }

    /// Takes the record. From then on, nothing can be added to it.
    pub(crate) fn end(&self) -> RunRecord {
        let mut record = self.record.lock().take().unwrap_or_default();
        record.add_warnings();
        record
    }

    /// Changes the record that is reported next: that of the run, or after its end that of the job.
    fn reported(&self, change: impl FnOnce(&mut RunRecord)) {
        let mut change = Some(change);
        for context in [self.run(), self] {
            context.with_record(|record| change.take().map(|change| change(record)));
        }
    }

    fn run(&self) -> &Self {
        match &self.origin {
            Origin::Job { parent, .. } => parent,
            Origin::Client | Origin::Own | Origin::Replay { .. } => self,
        }
    }
}

#[cfg(test)]
impl RunContext {
    /// A run of this human, for tests.
    pub(crate) fn of(id: u64, human: &Human) -> Arc<Self> {
        Self::of_session("a", id, human)
    }

    /// A run of this session, for tests.
    pub(crate) fn of_session(session: &str, id: u64, human: &Human) -> Arc<Self> {
        let spec = RunSpec {
            id: RunId(id),
            origin: Origin::Client,
            servers: ServerScope::All,
            mode: ExecutionMode::Execute,
            human: human.clone(),
            progress: mpsc::channel(1).0,
        };
        Arc::new(Self::new(SessionId::new(session), spec))
    }
}

#[cfg(test)]
mod tests {
    use belljar_base::run::ClientAbilities;
    use belljar_tools::policy::{CallArguments, Names};
    use serde_json::Map;

    use super::*;

    fn run() -> Arc<RunContext> {
        RunContext::of(1, &Human::new(mpsc::channel(1).0, ClientAbilities::default()))
    }

    fn plan(context: &RunContext) {
        let none = Map::new();
        let called = PolicyCall {
            server: Names::only("s"),
            tool: Names::only("t"),
            annotations: &none,
            arguments: &CallArguments::default(),
        };
        context.plan(&called, (false, DryRunReason::NotMarkedReadOnly), &|text| text);
    }

    #[test]
    fn remarks_do_not_crowd_out_notes() {
        let run = run();
        (0..100).for_each(|number| run.remark(format!("remark {number}")));
        (0..100).for_each(|number| run.note(format!("note {}", number / 2)));
        let notes = run.end().notes;
        let of = |start: &str| notes.iter().filter(|note| note.starts_with(start)).count();
        assert_eq!((of("remark"), of("note")), (10, 39));
        assert_eq!(notes[10], "further remarks on the code of this run are left out");
        assert_eq!(notes[50..], ["further notes of this run are left out"]);
    }

    #[test]
    fn warnings_of_a_rule_are_one_note_and_crowd_out_no_other() {
        let run = run();
        (0..55).for_each(|number| run.warn(&format!("w.t{number}"), "rule 1"));
        run.warn("w.t0", "rule 1");
        run.job(3, ServerScope::All).warn("w.a", "rule 2");
        run.note("labels".into());
        let notes = run.end().notes;
        let of_rules = ["w.t0, w.t1 and 53 others were called: rule 1", "job 3: w.a was called: rule 2"];
        assert_eq!(notes[..2], of_rules);
        assert_eq!(notes[2..], ["labels"]);
        run.warn("w.late", "rule 1");
    }

    #[test]
    fn a_job_reports_with_its_run_and_then_by_itself() {
        let (first, next) = (run(), run());
        let job = first.job(3, ServerScope::All);
        for said in ["a", "a", "b"] {
            job.note(said.into());
        }
        plan(&job);
        plan(&first);
        let record = first.end();
        assert_eq!(record.notes, ["job 3: a", "job 3: b"]);
        let planned: Vec<_> = record.calls.planned.calls.iter().map(|call| call.job).collect();
        assert_eq!(planned, [Some(3), None]);
        plan(&job);
        let said = "job 3: s.t was planned and not called: its run was a dry run";
        assert_eq!((next.end().notes, job.end().notes), (vec![], vec![said.to_owned()]));
    }

    #[test]
    fn unknown_names_are_compared_with_a_bounded_number_of_others_in_a_run_and_its_jobs() {
        let run = run();
        let job = run.job(3, ServerScope::All);
        let of = |context: &RunContext| context.budget().compare(3_000);
        assert_eq!([of(&run), of(&job), of(&run)], [3_000, 1_000, 0]);
    }

    #[test]
    fn a_job_shares_the_budgets_of_its_run_only() {
        let (first, next) = (run(), run());
        let job = first.job(3, ServerScope::All);
        job.budget().policy.count_question();
        let counted = [&first, &next].map(|run| run.budget().policy.count_question());
        assert_eq!(counted, [2, 1]);
    }
}
