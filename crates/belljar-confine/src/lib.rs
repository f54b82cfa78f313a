//! Locks processes in: a root of their own, no capabilities, Landlock and a filter of system calls. The process engine and
//! confined MCP servers use it.
//!
//! It decides nothing about what a process may see: its callers give it a plan.

mod changeable_places;
#[cfg(target_os = "linux")]
mod confined_server;
#[cfg(target_os = "linux")]
mod lock;
mod mount_list;
mod private_places;
mod remedy;
#[cfg(target_os = "linux")]
mod root;
mod server_plan;
#[cfg(target_os = "linux")]
mod signals;
mod step;
#[cfg(target_os = "linux")]
mod system_calls;

pub use changeable_places::ChangeablePlaces;
#[cfg(target_os = "linux")]
pub use confined_server::{ServeError, part_server, reap, serve_confined};
#[cfg(target_os = "linux")]
pub use lock::{FileRights, drop_capabilities, keep_capabilities, limit, restrict_files};
pub use mount_list::MountList;
pub use private_places::{LOGIN_PLACES, PlaceKind, PrivatePlaces, SecretPlaces};
pub use remedy::remedy;
#[cfg(target_os = "linux")]
pub use root::{Machine, Root, place};
pub use server_plan::{Access, Network, ServerPlan, ServerSandbox, VisiblePath, files_of_place_max};
#[cfg(target_os = "linux")]
pub use signals::{SignalQueue, open_process, release_all_streams, release_streams};
pub use step::{PROGRAM_FOLDERS, Step, StepFailure, StepKind};
#[cfg(target_os = "linux")]
pub use step::{close_others, is_first_process};
#[cfg(target_os = "linux")]
pub use system_calls::filter;
