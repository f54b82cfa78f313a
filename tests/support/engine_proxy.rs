//! A socket between the program and its engine that changes what the engine is asked for.
//!
//! It shows what the program does with an engine that makes sandboxes weaker than asked for; everything that it does not
//! change goes through as it is.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use serde_json::Value;

use super::Engine;

/// What becomes of requests. Listens until the program of the test ends.
pub struct EngineProxy {
    dir: tempfile::TempDir,
}

/// Changes the body of the request that creates a container.
type Change = Arc<dyn Fn(&mut Value) + Send + Sync>;

#[derive(Clone)]
struct Rules {
    change: Change,
    describes_containers: bool,
}

impl EngineProxy {
    /// Changes the container's configuration.
    pub fn changing(engine: &Engine, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::listen(engine, Rules { change: Arc::new(change), describes_containers: true })
    }

    /// The same with an engine that does not describe its containers.
    pub fn secretive(engine: &Engine, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::listen(engine, Rules { change: Arc::new(change), describes_containers: false })
    }

    /// As `MCP_BRIDGE_RUNTIME` takes it.
    pub fn address(&self) -> String {
        format!("unix://{}", self.dir.path().join("engine.sock").display())
    }

    fn listen(engine: &Engine, rules: Rules) -> Self {
        let dir = tempfile::Builder::new().prefix("belljar-proxy-").tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("engine.sock")).unwrap();
        let engine = engine.address().strip_prefix("unix://").unwrap().to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, rules) = (client.unwrap(), rules.clone());
                let engine = UnixStream::connect(&engine).unwrap();
                let (mut answers, mut to_client) = (engine.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    // Either side may go at any time.
                    drop(std::io::copy(&mut answers, &mut to_client));
                    drop(to_client.shutdown(std::net::Shutdown::Both));
                });
                std::thread::spawn(move || requests(client, engine, &rules));
            }
        });
        Self { dir }
    }
}

/// Passes on one request after the other, and after an upgrade whatever comes.
fn requests(client: UnixStream, mut engine: UnixStream, rules: &Rules) {
    let mut client = BufReader::new(client);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if client.read_line(&mut head).unwrap_or(0) == 0 {
                drop(engine.shutdown(std::net::Shutdown::Write));
                return;
            }
        }
        let header = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
            line.map(|line| line[name.len()..].trim().to_owned())
        };
        let mut body = vec![0; header("content-length:").map_or(0, |length| length.parse().unwrap())];
        client.read_exact(&mut body).unwrap();
        let is_upgrade = header("upgrade:").is_some();
        let request = head.lines().next().unwrap().to_owned();
        if request.starts_with("POST") && request.contains("/containers/create") {
            let mut config: Value = serde_json::from_slice(&body).unwrap();
            (rules.change)(&mut config);
            body = config.to_string().into_bytes();
            let lines = head.trim_end().lines();
            let lines = lines.filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"));
            head = lines.map(|line| format!("{line}\r\n")).collect();
            head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        }
        let describes =
            request.starts_with("GET") && request.contains("/containers/") && request.contains("/json");
        if describes && !request.contains("/containers/json") && !rules.describes_containers {
            head = head.replacen("/containers/", "/containers/none-", 1);
        }
        if engine.write_all(head.as_bytes()).and_then(|()| engine.write_all(&body)).is_err() {
            return;
        }
        if is_upgrade {
            drop(std::io::copy(&mut client, &mut engine));
            drop(engine.shutdown(std::net::Shutdown::Write));
            return;
        }
    }
}
