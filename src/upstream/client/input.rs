//! What a server without a handshake wants to know before it answers: the request is made again with the answers (MCP
//! 2026-07-28, multi round-trip requests). Servers of earlier versions ask over their connection instead.

use std::time::Duration;

use rmcp::model::{ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::handler::Handler;

/// How often one request is made at most, the first time included, as in the protocol's other implementations.
pub(super) const ROUNDS_MAX: u32 = 10;
/// Questions in one round.
const QUESTIONS_MAX: usize = 20;
/// Before a request is made again for a server that asks nothing, since it has too much to do; longer with each round.
const PAUSE: Duration = Duration::from_millis(100);

/// The input of a repeated request: the responses, and the state of the server. A first request has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Input {
    pub(super) responses: Option<InputResponses>,
    /// The server's own, which comes back as it was.
    pub(in crate::upstream) state: Option<String>,
}

/// What the server wants to know, when this is no answer yet.
///
/// # Errors
/// When it says so, and what it wants cannot be read.
pub(in crate::upstream) fn required(result: &RawValue) -> Result<Option<InputRequiredResult>, String> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "resultType", default)]
        kind: Option<Value>,
    }
    // Answers may be large: most are looked at once only.
    if !result.get().contains("\"input_required\"") {
        return Ok(None);
    }
    let kind: Kind = serde_json::from_str(result.get()).map_err(|error| error.to_string())?;
    if kind.kind != Some("input_required".into()) {
        return Ok(None);
    }
    serde_json::from_str(result.get()).map(Some).map_err(|error| error.to_string())
}

impl Input {
    /// The answers to what the server wants to know.
    ///
    /// # Errors
    /// When one of its questions is not answered: then the whole request comes to nothing.
    pub(in crate::upstream) async fn of(
        required: InputRequiredResult,
        round: u32,
        handler: &Handler,
        cancel: &CancellationToken,
    ) -> Result<Self, ErrorData> {
        let questions = required.input_requests.unwrap_or_default();
        if questions.len() > QUESTIONS_MAX {
            let message = format!("it asks {} questions at once, more than {QUESTIONS_MAX}", questions.len());
            return Err(ErrorData::invalid_params(message, None));
        }
        if questions.is_empty() {
            tokio::time::sleep(PAUSE * round).await;
            return Ok(Self { responses: None, state: required.request_state });
        }
        let responses = answers(questions, handler, cancel).await?;
        Ok(Self { responses: Some(responses), state: required.request_state })
    }
}

/// One after the other: a human answers one form at a time.
async fn answers(
    questions: InputRequests,
    handler: &Handler,
    cancel: &CancellationToken,
) -> Result<InputResponses, ErrorData> {
    let mut responses = InputResponses::new();
    for (name, question) in questions {
        let response = match question {
            InputRequest::Elicitation(request) => as_json(&handler.elicit(request.params, cancel).await?),
            InputRequest::CreateMessage(request) => as_json(&handler.sample(request.params, cancel).await?),
            InputRequest::ListRoots(_) => as_json(&handler.roots()?),
            _ => Err(ErrorData::invalid_params("it asks something of a kind that is not known", None)),
        };
        responses.insert(name, response?);
    }
    Ok(responses)
}

fn as_json(answer: &impl Serialize) -> Result<Value, ErrorData> {
    serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
