//! Sends the questions of a run to its client, one after the other: belljar's questions about calls, and those of
//! servers.
//!
//! It decides nothing: the broker decides what is asked, and what an answer allows.

use belljar_base::run::ClientAbilities;
use belljar_upstream::{QuestionError, QuestionKind};
use rmcp::RoleServer;
use rmcp::model::{ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ServerRequest};
#[expect(deprecated, reason = "clients of all versions up to now have it")]
use rmcp::model::{CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult};
use rmcp::service::{Peer, RequestContext, ServiceError};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::approvals;
use super::ask::{AskError, answer};
use crate::broker::Question;

/// The abilities of a client that declares them with each request and accepts no requests itself; `None`: another
/// client.
pub(crate) fn abilities_by_request(context: &RequestContext<RoleServer>) -> Option<ClientAbilities> {
    let can = context.meta.client_capabilities()?;
    // Without a mode, the ability means forms, as in versions before modes existed.
    let forms = can.elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
    Some(ClientAbilities {
        elicitation: forms,
        sampling: can.sampling.is_some(),
        model: can.sampling.is_some(),
        reply_chars_max: None,
        images_as_files: false,
    })
}

/// Sends questions until the run has ended. They arrive one at a time.
pub(crate) async fn put(
    mut questions: mpsc::Receiver<Question>,
    ended: CancellationToken,
    peer: Peer<RoleServer>,
) {
    while let Some(Some(question)) = ended.run_until_cancelled(questions.recv()).await {
        let is_taken = match question {
            Question::Approval { text, form, mut reply } => {
                let approval = approvals::ask(&peer, text, form, waited_for(&ended, reply.closed())).await;
                reply.send(approval).is_ok()
            }
            Question::OfServer { kind, params, mut reply } => {
                let answer = pass_on(&peer, (kind, params), waited_for(&ended, reply.closed())).await;
                reply.send(answer).is_ok()
            }
        };
        if !is_taken {
            tracing::debug!("nobody waits for the answer any more");
        }
    }
}

/// Returns when the caller no longer waits, or the run has ended.
async fn waited_for(ended: &CancellationToken, closed: impl Future<Output = ()>) {
    tokio::select! {
        () = ended.cancelled() => {}
        () = closed => {}
    }
}

async fn pass_on(
    peer: &Peer<RoleServer>,
    (kind, params): (QuestionKind, Value),
    withdrawn: impl Future<Output = ()>,
) -> Result<Value, QuestionError> {
    let none = |message: &str| QuestionError { code: None, message: message.to_owned() };
    let request = request(kind, params).map_err(|error| none(&format!("it cannot be passed on: {error}")))?;
    let written = match (kind, answer(peer, request, withdrawn).await) {
        (QuestionKind::Elicitation, Ok(ClientResult::ElicitResult(result))) => serde_json::to_value(result),
        (QuestionKind::Sampling, Ok(ClientResult::CreateMessageResult(result))) => {
            serde_json::to_value(result)
        }
        (_, Ok(_)) => return Err(none(&wrong_answer(kind))),
        (_, Err(AskError::Refused(ServiceError::McpError(error)))) => {
            return Err(QuestionError { code: Some(error.code.0), message: error.message.into_owned() });
        }
        (_, Err(AskError::Withdrawn)) => return Err(none("nobody waits for it any more")),
        (_, Err(AskError::NotSent | AskError::Refused(_))) => {
            return Err(none("the client could not be asked"));
        }
    };
    written.map_err(|error| none(&error.to_string()))
}

/// The message for a server whose question got an answer of another kind.
pub(super) fn wrong_answer(kind: QuestionKind) -> String {
    format!("the client's answer is not a result of {}", kind.method())
}

/// The request to the client for a server's question.
///
/// # Errors
/// The parameters are not those of such a request.
#[expect(deprecated, reason = "as above")]
pub(crate) fn request(kind: QuestionKind, params: Value) -> serde_json::Result<ServerRequest> {
    Ok(match kind {
        QuestionKind::Elicitation => {
            let params: ElicitRequestParams = serde_json::from_value(params)?;
            ServerRequest::ElicitRequest(ElicitRequest::new(params))
        }
        QuestionKind::Sampling => {
            let params: CreateMessageRequestParams = serde_json::from_value(params)?;
            ServerRequest::CreateMessageRequest(CreateMessageRequest::new(params))
        }
    })
}

/// Whether a client can have meant this value as its answer to such a question.
#[expect(deprecated, reason = "as above")]
pub(super) fn is_answer(kind: QuestionKind, answer: &Value) -> bool {
    match kind {
        QuestionKind::Elicitation => ElicitResult::deserialize(answer).is_ok(),
        QuestionKind::Sampling => CreateMessageResult::deserialize(answer).is_ok(),
    }
}
