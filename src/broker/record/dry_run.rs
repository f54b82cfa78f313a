//! The calls that a dry run has listed instead of making them.
//!
//! It lets nothing pass and asks nobody; it only remembers, for whoever reads the run's report.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::broker::failure_text::redact;
use crate::names::RunId;
use crate::policy::Called;
use crate::run::{NotMade, Planned, PlannedCall};
use crate::text;

/// Calls of one run that are listed; further ones are counted.
const LISTED_MAX: usize = 1000;
/// Longest arguments that are listed, in characters.
const ARGUMENTS_CHARS_MAX: usize = 2_000;
/// What the run under way and its jobs have listed.
#[derive(Default)]
pub(in crate::broker) struct DryRun(Mutex<OfRun>);

#[derive(Default)]
struct OfRun {
    /// The run under way; nothing between two runs.
    run: Option<RunId>,
    planned: Planned,
}

impl DryRun {
    pub(in crate::broker) fn begin_run(&self, run: RunId) {
        *self.of_run() = OfRun { run: Some(run), planned: Planned::default() };
    }

    /// Remembers the call. False: it is one of a job whose run has ended, and no run lists it.
    #[must_use]
    pub(in crate::broker) fn list(
        &self,
        run: RunId,
        called: &Called<'_>,
        (asks, why): (bool, NotMade),
        redacted: &dyn Fn(String) -> String,
    ) -> bool {
        let mut of_run = self.of_run();
        if of_run.run != Some(run) {
            return false;
        }
        let planned = &mut of_run.planned;
        if planned.calls.len() < LISTED_MAX {
            let mut arguments = Value::Object(called.arguments.clone());
            redact(&mut arguments, redacted);
            planned.calls.push(PlannedCall {
                server: called.server.name.to_owned(),
                tool: called.tool.name.to_owned(),
                arguments: text::inert_excerpt(&arguments.to_string(), ARGUMENTS_CHARS_MAX),
                asks,
                why,
            });
        } else {
            planned.further += 1;
        }
        true
    }

    /// What has been listed since the run began, which ends now.
    pub(in crate::broker) fn take(&self) -> Planned {
        std::mem::take(&mut *self.of_run()).planned
    }

    fn of_run(&self) -> MutexGuard<'_, OfRun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::policy::{Implied, Names};

    #[test]
    fn what_is_listed_is_bounded_and_no_call_is_lost() {
        let (dry_run, none) = (DryRun::default(), Map::new());
        let arguments = json!({"text": "x".repeat(5_000), "token": "hunter22"});
        let called = Called {
            server: Names::only("s"),
            tool: Names::only("t"),
            annotations: &none,
            arguments: arguments.as_object().unwrap(),
            implied: &Implied::default(),
        };
        dry_run.begin_run(RunId(1));
        for _ in 0..LISTED_MAX + 3 {
            assert!(dry_run.list(RunId(1), &called, (true, NotMade::NotMarkedReadOnly), &|text| {
                text.replace("hunter22", "${TOKEN}")
            }));
        }
        let planned = dry_run.take();
        assert_eq!((planned.calls.len(), planned.further), (LISTED_MAX, 3));
        assert!(planned.calls[0].asks && planned.calls[0].arguments.chars().count() <= ARGUMENTS_CHARS_MAX);
        assert_eq!(dry_run.take(), Planned::default());
        let short = json!({"token": "hunter22"});
        let called = Called { arguments: short.as_object().unwrap(), ..called };
        dry_run.begin_run(RunId(2));
        assert!(dry_run.list(RunId(2), &called, (false, NotMade::NotMarkedReadOnly), &|text| {
            text.replace("hunter22", "${TOKEN}")
        }));
        assert_eq!(dry_run.take().calls[0].arguments, r#"{"token":"${TOKEN}"}"#);
    }

    #[test]
    fn a_job_of_an_earlier_run_plans_nothing_in_a_later_one() {
        let (dry_run, none, implied) = (DryRun::default(), Map::new(), Implied::default());
        let called = Called {
            server: Names::only("s"),
            tool: Names::only("t"),
            annotations: &none,
            arguments: &none,
            implied: &implied,
        };
        let list = |run| dry_run.list(RunId(run), &called, (false, NotMade::NotMarkedReadOnly), &|text| text);
        dry_run.begin_run(RunId(1));
        assert!(list(1));
        assert_eq!(dry_run.take().calls.len(), 1);
        assert!(!list(1), "between two runs");
        dry_run.begin_run(RunId(2));
        assert!(!list(1));
        assert_eq!(dry_run.take(), Planned::default());
    }
}
