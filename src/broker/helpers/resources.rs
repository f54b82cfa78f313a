//! Resources and prompts of servers, for code. They are admitted and logged like calls of tools.
//!
//! Rules, budgets, labels and the audit log treat a reading, which is a request for one of them, as a call of a
//! read-only tool that has the name of the MCP method. A denied reading starts no server. belljar does not inspect the
//! content that it passes to the code.

use belljar_base::names::ServerName;
use belljar_base::run::{DryRunReason, FaultCode, ToolEffect, ToolFault};
use belljar_base::text;
use belljar_tools::policy::{Names, PolicyCall};
use belljar_upstream::{ListKind, Request};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::uri_template;
use crate::broker::answer::Answer;
use crate::broker::call::{Call, SendRule};
use crate::broker::human::HumanDeadline;
use crate::broker::parts::Broker;
use crate::broker::run::call_record::CallRecord;

/// Longest URI in a message, in characters.
const URI_CHARS_MAX: usize = 200;
/// Longest URI that is compared with what servers list, in bytes. A server can list thousands of templates.
const COMPARED_BYTES_MAX: usize = 8 * 1024;
/// Longest list of servers in a message, in characters.
const NAMES_CHARS_MAX: usize = 300;

/// The request of a helper to a server.
enum Reading {
    List(ListKind),
    Resource { uri: String },
    Prompt { name: String, arguments: Map<String, Value> },
}

impl Reading {
    /// The name of the tool in rules and in the audit log.
    fn tool(&self) -> &'static str {
        match self {
            Self::List(ListKind::Tools) => "tools/list",
            Self::List(ListKind::Resources) => "resources/list",
            Self::List(ListKind::ResourceTemplates) => "resources/templates/list",
            Self::List(ListKind::Prompts) => "prompts/list",
            Self::Resource { .. } => "resources/read",
            Self::Prompt { .. } => "prompts/get",
        }
    }

    fn arguments(&self) -> Map<String, Value> {
        let arguments = match self {
            Self::List(_) => json!({}),
            Self::Resource { uri } => json!({"uri": uri}),
            Self::Prompt { name, arguments } => json!({"name": name, "arguments": arguments}),
        };
        arguments.as_object().cloned().unwrap_or_default()
    }
}

impl Broker {
    /// The items that a server lists.
    pub(super) async fn list_of(
        &self,
        kind: ListKind,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            server: String,
        }
        let Arguments { server } = self.read(call)?;
        let server = self.admitted(&server, &call.run().servers)?;
        self.reading(&server, Reading::List(kind), call, cancel).await
    }

    /// A resource's content, from the server that has it.
    pub(crate) async fn read_resource(
        &self,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            uri: String,
            server: Option<String>,
        }
        let Arguments { uri, server } = self.read(call)?;
        let server = match server {
            Some(server) => self.admitted(&server, &call.run().servers)?,
            // Here the URI contains a placeholder, so that no server can have the resource and none is asked.
            None if call.send_rule == SendRule::Never && self.server_names(&call.run().servers).len() > 1 => {
                return self.plan_help(call);
            }
            None => self.server_of(&uri, call, cancel).await?,
        };
        self.reading(&server, Reading::Resource { uri }, call, cancel).await
    }

    /// A prompt, filled in.
    pub(crate) async fn get_prompt(
        &self,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            server: String,
            name: String,
            #[serde(default)]
            arguments: Map<String, Value>,
        }
        let Arguments { server, name, arguments } = self.read(call)?;
        if let Some((key, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
            let shown = text::inert_excerpt(key, URI_CHARS_MAX);
            let message = format!("the argument '{shown}' of a prompt is no string");
            return Err(ToolFault::new(FaultCode::InvalidArguments, message).hint("write it as str(...)"));
        }
        let server = self.admitted(&server, &call.run().servers)?;
        self.reading(&server, Reading::Prompt { name, arguments }, call, cancel).await
    }

    /// The server to read from if code names none: the run's only server, else the one running server that lists the
    /// resource. No server is started for that.
    async fn server_of(
        &self,
        uri: &str,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<ServerName, ToolFault> {
        let servers = self.server_names(&call.run().servers);
        if let [only] = &servers[..] {
            return Ok(only.clone());
        }
        if uri.len() > COMPARED_BYTES_MAX {
            return Err(which(
                uri,
                "belljar compares only short URIs with what servers list, and does not know which one has",
                servers.iter(),
            ));
        }
        let asked: Vec<ServerName> =
            servers.iter().filter(|server| self.runs_with_resources(server)).cloned().collect();
        for kind in [ListKind::Resources, ListKind::ResourceTemplates] {
            let looking = asked.iter().map(|server| self.lists(server, (kind, uri), call, cancel));
            let found = futures_util::future::join_all(looking).await;
            let with: Vec<&ServerName> =
                asked.iter().zip(found).filter(|(_, is_found)| *is_found).map(|(server, _)| server).collect();
            match with[..] {
                [] => {}
                [one] => return Ok(one.clone()),
                _ => return Err(which(uri, "several servers have", with.into_iter())),
            }
        }
        Err(which(uri, "none of the servers that run lists", servers.iter()))
    }

    async fn lists(
        &self,
        server: &ServerName,
        (kind, uri): (ListKind, &str),
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> bool {
        // A server that may not be asked, or fails, counts as one without the resource. Code can still name it.
        let Ok(items) = self.reading(server, Reading::List(kind), call, cancel).await else { return false };
        let Answer::Value(items) = items else { return false };
        let Ok(items) = serde_json::from_str::<Vec<Value>>(items.get()) else { return false };
        items.iter().any(|item| match kind {
            ListKind::ResourceTemplates => {
                item["uriTemplate"].as_str().is_some_and(|template| uri_template::fits(template, uri))
            }
            _ => item["uri"] == uri,
        })
    }

    fn runs_with_resources(&self, server: &ServerName) -> bool {
        self.running(server).is_some_and(|connection| connection.offers(ListKind::Resources))
    }

    /// Sends the reading if the user's policy allows it, and writes it to the audit log in any case. A reading whose
    /// arguments contain a placeholder is listed as planned instead.
    async fn reading(
        &self,
        server: &ServerName,
        reading: Reading,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        let arguments = reading.arguments();
        let written = to_raw_value(&arguments)
            .map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string()))?;
        call.run().with_record(|record| record.calls.readings += 1);
        let record = CallRecord::uncounted(call.run(), server.as_str(), reading.tool());
        let catalog = self.catalog();
        let names =
            catalog.server(server.as_str()).map_or(Names::only(server.as_str()), |known| known.names());
        let called = PolicyCall {
            server: names,
            tool: Names::only(reading.tool()),
            annotations: &Map::from_iter([("readOnlyHint".to_owned(), Value::Bool(true))]),
            arguments: &arguments.into(),
        };
        let (bytes, until) = (written.get().len() as u64, call.run().human.until(call.deadline));
        let answer = if call.send_rule == SendRule::Never {
            record.decided("not made: dry run");
            let redacted = |text| self.shared.upstream.redacted(server, text);
            let asks = self.admission.would_ask(&called, cancel).await;
            asks.map(|asks| call.planned(&called, (asks, DryRunReason::NeedsPlaceholder), &redacted))
        } else {
            match self.admission.admit(call.run(), &called, bytes, cancel).await {
                Ok(decision) => {
                    record.decided(decision);
                    let asked = self.asked(server, reading, (call, &until), cancel).await;
                    asked.and_then(|answer| {
                        self.count_answer(&record, names, answer.get().len())?;
                        Ok(Answer::Value(answer))
                    })
                }
                Err(fault) => Err(fault),
            }
        };
        self.write_down(&record, &written, &answer).await;
        answer
    }

    async fn asked(
        &self,
        server: &ServerName,
        reading: Reading,
        (call, until): (&Call<'_>, &HumanDeadline<'_>),
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, ToolFault> {
        let fault = |error| self.fault(server, call.run(), &error, Some(ToolEffect::Reads));
        let connection = self.connected(server, (call.run(), until.deadline()), cancel).await;
        let connection = connection.map_err(|error| self.not_connected(server, call.run(), &error))?;
        let turn = self.turn_at((server, &connection), call, cancel).await;
        let _calling = turn.map_err(|error| self.not_connected(server, call.run(), &error))?;
        let answer = match reading {
            Reading::List(kind) => {
                let tool = reading.tool();
                let (items, lacks) = connection.list(kind, until, cancel).await.map_err(fault)?;
                if let Some(lacks) = lacks {
                    let note = text::inert_line(&format!("{server}, {tool}: {lacks}"));
                    call.run().remark(self.shared.upstream.redacted(server, note));
                }
                to_raw_value(&items)
                    .map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string()))?
            }
            Reading::Resource { uri } => {
                connection.ask(Request::Resource { uri }, until, cancel, None).await.map_err(fault)?
            }
            Reading::Prompt { name, arguments } => connection
                .ask(Request::Prompt { name, arguments }, until, cancel, None)
                .await
                .map_err(fault)?,
        };
        Ok(answer)
    }
}

fn which<'s>(uri: &str, what: &str, servers: impl Iterator<Item = &'s ServerName>) -> ToolFault {
    let names: Vec<&str> = servers.map(ServerName::as_str).collect();
    let names = text::inert_excerpt(&names.join(", "), NAMES_CHARS_MAX);
    let uri = text::inert_excerpt(uri, URI_CHARS_MAX);
    ToolFault::new(FaultCode::InvalidArguments, format!("{what} the resource '{uri}'"))
        .hint(format!("say which server is meant: read_resource(uri, server=...), one of {names}"))
}
