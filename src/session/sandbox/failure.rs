//! The reasons why there is no sandbox, with hints for the user.

use std::time::Duration;

use belljar_base::run::{FaultCode, ToolFault};
use belljar_engine::EngineError;
use belljar_protocol::{self as protocol, PostureField};

use super::Weakness;

/// The reason for which there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("no sandbox is started with a setting that cannot be read: {problem}")]
    Unreadable { problem: String },
    #[error("no sandbox is started: {problem}")]
    Unrecorded { problem: String },
    #[error("no engine has been used yet")]
    NoEngineYet,
    #[error("the owner lock is missing")]
    NoOwner,
    #[error("the sandbox ended before it was ready{}", if stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Silent { stderr: String },
    #[error("the sandbox was not ready within {} s", after.as_secs())]
    Late { after: Duration },
    #[error("the sandbox speaks protocol version {theirs}, this bridge {}", protocol::VERSION)]
    Version { theirs: u64 },
    #[error("the sandbox started an interpreter without a handshake")]
    NoHello,
    #[error("the sandbox could not start: {message}")]
    Fault { message: String },
    #[error("the files of the workspace could not be put into the sandbox: {reason}")]
    Files { reason: String },
    #[error("the sandbox is weaker than asked for and was refused: {}", said.join("; "))]
    Weak { fields: Vec<PostureField>, said: Vec<String> },
}

impl Failure {
    pub(super) fn weak(weak: Vec<Weakness>) -> Self {
        let said = weak.iter().map(ToString::to_string).collect();
        Self::Weak { fields: weak.into_iter().map(|weakness| weakness.field).collect(), said }
    }

    pub(super) fn into_fault(self) -> ToolFault {
        let hint = match &self {
            Self::Engine(error) => error.hint(),
            Self::Silent { .. } => {
                "the image must have python3 >= 3.11 in its PATH; `belljar doctor` shows the image".into()
            }
            Self::Unreadable { .. } => "correct it, or leave it out for its default".into(),
            Self::Unrecorded { .. } => "the user has to make that folder writable, and private".into(),
            Self::Weak { fields, .. } => {
                let mut names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                names.dedup();
                format!(
                    "correct the engine's configuration, or use another engine; to run code in such a sandbox all \
                     the same, set MCP_BRIDGE_ALLOW_WEAK={}",
                    names.join(",")
                )
            }
            Self::Files { .. } => {
                "if another belljar uses it, end that or choose another name in MCP_BRIDGE_WORKSPACE; otherwise correct its folder, \
                 which is below `workspaces` in MCP_BRIDGE_STATE_DIR"
                    .into()
            }
            _ => "`belljar doctor` checks the engine and the image".into(),
        };
        ToolFault::new(FaultCode::SandboxUnavailable, self.to_string()).hint(hint)
    }
}
