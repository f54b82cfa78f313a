//! The errors of engines, in words that tell what to do.

use std::time::Duration;

use super::spec::Choice;
use belljar_base::system::System;

/// The reason why no container engine is used.
#[derive(Debug, Clone)]
pub enum InsteadOf {
    /// No engine answers.
    NoEngine {
        /// Each possible place, with the reason why it was not used.
        tried: Vec<String>,
    },
    /// An engine answers, but has no image for sandboxes.
    NoImage {
        /// The engine.
        engine: &'static str,
        /// The names of the missing images.
        names: Vec<String>,
    },
}

impl InsteadOf {
    /// The notice in the first reply.
    #[cfg(target_os = "linux")]
    pub(super) fn notice(&self) -> String {
        let why = match self {
            Self::NoEngine { .. } => "no Podman or Docker answers".to_owned(),
            Self::NoImage { engine, .. } => {
                format!("{engine} has no image for sandboxes, which `belljar image build` builds")
            }
        };
        format!(
            "{why}, so sandboxes are processes of this machine; MCP_BRIDGE_RUNTIME=process names this engine and \
             silences the notice"
        )
    }
}

impl From<InsteadOf> for EngineError {
    fn from(reason: InsteadOf) -> Self {
        match reason {
            InsteadOf::NoEngine { tried } => Self::NoEngine { tried, choice: Choice::Auto, is_named: false },
            InsteadOf::NoImage { names, .. } => Self::ImageMissing { names },
        }
    }
}

/// A failure of an engine, or of a request to it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No engine answered at any place.
    #[error("no container engine is running ({})", if tried.is_empty() { "no socket found".into() } else { tried.join("; ") })]
    NoEngine {
        /// Each place, with the reason why it was not used.
        tried: Vec<String>,
        /// The engines that the operator accepts.
        choice: Choice,
        /// Whether environment variables name an engine, so that no other engine was looked for.
        is_named: bool,
    },
    /// This machine does not allow a process to be confined as a sandbox.
    #[error("this machine does not allow sandboxes without a container engine: {what}")]
    Unconfined {
        /// The step that failed.
        what: String,
        /// The remedy for the user.
        remedy: String,
    },
    /// A setting needs a container engine.
    #[error("{what} is asked for, which takes Podman or Docker")]
    TakesContainers {
        /// The setting.
        what: String,
    },
    /// The machine has no Python for sandboxes without a container engine.
    #[error("{what}")]
    NoPython {
        /// The wanted Python, and those that were found.
        what: String,
        /// The remedy for the user.
        remedy: String,
    },
    /// The packages for sandboxes without a container engine cannot be used.
    #[error("{what}")]
    Environment {
        /// The packages, and the reason.
        what: String,
        /// The remedy for the user.
        remedy: String,
    },
    /// A cluster cannot be used as it is.
    #[error("{what}")]
    Cluster {
        /// What is wrong.
        what: String,
        /// The remedy for the user.
        remedy: String,
    },
    /// Neither a container engine nor this machine itself can run sandboxes.
    #[error("{containers}, and {processes}")]
    Neither {
        /// The reason why no container engine can be used.
        containers: Box<EngineError>,
        /// The reason why this machine cannot be used.
        processes: Box<EngineError>,
    },
    /// None of the images exists.
    #[error("the sandbox image is missing: {}", names.join(", "))]
    ImageMissing {
        /// The names of these images.
        names: Vec<String>,
    },
    /// The engine uses another OCI runtime than the requested one.
    #[error("Podman's service starts containers with the OCI runtime {}, not with {wanted}", has.as_deref().unwrap_or("of its configuration"))]
    RuntimeIgnored {
        /// The requested runtime.
        wanted: String,
        /// The runtime that the engine uses.
        has: Option<String>,
    },
    /// The engine refused a request.
    #[error("the engine could not {action}: {message}")]
    Refused {
        /// The request.
        action: &'static str,
        /// The engine's words.
        message: String,
    },
    /// A request failed, and it is unknown whether the engine carried it out.
    #[error("the engine could not {action}: {message}")]
    Request {
        /// The request.
        action: &'static str,
        /// The reason why there was no usable answer.
        message: String,
    },
    /// A request was not answered in time.
    #[error("the engine did not {action} within {} s", after.as_secs())]
    Timeout {
        /// The request.
        action: &'static str,
        /// The allowed time.
        after: Duration,
    },
    /// The lock that marks this bridge's containers as in use could not be created.
    #[error("cannot make the owner lock in {dir}: {source}")]
    OwnerLock {
        /// The folder.
        dir: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

impl EngineError {
    /// The remedy for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Neither { containers, processes } => {
                format!("{}; without a container engine: {}", containers.hint(), processes.hint())
            }
            Self::TakesContainers { .. } => {
                "unset it, or have a container engine used: install one with `sudo apt-get install podman` (or your \
                 distribution's way) and set MCP_BRIDGE_RUNTIME=auto"
                    .into()
            }
            Self::Unconfined { remedy, .. }
            | Self::NoPython { remedy, .. }
            | Self::Environment { remedy, .. }
            | Self::Cluster { remedy, .. } => remedy.clone(),
            Self::NoEngine { choice: Choice::At(_), .. } => {
                "start the engine there (`systemctl --user start podman.socket` for rootless Podman), or correct \
                 MCP_BRIDGE_RUNTIME, or unset it to have an engine looked for"
                    .into()
            }
            Self::NoEngine { is_named: true, .. } => {
                "start the engine there, or correct CONTAINER_HOST or DOCKER_HOST, whichever names it, or unset it to have \
                 an engine looked for"
                    .into()
            }
            Self::NoEngine { choice: Choice::Docker, .. } => {
                "start Docker (`systemctl --user start docker` where it is rootless, `sudo systemctl start docker`, or \
                 Docker Desktop), or unset MCP_BRIDGE_RUNTIME to have Podman looked for as well"
                    .into()
            }
            Self::NoEngine { .. } => System::HERE.engine_remedy().into(),
            Self::ImageMissing { .. } => {
                "build it with `belljar image build`, or pull any image with python3 >= 3.11 and name it: \
                 `podman pull docker.io/library/python:3.14-slim` (or `docker pull ...`), MCP_BRIDGE_IMAGE=..."
                    .into()
            }
            Self::Refused { message, .. } if message.contains("executable file") && message.contains("python3") => {
                "the image has no python3: build one with `belljar image build`, or name another: MCP_BRIDGE_IMAGE=..."
                    .into()
            }
            Self::Refused { message, .. } if message.to_lowercase().contains("unknown") && message.contains("runtime") => {
                "add this OCI runtime to the engine's configuration (Docker: `runtimes` in daemon.json), or correct \
                 MCP_BRIDGE_OCI_RUNTIME, or unset it for the engine's default"
                    .into()
            }
            Self::RuntimeIgnored { wanted, .. } => format!(
                "set `runtime = \"{wanted}\"` below [engine] in containers.conf and restart Podman's service, or use Docker, or \
                 unset MCP_BRIDGE_OCI_RUNTIME for the engine's default"
            ),
            Self::Refused { .. } | Self::Request { .. } | Self::Timeout { .. } => {
                "`belljar doctor` checks the engine; restarting it often helps".into()
            }
            Self::OwnerLock { .. } => "make that folder writable for you, or set XDG_RUNTIME_DIR".into(),
        }
    }

    pub(super) fn request(action: &'static str, error: &bollard::errors::Error) -> Self {
        match error {
            bollard::errors::Error::DockerResponseServerError { status_code, message } => {
                Self::Refused { action, message: format!("{message} (status {status_code})") }
            }
            other => Self::Request { action, message: with_causes(other) },
        }
    }
}

pub(super) fn is_not_found(error: &bollard::errors::Error) -> bool {
    matches!(error, bollard::errors::Error::DockerResponseServerError { status_code: 404, .. })
}

/// Podman 4.3 answers so when an image is removed while it lists them.
pub(super) fn is_removed_meanwhile(error: &bollard::errors::Error) -> bool {
    matches!(error, bollard::errors::Error::DockerResponseServerError { status_code: 500, message } if message.contains("image not known"))
}

/// The text of an error with its causes, since the errors of HTTP clients say little themselves.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_engine_is_found_the_command_that_brings_one_is_said() {
        let hint = |choice| EngineError::NoEngine { tried: vec![], choice, is_named: false }.hint();
        for choice in [Choice::Auto, Choice::Podman] {
            assert_eq!(hint(choice), System::HERE.engine_remedy());
        }
        assert!(hint(Choice::Docker).starts_with("start Docker ("));
        let named = EngineError::NoEngine { tried: vec![], choice: Choice::Auto, is_named: true };
        assert!(named.hint().contains("correct CONTAINER_HOST or DOCKER_HOST"), "{}", named.hint());
        assert!(
            hint(Choice::At(vec!["unix:///x".into()])).contains("correct MCP_BRIDGE_RUNTIME, or unset it")
        );
    }
}
