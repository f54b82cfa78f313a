//! The engine that needs nothing installed: starts a sandbox as a process of this machine and ends it.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::{BoxFuture, ready};
use futures_util::{Stream, StreamExt, stream};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdout, Command};

use super::super::choice::Choice;
use super::super::error::EngineError;
use super::super::interface::{About, Chunk, Engine, Instance, NotStarted, Output, Started, Streams};
use super::super::kernel::{OuterLimits, online_processors};
use super::super::masks;
use super::super::owner::Owner;
use super::super::spec::{ENVIRONMENT, FIRSTS_PROCESSES_MAX, SandboxSpec, tmpfs_mib};
use super::super::usage::UsageMeter;
use super::first::First;
use super::identity::Identity;
use super::plan::{MAPPED, Plan, READY, UNSHARED};
use super::python::Python;
use super::refusal::unconfined;
use crate::confine::{Failed, PROGRAM_FOLDERS};

/// Starts sandboxes as processes of this machine. It is there always; whether the machine lets it work is found out by each
/// start.
#[derive(Debug, Default)]
pub struct ProcessEngine {
    /// Why no container engine serves, where any would have done.
    instead_of: Option<Vec<String>>,
}

/// A sandbox that has started.
#[derive(Debug)]
struct Process {
    /// The parent of PID 1.
    child: Child,
    /// Tells when PID 1 has ended.
    first: Option<First>,
    command: Vec<String>,
    request: Duration,
    /// Held while the sandbox exists.
    _identity: Identity,
}

/// What the first reply says where no engine was named.
const STANDS_IN: &str = "no Podman or Docker answers, so sandboxes are processes of this machine, without images; \
                         MCP_BRIDGE_RUNTIME=process names this engine and silences the notice";
/// The program that is started again.
const OWN_PROGRAM: &str = "/proc/self/exe";
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Longest line of the process before it becomes a sandbox.
const LINE_BYTES_MAX: usize = 4096;
/// Bytes of a stream that are read at once.
const READ_BYTES: usize = 64 * 1024;
/// What a sandbox could not exceed if it had them: nothing of them is mounted.
const GROUPS: &str = "/sys/fs/cgroup";

impl ProcessEngine {
    /// In place of a container engine. `tried`: each place where one could be, and why it does not serve.
    pub fn standing_in(tried: Vec<String>) -> Self {
        Self { instead_of: Some(tried) }
    }

    /// The error of a start, with that of the container engines that were looked for first.
    fn refused(&self, error: EngineError) -> EngineError {
        let Some(tried) = &self.instead_of else { return error };
        let no_engine = EngineError::NoEngine { tried: tried.clone(), choice: Choice::Auto, is_named: false };
        match error {
            EngineError::TakesContainers { .. } => no_engine,
            EngineError::Unconfined { .. } | EngineError::NoPython { .. } => {
                EngineError::Neither { containers: Box::new(no_engine), processes: Box::new(error) }
            }
            other => other,
        }
    }

    async fn started(&self, spec: &SandboxSpec) -> Result<Started, EngineError> {
        if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
            let why = "it takes Linux on x86-64 or aarch64".to_owned();
            return Err(unconfined(&Failed { could_not: "be confined".into(), why, errno: None }));
        }
        let images = spec.images.split_first().filter(|(_, others)| others.is_empty());
        let wanted = spec.oci_runtime.as_ref().map(|name| format!("the OCI runtime {name}"));
        if let Some(what) = wanted.or_else(|| images.map(|(name, _)| format!("the image {name}"))) {
            return Err(EngineError::TakesContainers { what });
        }
        let python = Python::find().await?;
        let identity = Identity::choose(spec.user);
        let plan = plan(spec, &python, &identity);
        let failed = |could_not: &'static str| {
            move |error: std::io::Error| {
                unconfined(&Failed {
                    could_not: could_not.into(),
                    why: error.to_string(),
                    errno: error.raw_os_error(),
                })
            }
        };
        let plan = serde_json::to_string(&plan)
            .map_err(std::io::Error::other)
            .map_err(failed("be told its plan"))?;
        let mut command = std::process::Command::new(OWN_PROGRAM);
        command
            .arg0("belljar")
            .args(["confine", "--parent", &std::process::id().to_string(), &plan])
            .env_clear()
            // The terminal's signals are the bridge's, which ends the sandbox when it has what it needs of it.
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
        identity.map(pid).await.map_err(failed("be given a user of its own"))?;
        input.write_all(MAPPED.as_bytes()).await.map_err(failed("be answered"))?;
        expect(&mut stdout, READY).await?;
        let chunks = stream::select(chunks(stdout, Chunk::Stdout), chunks(stderr, Chunk::Stderr));
        Ok(Started {
            streams: Streams { input: Box::pin(input), output: Output::new(chunks) },
            image: python.to_string(),
            python_id: python.id(),
            user: identity.inside,
            shared_user: identity.shared(),
            cpu: spec.cpu,
            warnings: self.instead_of.iter().map(|_| STANDS_IN.to_owned()).collect(),
            instance: Box::new(Process {
                first: first_of(pid).and_then(First::new),
                child,
                command: spec.command.clone(),
                request: spec.request,
                _identity: identity,
            }),
        })
    }
}

impl Engine for ProcessEngine {
    fn address(&self) -> &str {
        "no container engine"
    }

    /// One that stands in gives way to a container engine that has been started since.
    fn answers(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(self.instead_of.is_none()))
    }

    fn about(&self) -> BoxFuture<'_, Result<About, EngineError>> {
        let name = "process (sandboxes in namespaces of this machine, no container engine)".to_owned();
        Box::pin(ready(Ok(About { name, is_containers: false, runtime: None })))
    }

    fn processors(&self, _: Duration) -> BoxFuture<'_, Result<u64, EngineError>> {
        Box::pin(ready(Ok(online_processors())))
    }

    fn outlives_bridge(&self) -> bool {
        false
    }

    fn program_folders(&self) -> Vec<String> {
        PROGRAM_FOLDERS.map(str::to_owned).to_vec()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn masked_paths(&self) -> Vec<&'static str> {
        masked().chain([GROUPS]).collect()
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Started, NotStarted>> {
        Box::pin(async move {
            let started = tokio::time::timeout(spec.request, self.started(spec)).await;
            let late = EngineError::Timeout { action: "start the sandbox", after: spec.request };
            // What was started ends with its value.
            started
                .unwrap_or(Err(late))
                .map_err(|error| NotStarted { error: self.refused(error), may_exist: false })
        })
    }

    fn reap<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<usize, EngineError>> {
        // A sandbox ends with its bridge; only files of locks can be left.
        owner.sweep();
        Box::pin(ready(Ok(0)))
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

    fn close(mut self: Box<Self>) -> BoxFuture<'static, Result<(), EngineError>> {
        Box::pin(async move {
            let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
            // It kills PID 1, and ends once every process of the sandbox has. If it was killed itself, PID 1 is being killed.
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

/// The number of PID 1 on the machine, by its parent's.
fn first_of(parent: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn plan(spec: &SandboxSpec, python: &Python, identity: &Identity) -> Plan {
    let variables = [("PATH", SEARCH_PATH), ("LANG", "C.UTF-8")].into_iter().chain(ENVIRONMENT);
    Plan {
        labels: spec.labels.clone().into_iter().collect(),
        program: python.program.clone(),
        command: spec.command.clone(),
        environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        uid: identity.inside.uid,
        gid: identity.inside.gid,
        drops_groups: identity.drops_groups(),
        places: tmpfs_mib(spec.memory_bytes).into_iter().map(|(path, mib)| (path.to_owned(), mib)).collect(),
        folders: spec.folders.clone(),
        masked: masked().map(str::to_owned).collect(),
        open_files_max: spec.open_files_of_first(),
        processes_max: FIRSTS_PROCESSES_MAX,
    }
}

fn masked() -> impl Iterator<Item = &'static str> {
    masks::DEFAULTS.into_iter().chain(masks::OF_PROC).chain(masks::OF_SYS)
}

/// Waits for a line of the process; any other one says why there is no sandbox.
async fn expect(stdout: &mut ChildStdout, line: &str) -> Result<(), EngineError> {
    let mut said = Vec::new();
    // Byte by byte: what comes after the last line is the sandbox's.
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
    Err(unconfined(&serde_json::from_slice(&said).unwrap_or_else(|_| Failed {
        could_not: "become a sandbox".into(),
        why: "it ended without a word".into(),
        errno: None,
    })))
}

/// What is read from a stream until its end.
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
