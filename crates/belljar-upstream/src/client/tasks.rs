//! Calls that a server runs as tasks (MCP 2025-11-25): the answer to such a call names a task, which is asked for until it
//! has ended. Its result is that of the call.
//!
//! Only tools that can be called in no other way are called so.

use std::time::Duration;

use rmcp::model::{ClientRequest, CustomRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::call_timeout::{CallTimeout, Clock};
use super::connection::Connection;
use crate::error::UpstreamError;
use crate::jsonrpc::{WITHDRAWING, repaired};

/// The pause between two questions about a task: shortest, usual and longest.
const PAUSE: (Duration, Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(10));

/// The status of a task that has not ended. A new task that has none counts as one of these.
const WORKING: &str = "working";

/// What a server says of a task; null if it cannot be read. Only the members that are used are looked at.
fn read(answer: &RawValue) -> Value {
    serde_json::from_str(&repaired(answer.get())).unwrap_or_default()
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
        let Value::Object(mut created) = read(&answer) else { return Ok(answer) };
        let Some(task) = created.shift_remove("task") else { return Ok(answer) };
        let id = task.get("taskId").filter(|id| id.is_string() || id.is_number());
        let id = id.ok_or_else(|| self.nonsense("its task has no taskId".into()))?;
        let params = json!({"taskId": id});
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
        mut task: Value,
        params: &Value,
        timeout: &mut CallTimeout<'_, impl Clock>,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, UpstreamError> {
        while task.get("status").and_then(Value::as_str).unwrap_or(WORKING) == WORKING {
            let pause = task.get("pollInterval").and_then(Value::as_f64);
            let pause = pause.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()).unwrap_or(PAUSE.1);
            tokio::select! {
                () = tokio::time::sleep(pause.clamp(PAUSE.0, PAUSE.2)) => {}
                error = timeout.of_call(&self.server, &self.bounds) => return Err(error),
                () = cancel.cancelled() => {
                    return Err(UpstreamError::Cancelled { server: self.server.clone() });
                }
            }
            let state = self.exchange(request("tasks/get", params.clone()), timeout, cancel, None).await?;
            task = read(&state);
            if !task.get("status").is_some_and(Value::is_string) {
                return Err(self.nonsense("its task has no status".into()));
            }
        }
        if task["status"] == "cancelled" {
            let why = task.get("statusMessage").and_then(Value::as_str);
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
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
