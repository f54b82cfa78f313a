//! The lines of a journal: each is one JSON object with the name of what it tells as its only key.

use belljar_base::run::{OutputStream, PythonError, StateNote, ToolFault};
use serde::{Deserialize, Serialize};

use super::recorded_json::RecordedJson;

/// The form of journals that this belljar writes and reads.
pub(super) const VERSION: u32 = 1;

/// A line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The first one.
    Session(SessionBegun),
    /// A sandbox has started, with an empty namespace.
    Sandbox(SandboxUp),
    /// A run begins.
    Run(RunBegun),
    /// A call begins that may reach a server, or one has been answered that did not.
    Call(CallBegun),
    /// A call that has begun has its answer.
    Answer(CallAnswered),
    /// A call that was not made has been made again, with the same outcome.
    Again(CallAgain),
    /// A run has ended.
    End(RunEnded),
    /// A job begins.
    Job(JobBegun),
    /// A job has ended.
    JobEnd(JobEnded),
    /// All runs of the session that this one continues have been made once more.
    Resumed(Resumption),
    /// The journal has no more room: what follows is not kept.
    Full {},
}

/// What the variables are after runs were made once more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumption {
    /// The run of the session itself after which the variables were the same. Later runs before this record do not count
    /// any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// The record that begins a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionBegun {
    /// Of this form of journals.
    pub version: u32,
    /// The session, which the log of calls names as well.
    pub id: String,
    /// When its first run began: RFC 3339 in UTC, with milliseconds.
    pub time: String,
    /// Who asks for runs, in their own words.
    pub client: String,
    /// belljar's version.
    pub belljar: String,
    /// Of the frames between the bridge and its sandboxes.
    pub protocol: u64,
    /// How much is kept.
    pub keep: JournalDetail,
    /// The session whose runs it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
}

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxUp {
    /// When.
    pub time: String,
    /// Where its engine listens.
    pub engine: String,
    /// Its image.
    pub image: String,
    /// Its interpreter's version.
    pub python: String,
    /// The time zone of its clock.
    #[serde(default)]
    pub time_zone: String,
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBegun {
    /// Its number in the session, from 1.
    pub run: u64,
    /// When.
    pub time: String,
    /// Its code.
    pub code: String,
    /// The servers that it may reach.
    pub servers: Vec<ServerOfRun>,
    /// The time that it has, in milliseconds.
    pub timeout_ms: u64,
    /// Whether only calls are made that read.
    pub dry_run: bool,
    /// The checkpoint that it was to begin from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Whether belljar made it by itself, on the way back to a checkpoint that was lost: it leads nowhere by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
}

/// A server as a run's code sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerOfRun {
    /// Its configured name.
    pub name: String,
    /// The Python identifier made of it.
    pub alias: String,
    /// Whether binary values of the sandbox may stand in arguments for it.
    pub takes_files: bool,
}

/// A call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallBegun {
    /// The run that makes it.
    pub run: u64,
    /// The job of that run that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Its number in the session, from 1.
    pub call: u64,
    /// The server, as the code named it; nothing for a helper of the runtime.
    pub server: Option<String>,
    /// The tool or helper, as the code named it.
    pub tool: String,
    /// Its arguments with sorted keys and without secrets.
    pub arguments: RecordedJson,
    /// What came of it, where it never reached a server or nothing can be written by it; otherwise that has a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came: Option<CallOutcome>,
}

/// The answer to a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallAnswered {
    /// The run that made it.
    pub run: u64,
    /// Which.
    pub call: u64,
    /// What came.
    pub came: CallOutcome,
    /// How long it took, in milliseconds; waiting for the human counts.
    pub ms: u64,
}

/// Repetitions of a call that was not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAgain {
    /// The run that made it.
    pub run: u64,
    /// Which.
    pub call: u64,
    /// How often, beside the first time.
    pub times: u64,
}

/// The outcome of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The call has a result.
    Value(RecordedJson),
    /// The call has a result by which the tool reports an error.
    ToolError(RecordedJson),
    /// The call was listed instead of being sent.
    Planned {
        /// The server's name.
        server: String,
        /// The tool's own name.
        tool: String,
    },
    /// The call has no result.
    Fault(ToolFault),
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// Which.
    pub run: u64,
    /// When.
    pub time: String,
    /// How, in a word.
    pub outcome: String,
    /// Its exception.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<PythonError>,
    /// The beginning of what it wrote.
    pub output: Vec<OutputText>,
    /// The beginning of the repr of its last expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What it has bound: a line for each name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<String>,
    /// Bytes of output, value and names that its reply was made of.
    pub said_bytes: u64,
    /// Their hash, as hexadecimal digits.
    pub said_sha256: String,
    /// Pictures, which are not kept.
    pub images: u64,
    /// What the reader was told besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What became of the variables.
    pub state: StateNote,
    /// How long it took, in milliseconds; waiting for a sandbox and for the human counts.
    pub ms: u64,
}

/// A job that begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobBegun {
    /// The run that started it.
    pub run: u64,
    /// Its number in the session, from 1.
    pub job: u64,
    /// When.
    pub time: String,
    /// What the code calls it.
    pub name: String,
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnded {
    /// The run that started it.
    pub run: u64,
    /// Which.
    pub job: u64,
    /// When.
    pub time: String,
    /// How, in a word.
    pub outcome: String,
    /// Why, where that says more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Calls that it made.
    pub calls: u64,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// The output of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputText {
    /// The stream.
    pub stream: OutputStream,
    /// The text.
    pub text: String,
}

impl CallOutcome {
    /// In a word: `answered`, `tool_error`, `planned`, or the code of the fault.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Value(_) => "answered".into(),
            Self::ToolError(_) => "tool_error".into(),
            Self::Planned { .. } => "planned".into(),
            Self::Fault(fault) => fault.code.word(),
        }
    }
}

impl CallBegun {
    /// `server.tool`, or the helper as code calls it.
    #[must_use]
    pub fn name(&self) -> String {
        let server = self.server.as_deref().unwrap_or("runtime");
        format!("{server}.{}", self.tool)
    }
}

/// The detail with which a session is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JournalDetail {
    /// Nothing is recorded.
    Off,
    /// Code, outcomes and the beginning of outputs; of calls the names, and sizes and hashes of arguments and results.
    Calls,
    /// The same with the arguments and results of calls: what a replay answers calls from.
    Full,
}
