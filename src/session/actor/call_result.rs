//! Has the broker answer a call, and turns the answer into the line for the sandbox.
//!
//! It does not send the line.

use std::panic::AssertUnwindSafe;

use belljar_base::names::CallId;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_protocol::{CallResult, ToWorker};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::argument_room::HeldArguments;
use crate::broker::{Answer, Broker, Call};

/// Answers a call as soon as there is memory for its arguments, and frees the memory after that.
pub(super) async fn answer_within(
    held: Option<HeldArguments>,
    broker: &Broker,
    call: Call<'_>,
    cancel: &CancellationToken,
) -> Result<Answer, ToolFault> {
    let _room = match &held {
        Some(held) => Some(held.begin(call.deadline, cancel).await?),
        None => None,
    };
    whole(broker.answer(call, cancel)).await
}

/// Turns a panic into a fault, since the caller waits for an answer in any case.
async fn whole(answer: impl Future<Output = Result<Answer, ToolFault>>) -> Result<Answer, ToolFault> {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a call broke");
        Err(ToolFault::new(FaultCode::Internal, "belljar broke inside; what this call has done is unknown"))
    })
}

/// The line with the result. `job`: the job that made the call; `None`: a run made it. `wraps`: whether the tool wraps
/// its results.
pub(super) fn result_line(
    (job, call, wraps): (Option<u64>, CallId, bool),
    answer: Result<Answer, ToolFault>,
    bytes_max: usize,
) -> Vec<u8> {
    let to_line = |result| {
        let frame = ToWorker::Result { call, result };
        job.map_or_else(|| frame.to_line(), |job| frame.to_line_of_job(job))
    };
    let result = match answer {
        Ok(Answer::Value(value)) if wraps => CallResult::Wrapped(value),
        Ok(Answer::Value(value) | Answer::ToolError(value)) => CallResult::Value(value),
        Ok(Answer::Planned { server, tool }) => CallResult::Planned { server, tool },
        Err(fault) => CallResult::Fault(fault),
    };
    let line = to_line(result);
    if line.len() <= bytes_max {
        return line;
    }
    let fault = ToolFault::new(
        FaultCode::TooLarge,
        format!("the result has {} bytes, more than the {bytes_max} that fit", line.len()),
    )
    .hint("ask the tool for less: a page, a filter, fewer fields");
    to_line(CallResult::Fault(fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_breaks_is_answered() {
        let answer = whole(async { panic!("a defect") }).await;
        assert_eq!(answer.unwrap_err().message, "belljar broke inside; what this call has done is unknown");
    }
}
