//! The Python runtime that is streamed into the sandbox, embedded so that both ends are always of one version.

use std::collections::BTreeMap;

use crate::protocol::bundle_line;

/// Passed to `python3 -c`: reads the bundle and runs it.
pub const BOOTSTRAP: &str = include_str!("../../../entrypoint/bootstrap.py");

/// The module whose `main()` becomes PID 1.
const MAIN: &str = "belljar_sandbox.boot.main";

/// The first line towards a new sandbox: all files of the runtime.
#[must_use]
pub fn bundle() -> Vec<u8> {
    // The list is made by build.rs.
    let files = include!(concat!(env!("OUT_DIR"), "/runtime_files.rs"));
    bundle_line(&BTreeMap::from(files), MAIN)
}
