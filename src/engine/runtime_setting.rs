//! The operator's choice of an engine.

/// The engine that the operator has chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// Any engine, a rootless one before a rootful one.
    #[default]
    Auto,
    /// Podman.
    Podman,
    /// Docker.
    Docker,
    /// Processes of this machine, without a container engine.
    Process,
    /// The engine at this address: `unix://`, `tcp://`, `http://` or `ssh://`.
    At(String),
}
