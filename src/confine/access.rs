//! The access of a confined process to a file or folder of the machine, and how many files it may have in memory.

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

/// The largest number of files and folders in a writable place in memory of this many MiB. An empty file takes about 1
/// KiB of kernel memory, which the size of the place does not limit.
#[must_use]
pub fn files_of_place_max(mib: u64) -> u64 {
    (mib * 256).clamp(4096, 65_536)
}
