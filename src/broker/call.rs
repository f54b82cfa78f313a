//! A call as it comes to the broker.
//!
//! Nouns only: nothing is decided here.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::Answer;
use super::run::call_record::CallRecord;
use super::run::context::{ExecutionMode, RunContext};
use crate::policy::PolicyCall;
use crate::run::DryRunReason;

/// A call as the sandbox claims it, and the run that it is made in.
pub struct Call<'a> {
    /// Its record, which has the run.
    pub record: &'a CallRecord,
    /// The server's name or alias; nothing for a helper.
    pub server: Option<String>,
    /// The tool's name or alias, or the helper's name.
    pub tool: String,
    /// A JSON object, not yet read.
    pub arguments: Box<RawValue>,
    /// Whether it is made.
    pub send_rule: SendRule,
    /// What of it is, or becomes, a handle.
    pub handles: CallHandles,
    /// When the run's time is over.
    pub deadline: Instant,
}

impl Call<'_> {
    pub(super) fn run(&self) -> &Arc<RunContext> {
        &self.record.run
    }

    /// Lists the call instead of making it.
    pub(super) fn planned(
        &self,
        called: &PolicyCall<'_>,
        why: (bool, DryRunReason),
        redacted: &dyn Fn(String) -> String,
    ) -> Answer {
        self.run().plan(called, why, redacted);
        Answer::Planned { server: called.server.name.to_owned(), tool: called.tool.name.to_owned() }
    }
}

/// The parts of a call that are handles, or become handles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallHandles {
    /// Its arguments hold some.
    pub arguments: bool,
    /// Its result stays on the host.
    pub result: bool,
}

/// The rule by which a call is sent to its server. A call that is not sent is listed as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendRule {
    /// The call is sent if the policy allows it.
    Always,
    /// The call is sent if the server marks the tool as read-only.
    IfReadOnly,
    /// The call is not sent, because its arguments contain placeholders.
    Never,
}

impl SendRule {
    /// As the run has it, or the call's frame.
    #[must_use]
    pub fn of(mode: ExecutionMode, dry_run: bool, placeholders: bool) -> Self {
        match (dry_run || mode == ExecutionMode::DryRun, placeholders) {
            (false, false) => Self::Always,
            (true, false) => Self::IfReadOnly,
            (_, true) => Self::Never,
        }
    }
}
