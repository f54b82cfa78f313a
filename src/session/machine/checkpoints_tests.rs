//! Claims about returns to checkpoints: before a run, at its end, and if the checkpoint does not exist.

use belljar_base::run::{FreshReason, Reset, RunOutcome, StateNote};
use belljar_protocol::DoneOutcome;

use super::super::tests::Bench;

fn with_checkpoint() -> Bench {
    let mut bench = Bench::running();
    bench.made("a");
    bench.done(DoneOutcome::Finished);
    bench.reports.clear();
    bench.effects.clear();
    bench
}

fn from(name: &str) -> Reset {
    Reset::Checkpoint(name.into())
}

fn not_started(outcome: &RunOutcome) -> (&str, &str) {
    let RunOutcome::NotStarted(fault) = outcome else { panic!("{outcome:?}") };
    (&fault.message, &fault.hint)
}

const SAID: &str =
    "variables are as at checkpoint 'a' (run 2, line 2); files in /workspace are not changed by going back";

#[test]
fn a_run_begins_when_the_checkpoint_is_the_worker() {
    let mut bench = with_checkpoint();
    bench.ask_from(from("a"));
    assert_eq!(bench.effects(), ["replace"]);
    bench.exited(Some(9), false, true);
    assert_eq!(bench.effects(), [""; 0]);
    bench.woken("a");
    assert_eq!(bench.effects(), ["send run"]);
    bench.done(DoneOutcome::Finished);
    let report = bench.report();
    assert_eq!((report.state, report.notes), (StateNote::Kept, vec![SAID.to_owned()]));
}

#[test]
fn a_run_that_goes_back_is_answered_when_the_checkpoint_is_there() {
    let mut bench = with_checkpoint();
    bench.ask(false);
    bench.done_going(DoneOutcome::Exited { exit_code: 0 }, true, Some("a"));
    bench.exited(Some(9), false, true);
    assert_eq!(bench.effects(), ["send run", "end calls", "replace"]);
    bench.keeps_at_once = false;
    bench.woken("a");
    assert_eq!(bench.effects(), ["keep"]);
    bench.kept(None, &[], 0);
    let report = bench.report();
    assert_eq!((report.outcome, report.state), (RunOutcome::Finished, StateNote::Restored));
    assert_eq!((report.notes, report.goes_back_to), (vec![SAID.to_owned()], None));
    // If the next run is killed, its variables are rolled back to the checkpoint.
    bench.keeps_at_once = true;
    bench.ask(false);
    bench.exited(None, false, false);
    bench.restored(Some(0));
    assert_eq!(bench.report().state, StateNote::RolledBack);
}

#[test]
fn a_run_that_was_interrupted_goes_nowhere() {
    let mut bench = with_checkpoint();
    bench.ask(false);
    bench.wait();
    bench.done_going(DoneOutcome::Interrupted { error: None }, false, Some("a"));
    assert_eq!(bench.effects(), ["send run", "interrupt", "end calls", "end calls", "finish"]);
    assert_eq!(bench.report().state, StateNote::Kept);
}

#[test]
fn what_is_not_there_is_told_and_nothing_is_replaced() {
    let mut bench = with_checkpoint();
    bench.ask_from(from("b"));
    let report = bench.report();
    assert_eq!(not_started(&report.outcome), ("there is no checkpoint 'b'", "there are: 'a'"));
    assert_eq!(bench.effects(), ["finish"]);
    assert!(bench.machine.takes_runs());
    // No sandbox is started for it if there is no sandbox yet.
    let mut bench = Bench::new();
    bench.ask_from(from("a"));
    assert_eq!(bench.effects(), ["finish"]);
}

#[test]
fn one_that_was_lost_is_left_to_who_can_make_it_again() {
    let mut bench = with_checkpoint();
    bench.gone("a");
    bench.ask(false);
    bench.done_going(DoneOutcome::Finished, false, Some("a"));
    let report = bench.report();
    assert_eq!((report.state, report.goes_back_to.as_deref()), (StateNote::Kept, Some("a")));
}

#[test]
fn where_the_sandbox_has_it_no_more_the_variables_stay() {
    let mut bench = with_checkpoint();
    bench.ask_from(from("a"));
    bench.gone("a");
    let report = bench.report();
    assert!(not_started(&report.outcome).0.starts_with("checkpoint 'a' is gone: "), "{:?}", report.outcome);
    assert_eq!(report.state, StateNote::Kept);
    assert!(bench.machine.takes_runs());
}

#[test]
fn where_it_does_not_answer_the_frozen_copy_or_a_fresh_worker_comes_instead() {
    let cases =
        [(Some(3), StateNote::Kept), (Some(2), StateNote::RolledBackFurther), (None, StateNote::Lost)];
    for (restored, state) in cases {
        let mut bench = with_checkpoint();
        bench.ask(false);
        bench.done_going(DoneOutcome::Finished, false, Some("a"));
        bench.exited(Some(9), false, true);
        bench.gone("a");
        assert!(bench.reports.is_empty());
        bench.restored(restored);
        let report = bench.report();
        assert_eq!(report.state, state);
        let RunOutcome::Raised(error) = report.outcome else { panic!("{:?}", report.outcome) };
        assert_eq!(error.class, "CheckpointError");
        bench.ask(false);
        bench.done(DoneOutcome::Finished);
        let is_fresh = bench.report().state == StateNote::Fresh(FreshReason::Lost);
        assert_eq!(is_fresh, restored.is_none());
    }
}

#[test]
fn a_worker_that_died_before_it_could_be_replaced_is_replaced_once_more_and_no_further() {
    let mut bench = with_checkpoint();
    bench.ask_from(from("a"));
    bench.exited(Some(9), false, false);
    bench.restored(Some(2));
    assert_eq!(bench.effects(), ["replace", "replace"]);
    bench.restored(Some(2));
    assert_eq!(bench.effects(), ["finish"]);
    bench.reports.clear();
    bench.ask_from(from("a"));
    bench.woken("a");
    assert_eq!(bench.effects(), ["replace", "send run"]);
}

#[test]
fn a_sandbox_that_says_nothing_or_goes_is_given_up() {
    let mut bench = with_checkpoint();
    bench.ask_from(from("a"));
    bench.wait();
    assert_eq!(bench.effects(), ["replace", "close sandbox", "finish"]);
    assert_eq!(not_started(&bench.report().outcome), ("the sandbox did not answer in time", "run it again"));
    let mut bench = with_checkpoint();
    bench.ask(false);
    bench.done_going(DoneOutcome::Finished, false, Some("a"));
    let effects = bench.machine.stream_ended("gone");
    bench.take(effects);
    assert_eq!(bench.report().state, StateNote::Lost);
}

#[test]
fn a_run_that_is_cancelled_on_the_way_leaves_the_checkpoint_in_place() {
    let mut bench = with_checkpoint();
    bench.ask_from(from("a"));
    bench.cancel();
    assert_eq!(bench.effects(), ["replace", "finish"]);
    bench.reports.clear();
    bench.woken("a");
    bench.ask(false);
    bench.done(DoneOutcome::Finished);
    assert_eq!(bench.report().notes, ["variables are as at the checkpoint that was asked for"]);
}

#[test]
fn questions_of_the_code_are_answered_here() {
    let mut bench = with_checkpoint();
    bench.ask(false);
    bench.effects();
    let run = bench.asked.unwrap();
    bench.call_of(run, None, "list_checkpoints", "{}");
    bench.call_of(run, None, "find_checkpoint", r#"{"name":"a"}"#);
    assert_eq!(bench.effects(), ["answer", "answer"]);
    bench.call_of(run, None, "find_checkpoint", r#"{"name":"b"}"#);
    bench.call_of(run, None, "find_checkpoint", "{}");
    assert_eq!(bench.effects(), ["refuse", "refuse"]);
    bench.call_of(run, None, "forget_checkpoint", r#"{"name":"a"}"#);
    bench.call_of(run, None, "forget_checkpoint", r#"{"name":"a"}"#);
    assert_eq!(bench.effects(), ["send", "answer", "refuse"]);
    // A server may have a tool with the name of a helper.
    bench.call_of(run, Some("s"), "list_checkpoints", "{}");
    assert_eq!(bench.effects(), ["start call"]);
}
