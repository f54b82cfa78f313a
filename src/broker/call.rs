//! A call as the broker receives it.
//!
//! This module has data types only and decides nothing.

use std::sync::Arc;

use belljar_base::run::DryRunReason;
use belljar_tools::policy::PolicyCall;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::Answer;
use super::run::call_record::CallRecord;
use super::run::context::{ExecutionMode, RunContext};

/// A call as the sandbox requests it, and the run in which it is made.
pub struct Call<'a> {
    /// The record of the call, which also refers to its run.
    pub record: &'a CallRecord,
    /// The server's name or alias; `None` for a helper.
    pub server: Option<String>,
    /// The tool's name or alias, or the helper's name.
    pub tool: String,
    /// The arguments: a JSON object, not yet parsed.
    pub arguments: Box<RawValue>,
    /// Whether the call is sent.
    pub send_rule: SendRule,
    /// The parts of the call that are handles, or become handles.
    pub handles: CallHandles,
    /// The deadline of the run.
    pub deadline: Instant,
}

impl Call<'_> {
    pub(super) fn run(&self) -> &Arc<RunContext> {
        &self.record.run
    }

    /// Lists the call as planned instead of making it.
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
    /// The arguments contain handles.
    pub arguments: bool,
    /// The result stays on the host, and code gets a handle for it.
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
    /// The rule for the mode of the run, and the two flags of the call's frame.
    #[must_use]
    pub fn of(mode: ExecutionMode, dry_run: bool, placeholders: bool) -> Self {
        match (dry_run || mode == ExecutionMode::DryRun, placeholders) {
            (false, false) => Self::Always,
            (true, false) => Self::IfReadOnly,
            (_, true) => Self::Never,
        }
    }
}
