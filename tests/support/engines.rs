//! The engines that the tests use, found by the variables that `scripts/setup.sh engines-up` writes.
//!
//! An absent engine skips its tests aloud, and fails them where `CI=true`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One engine that answers.
#[derive(Debug, Clone)]
pub struct Engine {
    pub name: &'static str,
    address: String,
}

/// The image that sandboxes have.
const IMAGE: &str = "localhost/belljar-sandbox:latest";

/// No container engine: sandboxes are processes of this machine. It is there on every Linux.
const PROCESS: &str = "process";

/// Variables and the names that people read.
pub const ENGINES: [(&str, &str); 3] = [
    ("BELLJAR_TEST_PODMAN_ROOTFUL", "podman-rootful"),
    ("BELLJAR_TEST_PODMAN_ROOTLESS", "podman-rootless"),
    ("BELLJAR_TEST_DOCKER", "docker"),
];

/// Declares one test for each engine from each named function, which takes the engine.
#[macro_export]
macro_rules! on_every_engine {
    ($($claim:ident),* $(,)?) => {
        $(mod $claim {
            #[test]
            fn podman_rootful() {
                $crate::support::engines::check("podman-rootful", super::$claim);
            }

            #[test]
            fn podman_rootless() {
                $crate::support::engines::check("podman-rootless", super::$claim);
            }

            #[test]
            fn docker() {
                $crate::support::engines::check("docker", super::$claim);
            }

            #[test]
            fn process() {
                $crate::support::engines::check("process", super::$claim);
            }
        })*
    };
}

/// The same, for what is about containers or images.
#[macro_export]
macro_rules! on_every_container_engine {
    ($($claim:ident),* $(,)?) => {
        $(mod $claim {
            #[test]
            fn podman_rootful() {
                $crate::support::engines::check("podman-rootful", super::$claim);
            }

            #[test]
            fn podman_rootless() {
                $crate::support::engines::check("podman-rootless", super::$claim);
            }

            #[test]
            fn docker() {
                $crate::support::engines::check("docker", super::$claim);
            }
        })*
    };
}

/// Declares two tests from each named function, for what does not depend on the engine: on the first container engine that is
/// there, and on processes.
#[macro_export]
macro_rules! on_one_engine_and_processes {
    ($($claim:ident),* $(,)?) => {
        $(mod $claim {
            #[test]
            fn one_engine() {
                $crate::support::engines::check_on_one(super::$claim);
            }

            #[test]
            fn process() {
                $crate::support::engines::check("process", super::$claim);
            }
        })*
    };
}

/// Runs the claim on the first container engine that is there.
pub fn check_on_one(claim: fn(&Engine)) {
    match Engine::any() {
        Some(engine) if engine.is_process() => eprintln!("SKIPPED: only the process engine is there"),
        Some(engine) => claim(&engine),
        None => {}
    }
}

/// Runs the claim on the engine of that name.
pub fn check(name: &str, claim: fn(&Engine)) {
    match Engine::find(name) {
        Some(engine) => claim(&engine),
        None if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
            panic!("{name} is absent, and this is CI; scripts/setup.sh engines-up starts it")
        }
        None => eprintln!("SKIPPED: {name} is absent; scripts/setup.sh engines-up starts it"),
    }
}

impl Engine {
    pub fn find(name: &str) -> Option<Self> {
        if name == PROCESS {
            return cfg!(target_os = "linux").then(|| Self { name: PROCESS, address: PROCESS.into() });
        }
        let (variable, name) = ENGINES.into_iter().find(|(_, known)| *known == name)?;
        let address = std::env::var(variable).ok().or_else(|| written(variable))?;
        Some(Self { name, address })
    }

    /// All that are there, or the one that `BELLJAR_TEST_ENGINE` names.
    pub fn all() -> Vec<Self> {
        let only = std::env::var("BELLJAR_TEST_ENGINE").ok();
        let is_wanted = |name: &&str| only.as_ref().is_none_or(|only| only == name);
        let names = ENGINES.into_iter().map(|(_, name)| name).chain([PROCESS]);
        names.filter(is_wanted).filter_map(Self::find).collect()
    }

    /// The first one, for what is the same on each.
    pub fn any() -> Option<Self> {
        let engine = Self::all().into_iter().next();
        if engine.is_none() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "no engine is there, and this is CI");
            eprintln!("SKIPPED: no engine is there; scripts/setup.sh engines-up starts them");
        }
        engine
    }

    /// The one that has gVisor as a further OCI runtime, `runsc`. Not every distribution has gVisor, so that its absence
    /// fails nothing.
    pub fn with_runsc() -> Option<Self> {
        let name = std::env::var("BELLJAR_TEST_RUNSC").ok().or_else(|| written("BELLJAR_TEST_RUNSC"));
        let engine = name.and_then(|name| Self::find(&name));
        if engine.is_none() {
            eprintln!(
                "SKIPPED: no engine has runsc; scripts/setup.sh test installs it where the distribution has it"
            );
        }
        engine
    }

    /// As `MCP_BRIDGE_RUNTIME` takes it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether its sandboxes have a user namespace; on this machine's kernel such an engine makes no control groups.
    pub fn is_rootless(&self) -> bool {
        self.name == "podman-rootless" || self.is_process()
    }

    /// Whether its sandboxes are processes of this machine.
    pub fn is_process(&self) -> bool {
        self.name == PROCESS
    }

    /// Ids of the containers, running or not, that carry one of these owners' labels.
    pub fn containers_of(&self, owners: &[String]) -> Vec<String> {
        if self.is_process() {
            let of = |owner: &String| format!("\"belljar.owner\":\"{owner}\"");
            return sandboxes(|plan| owners.iter().any(|owner| plan.contains(&of(owner))));
        }
        let is_owned = |container: &Value| {
            let owner = container["Labels"]["belljar.owner"].as_str().unwrap_or_default();
            owners.iter().any(|known| known == owner)
        };
        self.listed(is_owned)
    }

    /// Creates a container, not started, with these labels; returns its id.
    pub fn create_container(&self, labels: &Value) -> String {
        let body = serde_json::json!({"Image": IMAGE, "Cmd": ["true"], "Labels": labels});
        let created = self.send("POST", "/v1.41/containers/create", &body.to_string());
        let created: Value = serde_json::from_slice(&created).expect("the engine answers with JSON");
        created["Id"].as_str().unwrap_or_else(|| panic!("no container: {created}")).to_owned()
    }

    /// Ids of all containers, running or not.
    pub fn containers(&self) -> Vec<String> {
        if self.is_process() {
            return sandboxes(|_| true);
        }
        self.listed(|_| true)
    }

    /// Ids of the containers for which this holds. Podman refuses to list them at the moment at which one is removed.
    fn listed(&self, is_wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let mut said = Value::Null;
        for _ in 0..20 {
            let answer = self.request("GET", "/v1.41/containers/json?all=1");
            said = serde_json::from_slice(&answer).expect("the engine answers with JSON");
            if let Value::Array(containers) = &said {
                let wanted = containers.iter().filter(|container| is_wanted(container));
                return wanted.map(|container| container["Id"].as_str().unwrap().to_owned()).collect();
            }
        }
        panic!("{} lists no containers: {said}", self.name);
    }

    pub fn has_image(&self, name: &str) -> bool {
        let about = self.request("GET", &format!("/v1.41/images/{name}/json"));
        serde_json::from_slice::<Value>(&about).is_ok_and(|about| about["Id"].is_string())
    }

    /// An image built from these files, one of which is the `Dockerfile`.
    pub fn build_image(&self, name: &str, files: &[(&str, &str)]) {
        let path = format!("/v1.41/build?t={name}");
        let answer = self.send_bytes("POST", &path, "application/x-tar", &tar(files));
        assert!(self.has_image(name), "{}", String::from_utf8_lossy(&answer));
    }

    /// Puts an image into the registry; its reference there, with its digest.
    pub fn push_image(&self, name: &str, registry: &Registry) -> String {
        let known_as = name.rsplit('/').next().unwrap().replace(':', "-");
        let repository = format!("{}/{known_as}", registry.address);
        self.request("POST", &format!("/v1.41/images/{name}/tag?repo={repository}&tag=1"));
        let said = self.request("POST", &format!("/v1.41/images/{repository}/push?tag=1"));
        self.remove_image(&format!("{repository}:1"));
        let digest = registry.digest(&known_as);
        let digest = digest.unwrap_or_else(|| panic!("not pushed: {}", String::from_utf8_lossy(&said)));
        format!("{repository}@{digest}")
    }

    /// An image with nothing in it but an empty file.
    pub fn make_empty_image(&self, name: &str) {
        let tar = tar(&[("empty", "")]);
        let path = format!("/v1.41/images/create?fromSrc=-&repo={name}&tag=latest");
        let answer = self.send_bytes("POST", &path, "application/x-tar", &tar);
        assert!(self.has_image(&format!("{name}:latest")), "{}", String::from_utf8_lossy(&answer));
    }

    pub fn remove_image(&self, name: &str) {
        self.request("DELETE", &format!("/v1.41/images/{name}?force=true"));
    }

    pub fn remove_container(&self, id: &str) {
        if self.is_process() {
            return self.kill_container(id);
        }
        self.request("DELETE", &format!("/v1.41/containers/{id}?force=true"));
    }

    pub fn kill_container(&self, id: &str) {
        if self.is_process() {
            let first = self.inspect_container(id)["State"]["Pid"].as_i64();
            let pid = nix::unistd::Pid::from_raw(id.parse().unwrap());
            // It may have ended by itself.
            let _gone_or_killed = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            // As an engine answers once the container has gone.
            while first.is_some_and(|first| std::fs::exists(format!("/proc/{first}")).unwrap()) {
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            }
            return;
        }
        self.request("POST", &format!("/v1.41/containers/{id}/kill?signal=KILL"));
    }

    /// The engine's description of a container. The pid is null if a sandbox of processes has no PID 1, or has lost it.
    pub fn inspect_container(&self, id: &str) -> Value {
        if self.is_process() {
            let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
            let pid: Option<u64> =
                children.ok().and_then(|children| children.split_whitespace().next()?.parse().ok());
            return serde_json::json!({"State": {"Pid": pid}});
        }
        let inspected = self.request("GET", &format!("/v1.41/containers/{id}/json"));
        serde_json::from_slice(&inspected).expect("the engine describes a container as JSON")
    }

    /// Names of the volumes that stand for this folder.
    pub fn volumes_of(&self, folder: &Path) -> Vec<String> {
        if self.is_process() {
            return vec![];
        }
        let listed: Value = serde_json::from_slice(&self.request("GET", "/v1.41/volumes"))
            .expect("the engine lists volumes as JSON");
        let volumes = listed["Volumes"].as_array().into_iter().flatten();
        let is_of = |volume: &&Value| volume["Options"]["device"].as_str() == folder.to_str();
        volumes.filter(is_of).map(|volume| volume["Name"].as_str().unwrap().to_owned()).collect()
    }

    /// Runs a container of this configuration to its end, and returns what it wrote to its stdout.
    pub fn run_container(&self, configuration: &Value) -> String {
        let created = self.send("POST", "/v1.41/containers/create", &configuration.to_string());
        let created: Value = serde_json::from_slice(&created).expect("the engine answers in JSON");
        let id = created["Id"].as_str().unwrap_or_else(|| panic!("{}: {created}", self.name)).to_owned();
        let started = self.request("POST", &format!("/v1.41/containers/{id}/start"));
        self.request("POST", &format!("/v1.41/containers/{id}/wait"));
        let logs = self.request("GET", &format!("/v1.41/containers/{id}/logs?stdout=1&stderr=1"));
        self.remove_container(&id);
        assert!(started.is_empty(), "{}: {}", self.name, String::from_utf8_lossy(&started));
        let (stdout, stderr) = streams(&logs);
        assert!(stderr.is_empty(), "{}: {stderr}", self.name);
        stdout
    }

    fn request(&self, method: &str, path: &str) -> Vec<u8> {
        self.send(method, path, "")
    }

    /// HTTP/1.0, so that the answer's body ends with the connection and comes in one piece.
    fn send(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.send_bytes(method, path, "application/json", body.as_bytes())
    }

    fn send_bytes(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(self.address.strip_prefix("unix://").unwrap()).unwrap();
        let length = body.len();
        // Docker wants to be told even that a registry needs no login.
        let login = "X-Registry-Auth: e30=";
        let head = format!("{method} {path} HTTP/1.0\r\nHost: engine\r\n{login}\r\nContent-Type: {kind}\r\n");
        stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        // An engine may answer and hang up before it has read everything.
        let ended = stream.read_to_end(&mut answer);
        assert!(ended.is_ok() || !answer.is_empty(), "{ended:?}");
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an HTTP answer") + 4;
        answer.split_off(body)
    }
}

/// An archive of these files.
fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let tar = Command::new("tar").args(["--create", "--directory"]).arg(dir.path()).arg(".").output();
    tar.expect("tar is installed").stdout
}

/// The numbers of the processes that keep a sandbox each whose plan is such a one.
fn sandboxes(is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().into_string().ok());
    // A child of such a process looks like it until it has executed its own program.
    let is_keeper = |number: &String| {
        plan_of(number).is_some_and(|plan| is_wanted(&plan)) && plan_of(&parent_of(number)).is_none()
    };
    numbers.filter(is_keeper).collect()
}

/// The plan in the command line of a process that keeps a sandbox; `None`: it keeps none.
fn plan_of(number: &str) -> Option<String> {
    let line = std::fs::read(format!("/proc/{number}/cmdline")).ok()?;
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    match &words[..] {
        [program, confine, parent, _, plan, ..]
            if (&**program, &**confine, &**parent) == ("belljar", "confine", "--parent") =>
        {
            Some(plan.clone().into_owned())
        }
        _ => None,
    }
}

/// The number of a process's parent; empty for a process that has ended.
fn parent_of(number: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.unwrap_or_default().trim().to_owned()
}

/// Stdout and stderr of a container's log: pieces with their stream and length before each.
fn streams(mut log: &[u8]) -> (String, String) {
    let mut streams = [Vec::new(), Vec::new()];
    while let Some((head, rest)) = log.split_at_checked(8) {
        let length = u32::from_be_bytes(head[4..].try_into().unwrap()) as usize;
        streams[usize::from(head[0] == 2)].extend_from_slice(&rest[..length]);
        log = &rest[length..];
    }
    streams.map(|bytes| String::from_utf8(bytes).expect("a log of text")).into()
}

/// The registry of images that the set-up has started.
pub struct Registry {
    pub address: String,
    folder: PathBuf,
}

impl Registry {
    pub fn find() -> Option<Self> {
        let of = |variable: &str| std::env::var(variable).ok().or_else(|| written(variable));
        match (of("BELLJAR_TEST_REGISTRY"), of("BELLJAR_TEST_REGISTRY_DIR")) {
            (Some(address), Some(folder)) => Some(Self { address, folder: folder.into() }),
            _ if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
                panic!("the registry is absent, and this is CI; scripts/setup.sh test sets it up")
            }
            _ => {
                eprintln!("SKIPPED: the registry is absent; scripts/setup.sh test sets it up");
                None
            }
        }
    }

    /// The digest of what was pushed last as the first version.
    fn digest(&self, repository: &str) -> Option<String> {
        let link = format!("repositories/{repository}/_manifests/tags/1/current/link");
        std::fs::read_to_string(self.folder.join("docker/registry/v2").join(link)).ok()
    }

    /// Has it answer with the manifest of another image.
    pub fn exchange(&self, reference: &str, other: &str) {
        let [file, other] = [reference, other].map(|reference| {
            let digits = reference.rsplit_once(':').unwrap().1;
            let path = format!("docker/registry/v2/blobs/sha256/{}/{digits}/data", &digits[..2]);
            self.folder.join(path)
        });
        std::fs::copy(other, file).unwrap();
    }
}

/// The variable's line in the file that the set-up wrote.
fn written(variable: &str) -> Option<String> {
    let lines = std::fs::read_to_string(cache().join("engines.env")).ok()?;
    let value = lines.lines().find_map(|line| line.strip_prefix(variable)?.strip_prefix('='))?;
    Some(value.to_owned())
}

/// Where the set-up keeps what it installs.
pub fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache");
    std::env::var_os("BELLJAR_CACHE").map(PathBuf::from).unwrap_or_else(|| {
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).unwrap_or_else(home).join("belljar")
    })
}
