//! The reference server with one of everything, listening on a loopback port.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::engines::cache;

/// The reference server, in one of its modes.
pub struct Everything {
    child: Child,
    pub url: String,
}

impl Everything {
    /// `streamableHttp` or `sse`, and the path that it answers at.
    pub fn start(mode: &str, path: &str) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = cache().join("servers/node/node_modules/.bin/mcp-server-everything");
        let mut command = Command::new(program);
        command.arg(mode).env("PORT", port.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("scripts/setup.sh has installed the servers");
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(&port.to_string()) {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it has ended");
        }
        // Nothing that it says later may stop it.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, url: format!("http://127.0.0.1:{port}/{path}") }
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
