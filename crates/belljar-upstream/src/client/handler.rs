//! The client side that a server sees: it receives requests and notifications of the server.
//!
//! It passes questions for the human's client and messages of the server to the listener, within bounds. It refuses
//! requests that were not offered, and answers that have the wrong shape.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use belljar_base::names::{ServerName, SessionId};
use belljar_base::run::ClientAbilities;
use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
    ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability, Implementation,
    ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
#[expect(deprecated, reason = "servers of earlier versions still ask")]
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ListRootsResult, LoggingLevel,
    LoggingMessageNotificationParam, Root, RootsCapabilities, SamplingCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::listeners::{ClientSide, QuestionError, QuestionKind, ServerMessage, ServerQuestion};

/// The bridge as a client of servers. Clones share their state.
#[derive(Clone)]
pub(super) struct Handler {
    server: ServerName,
    /// As in [`ConnectContext`](crate::connect_context::ConnectContext).
    private_to: Option<Arc<OnceLock<SessionId>>>,
    side: Arc<ClientSide>,
    /// The requests that this server was told that it may send.
    offered: ClientAbilities,
    roots: Arc<[String]>,
    pub(crate) changes: Changes,
}

/// The notifications of a server during its connection. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct Changes {
    /// The number of changes of tools that the server has reported.
    tools_changed: Arc<AtomicU64>,
    advances: Arc<Mutex<HashMap<ProgressToken, watch::Sender<Option<ProgressUpdate>>>>>,
}

/// The progress of a request as its server reports it. The numbers never decrease.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressUpdate {
    /// The progress so far.
    pub progress: f64,
    /// The total, if the server knows it.
    pub total: Option<f64>,
    /// The message of the server.
    pub message: Option<String>,
}

/// A subscription to the progress of a request, which ends when this is dropped.
pub(super) struct ProgressSubscription {
    changes: Changes,
    token: ProgressToken,
}

impl Handler {
    pub(crate) fn new(
        server: ServerName,
        side: &Arc<ClientSide>,
        private_to: Option<Arc<OnceLock<SessionId>>>,
    ) -> Self {
        let (offered, roots) = side.offers(private_to.as_ref().and_then(|session| session.get()));
        Self { server, private_to, side: Arc::clone(side), offered, roots, changes: Changes::default() }
    }

    /// Passes a question to the human's client and returns the answer.
    async fn ask<RawResult: DeserializeOwned>(
        &self,
        kind: QuestionKind,
        params: &impl Serialize,
        cancel: &CancellationToken,
    ) -> Result<RawResult, ErrorData> {
        let method = kind.method();
        let bytes_max = self.side.request_bytes_max;
        let written = serde_json::to_string(params).unwrap_or_default();
        if written.len() > bytes_max {
            let message = format!("{method} has {} bytes, at most {bytes_max} are passed on", written.len());
            return Err(ErrorData::invalid_params(message, None));
        }
        let params = serde_json::from_str(&written).unwrap_or_default();
        let session = match &self.private_to {
            None => None,
            Some(session) if session.get().is_some() => session.get().cloned(),
            Some(_) => return Err(refused(format!("{method}: no session has called this server"))),
        };
        let (reply, answer) = oneshot::channel();
        let asked = ServerQuestion { server: self.server.clone(), session, kind, params, reply };
        if self.side.questions.try_send(asked).is_err() {
            return Err(refused(format!("{method}: too many requests wait already")));
        }
        let answer = tokio::select! {
            answer = answer => answer,
            () = cancel.cancelled() => return Err(refused(format!("{method} was cancelled"))),
        };
        match answer {
            Ok(Ok(answer)) => serde_json::from_value(answer)
                .map_err(|_| refused(format!("{method}: what the client has answered is no answer to it"))),
            Ok(Err(QuestionError { code: Some(code), message })) => {
                Err(ErrorData::new(ErrorCode(code), message, None))
            }
            Ok(Err(QuestionError { code: None, message })) => Err(refused(format!("{method}: {message}"))),
            Err(_) => Err(refused(format!("{method}: the bridge is shutting down"))),
        }
    }

    /// The folders that are offered to servers as roots.
    #[expect(deprecated, reason = "as above")]
    pub(super) fn roots(&self) -> Result<ListRootsResult, ErrorData> {
        if self.roots.is_empty() {
            return Err(not_offered("roots/list"));
        }
        Ok(ListRootsResult::new(self.roots.iter().map(Root::new).collect()))
    }

    /// Passes a form to the human, and returns what they fill in.
    pub(super) async fn elicit(
        &self,
        request: ElicitRequestParams,
        cancel: &CancellationToken,
    ) -> Result<ElicitResult, ErrorData> {
        if !self.offered.elicitation {
            return Err(not_offered(QuestionKind::Elicitation.method()));
        }
        if !matches!(request, ElicitRequestParams::FormElicitationParams { .. }) {
            return Err(ErrorData::invalid_params("elicitation/create is offered for forms only", None));
        }
        self.ask(QuestionKind::Elicitation, &request, cancel).await
    }

    /// Passes a request to the client's model, and returns its message.
    #[expect(deprecated, reason = "as above")]
    pub(super) async fn sample(
        &self,
        params: CreateMessageRequestParams,
        cancel: &CancellationToken,
    ) -> Result<CreateMessageResult, ErrorData> {
        if !self.offered.sampling {
            return Err(not_offered(QuestionKind::Sampling.method()));
        }
        if params.tools.is_some() || params.tool_choice.is_some() {
            return Err(ErrorData::invalid_params(
                "sampling/createMessage is offered without tools and toolChoice",
                None,
            ));
        }
        self.ask(QuestionKind::Sampling, &params, cancel).await
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        can.roots = (!self.roots.is_empty()).then(RootsCapabilities::default);
        can.sampling = self.offered.sampling.then(SamplingCapability::default);
        can.elicitation = self.offered.elicitation.then(|| {
            let mut forms = ElicitationCapability::new();
            forms.form = Some(FormElicitationCapability::default());
            forms
        });
        let mut config = ClientConfig::default();
        config.capabilities = can;
        config.client_info = Implementation::new("belljar", env!("CARGO_PKG_VERSION"));
        // Connections that begin with `initialize` request this version. `server/discover` requests a version of its
        // own.
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    #[expect(deprecated, reason = "as above")]
    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Handler::roots(self)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.elicit(request, &context.ct).await
    }

    #[expect(deprecated, reason = "as above")]
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.sample(params, &context.ct).await
    }

    /// Receives requests of unknown methods, and requests whose parameters do not fit their known method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        let is_offered = match method.as_str() {
            "elicitation/create" => self.offered.elicitation,
            "sampling/createMessage" => self.offered.sampling,
            _ => false,
        };
        if is_offered {
            let message = format!("the parameters of {method} have another shape");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(not_offered(&method))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.tools_changed();
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let advance =
            ProgressUpdate { progress: params.progress, total: params.total, message: params.message };
        self.changes.advance(&params.progress_token, advance);
    }

    #[expect(deprecated, reason = "as above")]
    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if (params.level as u8) < LoggingLevel::Info as u8 {
            return;
        }
        let level = match serde_json::to_value(params.level) {
            Ok(Value::String(word)) => word,
            _ => "info".to_owned(),
        };
        let text = match params.data {
            Value::String(text) => text,
            other => other.to_string(),
        };
        self.side.said(ServerMessage { server: self.server.clone(), level, text });
    }
}

impl Changes {
    /// Counts a change of tools that the server has reported.
    pub(super) fn tools_changed(&self) {
        self.tools_changed.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of changes of tools that the server has reported.
    pub(crate) fn count(&self) -> u64 {
        self.tools_changed.load(Ordering::Acquire)
    }

    /// Subscribes a sender to the progress of the request with this token.
    pub(super) fn follow(
        &self,
        token: ProgressToken,
        hears: watch::Sender<Option<ProgressUpdate>>,
    ) -> ProgressSubscription {
        self.table().insert(token.clone(), hears);
        ProgressSubscription { changes: self.clone(), token }
    }

    fn advance(&self, token: &ProgressToken, advance: ProgressUpdate) {
        if let Some(hears) = self.table().get(token) {
            hears.send_if_modified(|last| {
                let is_further = last.as_ref().is_none_or(|last| advance.progress > last.progress);
                if is_further {
                    *last = Some(advance);
                }
                is_further
            });
        }
    }

    fn table(
        &self,
    ) -> parking_lot::MutexGuard<'_, HashMap<ProgressToken, watch::Sender<Option<ProgressUpdate>>>> {
        self.advances.lock()
    }
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        self.changes.table().remove(&self.token);
    }
}

fn not_offered(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("{method} is not offered"), None)
}

fn refused(message: String) -> ErrorData {
    ErrorData::invalid_request(message, None)
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    #[test]
    fn progress_is_the_requests_own_and_never_goes_back() {
        let changes = Changes::default();
        let [mine, other] = [1, 2].map(|number| ProgressToken(NumberOrString::Number(number)));
        let (hears, heard) = watch::channel(None);
        let followed = changes.follow(mine.clone(), hears);
        let at = |progress| ProgressUpdate { progress, total: Some(9.0), message: None };
        for progress in [1.0, 3.0, 2.0, f64::NAN] {
            changes.advance(&mine, at(progress));
        }
        changes.advance(&other, at(7.0));
        assert_eq!(*heard.borrow(), Some(at(3.0)));
        drop(followed);
        changes.advance(&mine, at(8.0));
        assert_eq!(*heard.borrow(), Some(at(3.0)));
        assert!(changes.table().is_empty());
    }
}
