//! Checks the calls in code before any of it runs: which of them cannot succeed, and why.
//!
//! It starts the servers that the code is certain to call, all at once. Calls to a server whose tools are still unknown
//! after that are not checked.

use std::collections::BTreeSet;

use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use belljar_tools::catalog::{self, LiteralArguments, ServerTools, UnknownTool};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::broker::call::Call;
use crate::broker::parts::Broker;
use crate::broker::run::call_record::CallRecord;
use crate::broker::run::context::RunContext;

/// The largest number of calls that are checked in the code of one run.
const CALLS_MAX: usize = 100;
/// The largest number of faults that have suggestions: the runtime shows no more.
const EXPLAINED_MAX: usize = 5;
const SIGNATURE_CHARS_MAX: usize = 600;

/// A call as it stands in code.
#[derive(Deserialize)]
struct LiteralCall {
    server: String,
    tool: String,
    /// The names of all its arguments; `None`: they cannot be read from the code.
    names: Option<Vec<String>>,
    /// Whether any argument is positional.
    #[serde(default)]
    by_place: bool,
    /// Whether the code reaches the call, unless something before it fails.
    #[serde(default)]
    is_certain: bool,
}

impl Broker {
    /// For each call, the fault that it would end in, or null. Only calls that the code is certain to make have faults.
    pub(crate) async fn check_calls(
        &self,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            calls: Vec<LiteralCall>,
        }
        let Arguments { calls } = self.read(call)?;
        let calls = &calls[..calls.len().min(CALLS_MAX)];
        self.start_called(calls, call, cancel).await;
        let mut faults: Vec<Option<ToolFault>> = vec![None; calls.len()];
        let mut explained = 0;
        for (at, literal) in calls.iter().enumerate().filter(|(_, literal)| literal.is_certain) {
            let is_first = calls[..at].iter().all(|earlier| earlier.server != literal.server);
            let explains = explained < EXPLAINED_MAX;
            faults[at] = self.certain_fault(literal, (is_first, explains), call.run()).err();
            if let Some(fault) = &faults[at] {
                explained += 1;
                self.write_down_unmade(literal, fault, call).await;
            }
            // A server can have thousands of names that an unknown one is compared with.
            tokio::task::yield_now().await;
        }
        serde_json::to_value(faults).map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string()))
    }

    /// Writes a line to the audit log for a call that cannot succeed: it is not made, and would have no line otherwise.
    async fn write_down_unmade(&self, literal: &LiteralCall, fault: &ToolFault, call: &Call<'_>) {
        let record = CallRecord::uncounted(call.run(), &literal.server, &literal.tool);
        record.decided("not made: it cannot succeed as it stands in the code");
        let event = record.event(record.names(), (Value::Null, 0), &Err(fault.clone()));
        self.shared.log.record_refused(&self.session, event).await;
    }

    /// Starts the servers of calls that the code is certain to make. It does not wait long for a slow server: the call
    /// itself does.
    async fn start_called(&self, calls: &[LiteralCall], call: &Call<'_>, cancel: &CancellationToken) {
        let certain = calls.iter().filter(|literal| literal.is_certain);
        let servers: BTreeSet<ServerName> =
            certain.filter_map(|literal| self.admitted(&literal.server, &call.run().servers).ok()).collect();
        let (known, unknown): (Vec<_>, Vec<_>) =
            servers.into_iter().partition(|server| self.knows_tools_of(server));
        let starting = |server: ServerName| async move {
            let started = self.connected(&server, (call.run(), call.deadline), cancel).await;
            started
                .inspect_err(|error| tracing::debug!(%server, %error, "not started ahead of its call"))
                .is_ok()
        };
        let mut starting: FuturesUnordered<_> = unknown.into_iter().map(starting).collect();
        let patience = if known.is_empty() { self.limits.first_index } else { self.limits.further_index };
        let mut deadline = call.deadline.min(Instant::now() + patience);
        while let Ok(Some(is_there)) = tokio::time::timeout_at(deadline, starting.next()).await {
            if is_there {
                deadline = deadline.min(Instant::now() + self.limits.further_index);
            }
        }
    }

    /// Returns the fault of a call that cannot succeed. `is_first`: no earlier call in the code goes to the same
    /// server. `explains`: an unknown name is compared with the known ones.
    fn certain_fault(
        &self,
        literal: &LiteralCall,
        (is_first, explains): (bool, bool),
        run: &RunContext,
    ) -> Result<(), ToolFault> {
        let server = self.admitted(&literal.server, &run.servers)?;
        // An outdated list could refuse a tool that exists by now, again and again.
        if !self.knows_tools_of(&server) {
            return Ok(());
        }
        let catalog = self.catalog();
        let Some(known) = catalog.server(server.as_str()) else { return Ok(()) };
        if !explains && catalog::resolved(known.listed(), &literal.tool).is_none() {
            let fault = ToolFault::new(FaultCode::UnknownTool, "its server has no such tool");
            return Err(self.kept_back(&server, &literal.tool).unwrap_or(fault));
        }
        let tool = match known.resolve(&literal.tool) {
            Ok(tool) => tool,
            Err(unknown) => {
                if let Some(kept_back) = self.kept_back(&server, &literal.tool) {
                    return Err(kept_back);
                }
                // An earlier call in the code may make its server offer further tools.
                let may_come = unknown.near.0.is_empty() && !is_first;
                return match may_come {
                    true => Ok(()),
                    false => Err(self.with_unread(&server, unknown_tool(known, &unknown), run)),
                };
            }
        };
        let given = match &literal.names {
            _ if literal.by_place => LiteralArguments::ByPlace,
            Some(names) => LiteralArguments::Names(names),
            None => LiteralArguments::Unknown,
        };
        catalog::check_names(&server, tool, given)
    }
}

/// The fault for an unknown tool, with the signature of the nearest one, or with the way to search for it.
fn unknown_tool(server: &ServerTools, unknown: &UnknownTool) -> ToolFault {
    let nearest = unknown.near.0.first().and_then(|alias| server.resolve(alias).ok());
    let hint = match nearest {
        Some(tool) => format!("signature: {}", text::bounded(&tool.signature, SIGNATURE_CHARS_MAX)),
        None => "runtime.search_tool_docs(\"what it should do\") finds tools".to_owned(),
    };
    let near = if unknown.near.0.is_empty() { String::new() } else { format!("; {}", unknown.near) };
    ToolFault::new(FaultCode::UnknownTool, format!("{unknown}{near}")).hint(hint)
}
