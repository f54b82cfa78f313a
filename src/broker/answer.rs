//! The answer to a call, as the code gets it.
//!
//! This module does not parse it.

use serde_json::value::RawValue;

/// The answer to a call that code gets.
#[derive(Debug)]
pub enum Answer {
    /// An MCP result as the server sent it, or the value that a helper returns.
    Value(Box<RawValue>),
    /// An MCP result by which the tool reports an error.
    ToolError(Box<RawValue>),
    /// No result: the call was listed as planned instead of being made.
    Planned {
        /// The server's name.
        server: String,
        /// The tool's own name.
        tool: String,
    },
}

impl Answer {
    /// The kind of answer in a word, and its size in bytes.
    pub(super) fn told(&self) -> (String, usize) {
        match self {
            Self::Value(value) => ("answered".into(), value.get().len()),
            Self::ToolError(value) => ("tool_error".into(), value.get().len()),
            Self::Planned { .. } => ("planned".into(), 0),
        }
    }
}
