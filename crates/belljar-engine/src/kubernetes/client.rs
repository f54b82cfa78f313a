//! The connection to a cluster, as the user's kubeconfig or the Pod that belljar runs in describes it.

use std::fmt;
use std::time::Duration;

use kube_client::config::{ExecInteractiveMode, Kubeconfig, KubeconfigError};
use kube_client::{Client, Config};

use super::super::error::{EngineError, with_causes};
use super::errors::{Asked, Failed, words};

/// A namespace of a cluster.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: Client,
    /// `kubernetes://CONTEXT/NAMESPACE`.
    pub(super) address: String,
    pub(super) namespace: String,
}

/// The longest time for a connection, and for the answer to a small request.
pub(super) const ANSWER: Duration = Duration::from_secs(5);
/// The longest time for a credential plugin of the kubeconfig.
const LOGIN: Duration = Duration::from_secs(30);
const SCHEME: &str = "kubernetes://";
/// The name that stands for a context where belljar itself runs in the cluster.
const IN_CLUSTER: &str = "in-cluster";

impl Cluster {
    /// Prepares a client. No request is sent yet, but a credential plugin of the kubeconfig may run.
    ///
    /// # Errors
    /// There is no usable kubeconfig, and belljar does not run in a cluster.
    pub(super) async fn of(context: Option<&str>, namespace: Option<&str>) -> Result<Self, EngineError> {
        let context = context.map(str::to_owned);
        // A credential plugin blocks its thread.
        let connecting = tokio::task::spawn_blocking(move || {
            let (config, context) = load(context.as_deref()).map_err(|error| with_causes(&error))?;
            let of_context = config.default_namespace.clone();
            let client = Client::try_from(config).map_err(|error| words(&error))?;
            Ok((client, context, of_context))
        });
        let connected = match tokio::time::timeout(LOGIN, connecting).await {
            Ok(connected) => connected.unwrap_or_else(|error| Err(error.to_string())),
            Err(_) => Err(format!("its credential plugin did not answer within {} s", LOGIN.as_secs())),
        };
        let (client, context, of_context) = connected.map_err(|reason| EngineError::Cluster {
            what: format!("no cluster can be reached as the kubeconfig says: {reason}"),
            remedy:
                "correct the file that KUBECONFIG names (or ~/.kube/config), or sandbox.kubernetes.context; \
                     `kubectl config get-contexts` lists the contexts"
                    .into(),
        })?;
        Ok(Self::with(client, &context, namespace.unwrap_or(&of_context)))
    }

    pub(super) fn with(client: Client, context: &str, namespace: &str) -> Self {
        Self { client, address: format!("{SCHEME}{context}/{namespace}"), namespace: namespace.to_owned() }
    }

    /// The cluster at an address; `None`: it is no address of a cluster.
    pub(super) async fn at(address: &str) -> Option<Result<Self, EngineError>> {
        // The name of a context can have slashes.
        let (context, namespace) = address.strip_prefix(SCHEME)?.rsplit_once('/')?;
        Some(Self::of(Some(context), Some(namespace)).await)
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// The request was refused, or there was no usable answer in time.
    pub(super) async fn ask<T>(
        &self,
        asked: Asked,
        after: Duration,
        request: impl Future<Output = Result<T, kube_client::Error>>,
    ) -> Result<T, Failed> {
        match tokio::time::timeout(after, request).await {
            Ok(answer) => answer.map_err(|error| Failed::of(asked, (&self.address, &self.namespace), &error)),
            Err(_) => {
                Err(Failed { status: None, error: EngineError::Timeout { action: asked.action, after } })
            }
        }
    }

    /// The path of this namespace's Pods.
    pub(super) fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }
}

/// The configuration of a context, and the context's name.
fn load(context: Option<&str>) -> Result<(Config, String), KubeconfigError> {
    let (mut config, name) = match Kubeconfig::read() {
        Ok(mut file) if context != Some(IN_CLUSTER) => {
            if let Some(context) = context {
                file.current_context = Some(context.to_owned());
            }
            // Stdin belongs to the client of belljar.
            for user in file.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
                if let Some(plugin) = &mut user.exec {
                    plugin.interactive_mode = Some(ExecInteractiveMode::Never);
                }
            }
            let name = file.current_context.clone().unwrap_or_default();
            (Config::try_from(file)?, name)
        }
        read => match (Config::incluster(), read) {
            (Ok(config), _) if context.is_none_or(|context| context == IN_CLUSTER) => {
                (config, IN_CLUSTER.to_owned())
            }
            (_, Err(error)) => return Err(error),
            (_, Ok(_)) => return Err(KubeconfigError::LoadContext(IN_CLUSTER.to_owned())),
        },
    };
    config.connect_timeout = Some(ANSWER);
    Ok((config, name))
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("address", &self.address).finish_non_exhaustive()
    }
}
