//! The settings of the operator for sandboxes on a cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The cluster, and what each Pod gets there. The image and the limits are those of all engines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesSettings {
    /// The context of the kubeconfig; `None`: its current context, or the cluster that belljar itself runs in.
    pub context: Option<String>,
    /// The namespace; `None`: that of the context.
    pub namespace: Option<String>,
    /// The labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// The taints of nodes that Pods tolerate, as a Pod has them.
    pub tolerations: Vec<Map<String, Value>>,
    /// The RuntimeClass, which can give each sandbox a kernel of its own; `None`: the cluster's default.
    pub runtime_class: Option<String>,
    /// The Secret with which the image is pulled; `None`: none.
    pub pull_secret: Option<String>,
    /// What a node must have left for a Pod, such as `cpu` and `memory`; what is not named is requested up to its limit.
    pub resources: BTreeMap<String, String>,
}
