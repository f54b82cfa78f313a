//! Frames from the bridge to the sandbox.

use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::{CallId, RunId};
use belljar_base::run::ToolFault;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::system_calls::ExtraNumbers;

/// The version of the protocol that this bridge and its runtime speak.
pub const VERSION: u64 = 1;

/// Frames for the supervisor.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToSupervisor {
    /// The first frame.
    Hello {
        /// [`VERSION`].
        version: u64,
        /// What the sandbox must keep to.
        limits: SandboxLimits,
        /// The folder whose files are kept.
        workspace: &'static str,
        /// The folders below which code may change files.
        writable: Vec<String>,
        /// System calls that the filter allows besides its own.
        extra_system_calls: ExtraNumbers,
    },
    /// SIGINT to the worker.
    Interrupt,
    /// Kill this worker; nothing when another has taken its place already.
    Replace {
        /// Which.
        worker: u64,
        /// Whether its frozen copy may take its place, instead of a fresh one.
        restore: bool,
        /// The checkpoint that takes its place, if it is there and answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint: Option<String>,
    },
    /// Let a checkpoint go.
    Forget {
        /// Its name.
        name: String,
    },
    /// End a job, with all that descends from it where it is killed.
    EndJob {
        /// Which.
        job: u64,
        /// By SIGKILL, instead of an interrupt.
        kill: bool,
    },
    /// A part of a file that was kept.
    File(FilePiece),
    /// Tell what has changed of the files since the last time.
    Keep {
        /// Comes back in `kept`.
        seq: u64,
        /// Tell of all files, as if nothing had been told.
        everything: bool,
    },
    /// Copy the files of the workspace; answered by `snapshot_done`.
    TakeSnapshot,
    /// Make the files what they were then; answered by `snapshot_done`.
    RestoreSnapshot,
    /// Sign of life; answered by `pong`.
    Ping {
        /// Comes back in the `pong`.
        seq: u64,
    },
    /// Kill everything and exit.
    Shutdown,
}

/// A part of a file of the workspace, or a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePiece {
    /// Its path below the workspace, with `/`.
    pub path: String,
    /// It is a folder.
    #[serde(default)]
    pub folder: bool,
    /// Whether it may be executed.
    #[serde(default)]
    pub executable: bool,
    /// When it was changed, in microseconds since 1970.
    pub modified_us: u64,
    /// Where in the file the bytes stand.
    pub offset: u64,
    /// They.
    pub base64: String,
    /// Whether the file is whole with them.
    pub last: bool,
}

/// The bounds that the sandbox keeps by itself.
#[derive(Debug, Clone, Serialize)]
pub struct SandboxLimits {
    /// Longest line towards the sandbox.
    pub frame_to_sandbox_bytes: usize,
    /// Longest line towards the bridge.
    pub frame_to_bridge_bytes: usize,
    /// Deepest nesting of a call's arguments.
    pub frame_depth: usize,
    /// Calls of one run under way at once.
    pub calls_in_flight: usize,
    /// Bytes of large frames of one run's calls under way at once.
    pub arguments_in_flight_bytes: usize,
    /// Largest worker, in bytes of memory of its own, of which a frozen copy is kept; 0 for none.
    pub frozen_copy_bytes: u64,
    /// Checkpoints that are kept at once.
    pub checkpoints: u64,
    /// Memory of the worker and all checkpoints together once all of the worker's has changed, 0 for no limit.
    pub checkpoint_bytes: u64,
    /// Data segment of the worker in bytes, 0 for no limit.
    pub memory_bytes: u64,
    /// File descriptors of the worker.
    pub open_files: u64,
    /// 1: the sandbox has a kernel of its own, whose memory is limited as a whole.
    pub own_kernel: u64,
    /// 1: no other process of the machine has the sandbox's user, so the kernel's limit of a user's processes is its own.
    pub own_user: u64,
    /// 1: the mounts of writable places let files be executed, which the sandbox has to forbid itself.
    pub executable_places: u64,
    /// 1: the sandbox tries to reach the network, which must deny that, before any code runs.
    pub network_denied: u64,
    /// Processes of the sandbox's user where no cgroup counts them, 0 for no limit.
    pub processes: u64,
    /// Jobs that the supervisor takes over at once.
    pub jobs: usize,
    /// Silence of the bridge after which the supervisor ends itself, in milliseconds.
    pub heartbeat_ms: u64,
    /// 1: a worker whose system calls cannot be filtered starts all the same.
    pub allow_unfiltered: u64,
    /// 1: the sandbox counts the system calls that its filter refuses.
    pub trace_denied: u64,
    /// Files and folders of the workspace that are kept.
    pub workspace_files: usize,
    /// Bytes of them in all.
    pub workspace_bytes: u64,
}

/// The bounds of the operator that the sandbox keeps by itself.
#[derive(Debug, Clone, Copy)]
pub struct SandboxBounds {
    /// The container's memory limit.
    pub memory_bytes: u64,
    /// Processes that its user may have.
    pub user_processes_max: u64,
    /// Whether it has a kernel of its own.
    pub own_kernel: bool,
    /// Whether no other process of the machine has its user.
    pub own_user: bool,
    /// Whether the mounts of its writable places let files be executed.
    pub executable_places: bool,
    /// Whether it has a network interface whose use is denied.
    pub network_denied: bool,
    /// Whether a worker without a filter of its own is accepted.
    pub allow_unfiltered: bool,
    /// Whether refused system calls are counted.
    pub trace_denied: bool,
    /// Whether a run that had to be killed may be rolled back.
    pub frozen_copies: bool,
    /// Checkpoints that may be kept.
    pub checkpoints: u64,
    /// Silence of the bridge after which the supervisor ends itself.
    pub heartbeat: Duration,
}

impl SandboxLimits {
    /// What the bridge's limits and the operator's mean for the sandbox.
    #[must_use]
    pub fn new(limits: &Limits, bounds: SandboxBounds) -> Self {
        Self {
            frame_to_sandbox_bytes: limits.frame_to_sandbox_bytes_max,
            frame_to_bridge_bytes: limits.frame_to_bridge_bytes_max,
            frame_depth: limits.json_depth_max,
            calls_in_flight: limits.calls_in_flight_max,
            arguments_in_flight_bytes: limits.arguments_in_flight_bytes_max,
            // Worker and copy share what neither changes; when all of it changes there is room for a third part more.
            frozen_copy_bytes: if bounds.frozen_copies { bounds.memory_bytes / 3 } else { 0 },
            checkpoints: bounds.checkpoints,
            // What is left is for the frozen copy, the supervisor and files in memory.
            checkpoint_bytes: bounds.memory_bytes / 4 * 3,
            memory_bytes: bounds.memory_bytes,
            open_files: limits.sandbox_open_files_max,
            own_kernel: bounds.own_kernel.into(),
            own_user: bounds.own_user.into(),
            executable_places: bounds.executable_places.into(),
            network_denied: bounds.network_denied.into(),
            processes: bounds.user_processes_max,
            // Those that have ended may not be gone yet when the next one begins.
            jobs: 2 * limits.jobs_max,
            heartbeat_ms: u64::try_from(bounds.heartbeat.as_millis()).unwrap_or(u64::MAX),
            allow_unfiltered: bounds.allow_unfiltered.into(),
            trace_denied: bounds.trace_denied.into(),
            workspace_files: limits.workspace_files_max,
            workspace_bytes: limits.workspace_bytes_max,
        }
    }
}

/// Frames for the worker.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToWorker {
    /// Execute code.
    Run {
        /// Its number.
        run: RunId,
        /// The worker that it is for: another one ignores it.
        worker: u64,
        /// Its source.
        code: String,
        /// The servers that it may reach.
        servers: Vec<RunServer>,
        /// Whether its images become files, since the client does not show any.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        images_as_files: bool,
    },
    /// The answer to a call.
    Result {
        /// Which.
        call: CallId,
        /// What.
        #[serde(flatten)]
        result: Result,
    },
}

/// The answer to a call.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Result {
    /// An MCP result as the server sent it, or what a helper returns.
    Value(Box<RawValue>),
    /// An MCP result whose structured content is an object with the one member `result`, which stands for the whole.
    Wrapped(Box<RawValue>),
    /// Why there is none.
    Fault(ToolFault),
    /// There is none, as the call was not made: a dry run has listed it.
    Planned {
        /// The server.
        server: String,
        /// The tool's own name.
        tool: String,
    },
}

/// A server as a run sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunServer {
    /// Its configured name.
    pub name: String,
    /// The Python identifier made of it.
    pub alias: String,
    /// The operator's description, or nothing.
    pub description: String,
    /// Whether binary values of the sandbox may stand in arguments for it.
    pub takes_files: bool,
}

impl ToSupervisor {
    /// The frame as one line.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        let size = if let Self::File(piece) = self { piece.base64.len() + piece.path.len() } else { 0 };
        to_line(b"S", self, size + 128)
    }
}

impl ToWorker {
    /// The frame as one line.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        let size = match self {
            Self::Run { code, .. } => code.len() + code.len() / 8,
            Self::Result { result: Result::Value(value) | Result::Wrapped(value), .. } => value.get().len(),
            Self::Result { .. } => 0,
        };
        to_line(b"W", self, size + 256)
    }

    /// The frame as one line for a job.
    #[must_use]
    pub fn to_line_of_job(&self, job: u64) -> Vec<u8> {
        to_line(format!("J{job}").as_bytes(), self, 256)
    }
}

fn to_line(address: &[u8], frame: &impl Serialize, size: usize) -> Vec<u8> {
    let mut line = Vec::with_capacity(size);
    line.extend_from_slice(address);
    write_json(&mut line, frame);
    line.push(b'\n');
    line
}

#[expect(clippy::expect_used, reason = "writing to memory cannot fail")]
pub(super) fn write_json(line: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(line, value)
        .expect("writing to a Vec cannot fail, and frames have string keys and no failing Serialize");
}
