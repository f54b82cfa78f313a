//! The bridge's side of every connection: the requests that servers may send, and the channels for their questions and
//! messages.
//!
//! Nothing waits for a listener: if its queue is full, a question is refused and a message is dropped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, SessionId};
use belljar_base::run::ClientAbilities;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use url::Url;

/// The largest number of queued questions of all servers.
const ASKS_MAX: usize = 64;
/// The largest number of queued messages of all servers.
const SAID_MAX: usize = 256;
/// The largest number of roots of the client that are passed on.
const ROOTS_MAX: usize = 100;
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
    /// The session that it is for, if it is private; `None` for a server of all sessions.
    pub session: Option<SessionId>,
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
pub(crate) struct ClientSide {
    pub(crate) questions: mpsc::Sender<ServerQuestion>,
    said: mpsc::Sender<ServerMessage>,
    /// Longest question, in bytes.
    pub(super) request_bytes_max: usize,
    offers: Mutex<Offers>,
    heard: Mutex<Option<ServerChannels>>,
}

/// What servers are offered.
#[derive(Default)]
struct Offers {
    abilities: ClientAbilities,
    /// The folders that the user offers as roots.
    roots: Vec<PathBuf>,
    /// The folders among the roots of each session's client.
    of_clients: BTreeMap<SessionId, Vec<PathBuf>>,
    /// The session whose client was the last to set its roots.
    last: Option<SessionId>,
}

impl ClientSide {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let (questions, asked) = mpsc::channel(ASKS_MAX);
        let (says, said) = mpsc::channel(SAID_MAX);
        Arc::new(Self {
            questions,
            said: says,
            request_bytes_max: limits.server_request_bytes_max,
            offers: Mutex::default(),
            heard: Mutex::new(Some(ServerChannels { asked, said })),
        })
    }

    /// The channels for the listener; `None` after the first call.
    pub(crate) fn heard(&self) -> Option<ServerChannels> {
        self.heard.lock().take()
    }

    /// Adds a client's abilities to those that servers started from now on are offered. Sessions share the servers, and
    /// their clients differ: what the client of a run does not support is refused when a server asks for it.
    pub(crate) fn offer(&self, abilities: ClientAbilities) {
        let offered = &mut self.offers.lock().abilities;
        offered.elicitation |= abilities.elicitation;
        offered.sampling |= abilities.sampling;
    }

    /// Sets the folders that the user offers as roots to servers that start from now on.
    pub(crate) fn offer_roots(&self, folders: &[PathBuf]) {
        self.offers.lock().roots = folders.to_vec();
    }

    /// Sets the roots of the session's client, as addresses. Only folders are passed on.
    pub(crate) fn offer_roots_of_client(&self, session: &SessionId, roots: &[String]) {
        let folders = roots.iter().filter_map(|root| Url::parse(root).ok()?.to_file_path().ok());
        let mut offers = self.offers.lock();
        offers.of_clients.insert(session.clone(), folders.take(ROOTS_MAX).collect());
        offers.last = Some(session.clone());
    }

    /// Forgets the roots of a session that has ended.
    pub(crate) fn end_session(&self, session: &SessionId) {
        self.offers.lock().of_clients.remove(session);
    }

    /// The abilities and the roots that a server that starts now is offered: a private one those of its session's client. If
    /// the user names roots, those of the client count where they lie in them.
    pub(crate) fn offers(&self, session: Option<&SessionId>) -> (ClientAbilities, Arc<[String]>) {
        let offers = self.offers.lock();
        let of_client = session.or(offers.last.as_ref()).and_then(|session| offers.of_clients.get(session));
        let is_allowed = |root: &&PathBuf| {
            offers.roots.is_empty() || offers.roots.iter().any(|allowed| root.starts_with(allowed))
        };
        let mut roots: Vec<&PathBuf> = of_client.into_iter().flatten().filter(is_allowed).collect();
        if roots.is_empty() {
            roots = offers.roots.iter().collect();
        }
        let addresses = roots.into_iter().filter_map(|root| Url::from_file_path(root).ok()).map(String::from);
        (offers.abilities, addresses.collect())
    }

    pub(crate) fn said(&self, said: ServerMessage) {
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
    fn roots_of_the_client_are_passed_on_where_the_user_allows_them() {
        let side = ClientSide::new(&Limits::default());
        let of_client = ["file:///home/me/work/a%20b", "https://a.test/x", "file:///etc", "no address"];
        let [one, two] = ["one", "two"].map(SessionId::new);
        side.offer_roots_of_client(&one, &of_client.map(str::to_owned));
        assert_eq!(*side.offers(None).1, ["file:///home/me/work/a%20b", "file:///etc"]);
        side.offer_roots(&["/home/me/work".into(), "/home/me/other".into()]);
        assert_eq!(*side.offers(None).1, ["file:///home/me/work/a%20b"]);
        side.offer_roots_of_client(
            &two,
            &["file:///home/me/works".to_owned(), "file:///home/me/work/../x".to_owned()],
        );
        assert_eq!(*side.offers(None).1, ["file:///home/me/work", "file:///home/me/other"]);
        assert_eq!(*side.offers(Some(&one)).1, ["file:///home/me/work/a%20b"]);
        side.end_session(&one);
        assert_eq!(*side.offers(Some(&one)).1, ["file:///home/me/work", "file:///home/me/other"]);
    }

    #[test]
    fn servers_are_offered_what_any_client_supports() {
        let side = ClientSide::new(&Limits::default());
        let of =
            |elicitation, sampling| ClientAbilities { elicitation, sampling, ..ClientAbilities::default() };
        for abilities in [of(true, false), of(false, true), of(false, false)] {
            side.offer(abilities);
        }
        let (offered, _) = side.offers(None);
        assert!(offered.elicitation && offered.sampling);
    }

    #[test]
    fn folders_are_offered_as_addresses_and_what_is_too_long_is_left_out() {
        let side = ClientSide::new(&Limits::default());
        side.offer_roots(&["/home/me/my work", "/", "relative"].map(PathBuf::from));
        assert_eq!(*side.offers(None).1, ["file:///home/me/my%20work".to_owned(), "file:///".to_owned()]);
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
