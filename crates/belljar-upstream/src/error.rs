//! The errors of servers.

use std::time::Duration;

use belljar_base::names::ServerName;
use belljar_base::run::{CallState, FaultCode, ToolEffect};
use serde_json::Value;

use super::confinement::{Lack, in_words};

/// A failure to start a server, or of one request to it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UpstreamError {
    /// No such server is configured.
    #[error("Server '{server}' is not available")]
    Unknown {
        /// The name.
        server: ServerName,
    },
    /// The server's configuration cannot be used. Nothing was started.
    #[error("server '{server}' is configured, but {reason}")]
    Unavailable {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
    },
    /// The server's program could not be started.
    #[error("server '{server}' could not be started: {reason}")]
    Spawn {
        /// The server.
        server: ServerName,
        /// The system's error.
        reason: String,
    },
    /// The server cannot be confined as its entry says. It was not started.
    #[error("server '{server}' could not be confined, and was not started: {reason}")]
    NotConfined {
        /// The server.
        server: ServerName,
        /// The failed step, or the problem with the entry.
        reason: String,
        /// A hint for the user. [`Self::advice`] returns it; the error's text does not have it.
        remedy: Option<String>,
    },
    /// The server started but did not become usable.
    #[error("server '{server}' did not start: {reason}{}", stderr_note(stderr))]
    Handshake {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
        /// Whether it only took longer than its `start_timeout`.
        is_late: bool,
        /// The server's stderr.
        stderr: StderrSummary,
    },
    /// The request did not reach the server, so nothing was done.
    #[error("server '{server}' could not be asked: {reason}")]
    NotReached {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
    },
    /// The server no longer knew the session that the request named. Nothing was done, and there is a new session.
    #[error("server '{server}' no longer knew its session ({reason}), and has a new one")]
    SessionLost {
        /// The server.
        server: ServerName,
        /// The server's words.
        reason: String,
    },
    /// The server requires credentials, or rejects those that were sent. Nothing was done.
    #[error("server '{server}' wants other credentials: {reason}")]
    NotAllowed {
        /// The server.
        server: ServerName,
        /// The server's words.
        reason: String,
    },
    /// The server wants a login. Nothing was done.
    #[error("server '{server}' needs a login ({reason}); the user runs: {command}")]
    NeedsLogin {
        /// The server.
        server: ServerName,
        /// The reason why there is no usable login.
        reason: String,
        /// The command by which the user logs in.
        command: String,
    },
    /// The server wants a login, and the bridge's own login has failed. Nothing was done.
    #[error("server '{server}' could not be logged in to: {reason}")]
    LoginFailed {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
    },
    /// The server has no time for the request, and names the time when it may be sent again.
    #[error("server '{server}' has no time for this: {reason}")]
    Busy {
        /// The server.
        server: ServerName,
        /// The server's words, and the time that it names.
        reason: String,
        /// The time after which it may be sent again; `None`: the server names none in seconds.
        after: Option<Duration>,
        /// Whether nothing was done, as HTTP 429 says. Otherwise that is unknown.
        was_refused: bool,
    },
    /// The connection broke before the answer. It is unknown whether the call took effect.
    #[error("server '{server}' gave no answer: {reason}")]
    Broken {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
    },
    /// The server ended during the request. It is unknown whether the call took effect.
    #[error("server '{server}' ended while it worked on this call")]
    Died {
        /// The server.
        server: ServerName,
        /// The server's stderr.
        stderr: StderrSummary,
    },
    /// The server's answer exceeded the bound and was dropped. It is unknown whether the call took effect.
    #[error("server '{server}' answered with more than {bytes_max} bytes")]
    Overlong {
        /// The server.
        server: ServerName,
        /// The bound, in bytes.
        bytes_max: usize,
    },
    /// The server does not offer the resources or prompts that the request is about. Nothing was sent.
    #[error("server '{server}' offers no {what}")]
    NotOffered {
        /// The server.
        server: ServerName,
        /// The name of the missing feature: `resources` or `prompts`.
        what: &'static str,
    },
    /// The server answered with a JSON-RPC error.
    #[error("server '{server}' refused: {message}{}", data_note(data.as_ref()))]
    Refused {
        /// The server.
        server: ServerName,
        /// The server's words.
        message: String,
        /// The `data` of its error, within bounds.
        data: Option<Value>,
    },
    /// The server did not answer in time. The request was cancelled there.
    #[error("server '{server}' did not answer in time")]
    Deadline {
        /// The server.
        server: ServerName,
    },
    /// The server did not answer within the time that its entry allows for a call. The request was cancelled there.
    #[error("server '{server}' did not answer within the {} s that it has for a call (timeout in {set_in})", time.as_secs_f64())]
    CallTime {
        /// The server.
        server: ServerName,
        /// The allowed time.
        time: Duration,
        /// The place of the setting.
        set_in: String,
    },
    /// The caller cancelled, and the request was cancelled at the server.
    #[error("the call of server '{server}' was cancelled")]
    Cancelled {
        /// The server.
        server: ServerName,
    },
    /// The server's answer is no result of a call.
    #[error("server '{server}' answered with something unexpected: {reason}")]
    Nonsense {
        /// The server.
        server: ServerName,
        /// The problem with the answer.
        reason: String,
    },
    /// The bridge is shutting down.
    #[error("the bridge is shutting down")]
    Closing,
}

/// The last output of a server to stderr, without secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StderrSummary {
    /// The text, on one line.
    pub text: String,
    /// The variables in the text that the bridge has and does not pass on to the server.
    pub withheld: Vec<String>,
    /// The files and hosts that the confined server lacks.
    pub lacks: Vec<Lack>,
}

impl UpstreamError {
    /// The code of the fault. The message about the call and its count follow from the code alone. `sent`: what
    /// the request may do; `None`: nothing was sent.
    #[must_use]
    pub fn code(&self, sent: Option<ToolEffect>) -> FaultCode {
        match self {
            Self::Unknown { .. } | Self::Unavailable { .. } => FaultCode::ServerUnavailable,
            _ if sent.is_none() => FaultCode::ServerNotStarted,
            Self::Spawn { .. }
            | Self::NotConfined { .. }
            | Self::Handshake { .. }
            | Self::NeedsLogin { .. } => FaultCode::ServerNotStarted,
            Self::NotReached { .. }
            | Self::SessionLost { .. }
            | Self::NotAllowed { .. }
            | Self::LoginFailed { .. }
            | Self::Busy { was_refused: true, .. } => FaultCode::NotMade,
            Self::Busy { was_refused: false, .. }
            | Self::Died { .. }
            | Self::Broken { .. }
            | Self::Overlong { .. }
            | Self::Nonsense { .. } => FaultCode::ServerFailed,
            Self::NotOffered { .. } => FaultCode::UnknownTool,
            Self::Refused { .. } => FaultCode::ToolError,
            Self::Deadline { .. } | Self::CallTime { .. } => FaultCode::Deadline,
            Self::Cancelled { .. } | Self::Closing => FaultCode::Cancelled,
        }
    }

    /// What is known of the request's effect, to follow the error's text. A request that only reads has none.
    #[must_use]
    pub fn effect(&self, sent: Option<ToolEffect>) -> &'static str {
        let code = self.code(sent);
        match (code.end_of_call(), sent) {
            (CallState::Unknown, Some(ToolEffect::MayWrite)) => "; whether the call took effect is unknown",
            _ if code == FaultCode::NotMade => "; the call was not made",
            _ => "",
        }
    }

    /// The last words of a server that has ended, to follow the error's text.
    #[must_use]
    pub fn last_words(&self) -> String {
        match self {
            Self::Died { stderr, .. } => stderr_note(stderr),
            _ => String::new(),
        }
    }

    /// How long to wait before the request may be sent once more: nothing was done, or it only reads.
    pub(super) fn retry_after(&self, only_reads: bool) -> Option<Duration> {
        match self {
            Self::Busy { after, was_refused, .. } if *was_refused || only_reads => *after,
            Self::SessionLost { .. } if only_reads => Some(Duration::ZERO),
            _ => None,
        }
    }

    /// The same error with other texts from the server: each is what `changed` makes of it.
    pub(super) fn with_texts(mut self, changed: &dyn Fn(String) -> String) -> Self {
        let change = |text: &mut String| *text = changed(std::mem::take(text));
        match &mut self {
            Self::Unavailable { reason, .. }
            | Self::Spawn { reason, .. }
            | Self::NotConfined { reason, .. }
            | Self::NotReached { reason, .. }
            | Self::SessionLost { reason, .. }
            | Self::NotAllowed { reason, .. }
            | Self::LoginFailed { reason, .. }
            | Self::Busy { reason, .. }
            | Self::Broken { reason, .. }
            | Self::Nonsense { reason, .. } => change(reason),
            Self::Handshake { reason, stderr, .. } => [reason, &mut stderr.text].into_iter().for_each(change),
            Self::NeedsLogin { reason, command, .. } => [reason, command].into_iter().for_each(change),
            Self::Died { stderr, .. } => change(&mut stderr.text),
            Self::Refused { message, data, .. } => {
                change(message);
                *data = data.take().map(|data| with_json_texts(data, changed));
            }
            Self::Unknown { .. }
            | Self::Overlong { .. }
            | Self::NotOffered { .. }
            | Self::Deadline { .. }
            | Self::CallTime { .. }
            | Self::Cancelled { .. }
            | Self::Closing => {}
        }
        self
    }

    /// The variables that the failed server named, and that the bridge has and does not pass on to it.
    #[must_use]
    pub fn withheld(&self) -> &[String] {
        match self {
            Self::Handshake { stderr, .. } | Self::Died { stderr, .. } => &stderr.withheld,
            _ => &[],
        }
    }

    /// The files and hosts that the failed server lacks, if it is confined.
    #[must_use]
    pub fn lacks(&self) -> &[Lack] {
        match self {
            Self::Handshake { stderr, .. } | Self::Died { stderr, .. } => &stderr.lacks,
            _ => &[],
        }
    }

    /// Advice on how to give the server the rights or variables that it lacks; `set_in` is the place of its entry.
    #[must_use]
    pub fn advice(&self, set_in: &str) -> Option<String> {
        if let Self::NotConfined { remedy, .. } = self {
            return remedy.as_ref().map(|remedy| format!("{remedy} ({set_in})"));
        }
        if let Some(said) = in_words(self.lacks()) {
            return Some(format!("{said}; its entry is {set_in}"));
        }
        let names = self.withheld();
        let list = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| {
            format!(
                "{} {} set where belljar runs and not passed on to this server; to pass on what it needs, add the key \
                 env_inherit with [{list}] to its entry ({set_in})",
                names.join(", "),
                if names.len() == 1 { "is" } else { "are" },
            )
        })
    }

    /// Whether the reason may be a message of the server that could not be read.
    #[must_use]
    pub fn may_be_unread(&self) -> bool {
        matches!(
            self,
            Self::Handshake { .. } | Self::Died { .. } | Self::Deadline { .. } | Self::CallTime { .. }
        )
    }

    /// The number of bytes in the error's text that may come from the server. It is 0 only if none of them do.
    #[must_use]
    pub fn bytes_of_server(&self) -> usize {
        match self {
            Self::Refused { message, data, .. } => message.len() + data_note(data.as_ref()).len(),
            // Reasons quote the server: texts of refusals, origins of redirects, names in certificates, values of the
            // wrong type.
            Self::NotReached { reason, .. }
            | Self::Busy { reason, .. }
            | Self::SessionLost { reason, .. }
            | Self::Broken { reason, .. }
            | Self::Nonsense { reason, .. }
            | Self::NotAllowed { reason, .. }
            | Self::NeedsLogin { reason, .. }
            | Self::LoginFailed { reason, .. } => reason.len(),
            Self::Handshake { reason, stderr, .. } => reason.len() + stderr.text.len(),
            Self::Died { stderr, .. } => stderr.text.len(),
            _ => 0,
        }
    }
}

fn stderr_note(stderr: &StderrSummary) -> String {
    if stderr.text.is_empty() { String::new() } else { format!("; its last words: {}", stderr.text) }
}

/// JSON with other texts and keys.
fn with_json_texts(json: Value, changed: &dyn Fn(String) -> String) -> Value {
    match json {
        Value::String(text) => Value::String(changed(text)),
        Value::Array(items) => items.into_iter().map(|item| with_json_texts(item, changed)).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members.map(|(key, member)| (changed(key), with_json_texts(member, changed))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => json,
    }
}

fn data_note(data: Option<&Value>) -> String {
    data.map(|data| format!("; data: {data}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_in_an_error_is_counted_and_our_own_words_are_not() {
        let (server, words) = (ServerName::new("s").unwrap(), "12345".to_owned());
        let of = |error: UpstreamError| error.bytes_of_server();
        let stderr = StderrSummary { text: words.clone(), ..StderrSummary::default() };
        let refused = |data| UpstreamError::Refused { server: server.clone(), message: words.clone(), data };
        assert_eq!(
            (of(refused(None)), of(refused(Some("12345".into())))),
            (5, 5 + "; data: \"12345\"".len())
        );
        assert_eq!(of(UpstreamError::NotAllowed { server: server.clone(), reason: words.clone() }), 5);
        assert_eq!(of(UpstreamError::Died { server: server.clone(), stderr: stderr.clone() }), 5);
        let reason = words.clone();
        assert_eq!(
            of(UpstreamError::Handshake { server: server.clone(), reason, is_late: false, stderr }),
            10
        );
        assert_eq!(of(UpstreamError::Broken { server: server.clone(), reason: words.clone() }), 5);
        assert_eq!(of(UpstreamError::Nonsense { server: server.clone(), reason: words.clone() }), 5);
        assert_eq!(of(UpstreamError::NotReached { server: server.clone(), reason: words }), 5);
        assert_eq!(of(UpstreamError::Deadline { server }), 0);
    }

    /// Every variant, each once. A new one does not compile until it has a place here.
    fn all() -> Vec<UpstreamError> {
        let (server, reason) = (ServerName::new("s").unwrap(), "why".to_owned());
        let stderr = StderrSummary::default();
        let first = UpstreamError::Unknown { server: server.clone() };
        let next = |error: &UpstreamError| {
            let (server, reason) = (server.clone(), reason.clone());
            Some(match error {
                UpstreamError::Unknown { .. } => UpstreamError::Unavailable { server, reason },
                UpstreamError::Unavailable { .. } => UpstreamError::Spawn { server, reason },
                UpstreamError::Spawn { .. } => UpstreamError::NotConfined { server, reason, remedy: None },
                UpstreamError::NotConfined { .. } => {
                    UpstreamError::Handshake { server, reason, is_late: true, stderr: stderr.clone() }
                }
                UpstreamError::Handshake { .. } => UpstreamError::NotReached { server, reason },
                UpstreamError::NotReached { .. } => UpstreamError::SessionLost { server, reason },
                UpstreamError::SessionLost { .. } => UpstreamError::NotAllowed { server, reason },
                UpstreamError::NotAllowed { .. } => {
                    UpstreamError::NeedsLogin { server, reason, command: "belljar login s".into() }
                }
                UpstreamError::NeedsLogin { .. } => UpstreamError::LoginFailed { server, reason },
                UpstreamError::LoginFailed { .. } => {
                    UpstreamError::Busy { server, reason, after: None, was_refused: true }
                }
                UpstreamError::Busy { was_refused: true, .. } => {
                    UpstreamError::Busy { server, reason, after: None, was_refused: false }
                }
                UpstreamError::Busy { was_refused: false, .. } => UpstreamError::Broken { server, reason },
                UpstreamError::Broken { .. } => UpstreamError::Died { server, stderr: stderr.clone() },
                UpstreamError::Died { .. } => UpstreamError::Overlong { server, bytes_max: 1 },
                UpstreamError::Overlong { .. } => UpstreamError::NotOffered { server, what: "prompts" },
                UpstreamError::NotOffered { .. } => {
                    UpstreamError::Refused { server, message: reason, data: None }
                }
                UpstreamError::Refused { .. } => UpstreamError::Deadline { server },
                UpstreamError::Deadline { .. } => {
                    UpstreamError::CallTime { server, time: Duration::from_secs(1), set_in: reason }
                }
                UpstreamError::CallTime { .. } => UpstreamError::Cancelled { server },
                UpstreamError::Cancelled { .. } => UpstreamError::Nonsense { server, reason },
                UpstreamError::Nonsense { .. } => UpstreamError::Closing,
                UpstreamError::Closing => return None,
            })
        };
        std::iter::successors(Some(first), next).collect()
    }

    #[test]
    fn words_code_and_count_of_every_failure_agree_on_whether_the_call_was_made() {
        let all = all();
        assert_eq!(all.len(), 22);
        for error in all {
            for sent in [None, Some(ToolEffect::Reads), Some(ToolEffect::MayWrite)] {
                let said = format!("{error}{}", error.effect(sent));
                let (not_made, unknown) = (said.contains("was not made"), said.contains("effect is unknown"));
                let end = error.code(sent).end_of_call();
                assert!(!not_made || end == CallState::Refused, "{said}: {end:?}");
                let expected = end == CallState::Unknown && sent == Some(ToolEffect::MayWrite);
                assert_eq!(unknown, expected, "{said}: {end:?}");
                assert!(sent.is_some() || end == CallState::Refused, "{said}: {end:?}");
            }
        }
    }

    #[test]
    fn advice_names_the_key_and_the_entry_for_the_user() {
        let died = |withheld: &[&str]| UpstreamError::Died {
            server: ServerName::new("s").unwrap(),
            stderr: StderrSummary {
                text: "x".into(),
                withheld: withheld.iter().map(|&name| name.to_owned()).collect(),
                lacks: vec![],
            },
        };
        assert_eq!(died(&[]).advice("servers.s of /c.toml"), None);
        assert_eq!(
            died(&["AWS_PROFILE", "AWS_REGION"]).advice("servers.s of /c.toml").unwrap(),
            "AWS_PROFILE, AWS_REGION are set where belljar runs and not passed on to this server; to pass on what it needs, \
             add the key env_inherit with [\"AWS_PROFILE\", \"AWS_REGION\"] to its entry (servers.s of /c.toml)"
        );
    }
}
