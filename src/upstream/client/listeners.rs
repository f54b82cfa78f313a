//! Our side of every connection: what servers are told that they may ask for, and where their questions and words go.
//!
//! Nothing waits for a listener: what there is no room for is refused, or left out.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use url::Url;

use crate::limits::Limits;
use crate::names::ServerName;
use crate::run::ClientAbilities;

/// Questions of all servers that may wait.
const ASKS_MAX: usize = 64;
/// The same of what they say of themselves.
const SAID_MAX: usize = 256;
/// A longer text about itself is left out, in bytes.
const SAID_BYTES_MAX: usize = 64 * 1024;

/// What a server may ask of the human behind a run, by way of their client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// To fill in a form.
    Elicitation,
    /// To have their model write something.
    Sampling,
}

impl Asks {
    /// As MCP calls it.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
        }
    }
}

/// A question of a server.
#[derive(Debug)]
pub struct Asked {
    /// Who asks.
    pub server: ServerName,
    /// For what.
    pub asks: Asks,
    /// The request's parameters: the server's words, within a bound and without its credentials.
    pub params: Value,
    /// Takes the client's result; closed when the server waits no more.
    pub reply: oneshot::Sender<Result<Value, NotAnswered>>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnswered {
    /// Of the client's own error.
    pub code: Option<i32>,
    /// Why.
    pub message: String,
}

/// What a server says of itself, or what became of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    /// Who.
    pub server: ServerName,
    /// How grave it is: a level of MCP, or `stderr` or `failed`.
    pub level: String,
    /// The text, without the server's credentials. Its other configured values are still in it.
    pub text: String,
}

/// The listener's ends.
pub struct Heard {
    /// Questions.
    pub asked: mpsc::Receiver<Asked>,
    /// What servers say of themselves.
    pub said: mpsc::Receiver<Said>,
}

/// What all connections share.
pub(in crate::upstream) struct ClientSide {
    pub(in crate::upstream) asks: mpsc::Sender<Asked>,
    said: mpsc::Sender<Said>,
    /// Longest question, in bytes.
    pub(super) request_bytes_max: usize,
    offers: Mutex<(ClientAbilities, Arc<[String]>)>,
    heard: Mutex<Option<Heard>>,
}

impl ClientSide {
    pub(in crate::upstream) fn new(limits: &Limits) -> Arc<Self> {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let (says, said) = mpsc::channel(SAID_MAX);
        Arc::new(Self {
            asks,
            said: says,
            request_bytes_max: limits.server_request_bytes_max,
            offers: Mutex::new((ClientAbilities::default(), Arc::from([]))),
            heard: Mutex::new(Some(Heard { asked, said })),
        })
    }

    /// For the one who listens; nobody does after the first.
    pub(in crate::upstream) fn heard(&self) -> Option<Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the servers that are started from now on are told that they may ask for.
    pub(in crate::upstream) fn offer(&self, abilities: ClientAbilities) {
        self.lock().0 = abilities;
    }

    /// The same of the folders that they may look at.
    pub(in crate::upstream) fn offer_roots<'p>(&self, folders: impl Iterator<Item = &'p Path>) {
        self.lock().1 =
            folders.filter_map(|folder| Url::from_file_path(folder).ok()).map(String::from).collect();
    }

    pub(in crate::upstream) fn offers(&self) -> (ClientAbilities, Arc<[String]>) {
        self.lock().clone()
    }

    pub(in crate::upstream) fn said(&self, said: Said) {
        if said.text.trim().is_empty()
            || said.text.len() > SAID_BYTES_MAX
            || self.said.try_send(said).is_err()
        {
            tracing::trace!("what a server says of itself is left out");
        }
    }

    fn lock(&self) -> MutexGuard<'_, (ClientAbilities, Arc<[String]>)> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
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
            side.said(Said { server, level: "info".into(), text });
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
