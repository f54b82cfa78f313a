//! The checks of `make soak`, each shown a history that it must not let pass, beside one that is in order.

use std::collections::BTreeSet;

use crate::checks::{Rule, check};
use crate::facts::{Facts, State};
use crate::flat::{Ends, Sample};
use crate::history::{CALLS, Entry, Event, History, STRAY, What};

const SECOND: u64 = 1_000_000_000;

/// A history whose steps are a second apart.
#[derive(Default)]
struct Story {
    now: u64,
    history: History,
}

impl Story {
    fn then(mut self, what: What) -> Self {
        self.now += SECOND;
        self.history.events.push(Event { at: self.now, what });
        self
    }

    /// Asks for a run under the id of its own number.
    fn asked(self, run: u64) -> Self {
        self.asked_as(i64::try_from(run).unwrap(), Some(run))
    }

    fn asked_as(self, id: i64, run: Option<u64>) -> Self {
        self.then(What::Asked { id, run, deed: "run" })
    }

    fn cancelled(self, id: i64) -> Self {
        self.then(What::Cancelled { id })
    }

    fn answered(self, id: i64, facts: Option<Facts>) -> Self {
        self.then(What::Answered { id: Some(id), facts })
    }

    /// The reply of a run under the id of its own number.
    fn replied(self, text: &str) -> Self {
        let facts = Facts::of(text, text.starts_with("status: "));
        let id = i64::try_from(facts.run.expect("the mark of a run")).unwrap();
        self.answered(id, Some(facts))
    }

    fn ended(self, midway: bool) -> Self {
        self.then(What::Ended { how: "client hung up", midway })
    }

    /// The server gets a call, now, and answers at once.
    fn called(mut self, number: u64) -> Self {
        self.now += SECOND;
        let entry = Entry { at: self.now, pid: 1, number, answered_at: Some(self.now) };
        self.history.ledger.push(entry);
        self
    }

    fn hung(mut self, number: u64) -> Self {
        self = self.called(number);
        self.history.ledger.last_mut().unwrap().answered_at = None;
        self
    }

    /// Nothing happens for so many seconds.
    fn later(mut self, seconds: u64) -> Self {
        self.now += seconds * SECOND;
        self
    }

    fn violated(self) -> BTreeSet<Rule> {
        violated(&[self.history])
    }
}

fn violated(histories: &[History]) -> BTreeSet<Rule> {
    check(histories).into_iter().map(|violation| violation.rule).collect()
}

const IN_ORDER: [Rule; 0] = [];

#[track_caller]
fn breaks(rule: Rule, story: Story) {
    assert_eq!(story.violated(), BTreeSet::from([rule]));
}

#[track_caller]
fn holds(story: Story) {
    assert_eq!(story.violated(), BTreeSet::from(IN_ORDER));
}

fn first() -> Story {
    Story::default().asked(1).replied("@run 1 None")
}

#[test]
fn a_request_without_an_answer_or_with_two_is_found() {
    holds(first().ended(false));
    breaks(Rule::OneAnswer, first().asked(2).ended(false));
    holds(first().asked(2).ended(true));
    breaks(Rule::OneAnswer, first().replied("@run 1 None"));
    breaks(Rule::OneAnswer, first().answered(77, None));
    breaks(Rule::OneAnswer, first().then(What::Answered { id: None, facts: None }));
    holds(first().then(What::Garbage).then(What::Answered { id: None, facts: None }));
}

#[test]
fn two_requests_with_one_id_have_an_answer_each() {
    let asked = || first().asked_as(9, Some(2)).asked_as(9, Some(3));
    let facts = |text| Some(Facts::of(text, false));
    let both = asked().answered(9, facts("@run 3 2")).answered(9, facts("@run 2 1"));
    holds(both);
    breaks(Rule::OneAnswer, asked().answered(9, facts("@run 2 1")).ended(false));
}

#[test]
fn an_answer_after_the_cancellation_has_been_read_is_found() {
    let late = "@run 2 1\nstate: variables kept";
    holds(first().asked(2).cancelled(2).replied(late).asked_as(50, None).answered(50, None));
    breaks(
        Rule::NoneAfterCancel,
        first().asked(2).cancelled(2).asked_as(50, None).answered(50, None).replied(late),
    );
    holds(first().asked(2).cancelled(2).asked_as(50, None).answered(50, None).ended(false));
}

#[test]
fn output_in_another_runs_answer_is_found() {
    breaks(Rule::OwnOutput, first().asked(2).replied("@run 2 1\n@run 3 2"));
    breaks(Rule::OwnOutput, first().asked(2).answered(2, Some(Facts::of("@run 7 1", false))));
}

#[test]
fn a_call_that_is_made_twice_is_found_also_by_two_bridges() {
    let call = CALLS + 4;
    let once = || Story::default().asked(1).called(call);
    holds(once().replied("@run 1 None"));
    breaks(Rule::OnceOnly, once().called(call).replied("@run 1 None"));
    let other = once().replied("@run 1 None").history;
    assert_eq!(violated(&[other.clone(), other]), BTreeSet::from([Rule::OnceOnly]));
}

#[test]
fn a_call_after_its_run_is_found_unless_it_was_cut_off_and_said_to_be() {
    let said = "@run 2 1\ncalls with unknown outcome (they may have taken effect): ledger.echo";
    let call = 2 * CALLS;
    holds(first().asked(2).called(call).replied("@run 2 1"));
    // Nobody said that it was under way, either.
    let secretly = first().asked(2).replied("@run 2 1").called(call).violated();
    assert_eq!(secretly, BTreeSet::from([Rule::NotAfterItsRun, Rule::UnknownIsSaid]));
    holds(first().asked(2).replied(said).called(call));
    breaks(Rule::NotAfterItsRun, first().asked(2).replied(said).later(20).called(call));
    holds(first().asked(2).cancelled(2).called(call));
    breaks(Rule::NotAfterItsRun, first().asked(2).cancelled(2).later(20).called(call));
    holds(first().asked(2).ended(true).called(call));
    breaks(Rule::NotAfterItsRun, first().asked(2).ended(true).later(20).called(call));
    breaks(Rule::NotAfterItsRun, first().called(7 * CALLS));
}

#[test]
fn a_call_of_a_run_that_was_refused_is_found() {
    let refused = Facts::of("status: error\nerror: 16 runs are waiting already", true);
    let asked = || first().asked(2);
    holds(asked().answered(2, Some(refused.clone())));
    breaks(Rule::NotAfterItsRun, asked().called(2 * CALLS).answered(2, Some(refused)));
}

#[test]
fn a_call_of_what_outlived_its_run_may_come_in_a_later_run_only() {
    let stray = CALLS + STRAY;
    holds(first().asked(2).called(stray).replied("@run 2 1"));
    breaks(Rule::NotAfterItsRun, first().called(stray).asked(2).replied("@run 2 1"));
}

#[test]
fn a_call_of_an_earlier_run_behind_one_of_a_later_is_found() {
    let both = || first().asked(2).asked(3);
    let said = "@run 2 1\ncalls with unknown outcome (they may have taken effect): ledger.echo";
    holds(both().called(2 * CALLS).replied(said).called(3 * CALLS).replied("@run 3 2"));
    breaks(Rule::InOrder, both().replied(said).called(3 * CALLS).called(2 * CALLS).replied("@run 3 2"));
}

#[test]
fn a_call_under_way_at_the_end_that_is_not_named_is_found() {
    let said = "@run 2 1\ncalls with unknown outcome (they may have taken effect): ledger.hang × 2, ledger.slow and 2 more";
    let hung = || (0..5).fold(first().asked(2), |story, index| story.hung(2 * CALLS + index));
    holds(hung().replied(said));
    breaks(Rule::UnknownIsSaid, hung().replied("@run 2 1"));
    breaks(Rule::UnknownIsSaid, hung().hung(2 * CALLS + 5).replied(said));
}

#[test]
fn what_the_code_was_told_of_its_calls_has_to_be_true() {
    let call = 2 * CALLS;
    let saw = format!("@run 2 1\n@saw {call}");
    holds(first().asked(2).called(call).replied(&saw));
    breaks(Rule::SeenIsDone, first().asked(2).replied(&saw));
    let told = |code: &str| format!("@run 2 1\n@not {call} {code}");
    holds(first().asked(2).called(call).replied(&told("tool_error")));
    holds(first().asked(2).replied(&told("not_running")));
    breaks(Rule::RefusedIsNotDone, first().asked(2).called(call).replied(&told("not_running")));
}

#[test]
fn variables_that_are_gone_without_a_word_are_found() {
    let run = |text: &str| first().asked(2).replied(text);
    holds(run("@run 2 1"));
    breaks(Rule::LossIsSaid, run("@run 2 None"));
    holds(run(
        "@run 2 None\nstate: fresh interpreter: the previous one was lost; earlier variables are gone",
    ));
    // Nor may it be said when it is not so.
    breaks(
        Rule::LossIsSaid,
        run("@run 2 1\nstate: fresh interpreter: the previous one was lost; earlier variables are gone"),
    );
    let lost = "status: error\n@run 2 1\nstate: variables lost; the next run starts with a fresh interpreter";
    holds(run(lost).asked(3).replied("@run 3 None"));
    breaks(Rule::LossIsSaid, run(lost).asked(3).replied("@run 3 2"));
}

#[test]
fn a_rollback_has_to_go_back_as_far_as_it_says() {
    let back = |text: &str, found: &str| {
        let text = format!("status: error\n@run 3 2\n{text}");
        first().asked(2).replied("@run 2 1").asked(3).replied(&text).asked(4).replied(found)
    };
    let before = "state: variables as before this run";
    holds(back(before, "@run 4 2"));
    breaks(Rule::LossIsSaid, back(before, "@run 4 3"));
    breaks(Rule::LossIsSaid, back(before, "@run 4 1"));
    let earlier = "state: variables as after an earlier run; what later runs changed is gone";
    holds(back(earlier, "@run 4 1"));
    breaks(Rule::LossIsSaid, back(earlier, "@run 4 99"));
    let between = "@run 4 1\nnote: variables are as after an earlier run; what later runs changed is gone";
    holds(back("state: variables kept", between));
    breaks(Rule::LossIsSaid, back("state: variables kept", "@run 4 1"));
}

#[test]
fn a_cancelled_run_may_have_run_or_not_and_takes_nothing_else_with_it() {
    let cancelled = || first().asked(2).cancelled(2).asked(3);
    holds(cancelled().replied("@run 3 1"));
    holds(cancelled().replied("@run 3 2"));
    breaks(Rule::LossIsSaid, cancelled().replied("@run 3 None"));
    let fresh = |found: &str| {
        let note = "note: a run that was cancelled began in a fresh interpreter: the previous one was lost; earlier variables are gone";
        cancelled().replied(&format!("@run 3 {found}\n{note}"))
    };
    holds(fresh("None"));
    holds(fresh("2"));
    breaks(Rule::LossIsSaid, fresh("1"));
}

#[test]
fn runs_that_change_places_are_found() {
    let both = first().asked(2).asked(3);
    breaks(Rule::LossIsSaid, both.replied("@run 3 1").replied("@run 2 3"));
}

#[test]
fn a_reply_is_read_for_what_it_says() {
    let text = "status: timeout\n@run 5 4\n@saw 5001\n@not 5002 tool_error\nerror: Execution timed out after 2s\n\
                state: variables as before this run\n\
                calls with unknown outcome (they may have taken effect): ledger.slow × 1,200, ledger.hang and 3 more\n\
                note: the run began in a fresh interpreter: it asked for a reset; earlier variables are gone";
    let expected = Facts {
        run: Some(5),
        found: Some(4),
        saw: vec![5001],
        failed: vec![(5002, "tool_error".into())],
        state: State::AsBefore,
        is_fresh: true,
        unknown: 1204,
        is_started: true,
        ..Facts::default()
    };
    assert_eq!(Facts::of(text, true), expected);
    let one = Facts::of("calls with unknown outcome (they may have taken effect): ledger.hang", false);
    assert_eq!(one.unknown, 1);
    assert_eq!(Facts::of("status: error\nerror: no engine", true), Facts::default());
}

#[test]
fn a_ledger_is_read_call_by_call() {
    let lines = [
        "10 7 0 answered",
        "20 7 3 call echo {\"text\":\"\",\"n\":1004}",
        "30 7 4 call hang {\"n\":1005}",
        "cancelled",
        "40 7 3 answered",
        "50 8 3 call echo {\"n\":1006}",
    ];
    let entry = |at, pid, number, answered_at| Entry { at, pid, number, answered_at };
    assert_eq!(
        Entry::all(&lines.map(str::to_owned)),
        [entry(20, 7, 1004, Some(40)), entry(30, 7, 1005, None), entry(50, 8, 1006, None)]
    );
}

#[test]
fn growth_of_each_kind_is_found_and_noise_is_not() {
    let usual = Sample { rss_kib: 20_000, fds: 20, threads: 8, children: 2, containers: 1 };
    let grown = |last: Sample| {
        let mut samples = vec![usual; 150];
        samples.resize(300, last);
        Ends::of(&samples).unwrap().grown().len()
    };
    assert_eq!(grown(usual), 0);
    assert_eq!(grown(Sample { rss_kib: 22_900, fds: 22, threads: 9, ..usual }), 0);
    for last in [
        Sample { rss_kib: 23_100, ..usual },
        Sample { fds: 23, ..usual },
        Sample { threads: 11, ..usual },
        Sample { children: 3, ..usual },
        Sample { containers: 2, ..usual },
    ] {
        assert_eq!(grown(last), 1, "{last:?}");
    }
    assert_eq!(Ends::of(&[usual; 99]), None);
}
