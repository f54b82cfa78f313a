//! Which engine the operator wants.

/// The engine that the operator has chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// Any, rootless before rootful.
    #[default]
    Auto,
    /// Podman.
    Podman,
    /// Docker.
    Docker,
    /// Processes of this machine, without a container engine.
    Process,
    /// The one at this address: `unix://`, `tcp://`, `http://` or `ssh://`.
    At(String),
}
