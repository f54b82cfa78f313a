"""Holds the manifests that `belljar kubernetes manifests` prints to the schemas of Kubernetes, and applies them."""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from cluster import IMAGE, ROOT, Cluster

NAMESPACE = "manifests"
VALUES = {
    "$NAMESPACE": NAMESPACE,
    "$SANDBOX_IMAGE": IMAGE,
    "$IMAGE": "localhost/belljar:latest",
    "$HOST": "bridge.example.com",
}


def manifests() -> str:
    """Both parts with their placeholders filled. That the program prints them so is tested with the program."""
    text = "".join((ROOT / "src/app/kubernetes" / f"{part}.yaml").read_text() for part in ("namespace", "serve"))
    for placeholder, value in VALUES.items():
        text = text.replace(placeholder, value)
    return text


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifests()))


def only(kind: str) -> dict[str, Any]:
    (found,) = (each for each in objects() if each["kind"] == kind)
    return found


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36", "1.37"])
def test_every_object_has_the_schema_of_its_kind(version: str) -> None:
    for each in objects():
        assert kubernetes_validate.validate(each, version, strict=True) == version
    misspelt = only("Deployment")
    misspelt["spec"]["template"]["spec"]["automountServiceAccountTokens"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(misspelt, version, strict=True)


def test_what_the_objects_name_of_each_other_is_there() -> None:
    spec = only("Deployment")["spec"]
    pod = spec["template"]
    (container,) = pod["spec"]["containers"]
    (port,) = container["ports"]
    service = only("Service")["spec"]
    sandboxes, own = (each for each in objects() if each["kind"] == "NetworkPolicy")
    labels = pod["metadata"]["labels"]
    assert labels == spec["selector"]["matchLabels"] == service["selector"] == own["spec"]["podSelector"]["matchLabels"]
    assert {each["targetPort"] for each in service["ports"]} == {port["name"]}
    assert container["args"][2].endswith(f":{port['containerPort']}")
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    assert probes == [{"path": "/healthz", "port": port["name"]}] * 3
    account = only("ServiceAccount")["metadata"]
    assert pod["spec"]["serviceAccountName"] == account["name"]
    assert only("RoleBinding")["subjects"] == [{"kind": "ServiceAccount"} | account]
    assert only("RoleBinding")["roleRef"]["name"] == only("Role")["metadata"]["name"]
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    assert volumes.keys() == mounts.keys()
    assert volumes["home"]["persistentVolumeClaim"]["claimName"] == only("PersistentVolumeClaim")["metadata"]["name"]
    assert volumes["config"]["configMap"]["name"] == only("ConfigMap")["metadata"]["name"]
    assert mounts["config"]["subPath"] in only("ConfigMap")["data"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert mounts["home"]["mountPath"] == variables["HOME"]
    assert mounts["config"]["mountPath"] == f"{variables['XDG_CONFIG_HOME']}/belljar/config.toml"
    # No label of a sandbox is on the Pod of belljar, which that policy would cut off.
    assert "belljar.owner" not in labels
    assert sandboxes["spec"].keys() == {"podSelector", "policyTypes"}
    assert sandboxes["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_kubectl_applies_them_twice_and_the_pod_keeps_the_rules_of_the_namespace(any_cluster: Cluster) -> None:
    def kubectl(*arguments: str, stdin: str) -> list[str]:
        done = any_cluster.kubectl("--context=admin", *arguments, "-f", "-", stdin=stdin)
        assert (done.returncode, done.stderr) == (0, "")
        return [line.rpartition(" ")[2] for line in done.stdout.splitlines()]

    count = len(objects())
    assert kubectl("apply", stdin=manifests()) == ["created"] * count
    assert kubectl("apply", stdin=manifests()) == ["unchanged"] * count
    template = only("Deployment")["spec"]["template"]
    template["metadata"] |= {"name": "belljar-x", "namespace": NAMESPACE}
    body = {"apiVersion": "v1", "kind": "Pod"} | template
    assert kubectl("create", "--dry-run=server", stdin=json.dumps(body)) == ["run)"]
    del body["spec"]["securityContext"]["runAsNonRoot"]
    weaker = ("--context=admin", "create", "--dry-run=server", "-f", "-")
    assert 'violates PodSecurity "restricted:latest"' in any_cluster.kubectl(*weaker, stdin=json.dumps(body)).stderr
