//! Stores results that stay on the host, puts them into calls, and gives them to code.
//!
//! Reading and writing a large result takes time, so it is done on a thread of its own.

use std::sync::Arc;

use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_tools::catalog::Tool;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::broker::answer::Answer;
use crate::broker::call::Call;
use crate::broker::parts::Broker;
use crate::broker::values::handles::{FilledArguments, Handles, Reference};

/// Longest piece of a text that one call returns, in characters.
const PIECE_CHARS_MAX: usize = 100_000;

impl Broker {
    /// Replaces the handles in the arguments of a call to this server by their results.
    pub(crate) async fn filled(
        &self,
        server: &ServerName,
        arguments: Map<String, Value>,
    ) -> Result<FilledArguments, ToolFault> {
        let takes_files = !self.shared.active_config.keeps_files_from().contains(server);
        self.with_handles(move |handles| handles.fill(arguments, takes_files)).await
    }

    /// Stores a result on the host, and returns the description that code gets instead.
    pub(super) async fn keep_result(
        &self,
        server: &ServerName,
        tool: &Tool,
        result: Box<RawValue>,
    ) -> Result<Box<RawValue>, ToolFault> {
        let (server, wraps) = (server.clone(), tool.wrapped_result().is_some());
        let tool = tool.name.as_str().to_owned();
        self.with_handles(move |handles| raw(&handles.keep(&server, (&tool, wraps), &result)?)).await
    }

    /// Gives code a stored result, or a part of it.
    pub(crate) async fn load_handle(&self, call: &Call<'_>) -> Result<Answer, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            reference: Reference,
            /// The range of a text to return, in characters; `None`: the whole value.
            chars: Option<(usize, usize)>,
        }
        let Arguments { reference, chars } = self.read(call)?;
        let load = move |handles: &Handles| match chars {
            Some((from, to)) => raw(&json!(piece(&handles.value(&reference)?, from, to))),
            None if reference.is_whole() => handles.whole(reference.number),
            None => raw(&handles.value(&reference)?),
        };
        self.with_handles(load).await.map(Answer::Value)
    }

    pub(crate) fn drop_handle(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            number: u64,
        }
        let Arguments { number } = self.read(call)?;
        self.handles.forget(number);
        Ok(Value::Null)
    }

    async fn with_handles<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Handles) -> Result<T, ToolFault> + Send + 'static,
    ) -> Result<T, ToolFault> {
        let handles = Arc::clone(&self.handles);
        let done = tokio::task::spawn_blocking(move || work(&handles)).await;
        done.unwrap_or_else(|error| Err(ToolFault::new(FaultCode::Internal, error.to_string())))
    }
}

/// The characters from `from` to `to` of a text, or of another value written as JSON.
fn piece(value: &Value, from: usize, to: usize) -> String {
    let chars = to.saturating_sub(from).min(PIECE_CHARS_MAX);
    match value {
        Value::String(text) => text.chars().skip(from).take(chars).collect(),
        other => other.to_string().chars().skip(from).take(chars).collect(),
    }
}

fn raw(value: &Value) -> Result<Box<RawValue>, ToolFault> {
    to_raw_value(value).map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string()))
}
