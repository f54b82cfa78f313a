//! Handles the input that a server requests before it answers (MCP 2026-07-28, multi round-trip requests). The original
//! request is then sent again with the responses. Servers of earlier versions send requests of their own instead.

use std::time::Duration;

use rmcp::model::{ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use crate::jsonrpc::repaired;
use crate::raw_results::object;

/// The largest number of rounds of one request, including the first, as in the protocol's other implementations.
pub(super) const ROUNDS_MAX: u32 = 10;
/// The largest number of questions in one round.
const QUESTIONS_MAX: usize = 20;
/// The pause before a request is sent again to a server that requires a repetition but asks nothing, for example since
/// it is busy. The pause grows with each round.
const PAUSE: Duration = Duration::from_millis(100);

/// The input of a repeated request: the responses, and the state of the server. A first request has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Input {
    pub(super) responses: Option<InputResponses>,
    /// The server's own state, which is sent back unchanged.
    pub(crate) state: Option<String>,
}

/// The input that the server requires; `None`: the result is the final answer.
///
/// # Errors
/// The result requires input, and cannot be read.
pub(crate) fn required(result: &RawValue) -> Result<Option<InputRequiredResult>, String> {
    // Answers may be large, so most are only searched and not parsed.
    if !result.get().contains("\"input_required\"") {
        return Ok(None);
    }
    let json = repaired(result.get());
    let mut json: Value = serde_json::from_str(&json).map_err(|_| "its result cannot be read".to_owned())?;
    if json.get("resultType") != Some(&"input_required".into()) {
        return Ok(None);
    }
    // Only what is used is read: no `_meta`, and `[]` is what PHP writes for an empty object.
    let questions = json.get("inputRequests").and_then(object);
    let read = json!({
        "resultType": "input_required",
        "inputRequests": questions.map_or_else(|| json["inputRequests"].take(), Value::Object),
        "requestState": json["requestState"].take(),
    });
    serde_json::from_value(read)
        .map(Some)
        .map_err(|_| "what it asks for has another form than in MCP".to_owned())
}

impl Input {
    /// Gets the responses to the required input.
    ///
    /// # Errors
    /// A question was not answered. The whole request fails then.
    pub(crate) async fn of(
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

/// Asks the questions one after the other: a human answers one form at a time.
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
