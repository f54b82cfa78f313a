//! The access of a confined process to a file or folder of the machine.

use serde::{Deserialize, Serialize};

/// The rights of a confined process to the files of a folder, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// The process reads the files.
    Read,
    /// The process reads and executes the files.
    Execute,
    /// The process reads, executes and changes the files. Other processes do not see its changes, which end with it.
    Layer,
    /// The process reads and changes the files.
    Write,
    /// The process reads, changes and executes the files.
    Change,
}
