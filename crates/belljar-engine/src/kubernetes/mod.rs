//! Sandboxes as Pods of a Kubernetes cluster.
//!
//! One Lease stands for the bridge and owns its Pods, so its deletion removes them all. The streams of a sandbox are those of
//! a relay that `exec` starts in its Pod.

mod client;
mod engine;
mod errors;
mod exec;
mod fate;
mod lease;
mod pod;
mod requests;
mod settings;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use engine::KubernetesEngine;
pub(crate) use lease::remove_lease_of;
pub use settings::KubernetesSettings;
