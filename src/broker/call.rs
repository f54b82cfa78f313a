//! A call as it comes to the broker.
//!
//! Nouns only: nothing is decided here.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::Answer;
use super::run::call_record::CallRecord;
use super::run::context::{ExecutionMode, RunContext};
use crate::policy::Called;
use crate::run::NotMade;

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
    pub making: Making,
    /// What of it is, or becomes, a handle.
    pub handles: HandlesOf,
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
        called: &Called<'_>,
        why: (bool, NotMade),
        redacted: &dyn Fn(String) -> String,
    ) -> Answer {
        self.run().plan(called, why, redacted);
        Answer::Planned { server: called.server.name.to_owned(), tool: called.tool.name.to_owned() }
    }
}

/// What of a call is a handle, or becomes one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandlesOf {
    /// Its arguments hold some.
    pub arguments: bool,
    /// Its result stays on the host.
    pub result: bool,
}

/// When a call is made; one that is not made is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    /// If it may.
    Always,
    /// If its tool only reads, by its server's word.
    IfItReads,
    /// Not at all: its arguments are not those that it would have.
    Never,
}

impl Making {
    /// As the run has it, or the call's frame.
    #[must_use]
    pub fn of(mode: ExecutionMode, dry_run: bool, placeholders: bool) -> Self {
        match (dry_run || mode == ExecutionMode::DryRun, placeholders) {
            (false, false) => Self::Always,
            (true, false) => Self::IfItReads,
            (_, true) => Self::Never,
        }
    }
}
