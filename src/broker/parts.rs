//! The broker of one session: the state of the session that outlives a run.
//!
//! It answers no call; `answer` does. What sessions share is in `shared`.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, SessionId};
use belljar_base::run::{ClientAbilities, FaultCode, Progress, ServerScope, ToolFault};
use belljar_base::text;
use belljar_protocol::RunServer;
use belljar_tools::catalog::{self, Catalog, Shapes, StatedLimits};
use belljar_tools::policy::Profile;
use belljar_upstream::{Connection, Redacted, UpstreamError};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::arguments::ArgumentMemory;
use super::failure_text::{FAILURE_CHARS_MAX, UNAVAILABLE_HINT};
use super::gate::admission::Admission;
use super::models::Models;
use super::record::replay::Replay;
use super::run::context::{RunContext, RunSpec};
use super::run::record::RunRecord;
use super::servers::active_config::SeenConfig;
use super::shared::Shared;
use super::tools::tool_index::ListingChange;
use super::values::handles::Handles;
use crate::audit::Event;
use crate::config::PolicyFile;
use crate::jobs::Jobs;
use crate::journal::Journal;

/// The largest number of saved functions that the manual names.
const SKILLS_NAMED_MAX: usize = 30;
/// The time after which the start of a server is reported as progress.
const SILENT_START: Duration = Duration::from_secs(1);
/// Longest name of a server in a progress message, in characters.
const NAME_CHARS_MAX: usize = 60;

/// Returns the limits that the manual states, as they are configured now.
pub type LimitsForManual = Box<dyn Fn() -> StatedLimits + Send + Sync>;

/// What a session has of its own.
pub struct SessionSetup {
    /// The session.
    pub session: SessionId,
    /// The policy, which decides whether a call is made.
    pub policy: PolicyFile,
    /// The journal of the session.
    pub journal: Journal,
    /// The limits that its manual states.
    pub stated_limits: LimitsForManual,
}

/// Decides on the calls of one session.
pub struct Broker {
    pub(super) session: SessionId,
    pub(super) shared: Arc<Shared>,
    pub(super) limits: Arc<Limits>,
    pub(super) admission: Admission,
    pub(super) handles: Arc<Handles>,
    pub(super) arguments: ArgumentMemory,
    pub(super) journal: Journal,
    /// The number of calls that were recorded in the journal.
    pub(super) calls_noted: AtomicU64,
    pub(super) jobs: Arc<Jobs>,
    pub(super) models: Models,
    /// The configuration that the session has reported.
    seen_config: Mutex<SeenConfig>,
    /// The number of changes of tools that the session has reported.
    seen_news: Mutex<u64>,
    /// The connections that the session has used, and whose lists of tools it has compared with the pins.
    pub(super) connections: Mutex<BTreeMap<ServerName, Weak<Connection>>>,
    pub(crate) stated_limits: LimitsForManual,
}

impl Broker {
    /// The broker of a new session.
    #[must_use]
    pub fn new(shared: Arc<Shared>, setup: SessionSetup) -> Self {
        let SessionSetup { session, policy, journal, stated_limits } = setup;
        let limits = Arc::clone(&shared.limits);
        Self {
            session,
            admission: Admission::new(policy, Arc::clone(&shared.log), &limits),
            handles: Arc::new(Handles::new(&limits)),
            arguments: ArgumentMemory::new(&limits),
            journal,
            calls_noted: AtomicU64::new(0),
            jobs: Arc::new(Jobs::new(&limits)),
            models: Models::new(shared.active_config.model()),
            seen_config: Mutex::new(shared.active_config.seen()),
            seen_news: Mutex::new(shared.tool_index.news_count()),
            connections: Mutex::default(),
            stated_limits,
            limits,
            shared,
        }
    }

    /// Writes an event to the audit log.
    pub async fn record(&self, event: Event) {
        self.shared.log.record(&self.session, event).await;
    }

    /// The names of the servers that are configured now.
    #[must_use]
    pub fn configured(&self) -> Vec<ServerName> {
        self.shared.active_config.names()
    }

    /// Sentences about the configured servers that cannot be used now.
    #[must_use]
    pub fn unusable(&self) -> Vec<String> {
        self.shared.active_config.unusable()
    }

    /// Sentences about the configuration files that cannot be read now.
    #[must_use]
    pub fn unread(&self) -> Vec<String> {
        self.shared.active_config.unread()
    }

    /// The fault for a server that no run could have if it began now.
    #[must_use]
    pub fn not_configured(&self, server: &str) -> ToolFault {
        self.shared.follow_config();
        self.unavailable(server, &ServerScope::All)
    }

    /// The fault for a configured server that cannot be used; `None`: it can be used, or is not configured.
    fn refusal(&self, server: &str) -> Option<ToolFault> {
        let said = self.shared.active_config.refusal(server, &self.limits)?;
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
        self.shared.upstream.offer(run.human.abilities);
        // A server that has reported a change of its tools is asked for them now, while the run goes on.
        let stale = |(server, connection): (&ServerName, &Weak<Connection>)| {
            connection.upgrade().is_some_and(|connection| connection.has_news()).then(|| server.clone())
        };
        let stale: Vec<ServerName> = self.connections.lock().iter().filter_map(stale).collect();
        self.shared.indexing.refresh(&stale);
        // After a change of a login, the server may be able to list its tools.
        self.shared.tool_index.forget_failures(&self.shared.upstream.changed_logins());
        self.shared.follow_config();
        self.models.set(self.shared.active_config.model());
        let said = self.shared.active_config.changes(&mut self.seen_config.lock());
        if said.is_some() {
            self.connections.lock().clear();
            // What the human has approved may have been another server by the same name.
            self.admission.forget_approvals();
        }
        (run, said)
    }

    /// Passes the roots of the client on to servers that start from now on.
    pub fn roots_of_client(&self, roots: &[String]) {
        self.shared.upstream.offer_roots_of_client(&self.session, roots);
    }

    /// Ends a run or a job, and returns its record with everything that the reader of its report should know.
    #[must_use]
    pub fn finish(&self, run: &RunContext) -> RunRecord {
        let mut record = run.end();
        if run.job_number().is_none() {
            let mut seen = self.seen_news.lock();
            let (news, count) = self.shared.tool_index.news_since(*seen);
            *seen = count;
            record.notes.splice(0..0, news);
            let starting = record.awaited.iter().filter_map(|server| self.still_starting(server));
            record.notes.extend(starting.map(|(starting, advice)| format!("{starting}; {advice}")));
            // Their answers may be among what could not be read. Its words are the server's, and no answer.
            let unanswered = record.calls.of_tools.iter().filter(|tool| tool.counts.unknown > 0);
            let servers: BTreeSet<&ServerName> = unanswered.map(|tool| &tool.server).collect();
            let has_unread =
                |server: &&ServerName| self.shared.upstream.unread(server, Some(&run.session)).is_some();
            record.notes.extend(servers.into_iter().filter(has_unread).map(|server| {
                format!("{server} has also written what could not be read; `belljar doctor --ask` shows it to the user")
            }));
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
        let kept = self.shared.active_config.keeps_files_from();
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
        let names = self.shared.skills.all().unwrap_or_default();
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
        self.shared.shape_store.with(labelled.map(|server| server.name.clone()).collect(), shown)
    }

    /// A snapshot of the catalog.
    pub(super) fn catalog(&self) -> Catalog {
        self.shared.tool_index.catalog()
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
        let admitted = catalog.server(server).map(|server| server.name.clone());
        admitted.ok_or_else(|| self.unavailable(server, scope))
    }

    /// The fault for a server that the run cannot call.
    fn unavailable(&self, server: &str, scope: &ServerScope) -> ToolFault {
        if let Some(refusal) = self.refusal(server) {
            return refusal;
        }
        let names = self.server_names(scope);
        let names: Vec<&str> = names.iter().map(ServerName::as_str).collect();
        let available = if names.is_empty() { "none".into() } else { names.join(", ") };
        let near = self.catalog().scoped(scope).near_servers(server).to_string();
        let shown = text::inert_excerpt(server, 100);
        let unread: String =
            self.shared.active_config.unread().iter().map(|unread| format!("; {unread}")).collect();
        let message = format!("Server '{shown}' is not available{unread}");
        ToolFault::new(FaultCode::ServerUnavailable, message)
            .hint(format!("{near} Available in this run: {available}").trim_start().to_owned())
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
        let mut connecting = pin!(self.shared.upstream.connect(server, &self.session, deadline, cancel));
        let connected = match timeout(SILENT_START, &mut connecting).await {
            Ok(connected) => connected,
            Err(_) => {
                let server = text::inert_excerpt(server.as_str(), NAME_CHARS_MAX);
                run.tell(Progress::AwaitsServer { server });
                connecting.await
            }
        };
        let given_up = matches!(
            connected.as_ref().err().map(|error| &**error),
            Some(UpstreamError::Cancelled { .. } | UpstreamError::Deadline { .. } | UpstreamError::Closing)
        );
        if !given_up {
            run.with_record(|record| record.awaited.remove(server));
        }
        match connected {
            Ok(connection) => {
                let (key, listing) = (self.shared.tool_index.key(server), connection.tools());
                let before = self.connections.lock().get(server).map(Weak::as_ptr);
                let is_new = before != Some(Arc::as_ptr(&connection));
                if let Some(key) = key {
                    let taken = self.shared.tool_index.learn(server, &key, &listing);
                    if taken == ListingChange::New {
                        self.shared.indexing.keep(server, key, listing);
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
                if let Some(key) = self.shared.tool_index.key(server).filter(|_| !given_up) {
                    self.shared.tool_index.learn_failure(server, &key, &error.to_string());
                }
                Err(error)
            }
        }
    }

    fn compare_with_pins(&self, server: &ServerName, run: &RunContext) {
        let catalog = self.catalog();
        let Some(known) = catalog.server(server.as_str()) else { return };
        let redacted = |text| self.shared.upstream.redacted(server, text);
        for said in self.shared.pins.listed(known, self.admission.comparison(&redacted)) {
            run.note(said);
        }
    }
}
