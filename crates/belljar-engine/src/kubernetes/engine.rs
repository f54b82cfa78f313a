//! A namespace of a cluster, as an engine of sandboxes.

use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube_client::Api;
use kube_client::core::params::PostParams;
use tokio::sync::Mutex;

use super::super::error::EngineError;
use super::super::guarantees::{Guarantees, Network};
use super::super::interface::{Engine, EngineInfo, StartFailure, StartedSandbox};
use super::super::owner::Owner;
use super::super::spec::SandboxSpec;
use super::client::{ANSWER, Cluster};
use super::errors::{Asked, no_right};
use super::exec::EXEC;
use super::lease::{HeldLease, reap};
use super::settings::KubernetesSettings;

/// Starts sandboxes as Pods.
#[derive(Debug)]
pub struct KubernetesEngine {
    pub(super) cluster: Cluster,
    pub(super) settings: KubernetesSettings,
    /// The Lease of this bridge, once it was needed.
    pub(super) lease: Mutex<Option<HeldLease>>,
}

/// What it takes to reach a sandbox: older API servers ask for one, newer ones for both.
const EXEC_RIGHTS: [Asked; 2] = [EXEC, Asked { verb: "get", ..EXEC }];
const REVIEW: Asked = Asked { action: "review rights", verb: "create", resource: "selfsubjectaccessreviews" };
const ABOUT: Asked = Asked { action: "report its version", verb: "get", resource: "/version" };

/// Places where the kubelet or the runtime of a node (containerd, CRI-O) mounts something by itself.
const ADDED_MOUNTS: [&str; 20] = [
    "/dev",
    "/dev/full",
    "/dev/mqueue",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/termination-log",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/proc",
    "/run/.containerenv",
    "/sys",
    "/sys/fs/cgroup",
];
/// Those of them that any user can write to. Nothing but Landlock keeps code from that.
const OPEN_MOUNTS: [&str; 2] = ["/dev/mqueue", "/dev/termination-log"];
/// The paths that each usual runtime of a node masks. A Pod can request no others. Only newer runtimes mask /proc/interrupts.
const MASKED_PATHS: [&str; 11] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

impl KubernetesEngine {
    /// Connects to the cluster of these settings.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or the API server does not answer.
    pub(crate) async fn connect(settings: &KubernetesSettings) -> Result<Self, EngineError> {
        let cluster = Cluster::of(settings.context.as_deref(), settings.namespace.as_deref()).await?;
        let engine = Self { cluster, settings: settings.clone(), lease: Mutex::default() };
        engine.version().await?;
        for right in EXEC_RIGHTS {
            engine.check(right).await?;
        }
        Ok(engine)
    }

    /// Checks a right that an API server does not name when it refuses a request for lack of it.
    pub(super) async fn check(&self, asked: Asked) -> Result<(), EngineError> {
        let (resource, subresource) = asked.resource.split_once('/').unwrap_or((asked.resource, ""));
        let attributes = ResourceAttributes {
            namespace: Some(self.cluster.namespace.clone()),
            verb: Some(asked.verb.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: Some(subresource.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.cluster.client.clone());
        let reviewed =
            self.cluster.ask(REVIEW, ANSWER, reviews.create(&PostParams::default(), &review)).await;
        match reviewed {
            Ok(SelfSubjectAccessReview { status: Some(status), .. }) if !status.allowed => {
                Err(no_right(asked, &self.cluster.namespace, status.reason.as_deref().unwrap_or_default()))
            }
            // A cluster without reviews refuses the request itself later.
            _ => Ok(()),
        }
    }

    async fn version(&self) -> Result<String, EngineError> {
        let version = self.cluster.ask(ABOUT, ANSWER, self.cluster.client.apiserver_version()).await?;
        Ok(version.git_version)
    }
}

impl Engine for KubernetesEngine {
    fn address(&self) -> &str {
        &self.cluster.address
    }

    fn answers(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.version().await.is_ok() })
    }

    fn about(&self) -> BoxFuture<'_, Result<EngineInfo, EngineError>> {
        Box::pin(async {
            let name = format!("kubernetes {}", self.version().await?);
            Ok(EngineInfo { name, is_containers: true, runtime: None })
        })
    }

    fn processors(&self, _: Duration) -> BoxFuture<'_, Option<u64>> {
        Box::pin(ready(None))
    }

    fn outlives_bridge(&self) -> bool {
        true
    }

    fn is_here(&self) -> bool {
        false
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            masked_paths: MASKED_PATHS.to_vec(),
            program_folders: vec![],
            added_mounts: &ADDED_MOUNTS,
            open_mounts: &OPEN_MOUNTS,
            shut_places: false,
            own_users: true,
            network: Network::Denied,
            streams: [&["null"], &["pipe"], &["pipe"]],
        }
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<StartedSandbox, StartFailure>> {
        Box::pin(self.started(spec))
    }

    fn reap<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<usize, EngineError>> {
        Box::pin(async {
            let deleted = reap(&self.cluster, owner).await?;
            owner.sweep();
            Ok(deleted)
        })
    }

    fn release(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(lease) = self.lease.lock().await.take()
                && let Err(error) = lease.delete(&self.cluster).await
            {
                tracing::warn!(%error, "the Lease of this bridge stays until it expires");
            }
        })
    }
}
