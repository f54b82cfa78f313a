//! Claims about when files are stored, and about the report that waits for that.

use belljar_base::run::RunOutcome;
use belljar_protocol::DoneOutcome;

use super::*;
use crate::session::machine::tests::Bench;

/// A machine whose run has ended and has changed files that are not stored yet.
fn keeping() -> Bench {
    let mut bench = Bench::running();
    bench.keeps_at_once = false;
    bench.effects.clear();
    bench.done_with_files(DoneOutcome::Finished, true);
    assert_eq!(bench.effects, ["end calls", "keep"]);
    assert!(bench.reports.is_empty() && !bench.machine.takes_runs());
    bench.effects.clear();
    bench
}

fn notes(bench: &mut Bench) -> Vec<String> {
    bench.report().notes
}

#[test]
fn a_report_waits_for_changed_files_and_no_other_does() {
    let mut bench = keeping();
    bench.kept(None, &[], 0);
    assert_eq!(bench.effects, ["finish"]);
    assert_eq!(notes(&mut bench), [] as [&str; 0]);
    assert!(bench.machine.takes_runs());
    bench.ask(false);
    bench.effects.clear();
    bench.done_with_files(DoneOutcome::Finished, false);
    assert_eq!(bench.effects, ["end calls", "finish"]);
}

#[test]
fn what_was_not_asked_for_is_not_taken() {
    let bench = keeping();
    assert!(bench.machine.keeps(None) && bench.machine.keeps(Some(1)) && !bench.machine.keeps(Some(2)));
    assert!(!Bench::running().machine.keeps(None));
    assert!(!Bench::used().machine.keeps(Some(0)));
}

#[test]
fn no_file_is_stored_after_a_dry_run() {
    let mut bench = Bench { dry_run: true, ..Bench::running() };
    bench.done_with_files(DoneOutcome::Finished, false);
    bench.ask(false);
    bench.effects.clear();
    bench.done_with_files(DoneOutcome::Finished, true);
    assert_eq!(bench.effects, ["end calls", "finish"]);
    bench.ask(false);
    bench.exited(Some(9), true, false);
    bench.effects.clear();
    bench.restored(Some(0));
    assert_eq!(bench.effects, ["finish"]);
}

#[test]
fn after_a_failure_all_is_told_anew() {
    let mut bench = keeping();
    bench.kept(Some("a.csv cannot be kept: no space left"), &[], 0);
    let said = "files of /workspace are not kept beyond this sandbox: a.csv cannot be kept: no space left";
    assert_eq!(notes(&mut bench), [said]);
    bench.ask(false);
    bench.effects.clear();
    // The claim also holds after a run that has changed no files.
    bench.done_with_files(DoneOutcome::Finished, false);
    assert_eq!(bench.effects, ["end calls", "keep everything"]);
    bench.kept(None, &[], 0);
    bench.ask(false);
    bench.effects.clear();
    bench.done_with_files(DoneOutcome::Finished, true);
    assert_eq!(bench.effects, ["end calls", "keep"]);
}

#[test]
fn what_is_left_out_is_said_once_until_it_changes() {
    let mut bench = keeping();
    bench.reports.clear();
    let mut again = |left_out: &[&str], total| {
        let left_out: Vec<String> = left_out.iter().map(|text| (*text).to_owned()).collect();
        bench.kept(None, &left_out, total);
        let notes = notes(&mut bench);
        bench.ask(false);
        bench.done_with_files(DoneOutcome::Finished, true);
        notes
    };
    let begin = "in /workspace for as long as this sandbox lives, and not kept: ";
    assert_eq!(again(&["x: a link"], 1), [format!("{begin}x: a link")]);
    assert_eq!(again(&["x: a link"], 1), [] as [&str; 0]);
    assert_eq!(again(&["x: a link", "y\n: a link"], 9), [format!("{begin}x: a link; y: a link; and 7 more")]);
    assert_eq!(again(&[], 0), [] as [&str; 0]);
    assert_eq!(again(&["x: a link"], 1), [format!("{begin}x: a link")]);
}

#[test]
fn a_sandbox_that_does_not_tell_is_given_up_and_the_run_is_reported() {
    for end in [
        |bench: &mut Bench| bench.wait(),
        |bench: &mut Bench| {
            let effects = bench.machine.stream_ended("it was killed");
            bench.take(effects);
        },
    ] {
        let mut bench = keeping();
        end(&mut bench);
        assert!(bench.effects.contains(&"close sandbox"));
        let report = bench.report();
        assert_eq!((report.outcome, report.state), (RunOutcome::Finished, StateNote::Lost));
        assert!(report.notes[0].starts_with("what was changed last in /workspace is not kept: "));
        // A late answer changes nothing.
        bench.effects.clear();
        bench.kept(None, &[], 0);
        assert_eq!(bench.effects, [] as [&str; 0]);
        bench.ask(false);
        assert_eq!(bench.effects, ["start sandbox"]);
    }
}

#[test]
fn a_run_whose_worker_was_lost_has_its_files_kept() {
    let mut bench = Bench::running();
    bench.keeps_at_once = false;
    bench.exited(Some(9), true, false);
    bench.effects.clear();
    bench.restored(Some(0));
    assert_eq!(bench.effects, ["keep"]);
    bench.kept(None, &[], 0);
    assert!(matches!(bench.report().outcome, RunOutcome::SandboxLost(_)));
}

#[test]
fn a_worker_that_ends_meanwhile_is_awaited_before_the_next_run() {
    let mut bench = keeping();
    bench.exited(Some(9), false, false);
    bench.kept(None, &[], 0);
    assert_eq!(bench.effects, ["finish"]);
    assert!(!bench.machine.takes_runs());
    bench.started();
    assert!(bench.machine.takes_runs());
    let mut bench = keeping();
    bench.exited(Some(9), false, false);
    bench.started();
    bench.kept(None, &[], 0);
    assert!(bench.machine.takes_runs());
    bench.ask(false);
    bench.done_with_files(DoneOutcome::Finished, false);
    bench.reports.remove(0);
    let report = bench.report();
    assert!(matches!(report.state, StateNote::Fresh(FreshReason::Lost)), "{:?}", report.state);
}

#[test]
fn files_are_kept_before_an_idle_sandbox_is_stopped_and_when_the_session_ends() {
    let mut bench = Bench::used();
    bench.keeps_at_once = false;
    bench.wait();
    assert_eq!(bench.effects, ["keep"]);
    bench.kept(None, &[], 0);
    assert_eq!(bench.effects, ["keep", "close sandbox"]);
    bench.ask(false);
    // If that fails, the sandbox stays, and reports its files once more.
    let mut bench = Bench::used();
    bench.keeps_at_once = false;
    bench.wait();
    bench.kept(Some("no space left"), &[], 0);
    assert_eq!(bench.effects, ["keep"]);
    bench.wait();
    assert_eq!(bench.effects, ["keep", "keep everything"]);
    let mut bench = keeping();
    let effects = bench.machine.close();
    bench.take(effects);
    assert_eq!(bench.effects, ["finish"]);
}

#[test]
fn a_sandbox_that_exceeds_a_limit_meanwhile_loses_its_worker_and_keeps_its_files() {
    let mut bench = keeping();
    let effects = bench.machine.over_limit("600 MiB".into(), bench.now);
    bench.take(effects);
    assert_eq!(bench.effects, ["replace", "end calls"]);
    bench.exited(Some(9), false, true);
    bench.started();
    bench.kept(None, &[], 0);
    assert!(bench.machine.takes_runs());
    bench.ask(false);
    bench.done_with_files(DoneOutcome::Finished, false);
    bench.reports.remove(0);
    assert!(bench.report().notes[0].contains("was ended after the run: 600 MiB"));
}
