//! What processes are locked in with: a root of their own, and the loss of capabilities, files and system calls.
//!
//! It starts nothing and decides nothing: the process engine has sandboxes made of it.

#[cfg(target_os = "linux")]
mod lock;
mod remedy;
#[cfg(target_os = "linux")]
mod root;
mod step;
#[cfg(target_os = "linux")]
mod system_calls;

#[cfg(target_os = "linux")]
pub use lock::{drop_capabilities, keep_capabilities, limit, restrict_files};
pub use remedy::remedy;
#[cfg(target_os = "linux")]
pub use root::{Access, Machine, Root, place};
#[cfg(target_os = "linux")]
pub use step::close_others;
pub use step::{Failed, PROGRAM_FOLDERS, Step};
#[cfg(target_os = "linux")]
pub use system_calls::filter;
