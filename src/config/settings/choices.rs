//! What the operator chooses among: values of settings that are words or switches.
//!
//! It reads nothing; `load` does.

/// The engine that the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineChoice {
    /// The best one that answers.
    Auto,
    /// Podman, wherever it is found.
    Podman,
    /// Docker, wherever it is found.
    Docker,
    /// Processes of this machine, without a container engine.
    Process,
    /// The one at this `unix://`, `tcp://` or `ssh://` address.
    Url(String),
}

/// The user of the code inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerUser {
    /// Each sandbox has one that no other has.
    Own,
    /// A user and group by number.
    Fixed {
        /// The user, at least 1.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

/// The treatment of entries that would start this bridge as its own server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfServers {
    /// They are left out.
    Skip,
    /// They are servers as any other.
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

/// The permission of entries to run commands for their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowCommands {
    /// When their server is started.
    Yes,
    /// A server whose entry has one is not used.
    No,
}

/// The treatment of the variables when a run has to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollback {
    /// They are as before that run.
    On,
    /// They are gone.
    Off,
}

/// The choice to start the sandbox ahead of the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prewarm {
    /// Right after `initialize`.
    On,
    /// By the first run.
    Off,
}

/// The choice to send structured content in replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StructuredContent {
    /// Text and images only.
    Off,
    /// Beside the text.
    On,
}

/// The choice to learn the shapes of results and show them in signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnShapes {
    /// Their keys and types are kept, never a value.
    On,
    /// Nothing is kept or read.
    Off,
}

/// The amount that is logged about calls and runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// Nothing.
    Off,
    /// A line for each, with a hash of a call's arguments.
    Hash,
    /// The same, with the arguments.
    Arguments,
}

/// The amount of a session that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    /// Nothing.
    Off,
    /// Code, outcomes and the beginning of outputs; of calls no arguments and no results.
    Calls,
    /// These as well.
    Full,
}

/// The permission of servers to use the model of a client that offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// The client asks its user.
    Ask,
    /// Never.
    Off,
}

/// The model that code may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelVia {
    /// The endpoint where one is set, else the client's.
    Auto,
    /// The endpoint's.
    Endpoint,
    /// The client's.
    Sampling,
    /// None.
    Off,
}

/// The choice to search tools by meaning in addition to words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Semantic {
    /// When a model is installed.
    Auto,
    /// Never.
    Off,
}
