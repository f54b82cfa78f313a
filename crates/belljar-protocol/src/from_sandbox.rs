//! Frames from the sandbox to the bridge: all of them are claims by a hostile peer.

use std::collections::BTreeMap;

use base64::Engine as _;
use belljar_base::names::{CallId, RunId};
use belljar_base::run::{Image, OutputStream, PythonError};
use belljar_base::text;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::posture::{Posture, WorkerPosture};
use super::to_sandbox::FilePiece;

/// Longest number of a job, in digits.
const JOB_DIGITS_MAX: usize = 10;

/// A frame and who made it.
#[derive(Debug, Clone)]
pub enum FromSandbox {
    /// Made by the supervisor, which runs no user code.
    Supervisor(FromSupervisor),
    /// Made by the worker, that is, possibly by user code.
    Worker(FromWorker),
    /// Made by the job of this number, that is, possibly by user code.
    Job(u64, FromJob),
}

/// Compiled modules of the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeCode {
    /// The version of Python's byte code, in hexadecimal digits.
    pub magic: String,
    /// Marshalled code in base64, by the modules' names.
    pub modules: BTreeMap<String, String>,
}

/// Frames of the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromSupervisor {
    /// The answer to `hello`.
    Hello {
        /// The protocol's version there.
        version: u64,
        /// The interpreter's version, for example `3.11.2`.
        python: String,
        /// What the supervisor sees of its sandbox.
        posture: Box<Posture>,
    },
    /// The runtime's modules, compiled. It comes before the first worker, if the bundle asked for it.
    Code(RuntimeCode),
    /// An interpreter reads frames from here on.
    WorkerStarted {
        /// Counted from 1.
        worker: u64,
        /// What the supervisor sees of it.
        posture: Box<WorkerPosture>,
        /// It is the frozen copy of the one before it, made after this run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restored: Option<u64>,
        /// It is this checkpoint.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<String>,
    },
    /// A checkpoint was made.
    Checkpoint {
        /// Its name.
        name: String,
        /// The line of the run's code.
        line: Option<u64>,
        /// Memory of the interpreter then.
        bytes: u64,
    },
    /// A checkpoint is not there, or not any more.
    CheckpointGone {
        /// Its name.
        name: String,
    },
    /// An interpreter is gone.
    WorkerExited {
        /// Which.
        worker: u64,
        /// Its exit status, when it ended itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i64>,
        /// Whether the kernel ended it for lack of memory.
        oom: bool,
        /// Whether `replace` ended it.
        requested: bool,
    },
    /// Bytes written to fd 1 or 2.
    Output {
        /// Which.
        stream: OutputStream,
        /// The bytes, when they are UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The bytes, when they are not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
    },
    /// A part of a file that has changed.
    File(FilePiece),
    /// A file or folder that is not there any more.
    FileGone {
        /// Its path below the workspace.
        path: String,
    },
    /// The answer to `keep`: what has changed was sent before.
    Kept {
        /// Of the `keep`.
        seq: u64,
        /// What cannot be kept, and why; a few of them.
        #[serde(default)]
        left_out: Vec<String>,
        /// How many those are.
        #[serde(default)]
        left_out_total: u64,
    },
    /// The answer to `take_snapshot` and `restore_snapshot`.
    SnapshotDone {
        /// Why that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<String>,
    },
    /// A worker has handed a job over: a process that goes on beside later runs.
    JobStarted {
        /// The number that it says it has.
        job: u64,
    },
    /// Bytes that a job has written to fd 1 or 2.
    JobOutput {
        /// Which.
        job: u64,
        /// The bytes, when they are UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The bytes, when they are not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
    },
    /// How much of what was sent for a job it has taken.
    JobTaken {
        /// Which.
        job: u64,
        /// Bytes since its start, lines whole.
        bytes: u64,
    },
    /// A job's process is gone; what it said and wrote came before.
    JobEnded {
        /// Which.
        job: u64,
        /// Its exit status, when it ended itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i64>,
        /// Whether the kernel ended it for lack of memory.
        oom: bool,
        /// Whether `end_job` ended it.
        requested: bool,
    },
    /// The answer to `ping`.
    Pong {
        /// Of the `ping`.
        seq: u64,
    },
    /// How much of what was sent for workers they have taken, or lost with their end.
    Taken {
        /// Bytes since the start, lines whole.
        bytes: u64,
    },
    /// System calls that the filter has refused since the sandbox's start; only while they are traced.
    Denied {
        /// The machine whose numbers these are, as `uname` calls it.
        machine: String,
        /// Each call, by the name of the process that made it.
        calls: Vec<DeniedCall>,
        /// Calls that are not listed, since there were too many different ones.
        further: u64,
    },
    /// A line was dropped, or the sandbox could not go on.
    Fault {
        /// Which and why.
        message: String,
        /// In what the sandbox is weaker than it must be, where that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    },
}

/// A system call that the filter has refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedCall {
    /// Its number.
    pub number: i64,
    /// The name of the process, which the process chooses itself; empty when it was gone.
    pub process: String,
    /// How often.
    pub count: u64,
}

impl FromSupervisor {
    /// The bytes of an `output` frame's two encodings; undecodable base64 counts as no bytes.
    #[must_use]
    pub fn output_bytes(text: Option<String>, base64: Option<String>) -> Vec<u8> {
        match (text, base64) {
            (Some(text), _) => text.into_bytes(),
            (None, Some(base64)) => {
                base64::engine::general_purpose::STANDARD.decode(base64).unwrap_or_default()
            }
            (None, None) => Vec::new(),
        }
    }
}

/// Frames of the worker.
#[derive(Debug, Clone)]
pub enum FromWorker {
    /// A call of a tool or helper.
    Call(CallFrame),
    /// The caller of a call no longer waits.
    Cancel {
        /// The run that it was made in.
        run: RunId,
        /// Which.
        call: CallId,
    },
    /// The run has ended.
    Done(Box<DoneFrame>),
}

/// Frames of a job.
#[derive(Debug, Clone)]
pub enum FromJob {
    /// A call of a tool or helper.
    Call(CallFrame),
    /// The caller of a call no longer waits.
    Cancel {
        /// Which.
        call: CallId,
    },
    /// It has come to its end, and waits to be ended.
    Done(Box<JobDone>),
}

/// The end of a job as the job itself reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct JobDone {
    /// How.
    #[serde(flatten)]
    pub outcome: DoneOutcome,
    /// What it returned, pickled and in base64: nobody here looks into it.
    #[serde(default)]
    pub result: Option<String>,
}

/// A call of a tool, or with no server, of one of the bridge's helpers.
#[derive(Debug, Clone, Deserialize)]
pub struct CallFrame {
    /// The run that makes it.
    pub run: RunId,
    /// Its number.
    pub call: CallId,
    /// The server's name, or nothing for a helper.
    pub server: Option<String>,
    /// The tool's name or alias, or the helper's name.
    pub tool: String,
    /// A JSON object, not yet parsed.
    pub arguments: Box<RawValue>,
    /// Whether it is only to be made when it only reads.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether its arguments hold results of calls that were not made.
    #[serde(default)]
    pub placeholders: bool,
    /// Whether its result is to stay on the host.
    #[serde(default)]
    pub handle: bool,
    /// Whether its arguments hold handles of such results.
    #[serde(default)]
    pub handles: bool,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DoneFrame {
    /// Which.
    pub run: RunId,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: DoneOutcome,
    /// The repr of a last expression.
    #[serde(default)]
    pub value: Option<String>,
    /// What a run without such a value has bound: a line for each name.
    #[serde(default)]
    pub bound: Vec<String>,
    /// Pictures that it left.
    #[serde(default)]
    pub images: Vec<Image>,
    /// Sentences for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Files that it hands over, by their paths below the workspace.
    #[serde(default)]
    pub saved: Vec<String>,
    /// Whether files of the workspace may have changed.
    #[serde(default)]
    pub files_changed: bool,
    /// The checkpoint that the session goes back to.
    #[serde(default)]
    pub restore: Option<String>,
}

/// The end of a run as the interpreter reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum DoneOutcome {
    /// To the end of the code.
    Finished,
    /// With an exception.
    Raised {
        /// Which.
        error: PythonError,
    },
    /// With `SystemExit`.
    Exited {
        /// Its code.
        exit_code: i64,
    },
    /// By an interrupt.
    Interrupted {
        /// Where it was.
        #[serde(default)]
        error: Option<PythonError>,
    },
}

/// One line, without its line feed, as a frame.
pub(super) fn parse(line: &[u8], depth_max: usize) -> Result<FromSandbox, DroppedLine> {
    let (address, json) = line.split_first().ok_or(DroppedLine::Address { byte: b'\n' })?;
    if !matches!(address, b'S' | b'W' | b'J') {
        return Err(DroppedLine::Address { byte: *address });
    }
    let (job, json) = if *address == b'J' { of_job(json)? } else { (0, json) };
    if super::depth_exceeds(json, depth_max) {
        return Err(DroppedLine::Depth);
    }
    let text = std::str::from_utf8(json).map_err(|_| DroppedLine::Utf8)?;
    let kind = kind(text)?;
    if *address == b'S' {
        return from_json(text, &kind).map(FromSandbox::Supervisor);
    }
    if *address == b'J' {
        return job_frame(text, &kind).map(|frame| FromSandbox::Job(job, frame));
    }
    let frame = match kind.as_str() {
        "call" => FromWorker::Call(from_json(text, &kind)?),
        "cancel" => {
            #[derive(Deserialize)]
            struct Cancel {
                run: RunId,
                call: CallId,
            }
            let Cancel { run, call } = from_json(text, &kind)?;
            FromWorker::Cancel { run, call }
        }
        "done" => FromWorker::Done(Box::new(from_json(text, &kind)?)),
        _ => return Err(DroppedLine::of_type(&kind, "unknown type")),
    };
    Ok(FromSandbox::Worker(frame))
}

/// The number behind a job's address, and the frame.
fn of_job(line: &[u8]) -> Result<(u64, &[u8]), DroppedLine> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&line[..digits]).ok().filter(|_| digits <= JOB_DIGITS_MAX);
    let number = number.and_then(|number| number.parse().ok()).ok_or(DroppedLine::Address { byte: b'J' })?;
    Ok((number, &line[digits..]))
}

fn job_frame(text: &str, kind: &str) -> Result<FromJob, DroppedLine> {
    #[derive(Deserialize)]
    struct Cancel {
        call: CallId,
    }
    Ok(match kind {
        "call" => FromJob::Call(from_json(text, kind)?),
        "cancel" => {
            let Cancel { call } = from_json(text, kind)?;
            FromJob::Cancel { call }
        }
        "done" => FromJob::Done(Box::new(from_json(text, kind)?)),
        _ => return Err(DroppedLine::of_type(kind, "unknown type")),
    })
}

fn kind(text: &str) -> Result<String, DroppedLine> {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type", default)]
        kind: Option<String>,
    }
    match serde_json::from_str::<Typed>(text) {
        Ok(Typed { kind: Some(kind) }) => Ok(kind),
        Ok(Typed { kind: None }) => Err(DroppedLine::of_type("", "no type")),
        Err(error) if error.is_data() && text.trim_start().starts_with('{') => {
            Err(DroppedLine::of_type("", &error.to_string()))
        }
        Err(error) if error.is_data() => Err(DroppedLine::NotObject),
        Err(error) => Err(DroppedLine::not_json(&error)),
    }
}

fn from_json<'a, T: Deserialize<'a>>(text: &'a str, kind: &str) -> Result<T, DroppedLine> {
    let mut parser = serde_json::Deserializer::from_str(text);
    // The depth is bounded already, by `depth_exceeds`; serde_json's own bound is one lower.
    parser.disable_recursion_limit();
    T::deserialize(&mut parser).map_err(|error| DroppedLine::of_type(kind, &error.to_string()))
}

/// Longest quotation of a dropped frame, in characters: it may be as long as a frame.
const QUOTED_CHARS_MAX: usize = 200;

/// The reason for which a line from the sandbox was dropped. The decoder continues behind its line feed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DroppedLine {
    #[error("a line of more than {bytes_max} bytes")]
    Overlong { bytes_max: usize },
    #[error("a line that begins with byte {byte:#04x} instead of S, W or J and a number")]
    Address { byte: u8 },
    #[error("a frame nested too deep")]
    Depth,
    #[error("a frame that is not UTF-8")]
    Utf8,
    #[error("a frame that is no JSON: {detail}")]
    NotJson { detail: String },
    #[error("a frame that is no JSON object")]
    NotObject,
    #[error("a frame of type {kind:?} that cannot be read: {detail:?}")]
    Type { kind: String, detail: String },
}

impl DroppedLine {
    pub(super) fn of_type(kind: &str, detail: &str) -> Self {
        Self::Type { kind: quoted(kind), detail: quoted(detail) }
    }

    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        Self::NotJson { detail: quoted(&error.to_string()) }
    }
}

fn quoted(said: &str) -> String {
    text::bounded(said, QUOTED_CHARS_MAX).into_owned()
}
