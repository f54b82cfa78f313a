//! Lets calls pass as the user's policy says, asks the human where it says so, and keeps count.
//!
//! It decides on the host from what the host knows; what code says of a call decides nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::human::{Approval, Human};
use crate::config::{PolicyFile, report};
use crate::limits::Limits;
use crate::policy::{Called, Decision, Ledger, Plan, Policy, Verdict};
use crate::run::{FaultCode, ToolFault};
use crate::text;

/// Longest arguments in a question, in characters.
const ARGUMENTS_CHARS_MAX: usize = 2_000;
/// Longest reason in a fault or note, in characters.
const REASON_CHARS_MAX: usize = 300;
/// Notes of one run.
const NOTES_MAX: usize = 10;

/// A call that may be made.
#[derive(Debug)]
pub(super) struct Admitted {
    /// What let it pass.
    pub(super) decision: String,
}

/// The gate that every call of a tool goes through.
pub(super) struct Admission {
    policy: Mutex<PolicyFile>,
    ledger: Mutex<Ledger>,
    /// One question at a time: an answer may cover the calls that wait behind it.
    asking: tokio::sync::Mutex<()>,
    approval_max: Duration,
    notes: Mutex<Vec<String>>,
}

impl Admission {
    pub(super) fn new(policy: PolicyFile, limits: &Limits) -> Self {
        Self {
            policy: Mutex::new(policy),
            ledger: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            approval_max: limits.approval,
            notes: Mutex::default(),
        }
    }

    /// A run begins: it has its budgets, and the policy as it stands now.
    pub(super) fn begin_run(&self) {
        let changed = self.policy.lock().unwrap_or_else(PoisonError::into_inner).look();
        let mut ledger = self.ledger();
        ledger.begin_run();
        if let Some(problems) = changed {
            report(&problems);
            // They were given under another one.
            ledger.forget_approvals();
            self.note("the user has changed the policy".into());
        }
    }

    /// What the reader of the run's reply should know.
    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the call may be made; then it is counted.
    ///
    /// # Errors
    /// `denied` says which rule or setting is the reason; `cancelled`.
    pub(super) async fn admit(
        &self,
        called: &Called<'_>,
        bytes: u64,
        human: &Human,
        cancel: &CancellationToken,
    ) -> Result<Admitted, ToolFault> {
        let used_up = |reason: String| denied(called, &reason).hint("the user sets budgets in policy.toml");
        let policy = self.policy();
        let decision = {
            let ledger = self.ledger();
            ledger.covers(&policy, bytes).map_err(used_up)?;
            policy.decide(called, ledger.is_mixed())
        };
        match decision.verdict {
            Verdict::Allow => {}
            Verdict::Warn => {
                self.note(format!("{} was called: {}", shown(called), bounded(&decision.because)));
            }
            Verdict::Deny => return Err(denied_by_policy(called, &decision)),
            Verdict::Ask => self.ask(called, &decision.because, human, cancel).await?,
        }
        // Again: others may have been counted while the human was asked.
        self.ledger().charge(&policy, bytes).map_err(used_up)?;
        let word = match decision.verdict {
            Verdict::Allow => "allow",
            Verdict::Warn => "warn",
            Verdict::Ask | Verdict::Deny => "asked",
        };
        Ok(Admitted { decision: format!("{word}: {}", decision.because) })
    }

    /// Whether the human would be asked about a call that is only planned, and which is not counted.
    ///
    /// # Errors
    /// `denied`, as [`Self::admit`].
    pub(super) fn would_ask(&self, called: &Called<'_>) -> Result<bool, ToolFault> {
        let decision = self.policy().decide(called, self.ledger().is_mixed());
        match decision.verdict {
            Verdict::Allow | Verdict::Warn => Ok(false),
            Verdict::Ask => Ok(true),
            Verdict::Deny => Err(denied_by_policy(called, &decision)),
        }
    }

    /// An answer of the server has come.
    pub(super) fn answered(&self, server: &str, bytes: u64) {
        self.ledger().answered(&self.policy(), server, bytes);
    }

    /// Until the human has let it pass.
    async fn ask(
        &self,
        called: &Called<'_>,
        because: &str,
        human: &Human,
        cancel: &CancellationToken,
    ) -> Result<(), ToolFault> {
        let _waiting = human.wait();
        let asking = async {
            let _turn = self.asking.lock().await;
            {
                let mut ledger = self.ledger();
                if ledger.take_approved(called) {
                    return Approval::Once;
                }
                if ledger.is_refused(called) {
                    return Approval::Denied;
                }
            }
            let unable = Approval::Unable { reason: "the user has not answered".into() };
            let approval = tokio::time::timeout(self.approval_max, human.ask(question(called, because)))
                .await
                .unwrap_or(unable);
            match &approval {
                Approval::Further { calls, arguments } => self.ledger().approve(Plan {
                    server: called.server.to_owned(),
                    tool: called.tool.to_owned(),
                    calls: *calls,
                    arguments: arguments.clone(),
                }),
                Approval::Denied => self.ledger().refuse(called),
                Approval::Once | Approval::Unable { .. } => {}
            }
            approval
        };
        let approval = tokio::select! {
            approval = asking => approval,
            () = cancel.cancelled() => {
                return Err(ToolFault::new(FaultCode::Cancelled, "the run ended before the user had answered"));
            }
        };
        match approval {
            Approval::Once | Approval::Further { .. } => Ok(()),
            Approval::Denied => {
                Err(denied(called, "the user was asked, and refused").hint("do not try again in this run"))
            }
            Approval::Unable { reason } => {
                Err(denied(called, &format!("the user has to be asked ({because}), and {reason}"))
                    .hint("the user can let it pass by a rule or another profile in policy.toml"))
            }
        }
    }

    /// A sentence for the reader of the reply.
    pub(super) fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES_MAX && !notes.contains(&note) {
            notes.push(note);
        }
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner).policy()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn denied_by_policy(called: &Called<'_>, decision: &Decision) -> ToolFault {
    denied(called, &decision.because).hint("the user decides that in policy.toml")
}

fn denied(called: &Called<'_>, because: &str) -> ToolFault {
    ToolFault::new(FaultCode::Denied, format!("{} was not called: {}", shown(called), bounded(because)))
}

fn shown(called: &Called<'_>) -> String {
    let name = format!("{}.{}", called.server, called.tool);
    text::inert_excerpt(&name, REASON_CHARS_MAX)
}

fn bounded(text: &str) -> String {
    text::inert_excerpt(text, REASON_CHARS_MAX)
}

fn question(called: &Called<'_>, because: &str) -> String {
    let arguments = serde_json::to_string_pretty(called.arguments).unwrap_or_default();
    let arguments = text::bounded(&arguments, ARGUMENTS_CHARS_MAX).into_owned();
    format!(
        "Code that the model wrote wants to call {} ({}).\nArguments: {}",
        shown(called),
        bounded(because),
        text::bounded(&text::inert(&arguments), ARGUMENTS_CHARS_MAX)
    )
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
