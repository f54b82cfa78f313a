//! The machine's behaviour: each phase with each event that matters, then any events in any order.

use belljar_base::run::{FaultCode, Output, OutputStream, PythonError, Reset, ServerScope};
use belljar_protocol::{DoneFrame, DoneOutcome, FromSandbox, FromSupervisor, FromWorker};
use proptest::prelude::*;

use super::*;
use crate::session::ending;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A machine with the actor's bookkeeping: which run was taken, and which effects came back.
pub(super) struct Bench {
    pub(super) machine: Machine,
    pub(super) now: Instant,
    pub(super) asked: Option<RunId>,
    pub(super) reports: Vec<(RunId, RunReport)>,
    pub(super) effects: Vec<&'static str>,
    pub(super) snapshots: Vec<SnapshotEnd>,
    /// Whether files are stored as soon as the machine asks for it, without an effect to check.
    pub(super) keeps_at_once: bool,
    pub(super) dry_run: bool,
}

impl Bench {
    pub(super) fn new() -> Self {
        let mut machine = Machine::new(Arc::new(Limits::default()), Arc::default());
        machine.stop_idle_after(Some(Duration::from_secs(300)));
        Self {
            machine,
            now: Instant::now(),
            asked: None,
            reports: vec![],
            effects: vec![],
            snapshots: vec![],
            keeps_at_once: true,
            dry_run: false,
        }
    }

    /// A bench with a running sandbox that has had one run.
    pub(super) fn used() -> Self {
        let mut bench = Self::new();
        bench.ask(false);
        bench.up();
        bench.done(DoneOutcome::Finished);
        bench.reports.clear();
        bench.effects.clear();
        bench
    }

    pub(super) fn running() -> Self {
        let mut bench = Self::used();
        bench.ask(false);
        bench
    }

    pub(super) fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if self.keeps_at_once && matches!(effect, Effect::Send(ToSupervisor::Keep { .. })) {
                self.kept(None, &[], 0);
                continue;
            }
            self.effects.push(match effect {
                Effect::EndJobs { .. } => "end jobs",
                Effect::StartSandbox => "start sandbox",
                Effect::Send(ToSupervisor::Interrupt) => "interrupt",
                Effect::Send(ToSupervisor::Replace { .. }) => "replace",
                Effect::Send(ToSupervisor::Keep { everything: false, .. }) => "keep",
                Effect::Send(ToSupervisor::Keep { everything: true, .. }) => "keep everything",
                Effect::Send(ToSupervisor::TakeSnapshot) => "take snapshot",
                Effect::Send(ToSupervisor::RestoreSnapshot) => "restore snapshot",
                Effect::Send(_) => "send",
                Effect::SendRun { .. } => "send run",
                Effect::StartCall { .. } => "start call",
                Effect::Refuse { .. } => "refuse",
                Effect::Answer { .. } => "answer",
                Effect::CancelCall(_) => "cancel call",
                Effect::EndCalls => "end calls",
                Effect::CloseSandbox => "close sandbox",
                Effect::SnapshotDone(end) => {
                    self.snapshots.push(end);
                    continue;
                }
                Effect::Finish(report) => {
                    let id = self.asked.take().expect("a run that was asked for");
                    self.reports.push((id, *report));
                    "finish"
                }
            });
        }
    }

    pub(super) fn ask(&mut self, reset: bool) {
        self.ask_from(if reset { Reset::Fresh } else { Reset::No });
    }

    pub(super) fn ask_from(&mut self, reset: Reset) {
        assert!(self.machine.takes_runs());
        let request = RunRequest {
            code: "1".into(),
            servers: ServerScope::All,
            timeout: TIMEOUT,
            timeout_max: TIMEOUT,
            reset,
            dry_run: self.dry_run,
            keep_files: true,
        };
        let id = self.machine.next_run();
        let effects = self.machine.ask(request, vec![], self.now);
        self.asked = Some(id);
        self.take(effects);
    }

    pub(super) fn snapshot(&mut self, snapshot: Snapshot) {
        assert!(self.machine.takes_runs());
        let effects = self.machine.ask_snapshot(snapshot, self.now);
        self.take(effects);
    }

    pub(super) fn up(&mut self) {
        let effects = self.machine.sandbox_up(1, vec![], self.now);
        self.take(effects);
    }

    pub(super) fn kept(&mut self, failed: Option<&str>, left_out: &[String], left_out_total: u64) {
        let effects = self.machine.kept(failed, left_out, left_out_total, self.now);
        self.take(effects);
    }

    pub(super) fn done(&mut self, outcome: DoneOutcome) {
        self.done_with_files(outcome, false);
    }

    pub(super) fn done_with_files(&mut self, outcome: DoneOutcome, files_changed: bool) {
        self.done_going(outcome, files_changed, None);
    }

    pub(super) fn done_going(&mut self, outcome: DoneOutcome, files_changed: bool, to: Option<&str>) {
        let run = self.asked.unwrap_or(RunId(999));
        let done = DoneFrame {
            run,
            outcome,
            value: None,
            bound: vec![],
            images: vec![],
            notes: vec![],
            saved: vec![],
            files_changed,
            restore: to.map(str::to_owned),
        };
        self.frame(FromSandbox::Worker(FromWorker::Done(Box::new(done))));
    }

    pub(super) fn frame(&mut self, frame: FromSandbox) {
        let effects = self.machine.frame(frame, self.now);
        self.take(effects);
    }

    pub(super) fn supervisor(&mut self, frame: FromSupervisor) {
        self.frame(FromSandbox::Supervisor(frame));
    }

    pub(super) fn exited(&mut self, signal: Option<i64>, oom: bool, requested: bool) {
        let exit_code = signal.is_none().then_some(7);
        self.supervisor(FromSupervisor::WorkerExited { worker: 1, exit_code, signal, oom, requested });
    }

    pub(super) fn started(&mut self) {
        self.restored(None);
    }

    pub(super) fn restored(&mut self, restored: Option<u64>) {
        let posture = Box::default();
        self.supervisor(FromSupervisor::WorkerStarted { worker: 2, posture, restored, checkpoint: None });
    }

    pub(super) fn woken(&mut self, name: &str) {
        let (posture, checkpoint) = (Box::default(), Some(name.to_owned()));
        self.supervisor(FromSupervisor::WorkerStarted { worker: 2, posture, restored: None, checkpoint });
    }

    pub(super) fn made(&mut self, name: &str) {
        self.supervisor(FromSupervisor::Checkpoint { name: name.to_owned(), line: Some(2), bytes: 9 });
    }

    pub(super) fn gone(&mut self, name: &str) {
        self.supervisor(FromSupervisor::CheckpointGone { name: name.to_owned() });
    }

    pub(super) fn output(&mut self, text: &str) {
        let (stream, text) = (OutputStream::Stdout, Some(text.to_owned()));
        self.supervisor(FromSupervisor::Output { stream, text, base64: None });
    }

    fn call(&mut self, run: RunId) {
        self.call_of(run, Some("s"), "t", "{}");
    }

    pub(super) fn call_of(&mut self, run: RunId, server: Option<&str>, tool: &str, arguments: &str) {
        let arguments = serde_json::value::RawValue::from_string(arguments.into()).unwrap();
        let (server, tool) = (server.map(str::to_owned), tool.to_owned());
        self.frame(FromSandbox::Worker(FromWorker::Call(CallFrame {
            run,
            call: CallId(1),
            server,
            tool,
            arguments,
            dry_run: false,
            placeholders: false,
            handle: false,
            handles: false,
        })));
    }

    /// Lets the time of the present phase run out.
    pub(super) fn wait(&mut self) {
        if let Some(deadline) = self.machine.deadline() {
            self.now = deadline;
            let effects = self.machine.tick(self.now);
            self.take(effects);
        }
    }

    fn over_limit(&mut self) {
        let effects = self.machine.over_limit("too much".into(), self.now);
        self.take(effects);
    }

    pub(super) fn cancel(&mut self) {
        if let Some(id) = self.asked {
            let effects = self.machine.cancel(id, self.now);
            self.take(effects);
        }
    }

    pub(super) fn effects(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn report(&mut self) -> RunReport {
        assert_eq!(self.reports.len(), 1);
        self.reports.remove(0).1
    }
}

fn written(output: &Output) -> String {
    output.pieces.iter().map(|piece| piece.text.as_str()).collect()
}

#[test]
fn the_first_run_starts_the_sandbox_and_finishes() {
    let mut bench = Bench::new();
    bench.ask(false);
    assert_eq!(bench.effects(), ["start sandbox"]);
    bench.up();
    assert_eq!(bench.effects(), ["send run"]);
    bench.output("hi");
    bench.done(DoneOutcome::Finished);
    assert_eq!(bench.effects(), ["end calls", "finish"]);
    let report = bench.report();
    assert_eq!((report.outcome, report.state), (RunOutcome::Finished, StateNote::Fresh(FreshReason::First)));
    assert_eq!(written(&report.output), "hi");
}

#[test]
fn a_sandbox_that_was_prewarmed_is_not_started_again() {
    let mut bench = Bench::new();
    let effects = bench.machine.prewarm();
    bench.take(effects);
    assert!(bench.machine.prewarm().is_empty());
    bench.ask(false);
    bench.up();
    assert_eq!(bench.effects(), ["start sandbox", "send run"]);
}

#[test]
fn a_sandbox_that_cannot_be_had_is_the_answer_and_the_next_run_tries_again() {
    let mut bench = Bench::new();
    bench.ask(false);
    let fault = ToolFault::new(FaultCode::SandboxUnavailable, "no engine");
    let effects = bench.machine.sandbox_failed(fault.clone());
    bench.take(effects);
    assert_eq!(bench.report().outcome, RunOutcome::NotStarted(fault));
    bench.effects();
    bench.ask(false);
    assert_eq!(bench.effects(), ["start sandbox"]);
}

#[test]
fn a_timeout_interrupts_first_and_keeps_the_variables() {
    let mut bench = Bench::running();
    bench.effects();
    bench.output("part");
    bench.wait();
    assert_eq!(bench.effects(), ["interrupt", "end calls"]);
    let error = PythonError {
        class: "KeyboardInterrupt".into(),
        message: String::new(),
        traceback: "Traceback".into(),
        traceback_chars: 0,
        line: Some(3),
        hint: String::new(),
    };
    bench.done(DoneOutcome::Interrupted { error: Some(error) });
    let report = bench.report();
    assert_eq!(
        (report.outcome, report.state),
        (RunOutcome::TimedOut { after: TIMEOUT, at_most: TIMEOUT }, StateNote::Kept)
    );
    assert_eq!(report.notes, ["it was interrupted at line 3 of the code"]);
    assert_eq!(written(&report.output), "part");
    assert!(bench.machine.takes_runs());
}

#[test]
fn the_time_of_a_run_stands_still_while_it_waits_for_the_human() {
    let mut bench = Bench::running();
    bench.effects();
    let began = bench.now;
    bench.now += TIMEOUT / 2;
    for waits in [true, true] {
        assert!(bench.machine.waits(waits, bench.now).is_empty());
        bench.now += TIMEOUT * 10;
    }
    assert_eq!((bench.machine.deadline(), bench.machine.tick(bench.now).len()), (None, 0));
    bench.machine.waits(false, bench.now);
    assert_eq!(bench.machine.deadline(), Some(began + TIMEOUT * 21));
    bench.wait();
    assert_eq!(bench.effects(), ["interrupt", "end calls"]);
    // A waiting run's state does not pass to the next run.
    bench.machine.waits(true, bench.now);
    bench.done(DoneOutcome::Finished);
    bench.ask(false);
    assert_eq!(bench.machine.deadline(), Some(bench.now + TIMEOUT));
}

#[test]
fn a_run_that_ignores_the_interrupt_costs_the_interpreter_and_says_so() {
    let mut bench = Bench::running();
    bench.wait();
    bench.effects();
    bench.wait();
    assert_eq!(bench.effects(), ["replace"]);
    bench.exited(Some(9), false, true);
    assert!(!bench.machine.takes_runs());
    bench.started();
    let report = bench.report();
    assert_eq!(
        (report.outcome, report.state),
        (RunOutcome::TimedOut { after: TIMEOUT, at_most: TIMEOUT }, StateNote::Lost)
    );
    bench.ask(false);
    bench.done(DoneOutcome::Finished);
    assert_eq!(bench.report().state, StateNote::Fresh(FreshReason::Lost));
}

#[test]
fn a_supervisor_that_does_not_replace_costs_the_container() {
    let mut bench = Bench::running();
    bench.wait();
    bench.wait();
    bench.effects();
    bench.wait();
    assert_eq!(bench.effects(), ["close sandbox", "end calls", "finish"]);
    bench.reports.clear();
    bench.ask(false);
    assert_eq!(bench.effects(), ["start sandbox"]);
}

#[test]
fn cancelling_interrupts_and_keeps_the_variables() {
    let mut bench = Bench::running();
    bench.effects();
    bench.cancel();
    assert_eq!(bench.effects(), ["interrupt", "end calls"]);
    bench.done(DoneOutcome::Finished);
    let report = bench.report();
    assert_eq!((report.outcome, report.state), (RunOutcome::Interrupted, StateNote::Kept));
}

#[test]
fn cancelling_before_the_sandbox_is_up_finishes_at_once_and_lets_it_come_up() {
    let mut bench = Bench::new();
    bench.ask(false);
    bench.cancel();
    assert_eq!(bench.effects(), ["start sandbox", "finish"]);
    assert_eq!(bench.report().outcome, RunOutcome::Interrupted);
    bench.up();
    bench.ask(false);
    assert_eq!(bench.effects(), ["send run"]);
}

#[test]
fn what_a_cancelled_run_would_have_told_the_next_one_tells() {
    let mut bench = Bench::used();
    let effects = bench.machine.stream_ended("removed");
    bench.take(effects);
    bench.ask(false);
    let effects = bench.machine.sandbox_up(1, vec!["a notice".into()], bench.now);
    bench.take(effects);
    bench.output("of the cancelled run");
    bench.cancel();
    bench.done(DoneOutcome::Finished);
    assert_eq!(bench.report().outcome, RunOutcome::Interrupted);
    bench.output("stray");
    bench.ask(false);
    bench.cancel();
    bench.done(DoneOutcome::Finished);
    assert_eq!(bench.report().notes, [""; 0]);
    bench.ask(false);
    bench.done(DoneOutcome::Finished);
    assert_eq!(
        bench.report().notes,
        [
            "a notice",
            "a run that was cancelled began in a fresh interpreter: the previous one was lost; earlier variables are gone",
            "5 bytes written between the runs, by threads or processes left behind, are not shown"
        ]
    );
    bench.ask(false);
    bench.done(DoneOutcome::Finished);
    assert_eq!(bench.report().notes, [""; 0]);
}

#[test]
fn a_cancelled_run_that_took_earlier_changes_with_it_is_told_of_by_the_next() {
    // The run before it was the first.
    for (restored, notes) in [(1, vec![]), (0, vec![GONE_BACK])] {
        let mut bench = Bench::running();
        bench.cancel();
        bench.wait();
        bench.exited(Some(9), false, true);
        bench.restored(Some(restored));
        bench.reports.clear();
        bench.ask(false);
        bench.done(DoneOutcome::Finished);
        let report = bench.report();
        assert_eq!(
            (report.state, report.notes),
            (StateNote::Kept, notes.into_iter().map(str::to_owned).collect())
        );
    }
}

#[test]
fn a_run_under_way_when_the_session_ends_is_answered() {
    let mut bench = Bench::running();
    bench.output("so far");
    let call = bench.asked.unwrap();
    bench.call(call);
    bench.effects();
    let effects = bench.machine.close();
    bench.take(effects);
    assert_eq!(bench.effects(), ["end calls", "finish"]);
    let report = bench.report();
    let loss = SandboxLoss::Container { reason: "belljar is ending".into() };
    assert_eq!((report.outcome, report.state), (RunOutcome::SandboxLost(loss), StateNote::Lost));
    assert_eq!(written(&report.output), "so far");

    let mut bench = Bench::running();
    bench.cancel();
    let effects = bench.machine.close();
    bench.take(effects);
    assert_eq!(bench.report().outcome, RunOutcome::Interrupted);
}

#[test]
fn a_run_whose_interpreter_ends_says_also_that_it_began_in_a_fresh_one() {
    for (restored, state) in [(Some(0), StateNote::RolledBack), (None, StateNote::Lost)] {
        let mut bench = Bench::used();
        let effects = bench.machine.stream_ended("removed");
        bench.take(effects);
        bench.ask(false);
        bench.up();
        bench.exited(None, false, false);
        bench.restored(restored);
        let report = bench.report();
        assert_eq!(report.state, state);
        assert_eq!(
            report.notes,
            ["the run began in a fresh interpreter: the previous one was lost; earlier variables are gone"]
        );
    }
    // The very first run has no such note.
    let mut bench = Bench::new();
    bench.ask(false);
    bench.up();
    bench.exited(None, false, false);
    bench.restored(Some(0));
    assert_eq!(bench.report().notes, [""; 0]);
}

#[test]
fn every_death_of_the_interpreter_is_named() {
    for (signal, oom, loss) in [
        (None, false, SandboxLoss::Exited { exit_code: 7 }),
        (Some(11), false, SandboxLoss::Killed { signal: 11, out_of_memory: false }),
        (Some(9), true, SandboxLoss::Killed { signal: 9, out_of_memory: true }),
    ] {
        let mut bench = Bench::running();
        bench.exited(signal, oom, false);
        bench.started();
        let report = bench.report();
        assert_eq!((report.outcome, report.state), (RunOutcome::SandboxLost(loss), StateNote::Lost));
    }
}

#[test]
fn a_run_that_killed_the_interpreter_is_rolled_back_as_far_as_the_copy_goes() {
    // The run before it was the first.
    // The run itself had come to its end when it was killed.
    for (restored, state) in
        [(2, StateNote::Kept), (1, StateNote::RolledBack), (0, StateNote::RolledBackFurther)]
    {
        let mut bench = Bench::used();
        bench.ask(false);
        bench.exited(None, false, false);
        bench.restored(Some(restored));
        assert_eq!(bench.report().state, state);
        bench.ask(false);
        bench.done(DoneOutcome::Finished);
        assert_eq!(bench.report().state, StateNote::Kept);
    }
}

#[test]
fn an_interpreter_that_ends_between_runs_is_rolled_back_and_named() {
    let mut bench = Bench::used();
    bench.exited(None, false, false);
    bench.restored(Some(1));
    bench.ask(false);
    bench.done(DoneOutcome::Finished);
    let report = bench.report();
    assert_eq!(report.state, StateNote::Kept);
    assert_eq!(
        report.notes,
        ["the interpreter ended between runs (exit status 7)", "variables are as the last run left them"]
    );
}

#[test]
fn a_lost_run_is_answered_when_no_interpreter_takes_the_place_of_its_own() {
    let mut bench = Bench::used();
    bench.ask(false);
    bench.exited(None, false, false);
    bench.effects();
    bench.wait();
    assert_eq!(bench.effects(), ["close sandbox", "end calls", "finish"]);
    assert_eq!(bench.report().state, StateNote::Lost);

    let mut bench = Bench::used();
    bench.ask(false);
    bench.exited(None, false, false);
    let effects = bench.machine.stream_ended("removed");
    bench.take(effects);
    let report = bench.report();
    assert_eq!(
        (report.outcome, report.state),
        (RunOutcome::SandboxLost(SandboxLoss::Exited { exit_code: 7 }), StateNote::Lost)
    );
}

#[test]
fn a_reset_is_not_answered_with_the_variables_of_an_interpreter_that_had_just_ended() {
    let mut bench = Bench::used();
    bench.ask(true);
    bench.exited(None, false, false);
    bench.restored(Some(1));
    assert_eq!(bench.effects(), ["replace", "replace"]);
    bench.started();
    assert_eq!(bench.effects(), ["send run"]);
}

#[test]
fn a_limit_that_the_bridge_watches_ends_the_interpreter_and_is_named() {
    let mut bench = Bench::running();
    bench.effects();
    bench.output("before");
    bench.over_limit();
    assert_eq!(bench.effects(), ["replace", "end calls"]);
    // Only once: processes that are being ended still use memory.
    bench.over_limit();
    assert_eq!(bench.effects(), [""; 0]);
    bench.exited(Some(9), false, true);
    bench.started();
    let report = bench.report();
    let loss = SandboxLoss::OverLimit { exceeded: "too much".into() };
    assert_eq!((report.outcome, report.state), (RunOutcome::SandboxLost(loss), StateNote::Lost));
    assert_eq!(report.output.pieces[0].text, "before");
    bench.ask(false);
    assert_eq!(bench.effects(), ["end calls", "finish", "send run"]);
}

#[test]
fn a_watched_limit_that_cannot_be_kept_by_a_new_interpreter_takes_the_container() {
    let mut bench = Bench::running();
    bench.over_limit();
    bench.effects();
    bench.wait();
    assert_eq!(bench.effects(), ["close sandbox", "end calls", "finish"]);
    let loss = SandboxLoss::OverLimit { exceeded: "too much".into() };
    assert_eq!(bench.report().outcome, RunOutcome::SandboxLost(loss));
}

#[test]
fn processes_left_behind_that_exceed_a_watched_limit_are_ended_and_it_is_said() {
    let mut bench = Bench::used();
    bench.over_limit();
    assert_eq!(bench.effects(), ["replace", "end calls"]);
    bench.exited(Some(9), false, true);
    bench.started();
    bench.ask(false);
    bench.done(DoneOutcome::Finished);
    let report = bench.report();
    assert_eq!(report.notes, ["the interpreter was ended between runs: too much"]);
    assert_eq!(report.state, StateNote::Fresh(FreshReason::Lost));
}

#[test]
fn a_container_that_goes_away_is_named_and_the_next_run_starts_another() {
    let mut bench = Bench::running();
    bench.effects();
    let effects = bench.machine.stream_ended("removed");
    bench.take(effects);
    assert_eq!(bench.effects(), ["end calls", "close sandbox", "end calls", "finish"]);
    let loss = SandboxLoss::Container { reason: "removed".into() };
    assert_eq!(bench.report().outcome, RunOutcome::SandboxLost(loss));
    bench.ask(false);
    assert_eq!(bench.effects(), ["start sandbox"]);
}

#[test]
fn a_sandbox_in_which_jobs_go_on_is_not_idle() {
    let mut bench = Bench::used();
    let deadline = bench.machine.deadline().unwrap();
    bench.machine.has_jobs(true, bench.now);
    assert_eq!(bench.machine.deadline(), None);
    bench.now = deadline;
    assert!(bench.machine.tick(bench.now).is_empty());
    bench.machine.has_jobs(false, bench.now);
    assert_eq!(bench.machine.deadline(), Some(bench.now + Duration::from_secs(300)));
}

#[test]
fn a_reset_and_a_limit_that_is_exceeded_end_jobs_before_the_interpreter() {
    let mut bench = Bench::used();
    bench.machine.has_jobs(true, bench.now);
    bench.ask(true);
    assert_eq!(bench.effects(), ["end jobs", "replace"]);
    let mut bench = Bench::running();
    bench.effects();
    bench.machine.has_jobs(true, bench.now);
    bench.over_limit();
    assert_eq!(bench.effects(), ["end jobs", "replace", "end calls"]);
    // If nothing was used yet, there is nothing to replace except a job of an earlier interpreter.
    let mut bench = Bench::running();
    bench.machine.has_jobs(true, bench.now);
    bench.exited(Some(9), false, false);
    bench.started();
    bench.effects();
    bench.ask(true);
    assert_eq!(bench.effects(), ["end jobs", "send run"]);
}

#[test]
fn an_idle_sandbox_is_stopped_and_the_next_run_says_so() {
    let mut bench = Bench::used();
    bench.wait();
    assert_eq!(bench.effects(), ["close sandbox"]);
    bench.ask(false);
    bench.up();
    bench.done(DoneOutcome::Finished);
    assert_eq!(bench.report().state, StateNote::Fresh(FreshReason::IdleStop));
}

#[test]
fn a_reset_replaces_the_interpreter_and_not_the_container() {
    let mut bench = Bench::used();
    bench.ask(true);
    assert_eq!(bench.effects(), ["replace"]);
    bench.exited(Some(9), false, true);
    let effects = bench.machine.frame(
        FromSandbox::Supervisor(FromSupervisor::WorkerStarted {
            worker: 2,
            posture: Box::default(),
            restored: None,
            checkpoint: None,
        }),
        bench.now,
    );
    assert!(matches!(effects[..], [Effect::SendRun { worker: 2, .. }]), "{effects:?}");
    bench.take(effects);
    assert_eq!(bench.effects(), ["send run"]);
    bench.done(DoneOutcome::Finished);
    assert_eq!(bench.report().state, StateNote::Fresh(FreshReason::Reset));
}

#[test]
fn a_reset_of_an_unused_interpreter_costs_nothing() {
    let mut bench = Bench::new();
    bench.ask(true);
    bench.up();
    assert_eq!(bench.effects(), ["start sandbox", "send run"]);
}

#[test]
fn calls_are_taken_only_from_the_run_under_way() {
    let mut bench = Bench::used();
    bench.call(RunId(1));
    assert_eq!(bench.effects(), ["refuse"]);
    bench.ask(false);
    bench.call(RunId(1));
    bench.call(RunId(2));
    assert_eq!(bench.effects(), ["send run", "refuse", "start call"]);
    bench.wait();
    bench.call(RunId(2));
    assert_eq!(bench.effects(), ["interrupt", "end calls", "refuse"]);
}

#[test]
fn a_forged_end_of_another_run_changes_nothing() {
    let mut bench = Bench::running();
    let done = DoneFrame {
        run: RunId(77),
        outcome: DoneOutcome::Finished,
        value: None,
        bound: vec![],
        images: vec![],
        notes: vec![],
        saved: vec![],
        files_changed: false,
        restore: None,
    };
    bench.frame(FromSandbox::Worker(FromWorker::Done(Box::new(done))));
    assert!(bench.reports.is_empty());
    bench.done(DoneOutcome::Finished);
    assert_eq!(
        bench.report().notes,
        ["the sandbox reported the end of a run that was not under way; it was ignored"]
    );
}

#[test]
fn output_between_runs_is_counted_and_never_in_another_reply() {
    let mut bench = Bench::used();
    bench.output("stray");
    bench.ask(false);
    bench.done(DoneOutcome::Finished);
    let report = bench.report();
    assert_eq!(written(&report.output), "");
    assert_eq!(
        report.notes,
        ["5 bytes written between the runs, by threads or processes left behind, are not shown"]
    );
}

#[test]
fn images_over_their_bounds_are_left_out_and_counted() {
    let mut bench = Bench::running();
    let image = belljar_base::run::Image { mime_type: "image/png".into(), base64: "A".repeat(1 << 20) };
    let done = DoneFrame {
        run: bench.asked.unwrap(),
        outcome: DoneOutcome::Finished,
        value: None,
        bound: vec![],
        images: vec![image; 6],
        notes: vec![],
        saved: vec![],
        files_changed: false,
        restore: None,
    };
    bench.frame(FromSandbox::Worker(FromWorker::Done(Box::new(done))));
    let report = bench.report();
    assert_eq!(report.images.len(), 2);
    assert_eq!(report.notes, ["4 of 6 images are left out: too many, too large, or none"]);
}

#[test]
fn what_is_no_picture_is_left_out() {
    let mut bench = Bench::running();
    let image = |mime_type: &str, base64: &str| belljar_base::run::Image {
        mime_type: mime_type.into(),
        base64: base64.into(),
    };
    let images = vec![image("text/html", "YQ=="), image("image/png", "!!"), image("image/png", "YQ==")];
    let run = bench.asked.unwrap();
    let done = DoneFrame {
        run,
        outcome: DoneOutcome::Finished,
        value: None,
        bound: vec![],
        images,
        notes: vec![],
        saved: vec![],
        files_changed: false,
        restore: None,
    };
    bench.frame(FromSandbox::Worker(FromWorker::Done(Box::new(done))));
    let report = bench.report();
    assert_eq!(report.images, [image("image/png", "YQ==")]);
    assert_eq!(report.notes, ["2 of 3 images are left out: too many, too large, or none"]);
}

#[test]
fn forged_texts_are_bounded() {
    let mut bench = Bench::running();
    let long = "x".repeat(1 << 20);
    let error = PythonError {
        class: long.clone(),
        message: long.clone(),
        traceback: long.clone(),
        traceback_chars: 0,
        line: None,
        hint: long.clone(),
    };
    let outcome = DoneOutcome::Raised { error };
    let notes = (0..50).map(|number| format!("{number}{long}")).collect();
    let bound = vec![long.clone(); 50];
    let value = Some(long);
    let done = DoneFrame {
        run: bench.asked.unwrap(),
        outcome,
        value,
        bound,
        images: vec![],
        notes,
        saved: vec![],
        files_changed: false,
        restore: None,
    };
    bench.frame(FromSandbox::Worker(FromWorker::Done(Box::new(done))));
    let report = bench.report();
    assert_eq!(report.notes, [""; 0], "what a worker's frame says is no word of the bridge");
    assert_eq!(report.sandbox_notes.len(), ending::NOTES_MAX);
    assert!(report.sandbox_notes.iter().all(|note| note.chars().count() == ending::NOTE_CHARS_MAX));
    let RunOutcome::Raised(error) = report.outcome else { panic!("raised") };
    let lengths = [error.class, error.message, error.traceback, error.hint].map(|text| text.chars().count());
    assert_eq!(lengths, [200, 16_000, 64_000, 500]);
    assert_eq!(report.bound.iter().map(|line| line.chars().count()).collect::<Vec<_>>(), [200; 16]);
}

#[derive(Debug, Clone)]
enum Event {
    Ask(bool),
    AskFromCheckpoint,
    AskSnapshot,
    SnapshotDone,
    Made,
    Gone,
    Woken,
    DoneGoingBack,
    Prewarm,
    Up,
    Failed,
    Done,
    Exited(bool),
    Started(Option<u64>),
    Output,
    Call,
    Cancel,
    OverLimit,
    Wait,
    StreamEnded,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any::<bool>().prop_map(Event::Ask),
        1 => Just(Event::AskFromCheckpoint),
        1 => Just(Event::AskSnapshot),
        1 => Just(Event::SnapshotDone),
        1 => Just(Event::Made),
        1 => Just(Event::Gone),
        1 => Just(Event::Woken),
        1 => Just(Event::DoneGoingBack),
        1 => Just(Event::Prewarm),
        3 => Just(Event::Up),
        1 => Just(Event::Failed),
        4 => Just(Event::Done),
        1 => any::<bool>().prop_map(Event::Exited),
        2 => proptest::option::of(0_u64..9).prop_map(Event::Started),
        1 => Just(Event::Output),
        1 => Just(Event::Call),
        1 => Just(Event::Cancel),
        1 => Just(Event::OverLimit),
        3 => Just(Event::Wait),
        1 => Just(Event::StreamEnded),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// For any events in any order, each run or snapshot is answered exactly once, and within the bounds of time even
    /// if the sandbox sends nothing more.
    #[test]
    fn every_run_is_answered_exactly_once(events in proptest::collection::vec(event(), 0..60)) {
        let mut bench = Bench::new();
        let mut starting = false;
        let (mut asked, mut snapshots) = (0, 0);
        for event in events {
            match event {
                Event::Ask(reset) if bench.machine.takes_runs() && bench.asked.is_none() => {
                    asked += 1;
                    bench.ask(reset);
                }
                Event::AskFromCheckpoint if bench.machine.takes_runs() && bench.asked.is_none() => {
                    asked += 1;
                    bench.ask_from(Reset::Checkpoint("a".into()));
                }
                Event::AskSnapshot if bench.machine.takes_runs() && bench.asked.is_none() => {
                    snapshots += 1;
                    bench.snapshot(Snapshot::Take);
                }
                Event::Ask(_) | Event::AskFromCheckpoint | Event::AskSnapshot => {}
                Event::Prewarm => { let effects = bench.machine.prewarm(); bench.take(effects); }
                // The actor reports the end of a start only if one is in progress.
                Event::Up if starting => { starting = false; bench.up(); }
                Event::Failed if starting => {
                    starting = false;
                    let effects = bench.machine.sandbox_failed(ToolFault::new(FaultCode::Internal, "x"));
                    bench.take(effects);
                }
                Event::Up | Event::Failed => {}
                _ if starting => {}
                Event::SnapshotDone => bench.supervisor(FromSupervisor::SnapshotDone { failed: None }),
                Event::Made => bench.made("a"),
                Event::Gone => bench.gone("a"),
                Event::Woken => bench.woken("a"),
                Event::DoneGoingBack => bench.done_going(DoneOutcome::Finished, false, Some("a")),
                Event::Done => bench.done(DoneOutcome::Finished),
                Event::Exited(oom) => bench.exited(Some(9), oom, false),
                Event::Started(restored) => bench.restored(restored),
                Event::Output => bench.output("x"),
                Event::Call => bench.call(bench.asked.unwrap_or(RunId(0))),
                Event::Cancel => bench.cancel(),
                Event::OverLimit => bench.over_limit(),
                Event::Wait => bench.wait(),
                Event::StreamEnded => { let effects = bench.machine.stream_ended("gone"); bench.take(effects); }
            }
            starting |= bench.effects().contains(&"start sandbox");
        }
        // From here on nothing comes from the sandbox: only time passes, and starts fail.
        for _ in 0..8 {
            if starting {
                starting = false;
                let effects = bench.machine.sandbox_failed(ToolFault::new(FaultCode::Internal, "x"));
                bench.take(effects);
            }
            bench.wait();
            starting |= bench.effects().contains(&"start sandbox");
        }
        prop_assert_eq!((bench.reports.len(), bench.snapshots.len()), (asked, snapshots));
        prop_assert!(bench.machine.takes_runs());
        let ids: std::collections::BTreeSet<_> = bench.reports.iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(ids.len(), asked);
    }
}
