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
}
