//! What can be done with a file or folder of the machine that a confined process sees.

use serde::{Deserialize, Serialize};

/// From the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// Its files are read.
    Read,
    /// They are read and executed.
    Execute,
    /// They are read and executed, and what the process changes is seen by nobody else and ends with it.
    Layer,
    /// They are read and changed.
    Write,
    /// They are read, changed and executed.
    Change,
}
