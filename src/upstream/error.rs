//! The errors of servers.

use std::time::Duration;

use super::confinement::{Lack, in_words};
use crate::names::ServerName;

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
    #[error("server '{server}' could not be asked: {reason}; the call was not made")]
    NotReached {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
    },
    /// The server requires credentials, or rejects those that were sent. Nothing was done.
    #[error("server '{server}' wants other credentials: {reason}; the call was not made")]
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
    #[error("server '{server}' could not be logged in to: {reason}; the call was not made")]
    LoginFailed {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
    },
    /// The connection broke before the answer. It is unknown whether the call took effect.
    #[error("server '{server}' gave no answer: {reason}; whether the call took effect is unknown")]
    Broken {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
    },
    /// The server ended during the request. It is unknown whether the call took effect.
    #[error(
        "server '{server}' ended while it worked on this call; whether the call took effect is unknown{}",
        stderr_note(stderr)
    )]
    Died {
        /// The server.
        server: ServerName,
        /// The server's stderr.
        stderr: StderrSummary,
    },
    /// The server's answer exceeded the bound and was dropped. It is unknown whether the call took effect.
    #[error(
        "server '{server}' answered with more than {bytes_max} bytes; whether the call took effect is unknown"
    )]
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
    #[error("server '{server}' refused: {message}")]
    Refused {
        /// The server.
        server: ServerName,
        /// The server's words.
        message: String,
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

    /// The number of bytes in the error's text that may come from the server. It is 0 only if none of them do.
    #[must_use]
    pub fn bytes_of_server(&self) -> usize {
        match self {
            Self::Refused { message, .. } => message.len(),
            // Reasons quote the server: texts of refusals, origins of redirects, names in certificates, values of the
            // wrong type.
            Self::NotReached { reason, .. }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_in_an_error_is_counted_and_our_own_words_are_not() {
        let (server, words) = (ServerName::new("s").unwrap(), "12345".to_owned());
        let of = |error: UpstreamError| error.bytes_of_server();
        let stderr = StderrSummary { text: words.clone(), ..StderrSummary::default() };
        assert_eq!(of(UpstreamError::Refused { server: server.clone(), message: words.clone() }), 5);
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
