//! The broker and its parts: the servers, the knowledge about them, and the state that outlives a run.
//!
//! It answers no call; `answer` does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, SessionId};
use belljar_base::run::{ClientAbilities, FaultCode, ServerScope, ToolFault};
use belljar_base::text;
use belljar_protocol::RunServer;
use belljar_tools::catalog::{self, Catalog, Shapes, StatedLimits};
use belljar_tools::policy::Profile;
use belljar_upstream::{Connection, Redacted, Upstream, UpstreamError};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::arguments::ArgumentMemory;
use super::failure_text::{FAILURE_CHARS_MAX, UNAVAILABLE_HINT};
use super::gate::admission::Admission;
use super::gate::pins::Pins;
use super::models::Models;
use super::record::audit::AuditSetup;
use super::record::replay::Replay;
use super::run::context::{RunContext, RunSpec};
use super::run::record::RunRecord;
use super::servers::active_config::{ActiveConfig, SeenConfig};
use super::servers::server_requests::{ListenerTask, RequestListener, ServerRequests};
use super::tools::catalog_cache::CatalogCache;
use super::tools::indexing::Indexer;
use super::tools::searched_skills::SearchedSkills;
use super::tools::shape_store::ShapeStore;
use super::tools::tool_index::{ListingChange, ToolIndex};
use super::values::handles::Handles;
use crate::audit::{AuditLog, Event, ServerLog};
use crate::config::Audit;
use crate::jobs::Jobs;
use crate::journal::Journal;
use crate::skills::Skills;

/// The folders of the data that outlives the bridge. Each folder is created when something is first stored in it.
#[derive(Debug, Clone)]
pub struct Folders {
    /// The skills.
    pub skills: PathBuf,
    /// The shapes of tools' results; `None`: shapes are neither learned nor shown.
    pub shape_store: Option<PathBuf>,
    /// The cached lists of tools; `None`: lists are not cached.
    pub catalog: Option<PathBuf>,
    /// The pins of tools; `None`: tools are not pinned.
    pub pins: Option<PathBuf>,
    /// The log of the servers' own messages; `None`: messages are not stored.
    pub server_log: Option<PathBuf>,
}

/// The largest number of saved functions that the manual names.
const SKILLS_NAMED_MAX: usize = 30;

/// Returns the limits that the manual states, as they are configured now.
pub type LimitsForManual = Box<dyn Fn() -> StatedLimits + Send + Sync>;

/// Decides on calls.
pub struct Broker {
    pub(super) session: SessionId,
    pub(super) active_config: ActiveConfig,
    pub(super) upstream: Arc<Upstream>,
    pub(super) skills: Skills,
    pub(super) searched_skills: SearchedSkills,
    pub(super) shape_store: ShapeStore,
    pub(super) limits: Arc<Limits>,
    pub(super) indexing: Indexer,
    pub(super) tool_index: Arc<ToolIndex>,
    pub(super) admission: Admission,
    pub(super) handles: Arc<Handles>,
    pub(super) arguments: ArgumentMemory,
    pub(super) pins: Pins,
    pub(super) server_requests: Arc<ServerRequests>,
    pub(super) listening: ListenerTask,
    pub(super) log: Arc<AuditLog>,
    pub(super) logged: Audit,
    pub(super) journal: Journal,
    /// The number of calls that were recorded in the journal.
    pub(super) calls_noted: AtomicU64,
    pub(super) jobs: Arc<Jobs>,
    pub(super) models: Models,
    /// The configuration that the session has reported.
    seen_config: Mutex<SeenConfig>,
    /// The number of changes of tools that the session has reported.
    seen_news: Mutex<u64>,
    /// The connections that the lists of tools in the catalog came from.
    pub(super) connections: Mutex<BTreeMap<ServerName, Weak<Connection>>>,
    pub(crate) stated_limits: LimitsForManual,
}

impl Broker {
    /// A broker for the configured servers. Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(
        active_config: ActiveConfig,
        upstream: Arc<Upstream>,
        folders: Folders,
        audit_setup: AuditSetup,
        (limits, stated_limits): (Arc<Limits>, LimitsForManual),
    ) -> Self {
        let AuditSetup { session, policy, log, arguments: logged, journal } = audit_setup;
        let pins = Pins::new(folders.pins);
        let (handles, arguments) = (Arc::new(Handles::new(&limits)), ArgumentMemory::new(&limits));
        let log = Arc::new(log);
        let admission = Admission::new(policy, Arc::clone(&log), &limits);
        let skills = Skills::new(folders.skills, &limits);
        let shape_store = ShapeStore::new(folders.shape_store, &limits);
        let cache = folders.catalog.map(|dir| CatalogCache::new(dir, &limits));
        let tool_index = Arc::new(ToolIndex::new(
            active_config.catalog(&limits),
            active_config.known(),
            cache,
            Arc::clone(&limits),
        ));
        let indexing = Indexer::new(Arc::clone(&tool_index), Arc::clone(&upstream), &limits);
        let server_requests = ServerRequests::new(&limits);
        let listening = ListenerTask::start(RequestListener {
            requests: Arc::clone(&server_requests),
            upstream: Arc::clone(&upstream),
            log: Arc::clone(&log),
            logged,
            process: session.clone(),
            words: ServerLog::start(folders.server_log),
        });
        let (connections, models) = (Mutex::default(), Models::new(active_config.model()));
        let jobs = Arc::new(Jobs::new(&limits));
        let (seen_config, seen_news) =
            (Mutex::new(active_config.seen()), Mutex::new(tool_index.news_count()));
        Self {
            jobs,
            session,
            active_config,
            upstream,
            skills,
            searched_skills: SearchedSkills::default(),
            shape_store,
            limits,
            indexing,
            tool_index,
            admission,
            handles,
            arguments,
            pins,
            server_requests,
            listening,
            log,
            logged,
            journal,
            calls_noted: AtomicU64::new(0),
            models,
            seen_config,
            seen_news,
            connections,
            stated_limits,
        }
    }

    /// Ends all background tasks.
    pub async fn close(&self) {
        tokio::join!(self.indexing.close(), self.listening.close());
        self.log.close().await;
    }

    /// Writes an event to the audit log.
    pub async fn record(&self, event: Event) {
        self.log.record(&self.session, event).await;
    }

    /// The names of the servers that are configured now.
    #[must_use]
    pub fn configured(&self) -> Vec<ServerName> {
        self.active_config.names()
    }

    /// Sentences about the configured servers that cannot be used now.
    #[must_use]
    pub fn unusable(&self) -> Vec<String> {
        self.active_config.unusable()
    }

    /// The fault for a configured server that cannot be used; `None`: it can be used, or is not configured.
    #[must_use]
    pub fn refusal(&self, server: &str) -> Option<ToolFault> {
        let said = self.active_config.refusal(server, &self.limits)?;
        let said = text::inert_excerpt(&said, FAILURE_CHARS_MAX);
        Some(ToolFault::new(FaultCode::ServerUnavailable, said).hint(UNAVAILABLE_HINT))
    }

    /// Begins a run with the servers that are configured now. Servers that start from now on may send the requests that
    /// the run's client supports. Returns the run's context, and a sentence about changes since the last run. Must be
    /// called inside a tokio runtime.
    #[must_use]
    pub fn begin(&self, spec: RunSpec) -> (Arc<RunContext>, Option<String>) {
        let run = Arc::new(RunContext::new(self.session.clone(), spec));
        self.admission.begin(&run);
        self.upstream.offer(run.human.abilities);
        // A server that has reported a change of its tools is asked for them now, while the run goes on.
        let stale = |(server, connection): (&ServerName, &Weak<Connection>)| {
            connection.upgrade().is_some_and(|connection| connection.has_news()).then(|| server.clone())
        };
        let stale: Vec<ServerName> = self.connections.lock().iter().filter_map(stale).collect();
        self.indexing.refresh(&stale);
        // After a change of a login, the server may be able to list its tools.
        self.tool_index.forget_failures(&self.upstream.changed_logins());
        if let Some(roots) = self.active_config.advance() {
            tracing::info!("the configuration has changed");
            self.upstream.offer_roots(&roots);
            self.upstream.replace(self.active_config.specs());
            self.connections.lock().clear();
            self.tool_index.replace(self.active_config.catalog(&self.limits), self.active_config.known());
        }
        self.models.set(self.active_config.model());
        let said = self.active_config.changes(&mut self.seen_config.lock());
        if said.is_some() {
            // What the human has approved may have been another server by the same name.
            self.admission.forget_approvals();
        }
        (run, said)
    }

    /// Passes the roots of the client on to servers that start from now on.
    pub fn roots_of_client(&self, roots: &[String]) {
        self.upstream.offer_roots_of_client(roots);
    }

    /// Ends a run or a job, and returns its record with everything that the reader of its report should know.
    #[must_use]
    pub fn finish(&self, run: &RunContext) -> RunRecord {
        let mut record = run.end();
        if run.job_number().is_none() {
            let mut seen = self.seen_news.lock();
            let (news, count) = self.tool_index.news_since(*seen);
            *seen = count;
            record.notes.splice(0..0, news);
            let starting = record.awaited.iter().filter_map(|server| self.still_starting(server));
            let starting = starting
                .map(|starting| format!("{starting}, and nothing was sent to it; run the code again"));
            record.notes.extend(starting);
        }
        record
    }

    /// The journal of this session.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The jobs of the session.
    #[must_use]
    pub fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// The servers of a run in the form that the sandbox gets.
    #[must_use]
    pub fn run_servers(&self, run: &RunContext) -> Vec<RunServer> {
        if let Some(recorded) = run.replay().and_then(Replay::servers) {
            return recorded;
        }
        let catalog = self.catalog().scoped(&run.servers);
        let kept = self.active_config.keeps_files_from();
        let server = |server: &Arc<catalog::ServerTools>| RunServer {
            name: server.name.as_str().to_owned(),
            alias: server.alias.clone(),
            description: server.description.clone().unwrap_or_default(),
            takes_files: !kept.contains(&server.name),
        };
        catalog.servers().iter().map(server).collect()
    }

    /// The names of a run's servers.
    #[must_use]
    pub fn server_names(&self, scope: &ServerScope) -> Vec<ServerName> {
        self.catalog().scoped(scope).servers().iter().map(|server| server.name.clone()).collect()
    }

    /// The manual for all servers, for a client with these abilities.
    #[must_use]
    pub fn manual_of_all(&self, abilities: ClientAbilities) -> String {
        self.manual(&self.catalog(), abilities)
    }

    /// The manual for these servers.
    pub(super) fn manual(&self, catalog: &Catalog, can: ClientAbilities) -> String {
        let limits = (self.stated_limits)();
        let reply_chars =
            can.reply_chars_max.map_or(limits.reply_chars, |chars| chars.min(limits.reply_chars));
        let stated = StatedLimits { reply_chars, ..limits };
        let mut manual = catalog::capability_summary(catalog, &self.unusable(), &stated);
        let names = self.skills.all().unwrap_or_default();
        let names: Vec<&str> = names.iter().take(SKILLS_NAMED_MAX).map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            manual
                .push_str(&format!("\nKept functions (print(runtime.skills)): from skills import {names}\n"));
        }
        let profile = match (self.admission.profile(), can.elicitation) {
            (Profile::Open, _) => return manual,
            (Profile::Careful, true) => "careful: the user is asked before each call of a tool that is",
            (Profile::Careful, false) => {
                "careful, and this client cannot ask the user: refused are calls of tools that are"
            }
            (Profile::ReadOnly, _) => "read-only: refused are calls of tools that are",
        };
        manual.push_str(&format!(
            "\nProfile {profile} not marked [read-only], unless a rule of the user says otherwise\n"
        ));
        manual
    }

    /// Gives access to the learned shapes of results, except those of servers that the policy labels as private or
    /// untrusted: their keys are words of these servers.
    pub(super) fn with_shapes<R>(&self, shown: impl FnOnce(&Shapes) -> R) -> R {
        let catalog = self.catalog();
        let labelled = catalog.servers().iter().filter(|server| !self.admission.lets_learn(server.names()));
        self.shape_store.with(labelled.map(|server| server.name.clone()).collect(), shown)
    }

    /// A snapshot of the catalog.
    pub(super) fn catalog(&self) -> Catalog {
        self.tool_index.catalog()
    }

    /// Whether the catalog has the server's current tools: the server is alive, and has not reported a change since it
    /// listed them.
    pub(super) fn knows_tools_of(&self, server: &ServerName) -> bool {
        self.running(server).is_some_and(|connection| connection.is_current())
    }

    /// The server's connection; `None`: it is not running.
    pub(super) fn running(&self, server: &ServerName) -> Option<Arc<Connection>> {
        let connection = self.connections.lock().get(server).and_then(Weak::upgrade);
        connection.filter(|connection| !connection.is_dead())
    }

    /// Finds a server of the run by its name or alias.
    pub(super) fn admitted(&self, server: &str, scope: &ServerScope) -> Result<ServerName, ToolFault> {
        let catalog = self.catalog().scoped(scope);
        if let Some(server) = catalog.server(server) {
            return Ok(server.name.clone());
        }
        if let Some(refusal) = self.refusal(server) {
            return Err(refusal);
        }
        let names = self.server_names(scope);
        let names: Vec<&str> = names.iter().map(ServerName::as_str).collect();
        let available = if names.is_empty() { "none".into() } else { names.join(", ") };
        let near = catalog.near_servers(server).to_string();
        let shown = text::inert_excerpt(server, 100);
        let unread = self.active_config.unread().into_iter();
        let unread: String =
            unread.map(|unread| format!("; a configuration file cannot be used: {unread}")).collect();
        let message = format!("Server '{shown}' is not available{unread}");
        Err(ToolFault::new(FaultCode::ServerUnavailable, message)
            .hint(format!("{near} Available in this run: {available}").trim_start().to_owned()))
    }

    /// Returns a live connection to a server, after its tools are in the catalog.
    pub(super) async fn connected(
        &self,
        server: &ServerName,
        (run, deadline): (&RunContext, Instant),
        cancel: &CancellationToken,
    ) -> Result<Arc<Connection>, Redacted> {
        // The name stays in `awaited` if this future is dropped or the call is given up.
        run.with_record(|record| record.awaited.insert(server.clone()));
        let connected = self.upstream.connect(server, deadline, cancel).await;
        let given_up = matches!(
            connected.as_ref().err().map(|error| &**error),
            Some(UpstreamError::Cancelled { .. } | UpstreamError::Deadline { .. } | UpstreamError::Closing)
        );
        if !given_up {
            run.with_record(|record| record.awaited.remove(server));
        }
        match connected {
            Ok(connection) => {
                let (key, listing) = (self.tool_index.key(server), connection.tools());
                let before = self.connections.lock().get(server).map(Weak::as_ptr);
                let is_new = before != Some(Arc::as_ptr(&connection));
                if let Some(key) = key {
                    let taken = self.tool_index.learn(server, &key, &listing);
                    if taken == ListingChange::New {
                        self.indexing.keep(server, key, listing);
                    }
                    if is_new || taken == ListingChange::New {
                        self.compare_with_pins(server, run);
                    }
                }
                self.connections.lock().insert(server.clone(), Arc::downgrade(&connection));
                Ok(connection)
            }
            Err(error) => {
                // A call that was given up says nothing about the server, which may still be starting.
                if let Some(key) = self.tool_index.key(server).filter(|_| !given_up) {
                    self.tool_index.learn_failure(server, &key, &error.to_string());
                }
                Err(error)
            }
        }
    }

    fn compare_with_pins(&self, server: &ServerName, run: &RunContext) {
        let catalog = self.catalog();
        let Some(known) = catalog.server(server.as_str()) else { return };
        let redacted = |text| self.upstream.redacted(server, text);
        for said in self.pins.listed(known, self.admission.comparison(&redacted)) {
            run.note(said);
        }
    }
}
