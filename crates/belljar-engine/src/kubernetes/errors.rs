//! Failed requests to an API server, in words that tell what to do.

use kube_client::Error;
use kube_client::client::AuthError;
use kube_client::core::Status;

use super::super::error::{EngineError, with_causes};

/// A kind of request, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The words after "could not".
    pub(super) action: &'static str,
    /// The right that it takes.
    pub(super) verb: &'static str,
    /// The resource that the right is about.
    pub(super) resource: &'static str,
}

/// A request that failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// The HTTP status; `None`: there was no answer.
    pub(super) status: Option<u16>,
    pub(super) error: EngineError,
}

impl From<Failed> for EngineError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

impl Failed {
    pub(super) fn of(asked: Asked, (address, namespace): (&str, &str), error: &Error) -> Self {
        match error {
            Error::Api(status) => {
                Self { status: Some(status.code), error: refused(asked, namespace, status) }
            }
            Error::SerdeError(_) | Error::FromUtf8(_) | Error::UpgradeConnection(_) => Self {
                status: None,
                error: EngineError::Request { action: asked.action, message: with_causes(error) },
            },
            Error::Auth(_) => Self { status: None, error: no_login(&words(error)) },
            other => Self { status: None, error: unreachable(address, &with_causes(other)) },
        }
    }

    /// Whether the API server may carry out the request nevertheless.
    pub(super) fn is_open(&self) -> bool {
        self.status.is_none_or(|status| status >= 500)
    }
}

/// The words of an error without those of a credential plugin, which can have secrets in its arguments, variables and output.
pub(super) fn words(error: &Error) -> String {
    match error {
        Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            format!("its credential plugin failed ({})", out.status)
        }
        Error::Auth(AuthError::AuthExecParse(_)) => {
            "its credential plugin answered with no credentials".to_owned()
        }
        other => with_causes(other),
    }
}

fn no_login(message: &str) -> EngineError {
    EngineError::Cluster {
        what: format!("the cluster does not accept the login: {message}"),
        remedy: "log in to the cluster again, or correct the user of this context in the kubeconfig; \
                 `kubectl auth whoami` tries it"
            .into(),
    }
}

fn unreachable(address: &str, message: &str) -> EngineError {
    EngineError::Cluster {
        what: format!("the API server of {address} cannot be reached: {message}"),
        remedy:
            "check the address of the cluster in the kubeconfig, and the network; `kubectl version` tries it"
                .into(),
    }
}

/// The error for a right that is missing.
pub(super) fn no_right(asked: Asked, namespace: &str, message: &str) -> EngineError {
    let Asked { verb, resource, .. } = asked;
    let message = if message.is_empty() { "no role has it" } else { message };
    EngineError::Cluster {
        what: format!("the user has no right to {verb} {resource} in the namespace {namespace}: {message}"),
        remedy: format!(
            "have somebody with the right run `kubectl --namespace {namespace} create role belljar-{verb} --verb={verb} \
             --resource={resource}`, and bind that role to this user"
        ),
    }
}

/// The error for an answer that is no success.
fn refused(asked: Asked, namespace: &str, status: &Status) -> EngineError {
    let Asked { action, verb, resource } = asked;
    let Status { message, code, .. } = status;
    let remedy = match code {
        401 => return no_login(message),
        403 if message.contains("exceeded quota") || message.contains("failed quota") => {
            "wait until other Pods have ended, have the ResourceQuota of the namespace raised, or lower sandbox.memory, \
             sandbox.cpus and sandbox.kubernetes.resources"
                .to_owned()
        }
        403 if message.contains("cannot ") || message.ends_with("forbidden: ") => {
            return no_right(asked, namespace, message);
        }
        403 | 422 | 400 => "change what the cluster objects to: sandbox.kubernetes, or its admission rules for the \
                            namespace"
            .to_owned(),
        404 if message.contains("namespaces ") => {
            "create the namespace, or correct sandbox.kubernetes.namespace".to_owned()
        }
        429 | 500.. => {
            return EngineError::Request { action, message: format!("{message} (status {code})") };
        }
        _ => return EngineError::Refused { action, message: format!("{message} (status {code})") },
    };
    let message = if message.is_empty() { "forbidden" } else { message.trim() };
    EngineError::Cluster {
        what: format!("the cluster refused to {action} ({verb} {resource}): {message}"),
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{ExitStatus, Output};

    use super::*;

    #[test]
    fn nothing_that_a_credential_plugin_has_or_writes_is_in_an_error() {
        let secret = || b"s3cret".to_vec();
        let out = Output { status: ExitStatus::from_raw(3 << 8), stdout: secret(), stderr: secret() };
        let cmd = "TOKEN=\"s3cret\" \"login\" \"--secret=s3cret\"".to_owned();
        let error = Error::Auth(AuthError::AuthExecRun { cmd, out: Box::new(out) });
        let asked = Asked { action: "read the Pod", verb: "get", resource: "pods" };
        let said = Failed::of(asked, ("kubernetes://c/n", "n"), &error).error.to_string();
        assert!(said.contains("its credential plugin failed (exit status: 3)"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}
