//! Ends what belljar has started, also when belljar is killed: the keeper above each server, and the guardian beside the
//! bridge.
//!
//! It starts no sandbox and no server.

mod containers;
#[cfg(target_os = "linux")]
mod descendants;
mod guardian;
mod keeper;
mod mark;
mod processes;
#[cfg(target_os = "linux")]
mod subreaper;

pub use containers::removal;
pub use containers::{SERVER_LABEL, engine_of, is_left_over, labelled};
pub use guardian::{Guardian, LINE_BYTES_MAX};
pub use keeper::{KeepError, Keeper, Token};
pub use mark::{Mark, PARENT_VARIABLE};
pub use processes::{end_marked, ticks_of_group};
#[cfg(target_os = "linux")]
pub use subreaper::{keep, keep_inside};
