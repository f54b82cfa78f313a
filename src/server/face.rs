//! Answers the client's requests.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, ErrorData, Implementation, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ServerCapabilities, ServerConfig, SubscribeRequestParams, UnsubscribeRequestParams,
};
#[expect(deprecated, reason = "clients of all versions up to now set a level")]
use rmcp::model::{LoggingLevel, SetLevelRequestParams};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::arguments::{self, Configured, RunDefaults};
use super::files::{self, Watched};
use super::rounds::{self, Ended, Heard, Rounds, Turn, UnderWay};
use super::{clients, description, live_output, notify, progress, questions};
use crate::broker::Broker;
use crate::limits::Limits;
use crate::render::{self, Block, Reply, Verdict};
use crate::run::{
    ClientAbilities, FaultCode, OutputMode, OutputPiece, Progress, RunReport, RunRequest, ToolFault,
};
use crate::session::{RunAsked, Session};

/// The manual, under this bridge's address and under that of the project whose users know it by.
const MANUALS: [&str; 2] =
    ["resource://hotcell/capabilities", "resource://mcp-server-code-execution-mode/capabilities"];

/// What the face needs to know.
#[derive(Debug, Clone)]
pub struct FaceSettings {
    /// What holds when the caller does not say.
    pub defaults: RunDefaults,
    /// How replies are written.
    pub output_mode: OutputMode,
    /// Whether replies carry structured content beside the text.
    pub structured: bool,
    /// Whether the sandbox is started before the first run.
    pub prewarm: bool,
    /// Whether servers may ask for the model of a client that offers it.
    pub sampling: bool,
    /// The bounds.
    pub limits: Arc<Limits>,
}

/// The server that clients see.
pub struct Face {
    session: Arc<Session>,
    broker: Arc<Broker>,
    /// As they are now.
    settings: Box<dyn Fn() -> FaceSettings + Send + Sync>,
    /// From which level on the client wants log messages; none before it has said so.
    #[expect(deprecated, reason = "clients of all versions up to now set a level")]
    log_level: Mutex<Option<LoggingLevel>>,
    watched: Watched,
    rounds: Rounds,
}

/// Tasks that tell the client of a run while it lasts.
struct Reports {
    progress: Option<JoinHandle<mpsc::Receiver<Progress>>>,
    output: Option<JoinHandle<mpsc::Receiver<OutputPiece>>>,
    stop: CancellationToken,
}

impl Reports {
    /// What else there will be to tell.
    async fn end(self) -> Heard {
        self.stop.cancel();
        Heard { progress: joined(self.progress).await, output: joined(self.output).await }
    }
}

async fn joined<T>(task: Option<JoinHandle<T>>) -> Option<T> {
    let ended = task?.await;
    ended.inspect_err(|error| tracing::error!(%error, "a task that tells of a run broke")).ok()
}

impl Face {
    /// A face over the session; the broker knows the servers, and looks whether settings have been edited.
    #[must_use]
    pub fn new(
        session: Arc<Session>,
        broker: Arc<Broker>,
        settings: impl Fn() -> FaceSettings + Send + Sync + 'static,
    ) -> Self {
        let settings = Box::new(settings);
        Self {
            session,
            broker,
            settings,
            log_level: Mutex::new(None),
            watched: Watched::default(),
            rounds: Rounds::default(),
        }
    }

    fn prewarm(&self) {
        if (self.settings)().prewarm {
            self.session.prewarm();
        }
    }

    /// A run begins.
    fn begin(
        &self,
        request: RunRequest,
        arguments: &Map<String, Value>,
        settings: &FaceSettings,
        context: &RequestContext<RoleServer>,
    ) -> UnderWay {
        let (progress, heard) = mpsc::channel(64);
        let (output, written) = mpsc::channel(64);
        let (questions, asked) = mpsc::channel(1);
        let can = questions::abilities_by_request(context).unwrap_or(questions::abilities(&context.peer));
        let abilities = ClientAbilities { sampling: can.sampling && settings.sampling, ..can };
        let client = context.client_info().map(|info| info.name).unwrap_or_default();
        let level = self.log_level(context);
        let output = level.map(|_| output);
        let session = Arc::clone(&self.session);
        let stopped = CancellationToken::new();
        let cancel = stopped.clone();
        // As a task of its own: a defect in it must still be answered, or the client waits for ever.
        let run = tokio::spawn(async move {
            session.run(RunAsked { request, cancel, progress, output, questions, abilities, client }).await
        });
        let token = context.meta.get_progress_token();
        // So that nobody tells what nobody hears.
        let heard = Heard { progress: token.map(|_| heard), output: level.map(|_| written) };
        let (cancel, arguments) = (stopped.drop_guard(), arguments.clone());
        UnderWay { run, asked, cancel, shows_forms: can.elicitation, heard, arguments }
    }

    /// Tells the client how a run goes on, until it is stopped.
    fn reports(&self, heard: Heard, context: &RequestContext<RoleServer>) -> Reports {
        let stop = CancellationToken::new();
        let (token, level) = (context.meta.get_progress_token(), self.log_level(context));
        let progress = heard.progress.zip(token).map(|(mut heard, token)| {
            let (peer, stop) = (context.peer.clone(), stop.clone());
            let told = move |step, message| notify::progress(peer.clone(), token.clone(), step, message);
            tokio::spawn(async move {
                progress::report(&mut heard, stop, told).await;
                heard
            })
        });
        let output = heard.output.zip(level).map(|(mut written, level)| {
            let (peer, stop) = (context.peer.clone(), stop.clone());
            let told = move |piece| notify::output(peer.clone(), level, piece);
            tokio::spawn(async move {
                live_output::report(&mut written, stop, told).await;
                written
            })
        });
        Reports { progress, output, stop }
    }

    /// Until the run has ended, or its client has to be asked by an answer.
    async fn turn(&self, mut run: UnderWay, context: &RequestContext<RoleServer>) -> Turn {
        let reports = self.reports(std::mem::take(&mut run.heard), context);
        let mut turn = if questions::abilities_by_request(context).is_some() {
            rounds::turn(run, &context.ct).await
        } else {
            let UnderWay { mut run, asked, cancel, .. } = run;
            let asking = reports.stop.clone();
            let putting = tokio::spawn(questions::put(asked, asking, context.peer.clone()));
            let ended = tokio::select! {
                ended = &mut run => ended,
                () = context.ct.cancelled() => {
                    drop(cancel);
                    run.await
                }
            };
            reports.stop.cancel();
            joined(Some(putting)).await;
            Turn::Ended(Box::new(ended))
        };
        // Before the answer goes out, so that nothing of the run comes after it.
        let heard = reports.end().await;
        if let Turn::Asks(asking) = &mut turn {
            asking.run.heard = heard;
        }
        turn
    }

    /// What the client wants to see of output as it comes: by the request itself, or by `logging/setLevel` before.
    #[expect(deprecated, reason = "clients of all versions up to now set a level")]
    fn log_level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        let set = *self.log_level.lock().unwrap_or_else(PoisonError::into_inner);
        context.meta.log_level().or(set)
    }
}

impl ServerHandler for Face {
    fn get_info(&self) -> ServerConfig {
        #[expect(deprecated, reason = "as above")]
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        let about = Implementation::new("hotcell", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(about)
    }

    async fn on_initialized(&self, _context: NotificationContext<RoleServer>) {
        self.prewarm();
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
        let tool = description::run_python(&names, (self.settings)().defaults);
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != description::NAME {
            let message = format!("unknown tool {:?}; the only tool is run_python", request.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        let none = Map::<String, Value>::new();
        let arguments = request.arguments.as_ref().unwrap_or(&none);
        let (names, refusal) = (self.broker.configured(), |name: &str| self.broker.refusal(name));
        let settings = (self.settings)();
        let configured = Configured { names: &names, refusal: &refusal };
        let checked = arguments::run_request(arguments, configured, settings.defaults, &settings.limits);
        let run = match (&request.request_state, checked) {
            (Some(state), _) => Ok(self.rounds.resumed(state, arguments, request.input_responses)?),
            (None, checked) => {
                self.rounds.give_up();
                checked.map(|asked| self.begin(asked, arguments, &settings, &context))
            }
        };
        let reply = match run {
            Ok(run) => match self.turn(run, &context).await {
                Turn::Ended(ended) => reply(*ended, &settings, &context),
                Turn::Asks(asking) => return Ok(self.rounds.wait(*asking).into()),
            },
            Err(fault) => {
                let code_bytes = arguments.get("code").and_then(Value::as_str).map_or(0, str::len);
                self.session.refused(&fault, code_bytes as u64).await;
                render::refusal(&fault, settings.output_mode, &settings.limits)
            }
        };
        files::tell_changes(self.session.files(), &self.watched, &context.peer).await;
        Ok(result(reply, settings.structured, &context).into())
    }

    #[expect(deprecated, reason = "as above")]
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
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
                .with_mime_type("text/markdown")
        };
        let cursor = request.and_then(|request| request.cursor);
        files::list(MANUALS.map(manual).to_vec(), cursor.as_deref(), self.session.files()).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // The manual does not change.
        if MANUALS.contains(&request.uri.as_str()) { Ok(()) } else { self.watched.add(&request.uri) }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.remove(&request.uri);
        Ok(())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !MANUALS.contains(&request.uri.as_str()) {
            return Ok(files::read(&request.uri, self.session.files()).await?.into());
        }
        let contents = ResourceContents::text(self.broker.manual(), request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// What the client is told of a run.
fn reply(ended: Ended, settings: &FaceSettings, context: &RequestContext<RoleServer>) -> Reply {
    let report = match ended {
        Ok(report) => report.unwrap_or_else(RunReport::not_started),
        Err(error) => {
            tracing::error!(%error, "a run's task broke");
            let fault = ToolFault::new(FaultCode::Internal, "the run broke inside hotcell");
            RunReport::not_started(fault.hint("run it again; variables may be gone"))
        }
    };
    let client = context.client_info().map(|info| info.name).unwrap_or_default();
    let limits = clients::limits(&settings.limits, &client);
    render::render(&report, settings.output_mode, &limits)
}

fn result(reply: Reply, structured: bool, context: &RequestContext<RoleServer>) -> CallToolResult {
    let blocks = reply
        .blocks
        .into_iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(ContentBlock::text(text)),
            Block::Image(image) => Some(ContentBlock::image(image.base64, image.mime_type)),
            Block::File(address) => files::link(&address, context).map(ContentBlock::resource_link),
        })
        .collect();
    let mut result = CallToolResult::success(blocks);
    result.is_error = Some(reply.verdict == Verdict::Error);
    if structured {
        result.structured_content = Some(reply.structured);
    }
    result
}

/// A request of a known method comes here when its parameters have another shape than the method's.
fn misshapen(method: &str) -> ErrorData {
    match method {
        "tools/call" => ErrorData::invalid_params("tools/call wants a name and an object of arguments", None),
        "resources/read" => ErrorData::invalid_params("resources/read wants a uri", None),
        "tools/list" | "resources/list" | "initialize" | "ping" | "server/discover" | "logging/setLevel" => {
            ErrorData::invalid_params(format!("the parameters of {method} have another shape"), None)
        }
        unknown => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {unknown:?}"), None),
    }
}
