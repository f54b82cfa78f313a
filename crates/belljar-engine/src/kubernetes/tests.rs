//! Starts and ends of sandboxes at an API server that gives prepared answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::clock;
use kube_client::{Client, Config};
use parking_lot::Mutex as Shared;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::super::error::EngineError;
use super::super::fate::Fate;
use super::super::interface::{Engine, Instance, StartFailure, StartedSandbox};
use super::super::owner::{LOCKS, OWNER, Owner, SANDBOX, lock_path};
use super::super::spec::SandboxSpec;
use super::super::stream::Connect;
use super::client::Cluster;
use super::engine::KubernetesEngine;
use super::exec::{EXEC, Exec};
use super::fate::PodInstance;
use super::settings::KubernetesSettings;

/// The answer to a request: its status and body.
type Answer = (u16, Value);
type Requests = Arc<Shared<Vec<(String, Value)>>>;

/// An engine at a server that answers each request by its first line and its body, and the requests to it. The answer to a
/// watch is a list of events, after which the connection ends.
async fn engine(
    answer: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
) -> (KubernetesEngine, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (requests, answer) = (Requests::default(), Arc::new(answer));
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
            tokio::spawn(async move { serve(stream, &seen, &*answer).await });
        }
    });
    let mut config = Config::new(url);
    config.default_retry = false;
    let cluster = Cluster::with(Client::try_from(config).unwrap(), "c", "n");
    (KubernetesEngine { cluster, settings: KubernetesSettings::default(), lease: Mutex::default() }, requests)
}

async fn serve(
    mut stream: TcpStream,
    seen: &Requests,
    answer: &(dyn Fn(&str, &Value) -> Answer + Send + Sync),
) {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut more = [0; 4096];
        let read = stream.read(&mut more).await.unwrap();
        bytes.extend_from_slice(&more[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .to_lowercase()
            .split_once("content-length: ")
            .map_or(0, |(_, rest)| rest.lines().next().unwrap().parse::<usize>().unwrap());
        if body.len() >= length {
            break (head.to_owned(), body.to_owned());
        }
    };
    let line = head.lines().next().unwrap().replace(" HTTP/1.1", "").replace("%3D", "=");
    let body = serde_json::from_str(&body).unwrap_or_default();
    let (status, answer) = answer(&line, &body);
    seen.lock().push((line, body));
    let text = match &answer {
        Value::Array(events) => events.iter().map(|event| format!("{event}\n")).collect(),
        other => other.to_string(),
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(format!("{head}{text}").as_bytes()).await.unwrap();
}

fn spec() -> SandboxSpec {
    let labels = [(OWNER, "owner-x"), (LOCKS, "l"), (SANDBOX, "3")];
    SandboxSpec {
        images: vec!["r/i".into()],
        variables: vec![],
        command: vec!["python3".into()],
        oci_runtime: None,
        user: None,
        memory_bytes: 1 << 30,
        pids_max: 8,
        cpu: None,
        open_files_max: 8,
        folders: vec![],
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect::<HashMap<_, _>>(),
        request: Duration::from_secs(20),
        reconnection: Duration::ZERO,
    }
}

fn refusal(code: u16, message: &str) -> Answer {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "X"}))
}

fn lease() -> Answer {
    let spec = json!({"holderIdentity": "owner-x", "leaseDurationSeconds": 150});
    (
        201,
        json!({"metadata": {"name": "belljar-owner-x", "uid": "of-lease", "resourceVersion": "5"}, "spec": spec}),
    )
}

/// The Pod as a server stores it, with this status.
fn stored(asked: &Value, status: &Value) -> Value {
    let mut pod = asked.clone();
    pod["metadata"]["uid"] = json!("of-pod");
    pod["metadata"]["resourceVersion"] = json!("7");
    pod["status"] = status.clone();
    pod
}

fn seen(status: &Value) -> Value {
    let metadata = json!({"name": "belljar-owner-x-3", "uid": "of-pod", "resourceVersion": "8"});
    json!({"metadata": metadata, "status": status})
}

fn container(state: &Value) -> Value {
    let status = json!({"name": "sandbox", "image": "r/i", "imageID": "r/i@sha256:1", "ready": true, "restartCount": 0, "state": state});
    json!({"phase": "Running", "containerStatuses": [status]})
}

fn running() -> Value {
    container(&json!({"running": {}}))
}

/// The start at a server whose watch gives these events after the Pod was created, and the requests.
async fn start(events: Value) -> (Result<StartedSandbox, StartFailure>, Vec<(String, Value)>) {
    let (engine, requests) = engine(move |line, body| match line {
        line if line.starts_with("POST") && line.contains("/leases") => lease(),
        line if line.starts_with("POST") => (201, stored(body, &json!({"phase": "Pending"}))),
        line if line.contains("watch=true") => (200, events.clone()),
        line if line.starts_with("GET") => {
            (200, json!({"metadata": {"resourceVersion": "9"}, "items": [seen(&running())]}))
        }
        _ => (200, json!({})),
    })
    .await;
    let started = engine.start(&spec()).await;
    let requests = requests.lock().clone();
    (started, requests)
}

const PODS: &str = "/api/v1/namespaces/n/pods";

#[tokio::test]
async fn a_start_takes_a_lease_creates_a_pod_of_it_and_watches_it() {
    let pulled = json!({"waiting": {"reason": "ContainerCreating"}});
    let event = |status: &Value| json!({"type": "MODIFIED", "object": seen(status)});
    let (started, requests) = start(json!([event(&container(&pulled)), event(&running())])).await;
    let started = started.unwrap();
    let path =
        |(line, _): &(String, Value)| line.split_once('&').map_or(line.clone(), |(path, _)| path.to_owned());
    let asked = [
        "POST /apis/coordination.k8s.io/v1/namespaces/n/leases?",
        "POST PODS?fieldValidation=Strict",
        "GET PODS?",
    ];
    assert_eq!(requests.iter().map(path).collect::<Vec<_>>(), asked.map(|line| line.replace("PODS", PODS)));
    let pod = &requests[1].1;
    assert_eq!(pod["metadata"]["name"], "belljar-owner-x-3");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "of-lease");
    assert_eq!(requests[0].1["spec"]["holderIdentity"], "owner-x");
    assert!(requests[2].0.contains("resourceVersion=7"), "{}", requests[2].0);
    assert!((10_000..=60_000).contains(&started.user.uid), "{}", started.user);
    assert_eq!(started.python_id.as_deref(), Some("kubernetes://c/n r/i@sha256:1"));
}

#[tokio::test]
async fn a_watch_with_an_expired_version_goes_on_from_a_list() {
    let expired = json!({"type": "ERROR", "object": refusal(410, "too old").1});
    let (started, requests) = start(json!([expired])).await;
    started.unwrap();
    assert!(requests[3].0.starts_with(&format!("GET {PODS}?")), "{requests:?}");
}

#[tokio::test]
async fn a_pod_that_cannot_run_is_deleted_and_its_reason_is_said() {
    let image = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
    let ended = json!({"terminated": {"exitCode": 127, "reason": "Error"}});
    for (status, said) in [
        (container(&image), "the node cannot pull the image r/i: ImagePullBackOff: not found"),
        (container(&ended), "the container ended before it was ready, with exit code 127: Error"),
        (json!({"phase": "Failed", "reason": "NodeAffinity"}), "the node refused the Pod: NodeAffinity"),
    ] {
        let (started, requests) = start(json!([{"type": "MODIFIED", "object": seen(&status)}])).await;
        let StartFailure { error, may_exist } = started.unwrap_err();
        assert_eq!((error.to_string().as_str(), may_exist), (said, false));
        let (line, options) = requests.last().unwrap();
        assert_eq!(*line, format!("DELETE {PODS}/belljar-owner-x-3?"));
        assert_eq!(options["gracePeriodSeconds"], 0);
        assert_eq!(options["preconditions"]["uid"], "of-pod");
    }
}

#[tokio::test]
async fn a_pod_that_the_cluster_weakens_is_refused_and_deleted() {
    let (engine, requests) = engine(|line, body| match line {
        line if line.contains("/leases") => lease(),
        line if line.starts_with("POST") => {
            let mut pod = stored(body, &json!({"phase": "Pending"}));
            pod["spec"].as_object_mut().unwrap().remove("hostUsers");
            (201, pod)
        }
        _ => (200, json!({})),
    })
    .await;
    let StartFailure { error, may_exist } = engine.start(&spec()).await.unwrap_err();
    assert_eq!(error.to_string(), "the Pod lacks safeguards, and was refused: /spec/hostUsers");
    assert!(!may_exist && requests.lock().last().unwrap().0.starts_with("DELETE"));
}

#[tokio::test]
async fn a_refusal_names_the_missing_right_or_the_quota_and_a_remedy() {
    let of = async |code: u16, message: &'static str| {
        let (engine, requests) = engine(move |line, _| match line {
            line if line.contains("/leases") => lease(),
            line if line.starts_with("POST") => refusal(code, message),
            _ => (200, json!({})),
        })
        .await;
        let StartFailure { error, may_exist } = engine.start(&spec()).await.unwrap_err();
        let is_deleted = requests.lock().iter().any(|(line, _)| line.starts_with("DELETE"));
        assert_eq!(is_deleted, may_exist, "{error}");
        (error.to_string(), error.hint(), may_exist)
    };
    let right = "pods is forbidden: User \"u\" cannot create resource \"pods\" in API group \"\"";
    let (said, hint, _) = of(403, right).await;
    assert_eq!(said, format!("the user has no right to create pods in the namespace n: {right}"));
    assert!(
        hint.contains("`kubectl --namespace n create role belljar-create --verb=create --resource=pods`"),
        "{hint}"
    );
    let quota =
        "pods \"p\" is forbidden: exceeded quota: cap, requested: pods=1, used: pods=1, limited: pods=1";
    let (said, hint, _) = of(403, quota).await;
    assert_eq!(said, format!("the cluster refused to create the Pod (create pods): {quota}"));
    assert!(hint.contains("have the ResourceQuota of the namespace raised"), "{hint}");
    let (said, hint, _) = of(401, "Unauthorized").await;
    assert_eq!(said, "the cluster does not accept the login: Unauthorized");
    assert!(hint.contains("log in to the cluster again"), "{hint}");
    // The server may have carried it out.
    assert_eq!(
        of(500, "etcdserver: request timed out").await.0,
        "the engine could not create the Pod: etcdserver: request timed out (status 500)"
    );
}

#[tokio::test]
async fn a_pod_that_exists_already_is_taken_if_it_has_the_own_lease() {
    for (uid, is_own) in [("of-lease", true), ("of-another", false)] {
        let (engine, _) = engine(move |line, _| match line {
            line if line.contains("/leases") => lease(),
            // The first answer was lost.
            line if line.starts_with("POST") => refusal(409, "already exists"),
            line if line.starts_with(&format!("GET {PODS}/")) => {
                (200, json!({"metadata": {"uid": "of-pod", "ownerReferences": [{"uid": uid}]}}))
            }
            _ => (200, json!({})),
        })
        .await;
        let StartFailure { error, .. } = engine.start(&spec()).await.unwrap_err();
        // The Pod of this answer has no safeguards, which only the own one is asked for.
        let said = error.to_string();
        assert_eq!(said.starts_with("the Pod lacks safeguards"), is_own, "{said}");
    }
}

#[tokio::test]
async fn without_an_image_of_the_user_no_request_is_sent() {
    let (engine, requests) = engine(|_, _| refusal(500, "x")).await;
    let spec = SandboxSpec { images: vec!["a".into(), "b".into()], ..spec() };
    let StartFailure { error, may_exist } = engine.start(&spec).await.unwrap_err();
    assert!(error.hint().contains("set sandbox.image") && !may_exist, "{error}");
    assert!(requests.lock().is_empty());
}

#[tokio::test]
async fn an_engine_that_is_released_deletes_its_lease() {
    let (engine, requests) = engine(|line, _| match line {
        line if line.contains("/leases") => lease(),
        _ => refusal(400, "no"),
    })
    .await;
    engine.release().await;
    assert!(requests.lock().is_empty(), "there is no Lease yet");
    engine.start(&spec()).await.unwrap_err();
    engine.release().await;
    let (line, options) = requests.lock().last().unwrap().clone();
    assert_eq!(line, "DELETE /apis/coordination.k8s.io/v1/namespaces/n/leases/belljar-owner-x?");
    assert_eq!(options["preconditions"]["uid"], "of-lease");
}

#[tokio::test]
async fn a_right_that_exec_needs_is_checked_before() {
    let (engine, requests) =
        engine(|_, _| (201, json!({"metadata": {}, "spec": {}, "status": {"allowed": false}}))).await;
    let error = engine.check(EXEC).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the user has no right to create pods/exec in the namespace n: no role has it"
    );
    assert_eq!(
        requests.lock()[0].1["spec"]["resourceAttributes"],
        json!({"namespace": "n", "resource": "pods", "subresource": "exec", "verb": "create"})
    );
}

#[tokio::test]
async fn the_fate_of_a_pod_is_what_its_status_says() {
    let of = async |answer: Answer| {
        let (engine, _) = engine(move |_, _| answer.clone()).await;
        let (name, uid) = ("p".into(), Some("of-pod".into()));
        let request = Duration::from_secs(20);
        PodInstance { cluster: engine.cluster.clone(), name, uid, request }.fate().await
    };
    let ended =
        |code: i32, reason: &str| container(&json!({"terminated": {"exitCode": code, "reason": reason}}));
    let disrupted = |reason: &str| {
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
        json!({"phase": "Failed", "conditions": [condition]})
    };
    let mut deleted = seen(&running());
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-31T12:00:00Z");
    for (answer, fate) in [
        ((200, seen(&ended(137, "OOMKilled"))), Fate::OutOfMemory),
        ((200, seen(&ended(3, "Error"))), Fate::Ended(3)),
        ((200, seen(&json!({"phase": "Failed", "reason": "Evicted"}))), Fate::Evicted),
        ((200, seen(&disrupted("PreemptionByScheduler"))), Fate::Evicted),
        ((200, seen(&disrupted("DeletionByTaintManager"))), Fate::NodeGone),
        ((200, deleted), Fate::Deleted),
        (refusal(404, "not found"), Fate::Deleted),
        ((200, seen(&running())), Fate::Disconnected),
        (refusal(500, "x"), Fate::NoAnswer),
    ] {
        assert_eq!(of(answer).await, fate);
    }
}

#[tokio::test]
async fn an_api_server_that_does_not_listen_is_named() {
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let cluster = Cluster::with(Client::try_from(config).unwrap(), "c", "n");
    let engine =
        KubernetesEngine { cluster, settings: KubernetesSettings::default(), lease: Mutex::default() };
    assert!(!engine.answers().await);
    let error: EngineError = engine.about().await.unwrap_err();
    assert!(
        error.to_string().starts_with("the API server of kubernetes://c/n cannot be reached: "),
        "{error}"
    );
}

#[tokio::test]
async fn leases_of_dead_bridges_are_deleted_and_those_of_living_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    let [own, alive] = ["own", "alive"].map(|name| Owner::claim(lock_path(dir.path(), name)).unwrap());
    let of = |id: &str, locks: &str, renewed: &str| {
        let labels = json!({OWNER: id, LOCKS: locks});
        let spec = json!({"holderIdentity": id, "leaseDurationSeconds": 150, "renewTime": renewed});
        json!({"metadata": {"name": format!("belljar-{id}"), "uid": id, "labels": labels}, "spec": spec})
    };
    let now = clock::timestamp();
    let (here, old) = (own.dir_id(), "2026-01-31T12:00:00.000000Z");
    let items = json!([
        of(own.id(), here, old),
        of(alive.id(), here, old),
        of("owner-dead", here, &now),
        of("owner-elsewhere", "other", &now),
        of("owner-expired", "other", old),
    ]);
    let (engine, requests) = engine(move |line, _| match line {
        line if line.starts_with("GET") => (200, json!({"metadata": {}, "items": items.clone()})),
        _ => (200, json!({"kind": "Status", "status": "Success"})),
    })
    .await;
    assert_eq!(engine.reap(&own).await.unwrap(), 2);
    let deleted: Vec<Value> =
        requests.lock()[1..].iter().map(|(_, options)| options["preconditions"]["uid"].clone()).collect();
    assert_eq!(deleted, ["owner-dead", "owner-expired"]);
}

#[tokio::test]
async fn a_relay_that_cannot_be_started_is_tried_again_unless_the_pod_is_gone() {
    let of = async |exec: Answer, pod: Answer| {
        let (engine, _) =
            engine(move |line, _| if line.contains("/exec?") { exec.clone() } else { pod.clone() }).await;
        let uid = Some("of-pod".into());
        let exec = Exec { cluster: engine.cluster.clone(), pod: "p".into(), uid };
        exec.connect().await.unwrap_err()
    };
    let living = || (200, seen(&running()));
    for (exec, pod, is_final) in [
        // A kubelet that has just started knows no Pod.
        (refusal(404, "not found"), living(), false),
        (refusal(404, "not found"), refusal(404, "not found"), true),
        (refusal(400, "pod p does not have a host assigned"), living(), false),
        (refusal(403, "forbidden: "), living(), false),
        (refusal(500, "error dialing backend"), living(), false),
        (refusal(500, "x"), refusal(403, "x"), false),
        (refusal(500, "container not found"), (200, seen(&json!({"phase": "Failed"}))), true),
        (refusal(500, "x"), refusal(404, "not found"), true),
    ] {
        let error = of(exec, pod).await;
        assert_eq!(error.is_final, is_final, "{}", error.message);
    }
}
