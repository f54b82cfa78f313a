"""Drives the stand-in for a cluster with kubectl and with the Kubernetes client for Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes import client
from kubernetes import watch as untyped_watch
from kubernetes.stream import stream as untyped_stream

from cluster import NAMESPACE, Cluster, pod, until

watch: Any = untyped_watch
stream: Any = untyped_stream
STDIN = 0


def run(cluster: Cluster, body: dict[str, Any], phases: tuple[str, ...] = ("Running",)) -> Any:
    """Creates a Pod and watches it until it is in one of the phases; returns it."""
    core = cluster.core()
    created = core.create_namespaced_pod(NAMESPACE, body)
    selected = {"field_selector": f"metadata.name={created.metadata.name}", "timeout_seconds": 30}
    version = created.metadata.resource_version
    watcher = watch.Watch()
    found = None
    for change in watcher.stream(core.list_namespaced_pod, NAMESPACE, resource_version=version, **selected):
        if change["object"].status.phase in phases:
            found = change["object"]
            watcher.stop()
    assert found is not None, f"the Pod came into none of the phases {phases}"
    return found


def remove(cluster: Cluster, name: str) -> None:
    cluster.core().delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)


def open_stream(cluster: Cluster, name: str, *command: str) -> Any:
    options = {"stdout": True, "stderr": True, "stdin": True, "tty": False, "_preload_content": False}
    call = cluster.core().connect_get_namespaced_pod_exec
    return stream(call, name, NAMESPACE, command=list(command), **options)


def execute(cluster: Cluster, name: str, *command: str, stdin: str = "") -> tuple[str, int]:
    """What a command in the Pod writes to stdout, and its exit code."""
    opened = open_stream(cluster, name, *command)
    opened.write_stdin(stdin)
    opened.close_channel(STDIN)
    opened.run_forever(timeout=30)
    output, code = opened.read_stdout(), opened.returncode
    opened.sock.shutdown()
    return output, code


def refusal(call: Any, *arguments: Any, **options: Any) -> tuple[int, str, str]:
    """The status, the reason and the message of a request that must be refused."""
    with pytest.raises(client.ApiException) as caught:
        call(*arguments, **options)
    assert caught.value.body is not None
    status = json.loads(caught.value.body)
    return caught.value.status or 0, status["reason"], status["message"]


def test_a_pod_runs_and_executes_until_it_is_deleted(cluster: Cluster) -> None:
    started = run(cluster, pod("life"))
    assert started.status.container_statuses[0].ready
    assert execute(cluster, "life", "cat", stdin="echo\n") == ("echo\n", 0)
    assert execute(cluster, "life", "sh", "-c", "echo out; echo err >&2; exit 7")[1] == 7
    output, code = execute(cluster, "life", "sh", "-c", "id -u; grep NoNewPrivs /proc/self/status; touch /x /tmp/x")
    assert (output.split()[:3], code) == (["1000", "NoNewPrivs:", "1"], 1)
    remove(cluster, "life")
    assert refusal(cluster.core().read_namespaced_pod, "life", NAMESPACE)[:2] == (404, "NotFound")


def test_large_output_and_input_arrive_whole(cluster: Cluster) -> None:
    run(cluster, pod("large"))
    size = 8 << 20
    counted = cluster.kubectl("exec", "-i", "large", "--", "wc", "-c", stdin="x" * size)
    assert (counted.stdout.strip(), counted.stderr) == (str(size), "")
    shown = cluster.kubectl("exec", "large", "--", "sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x")
    assert shown.stdout == "x" * size
    remove(cluster, "large")


def test_a_container_that_ends_gives_its_pod_a_phase(cluster: Cluster) -> None:
    ends = ("Succeeded", "Failed")
    for name, code, phase, reason in (("good", 0, "Succeeded", "Completed"), ("bad", 3, "Failed", "Error")):
        ended = run(cluster, pod(name, "sh", "-c", f"echo why >/dev/termination-log; exit {code}"), ends)
        assert ended.status.phase == phase
        state = ended.status.container_statuses[0].state.terminated
        assert (state.exit_code, state.reason, state.message) == (code, reason, "why\n")
        remove(cluster, name)


def test_a_pod_has_time_to_end(cluster: Cluster) -> None:
    run(cluster, pod("slow", "sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"))
    marked = cluster.core().delete_namespaced_pod("slow", NAMESPACE, grace_period_seconds=20)
    assert marked.metadata.deletion_grace_period_seconds == 20
    pods = cluster.core().list_namespaced_pod
    until(lambda: not pods(NAMESPACE, field_selector="metadata.name=slow").items, "the Pod is gone")


def test_an_absent_image_keeps_the_pod_waiting(cluster: Cluster) -> None:
    body = pod("pull")
    body["spec"]["containers"][0]["image"] = "localhost/belljar-absent:latest"
    cluster.core().create_namespaced_pod(NAMESPACE, body)

    def reason() -> str | None:
        statuses = cluster.core().read_namespaced_pod("pull", NAMESPACE).status.container_statuses
        return statuses[0].state.waiting.reason if statuses else None

    until(lambda: reason() == "ImagePullBackOff", "the pull is given up")
    remove(cluster, "pull")


def test_kubectl_applies_waits_executes_describes_and_deletes(any_cluster: Cluster) -> None:
    body = json.dumps(pod("kubectl"))
    assert any_cluster.kubectl("apply", "-f", "-", stdin=body).stdout == "pod/kubectl created\n"
    assert any_cluster.kubectl("wait", "--for=condition=Ready", "pod/kubectl").returncode == 0
    assert any_cluster.kubectl("apply", "-f", "-", stdin=body).stdout == "pod/kubectl unchanged\n"
    assert "pod/kubectl" in any_cluster.kubectl("get", "pods", "-l", "app in (belljar)", "-o", "name").stdout
    assert any_cluster.kubectl("exec", "-i", "kubectl", "--", "cat", stdin="echo").stdout == "echo"
    assert any_cluster.kubectl("exec", "kubectl", "--", "sh", "-c", "exit 7").returncode == 7
    assert "Running" in any_cluster.kubectl("describe", "pod", "kubectl").stdout
    misspelt = body.replace("restartPolicy", "restartPolice").replace('"kubectl"', '"misspelt"')
    assert "unknown field" in any_cluster.kubectl("apply", "-f", "-", stdin=misspelt).stderr
    assert any_cluster.kubectl("delete", "pod", "kubectl").returncode == 0
    assert "NotFound" in any_cluster.kubectl("get", "pod", "kubectl").stderr


def test_a_lease_is_renewed_by_one_holder_and_owns_pods(any_cluster: Cluster) -> None:
    leases = any_cluster.leases()
    body: dict[str, dict[str, object]]
    body = {"metadata": {"name": "bridge-1"}, "spec": {"holderIdentity": "bridge-1", "leaseDurationSeconds": 60}}
    made = leases.create_namespaced_lease(NAMESPACE, body)
    owner = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": "bridge-1", "uid": made.metadata.uid}
    owned = pod("owned")
    owned["metadata"]["ownerReferences"] = [owner]
    any_cluster.core().create_namespaced_pod(NAMESPACE, owned)
    body["metadata"]["resourceVersion"] = made.metadata.resource_version
    body["spec"]["leaseDurationSeconds"] = 30
    leases.replace_namespaced_lease("bridge-1", NAMESPACE, body)
    body["spec"]["leaseDurationSeconds"] = 20
    assert refusal(leases.replace_namespaced_lease, "bridge-1", NAMESPACE, body)[:2] == (409, "Conflict")
    assert refusal(leases.create_namespaced_lease, NAMESPACE, body)[:2] == (409, "AlreadyExists")
    leases.delete_namespaced_lease("bridge-1", NAMESPACE)
    pods = any_cluster.core().list_namespaced_pod
    until(lambda: not pods(NAMESPACE, field_selector="metadata.name=owned").items, "the owned Pod is collected")


def test_rights_are_reviewed_and_enforced(any_cluster: Cluster) -> None:
    run(any_cluster, pod("rights"))
    asked = {"namespace": NAMESPACE, "verb": "create", "resource": "pods", "subresource": "exec"}
    review = {"spec": {"resourceAttributes": asked}}

    def is_allowed() -> bool:
        answer = any_cluster.reviews("bridge").create_self_subject_access_review(review)
        return bool(answer.status.allowed)

    assert is_allowed()
    any_cluster.fault("rules", user="bridge", deny=["create:pods/exec", "create:pods"])
    assert not is_allowed()
    assert 'pods "rights" is forbidden: ' in any_cluster.kubectl("exec", "rights", "--", "true").stderr
    words = 'pods is forbidden: User "bridge" cannot create resource "pods" in API group "" in the namespace "belljar"'
    create = any_cluster.core().create_namespaced_pod
    assert refusal(create, NAMESPACE, pod("denied")) == (403, "Forbidden", words)
    any_cluster.fault("rules", user="bridge")
    assert any_cluster.kubectl("exec", "rights", "--", "true").returncode == 0
    remove(any_cluster, "rights")


def test_faults_end_pods_for_the_reason_that_is_asked_for(any_cluster: Cluster) -> None:
    core = any_cluster.core()

    def failed(name: str) -> Any:
        run(any_cluster, pod(name))
        any_cluster.fault(name, namespace=NAMESPACE, pod=name)
        until(lambda: core.read_namespaced_pod(name, NAMESPACE).status.phase == "Failed", "the Pod has failed")
        status = core.read_namespaced_pod(name, NAMESPACE).status
        remove(any_cluster, name)
        terminated = status.container_statuses[0].state.terminated
        return status.reason, terminated.reason, terminated.exit_code

    assert failed("evict") == ("Evicted", "Error", 137)
    assert failed("oom") == (None, "OOMKilled", 137)
    run(any_cluster, pod("node"))
    any_cluster.fault("node_gone", namespace=NAMESPACE, pod="node")
    assert refusal(core.read_namespaced_pod, "node", NAMESPACE)[0] == 404


def test_faults_keep_pods_from_running(any_cluster: Cluster) -> None:
    core = any_cluster.core()
    any_cluster.fault("unschedulable", message="0/1 nodes are available: 1 Insufficient memory.")
    core.create_namespaced_pod(NAMESPACE, pod("later"))
    until(lambda: bool(core.read_namespaced_pod("later", NAMESPACE).status.conditions), "the scheduler has looked")
    condition = core.read_namespaced_pod("later", NAMESPACE).status.conditions[0]
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert condition.message == "0/1 nodes are available: 1 Insufficient memory."
    any_cluster.fault("unschedulable", message=None)
    until(lambda: core.read_namespaced_pod("later", NAMESPACE).status.phase == "Running", "the Pod runs")
    any_cluster.fault("quota", namespace=NAMESPACE, pods=1)
    assert "exceeded quota: cap" in refusal(core.create_namespaced_pod, NAMESPACE, pod("more"))[2]
    any_cluster.fault("quota", namespace=NAMESPACE, pods=None)
    remove(any_cluster, "later")


def test_faults_answer_and_restart(any_cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    any_cluster.fault("answer", status=429, count=2, method="GET", path=path)
    answers = [any_cluster.request("GET", path) for _ in range(3)]
    assert [status for status, _, _ in answers] == [429, 429, 200]
    assert answers[0][1]["Retry-After"] == "1"
    any_cluster.fault("refuse_connections", seconds=0.5)

    def is_back() -> bool:
        try:
            return any_cluster.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    until(is_back, "the server listens again")
    first = json.loads(any_cluster.request("GET", f"{path}?watch=true&resourceVersion=1&timeoutSeconds=5")[2])
    assert (first["type"], first["object"]["code"]) == ("ERROR", 410)


def test_a_cut_stream_closes_the_stdin_of_the_process(any_cluster: Cluster) -> None:
    run(any_cluster, pod("cut"))
    opened = open_stream(any_cluster, "cut", "sh", "-c", "cat >/dev/null; echo end >/tmp/end")
    opened.write_stdin("x")
    any_cluster.fault("cut_streams")
    opened.sock.shutdown()
    until(lambda: execute(any_cluster, "cut", "cat", "/tmp/end")[1] == 0, "the process has seen the end of its stdin")
    remove(any_cluster, "cut")
