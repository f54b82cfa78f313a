//! Starts, attaches, signals and kills one hardened container through an engine's API, where it moves bytes only; builds
//! and lists images.
//!
//! It knows no Python and no frames, and reads no environment: where engines may listen is told by the caller.

mod belongings;
mod choice;
mod container;
mod error;
mod find;
mod images;
mod kernel;
mod masks;
mod owner;
mod private_socket;
mod runtime;
mod usage;
mod users;

pub use belongings::Belongings;
pub use choice::Choice;
pub use container::{
    Container, ContainerOutput, CpuQuota, Folder, NotStarted, SandboxSpec, Streams, tmpfs_mib,
};
pub use error::EngineError;
pub use find::{About, Engine, EngineKind, Places, find};
pub use images::{ImageAbout, ImageBuild};
pub use kernel::{Kernel, OuterLimits};
pub use owner::{Owner, lock_path};
pub use runtime::Runtime;
pub use usage::{Usage, UsageMeter};
pub use users::User;
