//! Turns failures of servers into faults for the model: harmless, bounded, without secrets, and with a hint.
//!
//! It decides about no call.

use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ToolEffect, ToolFault};
use belljar_base::text;
use belljar_tools::catalog::{self, ServerTools, Tool, UnknownTool};
use belljar_tools::policy::Names;
use belljar_upstream::jsonrpc::repaired;
use belljar_upstream::{Lack, Redacted, UpstreamError, in_words};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::broker::answer::Answer;
use crate::broker::failure_text::{FAILURE_CHARS_MAX, UNAVAILABLE_HINT, redact};
use crate::broker::parts::Broker;
use crate::broker::run::call_record::CallRecord;
use crate::broker::run::context::RunContext;

/// The hint for an answer that a budget does not cover.
const BUDGET_HINT: &str =
    "ask for less: a page, a filter, fewer fields; the user sets budgets in policy.toml";

impl Broker {
    /// The tool of this name or alias.
    ///
    /// # Errors
    /// The server does not have the tool. The fault names similar ones, as long as the run has compared few names.
    pub(crate) fn tool<'t>(
        &self,
        server: &'t ServerTools,
        asked: &str,
        run: &RunContext,
    ) -> Result<&'t Tool, ToolFault> {
        catalog::resolved(server.listed(), asked).ok_or_else(|| {
            let compared = run.budget().compare(server.listed().len());
            self.no_such_tool(&server.name, asked, server.unknown(asked, compared), run)
        })
    }

    /// The fault for a tool that the server does not have, or that its entry excludes.
    pub(crate) fn no_such_tool(
        &self,
        server: &ServerName,
        asked: &str,
        unknown: UnknownTool,
        run: &RunContext,
    ) -> ToolFault {
        self.kept_back(server, asked).unwrap_or_else(|| self.with_unread(server, unknown.into(), run))
    }

    /// The fault, with what of the server's messages could not be read. It counts as an answer, since the words are the server's,
    /// and is left out where the run may have no more of them.
    pub(super) fn with_unread(
        &self,
        server: &ServerName,
        mut fault: ToolFault,
        run: &RunContext,
    ) -> ToolFault {
        let catalog = self.catalog();
        let names = catalog.server(server.as_str()).map(|known| known.names());
        let names = names.unwrap_or(Names::only(server.as_str()));
        if let Some(unread) = self.shared.upstream.unread(server, Some(&run.session))
            && self.admission.answered(run, names, unread.len() as u64).is_ok()
        {
            fault.message = text::inert_line(&format!("{}; {unread}", fault.message));
        }
        fault
    }

    /// The fault for a tool that the server has and that its entry excludes.
    pub(crate) fn kept_back(&self, server: &ServerName, asked: &str) -> Option<ToolFault> {
        self.shared.tool_index.kept_back(server, asked)
    }

    /// The fault for a server that could not be reached, so that nothing was sent.
    pub(crate) fn not_connected(&self, server: &ServerName, run: &RunContext, error: &Redacted) -> ToolFault {
        let mut fault = self.fault(server, run, error, None);
        if matches!(**error, UpstreamError::Deadline { .. }) {
            fault.hint = "nothing was sent; run it again, or give the run a larger timeout".into();
            if let Some((starting, advice)) = self.still_starting(server) {
                fault.message = starting;
                fault.hint = advice.into();
            }
        }
        fault
    }

    /// A sentence that the server is still starting, and what to do; `None`: it is not.
    pub(crate) fn still_starting(&self, server: &ServerName) -> Option<(String, &'static str)> {
        let (time, was_late) = self.shared.upstream.starting(server)?;
        let server = text::inert_line(server.as_str());
        let time = time.as_secs_f64();
        let (late, advice) = match was_late {
            true => (", which were too few the last time", "the user must raise start_timeout in its entry"),
            false => ("", "run the code again"),
        };
        let starting = format!("server '{server}' is still starting (it has {time} s for that{late})");
        Some((format!("{starting}, and nothing was sent to it"), advice))
    }

    /// A server's failure as a fault for the model. The server's text in it counts as an answer, since it is content of
    /// the server too. `sent`: what the request may do; `None`: nothing was sent.
    pub(crate) fn fault(
        &self,
        server: &ServerName,
        run: &RunContext,
        error: &Redacted,
        sent: Option<ToolEffect>,
    ) -> ToolFault {
        let unread = || self.shared.upstream.unread(server, Some(&run.session));
        let unread = error.may_be_unread().then(unread).flatten();
        let unread = unread.map(|unread| format!("; {unread}")).unwrap_or_default();
        let bytes = error.bytes_of_server() + unread.len();
        if bytes > 0 {
            let catalog = self.catalog();
            let names = catalog.server(server.as_str()).map(|known| known.names());
            let names = names.unwrap_or(Names::only(server.as_str()));
            if let Err(reason) = self.admission.answered(run, names, bytes as u64) {
                let server = text::inert_line(server.as_str());
                let message = format!(
                    "server '{server}' failed, and its {bytes} bytes about that are withheld: {reason}"
                );
                let message = format!("{message}{}", error.effect(sent));
                return ToolFault::new(error.code(sent), message).hint(BUDGET_HINT);
            }
        }
        // Texts are bounded both before and after they are escaped, since escapes make them up to ten times as long. The
        // part about the effect is never cut off.
        let shown = |text: String| {
            let text = text::inert(&text::bounded(&text, FAILURE_CHARS_MAX)).into_owned();
            text::bounded(&text, FAILURE_CHARS_MAX).into_owned()
        };
        let unread = self.shared.upstream.redacted(server, unread);
        let (said, last_words) = (shown(error.to_string()), shown(error.last_words()));
        let message = format!("{said}{}{last_words}{}", error.effect(sent), shown(unread));
        let lacks = match &**error {
            UpstreamError::Refused { message, .. } => self.shared.upstream.lacks(server, message),
            other => other.lacks().to_vec(),
        };
        let hint = lacking(&lacks).unwrap_or_else(|| hint(error));
        let mut fault = ToolFault::new(error.code(sent), message).hint(hint);
        if let UpstreamError::Refused { data: Some(data), .. } = &**error {
            fault.data = Some(Box::new(data.clone()));
        }
        fault
    }

    /// Counts an answer for labels and budgets.
    ///
    /// # Errors
    /// `too_large`: a budget does not cover the answer, so code does not get it.
    pub(crate) fn count_answer(
        &self,
        record: &CallRecord,
        server: Names<'_>,
        bytes: usize,
    ) -> Result<(), ToolFault> {
        self.admission.answered(&record.run, server, bytes as u64).map_err(|reason| {
            record.withhold(&reason);
            let message = format!("the call was made, and its answer of {bytes} bytes is withheld: {reason}");
            ToolFault::new(FaultCode::TooLarge, message).hint(BUDGET_HINT)
        })
    }

    /// Removes secrets from a result by which a tool reports an error, since the model reads its text. Other results
    /// are not parsed.
    pub(super) fn without_secrets(
        &self,
        server: &ServerName,
        result: Box<RawValue>,
    ) -> Result<Answer, Redacted> {
        if !may_be_error(result.get()) {
            return Ok(Answer::Value(result));
        }
        let nonsense = |error: serde_json::Error| {
            let reason = error.to_string();
            self.shared.upstream.failure(server, UpstreamError::Nonsense { server: server.clone(), reason })
        };
        let json = repaired(result.get());
        let mut value: Value = serde_json::from_str(&json).map_err(nonsense)?;
        redact(&mut value, &|text| self.shared.upstream.redacted(server, text));
        let is_error =
            value.get("isError").is_some_and(|said| *said == true || *said == 1 || *said == "true");
        if is_error && let Some(content) = value.get_mut("content").and_then(Value::as_array_mut) {
            let said: Vec<&str> = content.iter().filter_map(|item| item.get("text")?.as_str()).collect();
            if let Some(hint) = lacking(&self.shared.upstream.lacks(server, &said.join("\n"))) {
                content.push(json!({"type": "text", "text": format!("belljar: {hint}")}));
            }
        }
        let answer = if is_error { Answer::ToolError } else { Answer::Value };
        serde_json::value::to_raw_value(&value).map(answer).map_err(nonsense)
    }
}

/// The hint for a failure of a confined server: the files and hosts that it was not given.
fn lacking(lacks: &[Lack]) -> Option<String> {
    in_words(lacks).map(|said| format!("tell the user, whose entry of the server decides: {said}"))
}

/// Whether `"isError"` with a value that means true occurs anywhere in the text.
fn may_be_error(json: &str) -> bool {
    json.match_indices(r#""isError""#).any(|(at, key)| {
        let behind = json[at + key.len()..].trim_start();
        behind.strip_prefix(':').is_some_and(|value| {
            ["true", "1", "\"true\""].iter().any(|yes| value.trim_start().starts_with(yes))
        })
    })
}

fn hint(error: &UpstreamError) -> String {
    if let withheld @ [_, ..] = error.withheld() {
        let (names, quoted) = (withheld.join(", "), withheld.iter().map(|name| format!("{name:?}")));
        let quoted = quoted.collect::<Vec<_>>().join(", ");
        return format!(
            "tell the user: belljar does not pass {names} on to this server; env_inherit = [{quoted}] in its entry does"
        );
    }
    let hint = match error {
        UpstreamError::NeedsLogin { command, .. } => return format!("the user runs: {command}"),
        UpstreamError::Handshake { is_late: true, .. } => {
            "call it again after some seconds: it may only be slow to start; the user can raise start_timeout in its entry"
        }
        UpstreamError::NotConfined { .. } => {
            "tell the user to run `belljar doctor --ask`, which says what to do"
        }
        UpstreamError::Spawn { .. } | UpstreamError::Handshake { .. } => {
            "the user must fix it; `belljar doctor` checks the configured commands and addresses"
        }
        UpstreamError::Unavailable { .. } => UNAVAILABLE_HINT,
        UpstreamError::NotAllowed { .. } => {
            "the user must give it other headers in the configuration, or log in if it has a login (belljar login)"
        }
        UpstreamError::LoginFailed { .. } => {
            "the user must correct the login in the server's entry; `belljar doctor --ask` tries it"
        }
        UpstreamError::Died { .. } => "it is started again by the next call",
        UpstreamError::SessionLost { .. } => "make the call again",
        UpstreamError::Overlong { .. } => "ask the tool for less: a page, a filter, fewer fields",
        UpstreamError::Deadline { .. } => "give the run a larger timeout",
        UpstreamError::CallTime { .. } => "the user can raise that timeout",
        _ => "",
    };
    hint.to_owned()
}

#[cfg(test)]
mod tests {
    use belljar_upstream::StderrSummary;

    use super::*;

    #[test]
    fn model_is_told_to_tell_the_user_of_a_variable_that_a_server_lacks() {
        let failed = |withheld: &[&str], is_late| UpstreamError::Handshake {
            server: ServerName::new("s").unwrap(),
            reason: "it ended".into(),
            is_late,
            stderr: StderrSummary {
                text: "KeyError".into(),
                withheld: withheld.iter().map(|&name| name.to_owned()).collect(),
                lacks: vec![],
            },
        };
        assert_eq!(
            hint(&failed(&["AWS_PROFILE"], true)),
            "tell the user: belljar does not pass AWS_PROFILE on to this server; env_inherit = [\"AWS_PROFILE\"] in its entry does"
        );
        assert!(hint(&failed(&[], false)).starts_with("the user must fix it"));
        assert!(hint(&failed(&[], true)).starts_with("call it again"));
    }
}
