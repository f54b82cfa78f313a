//! Calls that a server runs as tasks (MCP 2025-11-25): the answer to such a call names a task, which is asked for until it
//! has ended. Its result is that of the call.
//!
//! Only tools that can be called in no other way are called so.

use std::time::Duration;

use rmcp::model::{ClientRequest, CustomRequest};
use rmcp::service::PeerRequestOptions;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::call_timeout::{CallTimeout, Clock};
use super::connection::Connection;
use crate::error::UpstreamError;
use crate::jsonrpc::WITHDRAWING;

/// The pause between two questions about a task: shortest, usual and longest.
const PAUSE: (Duration, Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(10));

/// A task, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
    status: String,
    #[serde(default)]
    status_message: Option<String>,
    /// In milliseconds.
    #[serde(default)]
    poll_interval: Option<f64>,
}

fn request(method: &str, params: Value) -> ClientRequest {
    ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)))
}

impl Connection {
    /// Whether this tool can only be called as a task.
    pub(super) fn needs_task(&self, tool: &str) -> bool {
        let named = self.tools.all.iter().find(|known| known["name"] == tool);
        named.is_some_and(|tool| tool["execution"]["taskSupport"] == "required")
    }

    /// The result of the task that `answer` names; `answer` itself if it names none. The task is cancelled if the call is.
    pub(super) async fn result_of_task(
        &self,
        answer: Box<RawValue>,
        timeout: &mut CallTimeout<'_, impl Clock>,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, UpstreamError> {
        #[derive(Deserialize)]
        struct Created {
            task: Task,
        }
        let Ok(Created { task }) = serde_json::from_str(answer.get()) else { return Ok(answer) };
        let params = json!({"taskId": task.task_id});
        let ended = self.ended(task, &params, timeout, cancel).await;
        let is_given_up = |error: &UpstreamError| {
            use UpstreamError::{CallTime, Cancelled, Deadline};
            matches!(error, Cancelled { .. } | Deadline { .. } | CallTime { .. })
        };
        if ended.as_ref().is_err_and(is_given_up) {
            let request = request("tasks/cancel", params);
            let telling = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
            if !matches!(tokio::time::timeout(WITHDRAWING, telling).await, Ok(Ok(_))) {
                tracing::debug!("the cancellation of a task did not reach the server");
            }
        }
        ended
    }

    async fn ended(
        &self,
        mut task: Task,
        params: &Value,
        timeout: &mut CallTimeout<'_, impl Clock>,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, UpstreamError> {
        while task.status == "working" {
            let pause = task
                .poll_interval
                .map_or(PAUSE.1, |ms| Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(PAUSE.1));
            tokio::select! {
                () = tokio::time::sleep(pause.clamp(PAUSE.0, PAUSE.2)) => {}
                error = timeout.of_call(&self.server, &self.bounds) => return Err(error),
                () = cancel.cancelled() => {
                    return Err(UpstreamError::Cancelled { server: self.server.clone() });
                }
            }
            let state = self.exchange(request("tasks/get", params.clone()), timeout, cancel, None).await?;
            task = serde_json::from_str(state.get())
                .map_err(|error| self.nonsense(format!("its task cannot be read: {error}")))?;
        }
        if task.status == "cancelled" {
            let why = task.status_message.map(|why| format!(": {why}")).unwrap_or_default();
            return Err(UpstreamError::Refused {
                server: self.server.clone(),
                message: format!("it cancelled its task{why}"),
                data: None,
            });
        }
        // A task that waits for input asks for it while its result is waited for.
        self.exchange(request("tasks/result", params.clone()), timeout, cancel, None).await
    }
}
