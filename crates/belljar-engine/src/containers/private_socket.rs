//! An engine's API on a private socket, served by a process of the bridge: Podman's service if none runs, or an ssh
//! that forwards a remote engine's socket.
//!
//! The process ends with this value. If the bridge is killed, Podman's service ends by itself, 5 s after its last
//! connection. It is not killed then, so that it can still remove containers. The guardian finds an ssh by the bridge's
//! mark, and ends it.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use belljar_base::own_file;
use belljar_guard::{Mark, PARENT_VARIABLE};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// The longest time until the process listens.
const START: Duration = Duration::from_secs(10);
/// Longest text of its stderr in an error, in bytes.
const REASON_BYTES_MAX: usize = 500;

/// The running process and its socket.
#[derive(Debug)]
pub(super) struct PrivateSocket {
    child: Child,
    /// The folder of the socket, which is removed with the process.
    dir: tempfile::TempDir,
}

/// The tunnel to the socket of a remote engine.
pub(super) struct Tunnel<'a> {
    pub(super) program: &'a Path,
    pub(super) remote: &'a SshAddress,
    /// The remote socket's path.
    pub(super) socket: &'a str,
    pub(super) mark: Option<&'a Mark>,
}

/// The checked parts of `ssh://USER@HOST:PORT/SOCKET`. They become arguments of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SshAddress {
    /// `USER@HOST` or `HOST`.
    pub(super) destination: String,
    pub(super) port: Option<u16>,
    /// The remote socket's path.
    pub(super) socket: Option<String>,
}

impl SshAddress {
    pub(super) fn parse(address: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{address}: {what}; write ssh://USER@HOST:PORT/PATH/TO/SOCKET");
        let rest = address.strip_prefix("ssh://").ok_or_else(|| wrong("no ssh address"))?;
        let (authority, socket) = match rest.split_once('/') {
            Some((authority, "")) => (authority, None),
            Some((authority, path)) => (authority, Some(format!("/{path}"))),
            None => (rest, None),
        };
        let (destination, port) = match authority.rsplit_once(':') {
            Some((destination, port)) => {
                (destination, Some(port.parse().map_err(|_| wrong("the port is no number"))?))
            }
            None => (authority, None),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if destination.is_empty() || destination.starts_with('-') || !destination.chars().all(plain) {
            return Err(wrong("the host cannot be read"));
        }
        if socket.as_ref().is_some_and(|path| path.contains(':') || path.chars().any(char::is_control)) {
            return Err(wrong("the socket's path cannot be read"));
        }
        Ok(Self { destination: destination.to_owned(), port, socket })
    }
}

impl PrivateSocket {
    /// Starts Podman's API service, which is rootless if the bridge is.
    pub(super) async fn podman(
        program: &Path,
        oci_runtime: Option<&str>,
        sockets: &Path,
    ) -> std::io::Result<Self> {
        Self::start(sockets, |socket| {
            let mut command = Command::new(program);
            command.args(oci_runtime.map(|name| format!("--runtime={name}")));
            command.args(["system", "service", "--time=5"]).arg(format!("unix://{socket}"));
            // When a container runs out of memory, its monitor leaves a file named `oom` in the working folder of the
            // service.
            command.current_dir("/");
            // With one of these variables, Podman would be a client of another engine and serve nothing.
            for name in ["CONTAINER_HOST", "CONTAINER_CONNECTION", "DOCKER_HOST"] {
                command.env_remove(name);
            }
            command
        })
        .await
    }

    /// Forwards a remote engine's socket. A password cannot be typed, since the bridge has no terminal.
    pub(super) async fn ssh(tunnel: &Tunnel<'_>, sockets: &Path) -> std::io::Result<Self> {
        Self::start(sockets, |local| {
            let mut command = Command::new(tunnel.program);
            command.args(["-N", "-T", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes"]);
            // So that it ends when its connection is lost.
            command.args(["-o", "ServerAliveInterval=15"]);
            command.arg("-L").arg(format!("{local}:{}", tunnel.socket));
            if let Some(port) = tunnel.remote.port {
                command.arg("-p").arg(port.to_string());
            }
            if let Some(mark) = tunnel.mark {
                command.env(PARENT_VARIABLE, mark.as_str());
            }
            command.arg("--").arg(&tunnel.remote.destination);
            command
        })
        .await
    }

    pub(super) fn address(&self) -> String {
        format!("unix://{}", self.dir.path().join("engine.sock").display())
    }

    async fn start(sockets: &Path, command: impl FnOnce(&str) -> Command) -> std::io::Result<Self> {
        own_file::make_folder(sockets)?;
        let dir = tempfile::Builder::new().prefix("engine-").rand_bytes(4).tempdir_in(sockets)?;
        let socket = dir.path().join("engine.sock");
        let said = dir.path().join("stderr");
        let child = command(&socket.display().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create_new(&said)?)
            .process_group(0)
            .spawn()?;
        let mut service = Self { child, dir };
        let listening = async {
            loop {
                if tokio::net::UnixStream::connect(&socket).await.is_ok() {
                    return Ok(());
                }
                if let Some(status) = service.child.try_wait()? {
                    let reason = last_words(&said);
                    return Err(std::io::Error::other(format!("ended at once, {status}{reason}")));
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(START, listening).await.unwrap_or_else(|_| {
            let seconds = START.as_secs();
            Err(std::io::Error::other(format!("does not listen after {seconds} s{}", last_words(&said))))
        })?;
        Ok(service)
    }
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()) else {
            return; // already reaped
        };
        if let Err(error) = killpg(Pid::from_raw(pid), Signal::SIGTERM) {
            tracing::debug!(%error, "the engine's process was gone before it was ended");
        }
    }
}

fn last_words(said: &Path) -> String {
    match std::fs::read(said) {
        Ok(bytes) if !bytes.is_empty() => {
            let tail = &bytes[bytes.len().saturating_sub(REASON_BYTES_MAX)..];
            format!(": {}", String::from_utf8_lossy(tail).trim())
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A substitute for ssh: it listens at the path of `-L`, and greets from the remote path.
    const FORWARDER: &str = r#"#!/usr/bin/env python3
import socket, sys
local, remote = sys.argv[sys.argv.index("-L") + 1].split(":")
server = socket.socket(socket.AF_UNIX)
server.bind(local)
server.listen()
while True:
    client = server.accept()[0]
    try:
        client.sendall((remote + " of " + sys.argv[-1]).encode())
    except OSError:
        pass  # who only wanted to know whether somebody listens
    client.close()
"#;

    /// A substitute for Podman: it writes its arguments to a file beside itself, and listens at the last one.
    const RECORDER: &str = r#"#!/usr/bin/env python3
import os, socket, sys
with open(os.path.join(os.path.dirname(sys.argv[0]), "arguments"), "w") as file:
    file.write("\n".join(sys.argv[1:]))
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[-1].removeprefix("unix://"))
server.listen()
while True:
    server.accept()[0].close()
"#;

    fn program(dir: &Path, text: &str) -> std::path::PathBuf {
        let path = dir.join("program");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn an_ssh_address_is_read_and_one_that_could_be_an_option_is_refused() {
        let parsed =
            SshAddress::parse("ssh://me@host.example:2222/run/user/1000/podman/podman.sock").unwrap();
        let socket = Some("/run/user/1000/podman/podman.sock".to_owned());
        assert_eq!(parsed, SshAddress { destination: "me@host.example".into(), port: Some(2222), socket });
        assert_eq!(SshAddress::parse("ssh://host").unwrap().socket, None);
        for wrong in
            ["ssh://", "ssh://-oProxyCommand=x/s", "ssh://h:port/s", "ssh://a b/s", "ssh://h/a:b", "tcp://h"]
        {
            assert!(SshAddress::parse(wrong).unwrap_err().contains("write ssh://"), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_remote_socket_is_forwarded_until_the_value_is_dropped() {
        use tokio::io::AsyncReadExt;
        let dir = tempfile::tempdir().unwrap();
        let ssh = program(dir.path(), FORWARDER);
        let remote = SshAddress::parse("ssh://me@host/run/podman.sock").unwrap();
        let mark = Mark::new();
        let tunnel = Tunnel { program: &ssh, remote: &remote, socket: "/run/podman.sock", mark: Some(&mark) };
        let tunnel = PrivateSocket::ssh(&tunnel, &dir.path().join("sockets")).await.unwrap();
        let socket = tunnel.address().strip_prefix("unix://").unwrap().to_owned();
        let mut said = String::new();
        tokio::net::UnixStream::connect(&socket).await.unwrap().read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "/run/podman.sock of me@host");
        drop(tunnel);
        assert!(!Path::new(&socket).exists());
    }

    #[tokio::test]
    async fn podman_is_told_which_oci_runtime_to_use() {
        let dir = tempfile::tempdir().unwrap();
        let podman = program(dir.path(), RECORDER);
        for name in [Some("krun"), Some("kata"), None] {
            let service = PrivateSocket::podman(&podman, name, &dir.path().join("sockets")).await.unwrap();
            let runtime = name.map(|name| format!("--runtime={name}"));
            let rest = ["system", "service", "--time=5"].map(str::to_owned);
            let expected: Vec<String> = runtime.into_iter().chain(rest).chain([service.address()]).collect();
            let given = std::fs::read_to_string(dir.path().join("arguments")).unwrap();
            assert_eq!(given.lines().collect::<Vec<_>>(), expected);
        }
    }

    #[tokio::test]
    async fn a_process_that_ends_at_once_is_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let failing = program(dir.path(), "#!/bin/sh\necho no such host >&2; exit 255\n");
        let error = PrivateSocket::podman(&failing, None, &dir.path().join("sockets")).await.unwrap_err();
        assert_eq!(error.to_string(), "ended at once, exit status: 255: no such host");
    }
}
