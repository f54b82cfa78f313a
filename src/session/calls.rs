//! Counts the calls of a run by tool and outcome, within a bound that loses no call.
//!
//! It makes no call and knows no frames; whether a tool writes is filled in by whoever knows the tools.

use std::collections::HashMap;

use crate::names::ServerName;
use crate::run::{CallCounts, CallOutcome, Calls, ToolCalls, ToolEffect};

/// Tools of one run that are counted each by itself; further ones are counted together.
const TOOLS_MAX: usize = 1000;

/// The calls of one run so far.
#[derive(Debug, Default)]
pub(super) struct CallLog {
    calls: Calls,
    places: HashMap<(ServerName, String), usize>,
}

/// Where a call is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// With its tool.
    Tool(usize),
    /// Among those of further tools.
    Others,
    /// Nowhere: it is one of a helper of the bridge.
    Nowhere,
}

impl CallLog {
    /// A call begins: until it is told otherwise, its outcome is unknown.
    pub(super) fn begin(&mut self, server: ServerName, tool: String) -> Counted {
        let next = self.calls.of_tools.len();
        let place = match self.places.get(&(server.clone(), tool.clone())) {
            Some(place) => Counted::Tool(*place),
            None if next < TOOLS_MAX => {
                self.places.insert((server.clone(), tool.clone()), next);
                let counts = CallCounts::default();
                self.calls.of_tools.push(ToolCalls { server, tool, effect: ToolEffect::MayWrite, counts });
                Counted::Tool(next)
            }
            None => Counted::Others,
        };
        if let Some(counts) = counts(&mut self.calls, place) {
            counts.unknown += 1;
        }
        place
    }

    /// A call that began has ended.
    pub(super) fn end(&mut self, place: Counted, outcome: CallOutcome) {
        end(&mut self.calls, place, outcome);
    }

    /// What has been counted.
    pub(super) fn finish(self) -> Calls {
        self.calls
    }
}

/// One of the calls, which began, has ended.
pub(super) fn end(calls: &mut Calls, place: Counted, outcome: CallOutcome) {
    if let Some(counts) = counts(calls, place)
        && let Some(unknown) = counts.unknown.checked_sub(1)
    {
        counts.unknown = unknown;
        *counts.of(outcome) += 1;
    }
}

fn counts(calls: &mut Calls, place: Counted) -> Option<&mut CallCounts> {
    match place {
        Counted::Tool(at) => calls.of_tools.get_mut(at).map(|tool| &mut tool.counts),
        Counted::Others => Some(&mut calls.others),
        Counted::Nowhere => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ServerName {
        ServerName::new("s").unwrap()
    }

    #[test]
    fn calls_are_counted_by_tool_and_outcome_in_the_order_of_the_first() {
        let mut log = CallLog::default();
        let places = ["b", "a", "b", "b"].map(|tool| log.begin(name(), tool.into()));
        log.end(places[0], CallOutcome::Answered);
        log.end(places[1], CallOutcome::Failed);
        log.end(places[2], CallOutcome::Refused);
        log.end(Counted::Nowhere, CallOutcome::Answered);
        let calls = log.finish();
        let seen: Vec<_> = calls.of_tools.iter().map(|tool| (tool.tool.as_str(), tool.counts)).collect();
        let b = CallCounts { answered: 1, refused: 1, unknown: 1, ..CallCounts::default() };
        let a = CallCounts { failed: 1, ..CallCounts::default() };
        assert_eq!(seen, [("b", b), ("a", a)]);
        assert_eq!(calls.others, CallCounts::default());
    }

    #[test]
    fn beyond_the_bound_no_call_is_lost() {
        let mut log = CallLog::default();
        for number in 0..TOOLS_MAX + 5 {
            let place = log.begin(name(), number.to_string());
            log.end(place, CallOutcome::Answered);
        }
        log.begin(name(), "0".into());
        let calls = log.finish();
        assert_eq!((calls.of_tools.len(), calls.others.answered), (TOOLS_MAX, 5));
        assert_eq!(calls.of_tools[0].counts.total(), 2);
    }
}
