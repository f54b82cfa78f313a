//! A call as it comes to the broker, and what goes back.
//!
//! Nouns only: nothing is decided here.

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::human::Human;
use super::send_state::Sending;
use crate::names::RunId;
use crate::run::{Progress, ServerScope};

/// A call as the sandbox claims it, and the run that it is made in.
pub struct Call<'a> {
    /// The run.
    pub run: RunId,
    /// The job of that run that makes it.
    pub job: Option<u64>,
    /// The servers of the run.
    pub scope: &'a ServerScope,
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
    /// Who is asked where the policy says so, or the server asks.
    pub human: &'a Human,
    /// Hears what the server says of its progress; what does not fit is left out.
    pub progress: &'a mpsc::Sender<Progress>,
    /// Whether it is sent.
    pub sending: &'a Sending,
}

/// Who makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// The run, whose budgets count.
    pub(super) run: RunId,
    /// The job of that run, which may outlive it.
    pub(super) job: Option<u64>,
}

impl Call<'_> {
    /// Who makes it.
    pub(super) fn origin(&self) -> Origin {
        Origin { run: self.run, job: self.job }
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
    /// As the call's frame has it, or the run.
    #[must_use]
    pub fn of(dry_run: bool, placeholders: bool) -> Self {
        match (dry_run, placeholders) {
            (false, false) => Self::Always,
            (true, false) => Self::IfItReads,
            (_, true) => Self::Never,
        }
    }
}

/// What is sent back to the code.
#[derive(Debug)]
pub enum Answer {
    /// An MCP result as the server sent it, or what a helper returns.
    Value(Box<RawValue>),
    /// An MCP result by which the tool reports an error.
    ToolError(Box<RawValue>),
    /// Nothing: the call was listed instead of being made.
    Planned {
        /// The server's name.
        server: String,
        /// The tool's own name.
        tool: String,
    },
}

impl Answer {
    /// What it is in a word, and its size in bytes.
    pub(super) fn told(&self) -> (&'static str, usize) {
        match self {
            Self::Value(value) => ("answered", value.get().len()),
            Self::ToolError(value) => ("tool_error", value.get().len()),
            Self::Planned { .. } => ("planned", 0),
        }
    }
}
