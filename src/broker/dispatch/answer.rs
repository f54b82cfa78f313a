//! Has a call answered: by a server, if the user's policy allows the call, or by the bridge itself.

use belljar_base::names::ServerName;
use belljar_base::run::ToolFault;
use belljar_tools::catalog::{resolved, server_aliases};
use belljar_tools::policy::Names;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::audit::Event;
use crate::broker::answer::Answer;
use crate::broker::arguments;
use crate::broker::call::Call;
use crate::broker::helpers::model_request::{ASK_MODEL, RUNTIME};
use crate::broker::parts::Broker;
use crate::broker::record::audit::logged;
use crate::broker::record::replay::replayed;
use crate::broker::run::call_record::CallRecord;
use crate::journal::RecordedCall;

/// The helpers that a server answers.
const READINGS: [&str; 5] =
    ["read_resource", "list_resources", "list_resource_templates", "get_prompt", "list_prompts"];
impl Broker {
    /// Answers a call.
    ///
    /// # Errors
    /// A fault for the model. No call is ever sent to a server twice.
    pub async fn answer(&self, call: Call<'_>, cancel: &CancellationToken) -> Result<Answer, ToolFault> {
        arguments::without_reserved_keys(&call.arguments)?;
        let form = self.journal_form(&call);
        let replay = call.run().replay();
        let came = replay.and_then(|replay| replay.came_of(form.as_ref()?));
        call.record.entry().form = form;
        let answer = match came {
            Some(came) => {
                let answer = replayed(came, cancel).await;
                self.count_recorded(&call, &answer);
                if let (true, Ok(Answer::Value(description))) = (call.handles.result, &answer) {
                    self.handles.recorded(description);
                }
                self.of_replay(&call, answer)
            }
            None => match &call.server {
                None if call.tool == ASK_MODEL => self.ask_model(&call, cancel).await,
                None => self.help(&call, cancel).await,
                Some(server) => {
                    let answer = self.forward(server, &call, cancel).await;
                    self.write_down(call.record, &call.arguments, &answer).await;
                    answer
                }
            },
        };
        let form = call.record.entry().form.take();
        if let Some(form) = form {
            if let Some(replay) = replay {
                replay.compare(&form, &answer);
            }
            self.note_answer(call.record, form, &answer);
        }
        answer
    }

    /// Notes for labels that code has what this call of an earlier session brought: a result, an error, or what a job has
    /// made of it.
    pub fn note_recorded(&self, call: &RecordedCall) {
        let arguments = call.begun.arguments.value().unwrap_or_default();
        let server = call.begun.server.clone();
        self.with_recorded((server, &call.begun.tool), &arguments, |names| self.admission.touch(names));
    }

    /// Counts a recorded answer for labels and budgets as if the server had given it now. Code gets it in any case, as it
    /// did in the recorded run.
    fn count_recorded(&self, call: &Call<'_>, answer: &Result<Answer, ToolFault>) {
        let Ok(Answer::Value(said) | Answer::ToolError(said)) = answer else { return };
        let bytes = said.get().len() as u64;
        let arguments = serde_json::from_str(call.arguments.get()).unwrap_or_default();
        self.with_recorded((call.server.clone(), &call.tool), &arguments, |names| {
            drop(self.admission.answered(call.run(), names, bytes));
        });
    }

    /// Does this with the names of each server that may have given the answer to a recorded call.
    fn with_recorded(
        &self,
        (server, tool): (Option<String>, &str),
        arguments: &Value,
        count: impl Fn(Names<'_>),
    ) {
        let named = match server {
            Some(server) => Some(server),
            None if tool == ASK_MODEL => return count(Names::only(RUNTIME)),
            None if READINGS.contains(&tool) => {
                arguments.get("server").and_then(Value::as_str).map(str::to_owned)
            }
            None => return,
        };
        let catalog = self.catalog();
        match named {
            Some(server) => match catalog.server(&server) {
                Some(known) => count(known.names()),
                // It is not configured any more, and a label may name it by the alias that it had.
                None => {
                    let aliases = server_aliases([server.as_str()], self.limits.alias_bytes_max);
                    aliases.iter().for_each(|(name, alias)| count(Names { name, alias }));
                }
            },
            // The server of the recorded answer is unknown, so every server counts.
            None => catalog.servers().iter().for_each(|server| count(server.names())),
        }
    }

    /// Whether this tool's results are objects with the single member `result`, whose value stands for the whole.
    pub fn wraps_result(&self, server: &str, tool: &str) -> bool {
        let catalog = self.catalog();
        let known = catalog.server(server).and_then(|known| resolved(known.listed(), tool));
        known.is_some_and(|tool| tool.wrapped_result().is_some())
    }

    /// Writes the line of a call that has ended to the audit log.
    pub(crate) async fn write_down(
        &self,
        record: &CallRecord,
        arguments: &RawValue,
        answer: &Result<Answer, ToolFault>,
    ) {
        if self.shared.log.is_on() {
            let (server, tool) = record.names();
            let tool = self.shared.upstream.without_credentials(tool);
            let named = ServerName::new(&server);
            let redacted = |text| match &named {
                Ok(server) => self.shared.upstream.redacted(server, text),
                Err(_) => text,
            };
            let arguments = logged(self.shared.logged, arguments, &redacted);
            let event = record.event((server, tool), arguments, answer);
            let is_made = record.was_sent() || matches!(answer, Ok(Answer::Value(_) | Answer::ToolError(_)));
            match is_made {
                true => self.shared.log.record(&self.session, Event::Call(event)).await,
                false => self.shared.log.record_refused(&self.session, event).await,
            }
        }
    }
}
