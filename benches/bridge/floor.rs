//! The floor: what the engine itself costs, without hotcell.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotcell::engine::{Choice, Places, SandboxSpec, find};
use tokio::io::AsyncWriteExt;

use crate::figures::Samples;
use crate::support::Engine;

const IMAGE: &str = "localhost/hotcell-sandbox:latest";
const ROUND_TRIPS: usize = 2_000;
const STARTS: usize = 7;
/// About what a run's frames weigh.
const LINE_BYTES: usize = 100;
const ECHO: &str = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()";

/// Round trips of a line through a Python loop in a container made and attached to just like a sandbox.
pub async fn attach_echo(engine: &Engine) -> Samples {
    let places = Places {
        choice: Choice::At(engine.address().to_owned()),
        container_host: None,
        docker_host: None,
        runtime_dir: None,
        root: false,
        podman: None,
        ssh: None,
        home: None,
        mark: None,
    };
    let engine = find(&places, std::path::Path::new("/nowhere")).await.expect("the engine answers");
    let spec = SandboxSpec {
        image: IMAGE.into(),
        command: ["python3", "-I", "-u", "-c", ECHO].map(str::to_owned).to_vec(),
        user: "65534:65534".into(),
        memory_bytes: 512 << 20,
        pids_max: 128,
        cpu_millis: None,
        open_files_max: 1024,
        labels: HashMap::new(),
        request: Duration::from_secs(30),
    };
    let (container, mut streams) = engine.start(&spec).await.expect("the container starts");
    let mut line = vec![b'x'; LINE_BYTES - 1];
    line.push(b'\n');
    let mut trips = Vec::new();
    for trip in 0..ROUND_TRIPS + 200 {
        let started = Instant::now();
        streams.input.write_all(&line).await.expect("the container reads");
        streams.input.flush().await.expect("the container reads");
        let mut received = 0;
        while received < line.len() {
            received += streams.output.next().await.expect("the container answers").len();
        }
        // The first ones warm it up.
        if trip >= 200 {
            trips.push(started.elapsed());
        }
    }
    drop(streams);
    container.close().await.expect("the container goes");
    Samples::new(trips)
}

/// Starts by the engine's own command line.
pub struct CommandLine {
    pub program: String,
    pub first_line: Samples,
}

/// The time from the command to the first line that Python prints, with the flags that a sandbox has.
pub fn command_line_run(engine: &Engine) -> CommandLine {
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
    let first_line = Samples::of(STARTS, || {
        let started = Instant::now();
        let mut child = Command::new(start[0])
            .args(&start[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the engine's command line is installed");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its output");
        let took = started.elapsed();
        assert_eq!(line, "1\n", "{program} run failed");
        child.wait().expect("it ends");
        took
    });
    let how = if is_docker || is_local { "run" } else { "--url run" };
    CommandLine { program: format!("{program} {how}"), first_line }
}
