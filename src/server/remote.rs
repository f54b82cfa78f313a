//! The server that a client over HTTP sees. Its session begins with its first request, since rmcp asks for a server before it
//! knows what the request is.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
#[expect(deprecated, reason = "clients of all versions up to now set a level")]
use rmcp::model::SetLevelRequestParams;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, CustomRequest,
    CustomResult, DiscoverResult, ErrorCode, ErrorData, GetTaskParams, GetTaskResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::description;
use super::server_handler::{self, Handler};

/// The argument of `run_python` by which a client without a connection of its own names its session.
const SESSION: &str = "session";
/// What stands between the name of a session and rmcp's state of a paused run.
const STATE_SEPARATOR: char = ':';

/// What MCP 2026-07-28 has removed, and earlier clients may ask.
const REMOVED: [&str; 3] = ["initialize", "logging/setLevel", "ping"];

/// The sessions of one owner.
pub trait HandlerSource: Send + Sync {
    /// The server of a session, which ends when the server is dropped: of the one with this id of the protocol, if it was there
    /// before and can go on, or else of a new one.
    ///
    /// # Errors
    /// No further session may begin.
    fn begin(&self, id: Option<&str>) -> Result<Arc<Handler>, ErrorData>;

    /// The server of the session that begins next. Nobody runs anything there.
    ///
    /// # Errors
    /// As of [`Self::begin`].
    fn next(&self) -> Result<Arc<Handler>, ErrorData>;

    /// A new session with a name of its own, by which further requests find it.
    ///
    /// # Errors
    /// As of [`Self::begin`].
    fn begin_named(&self) -> Result<(String, Arc<Handler>), ErrorData>;

    /// The session with this name, unless it has ended.
    fn named(&self, name: &str) -> Option<Arc<Handler>>;

    /// All sessions with names, the one that was used last first.
    fn all_named(&self) -> Vec<Arc<Handler>>;
}

/// The server of one client. Up to MCP 2025-11-25, a client has a session of the protocol, with one of these. Since
/// 2026-07-28, each request has one of these, and names its session in an argument.
pub struct Remote {
    source: Arc<dyn HandlerSource>,
    /// The id of the protocol's session, once there is one.
    id: Arc<OnceLock<String>>,
    session: Mutex<Option<Arc<Handler>>>,
}

impl Remote {
    /// A server whose session has not begun.
    #[must_use]
    pub fn new(source: Arc<dyn HandlerSource>, id: Arc<OnceLock<String>>) -> Self {
        Self { source, id, session: Mutex::default() }
    }

    /// The session for a request that runs nothing.
    fn session(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Handler>, ErrorData> {
        if server_handler::is_asked_by_answers(context) { self.source.next() } else { self.own() }
    }

    /// The session of the client's connection.
    fn own(&self) -> Result<Arc<Handler>, ErrorData> {
        // Requests at once wait for the one that begins it.
        let mut session = self.session.lock();
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        let begun = self.source.begin(self.id.get().map(String::as_str))?;
        Ok(Arc::clone(session.insert(begun)))
    }

    /// The session with the task of this request.
    fn of_task(&self, id: &str, context: &RequestContext<RoleServer>) -> Result<Arc<Handler>, ErrorData> {
        let of_task = self.source.all_named().into_iter().find(|session| session.has_task(id));
        of_task.map_or_else(|| self.session(context), Ok)
    }

    /// Runs code in the session that the request names, or in a new one.
    async fn call_in_named(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let state = request.request_state.take();
        let (of_state, state) = match state.as_deref().and_then(|state| state.split_once(STATE_SEPARATOR)) {
            Some((name, state)) => (Some(name.to_owned()), Some(state.to_owned())),
            None => (None, state.clone()),
        };
        request.request_state = state;
        let asked = match request.arguments.as_mut().and_then(|arguments| arguments.shift_remove(SESSION)) {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name),
            Some(_) => return Ok(unknown_session().into()),
        };
        let (name, session) = match of_state.or(asked) {
            None => self.source.begin_named()?,
            Some(name) => match self.source.named(&name) {
                Some(session) => (name, session),
                None => return Ok(unknown_session().into()),
            },
        };
        let mut response = session.call_tool(request, context).await?;
        if let CallToolResponse::InputRequired(asks) = &mut response {
            asks.request_state =
                asks.request_state.take().map(|state| format!("{name}{STATE_SEPARATOR}{state}"));
        }
        Ok(response)
    }
}

/// The error for a request of an earlier version.
fn removed(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("{method} is not in this version of MCP"), None)
}

fn unknown_session() -> CallToolResult {
    let why = "no session has this name, or it has ended; leave `session` out to begin a new one, which has no variables";
    CallToolResult::error(vec![ContentBlock::text(why)])
}

impl ServerHandler for Remote {
    fn get_info(&self) -> ServerConfig {
        server_handler::info()
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Ok(session) = self.own() {
            session.on_initialized(context).await;
        }
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        if let Ok(session) = self.own() {
            session.on_roots_list_changed(context).await;
        }
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.session(&context)?.discover(context).await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let is_named = server_handler::is_asked_by_answers(&context);
        let mut listed = self.session(&context)?.list_tools(request, context).await?;
        if is_named {
            listed.tools.iter_mut().for_each(description::add_session);
        }
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if server_handler::is_asked_by_answers(&context) {
            return self.call_in_named(request, context).await;
        }
        self.own()?.call_tool(request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.of_task(&request.task_id, &context)?.get_task(request, context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.of_task(&request.task_id, &context)?.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.of_task(&request.task_id, &context)?.cancel_task(request, context).await
    }

    #[expect(deprecated, reason = "as above")]
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if server_handler::is_asked_by_answers(&context) {
            return Err(removed("logging/setLevel"));
        }
        self.session(&context)?.set_level(request, context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if REMOVED.contains(&request.method.as_str()) && server_handler::is_asked_by_answers(&context) {
            return Err(removed(&request.method));
        }
        self.session(&context)?.on_custom_request(request, context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.session(&context)?.list_resources(request, context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        #[expect(deprecated, reason = "clients of earlier versions subscribe so")]
        self.session(&context)?.subscribe(request, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        #[expect(deprecated, reason = "as above")]
        self.session(&context)?.unsubscribe(request, context).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(server_handler::accepted_filter(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.source.next()?.listen(context).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if server_handler::is_asked_by_answers(&context) && !server_handler::is_manual(&request.uri) {
            // The address of a file does not say whose it is.
            for session in self.source.all_named() {
                if let Ok(read) = session.read_file(&request.uri).await {
                    return Ok(read);
                }
            }
        }
        self.session(&context)?.read_resource(request, context).await
    }
}
