//! The stages of a call of a tool: resolve, fill handles, validate, check the pin, admit, send, interpret.
//!
//! Each stage can refuse the call. Nothing of the call is sent before the stage `send`.

use std::pin::pin;
use std::sync::Arc;

use belljar_base::names::ServerName;
use belljar_base::run::{DryRunReason, FaultCode, ToolEffect, ToolFault};
use belljar_base::text;
use belljar_tools::catalog::{self, AnsweredCall, Catalog, CheckedArguments, ServerTools, Tool};
use belljar_tools::policy::{CallArguments, PolicyCall};
use belljar_upstream::{Connection, Redacted, Request, UpstreamError};
use futures_util::future::poll_immediate;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use crate::broker::answer::Answer;
use crate::broker::arguments::{self, after_others};
use crate::broker::call::{Call, SendRule};
use crate::broker::human::HumanDeadline;
use crate::broker::parts::Broker;
use crate::broker::servers::server_progress::ProgressRelay;
use crate::broker::servers::server_requests::ActiveCall;

/// Longest list of arguments in a note, in characters.
const UNDECLARED_CHARS_MAX: usize = 200;
/// Arguments of at least this size are named if the server dies while it gets them, in bytes.
const LARGE_BYTES: u64 = 1 << 20;
/// The largest number of arguments in such a note.
const UNDECLARED_MAX: usize = 50;

/// The tool of a call, and its server.
#[derive(Clone, Copy)]
struct Target<'c> {
    server: &'c Arc<ServerTools>,
    tool: &'c Tool,
}

impl Broker {
    /// Takes a call through all stages and returns the server's answer.
    pub(super) async fn forward(
        &self,
        server: &str,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        let server = self.admitted(server, &call.run().servers)?;
        server.as_str().clone_into(&mut call.record.entry().server);
        let until = call.run().human.until(call.deadline);
        let (arguments, _room) = self.read_arguments(&server, call, cancel).await?;
        let connection = self.connected(&server, (call.run(), call.deadline), cancel).await;
        let connection = connection.map_err(|error| self.not_connected(&server, call.run(), &error))?;
        let catalog = self.catalog();
        let target = self.resolve(&catalog, &server, call)?;
        let (arguments, from_results) = self.fill_handles(target, call, arguments).await?;
        let CheckedArguments { arguments, unchecked } = validate(target, call, arguments).await?;
        let Target { server, tool } = target;
        let (given, defaults) = (Arc::new(arguments), Some(catalog::find_defaults(tool)));
        let arguments = CallArguments { given, unchecked, defaults };
        let called = PolicyCall {
            server: server.names(),
            tool: tool.names(),
            annotations: &tool.annotations,
            arguments: &arguments,
        };
        self.check_pin(target, call)?;
        if let Some(name) = self.shared.upstream.masked_in(&call.arguments) {
            let name = text::inert_excerpt(&name, UNDECLARED_CHARS_MAX);
            let said =
                format!("nothing was sent to {}: {name} in the arguments is no secret", call.record.name);
            return Err(ToolFault::new(FaultCode::InvalidArguments, said)
                .hint("it stands for a secret that belljar masked in a result: leave it out, code is never given it"));
        }
        let bytes = call.arguments.get().len() as u64 + from_results;
        if let Some(why) = dry_run_reason(call.send_rule, &called) {
            return self.plan(target, call, (&called, why), cancel).await;
        }
        let decision = {
            let mut admitting = pin!(self.admission.admit(call.run(), &called, bytes, cancel));
            match poll_immediate(admitting.as_mut()).await {
                Some(decision) => decision?,
                None => {
                    let decision = admitting.await?;
                    // The pin may have changed while the rules were compared, or while the human was asked.
                    self.check_pin(target, call)?;
                    decision
                }
            }
        };
        call.record.decided(decision);
        note_undeclared(target, call, &arguments.given);
        let arguments = Arc::unwrap_or_clone(arguments.given);
        let result = self.send(target, call, (&connection, arguments, &until), cancel).await;
        self.interpret(target, call, (result, bytes)).await
    }

    /// Parses the arguments, once there is memory for them.
    async fn read_arguments(
        &self,
        server: &ServerName,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<(Map<String, Value>, Option<SemaphorePermit<'_>>), ToolFault> {
        let given_up = |error| {
            let error = self.shared.upstream.failure(server, error);
            Err(self.not_connected(server, call.run(), &error))
        };
        let server = || server.clone();
        let room = tokio::select! {
            room = self.arguments.taken_by(&call.arguments, &self.limits) => room,
            () = tokio::time::sleep_until(call.deadline) => {
                return given_up(UpstreamError::Deadline { server: server() });
            }
            () = cancel.cancelled() => return given_up(UpstreamError::Cancelled { server: server() }),
        };
        let read = || arguments::object(&call.arguments, &self.limits);
        let arguments = after_others(&call.arguments, read).await?;
        Ok((arguments, room))
    }

    /// Waits until the session may call the server over this connection.
    pub(crate) async fn turn_at(
        &self,
        (server, connection): (&ServerName, &Connection),
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<ActiveCall<'_>, Redacted> {
        let given_up = tokio::select! {
            biased;
            calling = self.shared.server_requests.calling(server, call.run(), connection.calls_at_once()) => return Ok(calling),
            () = tokio::time::sleep_until(call.deadline) => UpstreamError::Deadline { server: server.clone() },
            () = cancel.cancelled() => UpstreamError::Cancelled { server: server.clone() },
        };
        Err(self.shared.upstream.failure(server, given_up))
    }

    /// Finds the tool by the name or alias in the call.
    fn resolve<'c>(
        &self,
        catalog: &'c Catalog,
        server: &ServerName,
        call: &Call<'_>,
    ) -> Result<Target<'c>, ToolFault> {
        let known = catalog.server(server.as_str()).ok_or_else(|| {
            ToolFault::new(FaultCode::Internal, format!("server '{server}' has left the catalog"))
        })?;
        let tool = self.tool(known, &call.tool, call.run())?;
        call.record.resolved(server, tool.name.as_str(), tool.only_reads());
        Ok(Target { server: known, tool })
    }

    /// Replaces handles in the arguments by the results on the host, and returns the number of bytes of these results.
    async fn fill_handles(
        &self,
        target: Target<'_>,
        call: &Call<'_>,
        arguments: Map<String, Value>,
    ) -> Result<(Map<String, Value>, u64), ToolFault> {
        if call.send_rule == SendRule::Never || !call.handles.arguments {
            return Ok((arguments, 0));
        }
        let filled = self.filled(&target.server.name, arguments).await?;
        Ok((filled.arguments, filled.bytes))
    }

    /// Compares the tool with its pin.
    fn check_pin(&self, Target { server, tool }: Target<'_>, call: &Call<'_>) -> Result<(), ToolFault> {
        let redacted = |text| self.shared.upstream.redacted(&server.name, text);
        let unpinned = self.shared.pins.admit(server, tool, self.admission.comparison(&redacted))?;
        unpinned.into_iter().for_each(|note| call.run().note(note));
        Ok(())
    }

    /// Lists the call as planned instead of making it.
    async fn plan(
        &self,
        target: Target<'_>,
        call: &Call<'_>,
        (called, why): (&PolicyCall<'_>, DryRunReason),
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        call.record.decided("not made: dry run");
        let asks = self.admission.would_ask(called, cancel).await?;
        Ok(call
            .planned(called, (asks, why), &|text| self.shared.upstream.redacted(&target.server.name, text)))
    }

    /// Sends the call and returns the server's result. The call is written to the journal before it is sent.
    async fn send(
        &self,
        Target { server, tool }: Target<'_>,
        call: &Call<'_>,
        (connection, arguments, until): (&Connection, Map<String, Value>, &HumanDeadline<'_>),
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, Redacted> {
        let _calling = self.turn_at((&server.name, connection), call, cancel).await?;
        self.note_begun(call);
        if !call.record.send() {
            let cancelled = UpstreamError::Cancelled { server: server.name.clone() };
            return Err(self.shared.upstream.failure(&server.name, cancelled));
        }
        let only_reads = tool.only_reads();
        let request = Request::Tool { name: tool.name.as_str().to_owned(), arguments, only_reads };
        let (hears, heard) = watch::channel(None);
        let progress = &call.run().progress;
        // If nobody receives the run's progress, the server is not asked for progress.
        let hears = (!progress.is_closed()).then_some(hears);
        let redacted = |text| self.shared.upstream.redacted(&server.name, text);
        let relay = ProgressRelay { tool: call.record.name.clone(), redacted: &redacted, progress };
        relay.until(connection.ask(request, until, cancel, hears), heard).await
    }

    /// Turns the server's result into the answer that code gets.
    async fn interpret(
        &self,
        Target { server, tool }: Target<'_>,
        call: &Call<'_>,
        (result, bytes): (Result<Box<RawValue>, Redacted>, u64),
    ) -> Result<Answer, ToolFault> {
        let name = &server.name;
        if let Ok(result) = &result {
            self.count_answer(call.record, server.names(), result.get().len())?;
        }
        let effect = if tool.only_reads() { ToolEffect::Reads } else { ToolEffect::MayWrite };
        let answer = result
            .and_then(|result| self.without_secrets(name, result))
            .inspect(|answer| self.learn_shape(server, tool, answer))
            .map_err(|error| match call.record.was_sent() {
                true => {
                    let mut fault = self.fault(name, call.run(), &error, Some(effect));
                    if matches!(*error, UpstreamError::Died { .. }) && bytes >= LARGE_BYTES {
                        fault.message += &format!("; {} MB of arguments were being sent to it", bytes >> 20);
                    }
                    fault
                }
                false => self.not_connected(name, call.run(), &error),
            })?;
        for placeholder in self.shared.upstream.newly_masked(name) {
            let placeholder = text::inert_excerpt(&placeholder, UNDECLARED_CHARS_MAX);
            call.run().note(format!(
                "{placeholder} in results of {} stands for a secret, which is masked: no call can be given it",
                text::inert_line(name.as_str())
            ));
        }
        match answer {
            Answer::Value(result) if call.handles.result => {
                call.record.answered();
                self.keep_result(name, tool, result).await.map(Answer::Value)
            }
            answer => Ok(answer),
        }
    }

    /// Records the shape of the result for later signatures.
    fn learn_shape(&self, server: &ServerTools, tool: &Tool, answer: &Answer) {
        if let Answer::Value(result) = answer
            && self.admission.lets_learn(server.names())
        {
            let is_secret = |text: &str| self.shared.upstream.redacted(&server.name, text.to_owned()) != text;
            let answered = AnsweredCall { server: &server.name, tool, result: result.get() };
            self.shared.shape_store.learn(&answered, &is_secret);
        }
    }
}

/// Checks the arguments against the tool's schema. Arguments with placeholders are not checked.
async fn validate(
    Target { server, tool }: Target<'_>,
    call: &Call<'_>,
    arguments: Map<String, Value>,
) -> Result<CheckedArguments, ToolFault> {
    match call.send_rule {
        SendRule::Never => Ok(CheckedArguments { arguments, unchecked: None }),
        SendRule::Always | SendRule::IfReadOnly => {
            after_others(&call.arguments, || catalog::checked(&server.name, tool, arguments)).await
        }
    }
}

fn dry_run_reason(send_rule: SendRule, called: &PolicyCall<'_>) -> Option<DryRunReason> {
    match send_rule {
        SendRule::Always => None,
        SendRule::IfReadOnly if called.only_reads() => None,
        SendRule::IfReadOnly => Some(DryRunReason::NotMarkedReadOnly),
        SendRule::Never => Some(DryRunReason::NeedsPlaceholder),
    }
}

/// Adds a note about arguments that the tool does not declare: most servers ignore them without an error.
fn note_undeclared(Target { server, tool }: Target<'_>, call: &Call<'_>, arguments: &Map<String, Value>) {
    let undeclared = catalog::undeclared(tool, arguments);
    if undeclared.is_empty() {
        return;
    }
    let names: Vec<String> = undeclared
        .into_iter()
        .take(UNDECLARED_MAX)
        .map(|(name, meant)| {
            let shown = |name: &str| text::name_in_sentence(name, UNDECLARED_CHARS_MAX);
            let meant = meant.map(|meant| format!(" (did you mean {}?)", shown(meant)));
            format!("{}{}", shown(name), meant.unwrap_or_default())
        })
        .collect();
    let names = text::bounded(&names.join(", "), UNDECLARED_CHARS_MAX).into_owned();
    let tool = text::inert_excerpt(&format!("{}.{}", server.name, tool.name), UNDECLARED_CHARS_MAX);
    call.run().remark(format!("{tool} does not declare what it was given and may ignore it: {names}"));
}
