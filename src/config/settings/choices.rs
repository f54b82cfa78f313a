//! The choices of the operator: values of settings that are words or switches.
//!
//! It reads nothing; `load` does.

/// The treatment of entries that would start this bridge as its own server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfServers {
    /// The entries are left out.
    Skip,
    /// The entries are used like others.
    Allow,
}

/// The confinement of servers whose entries do not set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxServers {
    /// Servers are confined.
    Yes,
    /// Servers run with the user's rights.
    No,
}

/// The permission of entries to run commands with `${cmd:…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowCommands {
    /// Commands run when their server is started.
    Yes,
    /// A server whose entry has a command is not used.
    No,
}

/// The treatment of the variables when a run has to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollback {
    /// The variables are restored to their values before that run.
    On,
    /// The variables are lost.
    Off,
}

/// The choice to share one bridge between the clients of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// The client's session is one of the bridge that `belljar serve` is.
    Yes,
    /// The client has a bridge of its own.
    No,
}

/// The choice to send structured content in replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StructuredContent {
    /// Replies have text and images only.
    Off,
    /// Replies have structured content in addition to the text.
    On,
}

/// The choice to record the shapes of results and show them in signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnShapes {
    /// Keys and types of results are recorded, never a value.
    On,
    /// No shapes are recorded or read.
    Off,
}

/// The amount that the audit log records of calls and runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// No records.
    Off,
    /// One line for each call and run, with a hash of a call's arguments.
    Hash,
    /// One line for each call and run, with the arguments of a call.
    Arguments,
}

/// The permission of servers to use the model of a client that offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Servers may use it; the client asks its user.
    Ask,
    /// Servers may not use it.
    Off,
}

/// The model that code may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelVia {
    /// The endpoint's model if one is set, else the client's.
    Auto,
    /// The endpoint's model.
    Endpoint,
    /// The client's model.
    Sampling,
    /// No model.
    Off,
}
