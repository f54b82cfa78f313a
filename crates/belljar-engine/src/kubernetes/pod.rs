//! The specification of a sandbox's Pod, and the safeguards that it must have.
//!
//! The API server accepts a Pod without most of these safeguards, and drops those that it does not know. So both the request
//! and the answer are checked here.

use serde_json::{Map, Value, json};

use super::super::spec::{ENVIRONMENT, SandboxSpec, User, tmpfs_mib};
use super::settings::KubernetesSettings;

/// The name of the only container.
pub(super) const CONTAINER: &str = "sandbox";
/// The bound for the files that a container can write on its node's disk, which are outside of its volumes.
const DISK: &str = "16Mi";
/// A name server that does not exist, so that no name is resolved.
const NO_NAME_SERVER: &str = "127.0.0.1";

/// The Lease that owns a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodOwner {
    pub(super) name: String,
    pub(super) uid: String,
}

/// The Pod of a sandbox.
pub(super) fn pod(
    name: &str,
    (spec, image): (&SandboxSpec, &str),
    settings: &KubernetesSettings,
    user: User,
    owner: &PodOwner,
) -> Value {
    let variables = spec.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let env: Vec<Value> = ENVIRONMENT
        .into_iter()
        .chain(variables)
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let places = tmpfs_mib(spec.memory_bytes);
    let name_of = |path: &str| path.trim_start_matches('/').replace('/', "-");
    let volumes: Vec<Value> = places
        .iter()
        .map(|(path, mib)| {
            let memory = json!({"medium": "Memory", "sizeLimit": format!("{mib}Mi")});
            json!({"name": name_of(path), "emptyDir": memory})
        })
        .collect();
    let mounts: Vec<Value> =
        places.iter().map(|(path, _)| json!({"name": name_of(path), "mountPath": path})).collect();
    let mut limits = json!({"memory": spec.memory_bytes.to_string(), "ephemeral-storage": DISK});
    if let Some(cpu) = spec.cpu {
        limits["cpu"] = json!(format!("{}m", cpu.millis));
    }
    let container = json!({
        "name": CONTAINER,
        "image": image,
        // The image's own entrypoint is not executed.
        "command": spec.command,
        "workingDir": "/tmp",
        "env": env,
        "resources": {"limits": limits, "requests": settings.resources},
        "volumeMounts": mounts,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    let mut body = json!({
        "hostUsers": false,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": [NO_NAME_SERVER]},
        "hostname": "sandbox",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": settings.node_selector,
        "tolerations": settings.tolerations,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": user.uid,
            "runAsGroup": user.gid,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    });
    if let Some(class) = &spec.oci_runtime {
        body["runtimeClassName"] = json!(class);
    }
    if let Some(secret) = &settings.pull_secret {
        body["imagePullSecrets"] = json!([{"name": secret}]);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": spec.labels,
            "ownerReferences": [{
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "name": owner.name,
                "uid": owner.uid,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": body,
    })
}

/// The safeguards that a Pod lacks, each by its place in the Pod. `asked`: the Pod as it was requested.
pub(super) fn lacking(pod: &Value, asked: &Value) -> Vec<String> {
    let exact = exact();
    let of_pod = exact.iter().filter(|(place, wanted)| pod.pointer(place) != Some(wanted));
    let user = ["/spec/securityContext/runAsUser", "/spec/securityContext/runAsGroup"];
    let is_wrong = |place: &&str| {
        let seen = pod.pointer(place).and_then(Value::as_u64).filter(|number| *number > 0);
        seen.is_none() || pod.pointer(place) != asked.pointer(place)
    };
    let limits =
        ["memory", "ephemeral-storage"].map(|name| format!("/spec/containers/0/resources/limits/{name}"));
    let missing = limits.iter().filter(|place| pod.pointer(place).is_none_or(|seen| !seen.is_string()));
    let as_asked = ["/spec/runtimeClassName", "/spec/containers/0/command", "/spec/containers/0/image"];
    let differs = |place: &&str| asked.pointer(place).is_some() && pod.pointer(place) != asked.pointer(place);
    let unwanted = UNWANTED.iter().filter(|place| pod.pointer(place).is_some_and(is_set));
    let mut found: Vec<String> = of_pod
        .map(|(place, _)| *place)
        .chain(user.into_iter().filter(is_wrong))
        .chain(unwanted.copied())
        .chain(as_asked.into_iter().filter(differs))
        .chain(missing.map(String::as_str))
        .map(str::to_owned)
        .collect();
    let list = |pod: &Value, place: &str| pod.pointer(place).and_then(Value::as_array).cloned();
    if list(pod, "/spec/containers").is_none_or(|containers| containers.len() != 1) {
        found.push("/spec/containers".to_owned());
    }
    let volumes = list(pod, "/spec/volumes").unwrap_or_default();
    if volumes.is_empty() || !volumes.iter().all(is_bounded_memory) {
        found.push("/spec/volumes".to_owned());
    }
    for place in ["/spec/volumes", "/spec/containers/0/volumeMounts"] {
        if list(pod, place).map(|seen| seen.len()) != list(asked, place).map(|wanted| wanted.len()) {
            found.push(place.to_owned());
        }
    }
    found.dedup();
    found
}

/// Places of a Pod with the only value that each may have.
fn exact() -> [(&'static str, Value); 13] {
    [
        ("/spec/hostUsers", json!(false)),
        ("/spec/automountServiceAccountToken", json!(false)),
        ("/spec/enableServiceLinks", json!(false)),
        ("/spec/dnsPolicy", json!("None")),
        ("/spec/dnsConfig", json!({"nameservers": [NO_NAME_SERVER]})),
        ("/spec/restartPolicy", json!("Never")),
        ("/spec/terminationGracePeriodSeconds", json!(0)),
        ("/spec/securityContext/runAsNonRoot", json!(true)),
        ("/spec/securityContext/seccompProfile", json!({"type": "RuntimeDefault"})),
        ("/spec/containers/0/securityContext/allowPrivilegeEscalation", json!(false)),
        ("/spec/containers/0/securityContext/privileged", json!(false)),
        ("/spec/containers/0/securityContext/readOnlyRootFilesystem", json!(true)),
        ("/spec/containers/0/securityContext/capabilities", json!({"drop": ["ALL"]})),
    ]
}

/// Places of a Pod that must have no value: they would take a safeguard away, or add a process that does not belong to belljar.
const UNWANTED: [&str; 20] = [
    "/spec/hostNetwork",
    "/spec/hostPID",
    "/spec/hostIPC",
    "/spec/shareProcessNamespace",
    "/spec/initContainers",
    "/spec/ephemeralContainers",
    "/spec/securityContext/supplementalGroups",
    "/spec/securityContext/sysctls",
    "/spec/containers/0/securityContext/runAsUser",
    "/spec/containers/0/securityContext/runAsGroup",
    "/spec/containers/0/securityContext/runAsNonRoot",
    "/spec/containers/0/securityContext/seccompProfile",
    "/spec/containers/0/securityContext/procMount",
    "/spec/containers/0/envFrom",
    "/spec/containers/0/args",
    "/spec/containers/0/lifecycle",
    "/spec/containers/0/livenessProbe",
    "/spec/containers/0/readinessProbe",
    "/spec/containers/0/startupProbe",
    "/spec/containers/0/volumeDevices",
];

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

fn is_bounded_memory(volume: &Value) -> bool {
    let kinds: Option<Vec<&String>> = volume
        .as_object()
        .map(|volume: &Map<String, Value>| volume.keys().filter(|key| *key != "name").collect());
    let is_memory = volume.pointer("/emptyDir/medium") == Some(&json!("Memory"));
    kinds.is_some_and(|kinds| kinds == ["emptyDir"])
        && is_memory
        && volume.pointer("/emptyDir/sizeLimit").is_some_and(Value::is_string)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use super::super::super::spec::CpuQuota;
    use super::*;

    fn built() -> Value {
        let spec = SandboxSpec {
            images: vec![],
            variables: vec![("TZ".into(), "UTC".into())],
            command: vec!["python3".into()],
            oci_runtime: Some("gvisor".into()),
            user: None,
            memory_bytes: 1 << 30,
            pids_max: 8,
            cpu: Some(CpuQuota { millis: 1500, optional: false }),
            open_files_max: 8,
            folders: vec![],
            labels: HashMap::from([("belljar.owner".into(), "owner-x".into())]),
            request: Duration::ZERO,
            reconnection: Duration::ZERO,
        };
        let settings = KubernetesSettings {
            pull_secret: Some("keys".into()),
            resources: [("cpu".into(), "250m".into())].into(),
            ..KubernetesSettings::default()
        };
        let owner = PodOwner { name: "lease".into(), uid: "1-2".into() };
        pod("p", (&spec, "r/i@sha256:0"), &settings, User { uid: 12_345, gid: 23_456 }, &owner)
    }

    #[test]
    fn a_pod_has_its_limits_its_places_and_its_owner() {
        let pod = built();
        assert_eq!(lacking(&pod, &pod), [""; 0]);
        let at = |place| pod.pointer(place).cloned().unwrap_or_default();
        assert_eq!(
            at("/spec/containers/0/resources"),
            json!({"limits": {"memory": "1073741824", "ephemeral-storage": DISK, "cpu": "1500m"}, "requests": {"cpu": "250m"}})
        );
        assert_eq!(
            at("/spec/volumes/4"),
            json!({"name": "dev-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}})
        );
        assert_eq!(
            at("/spec/containers/0/volumeMounts/4"),
            json!({"name": "dev-shm", "mountPath": "/dev/shm"})
        );
        assert_eq!(at("/metadata/ownerReferences/0/uid"), "1-2");
        assert_eq!(
            (at("/spec/runtimeClassName"), at("/spec/imagePullSecrets/0/name")),
            (json!("gvisor"), json!("keys"))
        );
        assert_eq!(at("/spec/containers/0/command"), json!(["python3"]));
    }

    #[test]
    fn a_pod_without_any_one_of_its_safeguards_is_found() {
        let asked = built();
        let without = |place: &str| {
            let (parent, key) = place.rsplit_once('/').unwrap();
            let mut weaker = asked.clone();
            weaker.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key).unwrap();
            weaker
        };
        let exact = exact();
        let exact = exact.iter().map(|(place, _)| *place);
        let others = [
            "/spec/securityContext/runAsUser",
            "/spec/securityContext/runAsGroup",
            "/spec/containers/0/resources/limits/memory",
            "/spec/containers/0/resources/limits/ephemeral-storage",
        ];
        for place in exact.chain(others) {
            assert_eq!(lacking(&without(place), &asked), [place]);
        }
        for place in UNWANTED {
            let (parent, key) = place.rsplit_once('/').unwrap();
            let mut weaker = asked.clone();
            weaker.pointer_mut(parent).unwrap()[key] = json!([0]);
            assert_eq!(lacking(&weaker, &asked), [place]);
        }
        let changed = |place: &str, value: Value| {
            let mut weaker = asked.clone();
            *weaker.pointer_mut(place).unwrap() = value;
            lacking(&weaker, &asked)
        };
        assert_eq!(changed("/spec/securityContext/runAsUser", json!(0)), ["/spec/securityContext/runAsUser"]);
        for volume in [json!({"name": "x", "emptyDir": {}}), json!({"name": "x", "hostPath": {"path": "/"}})]
        {
            assert_eq!(changed("/spec/volumes/0", volume), ["/spec/volumes"]);
        }
        for list in ["/spec/containers", "/spec/volumes", "/spec/containers/0/volumeMounts"] {
            let mut longer = asked.pointer(list).unwrap().as_array().unwrap().clone();
            longer.push(longer[0].clone());
            assert_eq!(changed(list, longer.into()), [list]);
        }
    }
}
