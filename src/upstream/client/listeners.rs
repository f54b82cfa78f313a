//! The bridge's side of every connection: the requests that servers may send, and the channels for their questions and
//! messages.
//!
//! Nothing waits for a listener: if its queue is full, a question is refused and a message is dropped.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use url::Url;

use crate::limits::Limits;
use crate::names::ServerName;
use crate::run::ClientAbilities;

/// The largest number of queued questions of all servers.
const ASKS_MAX: usize = 64;
/// The largest number of queued messages of all servers.
const SAID_MAX: usize = 256;
/// The longest message that is stored, in bytes; longer ones are dropped.
const SAID_BYTES_MAX: usize = 64 * 1024;

/// The kind of a question that a server may send to the client of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// The human is asked to fill in a form.
    Elicitation,
    /// The model of the client is asked to write something.
    Sampling,
}

impl QuestionKind {
    /// Its method in MCP.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
        }
    }
}

/// A question that a server asks the human behind a run, or their model.
#[derive(Debug)]
pub struct ServerQuestion {
    /// The server that asks.
    pub server: ServerName,
    /// The kind of the question.
    pub kind: QuestionKind,
    /// The request's parameters: the server's words, within a bound and without its credentials.
    pub params: Value,
    /// Receives the result of the client. It is closed when the server no longer waits.
    pub reply: oneshot::Sender<Result<Value, QuestionError>>,
}

/// The reason for which a question of a server has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionError {
    /// The code of the error, if the client has sent one.
    pub code: Option<i32>,
    /// The message.
    pub message: String,
}

/// A message of a server, or a note on its process.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerMessage {
    /// The server.
    pub server: ServerName,
    /// The severity: a level of MCP, or `stderr` or `failed`.
    pub level: String,
    /// The text, without the server's credentials. The server's other configured values may still be in it.
    pub text: String,
}

/// The channels of the questions and messages of all servers.
pub struct ServerChannels {
    /// The questions of servers.
    pub asked: mpsc::Receiver<ServerQuestion>,
    /// The messages of servers, and the notes on their processes.
    pub said: mpsc::Receiver<ServerMessage>,
}

/// The state that all connections share.
pub(in crate::upstream) struct ClientSide {
    pub(in crate::upstream) questions: mpsc::Sender<ServerQuestion>,
    said: mpsc::Sender<ServerMessage>,
    /// Longest question, in bytes.
    pub(super) request_bytes_max: usize,
    offers: Mutex<(ClientAbilities, Arc<[String]>)>,
    heard: Mutex<Option<ServerChannels>>,
}

impl ClientSide {
    pub(in crate::upstream) fn new(limits: &Limits) -> Arc<Self> {
        let (questions, asked) = mpsc::channel(ASKS_MAX);
        let (says, said) = mpsc::channel(SAID_MAX);
        Arc::new(Self {
            questions,
            said: says,
            request_bytes_max: limits.server_request_bytes_max,
            offers: Mutex::new((ClientAbilities::default(), Arc::from([]))),
            heard: Mutex::new(Some(ServerChannels { asked, said })),
        })
    }

    /// The channels for the listener; `None` after the first call.
    pub(in crate::upstream) fn heard(&self) -> Option<ServerChannels> {
        self.heard.lock().take()
    }

    /// Sets the requests that servers started from now on may send.
    pub(in crate::upstream) fn offer(&self, abilities: ClientAbilities) {
        self.offers.lock().0 = abilities;
    }

    /// Sets the folders that servers started from now on get as roots.
    pub(in crate::upstream) fn offer_roots<'p>(&self, folders: impl Iterator<Item = &'p Path>) {
        self.offers.lock().1 =
            folders.filter_map(|folder| Url::from_file_path(folder).ok()).map(String::from).collect();
    }

    pub(in crate::upstream) fn offers(&self) -> (ClientAbilities, Arc<[String]>) {
        self.offers.lock().clone()
    }

    pub(in crate::upstream) fn said(&self, said: ServerMessage) {
        if said.text.trim().is_empty()
            || said.text.len() > SAID_BYTES_MAX
            || self.said.try_send(said).is_err()
        {
            tracing::trace!("what a server says of itself is left out");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_offered_as_addresses_and_what_is_too_long_is_left_out() {
        let side = ClientSide::new(&Limits::default());
        side.offer_roots([Path::new("/home/me/my work"), Path::new("/"), Path::new("relative")].into_iter());
        assert_eq!(*side.offers().1, ["file:///home/me/my%20work".to_owned(), "file:///".to_owned()]);
        let mut heard = side.heard().unwrap();
        assert!(side.heard().is_none());
        let said = |text: String| {
            let server = ServerName::new("s").unwrap();
            side.said(ServerMessage { server, level: "info".into(), text });
        };
        for text in ["x".repeat(SAID_BYTES_MAX + 1), " \n".into(), "one".into()] {
            said(text);
        }
        assert_eq!(heard.said.try_recv().unwrap().text, "one");
        assert!(heard.said.try_recv().is_err());
        for number in 0..SAID_MAX * 2 {
            said(number.to_string());
        }
        let kept = std::iter::from_fn(|| heard.said.try_recv().ok()).count();
        assert_eq!(kept, SAID_MAX);
    }
}
