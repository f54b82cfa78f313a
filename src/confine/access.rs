//! What can be done with a file or folder of the machine that a confined process sees.

use serde::{Deserialize, Serialize};

/// What a confined process may do with the files of a folder, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// The process reads the files.
    Read,
    /// The process reads and executes the files.
    Execute,
    /// The process reads, executes and changes the files. Nobody else sees its changes, and they end with it.
    Layer,
    /// The process reads and changes the files.
    Write,
    /// The process reads, changes and executes the files.
    Change,
}
