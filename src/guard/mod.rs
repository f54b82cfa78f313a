//! Processes that end with the bridge, however the bridge ends: the keeper above each server, and the guardian.
//!
//! It knows no engine and no MCP: what the guardian is told is text to it, read by `app`.

mod containers;
mod guardian;
mod keeper;
mod mark;
#[cfg(target_os = "linux")]
mod subreaper;
mod tree;

pub(crate) use containers::removal;
pub use containers::{SERVER_LABEL, engine_of, is_left_over, labelled};
pub use guardian::{Guardian, LINE_BYTES_MAX};
pub use keeper::{KeepError, Keeper, Token};
pub use mark::{Mark, PARENT_VARIABLE};
#[cfg(target_os = "linux")]
pub use subreaper::{keep, keep_inside};
pub use tree::{end_marked, ticks_of_group};
