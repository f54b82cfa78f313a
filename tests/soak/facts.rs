//! What a reply says, as far as the checks need it: the marks that the run's code printed, and belljar's own sentences.
//!
//! It judges nothing.

use serde::Serialize;

/// Of one reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The run whose mark is in it, and the last run whose variables that one found; nothing for none.
    pub run: Option<u64>,
    pub found: Option<u64>,
    /// Marks of further runs.
    pub others: Vec<u64>,
    /// Calls that the code saw answered.
    pub saw: Vec<u64>,
    /// Calls that the code saw fail, with the fault's code.
    pub failed: Vec<(u64, String)>,
    pub state: State,
    /// Whether it says that the run began with an empty namespace, for a reason that it gives.
    pub is_fresh: bool,
    /// Whether it says so of a run before it that was cancelled.
    pub was_fresh_before: bool,
    /// Whether it says that variables had gone back by more than one run before this one began.
    pub went_back_before: bool,
    /// How many calls it says may have taken effect.
    pub unknown: usize,
    /// Whether the code was given to an interpreter.
    pub is_started: bool,
}

/// What it says of the variables after the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing, or that they are kept.
    #[default]
    Kept,
    AsBefore,
    AsEarlier,
    Lost,
}

impl Facts {
    pub fn of(text: &str, is_error: bool) -> Self {
        let mut facts = Self::default();
        let mut says_state = false;
        for line in text.lines() {
            if let Some(mark) = line.strip_prefix("@run ") {
                facts.mark(mark);
            } else if let Some(number) = line.strip_prefix("@saw ") {
                facts.saw.extend(number.parse::<u64>());
            } else if let Some((number, code)) =
                line.strip_prefix("@not ").and_then(|rest| rest.split_once(' '))
            {
                facts.failed.extend(number.parse().map(|number| (number, code.to_owned())));
            } else if let Some(sentence) = line.strip_prefix("state: ") {
                says_state = true;
                facts.said(sentence);
            } else if let Some(note) = line.strip_prefix("note: ") {
                facts.was_fresh_before |=
                    note.starts_with("a run that was cancelled began in a fresh interpreter");
                facts.is_fresh |= note.starts_with("the run began in a fresh interpreter");
                facts.went_back_before |= note.starts_with("variables are as after an earlier run");
                // It was made anew from its journal, and not all of it could be.
                facts.went_back_before |=
                    note.starts_with("this session goes on from ") && note.contains(" was left out");
            } else if let Some(calls) = line.strip_prefix("calls with unknown outcome ") {
                facts.unknown = unknown(calls);
            }
        }
        facts.is_started = facts.run.is_some() || says_state || !is_error;
        facts
    }

    fn mark(&mut self, mark: &str) {
        let mut numbers = mark.split(' ').map(|word| word.parse().ok());
        let Some(run) = numbers.next().flatten() else { return };
        if self.run.is_some() {
            self.others.push(run);
        } else {
            (self.run, self.found) = (Some(run), numbers.next().flatten());
        }
    }

    fn said(&mut self, sentence: &str) {
        match sentence {
            "variables as before this run" => self.state = State::AsBefore,
            "variables as after an earlier run; what later runs changed is gone" => {
                self.state = State::AsEarlier
            }
            _ if sentence.starts_with("variables lost") => self.state = State::Lost,
            _ => self.is_fresh |= sentence.starts_with("fresh interpreter"),
        }
    }
}

/// `(they may have taken effect): a.b, a.c × 2 and 3 more`.
fn unknown(calls: &str) -> usize {
    let calls = calls.split_once("): ").map_or(calls, |(_, calls)| calls);
    let (named, more) = match calls.rsplit_once(" and ") {
        Some((named, more)) => (named, number(more.trim_end_matches(" more"))),
        None => (calls, 0),
    };
    let of_tools =
        named.split(", ").map(|tool| tool.rsplit_once(" × ").map_or(1, |(_, times)| number(times)));
    of_tools.sum::<usize>() + more
}

/// Written in groups of three digits.
fn number(text: &str) -> usize {
    text.replace(',', "").parse().unwrap_or(0)
}
