//! The owners of sessions over HTTP: one for each token, and for each subject of the OAuth issuer. The sessions of an owner see nothing of another's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use belljar_base::limits::Limits;
use belljar_base::problem::report;
use belljar_guard::Mark;
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::bridges::{Bridges, Member, SESSIONS_MAX};
use super::open_sessions::OpenSessions;
use super::tokens::{Token, Tokens};
use crate::app::serve::handler;
use crate::config::{Config, ConfigFiles, Environment, MountedFolder};
use crate::server::{Handler, HandlerSource, Listeners, Remote};

/// The largest number of requests of one owner at once; a stream that waits for notifications is one.
pub(super) const REQUESTS_MAX: usize = 64;
/// How long a session without any request goes on. Its sandbox is stopped earlier (`sandbox.idle_timeout`).
const SESSION_IDLE: Duration = Duration::from_secs(24 * 3_600);
/// How long after its beginning a session is found again that was put aside, or whose bridge has ended.
const FOUND_AGAIN: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The largest number of sessions of one owner.
const OWN_SESSIONS_MAX: usize = 96;
/// How long a named session goes on that only one request has used.
const USED_ONCE: Duration = Duration::from_secs(300);
/// The length of a session's name. It is no secret: the owner's token is needed beside it.
const NAME_CHARS: usize = 12;
/// The largest number of connections of one owner, before those that were left are ended.
const CONNECTIONS_MAX: usize = 40;
/// The largest number of named sessions of one owner. Sessions that are ending, and those of earlier clients, need the rest.
const NAMED_MAX: usize = 40;
/// How long the sessions of a subject of the OAuth issuer go on after its last access token has expired.
const WITHOUT_ACCESS_TOKEN: Duration = Duration::from_secs(3_600);
/// How often it is looked whether all sessions have ended.
const LOOK: Duration = Duration::from_millis(20);

pub(super) type Service = StreamableHttpService<Remote, LocalSessionManager>;

/// What rmcp's part works on: its table of sessions, and those that clients may come back to.
pub(super) type ServiceParts<'p> = (&'p Arc<LocalSessionManager>, Option<OpenSessions>);

/// Those who have come so far.
pub(super) struct Owners {
    pub(super) tokens: Tokens,
    pub(super) bridges: Arc<Bridges>,
    /// The environment of `belljar serve`, in the user's home.
    environment: Environment,
    limits: Arc<Limits>,
    /// By name; `None`: belljar is ending.
    all: Mutex<Option<BTreeMap<String, Arc<Owner>>>>,
}

/// One of them.
pub(super) struct Owner {
    token: Token,
    /// The end of the longest access token of the OAuth issuer; `None`: the owner has a belljar token.
    access_until: Mutex<Option<Instant>>,
    environment: Environment,
    bridges: Arc<Bridges>,
    limits: Arc<Limits>,
    /// The places for requests.
    pub(super) requests: Arc<Semaphore>,
    /// Cancelled when the sessions have to end.
    pub(super) ending: CancellationToken,
    pub(super) service: Service,
    /// The sessions that clients may come back to; `None`: no home folder is known.
    pub(super) open: Option<OpenSessions>,
    /// rmcp's table of the sessions of connections.
    pub(super) manager: Arc<LocalSessionManager>,
    /// The same sessions by id.
    connections: Mutex<BTreeMap<String, Connection>>,
    /// Each session holds one.
    sessions: Arc<()>,
    /// The sessions that begin next, with sandboxes that are started ahead.
    next: Mutex<VecDeque<Prepared>>,
    /// How many of them are to wait; none before the first session.
    waiting: AtomicU64,
    named: Mutex<BTreeMap<String, Named>>,
    /// Those who wait for changed files of sessions, whichever session they were in.
    listeners: Arc<Listeners>,
}

/// A session of the protocol, up to MCP 2025-11-25.
struct Connection {
    used: Instant,
    /// Its requests in progress; a stream that waits for notifications is one.
    open: usize,
}

/// A request in progress, until this value is dropped.
pub(super) struct OpenRequest {
    owner: Arc<Owner>,
    session: Option<String>,
    _place: OwnedSemaphorePermit,
}

/// A session that requests name.
struct Named {
    handler: Arc<Handler>,
    used: Instant,
    is_used_again: bool,
}

/// A session that nobody uses yet.
struct Prepared {
    /// The ID of its journal.
    journal: String,
    handler: Arc<Handler>,
    /// The configuration that its sandbox is started with, and the present one.
    config: Arc<Config>,
    told: watch::Receiver<Arc<Config>>,
    /// The folders that its sandbox has, by device and inode.
    folders: Vec<Option<(u64, u64)>>,
}

/// Ends a session when its client has gone.
struct Ending {
    member: Option<Member>,
    limits: Arc<Limits>,
    counted: Arc<()>,
}

impl Owners {
    pub(super) fn new(
        tokens: Tokens,
        bridges: Arc<Bridges>,
        environment: &Environment,
        limits: Arc<Limits>,
    ) -> Self {
        let cwd = environment.home.clone().or_else(|| environment.cwd.clone());
        let environment = Environment { cwd, ..environment.clone() };
        Self { tokens, bridges, environment, limits, all: Mutex::new(Some(BTreeMap::new())) }
    }

    /// The owner whom this token names; `None`: belljar is ending. Another token of the same name, made after the first was
    /// removed, has none of its sessions. `until` is the end of an access token of the OAuth issuer.
    pub(super) fn of(
        &self,
        token: Token,
        until: Option<Instant>,
        service: impl FnOnce(&Weak<Owner>, ServiceParts<'_>, CancellationToken) -> Service,
    ) -> Option<Arc<Owner>> {
        let mut all = self.all.lock();
        let all = all.as_mut()?;
        if let Some(owner) = all.get(&token.name).filter(|owner| owner.token == token) {
            let mut latest = owner.access_until.lock();
            *latest = until.max(*latest);
            drop(latest);
            return Some(Arc::clone(owner));
        }
        let policy = token.policy.clone().map(|policy| ("MCP_BRIDGE_POLICY", policy));
        let servers = token.servers.as_ref().map(|names| ("MCP_BRIDGE_SERVERS", names.join(",")));
        let variables = policy.into_iter().chain(servers);
        let environment = self.environment.of_owner(&token.name, variables);
        let config = ConfigFiles::load(environment.clone()).0;
        report(&config.problems);
        let open = config.owner.open_sessions();
        let open = open.map(|dir| OpenSessions::new(dir, &token.created, FOUND_AGAIN));
        let (ending, manager) = (CancellationToken::new(), Arc::new(session_manager()));
        let owner = Arc::new_cyclic(|own| Owner {
            access_until: Mutex::new(until),
            environment,
            bridges: Arc::clone(&self.bridges),
            limits: Arc::clone(&self.limits),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            service: service(own, (&manager, open.clone()), ending.clone()),
            ending,
            open,
            manager,
            connections: Mutex::default(),
            sessions: Arc::new(()),
            next: Mutex::default(),
            waiting: AtomicU64::new(0),
            named: Mutex::default(),
            listeners: Arc::default(),
            token,
        });
        let former = all.insert(owner.token.name.clone(), Arc::clone(&owner));
        if let Some(former) = former {
            former.end();
        }
        Some(owner)
    }

    /// Ends the sessions of owners whose token has expired or was removed.
    pub(super) fn end_those_without_token(&self) {
        let mut all = self.all.lock();
        let Some(all) = all.as_mut().filter(|all| !all.is_empty()) else { return };
        let Ok(valid) = self.tokens.valid() else { return };
        all.retain(|_, owner| {
            let stays = match *owner.access_until.lock() {
                Some(until) => go_on(until, Instant::now()),
                None => valid.contains(&owner.token),
            };
            if !stays {
                tracing::info!(
                    owner = owner.token.name,
                    "the token is not valid any more, so its sessions end"
                );
                owner.end();
            }
            owner.end_unused();
            owner.start_ahead();
            stays
        });
    }

    /// Ends all sessions, and waits for that as long as a shutdown may take. No owner comes any more.
    pub(super) async fn end_all(&self) {
        let all = self.all.lock().take().unwrap_or_default();
        all.values().for_each(|owner| owner.end());
        let waiting = async {
            while all.values().any(|owner| owner.sessions() > 0) {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(self.limits.shutdown, waiting).await.is_err() {
            tracing::warn!("not every session had ended in time");
        }
    }
}

impl Owner {
    fn sessions(&self) -> usize {
        Arc::strong_count(&self.sessions) - 1
    }

    /// Whether a further session may begin.
    pub(super) fn has_room(&self) -> bool {
        self.sessions() < OWN_SESSIONS_MAX && self.bridges.sessions() < SESSIONS_MAX
    }

    /// Begins a request for the session with this id; `None`: there are too many requests.
    pub(super) fn open(self: &Arc<Self>, session: Option<String>) -> Option<OpenRequest> {
        let place = Arc::clone(&self.requests).try_acquire_owned().ok()?;
        let mut request = OpenRequest { owner: Arc::clone(self), session: None, _place: place };
        request.is_of(session);
        Some(request)
    }

    /// Ends the connection that was used least recently and that no client holds open, if there are many: many clients go
    /// without saying so.
    pub(super) async fn end_left_connection(&self) {
        let left = {
            let mut all = self.connections.lock();
            let free = all.iter().filter(|(_, connection)| connection.open == 0);
            let oldest = free.min_by_key(|(_, connection)| connection.used).map(|(id, _)| id.clone());
            let oldest = oldest.filter(|_| all.len() >= CONNECTIONS_MAX);
            if let Some(id) = &oldest {
                all.remove(id);
            }
            oldest
        };
        if let Some(id) = left
            && let Err(error) = self.manager.close_session(&id.into()).await
        {
            tracing::debug!(%error, "the session had ended");
        }
    }

    /// Whether a further connection may be opened.
    pub(super) fn has_room_for_connection(&self) -> bool {
        self.connections.lock().len() < CONNECTIONS_MAX + REQUESTS_MAX && self.has_room()
    }

    /// Begins a session, after the one with this journal.
    fn prepared(&self, after: Option<&str>) -> Result<Prepared, ErrorData> {
        if !self.has_room() {
            return Err(ErrorData::internal_error("there are too many sessions", None));
        }
        let (config, files) = ConfigFiles::load(self.environment.clone());
        let member = self.bridges.join(&config, files, after);
        let (journal, told) = (member.id.as_str().to_owned(), member.process.told());
        let config = Arc::clone(&told.borrow());
        let handler = handler(&member.modules, member.process.told(), Arc::clone(&self.limits));
        let counted = Arc::clone(&self.sessions);
        let ending = Ending { member: Some(member), limits: Arc::clone(&self.limits), counted };
        let handler = Arc::new(handler.with_listeners(&self.listeners).holding(Box::new(ending)));
        let folders = folders(&config);
        Ok(Prepared { journal, handler, config, told, folders })
    }

    /// Starts sandboxes for the sessions that begin next.
    fn start_ahead(&self) {
        let mut next = self.next.lock();
        while (next.len() as u64) < self.waiting.load(Ordering::Relaxed) && !self.ending.is_cancelled() {
            // There may be no room.
            let Ok(prepared) = self.prepared(None) else { return };
            prepared.handler.prewarm();
            next.push_back(prepared);
        }
    }

    /// A session that waits. A sandbox that was started with another configuration, or has a folder that is not at its place any
    /// more, is not used.
    fn waiting(&self) -> Option<Prepared> {
        loop {
            let waiting = self.next.lock().pop_front()?;
            waiting.handler.prewarm();
            if waiting.folders == folders(&waiting.config) && waiting.told.borrow().is_same(&waiting.config) {
                return Some(waiting);
            }
        }
    }

    /// Ends the sessions that nobody uses any more.
    fn end_unused(&self) {
        let is_over = |named: &Named| {
            let idle = if named.is_used_again { SESSION_IDLE } else { USED_ONCE };
            Arc::strong_count(&named.handler) == 1 && named.used.elapsed() >= idle
        };
        let mut all = self.named.lock();
        let (over, others) = std::mem::take(&mut *all).into_iter().partition(|(_, named)| is_over(named));
        *all = others;
        drop(all);
        // They end when they are dropped, after the lock.
        let over: BTreeMap<String, Named> = over;
        drop(over);
    }

    /// Ends the named session that was used least recently, if there are many and nobody uses it now.
    fn make_room(&self) {
        let mut all = self.named.lock();
        let is_free = |named: &&Named| Arc::strong_count(&named.handler) == 1;
        let oldest = all.iter().filter(|(_, named)| is_free(named)).min_by_key(|(_, named)| named.used);
        let oldest = oldest.map(|(name, _)| name.clone()).filter(|_| all.len() >= NAMED_MAX);
        let over = oldest.and_then(|name| all.remove(&name));
        drop(all);
        drop(over);
    }

    /// Ends all sessions that no client holds.
    fn end(&self) {
        self.ending.cancel();
        let all = (std::mem::take(&mut *self.next.lock()), std::mem::take(&mut *self.named.lock()));
        drop(all);
    }
}

impl OpenRequest {
    /// Notes the session of the request, if it is known.
    fn is_of(&mut self, session: Option<String>) {
        let mut all = self.owner.connections.lock();
        if let Some((session, connection)) =
            session.and_then(|session| Some((session.clone(), all.get_mut(&session)?)))
        {
            connection.open += 1;
            self.session = Some(session);
        }
    }

    /// Notes the session that the request has begun, or come back to.
    pub(super) fn begins(&mut self, session: Option<&String>) {
        let Some(session) = session.filter(|_| self.session.is_none()) else { return };
        let mut all = self.owner.connections.lock();
        let connection = all.entry(session.clone()).or_insert(Connection { used: Instant::now(), open: 0 });
        connection.open += 1;
        self.session = Some(session.clone());
    }

    /// Notes that there is no such session any more.
    pub(super) fn is_over(&mut self) {
        if let Some(session) = self.session.take() {
            self.owner.connections.lock().remove(&session);
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut all = self.owner.connections.lock();
        if let Some(connection) = self.session.as_ref().and_then(|session| all.get_mut(session)) {
            connection.open = connection.open.saturating_sub(1);
            connection.used = Instant::now();
        }
    }
}

impl HandlerSource for Owner {
    fn begin(&self, id: Option<&str>) -> Result<Arc<Handler>, ErrorData> {
        let journal = id.and_then(|id| self.open.as_ref()?.journal(id));
        let waiting = if journal.is_none() { self.waiting() } else { None };
        let Prepared { journal, handler, config, .. } = match waiting {
            Some(waiting) => waiting,
            None => self.prepared(journal.as_deref())?,
        };
        let ahead = handler.prewarm();
        // A session that goes on from another cannot be made before the other has ended.
        self.waiting.store(if config.resume.is_none() { ahead } else { 0 }, Ordering::Relaxed);
        if let (Some(open), Some(id)) = (&self.open, id) {
            open.begun(id, &journal);
        }
        Ok(handler)
    }

    fn next(&self) -> Result<Arc<Handler>, ErrorData> {
        let mut next = self.next.lock();
        if next.is_empty() {
            next.push_back(self.prepared(None)?);
        }
        Ok(Arc::clone(&next[0].handler))
    }

    fn begin_named(&self) -> Result<(String, Arc<Handler>), ErrorData> {
        self.make_room();
        let name: String = Mark::new().as_str().chars().take(NAME_CHARS).collect();
        let handler = self.begin(Some(&name))?;
        handler.tell_name(&name);
        let named = Named { handler: Arc::clone(&handler), used: Instant::now(), is_used_again: false };
        self.named.lock().insert(name.clone(), named);
        Ok((name, handler))
    }

    fn named(&self, name: &str) -> Option<Arc<Handler>> {
        // A connection's session has an id with such signs, and is not found by a name.
        if name.contains('-') {
            return None;
        }
        if !self.named.lock().contains_key(name) {
            // It was put aside, or belljar was started again.
            self.open.as_ref()?.journal(name)?;
            self.make_room();
        }
        // Requests at once wait for the one that begins it.
        let mut all = self.named.lock();
        if let Some(named) = all.get_mut(name) {
            (named.used, named.is_used_again) = (Instant::now(), true);
            return Some(Arc::clone(&named.handler));
        }
        let handler = self.begin(Some(name)).ok()?;
        let named = Named { handler: Arc::clone(&handler), used: Instant::now(), is_used_again: true };
        all.insert(name.to_owned(), named);
        Some(handler)
    }

    fn all_named(&self) -> Vec<Arc<Handler>> {
        let all = self.named.lock();
        let mut all: Vec<&Named> = all.values().collect();
        all.sort_by_key(|named| std::cmp::Reverse(named.used));
        all.into_iter().map(|named| Arc::clone(&named.handler)).collect()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(member) = self.member.take() else { return };
        let (shutdown, counted) = (self.limits.shutdown, Arc::clone(&self.counted));
        // Without a runtime the program is ending.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if tokio::time::timeout(shutdown, member.modules.close_session()).await.is_err() {
                    tracing::warn!("a session had not ended in time");
                }
                drop(counted);
            });
        }
    }
}

fn folders(config: &Config) -> Vec<Option<(u64, u64)>> {
    config.mounts.iter().map(MountedFolder::identity).collect()
}

/// Whether the sessions of a subject of the OAuth issuer go on, whose last access token ends or has ended at `until`.
fn go_on(until: Instant, now: Instant) -> bool {
    now < until + WITHOUT_ACCESS_TOKEN
}

fn session_manager() -> LocalSessionManager {
    let mut config = SessionConfig::default();
    config.keep_alive = Some(SESSION_IDLE);
    // Clients of earlier versions take an event without data for an answer.
    config.sse_retry = None;
    let mut manager = LocalSessionManager::default();
    manager.session_config = config;
    manager
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_outlast_an_access_token_by_an_hour() {
        let now = Instant::now();
        let [before, after] = [3_599, 3_600].map(|seconds| now + Duration::from_secs(seconds));
        assert!(go_on(now, now) && go_on(now, before) && !go_on(now, after) && go_on(after, now));
    }
}
