//! The Lease that stands for a bridge in the cluster and owns its Pods: its renewal, its deletion, and the deletion of those
//! whose bridges are dead.
//!
//! Garbage collection of the cluster removes the Pods of a deleted Lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_base::clock;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube_client::Api;
use kube_client::core::params::{DeleteParams, ListParams, PostParams, Preconditions};
use tokio::task::JoinHandle;

use tokio::time::MissedTickBehavior;

use super::super::error::EngineError;
use super::super::owner::{LOCKS, OWNER, Owner};
use super::client::{ANSWER, Cluster};
use super::errors::Asked;
use super::pod::PodOwner;

/// The time between two renewals.
const RENEWAL: Duration = Duration::from_secs(30);
/// How long a Lease holds without a renewal. It is longer than the restart of an API server takes.
const DURATION_S: i32 = 150;
/// How long a Lease of another machine must have expired before it is deleted, since that machine's clock may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(600);

const CREATE: Asked = Asked { action: "create the Lease", verb: "create", resource: "leases" };
const GET: Asked = Asked { action: "read the Lease", verb: "get", resource: "leases" };
const RENEW: Asked = Asked { action: "renew the Lease", verb: "update", resource: "leases" };
const DELETE: Asked = Asked { action: "delete the Lease", verb: "delete", resource: "leases" };
const LIST: Asked = Asked { action: "list Leases", verb: "list", resource: "leases" };

/// The Lease of this bridge. It is renewed as long as this value exists.
#[derive(Debug)]
pub(super) struct HeldLease {
    owner: PodOwner,
    renewing: JoinHandle<()>,
    is_gone: Arc<AtomicBool>,
}

impl HeldLease {
    /// Creates the Lease of an owner, by its id and the label of its folder of locks.
    pub(super) async fn take(cluster: &Cluster, id: &str, locks: &str) -> Result<Self, EngineError> {
        let leases = leases(cluster);
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name_of(id)),
                labels: Some(
                    [(OWNER, id), (LOCKS, locks)].map(|(key, value)| (key.into(), value.into())).into(),
                ),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(id.to_owned()),
                lease_duration_seconds: Some(DURATION_S),
                acquire_time: now(),
                renew_time: now(),
                ..LeaseSpec::default()
            }),
        };
        let created = cluster.ask(CREATE, ANSWER, leases.create(&PostParams::default(), &lease)).await;
        let lease = match created {
            // The client has sent the request twice.
            Err(failed) if failed.status == Some(409) => {
                let found = cluster.ask(GET, ANSWER, leases.get(&name_of(id))).await?;
                let holder = found.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
                if holder != Some(id) {
                    return Err(failed.error);
                }
                found
            }
            created => created?,
        };
        let owner = PodOwner {
            name: lease.metadata.name.clone().unwrap_or_default(),
            uid: lease.metadata.uid.clone().unwrap_or_default(),
        };
        let is_gone = Arc::new(AtomicBool::new(false));
        let renewing = tokio::spawn(renew(cluster.clone(), lease, Arc::clone(&is_gone)));
        Ok(Self { owner, renewing, is_gone })
    }

    /// The Lease as the owner of Pods; `None`: somebody has deleted it.
    pub(super) fn owner(&self) -> Option<&PodOwner> {
        (!self.is_gone.load(Ordering::Relaxed)).then_some(&self.owner)
    }

    /// Deletes the Lease, and so its Pods.
    pub(super) async fn delete(self, cluster: &Cluster) -> Result<(), EngineError> {
        self.renewing.abort();
        delete(cluster, &self.owner.name, Some(self.owner.uid.clone())).await
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// Deletes the Lease of a dead bridge, by the id of its owner; `None`: the address is not that of a cluster.
pub(crate) async fn remove_lease_of(address: &str, id: &str) -> Option<Result<(), EngineError>> {
    let cluster = match Cluster::at(address).await? {
        Ok(cluster) => cluster,
        Err(error) => return Some(Err(error)),
    };
    Some(delete(&cluster, &name_of(id), None).await)
}

/// Deletes the Leases of dead bridges, and returns their number. A bridge of this folder of locks is dead if nobody holds its
/// lock, another one if it has not renewed its Lease for long.
pub(super) async fn reap(cluster: &Cluster, owner: &Owner) -> Result<usize, EngineError> {
    let leases = leases(cluster);
    let found = cluster.ask(LIST, ANSWER, leases.list(&ListParams::default().labels(OWNER))).await?;
    let mut deleted = 0;
    for Lease { metadata, spec } in found.items {
        let label =
            |name: &str| metadata.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str);
        let Some(id) = label(OWNER).filter(|id| *id != owner.id()) else { continue };
        let is_dead = match label(LOCKS) == Some(owner.dir_id()) {
            true => !owner.alive(id),
            false => spec.is_some_and(|spec| has_expired(&spec)),
        };
        let (true, Some(name)) = (is_dead, &metadata.name) else { continue };
        match delete(cluster, name, metadata.uid.clone()).await {
            Ok(()) => deleted += 1,
            Err(error) => tracing::warn!(%error, lease = name, "a stale Lease stays"),
        }
    }
    Ok(deleted)
}

async fn renew(cluster: Cluster, mut lease: Lease, is_gone: Arc<AtomicBool>) {
    let leases = leases(&cluster);
    let name = lease.metadata.name.clone().unwrap_or_default();
    let mut beat = tokio::time::interval(RENEWAL);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.tick().await;
    loop {
        beat.tick().await;
        if let Some(spec) = &mut lease.spec {
            spec.renew_time = now();
        }
        // The metadata has the version and the uid, without which the server would create the Lease again.
        let renewed = cluster.ask(RENEW, ANSWER, leases.replace(&name, &PostParams::default(), &lease)).await;
        let found = match renewed {
            Err(failed) if failed.status == Some(409) => {
                let found = cluster.ask(GET, ANSWER, leases.get(&name)).await;
                if found.as_ref().is_ok_and(|found| found.metadata.uid == lease.metadata.uid) {
                    // Somebody has changed it otherwise. The next renewal has the new version.
                    beat.reset_immediately();
                }
                found
            }
            renewed => renewed,
        };
        match found {
            Ok(found) if found.metadata.uid == lease.metadata.uid => lease = found,
            Err(failed) if failed.status != Some(404) => {
                tracing::warn!(error = %failed.error, "the Lease could not be renewed");
            }
            Ok(_) | Err(_) => {
                tracing::warn!("somebody has deleted the Lease of this bridge, and so its sandboxes");
                return is_gone.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Deletes the Lease with this uid, or with this name. A Lease that does not exist is no error.
async fn delete(cluster: &Cluster, name: &str, uid: Option<String>) -> Result<(), EngineError> {
    let parameters = DeleteParams {
        preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::background()
    };
    match cluster.ask(DELETE, ANSWER, leases(cluster).delete(name, &parameters)).await {
        Err(failed) if !matches!(failed.status, Some(404 | 409)) => Err(failed.error),
        _ => Ok(()),
    }
}

fn leases(cluster: &Cluster) -> Api<Lease> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

fn name_of(id: &str) -> String {
    format!("belljar-{id}")
}

fn now() -> Option<MicroTime> {
    Timestamp::from_microsecond(clock::now().timestamp_micros()).ok().map(MicroTime)
}

/// Whether a Lease of another machine has expired for long. One without times was never renewed.
fn has_expired(spec: &LeaseSpec) -> bool {
    let Some(MicroTime(renewed)) = &spec.renew_time else { return true };
    let held = Duration::from_secs(
        u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default(),
    );
    let Some(MicroTime(now)) = now() else { return false };
    now.duration_since(*renewed).unsigned_abs() > held + CLOCKS_DIFFER && now > *renewed
}
