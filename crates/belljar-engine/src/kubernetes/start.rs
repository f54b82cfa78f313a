//! The start of a sandbox: creates its Pod, and watches it until its container runs.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::{ContainerStateWaiting, PodCondition};
use kube_client::core::WatchEvent;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::super::error::EngineError;
use super::super::interface::{StartFailure, StartedSandbox};
use super::super::owner::{LOCKS, OWNER, SANDBOX};
use super::super::spec::{SandboxSpec, User};
use super::super::stream::resumable;
use super::client::Cluster;
use super::engine::KubernetesEngine;
use super::exec::Exec;
use super::fate::PodInstance;
use super::lease::HeldLease;
use super::pod::{CONTAINER, PodOwner, lacking, pod};
use super::requests::{CreatedPod, SeenPod, create, events, list};

/// The longest time until a Pod has a node and its image.
const PLACING: Duration = Duration::from_secs(120);
/// The pause before a watch that broke is begun again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);
/// The numbers from which the user of a sandbox is drawn.
const USERS: std::ops::RangeInclusive<u64> = 10_000..=60_000;

impl KubernetesEngine {
    pub(super) async fn started(&self, spec: &SandboxSpec) -> Result<StartedSandbox, StartFailure> {
        let not_sent = |error| StartFailure { error, may_exist: false };
        let [image] = spec.images.as_slice() else { return Err(not_sent(no_image())) };
        let owner = self.owner_of_pods(&spec.labels).await.map_err(not_sent)?;
        let user = spec.user.unwrap_or_else(|| User { uid: random_user(), gid: random_user() });
        let label = |name: &str| spec.labels.get(name).map(String::as_str).unwrap_or_default();
        let name = format!("belljar-{}-{}", label(OWNER), label(SANDBOX));
        let asked = pod(&name, (spec, image), &self.settings, user, &owner);
        refuse_weaker(&asked, &asked).map_err(not_sent)?;
        let created = create(&self.cluster, &name, &asked, &owner, spec.request).await;
        let instance = |uid| PodInstance {
            cluster: self.cluster.clone(),
            name: name.clone(),
            uid,
            request: spec.request,
        };
        let created = match created {
            Ok(created) => created,
            Err(failed) => {
                let may_exist = failed.is_open();
                if may_exist {
                    // A Pod that appears later is removed with the Lease.
                    let _logged = instance(None).delete().await;
                }
                return Err(StartFailure { error: failed.error, may_exist });
            }
        };
        let instance = instance(created.metadata.uid.clone());
        match self.running(&instance, &created, &asked, spec.request).await {
            Ok(running) => {
                let exec =
                    Exec { cluster: self.cluster.clone(), pod: name.clone(), uid: instance.uid.clone() };
                let statuses = running.status.container_statuses.unwrap_or_default();
                let python = statuses.into_iter().map(|status| status.image_id).find(|id| !id.is_empty());
                Ok(StartedSandbox {
                    streams: resumable(Arc::new(exec), spec.reconnection),
                    image: image.clone(),
                    python_id: python.map(|id| format!("{} {id}", self.cluster.address)),
                    user,
                    shared_user: None,
                    cpu: spec.cpu,
                    warnings: vec![],
                    instance: Box::new(instance),
                })
            }
            // The first failure is reported, and a second one is only logged.
            Err(error) => Err(StartFailure { may_exist: instance.delete().await.is_err(), error }),
        }
    }

    /// The Lease of the owner that these labels name, which is created with its first Pod.
    async fn owner_of_pods(&self, labels: &HashMap<String, String>) -> Result<PodOwner, EngineError> {
        let mut held = self.lease.lock().await;
        if let Some(owner) = held.as_ref().and_then(HeldLease::owner) {
            return Ok(owner.clone());
        }
        let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
        let lease = HeldLease::take(&self.cluster, label(OWNER), label(LOCKS)).await?;
        let owner = lease.owner().cloned();
        *held = Some(lease);
        owner.ok_or_else(|| EngineError::Refused {
            action: "keep the Lease",
            message: "it was deleted".into(),
        })
    }

    /// Waits until the container of a Pod runs, and checks that the Pod is the one that was asked for.
    async fn running(
        &self,
        pod: &PodInstance,
        created: &CreatedPod,
        asked: &Value,
        request: Duration,
    ) -> Result<SeenPod, EngineError> {
        refuse_weaker(&created.whole, asked)?;
        let deadline = Instant::now() + PLACING;
        let mut version = created.metadata.resource_version.clone().unwrap_or_default();
        let mut reason = "the scheduler has not looked at it yet".to_owned();
        loop {
            let seen = watch(&self.cluster, &pod.name, &version, deadline, &mut reason).await?;
            if let Some(running) = seen {
                return Ok(running);
            }
            if Instant::now() >= deadline {
                return Err(not_placed(&reason));
            }
            // The version may be too old, or the connection broke. A server that restarts is waited for.
            match list(&self.cluster, &pod.name, request).await {
                Ok((found, listed)) => {
                    version = listed;
                    let found = found.filter(|found| found.metadata.uid == pod.uid).ok_or_else(deleted)?;
                    match progress(&found)? {
                        Progress::Running => return Ok(found),
                        Progress::Waiting(why) => reason = why,
                    }
                }
                Err(failed) if failed.is_open() => reason = failed.error.to_string(),
                Err(failed) => return Err(failed.error),
            }
            sleep(WATCH_AGAIN).await;
        }
    }
}

/// Watches a Pod until its container runs; `None`: the watch ended before. `reason` gets what the Pod waits for.
async fn watch(
    cluster: &Cluster,
    name: &str,
    version: &str,
    deadline: Instant,
    reason: &mut String,
) -> Result<Option<SeenPod>, EngineError> {
    let left = deadline.duration_since(Instant::now());
    let events = match events(cluster, name, version, left).await {
        Ok(events) => events,
        // A version that is too old, or a server that restarts.
        Err(failed) if failed.status == Some(410) || failed.is_open() => return Ok(None),
        Err(failed) => return Err(failed.error),
    };
    let mut events = pin!(events);
    loop {
        let pod = match timeout_at(deadline, events.try_next()).await {
            Ok(Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)))) => pod,
            Ok(Ok(Some(WatchEvent::Deleted(_)))) => return Err(deleted()),
            Ok(Ok(Some(WatchEvent::Bookmark(_)))) => continue,
            // An expired version is an event, too.
            Ok(Ok(Some(WatchEvent::Error(_)) | None) | Err(_)) | Err(_) => return Ok(None),
        };
        match progress(&pod)? {
            Progress::Running => return Ok(Some(pod)),
            Progress::Waiting(why) => *reason = why,
        }
    }
}

/// How far a Pod has come.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// It waits for this.
    Waiting(String),
    Running,
}

/// Reasons of a waiting container that no waiting ends.
const STUCK: [&str; 8] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
];

/// The progress of a Pod.
///
/// # Errors
/// It will never run.
fn progress(pod: &SeenPod) -> Result<Progress, EngineError> {
    let SeenPod { metadata, status } = pod;
    if metadata.deletion_timestamp.is_some() {
        return Err(deleted());
    }
    let container = status.container_statuses.iter().flatten().find(|status| status.name == CONTAINER);
    let image = container.map(|container| container.image.clone()).unwrap_or_default();
    let state = container.and_then(|container| container.state.as_ref());
    if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
        let why = said(ended.reason.as_deref(), ended.message.as_deref());
        let what =
            format!("the container ended before it was ready, with exit code {}: {why}", ended.exit_code);
        return Err(failed_pod(what, "check that the image has python3 >= 3.11 in its PATH"));
    }
    if let Some("Failed" | "Succeeded") = status.phase.as_deref() {
        let why = said(status.reason.as_deref(), status.message.as_deref());
        return Err(failed_pod(
            format!("the node refused the Pod: {why}"),
            "`kubectl describe nodes` shows what is wrong",
        ));
    }
    if state.is_some_and(|state| state.running.is_some()) {
        return Ok(Progress::Running);
    }
    if let Some(ContainerStateWaiting { reason: Some(reason), message }) =
        state.and_then(|state| state.waiting.as_ref())
    {
        let why = said(Some(reason), message.as_deref());
        if !STUCK.contains(&reason.as_str()) {
            return Ok(Progress::Waiting(why));
        }
        return Err(if reason.contains("Image") {
            failed_pod(
                format!("the node cannot pull the image {image}: {why}"),
                "push the image to a registry that the nodes reach and name it in sandbox.image, or give them a Secret for \
                 it: sandbox.kubernetes.pull_secret",
            )
        } else {
            failed_pod(
                format!("the node cannot start the container: {why}"),
                "check sandbox.image and sandbox.kubernetes.runtime_class; nodes need user namespaces (Kubernetes 1.33, \
                 containerd 2.0, Linux 6.3)",
            )
        });
    }
    let is_unscheduled =
        |condition: &&PodCondition| condition.type_ == "PodScheduled" && condition.status == "False";
    Ok(Progress::Waiting(match status.conditions.iter().flatten().find(is_unscheduled) {
        Some(condition) => said(condition.reason.as_deref(), condition.message.as_deref()),
        None => "the node has not started it yet".to_owned(),
    }))
}

fn said(reason: Option<&str>, message: Option<&str>) -> String {
    [reason, message].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

fn failed_pod(what: String, remedy: &str) -> EngineError {
    EngineError::Cluster { what, remedy: remedy.to_owned() }
}

fn not_placed(reason: &str) -> EngineError {
    failed_pod(
        format!("the Pod did not run within {} s: {reason}", PLACING.as_secs()),
        "free or add a node that fits, or lower sandbox.kubernetes.resources, sandbox.memory and sandbox.cpus, or correct \
         sandbox.kubernetes.node_selector and tolerations",
    )
}

fn deleted() -> EngineError {
    failed_pod(
        "the Pod was deleted before it ran".to_owned(),
        "try again, or see who deletes it: `kubectl get events`",
    )
}

fn no_image() -> EngineError {
    failed_pod(
        "no image is named for sandboxes on the cluster".to_owned(),
        "push the image that `belljar image build` makes to a registry of the cluster, and set sandbox.image to its name \
         with its digest: REGISTRY/NAME@sha256:...",
    )
}

/// Refuses a Pod that lacks a safeguard.
fn refuse_weaker(pod: &Value, asked: &Value) -> Result<(), EngineError> {
    let lacking = lacking(pod, asked);
    if lacking.is_empty() {
        return Ok(());
    }
    Err(failed_pod(
        format!("the Pod lacks safeguards, and was refused: {}", lacking.join(", ")),
        "see which admission webhook or policy changes the Pods of this namespace, and exempt the namespace; user namespaces \
         take Kubernetes 1.33",
    ))
}

fn random_user() -> u32 {
    let random = RandomState::new().build_hasher().finish();
    let drawn = USERS.start() + random % (USERS.end() - USERS.start() + 1);
    u32::try_from(drawn).unwrap_or(u32::MAX)
}
