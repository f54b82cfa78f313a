//! What can go wrong with an engine, in words that say what to do.

use std::time::Duration;

use super::choice::Choice;

/// A failure of the engine or of what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No engine answered at any of the places.
    #[error("no container engine is running ({})", if tried.is_empty() { "no socket found".into() } else { tried.join("; ") })]
    NoEngine {
        /// Each place and why it did not serve.
        tried: Vec<String>,
        /// Which ones the operator would take.
        choice: Choice,
        /// Whether variables name one, so that no other was looked for.
        is_named: bool,
    },
    /// This machine does not let a process be confined as sandboxes are.
    #[error("this machine does not allow sandboxes without a container engine: {what}")]
    Unconfined {
        /// What failed.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// What is asked for is there with containers only.
    #[error("{what} is asked for, which takes Podman or Docker")]
    TakesContainers {
        /// Which setting.
        what: String,
    },
    /// The machine has no Python that sandboxes without a container engine can have.
    #[error("{what}")]
    NoPython {
        /// What was looked for, and what was found.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The packages for sandboxes without a container engine cannot be used.
    #[error("{what}")]
    Environment {
        /// Which, and why.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// Neither a container engine nor this machine itself can make sandboxes.
    #[error("{containers}, and {processes}")]
    Neither {
        /// Why no container engine serves.
        containers: Box<EngineError>,
        /// Why this machine does not serve.
        processes: Box<EngineError>,
    },
    /// None of the images is there.
    #[error("the sandbox image is missing: {}", names.join(", "))]
    ImageMissing {
        /// The names looked for.
        names: Vec<String>,
    },
    /// The engine uses another OCI runtime than the one that is asked for.
    #[error("Podman's service starts containers with the OCI runtime {}, not with {wanted}", has.as_deref().unwrap_or("of its configuration"))]
    RuntimeIgnored {
        /// The runtime that is asked for.
        wanted: String,
        /// The engine's own.
        has: Option<String>,
    },
    /// The engine would not do what it was asked for.
    #[error("the engine could not {action}: {message}")]
    Refused {
        /// What was asked.
        action: &'static str,
        /// The engine's words.
        message: String,
    },
    /// A request failed, and whether the engine did what it was asked for is not known.
    #[error("the engine could not {action}: {message}")]
    Request {
        /// What was asked.
        action: &'static str,
        /// Why there was no answer that says so.
        message: String,
    },
    /// A request was not answered in time.
    #[error("the engine did not {action} within {} s", after.as_secs())]
    Timeout {
        /// What was asked.
        action: &'static str,
        /// The bound.
        after: Duration,
    },
    /// The lock that marks this bridge's containers as in use could not be made.
    #[error("cannot make the owner lock in {dir}: {source}")]
    OwnerLock {
        /// The folder.
        dir: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl EngineError {
    /// What the user can do about it.
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
            Self::Unconfined { remedy, .. } | Self::NoPython { remedy, .. } | Self::Environment { remedy, .. } => {
                remedy.clone()
            }
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
            Self::NoEngine { .. } if cfg!(target_os = "macos") => {
                "start one: `podman machine start`, or open Docker Desktop; to install Podman: `brew install podman`"
                    .into()
            }
            Self::NoEngine { .. } => {
                "install one with `sudo apt-get install podman` (or your distribution's way), or start it with \
                 `systemctl --user start podman.socket`; `belljar doctor` shows what was tried"
                    .into()
            }
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

/// An error with what caused it: HTTP clients say little themselves.
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
        let install =
            if cfg!(target_os = "macos") { "brew install podman" } else { "sudo apt-get install podman" };
        for choice in [Choice::Auto, Choice::Podman] {
            assert!(hint(choice.clone()).contains(&format!("`{install}`")), "{}", hint(choice));
        }
        assert!(hint(Choice::Docker).starts_with("start Docker ("));
        let named = EngineError::NoEngine { tried: vec![], choice: Choice::Auto, is_named: true };
        assert!(named.hint().contains("correct CONTAINER_HOST or DOCKER_HOST"), "{}", named.hint());
        assert!(hint(Choice::At("unix:///x".into())).contains("correct MCP_BRIDGE_RUNTIME, or unset it"));
    }
}
