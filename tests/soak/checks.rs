//! What has to hold of every history, whatever was broken meanwhile; pure functions.
//!
//! Answers: exactly one for each request, none for one whose cancellation has taken effect. Calls: none twice, none
//! after its run has ended, none in secret. State: what a run finds is what the replies before it, or its own, said.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use crate::facts::{Facts, State};
use crate::history::{Entry, Event, History, What};

/// How long a call that was cut off, and said to be, may be on its way to the server.
const LATE_NS: u64 = 10_000_000_000;
/// Faults of calls that no server has got.
const NOT_SENT: [&str; 6] =
    ["not_running", "busy", "server_unavailable", "server_not_started", "unknown_tool", "invalid_arguments"];

/// The rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    OneAnswer,
    NoneAfterCancel,
    OwnOutput,
    OnceOnly,
    NotAfterItsRun,
    InOrder,
    UnknownIsSaid,
    SeenIsDone,
    RefusedIsNotDone,
    LossIsSaid,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// A request and what became of it.
#[derive(Debug, Default)]
struct Ask {
    id: i64,
    run: Option<u64>,
    at: u64,
    cancelled_at: Option<u64>,
    /// The bridge has answered something that it was asked after the cancellation.
    is_gone: bool,
    answered_at: Option<u64>,
    facts: Option<Facts>,
}

/// Everything that is wrong with the histories of bridges that had nothing in common.
pub fn check(histories: &[History]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for entry in histories.iter().flat_map(|history| &history.ledger) {
        *seen.entry(entry.number).or_default() += 1;
    }
    let twice: BTreeMap<u64, usize> = seen.into_iter().filter(|(_, times)| *times > 1).collect();
    violations.extend(twice.into_iter().map(|(number, times)| Violation {
        rule: Rule::OnceOnly,
        what: format!("call {number} reached servers {times} times"),
    }));
    for history in histories {
        let mut judge = Judge { violations: &mut violations };
        let asks = judge.answers(&history.events);
        let ended_at = history.events.iter().find_map(|event| match event.what {
            What::Ended { .. } => Some(event.at),
            _ => None,
        });
        judge.calls(&asks, &history.ledger, ended_at.unwrap_or(u64::MAX - LATE_NS));
        judge.state(&asks);
    }
    violations
}

struct Judge<'a> {
    violations: &'a mut Vec<Violation>,
}

impl Judge<'_> {
    fn violated(&mut self, rule: Rule, what: String) {
        self.violations.push(Violation { rule, what });
    }

    /// The requests in their order, each with its answer.
    fn answers(&mut self, events: &[Event]) -> Vec<Ask> {
        let mut asks: Vec<Ask> = Vec::new();
        let mut garbage = 0;
        let mut midway = false;
        for event in events {
            match &event.what {
                What::Asked { id, run, .. } => {
                    asks.push(Ask { id: *id, run: *run, at: event.at, ..Ask::default() });
                }
                What::Garbage => garbage += 1,
                What::Cancelled { id } => {
                    let latest = asks.iter_mut().rfind(|ask| ask.id == *id && ask.answered_at.is_none());
                    if let Some(ask) = latest {
                        ask.cancelled_at = Some(event.at);
                    }
                }
                What::Answered { id: None, .. } if garbage > 0 => garbage -= 1,
                What::Answered { id: None, .. } => {
                    self.violated(Rule::OneAnswer, "an answer without an id to no garbage".into());
                }
                What::Answered { id: Some(id), facts } => {
                    self.answer(&mut asks, *id, event.at, facts.as_ref())
                }
                What::Ended { midway: is_midway, .. } => midway |= is_midway,
                What::Fault { .. } => {}
            }
        }
        for ask in asks.iter().filter(|ask| ask.answered_at.is_none() && ask.cancelled_at.is_none()) {
            if !midway {
                self.violated(
                    Rule::OneAnswer,
                    format!("request {} ({}) was not answered", ask.id, of(ask.run)),
                );
            }
        }
        asks
    }

    fn answer(&mut self, asks: &mut [Ask], id: i64, at: u64, facts: Option<&Facts>) {
        let waits = |ask: &Ask| ask.id == id && ask.answered_at.is_none();
        let is_its = |ask: &Ask| ask.run.is_some() && ask.run == facts.and_then(|facts| facts.run);
        // Requests with one id are told apart by the mark of the run.
        let by_mark = asks.iter().position(|ask| waits(ask) && is_its(ask));
        let Some(index) = by_mark.or_else(|| asks.iter().position(waits)) else {
            let what = format!("request {id} got an answer more than there were requests");
            return self.violated(Rule::OneAnswer, what);
        };
        let ask = &mut asks[index];
        ask.answered_at = Some(at);
        ask.facts = facts.cloned();
        let (run, asked_at) = (ask.run, ask.at);
        if ask.is_gone {
            let what = format!("request {id} ({}) was answered though it had been cancelled", of(run));
            self.violated(Rule::NoneAfterCancel, what);
        }
        let facts = facts.cloned().unwrap_or_default();
        let foreign = facts.run.into_iter().chain(facts.others).find(|found| Some(*found) != run);
        if let Some(foreign) = foreign {
            let what = format!("the answer to {id} ({}) holds output of run {foreign}", of(run));
            self.violated(Rule::OwnOutput, what);
        }
        if run.is_none() {
            // What was cancelled before this was asked had been read when this was answered.
            let before = |ask: &&mut Ask| ask.cancelled_at.is_some_and(|cancelled| cancelled < asked_at);
            asks.iter_mut().filter(before).for_each(|ask| ask.is_gone = true);
        }
    }

    fn calls(&mut self, asks: &[Ask], ledger: &[Entry], ended_at: u64) {
        let place: HashMap<u64, usize> =
            asks.iter().enumerate().filter_map(|(index, ask)| Some((ask.run?, index))).collect();
        let mut latest: HashMap<i32, (usize, u64)> = HashMap::new();
        let mut open: BTreeMap<usize, usize> = BTreeMap::new();
        for entry in ledger {
            let number = entry.number;
            let Some(&index) = place.get(&entry.run()) else {
                self.violated(
                    Rule::NotAfterItsRun,
                    format!("call {number} belongs to no run of this bridge"),
                );
                continue;
            };
            if entry.is_stray() {
                let runs = &asks[index..];
                let in_a_run =
                    |ask: &Ask| ask.run.is_some() && ask.at <= entry.at && entry.at <= end(ask, ended_at);
                if !runs.iter().any(in_a_run) {
                    let what =
                        format!("call {number} of what outlived its run came while no run was under way");
                    self.violated(Rule::NotAfterItsRun, what);
                }
                continue;
            }
            let ask = &asks[index];
            if ask.facts.as_ref().is_some_and(|facts| !facts.is_started) {
                let what = format!("call {number} was made by a run that was said not to have started");
                self.violated(Rule::NotAfterItsRun, what);
            }
            let end = end(ask, ended_at);
            if entry.at > end {
                let what =
                    format!("call {number} came {} ms after its run was over", (entry.at - end) / 1_000_000);
                self.violated(Rule::NotAfterItsRun, what);
            }
            let last = latest.entry(entry.pid).or_insert((index, number));
            if index < last.0 {
                let what =
                    format!("call {number} of an earlier run came after call {} of a later one", last.1);
                self.violated(Rule::InOrder, what);
            }
            *last = (*last).max((index, number));
            let is_open = |answered_at| entry.answered_at.is_none_or(|at| at > answered_at);
            if ask.answered_at.is_some_and(is_open) {
                *open.entry(index).or_default() += 1;
            }
        }
        for (index, calls) in open {
            let said = asks[index].facts.as_ref().map_or(0, |facts| facts.unknown);
            if said < calls {
                let what = format!(
                    "{calls} calls of {} were under way at its end, and {said} were said to have an unknown outcome",
                    of(asks[index].run)
                );
                self.violated(Rule::UnknownIsSaid, what);
            }
        }
        let done: BTreeSet<u64> = ledger.iter().map(|entry| entry.number).collect();
        for facts in asks.iter().filter_map(|ask| ask.facts.as_ref()) {
            for number in facts.saw.iter().filter(|number| !done.contains(number)) {
                let what = format!("the code saw call {number} succeed, and no server has got it");
                self.violated(Rule::SeenIsDone, what);
            }
            for (number, code) in &facts.failed {
                if NOT_SENT.contains(&code.as_str()) && done.contains(number) {
                    let what = format!("the code was told {code} of call {number}, and a server has got it");
                    self.violated(Rule::RefusedIsNotDone, what);
                }
            }
        }
    }

    /// Goes through the runs in the order in which they were asked for, with what the variables may be.
    fn state(&mut self, asks: &[Ask]) {
        let mut possible: BTreeSet<Option<u64>> = BTreeSet::from([None]);
        // What they have been since they were last empty.
        let mut past: BTreeSet<Option<u64>> = BTreeSet::from([None]);
        // Runs without an answer since the last that had one.
        let mut unanswered: BTreeSet<Option<u64>> = BTreeSet::new();
        for ask in asks {
            let Some(run) = ask.run else { continue };
            let Some(facts) = &ask.facts else {
                // Cancelled, or without an answer at the end: it may have run or not.
                possible.insert(Some(run));
                past.insert(Some(run));
                unanswered.insert(Some(run));
                continue;
            };
            if !facts.is_started {
                continue;
            }
            if facts.is_fresh {
                possible = BTreeSet::from([None]);
                past = possible.clone();
            } else if facts.was_fresh_before {
                possible = unanswered.clone();
                possible.insert(None);
                past = possible.clone();
            } else if facts.went_back_before {
                possible.clone_from(&past);
            }
            unanswered.clear();
            if facts.run.is_some() {
                if !possible.contains(&facts.found) {
                    let what = format!(
                        "run {run} found the variables of {}, and nothing said that they were not those of {}",
                        of(facts.found),
                        possible.iter().map(|run| of(*run)).collect::<Vec<_>>().join(" or ")
                    );
                    self.violated(Rule::LossIsSaid, what);
                }
                possible = BTreeSet::from([facts.found]);
            }
            match facts.state {
                State::Kept if facts.run.is_some() => possible = BTreeSet::from([Some(run)]),
                // Ended before it could say what it found.
                State::Kept => {
                    possible.insert(Some(run));
                }
                State::AsBefore => {}
                State::AsEarlier => possible.clone_from(&past),
                State::Lost => {
                    possible = BTreeSet::from([None]);
                    past = possible.clone();
                }
            }
            past.extend(&possible);
        }
    }
}

/// Until when calls of the request may come.
fn end(ask: &Ask, ended_at: u64) -> u64 {
    match (ask.answered_at, &ask.facts, ask.cancelled_at) {
        (Some(at), Some(facts), _) if facts.unknown == 0 => at,
        (Some(at), ..) => at + LATE_NS,
        (None, _, Some(cancelled_at)) => cancelled_at + LATE_NS,
        (None, _, None) => ended_at + LATE_NS,
    }
}

fn of(run: Option<u64>) -> String {
    run.map_or_else(|| "no run".to_owned(), |run| format!("run {run}"))
}
