//! The requests about one Pod.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::Request;
use k8s_openapi::api::core::v1::PodStatus;
use kube_client::Error;
use kube_client::core::params::{DeleteParams, GetParams, ListParams, Preconditions, WatchParams};
use kube_client::core::{ListMeta, ObjectMeta, Request as Path, WatchEvent};
use serde::Deserialize;
use serde_json::Value;

use super::super::error::EngineError;
use super::client::Cluster;
use super::errors::{Asked, Failed};
use super::pod::PodOwner;

const CREATE: Asked = Asked { action: "create the Pod", verb: "create", resource: "pods" };
const WATCH: Asked = Asked { action: "watch the Pod", verb: "watch", resource: "pods" };
const LIST: Asked = Asked { action: "find the Pod", verb: "list", resource: "pods" };
const DELETE: Asked = Asked { action: "delete the Pod", verb: "delete", resource: "pods" };
const GET: Asked = Asked { action: "read the Pod", verb: "get", resource: "pods" };

/// The parts of a Pod that are read. Its specification is left out.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SeenPod {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) status: PodStatus,
}

#[derive(Deserialize)]
struct SeenPods {
    metadata: ListMeta,
    items: Vec<SeenPod>,
}

/// A Pod that was created.
pub(super) struct CreatedPod {
    pub(super) metadata: ObjectMeta,
    /// All of it, as the server has stored it.
    pub(super) whole: Value,
}

/// Creates a Pod with this owner.
pub(super) async fn create(
    cluster: &Cluster,
    name: &str,
    asked: &Value,
    owner: &PodOwner,
    after: Duration,
) -> Result<CreatedPod, Failed> {
    let unusable = |error: &dyn std::error::Error| Failed {
        status: None,
        error: EngineError::Request { action: CREATE.action, message: error.to_string() },
    };
    // Otherwise a misspelt safeguard would be dropped.
    let request = Request::post(format!("{}?fieldValidation=Strict", cluster.pods()))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(asked.to_string().into_bytes())
        .map_err(|error| unusable(&error))?;
    let whole: Value = match cluster.ask(CREATE, after, cluster.client.request(request)).await {
        // The client sends a request again if the first answer is lost.
        Err(failed) if failed.status == Some(409) => {
            // A quota that several requests change at once is a conflict, too.
            let found: Value = match get(cluster, name, after).await {
                Err(none) if none.status == Some(404) => return Err(failed),
                found => found?,
            };
            let uid = found.pointer("/metadata/ownerReferences/0/uid").and_then(Value::as_str);
            if uid != Some(&owner.uid) {
                return Err(failed);
            }
            found
        }
        created => created?,
    };
    let metadata = whole.get("metadata").cloned().unwrap_or_default();
    let metadata = serde_json::from_value(metadata).map_err(|error| unusable(&error))?;
    Ok(CreatedPod { metadata, whole })
}

/// A Pod, or a part of it.
pub(super) async fn get<T: for<'de> Deserialize<'de>>(
    cluster: &Cluster,
    name: &str,
    after: Duration,
) -> Result<T, Failed> {
    let request = async {
        let request = Path::new(cluster.pods()).get(name, &GetParams::default());
        cluster.client.request(request.map_err(Error::BuildRequest)?).await
    };
    cluster.ask(GET, after, request).await
}

/// The Pod of this name, and the version of the list, from which a watch can go on.
pub(super) async fn list(
    cluster: &Cluster,
    name: &str,
    after: Duration,
) -> Result<(Option<SeenPod>, String), Failed> {
    let request = async {
        let request =
            Path::new(cluster.pods()).list(&ListParams::default().fields(&format!("metadata.name={name}")));
        cluster.client.request(request.map_err(Error::BuildRequest)?).await
    };
    let found: SeenPods = cluster.ask(LIST, after, request).await?;
    Ok((found.items.into_iter().next(), found.metadata.resource_version.unwrap_or_default()))
}

/// Deletes a Pod at once. A Pod that does not exist, or that has another uid, is no error.
pub(super) async fn delete(
    cluster: &Cluster,
    name: &str,
    uid: Option<String>,
    after: Duration,
) -> Result<(), EngineError> {
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::default()
    };
    let request = async {
        let request = Path::new(cluster.pods()).delete(name, &parameters);
        cluster.client.request_text(request.map_err(Error::BuildRequest)?).await
    };
    match cluster.ask(DELETE, after, request).await {
        Err(failed) if !matches!(failed.status, Some(404 | 409)) => Err(failed.error),
        _ => Ok(()),
    }
}

/// The events about a Pod after this version.
pub(super) async fn events(
    cluster: &Cluster,
    name: &str,
    version: &str,
    after: Duration,
) -> Result<BoxStream<'static, Result<WatchEvent<SeenPod>, Error>>, Failed> {
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let opening = async {
        let request = Path::new(cluster.pods()).watch(&parameters, version);
        let events = cluster.client.request_events::<SeenPod>(request.map_err(Error::BuildRequest)?).await?;
        Ok(events.boxed())
    };
    cluster.ask(WATCH, after, opening).await
}
