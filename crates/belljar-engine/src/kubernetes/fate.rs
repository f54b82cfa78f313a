//! A Pod that runs a sandbox: what became of it, and its deletion.

use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use k8s_openapi::api::core::v1::PodStatus;
use tokio::time::sleep;

use super::super::error::EngineError;
use super::super::fate::{FATE_REQUEST, Fate};
use super::super::interface::Instance;
use super::super::kernel::OuterLimits;
use super::super::usage::UsageMeter;
use super::client::Cluster;
use super::pod::CONTAINER;
use super::requests::{SeenPod, delete, get};

/// A Pod that was created, which must be closed.
#[derive(Debug)]
pub(super) struct PodInstance {
    pub(super) cluster: Cluster,
    pub(super) name: String,
    /// Distinguishes it from another Pod of this name; `None`: it is not known.
    pub(super) uid: Option<String>,
    /// The longest time of a request.
    pub(super) request: Duration,
}

/// How often a Pod is looked at: a node reports the end of a container some time after its streams have ended.
const LOOKS: usize = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl PodInstance {
    /// Deletes the Pod at once.
    pub(super) async fn delete(&self) -> Result<(), EngineError> {
        delete(&self.cluster, &self.name, self.uid.clone(), self.request).await.inspect_err(|error| {
            tracing::warn!(%error, pod = self.name, "a Pod stays until the Lease of its bridge is deleted");
        })
    }

    async fn look(&self) -> Fate {
        match get::<SeenPod>(&self.cluster, &self.name, FATE_REQUEST).await {
            Ok(pod) if pod.metadata.uid == self.uid => fate(&pod),
            Ok(_) => Fate::Deleted,
            Err(failed) if failed.status == Some(404) => Fate::Deleted,
            Err(_) => Fate::NoAnswer,
        }
    }
}

impl Instance for PodInstance {
    fn meter(&self) -> BoxFuture<'_, Option<UsageMeter>> {
        Box::pin(ready(None))
    }

    fn outer_limits(&self) -> BoxFuture<'_, OuterLimits> {
        Box::pin(ready(OuterLimits::default()))
    }

    fn fate(&mut self) -> BoxFuture<'_, Fate> {
        Box::pin(async {
            let mut fate = self.look().await;
            for _ in 1..LOOKS {
                if fate != Fate::Disconnected {
                    break;
                }
                sleep(LOOK_AGAIN).await;
                fate = self.look().await;
            }
            fate
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), EngineError>> {
        Box::pin(async move { self.delete().await })
    }
}

/// The fate of a Pod, as its status says it.
fn fate(pod: &SeenPod) -> Fate {
    let PodStatus { reason, conditions, container_statuses, .. } = &pod.status;
    let disruption = conditions.iter().flatten().find(|condition| condition.type_ == "DisruptionTarget");
    let disruption = disruption.filter(|condition| condition.status == "True");
    let disrupted_by = disruption.and_then(|condition| condition.reason.as_deref());
    match disrupted_by.or(reason.as_deref()) {
        Some("DeletionByTaintManager" | "DeletionByPodGC" | "NodeLost") => return Fate::NodeGone,
        Some(
            "Evicted"
            | "EvictionByEvictionAPI"
            | "PreemptionByScheduler"
            | "Preempting"
            | "TerminationByKubelet"
            | "NodeShutdown"
            | "Terminated",
        ) => return Fate::Evicted,
        _ => {}
    }
    let container = container_statuses.iter().flatten().find(|status| status.name == CONTAINER);
    let ended = container.and_then(|container| container.state.as_ref()?.terminated.as_ref());
    match ended {
        Some(ended) if ended.reason.as_deref() == Some("OOMKilled") => Fate::OutOfMemory,
        Some(_) | None if pod.metadata.deletion_timestamp.is_some() => Fate::Deleted,
        Some(ended) => Fate::Ended(ended.exit_code.into()),
        None => Fate::Disconnected,
    }
}
