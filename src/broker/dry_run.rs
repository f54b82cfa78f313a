//! The calls that a dry run has listed instead of making them.
//!
//! It lets nothing pass and asks nobody; it only remembers, for whoever reads the run's report.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::call::Answer;
use super::failures::redact;
use crate::policy::Called;
use crate::run::{Planned, PlannedCall};
use crate::text;

/// Calls of one run that are listed; further ones are counted.
const LISTED_MAX: usize = 1000;
/// Longest arguments that are listed, in characters.
const ARGUMENTS_CHARS_MAX: usize = 2_000;

/// What the run under way has listed.
#[derive(Default)]
pub(super) struct DryRun(Mutex<Planned>);

impl DryRun {
    pub(super) fn begin_run(&self) {
        drop(self.take());
    }

    /// Remembers the call; what is answered to it.
    pub(super) fn list(
        &self,
        called: &Called<'_>,
        asks: bool,
        redacted: &dyn Fn(String) -> String,
    ) -> Answer {
        let mut planned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if planned.calls.len() < LISTED_MAX {
            let mut arguments = Value::Object(called.arguments.clone());
            redact(&mut arguments, redacted);
            planned.calls.push(PlannedCall {
                server: called.server.name.to_owned(),
                tool: called.tool.name.to_owned(),
                arguments: text::inert_excerpt(&arguments.to_string(), ARGUMENTS_CHARS_MAX),
                asks,
            });
        } else {
            planned.further += 1;
        }
        Answer::Planned { server: called.server.name.to_owned(), tool: called.tool.name.to_owned() }
    }

    /// What has been listed since the run began.
    pub(super) fn take(&self) -> Planned {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
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
        for _ in 0..LISTED_MAX + 3 {
            dry_run.list(&called, true, &|text| text.replace("hunter22", "${TOKEN}"));
        }
        let planned = dry_run.take();
        assert_eq!((planned.calls.len(), planned.further), (LISTED_MAX, 3));
        assert!(planned.calls[0].asks && planned.calls[0].arguments.chars().count() <= ARGUMENTS_CHARS_MAX);
        assert_eq!(dry_run.take(), Planned::default());
        let short = json!({"token": "hunter22"});
        dry_run.list(&Called { arguments: short.as_object().unwrap(), ..called }, false, &|text| {
            text.replace("hunter22", "${TOKEN}")
        });
        assert_eq!(dry_run.take().calls[0].arguments, r#"{"token":"${TOKEN}"}"#);
    }
}
