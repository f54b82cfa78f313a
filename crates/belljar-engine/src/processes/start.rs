//! Starts one sandbox as a process of this machine, and ends it.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use belljar_confine::{Step, StepFailure, StepKind, remedy};
use bytes::BytesMut;
use futures_util::future::{BoxFuture, ready};
use futures_util::{Stream, StreamExt, stream};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdout, Command};

use super::super::error::EngineError;
use super::super::fate::{FATE_REQUEST, Fate};
use super::super::interface::{Chunk, Instance, Output, StartedSandbox, Streams};
use super::super::kernel::OuterLimits;
use super::super::masks;
use super::super::spec::{ENVIRONMENT, FIRSTS_PROCESSES_MAX, SandboxSpec, tmpfs_mib};
use super::super::usage::UsageMeter;
use super::environment::Environment;
use super::identity::Identity;
use super::init_exit::InitProcess;
use super::namespaces::exit_code;
use super::plan::{ENVIRONMENT_FOLDER, MAPPED, Plan, READY, UNSHARED};
use super::python::Python;

/// The Python and the packages of a sandbox.
#[derive(Debug)]
pub(super) enum Packages {
    /// The machine's Python and packages.
    Machine(Python),
    /// The Python and packages of a virtual environment.
    Environment(Environment),
}

/// A sandbox that has started.
#[derive(Debug)]
struct Process {
    /// The parent of PID 1.
    child: Child,
    /// Tells when PID 1 has ended.
    first: Option<InitProcess>,
    command: Vec<String>,
    request: Duration,
    /// Held while the sandbox exists.
    _identity: Identity,
    _packages: Packages,
}

/// This program, which is started again.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The longest line of the process before it becomes a sandbox, in bytes.
const LINE_BYTES_MAX: usize = 4096;
/// The largest number of bytes that are read from a stream at once.
const READ_BYTES: usize = 64 * 1024;
/// Starts a sandbox with these packages.
///
/// # Errors
/// The error of the failed step.
pub(super) async fn start(spec: &SandboxSpec, packages: Packages) -> Result<StartedSandbox, EngineError> {
    let identity = Identity::choose(spec.user);
    let plan = plan(spec, &packages, &identity);
    let failed = |could_not: &'static str| {
        move |error: std::io::Error| {
            unconfined(&StepFailure {
                could_not: could_not.into(),
                why: error.to_string(),
                errno: error.raw_os_error(),
                kind: StepKind::Other,
            })
        }
    };
    let plan =
        serde_json::to_string(&plan).map_err(std::io::Error::other).map_err(failed("be told its plan"))?;
    let mut command = std::process::Command::new(OWN_PROGRAM);
    command
        .arg0("belljar")
        .args(["confine", "--parent", &std::process::id().to_string(), &plan])
        .env_clear()
        // Signals of the terminal go to the bridge only, which ends the sandbox when it no longer needs it.
        .process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = Command::from(command);
    let mut child = command.kill_on_drop(true).spawn().map_err(failed("be started"))?;
    let (Some(mut input), Some(mut stdout), Some(stderr), Some(pid)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take(), child.id())
    else {
        return Err(failed("be started")(std::io::ErrorKind::BrokenPipe.into()));
    };
    expect(&mut stdout, UNSHARED).await?;
    let mapped = identity.map(pid).await.namespace_step("be given a user of its own");
    mapped.map_err(|failed| unconfined(&failed))?;
    input.write_all(MAPPED.as_bytes()).await.map_err(failed("be answered"))?;
    expect(&mut stdout, READY).await?;
    let chunks = stream::select(chunks(stdout, Chunk::Stdout), chunks(stderr, Chunk::Stderr));
    Ok(StartedSandbox {
        streams: Streams { input: Box::pin(input), output: Output::new(chunks) },
        image: packages.to_string(),
        python_id: packages.python().id(),
        user: identity.inside,
        shared_user: identity.shared(),
        cpu: spec.cpu,
        warnings: vec![],
        instance: Box::new(Process {
            first: first_of(pid).and_then(InitProcess::new),
            child,
            command: spec.command.clone(),
            request: spec.request,
            _identity: identity,
            _packages: packages,
        }),
    })
}

impl Packages {
    fn python(&self) -> &Python {
        match self {
            Self::Machine(python) => python,
            Self::Environment(environment) => &environment.python,
        }
    }
}

impl std::fmt::Display for Packages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Machine(python) => write!(f, "{} of this machine", python.program),
            Self::Environment(environment) => {
                write!(f, "{}, for {} of this machine", environment.reference, environment.python.program)
            }
        }
    }
}

impl Instance for Process {
    fn meter(&self) -> BoxFuture<'_, Option<UsageMeter>> {
        let first = self.child.id().and_then(first_of);
        Box::pin(ready(first.and_then(|first| UsageMeter::new(first, &self.command))))
    }

    fn outer_limits(&self) -> BoxFuture<'_, OuterLimits> {
        Box::pin(ready(OuterLimits::default()))
    }

    fn fate(&mut self) -> BoxFuture<'_, Fate> {
        Box::pin(async {
            match tokio::time::timeout(FATE_REQUEST, self.child.wait()).await {
                Ok(Ok(status)) => exit_code(status).map_or(Fate::Gone, |code| Fate::Ended(code.into())),
                Ok(Err(_)) => Fate::Gone,
                Err(_) => Fate::Disconnected,
            }
        })
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, Result<(), EngineError>> {
        Box::pin(async move {
            let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
            // The parent of PID 1 kills it on SIGTERM, and ends after all processes of the sandbox. If the parent was
            // killed itself, the kernel kills PID 1.
            if let Some(pid) = pid
                && let Err(error) = kill(Pid::from_raw(pid), Signal::SIGTERM)
            {
                tracing::debug!(%error, "the sandbox had ended");
            }
            let late = EngineError::Timeout { action: "end the sandbox", after: self.request };
            let has_ended = tokio::time::timeout(self.request, self.child.wait()).await.is_ok();
            let has_ended = match self.first {
                Some(first) if has_ended => first.ended(self.request).await,
                _ => has_ended,
            };
            if has_ended { Ok(()) } else { Err(late) }
        })
    }
}

/// The number of PID 1 on the machine, found by its parent's number.
fn first_of(parent: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn plan(spec: &SandboxSpec, packages: &Packages, identity: &Identity) -> Plan {
    let (program, path, environment) = match packages {
        Packages::Machine(python) => (python.program.clone(), SEARCH_PATH.to_owned(), None),
        Packages::Environment(environment) => {
            let programs = format!("{ENVIRONMENT_FOLDER}/bin");
            let dir = environment.dir.to_string_lossy().into_owned();
            (format!("{programs}/python3"), format!("{programs}:{SEARCH_PATH}"), Some(dir))
        }
    };
    let variables = [("PATH", path.as_str()), ("LANG", "C.UTF-8")];
    let own = spec.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let variables = variables.into_iter().chain(own).chain(ENVIRONMENT);
    Plan {
        labels: spec.labels.clone().into_iter().collect(),
        program,
        environment_folder: environment,
        command: spec.command.clone(),
        environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        uid: identity.inside.uid,
        gid: identity.inside.gid,
        drops_groups: identity.drops_groups(),
        places: tmpfs_mib(spec.memory_bytes).into_iter().map(|(path, mib)| (path.to_owned(), mib)).collect(),
        folders: spec.folders.clone(),
        masked: masks::DEFAULTS.into_iter().chain(masks::OF_PROC).map(str::to_owned).collect(),
        open_files_max: spec.open_files_of_first(),
        processes_max: FIRSTS_PROCESSES_MAX,
    }
}

/// Waits for this line of the process. Another line is the reason why there is no sandbox.
async fn expect(stdout: &mut ChildStdout, line: &str) -> Result<(), EngineError> {
    let mut said = Vec::new();
    // The line is read byte by byte, since everything after the last line is output of the sandbox.
    while said.len() < LINE_BYTES_MAX {
        match stdout.read_u8().await {
            Ok(b'\n') => break,
            Ok(byte) => said.push(byte),
            Err(_) => break,
        }
    }
    if said == line.as_bytes() {
        return Ok(());
    }
    Err(unconfined(&serde_json::from_slice(&said).unwrap_or_else(|_| StepFailure {
        could_not: "become a sandbox".into(),
        why: "it ended without a word".into(),
        errno: None,
        kind: StepKind::Other,
    })))
}

/// The chunks of a stream until its end.
fn chunks(
    stream: impl AsyncRead + Unpin + Send + 'static,
    of: fn(bytes::Bytes) -> Chunk,
) -> impl Stream<Item = Chunk> + Send {
    stream::unfold((stream, BytesMut::new()), move |(mut stream, mut buffer)| async move {
        buffer.reserve(READ_BYTES);
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some((of(buffer.split().freeze()), (stream, buffer))),
        }
    })
    .boxed()
}

const ELSE: &str = "use Podman or Docker: `sudo apt-get install podman` (or your distribution's way)";

/// The error for the failed step, with the remedy on this machine.
pub(super) fn unconfined(failed: &StepFailure) -> EngineError {
    let StepFailure { could_not, why, .. } = failed;
    EngineError::Unconfined {
        what: format!("a process could not {could_not}: {why}"),
        remedy: remedy(failed).map_or_else(|| ELSE.to_owned(), |found| format!("{found}; or {ELSE}")),
    }
}
