//! The use of a session's budgets, the kinds of data that it has touched, and the approvals of the human.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde_json::Map;

use super::arguments::fit;
use super::names::Names;
use super::pattern::Pattern;
use super::policy_call::{CallArguments, PolicyCall};
use super::rules::{Label, Policy};
use super::verdict::Effect;

/// The largest number of approvals of one session that are stored.
const PLANS_MAX: usize = 100;

/// Further calls that a human has approved in one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The server's name.
    pub server: String,
    /// The server's alias, which labels may name.
    pub alias: String,
    /// The tool's name.
    pub tool: String,
    /// The number of further calls.
    pub calls: NonZeroU32,
    /// The arguments that they must have, as in a rule that allows. A path may be repeated.
    pub arguments: Vec<(String, Pattern)>,
}

/// The use of the budgets in one session, with the approvals.
#[derive(Debug, Default)]
pub struct Ledger {
    session: CallUsage,
    has_private: bool,
    has_untrusted: bool,
    plans: Vec<Plan>,
}

/// The use of the budgets by one run and its jobs.
#[derive(Debug, Default)]
pub struct RunBudget {
    used: CallUsage,
    /// Tools that the human is not asked about again.
    refused: BTreeMap<(String, String), String>,
    /// The number of questions that the human was asked.
    questions: usize,
}

/// The calls and bytes that were counted.
#[derive(Debug, Default, Clone, Copy)]
struct CallUsage {
    calls: u64,
    bytes: u64,
}

impl Ledger {
    /// Whether the session has touched both private and untrusted data.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        self.has_private && self.has_untrusted
    }

    /// Checks that the budgets cover one more call with this many bytes of arguments.
    ///
    /// # Errors
    /// The first budget that does not cover the call.
    pub fn covers(&self, policy: &Policy, run: &RunBudget, bytes: u64) -> Result<(), String> {
        let budgets = &policy.budgets;
        for (used, calls_max, what) in
            [(run.used, budgets.calls_per_run, "run"), (self.session, budgets.calls_per_session, "session")]
        {
            if calls_max.is_some_and(|max| used.calls >= max) {
                return Err(format!(
                    "budgets.calls_per_{what}: {} calls are all that it may make",
                    used.calls
                ));
            }
        }
        self.covers_bytes(policy, run, bytes)
    }

    /// Counts a call that is about to be made.
    ///
    /// # Errors
    /// As in [`Self::covers`]. Nothing is counted then.
    pub fn charge(&mut self, policy: &Policy, run: &mut RunBudget, bytes: u64) -> Result<(), String> {
        self.covers(policy, run, bytes)?;
        for used in [&mut run.used, &mut self.session] {
            used.calls += 1;
            used.bytes = used.bytes.saturating_add(bytes);
        }
        Ok(())
    }

    /// Counts an answer: its bytes, and the labels of its server.
    ///
    /// # Errors
    /// The first budget that does not cover the answer, which code must not get. Its bytes are not counted then.
    pub fn answered(
        &mut self,
        policy: &Policy,
        run: &mut RunBudget,
        server: Names<'_>,
        bytes: u64,
    ) -> Result<(), String> {
        self.touch(policy, server);
        self.covers_bytes(policy, run, bytes)?;
        for used in [&mut run.used, &mut self.session] {
            used.bytes = used.bytes.saturating_add(bytes);
        }
        Ok(())
    }

    /// Notes that code has data of this server.
    pub fn touch(&mut self, policy: &Policy, server: Names<'_>) {
        let was_mixed = self.is_mixed();
        self.has_private |= policy.labels.has(Label::Private, server);
        self.has_untrusted |= policy.labels.has(Label::Untrusted, server);
        if self.is_mixed() && !was_mixed {
            // The human has approved the further calls of servers that let data out while there was no danger in them.
            let lets_out = |plan: &Plan| {
                policy.labels.has(Label::Egress, Names { name: &plan.server, alias: &plan.alias })
            };
            self.plans.retain(|plan| !lets_out(plan));
        }
    }

    fn covers_bytes(&self, policy: &Policy, run: &RunBudget, bytes: u64) -> Result<(), String> {
        let budgets = &policy.budgets;
        for (used, max, what) in [
            (run.used.bytes, budgets.bytes_per_run, "run"),
            (self.session.bytes, budgets.bytes_per_session, "session"),
        ] {
            if let Some(max) = max.filter(|max| used.saturating_add(bytes) > *max) {
                return Err(format!("budgets.bytes_per_{what}: {used} of {max} bytes are used"));
            }
        }
        Ok(())
    }

    /// Stores an approval of further calls. If there are too many, the oldest is dropped.
    pub fn approve(&mut self, plan: Plan) {
        if self.plans.len() == PLANS_MAX {
            self.plans.remove(0);
        }
        self.plans.push(plan);
    }

    /// Drops all approvals, so that the human is asked again.
    pub fn forget_approvals(&mut self) {
        self.plans.clear();
    }

    /// The approvals of further calls of this tool.
    #[must_use]
    pub fn approved(&self, called: &PolicyCall<'_>) -> Vec<Plan> {
        let is_about = |plan: &&Plan| plan.server == called.server.name && plan.tool == called.tool.name;
        self.plans.iter().filter(is_about).cloned().collect()
    }

    /// Uses up one call of an approval. Returns whether the approval still exists.
    pub fn take(&mut self, approved: &Plan) -> bool {
        let Some(at) = self.plans.iter().position(|plan| plan == approved) else { return false };
        match NonZeroU32::new(self.plans[at].calls.get() - 1) {
            Some(left) => self.plans[at].calls = left,
            None => {
                self.plans.remove(at);
            }
        }
        true
    }
}

impl RunBudget {
    /// Counts a question to the human, and returns its number in the run.
    pub fn count_question(&mut self) -> usize {
        self.questions += 1;
        self.questions
    }

    /// Notes that the human did not approve a call of this tool. They are not asked about it again in this run.
    pub fn refuse(&mut self, called: &PolicyCall<'_>, why: String) {
        self.refused.insert((called.server.name.to_owned(), called.tool.name.to_owned()), why);
    }

    /// The reason why the human is not asked about the tool again; `None`: they may be asked.
    #[must_use]
    pub fn earlier_refusal(&self, called: &PolicyCall<'_>) -> Option<&str> {
        self.refused.get(&(called.server.name.to_owned(), called.tool.name.to_owned())).map(String::as_str)
    }
}

impl Plan {
    /// Whether it is an approval of calls with these arguments. It can take long to compare them.
    #[must_use]
    pub fn covers(&self, arguments: &CallArguments) -> bool {
        let values = [&*arguments.given, &Map::new()];
        let mut conditions = self.arguments.iter();
        (self.arguments.is_empty() || arguments.unchecked.is_none())
            && conditions.all(|(path, pattern)| fit(values, (path, pattern), Effect::Loosens))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn take(ledger: &mut Ledger, called: &PolicyCall<'_>) -> bool {
        let plan = ledger.approved(called).into_iter().find(|plan| plan.covers(called.arguments));
        plan.is_some_and(|plan| ledger.take(&plan))
    }

    fn policy(json: Value) -> Policy {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn budgets_hold_for_runs_and_sessions_and_what_is_refused_is_not_counted() {
        let policy = policy(json!({"budgets": {"calls_per_run": 2, "calls_per_session": 3}}));
        let (mut ledger, mut run) = (Ledger::default(), RunBudget::default());
        assert_eq!(ledger.charge(&policy, &mut run, 1), Ok(()));
        assert_eq!(ledger.charge(&policy, &mut run, 1), Ok(()));
        let refusal = ledger.charge(&policy, &mut run, 1).unwrap_err();
        assert_eq!(refusal, "budgets.calls_per_run: 2 calls are all that it may make");
        let mut next = RunBudget::default();
        assert_eq!(ledger.charge(&policy, &mut next, 1), Ok(()));
        let refusal = ledger.charge(&policy, &mut next, 1).unwrap_err();
        assert!(refusal.starts_with("budgets.calls_per_session: 3 calls"), "{refusal}");
    }

    #[test]
    fn bytes_of_arguments_and_answers_count() {
        let policy = policy(json!({"budgets": {"bytes_per_run": 100, "bytes_per_session": 1_000}}));
        let (mut ledger, mut run) = (Ledger::default(), RunBudget::default());
        assert_eq!(ledger.charge(&policy, &mut run, 100), Ok(()));
        let refusal = ledger.charge(&policy, &mut run, 1).unwrap_err();
        assert_eq!(refusal, "budgets.bytes_per_run: 100 of 100 bytes are used");
        let mut next = RunBudget::default();
        assert_eq!(ledger.charge(&policy, &mut next, 0), Ok(()));
        let withheld = ledger.answered(&policy, &mut next, Names::only("s"), 101).unwrap_err();
        assert_eq!(withheld, "budgets.bytes_per_run: 0 of 100 bytes are used");
        assert_eq!(ledger.answered(&policy, &mut next, Names::only("s"), 100), Ok(()));
        assert!(ledger.answered(&policy, &mut next, Names::only("s"), 1).is_err());
        for _ in 2..10 {
            let answered = ledger.answered(&policy, &mut RunBudget::default(), Names::only("s"), 100);
            assert_eq!(answered, Ok(()));
        }
        let refusal = ledger.charge(&policy, &mut RunBudget::default(), 1).unwrap_err();
        assert_eq!(refusal, "budgets.bytes_per_session: 1000 of 1000 bytes are used");
        let unlimited = Ledger::default().charge(&Policy::default(), &mut RunBudget::default(), u64::MAX);
        assert_eq!(unlimited, Ok(()));
    }

    #[test]
    fn only_answers_touch_data_and_both_kinds_make_a_mixture() {
        let policy = policy(json!({"labels": {"private": ["mail*"], "untrusted": ["web"]}}));
        let (mut ledger, mut run) = (Ledger::default(), RunBudget::default());
        ledger.charge(&policy, &mut run, 1).unwrap();
        ledger.answered(&policy, &mut run, Names::only("mailbox"), 1).unwrap();
        assert!(!ledger.is_mixed());
        ledger.answered(&policy, &mut RunBudget::default(), Names::only("web"), 1).unwrap();
        assert!(ledger.is_mixed());
    }

    #[test]
    fn what_was_approved_before_the_mixture_is_asked_for_again_where_data_can_leave() {
        let labels = json!({"private": ["mail"], "untrusted": ["web"], "egress": ["chat_"]});
        let policy = policy(json!({ "labels": labels }));
        let none = Map::new();
        let mut ledger = Ledger::default();
        for server in ["chat", "files"] {
            let calls = NonZeroU32::new(50).unwrap();
            let (server, tool) = (server.to_owned(), "t".to_owned());
            ledger.approve(Plan { alias: format!("{server}_"), server, tool, calls, arguments: vec![] });
        }
        let is_approved = |ledger: &mut Ledger| {
            ["chat", "files"].map(|server| {
                let (server, tool) = (Names::only(server), Names::only("t"));
                take(
                    ledger,
                    &PolicyCall { server, tool, annotations: &none, arguments: &none.clone().into() },
                )
            })
        };
        ledger.touch(&policy, Names::only("mail"));
        assert_eq!(is_approved(&mut ledger), [true, true]);
        ledger.touch(&policy, Names::only("web"));
        assert_eq!(is_approved(&mut ledger), [false, true]);
    }

    #[test]
    fn a_plan_covers_so_many_calls_of_one_tool_with_such_arguments() {
        let none = Map::new();
        let called = |server: &'static str, tool: &'static str, arguments: Value| (server, tool, arguments);
        let mut ledger = Ledger::default();
        ledger.approve(Plan {
            server: "files".into(),
            alias: "files".into(),
            tool: "write".into(),
            calls: NonZeroU32::new(2).unwrap(),
            arguments: ["/data/*", "/*"].map(|text| ("path".into(), Pattern::new(text).unwrap())).into(),
        });
        let mut taken = |(server, tool, arguments): (&str, &str, Value)| {
            let arguments = arguments.as_object().unwrap().clone().into();
            let (server, tool) = (Names::only(server), Names::only(tool));
            take(&mut ledger, &PolicyCall { server, tool, annotations: &none, arguments: &arguments })
        };
        assert!(!taken(called("files", "write", json!({"path": "/etc/a"}))));
        assert!(!taken(called("files", "write", json!({"path": ["/data/a", "/etc/a"]}))));
        assert!(!taken(called("files", "write", json!({"path": "/data/../etc/a"}))));
        assert!(!taken(called("files", "write", json!({}))));
        assert!(!taken(called("files", "delete", json!({"path": "/data/a"}))));
        assert!(!taken(called("other", "write", json!({"path": "/data/a"}))));
        assert!(taken(called("files", "write", json!({"path": "/data/a"}))));
        assert!(taken(called("files", "write", json!({"path": "/data/b"}))));
        assert!(!taken(called("files", "write", json!({"path": "/data/c"}))));
    }
}
