//! What a session has used of its budgets, which data it has touched, and what the human has approved.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::arguments::fit;
use super::called::Called;
use super::names::Names;
use super::pattern::Pattern;
use super::rules::{Label, Policy};
use super::verdict::Effect;

/// Most approvals of one session that are kept.
const PLANS_MAX: usize = 100;

/// Calls that a human has approved at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The server's name.
    pub server: String,
    /// The tool's.
    pub tool: String,
    /// How many calls more.
    pub calls: NonZeroU32,
    /// Of which arguments, as in a rule that allows; one path may stand there several times.
    pub arguments: Vec<(String, Pattern)>,
}

/// Of one session.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The present run, and earlier ones whose jobs go on, by number.
    runs: BTreeMap<u64, OfRun>,
    session: Used,
    has_private: bool,
    has_untrusted: bool,
    plans: Vec<Plan>,
}

/// Of one run with its jobs.
#[derive(Debug, Default)]
struct OfRun {
    used: Used,
    /// Tools that the human is not asked about again.
    refused: BTreeMap<(String, String), NotAgain>,
    /// What they were asked.
    questions: usize,
}

/// Why the human is not asked again about a tool in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAgain {
    /// They have refused it.
    Refused,
    /// They could not be asked, or have not answered.
    Unable {
        /// Why.
        reason: String,
    },
}

#[derive(Debug, Default, Clone, Copy)]
struct Used {
    calls: u64,
    bytes: u64,
}

impl Ledger {
    /// A run begins, with whole budgets; those of earlier ones stay as they are where `goes_on` says so.
    pub fn begin_run(&mut self, run: u64, goes_on: &dyn Fn(u64) -> bool) {
        self.runs.retain(|earlier, _| goes_on(*earlier));
        self.runs.insert(run, OfRun::default());
    }

    /// Whether private and untrusted data have met.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        self.has_private && self.has_untrusted
    }

    /// Whether the budgets cover one more call with so many bytes of arguments.
    ///
    /// # Errors
    /// The budget that does not.
    pub fn covers(&self, policy: &Policy, run: u64, bytes: u64) -> Result<(), String> {
        let budgets = &policy.budgets;
        let of_run = self.runs.get(&run).map(|run| run.used).unwrap_or_default();
        for (used, calls_max, bytes_max, what) in [
            (of_run, budgets.calls_per_run, budgets.bytes_per_run, "run"),
            (self.session, budgets.calls_per_session, budgets.bytes_per_session, "session"),
        ] {
            if calls_max.is_some_and(|max| used.calls >= max) {
                return Err(format!(
                    "budgets.calls_per_{what}: {} calls are all that it may make",
                    used.calls
                ));
            }
            if let Some(max) = bytes_max.filter(|max| used.bytes.saturating_add(bytes) > *max) {
                return Err(format!("budgets.bytes_per_{what}: {} of {max} bytes are used", used.bytes));
            }
        }
        Ok(())
    }

    /// Counts a call that is about to be made.
    ///
    /// # Errors
    /// As [`Self::covers`]; then nothing is counted.
    pub fn charge(&mut self, policy: &Policy, run: u64, bytes: u64) -> Result<(), String> {
        self.covers(policy, run, bytes)?;
        for used in [&mut self.runs.entry(run).or_default().used, &mut self.session] {
            used.calls += 1;
            used.bytes = used.bytes.saturating_add(bytes);
        }
        Ok(())
    }

    /// Counts an answer: its bytes, and what its server's data are. What has come is not refused any more; the next call is.
    pub fn answered(&mut self, policy: &Policy, run: u64, server: Names<'_>, bytes: u64) {
        let of_run = self.runs.get_mut(&run).map(|run| &mut run.used);
        for used in of_run.into_iter().chain([&mut self.session]) {
            used.bytes = used.bytes.saturating_add(bytes);
        }
        self.has_private |= policy.labels.has(Label::Private, server);
        self.has_untrusted |= policy.labels.has(Label::Untrusted, server);
    }

    /// Keeps what a human has approved beyond the call that was asked for; the oldest is forgotten when there are too many.
    pub fn approve(&mut self, plan: Plan) {
        if self.plans.len() == PLANS_MAX {
            self.plans.remove(0);
        }
        self.plans.push(plan);
    }

    /// What has been approved so far has to be asked for again.
    pub fn forget_approvals(&mut self) {
        self.plans.clear();
    }

    /// Whether a call has been approved before; that uses up one call of the plan.
    pub fn take_approved(&mut self, called: &Called<'_>) -> bool {
        let Some(at) = self.plans.iter().position(|plan| plan.covers(called)) else { return false };
        match NonZeroU32::new(self.plans[at].calls.get() - 1) {
            Some(left) => self.plans[at].calls = left,
            None => {
                self.plans.remove(at);
            }
        }
        true
    }

    /// The human is asked; which question of the run it is.
    pub fn count_question(&mut self, run: u64) -> usize {
        let run = self.runs.entry(run).or_default();
        run.questions += 1;
        run.questions
    }

    /// The human has let no call of this tool pass: they are not asked about it again in this run.
    pub fn refuse(&mut self, run: u64, called: &Called<'_>, why: NotAgain) {
        let run = self.runs.entry(run).or_default();
        run.refused.insert((called.server.name.to_owned(), called.tool.name.to_owned()), why);
    }

    /// Why they are not asked about the tool again, if so.
    #[must_use]
    pub fn not_again(&self, run: u64, called: &Called<'_>) -> Option<&NotAgain> {
        self.runs.get(&run)?.refused.get(&(called.server.name.to_owned(), called.tool.name.to_owned()))
    }
}

impl Plan {
    fn covers(&self, called: &Called<'_>) -> bool {
        let mut conditions = self.arguments.iter();
        self.server == called.server.name
            && self.tool == called.tool.name
            && (self.arguments.is_empty() || called.implied.unchecked.is_none())
            && conditions.all(|(path, pattern)| fit(called, path, pattern, Effect::Loosens))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::policy::Implied;

    fn policy(json: Value) -> Policy {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn budgets_hold_for_runs_and_sessions_and_what_is_refused_is_not_counted() {
        let policy = policy(json!({"budgets": {"calls_per_run": 2, "calls_per_session": 3}}));
        let mut ledger = Ledger::default();
        assert_eq!(ledger.charge(&policy, 1, 1), Ok(()));
        assert_eq!(ledger.charge(&policy, 1, 1), Ok(()));
        let refusal = ledger.charge(&policy, 1, 1).unwrap_err();
        assert_eq!(refusal, "budgets.calls_per_run: 2 calls are all that it may make");
        ledger.begin_run(1, &|_| false);
        assert_eq!(ledger.charge(&policy, 1, 1), Ok(()));
        assert!(ledger.charge(&policy, 1, 1).unwrap_err().starts_with("budgets.calls_per_session: 3 calls"));
    }

    #[test]
    fn a_run_whose_jobs_go_on_keeps_what_is_left_of_its_budgets_and_gives_none_to_the_next() {
        let policy = policy(json!({"budgets": {"calls_per_run": 2}}));
        let mut ledger = Ledger::default();
        ledger.begin_run(1, &|_| false);
        ledger.charge(&policy, 1, 1).unwrap();
        ledger.begin_run(2, &|run| run == 1);
        assert_eq!((ledger.charge(&policy, 1, 1), ledger.charge(&policy, 2, 1)), (Ok(()), Ok(())));
        assert!(ledger.charge(&policy, 1, 1).is_err(), "its jobs have used up what it had");
        assert_eq!(ledger.charge(&policy, 2, 1), Ok(()));
        let none = Map::new();
        let (server, tool) = (Names::only("s"), Names::only("t"));
        let implied = Implied::default();
        let called = Called { server, tool, annotations: &none, arguments: &none, implied: &implied };
        ledger.refuse(1, &called, NotAgain::Refused);
        assert_eq!(
            (ledger.not_again(1, &called), ledger.not_again(2, &called)),
            (Some(&NotAgain::Refused), None)
        );
    }

    #[test]
    fn bytes_of_arguments_and_answers_count() {
        let policy = policy(json!({"budgets": {"bytes_per_run": 100, "bytes_per_session": 1_000}}));
        let mut ledger = Ledger::default();
        assert_eq!(ledger.charge(&policy, 1, 100), Ok(()));
        assert_eq!(
            ledger.charge(&policy, 1, 1).unwrap_err(),
            "budgets.bytes_per_run: 100 of 100 bytes are used"
        );
        ledger.begin_run(1, &|_| false);
        assert_eq!(ledger.charge(&policy, 1, 0), Ok(()));
        ledger.answered(&policy, 1, Names::only("s"), u64::MAX);
        ledger.begin_run(1, &|_| false);
        assert!(ledger.charge(&policy, 1, 0).is_err(), "the session's are used up");
        assert_eq!(Ledger::default().charge(&Policy::default(), 1, u64::MAX), Ok(()));
    }

    #[test]
    fn only_answers_touch_data_and_both_kinds_make_a_mixture() {
        let policy = policy(json!({"labels": {"private": ["mail*"], "untrusted": ["web"]}}));
        let mut ledger = Ledger::default();
        ledger.charge(&policy, 1, 1).unwrap();
        ledger.answered(&policy, 1, Names::only("mailbox"), 1);
        assert!(!ledger.is_mixed());
        ledger.begin_run(1, &|_| false);
        ledger.answered(&policy, 1, Names::only("web"), 1);
        assert!(ledger.is_mixed());
    }

    #[test]
    fn a_plan_covers_so_many_calls_of_one_tool_with_such_arguments() {
        let none = Map::new();
        let called = |server: &'static str, tool: &'static str, arguments: Value| (server, tool, arguments);
        let mut ledger = Ledger::default();
        ledger.approve(Plan {
            server: "files".into(),
            tool: "write".into(),
            calls: NonZeroU32::new(2).unwrap(),
            arguments: ["/data/*", "/*"].map(|text| ("path".into(), Pattern::new(text).unwrap())).into(),
        });
        let mut take = |(server, tool, arguments): (&str, &str, Value)| {
            let arguments = arguments.as_object().unwrap().clone();
            let (server, tool) = (Names::only(server), Names::only(tool));
            let implied = Implied::default();
            let called =
                Called { server, tool, annotations: &none, arguments: &arguments, implied: &implied };
            ledger.take_approved(&called)
        };
        assert!(!take(called("files", "write", json!({"path": "/etc/a"}))));
        assert!(!take(called("files", "write", json!({"path": ["/data/a", "/etc/a"]}))));
        assert!(!take(called("files", "write", json!({"path": "/data/../etc/a"}))));
        assert!(!take(called("files", "write", json!({}))));
        assert!(!take(called("files", "delete", json!({"path": "/data/a"}))));
        assert!(!take(called("other", "write", json!({"path": "/data/a"}))));
        assert!(take(called("files", "write", json!({"path": "/data/a"}))));
        assert!(take(called("files", "write", json!({"path": "/data/b"}))));
        assert!(!take(called("files", "write", json!({"path": "/data/c"}))));
    }
}
