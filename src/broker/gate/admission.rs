//! Admits calls according to the user's policy, asks the human where the policy says so, and counts calls.
//!
//! It decides on the host from what the host knows; nothing that code says about a call has an influence.

use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::problem::report;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use belljar_tools::policy::{Decision, Label, Ledger, Names, Plan, Policy, PolicyCall, Profile, Verdict};
use parking_lot::Mutex;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::argument_text::shown as shown_arguments;
use super::pins::{ComparisonContext, UNWRITABLE_HINT};
use crate::audit::AuditLog;
use crate::broker::human::Approval;
use crate::broker::run::context::RunContext;
use crate::config::PolicyFile;

/// Longest arguments in a question, in characters.
const ARGUMENTS_CHARS_MAX: usize = 4_000;
/// Longest reason in a fault or note, in characters.
const REASON_CHARS_MAX: usize = 300;
/// Longest reason for asking the human, in characters, in a fault that also gives the reason why they could not be
/// asked.
const BECAUSE_CHARS_MAX: usize = 150;

/// The gate that every call of a tool goes through.
pub(crate) struct Admission {
    policy: Mutex<PolicyFile>,
    log: Arc<AuditLog>,
    ledger: Mutex<Ledger>,
    /// Allows one question at a time: an answer may cover the calls that wait behind it.
    asking: tokio::sync::Mutex<()>,
    /// Allows one comparison at a time on another thread.
    comparing: Arc<tokio::sync::Mutex<()>>,
    approval_max: Duration,
    waiting_max: Duration,
    questions_max: usize,
}

impl Admission {
    pub(crate) fn new(policy: PolicyFile, log: Arc<AuditLog>, limits: &Limits) -> Self {
        Self {
            policy: Mutex::new(policy),
            log,
            ledger: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            comparing: Arc::default(),
            approval_max: limits.approval,
            waiting_max: limits.waiting_per_run,
            questions_max: limits.approvals_per_run_max,
        }
    }

    /// Begins a run, with the policy as the file has it now.
    pub(crate) fn begin(&self, run: &RunContext) {
        let changed = self.policy.lock().look();
        if let Some(problems) = changed {
            report(&problems);
            // The approvals were given under the earlier policy.
            self.ledger.lock().forget_approvals();
            run.note("the user has changed the policy".into());
        }
    }

    /// Drops the approvals of further calls, so that the human is asked again.
    pub(crate) fn forget_approvals(&self) {
        self.ledger.lock().forget_approvals();
    }

    /// Admits and counts the call. Returns the reason, for the audit log.
    ///
    /// # Errors
    /// `denied`, with the rule or setting that is the reason; `cancelled`.
    pub(crate) async fn admit(
        &self,
        run: &RunContext,
        called: &PolicyCall<'_>,
        bytes: u64,
        cancel: &CancellationToken,
    ) -> Result<String, ToolFault> {
        let used_up = |reason: String| denied(called, &reason).hint("the user sets budgets in policy.toml");
        let policy = self.policy();
        self.check_log(run, called, policy.profile)?;
        let by_rule = self.by_rule(&policy, called, cancel).await?;
        let decide = || -> Result<(Decision, bool), ToolFault> {
            let ledger = self.ledger.lock();
            ledger.covers(&policy, &run.budget().policy, bytes).map_err(used_up)?;
            Ok((policy.decide(called, by_rule.clone(), ledger.is_mixed()), ledger.is_mixed()))
        };
        let (mut decision, mut is_mixed) = decide()?;
        loop {
            match decision.verdict {
                Verdict::Allow => {}
                Verdict::Warn => run.warn(&shown(called), &bounded(&decision.because)),
                Verdict::Deny => return Err(denied_by_policy(called, &decision)),
                Verdict::Ask => self.ask(run, called, (&decision.because, is_mixed), cancel).await?,
            }
            // The session may have become mixed while the human was asked, who did not know that.
            let now = decide()?;
            if now.0 == decision {
                break;
            }
            (decision, is_mixed) = now;
        }
        // The budgets are checked again, since other calls may have been counted while the human was asked.
        self.ledger.lock().charge(&policy, &mut run.budget().policy, bytes).map_err(used_up)?;
        let word = match decision.verdict {
            Verdict::Allow => "allow",
            Verdict::Warn => "warn",
            Verdict::Ask | Verdict::Deny => "asked",
        };
        Ok(format!("{word}: {}", decision.because))
    }

    /// The decision of the rules.
    ///
    /// # Errors
    /// `cancelled`.
    async fn by_rule(
        &self,
        policy: &Arc<Policy>,
        called: &PolicyCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<Decision, ToolFault> {
        let rules = policy.about(called);
        if !policy.weighs_arguments(&rules) {
            return Ok(policy.by_rule(&rules, called.arguments));
        }
        let (policy, arguments) = (Arc::clone(policy), called.arguments.clone());
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                Err(ToolFault::new(FaultCode::Cancelled, "the run ended before the rules had decided"))
            }
            by_rule = self.compared(move || policy.by_rule(&rules, &arguments)) => {
                Ok(by_rule.unwrap_or_else(|broken| Decision {
                    verdict: Verdict::Deny,
                    because: format!("the rules could not be applied: {broken}"),
                }))
            }
        }
    }

    /// Compares arguments on another thread, for one call at a time.
    async fn compared<T: Send + 'static>(
        &self,
        compare: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turn = Arc::clone(&self.comparing).lock_owned().await;
        let compare = move || {
            let _turn = turn;
            compare()
        };
        tokio::task::spawn_blocking(compare).await
    }

    /// Checks that the call can be logged.
    fn check_log(
        &self,
        run: &RunContext,
        called: &PolicyCall<'_>,
        profile: Profile,
    ) -> Result<(), ToolFault> {
        let Some(reason) = self.log.trouble() else { return Ok(()) };
        let why = format!("the log of calls cannot be written ({})", bounded(&reason));
        if profile.needs_records() {
            let because = format!("{why}, and profile {profile} allows no call that is not logged");
            return Err(denied(called, &because).hint(UNWRITABLE_HINT));
        }
        run.note(format!("{why}, so the calls of this run are not logged"));
        Ok(())
    }

    /// Whether the human would be asked about a planned call. The call is not counted.
    ///
    /// # Errors
    /// `denied` and `cancelled`, as in [`Self::admit`].
    pub(crate) async fn would_ask(
        &self,
        called: &PolicyCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<bool, ToolFault> {
        let policy = self.policy();
        let by_rule = self.by_rule(&policy, called, cancel).await?;
        let decision = policy.decide(called, by_rule, self.ledger.lock().is_mixed());
        match decision.verdict {
            Verdict::Allow | Verdict::Warn => Ok(false),
            Verdict::Ask => Ok(true),
            Verdict::Deny => Err(denied_by_policy(called, &decision)),
        }
    }

    /// Counts an answer of the server.
    ///
    /// # Errors
    /// The budget that does not cover it. Code must not get the answer then.
    pub(crate) fn answered(&self, run: &RunContext, server: Names<'_>, bytes: u64) -> Result<(), String> {
        self.ledger.lock().answered(&self.policy(), &mut run.budget().policy, server, bytes)
    }

    /// Notes that code has data of this server.
    pub(crate) fn touch(&self, server: Names<'_>) {
        self.ledger.lock().touch(&self.policy(), server);
    }

    /// Whether the shapes of the server's results may be learned and shown: it has neither private data nor content of
    /// strangers.
    pub(crate) fn lets_learn(&self, server: Names<'_>) -> bool {
        let policy = self.policy();
        ![Label::Private, Label::Untrusted].into_iter().any(|label| policy.labels.has(label, server))
    }

    /// Asks the human, and returns when the call is allowed.
    async fn ask(
        &self,
        run: &RunContext,
        called: &PolicyCall<'_>,
        (because, was_mixed): (&str, bool),
        cancel: &CancellationToken,
    ) -> Result<(), ToolFault> {
        let _waiting = run.human.wait();
        let asking = async {
            let _turn = self.asking.lock().await;
            if let Some(before) = self.answered_before(run, called).await {
                return before;
            }
            let Some(question) = question(called, because) else {
                return Approval::missing("the arguments are too many to be shown to them");
            };
            let approval = self.answer(run, question).await;
            match &approval {
                Approval::Once | Approval::Narrowed => {}
                // The human did not know of the mixture.
                Approval::Further { .. } if self.ledger.lock().is_mixed() != was_mixed => {}
                Approval::Further { calls, arguments } => self.ledger.lock().approve(Plan {
                    server: called.server.name.to_owned(),
                    alias: called.server.alias.to_owned(),
                    tool: called.tool.name.to_owned(),
                    calls: *calls,
                    arguments: arguments.clone(),
                }),
                Approval::Missing { reason } => run.budget().policy.refuse(called, reason.clone()),
            }
            approval
        };
        let approval = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                return Err(ToolFault::new(FaultCode::Cancelled, "the run ended before the user had answered"));
            }
            approval = asking => approval,
        };
        match approval {
            Approval::Once | Approval::Narrowed | Approval::Further { .. } => Ok(()),
            Approval::Missing { reason } => {
                let because = text::inert_excerpt(because, BECAUSE_CHARS_MAX);
                let refusal = denied(called, &format!("the user has to be asked ({because}), and {reason}"));
                Err(refusal.hint(
                    "do not repeat this call in this run; the user can let it pass by a rule or another profile in \
                     policy.toml",
                ))
            }
        }
    }

    /// The answer to the call that follows from an earlier answer in this run, or from an approval of further calls.
    async fn answered_before(&self, run: &RunContext, called: &PolicyCall<'_>) -> Option<Approval> {
        let approved = self.ledger.lock().approved(called);
        if !approved.is_empty() {
            let arguments = called.arguments.clone();
            let covers = move || approved.into_iter().find(|plan| plan.covers(&arguments));
            // The human is asked if the comparison broke off.
            let approval = self.compared(covers).await.ok().flatten();
            if approval.is_some_and(|approval| self.ledger.lock().take(&approval)) {
                return Some(Approval::Once);
            }
        }
        run.budget().policy.earlier_refusal(called).map(Approval::missing)
    }

    /// Asks the human, if the run may ask another question, and returns the answer.
    async fn answer(&self, run: &RunContext, question: String) -> Approval {
        let time = match run.human.time_to_answer(self.approval_max, self.waiting_max) {
            Ok(time) => time,
            Err(reason) => return Approval::Missing { reason },
        };
        let max = self.questions_max;
        if run.budget().policy.count_question() > max {
            let reason = format!("this run has asked them {max} times, which is all that it may");
            return Approval::Missing { reason };
        }
        let unanswered = |_| Approval::missing("the user has not answered");
        tokio::time::timeout(time, run.human.ask(question)).await.unwrap_or_else(unanswered)
    }

    /// The profile in effect.
    pub(crate) fn profile(&self) -> Profile {
        self.policy().profile
    }

    /// What the comparison of tools with their pins needs to know of the policy.
    pub(crate) fn comparison<'a>(&self, redacted: &'a dyn Fn(String) -> String) -> ComparisonContext<'a> {
        let policy = self.policy();
        ComparisonContext { profile: policy.profile, has_policy: policy.defect.is_none(), redacted }
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.lock().policy()
    }
}

fn denied_by_policy(called: &PolicyCall<'_>, decision: &Decision) -> ToolFault {
    denied(called, &decision.because).hint("the user decides that in policy.toml")
}

fn denied(called: &PolicyCall<'_>, because: &str) -> ToolFault {
    ToolFault::new(FaultCode::Denied, format!("{} was not called: {}", shown(called), bounded(because)))
}

fn shown(called: &PolicyCall<'_>) -> String {
    let name = format!("{}.{}", called.server.name, called.tool.name);
    text::inert_excerpt(&name, REASON_CHARS_MAX)
}

fn bounded(text: &str) -> String {
    text::inert_excerpt(text, REASON_CHARS_MAX)
}

fn question(called: &PolicyCall<'_>, because: &str) -> Option<String> {
    let name = format!("{}.{}", called.server.name, called.tool.name);
    Some(format!(
        "Code that the model wrote wants to call {} ({}).\n{}",
        text::for_human_excerpt(&name, REASON_CHARS_MAX),
        bounded(because),
        shown_arguments(&called.arguments.given, ARGUMENTS_CHARS_MAX)?
    ))
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
