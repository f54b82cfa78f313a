//! The floor: what the engine itself costs, without belljar.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belljar_engine::{
    Choice, EngineLocations, Instance, KubernetesSettings, SandboxSpec, StartedSandbox, Streams, find,
};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;

use crate::support::{Engine, environments};

const IMAGE: &str = "localhost/belljar-sandbox:latest";
/// About what a run's frames weigh.
const LINE_BYTES: usize = 100;
const ECHO: &str = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()";

/// A Python loop in a container made and attached to just like a sandbox.
pub struct Echo {
    runtime: Runtime,
    container: Box<dyn Instance>,
    streams: Streams,
    line: Vec<u8>,
}

impl Echo {
    pub fn start(engine: &Engine) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let locations = EngineLocations {
            choice: match engine.is_process() {
                true => Choice::Process,
                false => Choice::At(vec![engine.address().to_owned()]),
            },
            oci_runtime: None,
            container_host: None,
            docker_host: None,
            runtime_dir: None,
            root: false,
            podman: None,
            certificates: None,
            kubernetes: KubernetesSettings::default(),
            ssh: None,
            desktops: vec![],
            environments: engine.is_process().then(environments::usual),
            mark: None,
        };
        let spec = SandboxSpec {
            images: vec![IMAGE.into()],
            variables: vec![("TZ".to_owned(), "UTC".to_owned())],
            command: ["python3", "-I", "-u", "-c", ECHO].map(str::to_owned).to_vec(),
            oci_runtime: None,
            user: None,
            memory_bytes: 512 << 20,
            pids_max: 128,
            cpu: None,
            open_files_max: 1024,
            folders: vec![],
            labels: HashMap::new(),
            request: Duration::from_secs(30),
            reconnection: Duration::ZERO,
        };
        let StartedSandbox { instance, streams, .. } = runtime.block_on(async {
            let (engine, _) = find(&locations, &spec.images, std::path::Path::new("/nowhere"))
                .await
                .expect("the engine answers");
            engine.start(&spec).await.expect("the container starts")
        });
        let mut line = vec![b'x'; LINE_BYTES - 1];
        line.push(b'\n');
        Self { runtime, container: instance, streams, line }
    }

    /// One round trip of a line.
    pub fn trip(&mut self) -> Duration {
        let Self { runtime, streams, line, .. } = self;
        runtime.block_on(async {
            let started = Instant::now();
            streams.input.write_all(line).await.expect("the container reads");
            streams.input.flush().await.expect("the container reads");
            let mut received = 0;
            while received < line.len() {
                received += streams.output.next().await.expect("the container answers").len();
            }
            started.elapsed()
        })
    }

    pub fn end(self) {
        drop(self.streams);
        self.runtime.block_on(self.container.close()).expect("the container goes");
    }
}

/// Starts by the engine's own command line, with the flags that a sandbox has.
pub struct CommandLine {
    /// For people.
    pub name: String,
    command: Vec<&'static str>,
}

pub fn command_line(engine: &'static Engine) -> CommandLine {
    if engine.is_process() {
        // There is no command line but Python's own, which confines nothing. It is the Python that the sandbox runs, since other
        // Pythons of the machine may start four times as slowly.
        let python = environments::usual().join("default/bin/python3").canonicalize().expect("it is built");
        let python = python.into_os_string().into_string().expect("its path is UTF-8");
        let name = "python3 -I -c".to_owned();
        let command = vec![Box::leak(python.into_boxed_str()) as &str, "-I", "-c", "print(1, flush=True)"];
        return CommandLine { name, command };
    }
    let is_docker = engine.name == "docker";
    let program = if is_docker { "docker" } else { "podman" };
    let is_local = engine.name == "podman-rootful" && nix::unistd::geteuid().is_root();
    let mut start = match (is_docker, is_local) {
        (true, _) => vec!["docker", "--host", engine.address(), "run"],
        (false, true) => vec!["podman", "run"],
        // Another user's Podman is reached by its socket.
        (false, false) => vec!["podman", "--url", engine.address(), "run"],
    };
    start.extend(["--rm", "--interactive", "--network", "none", "--read-only", "--cap-drop", "ALL"]);
    start.extend(["--security-opt", "no-new-privileges", "--user", "65534:65534", "--log-driver", "none"]);
    start.extend(["--memory", "512m", "--memory-swap", "512m", "--pids-limit", "128", "--ipc", "private"]);
    start.extend(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096", "--ulimit", "core=0:0"]);
    for place in ["/tmp", "/workspace", "/run", "/var/tmp", "/dev/shm"] {
        start.extend([
            "--tmpfs",
            Box::leak(format!("{place}:rw,noexec,nosuid,nodev,size=64m,mode=1777").into_boxed_str()),
        ]);
    }
    start.extend(["--workdir", "/tmp", IMAGE, "python3", "-I", "-c", "print(1, flush=True)"]);
    let how = if is_docker || is_local { "run" } else { "--url run" };
    CommandLine { name: format!("{program} {how}"), command: start }
}

impl CommandLine {
    /// The time from the command to the first line that Python prints.
    pub fn first_line(&self) -> Duration {
        let started = Instant::now();
        let mut child = Command::new(self.command[0])
            .args(&self.command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the engine's command line is installed");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its output");
        let took = started.elapsed();
        assert_eq!(line, "1\n", "{} failed", self.name);
        child.wait().expect("it ends");
        took
    }
}
