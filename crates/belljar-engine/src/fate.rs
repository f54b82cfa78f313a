//! What became of a sandbox that has ended.

use std::fmt;
use std::time::Duration;

/// What became of a sandbox whose output has ended, although nobody closed it. It is displayed as the end of a sentence
/// about the sandbox, with a remedy if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The kernel killed its first process, since the sandbox had used up its memory.
    OutOfMemory,
    /// Somebody killed or removed it by a command to its engine.
    Removed,
    /// Somebody deleted its Pod, or the cluster did.
    Deleted,
    /// The cluster evicted its Pod for another one, or because its node is drained, is shut down, or has too little left.
    Evicted,
    /// The node of its Pod is gone.
    NodeGone,
    /// Its first process ended with this exit code; 128 and the number of a signal: that signal killed it.
    Ended(i64),
    /// It goes on, so only the connection to it has ended.
    Disconnected,
    /// The engine does not have it any more, and does not say why.
    Gone,
    /// The engine does not answer.
    NoAnswer,
}

/// How long an engine is asked for the fate of a sandbox at most, in each of two requests.
pub(super) const FATE_REQUEST: Duration = Duration::from_secs(1);
/// The exit code of a process that was killed by a signal is this number and the signal's.
pub(super) const SIGNALLED: i32 = 128;
const SIGKILL: i64 = 9;

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory => f.write_str(
                "it ran out of memory; use less at once, or have the user raise MCP_BRIDGE_MEMORY",
            ),
            Self::Removed => f.write_str("somebody killed or removed it by a command to the engine"),
            Self::Deleted => f.write_str(
                "its Pod was deleted, by a command or by the cluster; `kubectl get events` may say why",
            ),
            Self::Evicted => f.write_str(
                "the cluster evicted its Pod, for another one or because its node ran short or is drained; have the user \
                 raise sandbox.kubernetes.resources, or choose other nodes",
            ),
            Self::NodeGone => f.write_str("the node of its Pod does not answer any more; another one starts the next"),
            Self::Ended(code) => match code - i64::from(SIGNALLED) {
                // Code cannot send this signal to the first process of its own namespace.
                SIGKILL => f.write_str(
                    "it was killed (SIGKILL) from outside, or by the kernel because memory ran out",
                ),
                signal if signal > 0 => write!(f, "its first process was killed by signal {signal}"),
                _ => write!(f, "its first process ended with exit code {code}"),
            },
            Self::Disconnected => f.write_str("the connection to it broke"),
            Self::Gone => f.write_str("it was stopped or removed"),
            Self::NoAnswer => f.write_str(
                "its engine does not answer any more; restart the engine, or ask `belljar doctor` for what is wrong",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_above_128_are_signals() {
        let said = |code| Fate::Ended(code).to_string();
        assert_eq!(said(128), "its first process ended with exit code 128");
        assert_eq!(said(139), "its first process was killed by signal 11");
        assert!(said(137).starts_with("it was killed (SIGKILL) from outside"));
    }
}
