//! The nouns of a run: what is asked, what came of it, and what can go wrong with a call in it.
//!
//! It knows neither frames nor MCP, and writes no text for the model; `render` does.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::names::ServerName;

/// One checked `run_python` request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRequest {
    /// The Python source.
    pub code: String,
    /// Which servers the code may reach.
    pub servers: ServerScope,
    /// When the run is interrupted.
    pub timeout: Duration,
    /// The longest timeout that it could have asked for.
    pub timeout_max: Duration,
    /// Whether the interpreter is replaced first.
    pub reset: Reset,
    /// Whether only calls are made that read; the others are listed.
    pub dry_run: bool,
    /// Whether what it changes in /workspace is stored. A run that only leads back to an earlier state changes nothing there.
    pub keep_files: bool,
}

/// The state that a run begins in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reset {
    /// What the run before it has left.
    #[default]
    No,
    /// A fresh interpreter.
    Fresh,
    /// What there was when this checkpoint was made.
    Checkpoint(String),
}

/// The servers of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerScope {
    /// Every configured server.
    All,
    /// Only these.
    Only(Vec<ServerName>),
}

/// The abilities of the client of a run that servers and code may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientAbilities {
    /// Show its human a form.
    pub elicitation: bool,
    /// Have a model write something, as far as its human lets it.
    pub sampling: bool,
    /// The same for code, whatever servers may ask for.
    pub model: bool,
    /// Show a reply of so many characters whole; `None`: of any length.
    pub reply_chars_max: Option<usize>,
    /// Read files only: it passes the images of a reply to its model as long texts.
    pub images_as_files: bool,
}

/// An event of a run that is in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The run waits for the runs before it.
    AwaitsTurn,
    /// An earlier run runs again, so that this one has its variables.
    Repeats {
        /// Its place among those that run again, from 1.
        run: usize,
        /// The number of those runs.
        all: usize,
    },
    /// The code is executing.
    Started,
    /// A tool is called, or has answered.
    Call {
        /// `server.tool`.
        tool: String,
        /// Calls of this run that have ended.
        answered: usize,
        /// All calls of this run so far.
        made: usize,
    },
    /// A call waits for its server, which is starting.
    AwaitsServer {
        /// The name of the server, shortened.
        server: String,
    },
    /// A search waits for servers that have not told their tools yet.
    AwaitsTools {
        /// Their names, shortened.
        servers: String,
    },
    /// A server says how far a call has come.
    OfServer {
        /// `server.tool`.
        tool: String,
        /// In a few words.
        said: String,
    },
}

/// The form of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputMode {
    /// Plain text that says only what the reader cannot know already.
    Compact,
    /// One TOON block of the whole report.
    Toon,
    /// One JSON object of the whole report.
    Json,
}

/// The report on a run that has ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunReport {
    /// How it ended.
    pub outcome: RunOutcome,
    /// What it wrote, in the order of arrival.
    pub output: Output,
    /// The repr of a last expression.
    pub value: Option<String>,
    /// What a run without such a value has bound: a line for each name.
    pub bound: Vec<String>,
    /// Pictures that it left.
    pub images: Vec<Image>,
    /// Addresses of files that the run has handed over, as resources.
    pub saved: Vec<String>,
    /// What became of the variables.
    pub state: StateNote,
    /// Sentences of the bridge for the reader: engine notices, dropped frames, jobs.
    pub notes: Vec<String>,
    /// Sentences of the worker for the reader, such as tasks left behind. Code can write them itself.
    pub sandbox_notes: Vec<String>,
    /// Names of the servers that the run could reach.
    pub servers: Vec<ServerName>,
    /// Calls made.
    pub calls: Calls,
    /// The checkpoint that the run goes back to, where that has to be made again first.
    pub goes_back_to: Option<String>,
}

impl RunReport {
    /// The report of a run that never started.
    #[must_use]
    pub fn not_started(fault: ToolFault) -> Self {
        Self { outcome: RunOutcome::NotStarted(fault), ..Self::default() }
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunOutcome {
    /// To the end of the code.
    #[default]
    Finished,
    /// With an exception.
    Raised(PythonError),
    /// With `SystemExit`.
    Exited {
        /// Its code.
        exit_code: i64,
    },
    /// Its time was over.
    TimedOut {
        /// The time that it had.
        after: Duration,
        /// The longest time that it could have asked for.
        at_most: Duration,
    },
    /// The client cancelled it.
    Interrupted,
    /// Its interpreter or container went away under it.
    SandboxLost(SandboxLoss),
    /// It never started: the engine, the image or the sandbox is missing or refused.
    NotStarted(ToolFault),
}

impl RunOutcome {
    /// In one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Raised(_) => "raised",
            Self::Exited { .. } => "exited",
            Self::TimedOut { .. } => "timed_out",
            Self::Interrupted => "cancelled",
            Self::SandboxLost(_) => "sandbox_lost",
            Self::NotStarted(_) => "not_started",
        }
    }
}

/// The reason for which the interpreter of a run is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxLoss {
    /// It ended itself, for example by `os._exit`.
    Exited {
        /// Its exit status.
        exit_code: i64,
    },
    /// A signal ended it.
    Killed {
        /// The signal's number.
        signal: i64,
        /// Whether the kernel did, for lack of memory.
        out_of_memory: bool,
    },
    /// The bridge ended it for using more than a limit that the engine does not enforce.
    OverLimit {
        /// How much of what.
        exceeded: String,
    },
    /// The whole container went away.
    Container {
        /// What is known of it.
        reason: String,
    },
}

/// An exception of the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonError {
    /// The class, for example `ValueError`.
    #[serde(rename = "type")]
    pub class: String,
    /// Its text.
    pub message: String,
    /// The traceback without the runtime's own frames.
    pub traceback: String,
    /// How long the traceback is as `runtime.last_output()` has it, in characters; 0: it does not have it.
    #[serde(default, skip_serializing_if = "is_none_kept")]
    pub traceback_chars: u64,
    /// The line of the submitted code at which it was raised.
    pub line: Option<u64>,
    /// A sentence that helps; empty where nothing does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

fn is_none_kept(chars: &u64) -> bool {
    *chars == 0
}

/// The state of the session's variables after a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateNote {
    /// They are as the run left them.
    #[default]
    Kept,
    /// The run began with an empty namespace, for this reason, and keeps what it made.
    Fresh(FreshReason),
    /// They are gone; the next run begins with an empty namespace.
    Lost,
    /// They are as they were before the run, which had to be killed.
    RolledBack,
    /// They are as they were after some earlier run.
    RolledBackFurther,
    /// They are as they were at the checkpoint that the run has gone back to.
    Restored,
}

/// The reason for which a run began with an empty namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FreshReason {
    /// It is the session's first.
    First,
    /// The caller asked for it.
    Reset,
    /// The sandbox had been stopped for being idle.
    IdleStop,
    /// The interpreter or container had been lost before.
    Lost,
    /// The code uses what an earlier session had.
    NewSession,
}

/// The output of a run: its head and its tail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Pieces in the order of arrival, neighbours of one stream joined.
    pub pieces: Vec<OutputPiece>,
    /// What was not kept of stdout, between its head and its tail.
    pub stdout_cut: Option<OutputCut>,
    /// What was not kept of stderr, between its head and its tail.
    pub stderr_cut: Option<OutputCut>,
}

impl Output {
    /// What was not kept of this stream.
    #[must_use]
    pub fn cut(&self, stream: OutputStream) -> Option<OutputCut> {
        match stream {
            OutputStream::Stdout => self.stdout_cut,
            OutputStream::Stderr => self.stderr_cut,
        }
    }
}

/// A part of a stream that was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputCut {
    /// The index of the piece that follows it.
    pub before_piece: usize,
    /// Its size.
    pub bytes: u64,
    /// Its characters, where it is UTF-8.
    pub chars: u64,
}

/// Text of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPiece {
    /// Where it was written.
    pub stream: OutputStream,
    /// What was written; bytes that are not UTF-8 are shown as `\xNN`.
    pub text: String,
}

/// The two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// For example `image/png`.
    pub mime_type: String,
    /// Its bytes.
    pub base64: String,
}

/// The calls of a run, each counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    /// By tool, in the order of the first call of each.
    pub of_tools: Vec<ToolCalls>,
    /// Those of further tools, when there are too many to name.
    pub others: CallCounts,
    /// Those that were listed instead of being made, in their order.
    pub planned: PlannedCalls,
    /// Resources and prompts that were asked for, which are no calls of tools; lists of them count.
    pub readings: u64,
}

/// The calls that a dry run has listed instead of sending them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedCalls {
    /// The first calls.
    pub calls: Vec<PlannedCall>,
    /// The number of further calls.
    pub further: u64,
}

/// A call that was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCall {
    /// The server; `runtime` for a helper of the bridge.
    pub server: String,
    /// The tool's own name.
    pub tool: String,
    /// Its arguments, as JSON; bounded.
    pub arguments: String,
    /// The job that would have made it, unless it was the run itself.
    pub job: Option<u64>,
    /// Whether the user would be asked first.
    pub asks: bool,
    /// Why it was not made.
    pub why: DryRunReason,
}

/// The reason for which a dry run has not sent a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRunReason {
    /// The server does not mark the tool as read-only.
    NotMarkedReadOnly,
    /// An argument is a placeholder, or was made from one.
    NeedsPlaceholder,
    /// The call is to a helper that a dry run never calls, because it saves something or asks a model.
    Helper,
}

/// The calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCalls {
    /// The server.
    pub server: ServerName,
    /// The tool as the code named it.
    pub tool: String,
    /// What such a call does, by the server's own word.
    pub effect: ToolEffect,
    /// What came of them.
    pub counts: CallCounts,
}

/// The numbers of calls by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// As [`CallState::Answered`].
    pub answered: u64,
    /// As [`CallState::Failed`].
    pub failed: u64,
    /// As [`CallState::Refused`] and [`CallState::Planned`].
    pub refused: u64,
    /// As [`CallState::Unknown`], and those that have not ended.
    pub unknown: u64,
}

/// The effect of calls of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolEffect {
    /// They only read.
    Reads,
    /// They may change something: the server does not say otherwise.
    MayWrite,
}

/// The state of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    /// It may still be refused or given up.
    Begun,
    /// A dry run has listed it.
    Planned,
    /// It never reached the server.
    Refused,
    /// The server may have it.
    Sent,
    /// It was answered.
    Answered,
    /// The tool answered with an error.
    Failed,
    /// It failed, and whether it took effect is known only to the server.
    Unknown,
}

impl CallCounts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.answered + self.failed + self.refused + self.unknown
    }

    /// The count of calls that have come so far.
    pub fn of(&mut self, state: CallState) -> &mut u64 {
        match state {
            CallState::Answered => &mut self.answered,
            CallState::Failed => &mut self.failed,
            CallState::Refused | CallState::Planned => &mut self.refused,
            CallState::Begun | CallState::Sent | CallState::Unknown => &mut self.unknown,
        }
    }
}

/// The reason for which a call, or a whole run, could not be done, in words for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ToolFault {
    /// The kind.
    pub code: FaultCode,
    /// What is wrong.
    pub message: String,
    /// What to do about it; empty where nothing helps.
    #[serde(default)]
    pub hint: String,
    /// The `data` of the server's JSON-RPC error, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<serde_json::Value>>,
}

impl ToolFault {
    /// A fault without a hint.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: String::new(), data: None }
    }

    /// The same fault with what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// The kinds of faults; PROTOCOL.md says when each is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum FaultCode {
    ServerUnavailable,
    UnknownTool,
    ServerNotStarted,
    NotMade,
    ServerFailed,
    ToolError,
    Deadline,
    Cancelled,
    TooLarge,
    InvalidArguments,
    Denied,
    ModelUnavailable,
    ModelFailed,
    NotRunning,
    Busy,
    SandboxUnavailable,
    Internal,
}

impl FaultCode {
    /// The state in which a call ends that was about to be sent and has this fault. Messages, counts and logs all follow
    /// it.
    #[must_use]
    pub fn end_of_call(self) -> CallState {
        match self {
            Self::ServerFailed | Self::Deadline | Self::Cancelled | Self::ModelFailed | Self::Internal => {
                CallState::Unknown
            }
            Self::ToolError => CallState::Failed,
            Self::ServerUnavailable
            | Self::UnknownTool
            | Self::ServerNotStarted
            | Self::NotMade
            | Self::TooLarge
            | Self::InvalidArguments
            | Self::Denied
            | Self::ModelUnavailable
            | Self::NotRunning
            | Self::Busy
            | Self::SandboxUnavailable => CallState::Refused,
        }
    }

    /// As frames spell it.
    #[must_use]
    pub fn word(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(word)) => word,
            _ => format!("{self:?}"),
        }
    }
}
