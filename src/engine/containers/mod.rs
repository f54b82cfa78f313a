//! Podman and Docker, through their common API.

mod belongings;
mod container;
mod engine;
mod find;
mod images;
mod leftovers;
mod masks;
mod private_socket;
mod runtime;

pub use belongings::Belongings;
pub use find::{Places, find};
