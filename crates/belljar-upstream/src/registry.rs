//! All servers by name: each has its own task, and none waits for another.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, SessionId};
use belljar_base::run::ClientAbilities;
use belljar_base::secret::Secret;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::connection::Connection;
use super::client::listeners::{ClientSide, ServerChannels};
use super::confinement::Lack;
use super::connect_context::ConnectContext;
use super::error::UpstreamError;
use super::oauth::TokenCache;
use super::raw_results::Unread;
use super::redaction::{Redacted, Redaction, text_without, value_without};
use super::secrets::Secrets;
use super::server::{ConfiguredServer, ServerTaskRequest, StartState, TaskChannels, own};
use super::{RemoteSpec, ServerSpec, ServerTransport};

/// The largest number of queued requests to one server's task; callers of further ones wait.
const ASKS_QUEUED_MAX: usize = 64;

/// The access to all configured servers.
pub struct Upstream {
    table: RwLock<Table>,
    side: Arc<ClientSide>,
    limits: Arc<Limits>,
    /// Permits for large bodies of all remote servers.
    large_bodies: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
    closing: CancellationToken,
}

struct Table {
    servers: BTreeMap<ServerName, Entry>,
    /// The private servers of sessions that came later than the first one that called them.
    private: BTreeMap<(ServerName, SessionId), Entry>,
}

impl Table {
    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.servers.values().chain(self.private.values())
    }

    /// The tasks of the server.
    fn of<'t>(&'t self, server: &'t ServerName) -> impl Iterator<Item = &'t Entry> {
        let private = self.private.iter().filter(move |((name, _), _)| name == server);
        self.servers.get(server).into_iter().chain(private.map(|(_, entry)| entry))
    }
}

/// One server's task.
struct Entry {
    spec: ServerSpec,
    /// The session that a private server is for, once one has called it.
    session: Arc<OnceLock<SessionId>>,
    redaction: Redaction,
    /// What could not be read of the server's messages.
    unread: Unread,
    /// The login, if the server may have one.
    access: Option<Arc<TokenCache>>,
    start: Arc<StartState>,
    asks: mpsc::Sender<ServerTaskRequest>,
    /// The connection, while calls may use it without a request to the task.
    live: watch::Receiver<Option<Arc<Connection>>>,
    /// Ends the task, and the server with it.
    leaving: CancellationToken,
    /// Closes when the server has ended.
    ended: oneshot::Receiver<()>,
}

impl Upstream {
    /// Creates the tasks of the servers. A server starts at its first use. Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(specs: Vec<ServerSpec>, limits: &Arc<Limits>) -> Self {
        let table = Table { servers: BTreeMap::new(), private: BTreeMap::new() };
        let upstream = Self {
            table: RwLock::new(table),
            side: ClientSide::new(limits),
            limits: Arc::clone(limits),
            large_bodies: Arc::new(Semaphore::new(limits.http_large_bodies_at_once_max)),
            tasks: Mutex::default(),
            closing: CancellationToken::new(),
        };
        upstream.replace(specs);
        upstream
    }

    /// Replaces the servers. Unchanged servers continue, and the others are ended. A changed server starts only after
    /// its predecessor has ended. Must be called inside a tokio runtime.
    pub fn replace(&self, specs: Vec<ServerSpec>) {
        let mut table = self.table.write();
        let mut before = std::mem::take(&mut table.servers);
        for spec in specs {
            let name = spec.name.clone();
            let entry = match before.remove(&name) {
                Some(same) if same.spec == spec => same,
                other => self.entry(spec, None, other.map(Entry::leave)),
            };
            table.servers.insert(name, entry);
        }
        for (_, gone) in before {
            drop(gone.leave());
        }
        let Table { servers, private } = &mut *table;
        let is_gone = |name: &ServerName, entry: &Entry| {
            servers.get(name).is_none_or(|shared| shared.spec != entry.spec)
        };
        take_out(private, |(name, _), entry| is_gone(name, entry));
    }

    /// Ends the private servers of a session that has ended, and forgets the roots of its client. Must be called inside a tokio runtime.
    pub fn end_session(&self, session: &SessionId) {
        self.side.end_session(session);
        let mut table = self.table.write();
        let Table { servers, private } = &mut *table;
        take_out(private, |(_, of), _| of == session);
        // The next session gets another one under the name.
        let is_of_it = |entry: &&mut Entry| entry.session.get() == Some(session);
        for entry in servers.values_mut().filter(is_of_it) {
            let next = self.entry(entry.spec.clone(), Some(entry), None);
            drop(std::mem::replace(entry, next).leave());
        }
    }

    /// The task of a server, which starts after its predecessor has ended. It has the login of `sibling`, another task of the same
    /// server.
    fn entry(
        &self,
        spec: ServerSpec,
        sibling: Option<&Entry>,
        predecessor: Option<oneshot::Receiver<()>>,
    ) -> Entry {
        let (asks, inbox) = mpsc::channel(ASKS_QUEUED_MAX);
        let (ends, ended) = oneshot::channel::<()>();
        let leaving = self.closing.child_token();
        let access = match (sibling, &spec.transport) {
            (Some(sibling), _) => sibling.access.clone(),
            (None, ServerTransport::Remote(RemoteSpec { login: Some(login), .. })) => {
                Some(TokenCache::new(login.clone()))
            }
            (None, ServerTransport::Remote(_) | ServerTransport::Process(_)) => None,
        };
        let secrets = Arc::new(Secrets::of(&spec));
        let redaction = Redaction::new(Arc::clone(&secrets), access.clone());
        let unread = Unread::default();
        let session = Arc::<OnceLock<SessionId>>::default();
        let context = ConnectContext {
            access: access.clone(),
            redaction: redaction.clone(),
            unread: unread.clone(),
            private_to: spec.is_private.then(|| Arc::clone(&session)),
            large_bodies: Arc::clone(&self.large_bodies),
        };
        let start = Arc::<StartState>::default();
        let configured =
            ConfiguredServer { spec: spec.clone(), secrets: Arc::clone(&secrets), start: Arc::clone(&start) };
        let (side, limits) = (Arc::clone(&self.side), Arc::clone(&self.limits));
        let (publishes, live) = watch::channel(None);
        let channels = TaskChannels { asks: inbox, live: publishes, closing: leaving.clone() };
        let owned = own(configured, side, limits, context, channels);
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            if let Some(predecessor) = predecessor {
                // The predecessor's task reports its end by dropping the sender.
                drop(predecessor.await);
            }
            owned.await;
            drop(ends);
        });
        Entry { spec, session, redaction, unread, access, start, asks, live, leaving, ended }
    }

    /// What `take` takes of the server's task for this session; `None`: there is no such server.
    fn of_session<T>(
        &self,
        server: &ServerName,
        session: &SessionId,
        take: impl Fn(&Entry) -> T,
    ) -> Option<T> {
        let key = || (server.clone(), session.clone());
        let is_for_it = |entry: &Entry| {
            !entry.spec.is_private || entry.session.get_or_init(|| session.clone()) == session
        };
        let table = self.table.read();
        let shared = table.servers.get(server)?;
        let own = if shared.spec.is_private { table.private.get(&key()) } else { None };
        if let Some(entry) = own.or(Some(shared).filter(|shared| is_for_it(shared))) {
            return Some(take(entry));
        }
        drop(table);
        let mut table = self.table.write();
        let shared = table.servers.get(server)?;
        // It may have been replaced meanwhile.
        if is_for_it(shared) {
            return Some(take(shared));
        }
        let own = self.entry(shared.spec.clone(), Some(shared), None);
        Some(take(table.private.entry(key()).or_insert(own)))
    }

    /// The channels of the servers' questions and messages; `None` after the first call.
    #[must_use]
    pub fn listen(&self) -> Option<ServerChannels> {
        self.side.heard()
    }

    /// Adds a client's abilities to those that servers started from now on are offered.
    pub fn offer(&self, abilities: ClientAbilities) {
        self.side.offer(abilities);
    }

    /// Sets the folders that are offered as roots to servers that start from now on.
    pub fn offer_roots(&self, folders: &[PathBuf]) {
        self.side.offer_roots(folders);
    }

    /// Sets the roots of the session's client, as addresses, which are passed on to servers that start from now on. A
    /// server of all sessions gets those of the client that was the last to set some.
    pub fn offer_roots_of_client(&self, session: &SessionId, roots: &[String]) {
        self.side.offer_roots_of_client(session, roots);
    }

    /// Replaces the server's configured values and its login by their names, in a text about the server or from it.
    #[must_use]
    pub fn redacted(&self, server: &ServerName, text: String) -> String {
        self.table.read().of(server).fold(text, |text, entry| entry.redaction.text(text))
    }

    /// An error about the server, without its secrets.
    #[must_use]
    pub fn failure(&self, server: &ServerName, error: UpstreamError) -> Redacted {
        let table = self.table.read();
        let redaction = table.servers.get(server).map(|entry| entry.redaction.clone());
        drop(table);
        redaction.unwrap_or_default().error(error)
    }

    /// The files and hosts that the server lacks according to this text from it; empty if the server is not confined,
    /// or does not run.
    #[must_use]
    pub fn lacks(&self, server: &ServerName, text: &str) -> Vec<Lack> {
        let table = self.table.read();
        let mut live = table.of(server).filter_map(|entry| entry.live.borrow().clone());
        live.next().map(|connection| connection.lacks(text)).unwrap_or_default()
    }

    /// What of the server's messages could not be read since its last start, in words; `None`: nothing. `session`: without what
    /// a private server has said to another one.
    #[must_use]
    pub fn unread(&self, server: &ServerName, session: Option<&SessionId>) -> Option<String> {
        let is_own = |entry: &&Entry| {
            let of = entry.session.get();
            session.is_none() || of.is_none() || of == session
        };
        self.table.read().of(server).filter(is_own).find_map(|entry| entry.unread.said())
    }

    /// The items that the server's list of tools lacks since they cannot be read, in words; `None`: it lacks none.
    #[must_use]
    pub fn left_out(&self, server: &ServerName) -> Option<String> {
        self.table.read().of(server).find_map(|entry| entry.unread.left_out())
    }

    /// Replaces the credentials of all servers by their names, in a text that code or the model wrote.
    #[must_use]
    pub fn without_credentials(&self, text: String) -> String {
        text_without(&self.credentials(), text)
    }

    /// Replaces the credentials of all servers in JSON by their names. The result is null if it would not be JSON.
    #[must_use]
    pub fn json_without_credentials(&self, json: Box<RawValue>) -> Box<RawValue> {
        value_without(&self.credentials(), json).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    /// A text in this JSON that stands for a credential in results so far.
    #[must_use]
    pub fn masked_in(&self, json: &RawValue) -> Option<String> {
        let table = self.table.read();
        let mut masked = table.all().flat_map(|entry| entry.redaction.masked());
        masked.find(|name| json.get().contains(name))
    }

    /// The texts that stand for credentials in results of the server, and that this has not returned before.
    #[must_use]
    pub fn newly_masked(&self, server: &ServerName) -> Vec<String> {
        self.table.read().of(server).flat_map(|entry| entry.redaction.newly_masked()).collect()
    }

    /// The credentials of all servers together, since a text may have two that overlap.
    fn credentials(&self) -> Vec<Arc<Secret>> {
        self.table.read().all().flat_map(|entry| entry.redaction.credentials()).collect()
    }

    /// The longest time of the server's start, and whether its last start took longer; `None`: it is not starting.
    #[must_use]
    pub fn starting(&self, server: &ServerName) -> Option<(Duration, bool)> {
        let table = self.table.read();
        let entry = table.servers.get(server).filter(|entry| entry.start.is_going_on.load(Ordering::Acquire));
        entry.map(|entry| (self.start_time(entry), entry.start.was_late.load(Ordering::Acquire)))
    }

    /// The servers whose login has changed since the last call.
    #[must_use]
    pub fn changed_logins(&self) -> Vec<ServerName> {
        let table = self.table.read();
        let has_changed = |entry: &Entry| entry.access.as_ref().is_some_and(|access| access.has_changed());
        let changed = table.servers.iter().filter(|(_, entry)| has_changed(entry));
        changed.map(|(name, _)| name.clone()).collect()
    }

    /// Ends all servers at the same time.
    pub async fn close(&self) {
        self.closing.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "a server's task broke");
            }
        }
    }

    /// A live connection to the server for this session, which is started if necessary.
    ///
    /// # Errors
    /// The server is unknown, cannot be started, or is too late; or the caller cancels.
    pub async fn connect(
        &self,
        server: &ServerName,
        session: &SessionId,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Arc<Connection>, Redacted> {
        let live = self.of_session(server, session, Entry::live).flatten();
        if let Some(connection) = live.filter(|_| !cancel.is_cancelled() && !self.closing.is_cancelled()) {
            return Ok(connection);
        }
        let asks = self.of_session(server, session, |entry| entry.asks.clone());
        self.ask((server, asks), ServerTaskRequest::Connection, deadline, cancel).await
    }

    /// The tools that the server lists. A server that does not run is started to list them, and ended again unless
    /// another request waits for it.
    ///
    /// # Errors
    /// As [`Self::connect`]. The deadline is later than that of the start, since a server that fails to start is ended
    /// before the answer.
    pub async fn tools(
        &self,
        server: &ServerName,
        cancel: &CancellationToken,
    ) -> Result<Arc<[Value]>, Redacted> {
        let start_time = self.table.read().servers.get(server).map(|entry| self.start_time(entry));
        let deadline = Instant::now() + start_time.unwrap_or_default() + self.limits.server_start;
        let asks = self.table.read().servers.get(server).map(|entry| entry.asks.clone());
        self.ask((server, asks), ServerTaskRequest::Tools, deadline, cancel).await
    }

    async fn ask<T>(
        &self,
        (server, asks): (&ServerName, Option<mpsc::Sender<ServerTaskRequest>>),
        ask: fn(oneshot::Sender<Result<T, UpstreamError>>) -> ServerTaskRequest,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<T, Redacted> {
        let answered = async {
            let asks = asks.ok_or_else(|| UpstreamError::Unknown { server: server.clone() })?;
            let answering = async {
                let (reply, answer) = oneshot::channel();
                asks.send(ask(reply)).await.map_err(|_| UpstreamError::Closing)?;
                answer.await.map_err(|_| UpstreamError::Closing)?
            };
            tokio::select! {
                answered = answering => answered,
                () = self.closing.cancelled() => Err(UpstreamError::Closing),
                () = cancel.cancelled() => Err(UpstreamError::Cancelled { server: server.clone() }),
                () = tokio::time::sleep_until(deadline) => Err(UpstreamError::Deadline { server: server.clone() }),
            }
        };
        answered.await.map_err(|error| self.failure(server, error))
    }

    fn start_time(&self, entry: &Entry) -> Duration {
        entry.spec.start_time.unwrap_or(self.limits.server_start)
    }
}

/// Ends those of the private servers for which `is_gone` holds.
fn take_out(
    private: &mut BTreeMap<(ServerName, SessionId), Entry>,
    is_gone: impl Fn(&(ServerName, SessionId), &Entry) -> bool,
) {
    let (gone, others) = std::mem::take(private).into_iter().partition(|(key, entry)| is_gone(key, entry));
    *private = others;
    let gone: BTreeMap<(ServerName, SessionId), Entry> = gone;
    gone.into_values().for_each(|entry| drop(entry.leave()));
}

impl Entry {
    /// The connection, if calls may use it without a request to the task.
    fn live(&self) -> Option<Arc<Connection>> {
        // The commands that printed the credentials may have to run again.
        let has_failed = || self.access.as_ref().is_some_and(|access| access.has_failed());
        let connection = self.live.borrow().clone()?;
        let is_usable = connection.is_current();
        (is_usable && !(self.spec.deferred.is_some() && has_failed())).then_some(connection)
    }

    /// Ends the server. The returned channel closes when it has ended.
    fn leave(self) -> oneshot::Receiver<()> {
        self.leaving.cancel();
        self.ended
    }
}
