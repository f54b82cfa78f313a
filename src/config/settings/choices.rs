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

/// What becomes of entries that would start this bridge as its own server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfServers {
    /// They are left out.
    Skip,
    /// They are servers as any other.
    Allow,
}

/// Whether servers are confined whose entries do not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxServers {
    /// Servers are confined.
    Yes,
    /// Servers run with the user's rights.
    No,
}

/// Whether entries may have commands run for their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowCommands {
    /// When their server is started.
    Yes,
    /// A server whose entry has one is not used.
    No,
}

/// What becomes of the variables when a run has to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollback {
    /// They are as before that run.
    On,
    /// They are gone.
    Off,
}

/// Whether the sandbox is started ahead of the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prewarm {
    /// Right after `initialize`.
    On,
    /// By the first run.
    Off,
}

/// Whether replies carry structured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StructuredContent {
    /// Text and images only.
    Off,
    /// Beside the text.
    On,
}

/// Whether signatures say what results of tools have looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnShapes {
    /// Their keys and types are kept, never a value.
    On,
    /// Nothing is kept or read.
    Off,
}

/// What is written down of calls and runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// Nothing.
    Off,
    /// A line for each, with a hash of a call's arguments.
    Hash,
    /// The same, with the arguments.
    Arguments,
}

/// How much of sessions is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    /// Nothing.
    Off,
    /// Code, outcomes and the beginning of outputs; of calls no arguments and no results.
    Calls,
    /// These as well.
    Full,
}

/// Whether servers may ask for the model of a client that offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// The client asks its user.
    Ask,
    /// Never.
    Off,
}

/// Which model code may ask.
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

/// Whether tools are searched by meaning beside words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Semantic {
    /// When a model is installed.
    Auto,
    /// Never.
    Off,
}
