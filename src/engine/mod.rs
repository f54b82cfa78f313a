//! Starts hardened sandboxes through an engine, passes on the bytes of their streams, and kills them. It also builds
//! and lists images.
//!
//! It does not interpret frames or the code that runs. It reads no environment variables: the caller names the places
//! where engines may be.

mod containers;
mod error;
mod find;
mod images;
mod interface;
mod kernel;
mod masks;
mod owner;
mod processes;
mod spec;
mod usage;
mod users;

pub use containers::{CleanupList, EngineLocations};
pub use error::EngineError;
pub use find::{find, find_images};
pub use images::{ImageBuild, ImageInfo, ImageStore};
pub use interface::{Engine, EngineInfo, Instance, Output, Runtime, StartFailure, StartedSandbox, Streams};
pub use kernel::{Kernel, OuterLimits};
pub use owner::{Owner, lock_path};
#[cfg(target_os = "linux")]
pub use processes::{begin, enter};
pub use spec::Choice;
pub use spec::{CpuQuota, Folder, SandboxSpec, User, tmpfs_mib};
pub use usage::{Usage, UsageMeter};
