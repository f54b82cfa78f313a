//! Answers the client's requests.

use std::any::Any;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use belljar_base::run::{ClientAbilities, OutputPiece, Progress, RunRequest};
use futures_util::future::OptionFuture;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, ErrorData, GetTaskParams, GetTaskResult, Implementation, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, TaskPayload, UnsubscribeRequestParams, UpdateTaskParams,
};
#[expect(deprecated, reason = "clients of all versions up to now set a level")]
use rmcp::model::{LoggingLevel, SetLevelRequestParams};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::arguments::{self, Configured};
use super::clients;
use super::description;
use super::files::{self, FileSubscriptions};
use super::notifications::listeners::{self, Listeners};
use super::notifications::{live_output, notify, progress};
use super::questions::input_required::{self, ActiveRun, PausedRuns, RequestOutcome, RunStreams};
use super::questions::{ask, forward};
use super::reply::ReplyContext;
use super::requests::{Joining, Place};
use super::settings::HandlerSettings;
use super::tasks::{self, Tasks};
use crate::broker::{Broker, Origin};
use crate::rerun::Reruns;
use crate::session::{RunSubmission, Session};

/// The addresses of the manual: belljar's own, and the address that users of mcp-server-code-execution-mode know.
const MANUALS: [&str; 2] =
    ["resource://belljar/capabilities", "resource://mcp-server-code-execution-mode/capabilities"];

/// The media type of the manual. In Markdown, its lines would be joined.
const MANUAL_TYPE: &str = "text/plain";

/// The longest wait for the client's roots.
const ROOTS: Duration = Duration::from_secs(10);

/// The server that clients see.
pub struct Handler {
    reruns: Arc<Reruns>,
    session: Arc<Session>,
    broker: Arc<Broker>,
    /// Returns the present settings.
    settings: Box<dyn Fn() -> HandlerSettings + Send + Sync>,
    /// The level from which the client wants log messages; `None`: it wants no messages yet.
    #[expect(deprecated, reason = "clients of all versions up to now set a level")]
    log_level: Mutex<Option<LoggingLevel>>,
    subscriptions: Arc<FileSubscriptions>,
    listeners: Arc<Listeners>,
    paused_runs: PausedRuns,
    tasks: Tasks,
    /// The name of the session, until a reply has told it.
    untold_name: Arc<Mutex<Option<String>>>,
    /// What is dropped with the handler.
    _held: Option<Box<dyn Any + Send + Sync>>,
}

/// The tasks that report to the client while a run lasts.
struct Reports {
    progress: Option<JoinHandle<mpsc::Receiver<Progress>>>,
    output: Option<JoinHandle<mpsc::Receiver<OutputPiece>>>,
    stop: CancellationToken,
}

impl Reports {
    /// Stops reporting, and returns the streams with what was not reported yet.
    async fn end(self) -> RunStreams {
        self.stop.cancel();
        RunStreams { progress: joined(self.progress).await, output: joined(self.output).await }
    }
}

async fn joined<T>(task: Option<JoinHandle<T>>) -> Option<T> {
    let ended = task?.await;
    ended.inspect_err(|error| tracing::error!(%error, "a task that tells of a run broke")).ok()
}

impl Handler {
    /// A handler for the session. The broker knows the servers, and notices edited settings.
    #[must_use]
    pub fn new(
        reruns: Arc<Reruns>,
        broker: Arc<Broker>,
        settings: impl Fn() -> HandlerSettings + Send + Sync + 'static,
    ) -> Self {
        let settings = Box::new(settings);
        Self {
            session: Arc::clone(reruns.session()),
            reruns,
            broker,
            settings,
            log_level: Mutex::new(None),
            subscriptions: Arc::default(),
            listeners: Arc::default(),
            paused_runs: PausedRuns::default(),
            tasks: Tasks::default(),
            untold_name: Arc::default(),
            _held: None,
        }
    }

    /// Has the next reply tell the client this name of the session.
    pub fn tell_name(&self, name: &str) {
        *self.untold_name.lock() = Some(name.to_owned());
    }

    /// This handler, which notifies those who listen here of changes in its session.
    #[must_use]
    pub fn with_listeners(self, listeners: &Arc<Listeners>) -> Self {
        Self { listeners: Arc::clone(listeners), ..self }
    }

    /// Whether a client can ask for the task with this id here.
    pub(super) fn has_task(&self, id: &str) -> bool {
        self.tasks.get(id).is_ok()
    }

    /// A file of the session by its address.
    pub(super) async fn read_file(&self, uri: &str) -> Result<ReadResourceResponse, ErrorData> {
        Ok(files::read(uri, self.session.files()).await?.into())
    }

    /// This handler, which drops the value when it is dropped itself.
    #[must_use]
    pub fn holding(self, held: Box<dyn Any + Send + Sync>) -> Self {
        Self { _held: Some(held), ..self }
    }

    /// Starts the sandbox ahead of the first run if that is set. Returns how many sandboxes are to wait.
    pub(crate) fn prewarm(&self) -> u64 {
        // The files may have changed since they were read.
        let _ = self.broker.configured();
        let count = (self.settings)().prewarm;
        if count > 0 {
            self.session.prewarm();
        }
        count
    }

    /// Starts a run.
    fn begin(
        &self,
        request: RunRequest,
        arguments: Map<String, Value>,
        settings: &HandlerSettings,
        context: &RequestContext<RoleServer>,
        joining: Option<Joining>,
    ) -> ActiveRun {
        let (progress, heard) = mpsc::channel(64);
        let (output, written) = mpsc::channel(64);
        let (questions, asked) = mpsc::channel(1);
        let client = context.client_info().map(|info| info.name).unwrap_or_default();
        let abilities = abilities(settings, context, &client);
        let level = self.log_level(context);
        let output = level.map(|_| output);
        let reruns = Arc::clone(&self.reruns);
        let stopped = CancellationToken::new();
        let cancel = stopped.clone();
        // The run is a task of its own: if it panics, the client must still get an answer.
        let run = tokio::spawn(async move {
            let submission = RunSubmission {
                request,
                cancel,
                progress,
                output,
                questions,
                abilities,
                client,
                origin: Origin::Client,
            };
            let joined = OptionFuture::from(joining).await;
            let mut running = pin!(reruns.run(submission));
            // The first poll joins the session's queue.
            let first = poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
            drop(joined);
            match first {
                Poll::Ready(ended) => ended,
                Poll::Pending => running.await,
            }
        });
        let token = context.meta.get_progress_token();
        // Without a receiver, no progress is collected.
        let is_progress_heard = token.is_some() || tasks::are_taken(context);
        let streams =
            RunStreams { progress: is_progress_heard.then_some(heard), output: level.map(|_| written) };
        ActiveRun {
            run,
            asked,
            cancel: stopped.drop_guard(),
            shows_forms: abilities.elicitation,
            streams,
            arguments,
        }
    }

    /// Starts to report a run's progress and output to the client.
    fn reports(&self, streams: RunStreams, context: &RequestContext<RoleServer>) -> Reports {
        let stop = CancellationToken::new();
        let (token, level) = (context.meta.get_progress_token(), self.log_level(context));
        let progress = streams.progress.map(|mut heard| {
            let (peer, stop) = (context.peer.clone(), stop.clone());
            let told = move |step, message| notify::progress(peer.clone(), token.clone(), step, message);
            tokio::spawn(async move {
                progress::report(&mut heard, stop, told).await;
                heard
            })
        });
        let output = streams.output.zip(level).map(|(mut written, level)| {
            let (peer, stop) = (context.peer.clone(), stop.clone());
            let told = move |piece| notify::output(peer.clone(), level, piece);
            tokio::spawn(async move {
                live_output::report(&mut written, stop, told).await;
                written
            })
        });
        Reports { progress, output, stop }
    }

    /// Waits until the run has ended, its client has to be asked by a result, or the run becomes a task.
    async fn outcome(&self, mut run: ActiveRun, context: &RequestContext<RoleServer>) -> RequestOutcome {
        let reports = self.reports(std::mem::take(&mut run.streams), context);
        let mut outcome = if is_asked_by_answers(context) || tasks::are_taken(context) {
            input_required::outcome(run, &context.ct, tasks::patience(context, (self.settings)().task_after))
                .await
        } else {
            let ActiveRun { mut run, asked, cancel, .. } = run;
            let asking = reports.stop.clone();
            let putting = tokio::spawn(forward::put(asked, asking, context.peer.clone()));
            let ended = tokio::select! {
                ended = &mut run => ended,
                () = context.ct.cancelled() => {
                    drop(cancel);
                    run.await
                }
            };
            reports.stop.cancel();
            joined(Some(putting)).await;
            RequestOutcome::Ended(Box::new(ended))
        };
        // Reporting ends before the result is sent, so that no message of the run comes after it.
        let streams = reports.end().await;
        if let Some(run) = outcome.run() {
            run.streams = streams;
        }
        outcome
    }

    /// Makes the run a task for the client, which ends with the run.
    fn task(&self, outcome: RequestOutcome, reply: ReplyContext) -> CreateTaskResult {
        let task = self.tasks.begin();
        let (created, following) = (task.task(), Arc::clone(&task));
        // A Tokio task of its own follows the run, for the same reason as in `begin`.
        let ending = tokio::spawn(async move {
            let ended = Arc::clone(&following).follow(outcome).await;
            let is_cancelled = following.is_cancelled(&ended);
            let result = reply.result(ended).await;
            if is_cancelled { TaskPayload::Cancelled } else { tasks::completed(&result) }
        });
        tokio::spawn(async move {
            let ended = ending.await;
            if let Err(error) = &ended {
                tracing::error!(%error, "what follows a run broke");
            }
            task.end(ended.unwrap_or_else(|_| tasks::failed()));
        });
        CreateTaskResult::new(created)
    }

    /// Asks the client for its roots, if it has any, for servers that start from now on.
    #[expect(deprecated, reason = "clients of all versions up to now have roots")]
    async fn pass_on_roots(&self, peer: &Peer<RoleServer>) {
        if peer.peer_info().is_none_or(|info| info.capabilities.roots.is_none()) {
            return;
        }
        match tokio::time::timeout(ROOTS, peer.list_roots()).await {
            Ok(Ok(listed)) => {
                let roots: Vec<String> = listed.roots.into_iter().map(|root| root.uri).collect();
                self.broker.roots_of_client(&roots);
            }
            other => tracing::debug!(?other, "the client has not listed its roots"),
        }
    }

    /// The level from which the client wants live output: set by the request itself, or by `logging/setLevel` before.
    #[expect(deprecated, reason = "clients of all versions up to now set a level")]
    fn log_level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        let set = *self.log_level.lock();
        context.meta.log_level().or(set)
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        info()
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.prewarm();
        self.pass_on_roots(&context.peer).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.pass_on_roots(&context.peer).await;
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.prewarm();
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.prewarm();
        let names = self.broker.configured();
        let tool = description::run_python(&names, &self.broker.unusable(), (self.settings)().defaults);
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let joining = context.extensions.get::<Place>().and_then(Place::take);
        if request.name != description::NAME {
            let message = format!("unknown tool {:?}; the only tool is run_python", request.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let code_bytes = arguments.get("code").and_then(Value::as_str).map_or(0, str::len);
        let (names, refusal) = (self.broker.configured(), |name: &str| self.broker.not_configured(name));
        let settings = (self.settings)();
        let configured = Configured { names: &names, refusal: &refusal };
        let checked = arguments::run_request(&arguments, configured, settings.defaults, &settings.limits);
        let run = match (&request.request_state, checked) {
            (Some(state), _) => {
                drop(joining);
                Ok(self.paused_runs.resumed(state, &arguments, request.input_responses)?)
            }
            (None, checked) => {
                self.paused_runs.give_up();
                checked.map(|asked| self.begin(asked, arguments, &settings, &context, joining))
            }
        };
        let reply = ReplyContext {
            session: Arc::clone(&self.session),
            subscriptions: Arc::clone(&self.subscriptions),
            listeners: Arc::clone(&self.listeners),
            untold_name: Arc::clone(&self.untold_name),
            settings,
            context,
        };
        let context = &reply.context;
        match run {
            Ok(run) => match self.outcome(run, context).await {
                RequestOutcome::Ended(ended) => Ok(reply.result(*ended).await.into()),
                RequestOutcome::Asks(paused) if is_asked_by_answers(context) => {
                    Ok(self.paused_runs.wait(*paused).into())
                }
                outcome => Ok(self.task(outcome, reply).into()),
            },
            Err(fault) => {
                self.session.refused(&fault, code_bytes as u64).await;
                Ok(reply.refusal(&fault).await.into())
            }
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.answer(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel(&request.task_id)
    }

    #[expect(deprecated, reason = "as above")]
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.log_level.lock() = Some(request.level);
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(misshapen(&request.method))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let manual = |uri: &str| {
            Resource::new(uri, "capabilities")
                .with_title("What code in run_python can do")
                .with_mime_type(MANUAL_TYPE)
        };
        let cursor = request.and_then(|request| request.cursor);
        files::list(MANUALS.map(manual).to_vec(), cursor.as_deref(), self.session.files()).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // The manual never changes, so a subscription to it is accepted without effect.
        if is_manual(&request.uri) { Ok(()) } else { self.subscriptions.add(&request.uri) }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(accepted_filter(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.listeners.listen(&context).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !is_manual(&request.uri) {
            return self.read_file(&request.uri).await;
        }
        let client = context.client_info().map(|info| info.name).unwrap_or_default();
        let manual = self.broker.manual_of_all(abilities(&(self.settings)(), &context, &client));
        let contents = ResourceContents::text(manual, request.uri).with_mime_type(MANUAL_TYPE);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// What belljar says of itself.
pub(super) fn info() -> ServerConfig {
    #[expect(deprecated, reason = "as above")]
    let capabilities = ServerCapabilities::builder()
        .enable_logging()
        .enable_tools()
        .enable_resources()
        .enable_resources_list_changed()
        .enable_resources_subscribe()
        .enable_tasks()
        .build();
    let about = Implementation::new("belljar", env!("CARGO_PKG_VERSION"));
    ServerConfig::new(capabilities).with_server_info(about)
}

/// Whether this is an address of the manual.
pub(super) fn is_manual(uri: &str) -> bool {
    MANUALS.contains(&uri)
}

/// The part of a subscription that is accepted.
pub(super) fn accepted_filter(requested: &SubscriptionFilter) -> SubscriptionFilter {
    listeners::accepted(requested, &MANUALS)
}

/// What the client of this name can do.
fn abilities(
    settings: &HandlerSettings,
    context: &RequestContext<RoleServer>,
    client: &str,
) -> ClientAbilities {
    let can = forward::abilities_by_request(context).unwrap_or(ask::abilities(&context.peer));
    ClientAbilities {
        sampling: can.sampling && settings.sampling,
        reply_chars_max: Some(clients::limits(&settings.limits, client).reply_chars_max),
        images_as_files: clients::is_one_of(client, &settings.images_as_files),
        ..can
    }
}

/// Whether the client of this request accepts no requests, so that it is asked by results.
pub(super) fn is_asked_by_answers(context: &RequestContext<RoleServer>) -> bool {
    forward::abilities_by_request(context).is_some()
}

/// The error for a request of a known method whose parameters do not fit the method.
fn misshapen(method: &str) -> ErrorData {
    match method {
        "tools/call" => ErrorData::invalid_params("tools/call wants a name and an object of arguments", None),
        "resources/read" => ErrorData::invalid_params("resources/read wants a uri", None),
        "tasks/get" | "tasks/cancel" => ErrorData::invalid_params(format!("{method} wants a taskId"), None),
        "subscriptions/listen" => {
            ErrorData::invalid_params("subscriptions/listen wants an object of notifications", None)
        }
        "tasks/update" => ErrorData::invalid_params("tasks/update wants a taskId and inputResponses", None),
        "tools/list" | "resources/list" | "initialize" | "ping" | "server/discover" | "logging/setLevel" => {
            ErrorData::invalid_params(format!("the parameters of {method} have another shape"), None)
        }
        unknown => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {unknown:?}"), None),
    }
}
