//! A Podman API service of the bridge's own, on a private socket, for machines where none runs.
//!
//! It is rootless when the bridge is. It ends with the bridge, and by itself 30 s after its last connection.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// How long the service may take to listen.
const START: Duration = Duration::from_secs(10);

/// The running service.
#[derive(Debug)]
pub(super) struct PodmanService {
    child: Child,
    /// Holds the socket; removed with the service.
    dir: tempfile::TempDir,
}

impl PodmanService {
    pub(super) async fn start(program: &Path) -> std::io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("hotcell-podman-").tempdir()?;
        let socket = dir.path().join("podman.sock");
        let child = Command::new(program)
            .args(["system", "service", "--time=30"])
            .arg(format!("unix://{}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut service = Self { child, dir };
        let listening = async {
            loop {
                if tokio::net::UnixStream::connect(&socket).await.is_ok() {
                    return Ok(());
                }
                if let Some(status) = service.child.try_wait()? {
                    return Err(std::io::Error::other(format!("ended at once, {status}")));
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(START, listening)
            .await
            .unwrap_or_else(|_| Err(std::io::Error::other("does not listen")))?;
        Ok(service)
    }

    pub(super) fn address(&self) -> String {
        format!("unix://{}", self.dir.path().join("podman.sock").display())
    }
}

impl Drop for PodmanService {
    fn drop(&mut self) {
        let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()) else {
            return; // already reaped
        };
        if let Err(error) = killpg(Pid::from_raw(pid), Signal::SIGTERM) {
            tracing::debug!(%error, "the podman service was gone before it was ended");
        }
    }
}
