//! Admits or refuses a call, and has it answered.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::admission::Admission;
use super::arguments;
use super::catalog_cache::CatalogCache;
use super::dry_run::DryRun;
use super::human::Human;
use super::indexing::Indexing;
use super::knowledge::{Knowledge, Taken};
use super::learned::Learned;
use super::oversight::{LoggedArguments, Oversight, Record};
use super::pins::Pins;
use super::roster::{Change, Roster};
use super::saved_tools::SavedTools;
use super::semantics::Semantics;
use super::sending::Sending;
use super::server_progress::Told;
use super::servers_ask::{Ears, Listening, ServersAsk};
use crate::audit::{Event, Log, ServerLog};
use crate::catalog::{self, Answered, Catalog, Tool, UnknownTool};
use crate::limits::Limits;
use crate::names::{RunId, ServerName};
use crate::policy::Called;
use crate::protocol::RunServer;
use crate::run::{Calls, ClientAbilities, FaultCode, Planned, Progress, ServerScope, ToolEffect, ToolFault};
use crate::text;
use crate::upstream::{Connection, Request, Upstream, UpstreamError};

/// A call as the sandbox claims it, and the run that it is made in.
pub struct Call<'a> {
    /// The run.
    pub run: RunId,
    /// The servers of the run.
    pub scope: &'a ServerScope,
    /// The server's name or alias; nothing for a helper.
    pub server: Option<String>,
    /// The tool's name or alias, or the helper's name.
    pub tool: String,
    /// A JSON object, not yet read.
    pub arguments: Box<RawValue>,
    /// Whether it is made.
    pub making: Making,
    /// When the run's time is over.
    pub deadline: Instant,
    /// Who is asked where the policy says so, or the server asks.
    pub human: &'a Human,
    /// Hears what the server says of its progress; what does not fit is left out.
    pub progress: &'a mpsc::Sender<Progress>,
    /// Whether it is sent.
    pub sending: &'a Sending,
}

/// When a call is made; one that is not made is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    /// If it may.
    Always,
    /// If its tool only reads, by its server's word.
    IfItReads,
    /// Not at all: its arguments are not those that it would have.
    Never,
}

impl Making {
    /// As the call's frame has it, or the run.
    #[must_use]
    pub fn of(dry_run: bool, placeholders: bool) -> Self {
        match (dry_run, placeholders) {
            (false, false) => Self::Always,
            (true, false) => Self::IfItReads,
            (_, true) => Self::Never,
        }
    }
}

/// What is sent back to the code.
#[derive(Debug)]
pub enum Answer {
    /// An MCP result as the server sent it, or what a helper returns.
    Value(Box<RawValue>),
    /// An MCP result by which the tool reports an error.
    ToolError(Box<RawValue>),
    /// Nothing: the call was listed instead of being made.
    Planned {
        /// The server's name.
        server: String,
        /// The tool's own name.
        tool: String,
    },
}

impl Answer {
    /// What it is in a word, and its size in bytes.
    fn told(&self) -> (&'static str, usize) {
        match self {
            Self::Value(value) => ("answered", value.get().len()),
            Self::ToolError(value) => ("tool_error", value.get().len()),
            Self::Planned { .. } => ("planned", 0),
        }
    }
}

/// Where the broker keeps what outlives the bridge; each folder is made when something is first kept.
#[derive(Debug, Clone)]
pub struct Folders {
    /// Functions that code has saved.
    pub saved_tools: PathBuf,
    /// What results of tools have looked like; nothing: that is neither learned nor shown.
    pub learned: Option<PathBuf>,
    /// What servers have listed; nothing: it is not kept.
    pub catalog: Option<PathBuf>,
    /// What tools were when they were first used; nothing: that is not remembered.
    pub pins: Option<PathBuf>,
    /// The sentence encoder's model, which may be put there at any time; nothing: search by meaning is off.
    pub model: Option<PathBuf>,
    /// Vectors of tools; nothing: they are not kept.
    pub vectors: Option<PathBuf>,
    /// What servers have said of themselves; nothing: it is not kept.
    pub server_log: Option<PathBuf>,
}

/// Decides on calls.
pub struct Broker {
    roster: Roster,
    pub(super) upstream: Arc<Upstream>,
    pub(super) saved: SavedTools,
    pub(super) learned: Learned,
    pub(super) limits: Arc<Limits>,
    pub(super) indexing: Indexing,
    pub(super) semantics: Semantics,
    knowledge: Arc<Knowledge>,
    pub(super) admission: Admission,
    dry_run: DryRun,
    pins: Pins,
    pub(super) servers_ask: Arc<ServersAsk>,
    listening: Listening,
    log: Arc<Log>,
    logged: LoggedArguments,
    /// Over which the servers' lists of tools came that the catalog holds.
    connections: Mutex<BTreeMap<ServerName, Weak<Connection>>>,
}

/// Longest text of a server's failure that the model reads, in characters.
const FAILURE_CHARS_MAX: usize = 2_000;
/// For a server that is configured and cannot be used.
const UNAVAILABLE_HINT: &str = "the user must fix it; `hotcell config` shows where it stands";
/// Longest list of arguments in a note, in characters.
const UNDECLARED_CHARS_MAX: usize = 200;
/// Longest name of a call whose progress is told, in characters.
const PROGRESS_CHARS_MAX: usize = 200;

impl Broker {
    /// A broker for the servers of the roster. Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(
        roster: Roster,
        upstream: Arc<Upstream>,
        folders: Folders,
        oversight: Oversight,
        limits: Arc<Limits>,
    ) -> Self {
        let Oversight { policy, log, arguments: logged } = oversight;
        let pins = Pins::new(folders.pins, policy.policy().profile);
        let admission = Admission::new(policy, &limits);
        let saved = SavedTools::new(folders.saved_tools, &limits);
        let learned = Learned::new(folders.learned, &limits);
        let cache = folders.catalog.map(|dir| CatalogCache::new(dir, &limits));
        let knowledge =
            Arc::new(Knowledge::new(roster.catalog(&limits), roster.known(), cache, Arc::clone(&limits)));
        let indexing = Indexing::new(Arc::clone(&knowledge), Arc::clone(&upstream), &limits);
        let semantics = Semantics::new(folders.model, folders.vectors, Arc::clone(&knowledge), &limits);
        let (log, servers_ask) = (Arc::new(log), ServersAsk::new(&limits));
        let listening = Listening::start(Ears {
            ask: Arc::clone(&servers_ask),
            upstream: Arc::clone(&upstream),
            log: Arc::clone(&log),
            logged,
            words: ServerLog::start(folders.server_log),
        });
        let connections = Mutex::default();
        Self {
            roster,
            upstream,
            saved,
            learned,
            limits,
            indexing,
            semantics,
            knowledge,
            admission,
            dry_run: DryRun::default(),
            pins,
            servers_ask,
            listening,
            log,
            logged,
            connections,
        }
    }

    /// Ends what goes on in the background.
    pub async fn close(&self) {
        tokio::join!(self.indexing.close(), self.semantics.close(), self.listening.close());
        self.log.close().await;
    }

    /// Writes down what has happened.
    pub async fn record(&self, event: Event) {
        self.log.record(event).await;
    }

    /// The names of the servers that are configured now.
    #[must_use]
    pub fn configured(&self) -> Vec<ServerName> {
        self.roster.names()
    }

    /// Why a server that stands in the configuration cannot be used, for the model; `None`: it can, or stands nowhere.
    #[must_use]
    pub fn refusal(&self, server: &str) -> Option<ToolFault> {
        let said = self.roster.refusal(server, &self.limits)?;
        let said = text::inert_excerpt(&said, FAILURE_CHARS_MAX);
        Some(ToolFault::new(FaultCode::ServerUnavailable, said).hint(UNAVAILABLE_HINT))
    }

    /// A run begins: from now on the servers are those that were configured when it was asked for, and those that start may
    /// ask for what its client can do. Says what has changed since the last one. Must be called inside a tokio runtime.
    pub fn begin_run(&self, abilities: ClientAbilities) -> Option<String> {
        self.admission.begin_run();
        self.dry_run.begin_run();
        self.upstream.offer(abilities);
        // What has said that its tools are others is asked now, beside the run.
        let stale = |(server, connection): (&ServerName, &Weak<Connection>)| {
            connection.upgrade().is_some_and(|connection| connection.has_news()).then(|| server.clone())
        };
        let stale: Vec<ServerName> = self.connections().iter().filter_map(stale).collect();
        self.indexing.refresh(&stale);
        // Whatever kept them from telling of their tools may be over.
        self.knowledge.forget_failures(&self.upstream.changed_logins());
        let Change { servers, said } = self.roster.change()?;
        tracing::info!(servers = servers.len(), "the configured servers have changed");
        self.upstream.replace(self.roster.specs());
        self.connections().clear();
        self.knowledge.replace(self.roster.catalog(&self.limits), self.roster.known());
        Some(said)
    }

    /// The servers of a run, as the sandbox is told of them.
    #[must_use]
    pub fn run_servers(&self, scope: &ServerScope) -> Vec<RunServer> {
        let catalog = self.catalog().scoped(scope);
        let kept = self.roster.keeps_files_from();
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

    /// The manual of what code can do.
    #[must_use]
    pub fn manual(&self) -> String {
        catalog::capability_summary(&self.catalog())
    }

    /// The answer to a call.
    ///
    /// # Errors
    /// A fault for the model. Nothing is ever sent to a server twice.
    pub async fn answer(&self, call: Call<'_>, cancel: &CancellationToken) -> Result<Answer, ToolFault> {
        match &call.server {
            None => self.help(&call, cancel).await.map(Answer::Value),
            Some(server) => {
                let mut record = Record::begin(&call, server);
                let answer = self.forward(server, &call, &mut record, cancel).await;
                self.write_down(record, &call.arguments, answer.as_ref().map(Answer::told)).await;
                answer
            }
        }
    }

    /// A line of the log, of a call that has ended.
    pub(super) async fn write_down(
        &self,
        record: Record,
        arguments: &RawValue,
        answer: Result<(&'static str, usize), &ToolFault>,
    ) {
        if self.log.is_on() {
            let server = ServerName::new(&record.server);
            let redacted = |text| match &server {
                Ok(server) => self.upstream.redacted(server, text),
                Err(_) => text,
            };
            let arguments = self.logged.of(arguments, &redacted);
            self.log.record(record.end(arguments, answer)).await;
        }
    }

    /// What the reader of the reply of the run that ends should know.
    pub fn run_notes(&self) -> Vec<String> {
        let mut notes = self.knowledge.take_news();
        notes.extend(self.admission.take_notes());
        notes
    }

    /// The calls that the run that ends has planned and not made.
    pub fn take_planned(&self) -> Planned {
        self.dry_run.take()
    }

    /// Says of each tool that was called whether it only reads, as its server tells it.
    pub fn tell_effects(&self, calls: &mut Calls) {
        let catalog = self.catalog();
        for called in &mut calls.of_tools {
            let known = catalog.server(called.server.as_str());
            let tool = known.and_then(|server| server.resolve(&called.tool).ok());
            if tool.is_some_and(Tool::only_reads) {
                called.effect = ToolEffect::Reads;
            }
        }
    }

    /// What is known now; a snapshot.
    pub(super) fn catalog(&self) -> Catalog {
        self.knowledge.catalog()
    }

    /// Whether the catalog holds what the server offers now: it lives, and has not said since that its tools have changed.
    pub(super) fn knows_tools_of(&self, server: &ServerName) -> bool {
        self.running(server).is_some_and(|connection| connection.is_current())
    }

    /// The server's connection, if it runs.
    pub(super) fn running(&self, server: &ServerName) -> Option<Arc<Connection>> {
        let connection = self.connections().get(server).and_then(Weak::upgrade);
        connection.filter(|connection| !connection.is_dead())
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<ServerName, Weak<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server of the run.
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
        Err(ToolFault::new(FaultCode::ServerUnavailable, format!("Server '{shown}' is not available"))
            .hint(format!("{near} Available in this run: {available}").trim_start().to_owned()))
    }

    /// A live connection to a server, its tools in the catalog.
    pub(super) async fn connected(
        &self,
        server: &ServerName,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Arc<Connection>, UpstreamError> {
        match self.upstream.connect(server, deadline, cancel).await {
            Ok(connection) => {
                let (key, listing) = (self.knowledge.key(server), connection.tools());
                let before = self.connections().get(server).map(Weak::as_ptr);
                let is_new = before != Some(Arc::as_ptr(&connection));
                if let Some(key) = key {
                    let taken = self.knowledge.learn(server, &key, &listing);
                    if taken == Taken::New {
                        self.indexing.keep(server, key, listing);
                    }
                    if is_new || taken == Taken::New {
                        self.compare_with_pins(server);
                    }
                }
                self.connections().insert(server.clone(), Arc::downgrade(&connection));
                Ok(connection)
            }
            Err(error) => {
                // A call that was given up says nothing of the server.
                let given_up = matches!(error, UpstreamError::Cancelled { .. } | UpstreamError::Closing);
                if let Some(key) = self.knowledge.key(server).filter(|_| !given_up) {
                    let reason = self.upstream.redacted(server, error.to_string());
                    self.knowledge.learn_failure(server, &key, &reason);
                }
                Err(error)
            }
        }
    }

    /// Most servers ignore what they have not declared, and say nothing.
    fn note_undeclared(&self, server: &ServerName, tool: &Tool, arguments: &Map<String, Value>) {
        let undeclared = catalog::undeclared(tool, arguments);
        if undeclared.is_empty() {
            return;
        }
        let names = text::inert_excerpt(&undeclared.join(", "), UNDECLARED_CHARS_MAX);
        let tool = text::inert_excerpt(&format!("{server}.{}", tool.name), UNDECLARED_CHARS_MAX);
        self.admission.note(format!("{tool} does not declare what it was given and may ignore it: {names}"));
    }

    fn compare_with_pins(&self, server: &ServerName) {
        let catalog = self.catalog();
        let tools = catalog.server(server.as_str()).map(|known| known.listed()).unwrap_or_default();
        if let Some(said) = self.pins.listed(server, tools.iter()) {
            self.admission.note(said);
        }
    }

    async fn forward(
        &self,
        server: &str,
        call: &Call<'_>,
        record: &mut Record,
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        let server = self.admitted(server, call.scope)?;
        record.server = server.as_str().to_owned();
        let until = call.human.until(call.deadline);
        let arguments = arguments::object(&call.arguments, &self.limits)?;
        let connection = self.connected(&server, call.deadline, cancel).await;
        let connection = connection.map_err(|error| self.not_connected(&server, &error))?;
        let catalog = self.catalog();
        let known = catalog.server(server.as_str()).ok_or_else(|| {
            ToolFault::new(FaultCode::Internal, format!("server '{server}' has left the catalog"))
        })?;
        let tool =
            known.resolve(&call.tool).map_err(|unknown| self.no_such_tool(&server, &call.tool, unknown))?;
        record.tool = tool.name.as_str().to_owned();
        // A placeholder may stand for anything.
        let arguments = match call.making {
            Making::Never => arguments,
            Making::Always | Making::IfItReads => catalog::checked(&server, tool, arguments)?,
        };
        let called = Called {
            server: server.as_str(),
            tool: tool.name.as_str(),
            annotations: &tool.annotations,
            arguments: &arguments,
        };
        self.pins.admit(&server, tool)?;
        let is_made = match call.making {
            Making::Always => true,
            Making::IfItReads => called.only_reads(),
            Making::Never => false,
        };
        if !is_made {
            record.decision = "not made: dry run".into();
            let asks = self.admission.would_ask(&called)?;
            let redacted = |text| self.upstream.redacted(&server, text);
            return Ok(self.dry_run.list(&server, &called, asks, &redacted));
        }
        let bytes = call.arguments.get().len() as u64;
        let admitted = self.admission.admit(&called, bytes, call.human, cancel).await?;
        record.decision = admitted.decision;
        self.note_undeclared(&server, tool, &arguments);
        if !call.sending.begin() {
            let given_up = UpstreamError::Cancelled { server: server.clone() };
            return Err(self.not_connected(&server, &given_up));
        }
        let _calling = self.servers_ask.calling(&server, call.run, call.human);
        let request = Request::Tool { name: tool.name.as_str().to_owned(), arguments };
        let (hears, heard) = watch::channel(None);
        // Nobody follows it where nobody would hear of it.
        let hears = (!call.progress.is_closed()).then_some(hears);
        let told = Told {
            tool: text::inert_excerpt(&format!("{server}.{}", tool.name), PROGRESS_CHARS_MAX),
            redacted: &|text| self.upstream.redacted(&server, text),
            progress: call.progress,
        };
        let result = told.until(connection.ask(request, until.over(), cancel, hears), heard).await;
        result
            .inspect(|result| self.admission.answered(server.as_str(), result.get().len() as u64))
            .and_then(|result| self.without_secrets(&server, result))
            .inspect(|answer| self.learn_shape(&server, tool, answer))
            .map_err(|error| self.fault(&server, &error))
    }

    /// A tool that the server does not offer: it has none of that name, or its entry keeps it back.
    pub(super) fn no_such_tool(&self, server: &ServerName, asked: &str, unknown: UnknownTool) -> ToolFault {
        self.kept_back(server, asked).unwrap_or_else(|| unknown.into())
    }

    /// The fault of a call of a tool that the server has and its entry keeps back.
    pub(super) fn kept_back(&self, server: &ServerName, asked: &str) -> Option<ToolFault> {
        self.knowledge.kept_back(server, asked)
    }

    /// Later signatures say what results have looked like.
    fn learn_shape(&self, server: &ServerName, tool: &Tool, answer: &Answer) {
        if let Answer::Value(result) = answer {
            let is_secret = |text: &str| self.upstream.redacted(server, text.to_owned()) != text;
            self.learned.learn(&Answered { server, tool, result: result.get() }, &is_secret);
        }
    }

    /// The same of a server that could not be reached: whatever was to be sent was not.
    pub(super) fn not_connected(&self, server: &ServerName, error: &UpstreamError) -> ToolFault {
        let mut fault = self.fault(server, error);
        if fault.code != FaultCode::ServerUnavailable {
            fault.code = FaultCode::ServerNotStarted;
        }
        if matches!(error, UpstreamError::Deadline { .. }) {
            fault.hint = "it had not started yet, and nothing was sent; give the run a larger timeout".into();
        }
        fault
    }

    /// A server's failure as the model reads it.
    pub(super) fn fault(&self, server: &ServerName, error: &UpstreamError) -> ToolFault {
        let text = self.upstream.redacted(server, error.to_string());
        // Before the escapes too: they make text ten times as long.
        let text = text::inert(&text::bounded(&text, FAILURE_CHARS_MAX)).into_owned();
        ToolFault::new(code(error), text::bounded(&text, FAILURE_CHARS_MAX)).hint(hint(error))
    }

    /// Errors that a tool reports as its result are texts for the model as well; other results pass unread.
    fn without_secrets(&self, server: &ServerName, result: Box<RawValue>) -> Result<Answer, UpstreamError> {
        if !may_be_error(result.get()) {
            return Ok(Answer::Value(result));
        }
        let nonsense = |error: serde_json::Error| UpstreamError::Nonsense {
            server: server.clone(),
            reason: error.to_string(),
        };
        let mut value: Value = serde_json::from_str(result.get()).map_err(nonsense)?;
        redact(&mut value, &|text| self.upstream.redacted(server, text));
        let is_error = value.get("isError") == Some(&Value::Bool(true));
        let answer = if is_error { Answer::ToolError } else { Answer::Value };
        serde_json::value::to_raw_value(&value).map(answer).map_err(nonsense)
    }
}

/// Whether `"isError": true` stands anywhere in it.
fn may_be_error(json: &str) -> bool {
    json.match_indices(r#""isError""#).any(|(at, key)| {
        let behind = json[at + key.len()..].trim_start();
        behind.strip_prefix(':').is_some_and(|value| value.trim_start().starts_with("true"))
    })
}

/// Every text in a value, but no key, as `redacted` writes it.
pub(super) fn redact(value: &mut Value, redacted: &dyn Fn(String) -> String) {
    match value {
        Value::String(text) => *text = redacted(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, redacted)),
        Value::Object(fields) => fields.values_mut().for_each(|field| redact(field, redacted)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn code(error: &UpstreamError) -> FaultCode {
    match error {
        UpstreamError::Unknown { .. } | UpstreamError::Unavailable { .. } => FaultCode::ServerUnavailable,
        UpstreamError::Spawn { .. } | UpstreamError::Handshake { .. } | UpstreamError::NeedsLogin { .. } => {
            FaultCode::ServerNotStarted
        }
        UpstreamError::Died { .. }
        | UpstreamError::NotReached { .. }
        | UpstreamError::NotAllowed { .. }
        | UpstreamError::Broken { .. }
        | UpstreamError::Overlong { .. }
        | UpstreamError::Nonsense { .. } => FaultCode::ServerFailed,
        UpstreamError::NotOffered { .. } => FaultCode::UnknownTool,
        UpstreamError::Refused { .. } => FaultCode::ToolError,
        UpstreamError::Deadline { .. } | UpstreamError::CallTime { .. } => FaultCode::Deadline,
        UpstreamError::Cancelled { .. } | UpstreamError::Closing => FaultCode::Cancelled,
    }
}

fn hint(error: &UpstreamError) -> String {
    let hint = match error {
        UpstreamError::NeedsLogin { command, .. } => return format!("the user runs: {command}"),
        UpstreamError::Spawn { .. } | UpstreamError::Handshake { .. } => {
            "the user must fix it; `hotcell doctor` checks the configured commands and addresses"
        }
        UpstreamError::Unavailable { .. } => UNAVAILABLE_HINT,
        UpstreamError::NotAllowed { .. } => {
            "the user must give it other headers in the configuration, or log in if it has a login (hotcell login)"
        }
        UpstreamError::Died { .. } => "it is started again by the next call",
        UpstreamError::Overlong { .. } => "ask the tool for less: a page, a filter, fewer fields",
        UpstreamError::Deadline { .. } => "whether it took effect is unknown; give the run a larger timeout",
        UpstreamError::CallTime { .. } => {
            "whether it took effect is unknown; the user can raise that timeout"
        }
        _ => "",
    };
    hint.to_owned()
}
