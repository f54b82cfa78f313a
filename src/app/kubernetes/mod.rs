//! `belljar kubernetes`: prints what a cluster needs for sandboxes of belljar.

use std::process::ExitCode;

use super::common::printing::to_stdout;
use crate::cli::Manifests;

/// The namespace, the rights and the isolation of sandboxes.
const NAMESPACE: &str = include_str!("namespace.yaml");
/// `belljar serve` in that namespace.
const SERVE: &str = include_str!("serve.yaml");

/// Prints the objects as YAML.
pub(super) fn manifests(arguments: &Manifests) -> ExitCode {
    let namespace = &arguments.namespace;
    let mut yaml = NAMESPACE.to_owned();
    if let (Some(image), Some(sandbox_image)) = (&arguments.image, &arguments.sandbox_image) {
        let own = format!("belljar.{namespace}.svc");
        let host = arguments.host.as_ref().unwrap_or(&own);
        yaml +=
            &SERVE.replace("$IMAGE", image).replace("$SANDBOX_IMAGE", sandbox_image).replace("$HOST", host);
    }
    to_stdout(&yaml.replace("$NAMESPACE", namespace));
    ExitCode::SUCCESS
}
