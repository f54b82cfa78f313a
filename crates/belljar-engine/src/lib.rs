//! Starts, watches and kills one hardened sandbox: one interface, implemented with Podman and Docker, with processes of this
//! machine, and with Pods of a cluster. It also builds, lists and removes images.
//!
//! It does not read what the sandbox says: `belljar-protocol` does.

mod containers;
mod error;
mod fate;
mod find;
mod guarantees;
mod images;
mod interface;
mod kernel;
mod kubernetes;
mod masks;
mod owner;
#[cfg(target_os = "linux")]
mod processes;
pub mod recipe;
mod spec;
mod stream;
mod usage;
mod users;

pub use containers::{CleanupList, EngineLocations, FleetMember, leave_out, survey};
pub use error::EngineError;
pub use fate::Fate;
pub use find::{find, find_images};
pub use guarantees::{Guarantees, Network};
pub use images::{ImageBuild, ImageInfo, ImageProgress, ImageStore, OnProgress};
pub use interface::{Engine, EngineInfo, Instance, Output, Runtime, StartFailure, StartedSandbox, Streams};
pub use kernel::{Kernel, OuterLimits};
pub use kubernetes::KubernetesSettings;
pub use owner::{Owner, lock_path};
#[cfg(target_os = "linux")]
pub use processes::{begin, enter};
pub use spec::Choice;
pub use spec::{CpuQuota, Folder, SandboxSpec, User, tmpfs_mib};
pub use usage::{Usage, UsageMeter};
