//! One line.

use belljar_base::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line of the log: an event, with its time and its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When it had ended: RFC 3339 in UTC, with milliseconds.
    pub time: String,
    /// The ID of the session.
    pub session: String,
    /// The owner of the session, by the name of the token; `None`: the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What it was.
    #[serde(flatten)]
    pub event: Event,
}

/// A run or a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// A run has ended.
    Run(RunEvent),
    /// A call has ended, or was refused.
    Call(CallEvent),
}

/// A run, or a request that was refused before it became one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// Its number in the session, from 1; 0: it never became a run.
    pub run: u64,
    /// How it ended, in a word; the code of the fault by which it was refused.
    pub outcome: String,
    /// Calls of tools that it made.
    pub calls: u64,
    /// Resources and prompts that it asked for; older lines do not say.
    #[serde(default)]
    pub readings: u64,
    /// Why it has not started, on one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Bytes of its code.
    pub code_bytes: u64,
    /// How long it took, in milliseconds; waiting for a sandbox and for the human counts.
    pub ms: u64,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallEvent {
    /// The run that it belongs to.
    pub run: u64,
    /// The job of that run that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// The server's configured name, or what code said where there is none.
    pub server: String,
    /// The tool's own name, or what code said where there is none.
    pub tool: String,
    /// Its arguments, or their hash, as the setting has it.
    pub arguments: Value,
    /// Bytes of its arguments.
    pub bytes_out: u64,
    /// Bytes of its answer.
    pub bytes_in: u64,
    /// `answered`, `tool_error`, or the code of the fault.
    pub outcome: String,
    /// What let it pass or did not: nothing where it did not come to that.
    pub decision: String,
    /// How long it took, in milliseconds; waiting for the human counts.
    pub ms: u64,
    /// The number of calls that the line stands for: equal calls that were not made are counted. Its arguments are those of
    /// one of them, its sizes and time those of all.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u64,
}

fn once() -> u64 {
    1
}

fn is_once(times: &u64) -> bool {
    *times == 1
}

impl Entry {
    /// It has just ended.
    #[must_use]
    pub fn now(session: &str, owner: Option<&str>, event: Event) -> Self {
        let (session, owner) = (session.to_owned(), owner.map(str::to_owned));
        Self { time: clock::timestamp(), session, owner, event }
    }
}
