//! What a client sends through and reads from: the program's stdio, or HTTP.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::web::{Served, WebClient};
use crate::support::{Bridge, PATIENCE, monotonic_ns};

pub enum Link<'a> {
    Stdio(Bridge),
    Web(WebLink<'a>),
}

/// A client over HTTP, whose answers come over connections of their own.
pub struct WebLink<'a> {
    client: WebClient<'a>,
    token: String,
    /// Nothing after the end.
    answers_in: Option<Sender<(u64, Value)>>,
    answers: Receiver<(u64, Value)>,
}

impl<'a> Link<'a> {
    pub fn web(served: &'a Served, token: &str) -> Self {
        let (answers_in, answers) = channel();
        let (client, token) = (served.client(token), token.to_owned());
        Self::Web(WebLink { client, token, answers_in: Some(answers_in), answers })
    }

    pub fn is_web(&self) -> bool {
        matches!(self, Self::Web(_))
    }

    /// Continues its session with another bridge. A client with stdio has a new one instead.
    pub fn go_on_with(&mut self, served: &'a Served) {
        if let Self::Web(link) = self {
            link.client = served.coming_back(&link.token, link.client.session.clone());
        }
    }

    pub fn send(&mut self, message: &Value) {
        match self {
            Self::Stdio(bridge) => bridge.send(message),
            Self::Web(link) => {
                // The head of the answer comes when the program has the message, so that a cancellation finds the request.
                let (begun, answers) = (link.client.begin(message), link.answers_in.clone());
                std::thread::spawn(move || {
                    let message = begun.and_then(|begun| begun.finish().message_if_any());
                    // The client may have ended.
                    message.zip(answers).map(|(message, answers)| answers.send((monotonic_ns(), message)))
                });
            }
        }
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        if let Self::Stdio(bridge) = self {
            bridge.send_raw(bytes);
        }
    }

    pub fn next(&mut self, within: Duration) -> Result<(u64, Value), RecvTimeoutError> {
        match self {
            Self::Stdio(bridge) => bridge.next(within),
            Self::Web(link) => link.answers.recv_timeout(within),
        }
    }

    pub fn stderr(&self) -> String {
        match self {
            Self::Stdio(bridge) => bridge.stderr(),
            Self::Web(_) => String::new(),
        }
    }

    /// Ends the client by a signal; over HTTP, as if it had hung up.
    pub fn signal(&mut self, signal: Signal) {
        match self {
            Self::Stdio(bridge) => bridge.signal(signal),
            Self::Web(_) => self.hang_up(),
        }
    }

    pub fn hang_up(&mut self) {
        match self {
            Self::Stdio(bridge) => bridge.hang_up(),
            Self::Web(link) => {
                link.client.delete();
                link.answers_in = None;
            }
        }
    }

    pub fn wait(&mut self) {
        if let Self::Stdio(bridge) = self {
            bridge.wait(PATIENCE);
        }
    }
}
