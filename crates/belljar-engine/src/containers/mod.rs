//! Podman and Docker, through their common API.

mod cleanup_list;
mod container;
mod engine;
mod fate;
mod find;
mod fleet;
mod images;
mod leftovers;
mod masks;
mod private_socket;
mod remote;
mod runtime;

pub use cleanup_list::CleanupList;
pub use find::EngineLocations;
pub(crate) use find::find;
pub(crate) use fleet::choose;
pub use fleet::{FleetMember, leave_out, survey};
