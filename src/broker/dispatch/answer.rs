//! Has a call answered: by a server once the user's policy has let it pass, or by the bridge itself.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::broker::answer::Answer;
use crate::broker::arguments::{self, aside};
use crate::broker::call::{Call, Making};
use crate::broker::gate::pins::Comparing;
use crate::broker::helpers::model_request::{ASK_MODEL, RUNTIME};
use crate::broker::record::audit::Record;
use crate::broker::record::noted::Noted;
use crate::broker::record::replay::replayed;
use crate::broker::servers::server_progress::Told;
use crate::broker::state::Broker;
use crate::catalog::{self, Answered, Checked, Tool};
use crate::names::ServerName;
use crate::policy::{Called, Implied, Names};
use crate::run::{FaultCode, NotMade, ToolFault};
use crate::text;
use crate::upstream::{Request, UpstreamError};

/// Helpers whose answers are a server's.
const READINGS: [&str; 5] =
    ["read_resource", "list_resources", "list_resource_templates", "get_prompt", "list_prompts"];
/// Longest list of arguments in a note, in characters.
const UNDECLARED_CHARS_MAX: usize = 200;
/// Arguments in such a note.
const UNDECLARED_MAX: usize = 50;
/// Longest name of a call whose progress is told, in characters.
const PROGRESS_CHARS_MAX: usize = 200;

impl Broker {
    /// The answer to a call.
    ///
    /// # Errors
    /// A fault for the model. Nothing is ever sent to a server twice.
    pub async fn answer(&self, call: Call<'_>, cancel: &CancellationToken) -> Result<Answer, ToolFault> {
        let mut noted = self.noted(&call);
        let replay = call.run.replay();
        let answer = match replay.and_then(|replay| replay.came_of(noted.as_ref()?)) {
            Some(came) => {
                let answer = replayed(came, cancel).await;
                self.count_recorded(&call, &answer);
                if let (true, Ok(Answer::Value(description))) = (call.handles.result, &answer) {
                    self.handles.recorded(description);
                }
                self.of_replay(&call, answer)
            }
            None => match &call.server {
                None if call.tool == ASK_MODEL => self.ask_model(&call, noted.as_mut(), cancel).await,
                None => self.help(&call, cancel).await,
                Some(server) => {
                    let mut record = Record::begin(call.run.numbers(), server, &call.tool);
                    let answer = self.forward(server, &call, (&mut record, noted.as_mut()), cancel).await;
                    self.write_down(record, &call.arguments, answer.as_ref().map(Answer::told)).await;
                    answer
                }
            },
        };
        if let Some(noted) = noted {
            if let Some(replay) = replay {
                replay.compare(&noted, &answer);
            }
            self.note_answer(&call, noted, &answer);
        }
        answer
    }

    /// What a server has said before counts for labels and budgets as if it had said it now.
    fn count_recorded(&self, call: &Call<'_>, answer: &Result<Answer, ToolFault>) {
        let Ok(Answer::Value(said) | Answer::ToolError(said)) = answer else { return };
        #[derive(Deserialize)]
        struct Reading {
            server: Option<String>,
        }
        let is_reading = || READINGS.contains(&call.tool.as_str());
        let named = match &call.server {
            Some(server) => Some(server.clone()),
            None if call.tool == ASK_MODEL => {
                return self.admission.answered(call.run, Names::only(RUNTIME), said.get().len() as u64);
            }
            None if is_reading() => {
                serde_json::from_str(call.arguments.get()).ok().and_then(|Reading { server }| server)
            }
            None => return,
        };
        let (catalog, bytes) = (self.catalog(), said.get().len() as u64);
        match named {
            Some(server) => {
                let names = catalog.server(&server).map_or(Names::only(&server), |known| known.names());
                self.admission.answered(call.run, names, bytes);
            }
            // It may have been any of them.
            None => catalog
                .servers()
                .iter()
                .for_each(|server| self.admission.answered(call.run, server.names(), bytes)),
        }
    }

    /// Whether this tool's results are objects with the one member `result`, which stands for the whole.
    pub fn wraps_result(&self, server: &str, tool: &str) -> bool {
        let catalog = self.catalog();
        let known = catalog.server(server).and_then(|known| known.resolve(tool).ok());
        known.is_some_and(|tool| tool.wrapped_result().is_some())
    }

    /// A line of the log, of a call that has ended.
    pub(in crate::broker) async fn write_down(
        &self,
        mut record: Record,
        arguments: &RawValue,
        answer: Result<(&'static str, usize), &ToolFault>,
    ) {
        if self.log.is_on() {
            record.tool = self.upstream.without_credentials(record.tool);
            let server = ServerName::new(&record.server);
            let redacted = |text| match &server {
                Ok(server) => self.upstream.redacted(server, text),
                Err(_) => text,
            };
            let arguments = self.logged.of(arguments, &redacted);
            self.log.record(record.end(arguments, answer)).await;
        }
    }

    /// Most servers ignore what they have not declared, and say nothing.
    fn note_undeclared(
        &self,
        call: &Call<'_>,
        (server, tool): (&ServerName, &Tool),
        arguments: &Map<String, Value>,
    ) {
        let undeclared = catalog::undeclared(tool, arguments);
        if undeclared.is_empty() {
            return;
        }
        let names: Vec<String> = undeclared
            .into_iter()
            .take(UNDECLARED_MAX)
            .map(|name| text::name_in_sentence(name, UNDECLARED_CHARS_MAX))
            .collect();
        let names = text::bounded(&names.join(", "), UNDECLARED_CHARS_MAX).into_owned();
        let tool = text::inert_excerpt(&format!("{server}.{}", tool.name), UNDECLARED_CHARS_MAX);
        let said = format!("{tool} does not declare what it was given and may ignore it: {names}");
        call.run.note(said);
    }

    async fn forward(
        &self,
        server: &str,
        call: &Call<'_>,
        (record, noted): (&mut Record, Option<&mut Noted>),
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        let server = self.admitted(server, &call.run.servers)?;
        record.server = server.as_str().to_owned();
        let until = call.run.human.until(call.deadline);
        let given_up = |error| self.not_connected(&server, call.run, &error);
        let _room = tokio::select! {
            room = self.arguments.taken_by(&call.arguments, &self.limits) => room,
            () = tokio::time::sleep_until(call.deadline) => {
                return Err(given_up(UpstreamError::Deadline { server: server.clone() }));
            }
            () = cancel.cancelled() => {
                return Err(given_up(UpstreamError::Cancelled { server: server.clone() }));
            }
        };
        let arguments = aside(&call.arguments, || arguments::object(&call.arguments, &self.limits))?;
        let connection = self.connected(&server, (call.run, call.deadline), cancel).await;
        let connection = connection.map_err(|error| self.not_connected(&server, call.run, &error))?;
        let catalog = self.catalog();
        let known = catalog.server(server.as_str()).ok_or_else(|| {
            ToolFault::new(FaultCode::Internal, format!("server '{server}' has left the catalog"))
        })?;
        let tool =
            known.resolve(&call.tool).map_err(|unknown| self.no_such_tool(&server, &call.tool, unknown))?;
        record.tool = tool.name.as_str().to_owned();
        let (arguments, from_results) = match call.making {
            Making::Always | Making::IfItReads if call.handles.arguments => {
                let filled = self.filled(&server, arguments).await?;
                (filled.arguments, filled.bytes)
            }
            _ => (arguments, 0),
        };
        // A placeholder may stand for anything.
        let Checked { arguments, unchecked } = match call.making {
            Making::Never => Checked { arguments, unchecked: None },
            Making::Always | Making::IfItReads => {
                aside(&call.arguments, || catalog::checked(&server, tool, arguments))?
            }
        };
        let implied = match self.admission.weighs_arguments(known.names(), tool.names()) {
            true => aside(&call.arguments, || catalog::implied(tool, &arguments, unchecked)),
            false => Implied { unchecked, ..Implied::default() },
        };
        let called = Called {
            server: known.names(),
            tool: tool.names(),
            annotations: &tool.annotations,
            arguments: &arguments,
            implied: &implied,
        };
        let redacted = |text| self.upstream.redacted(&server, text);
        let comparing = Comparing { profile: self.admission.profile(), redacted: &redacted };
        self.pins.admit(known, tool, comparing)?;
        let is_made = match call.making {
            Making::Always => true,
            Making::IfItReads => called.only_reads(),
            Making::Never => false,
        };
        if !is_made {
            record.decision = "not made: dry run".into();
            let asks = self.admission.would_ask(&called)?;
            let why = match call.making {
                Making::Never => NotMade::NeedsPlaceholder,
                Making::Always | Making::IfItReads => NotMade::NotMarkedReadOnly,
            };
            return Ok(call.planned(&called, (asks, why), &redacted));
        }
        let bytes = call.arguments.get().len() as u64 + from_results;
        let admitted = self.admission.admit(call.run, &called, bytes, cancel).await?;
        record.decision = admitted.decision;
        self.note_undeclared(call, (&server, tool), &arguments);
        if let Some(noted) = noted {
            self.note_begun(call, noted);
        }
        if !call.sending.begin() {
            let given_up = UpstreamError::Cancelled { server: server.clone() };
            return Err(self.not_connected(&server, call.run, &given_up));
        }
        let _calling = self.servers_ask.calling(&server, call.run);
        let request = Request::Tool { name: tool.name.as_str().to_owned(), arguments };
        let (hears, heard) = watch::channel(None);
        // Nobody follows it where nobody would hear of it.
        let hears = (!call.run.progress.is_closed()).then_some(hears);
        let told = Told {
            // As the code calls it, which is how the session tells of the call.
            tool: text::inert_excerpt(&format!("{server}.{}", call.tool), PROGRESS_CHARS_MAX),
            redacted: &redacted,
            progress: &call.run.progress,
        };
        let result = told.until(connection.ask(request, &until, cancel, hears), heard).await;
        let answer = result
            .inspect(|result| self.admission.answered(call.run, known.names(), result.get().len() as u64))
            .and_then(|result| self.without_secrets(&server, result))
            .inspect(|answer| self.learn_shape(&server, tool, answer))
            .map_err(|error| self.fault(&server, call.run, &error))?;
        match answer {
            Answer::Value(result) if call.handles.result => {
                self.keep_result(&server, tool, result).await.map(Answer::Value)
            }
            answer => Ok(answer),
        }
    }

    /// Later signatures say what results have looked like.
    fn learn_shape(&self, server: &ServerName, tool: &Tool, answer: &Answer) {
        if let Answer::Value(result) = answer {
            let is_secret = |text: &str| self.upstream.redacted(server, text.to_owned()) != text;
            self.learned.learn(&Answered { server, tool, result: result.get() }, &is_secret);
        }
    }
}
