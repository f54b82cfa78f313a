//! What an engine guarantees about its sandboxes.

/// What an engine guarantees about each of its sandboxes. The posture of a sandbox that has started is judged against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantees {
    /// Paths of /proc and /sys that code cannot see.
    pub masked_paths: Vec<&'static str>,
    /// Folders of the machine whose programs the sandbox uses, and that code can read. Nothing can be written there.
    pub program_folders: Vec<&'static str>,
    /// Places where the engine mounts something that was not requested. With /proc or /sys, places below it are included.
    pub added_mounts: &'static [&'static str],
    /// Those of these places that code could write to by their modes, and that are neither shut nor bounded. Landlock alone keeps
    /// code from them.
    pub open_mounts: &'static [&'static str],
    /// Whether nothing can be executed in writable places, and neither set-user-ID bits nor device files work there. If not,
    /// Landlock alone keeps code from executing files there, and a library can be loaded from there.
    pub shut_places: bool,
    /// Whether no other process of the machine has the user of a sandbox, unless the operator names the user. The kernel's
    /// limit of a user's processes bounds the sandbox then, and no cgroup has to.
    pub own_users: bool,
    /// How the sandbox is kept from networks.
    pub network: Network,
    /// The kinds that each descriptor of the first process can have, in the order of their numbers. There are no others.
    pub streams: [&'static [&'static str]; 3],
}

/// How a sandbox is kept from networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// It has no interface but the loopback.
    NoInterface,
    /// It has the interface of a Pod. The system call filter, Landlock and the policies of the cluster deny its use, and
    /// nothing answers to the first process.
    Denied,
}
