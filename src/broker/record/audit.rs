//! What the user decides and knows of calls: the policy, and the line that each call leaves in the log.

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::audit::{CallEvent, Event, Log};
use crate::broker::failure_text::redact;
use crate::config::PolicyFile;
use crate::digest;
use crate::journal::Journal;
use crate::names::RunId;
use crate::run::{FaultCode, ToolFault};
use crate::text;

/// Arguments that are written whole, in bytes of JSON; of larger ones the hash is.
const ARGUMENTS_BYTES_MAX: usize = 16 * 1024;
/// Longest name that code may put into a line, in characters.
const NAME_CHARS_MAX: usize = 200;

/// The user's hold on calls.
pub struct Oversight {
    /// Which calls pass.
    pub policy: PolicyFile,
    /// Where they are written down.
    pub log: Log,
    /// How much of their arguments is.
    pub arguments: LoggedArguments,
    /// Where the session is kept.
    pub journal: Journal,
}

/// What the log holds of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedArguments {
    /// Their SHA-256.
    Hash,
    /// All of them, without the values of the server's configured variables.
    Whole,
}

/// What becomes of one call, put together on its way.
pub(in crate::broker) struct Record {
    began: Instant,
    run: u64,
    job: Option<u64>,
    pub(in crate::broker) server: String,
    pub(in crate::broker) tool: String,
    pub(in crate::broker) decision: String,
}

impl Record {
    pub(in crate::broker) fn begin((run, job): (RunId, Option<u64>), server: &str, tool: &str) -> Self {
        let shown = |name: &str| text::inert_excerpt(name, NAME_CHARS_MAX);
        let (server, tool, run) = (shown(server), shown(tool), run.0);
        Self { began: Instant::now(), run, job, server, tool, decision: String::new() }
    }

    /// `answer`: what came back, in a word, and its size in bytes.
    pub(in crate::broker) fn end(
        self,
        arguments: (Value, u64),
        answer: Result<(&'static str, usize), &ToolFault>,
    ) -> Event {
        let (outcome, bytes_in) = match answer {
            Ok((word, bytes)) => (word.to_owned(), bytes),
            Err(fault) => (fault.code.word(), 0),
        };
        let decision = match answer {
            Err(fault) if fault.code == FaultCode::Denied => fault.message.clone(),
            _ => self.decision,
        };
        Event::Call(CallEvent {
            run: self.run,
            job: self.job,
            server: self.server,
            tool: self.tool,
            arguments: arguments.0,
            bytes_out: arguments.1,
            bytes_in: bytes_in as u64,
            outcome,
            decision,
            ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }
}

impl LoggedArguments {
    /// What is written of them, and their size.
    pub(in crate::broker) fn of(
        self,
        arguments: &RawValue,
        redacted: &dyn Fn(String) -> String,
    ) -> (Value, u64) {
        let json = arguments.get();
        let whole = (self == Self::Whole && json.len() <= ARGUMENTS_BYTES_MAX)
            .then(|| serde_json::from_str::<Value>(json).ok())
            .flatten();
        let written = match whole {
            Some(mut value) => {
                redact(&mut value, redacted);
                value
            }
            None => Value::String(format!("sha256:{}", digest::sha256(json.as_bytes()))),
        };
        (written, json.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn arguments_are_hashed_or_written_without_secrets() {
        let arguments = to_raw_value(&json!({"path": "/a", "token": "hunter22"})).unwrap();
        let redacted = |text: String| text.replace("hunter22", "${TOKEN}");
        let (hash, bytes) = LoggedArguments::Hash.of(&arguments, &redacted);
        assert_eq!((hash.as_str().unwrap().len(), bytes), (7 + 64, arguments.get().len() as u64));
        let (whole, _) = LoggedArguments::Whole.of(&arguments, &redacted);
        assert_eq!(whole, json!({"path": "/a", "token": "${TOKEN}"}));
        let large = to_raw_value(&json!({"text": "x".repeat(20_000)})).unwrap();
        assert!(LoggedArguments::Whole.of(&large, &redacted).0.as_str().unwrap().starts_with("sha256:"));
    }
}
