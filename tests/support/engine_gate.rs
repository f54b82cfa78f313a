//! A Unix socket in front of a real engine, which holds one request up so that a test can act in the middle of it.
//!
//! It understands no HTTP beyond the first line of a request; everything else goes through as it comes.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::{Engine, PATIENCE};

/// What happens to the first request with these words in its first line.
#[derive(Debug, Clone, Copy)]
pub enum Hold {
    /// The engine never gets it.
    Before(&'static str),
    /// The engine gets it a moment later, when the test has acted.
    Until(&'static str),
    /// The engine never gets it: this is its answer, and the end of the connection.
    Instead(&'static str, &'static str),
}

/// The socket; later requests pass.
pub struct EngineGate {
    dir: tempfile::TempDir,
    held: Receiver<()>,
    release: Arc<AtomicBool>,
    is_down: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<UnixStream>>>,
}

impl EngineGate {
    pub fn new(engine: &Engine, hold: Hold) -> Self {
        let dir = tempfile::Builder::new().prefix("belljar-gate-").tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("engine.sock")).unwrap();
        let (tell, held) = channel();
        let release = Arc::new(AtomicBool::new(false));
        let (released, is_used) = (Arc::clone(&release), Arc::new(AtomicBool::new(false)));
        let is_down = Arc::new(AtomicBool::new(false));
        let down = Arc::clone(&is_down);
        let connections = Arc::new(Mutex::new(Vec::new()));
        let opened = Arc::clone(&connections);
        let address = engine.address().strip_prefix("unix://").unwrap().to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if down.load(Ordering::Acquire) {
                    continue;
                }
                let (Ok(client), Ok(engine)) = (client, UnixStream::connect(&address)) else { return };
                let (back, forth) = (engine.try_clone().unwrap(), client.try_clone().unwrap());
                opened.lock().unwrap().extend([engine.try_clone().unwrap(), client.try_clone().unwrap()]);
                std::thread::spawn(move || pass(back, forth));
                let gate = Gate {
                    hold,
                    tell: tell.clone(),
                    released: Arc::clone(&released),
                    is_used: Arc::clone(&is_used),
                };
                std::thread::spawn(move || gate.pass(client, engine));
            }
        });
        Self { dir, held, release, is_down, connections }
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.dir.path().join("engine.sock").display())
    }

    /// Waits until the request is held.
    pub fn wait(&self) {
        self.held.recv_timeout(PATIENCE).expect("the request comes");
    }

    /// As an engine that is being restarted: connections end at once.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Release);
    }

    /// As an engine that goes down: nobody is connected any more, and nobody can connect.
    pub fn go_down(&self) {
        self.set_down(true);
        for connection in self.connections.lock().unwrap().drain(..) {
            // It may have ended already.
            drop(connection.shutdown(Shutdown::Both));
        }
    }

    /// Lets the held request go on to the engine.
    pub fn release(&self) {
        self.release.store(true, Ordering::Release);
    }
}

struct Gate {
    hold: Hold,
    tell: Sender<()>,
    released: Arc<AtomicBool>,
    is_used: Arc<AtomicBool>,
}

impl Gate {
    fn pass(&self, mut client: UnixStream, mut engine: UnixStream) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = client.read(&mut bytes) {
            let (Hold::Before(words) | Hold::Until(words) | Hold::Instead(words, _)) = self.hold;
            let first_line = bytes[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
            let is_it = String::from_utf8_lossy(first_line).contains(words);
            if is_it && !self.is_used.swap(true, Ordering::AcqRel) {
                self.tell.send(()).expect("the test waits");
                match self.hold {
                    Hold::Before(_) => return,
                    Hold::Instead(_, answer) => {
                        drop(client.write_all(answer.as_bytes()));
                        drop(client.shutdown(Shutdown::Both));
                        return;
                    }
                    Hold::Until(_) => {}
                }
                while !self.released.load(Ordering::Acquire) {
                    std::thread::park_timeout(std::time::Duration::from_millis(1));
                }
            }
            if engine.write_all(&bytes[..read]).is_err() {
                return;
            }
        }
        // The engine goes on with what it was asked for.
        drop(engine.shutdown(Shutdown::Write));
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream) {
    drop(std::io::copy(&mut from, &mut to));
    drop(to.shutdown(Shutdown::Both));
}
