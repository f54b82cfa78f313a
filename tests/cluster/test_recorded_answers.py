"""Holds the stand-in to what a real API server answered: tests/fixtures/cluster says which."""

from __future__ import annotations

import base64
import copy
import json
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
import websocket as untyped_websocket

from cluster import NAMESPACE, ROOT, Cluster, pod, until

websocket: Any = untyped_websocket
FIXTURES = ROOT / "tests/fixtures/cluster"
# What the user `bridge` of the recordings had.
ROLE = ["create:pods", "get:pods", "list:pods", "watch:pods", "delete:pods", "create:pods/exec", "get:pods/exec"]
ROLE += [f"{verb}:leases" for verb in ("create", "get", "list", "watch", "update", "delete")]
REVIEWS = ["create:selfsubject*"]
COMPARED = ("status", "reason", "message", "details", "code")
# The commands that the recordings had, as those of a real container.
COMMANDS = {
    "cat": "cat",
    "err oops": "echo oops >&2",
    "exit 0": "exit 0",
    "exit 3": "echo bye; exit 3",
    "exit 7": "echo bye; exit 7",
    "sink": "cat >/dev/null",
    "sleep 1": "sleep 1",
}


def recorded(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the first line of a file says, and its exchanges."""
    head, *exchanges = [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_text().splitlines()]
    return head, exchanges


@pytest.fixture(scope="module")
def prepared(any_cluster: Cluster) -> Iterator[Cluster]:
    """The namespaces, users and Pods of the recordings."""
    for name in ("plain", "quota"):
        any_cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    any_cluster.fault("quota", namespace="quota", pods=1)
    hard = {"pods": "1", "limits.memory": "1Gi", "requests.cpu": "2"}
    merge = {"Content-Type": "application/merge-patch+json"}
    path = "/api/v1/namespaces/quota/resourcequotas/cap"
    any_cluster.request("PATCH", path, {"spec": {"hard": hard}}, headers=merge)
    any_cluster.fault("rules", user="bridge", allow=ROLE + REVIEWS)
    any_cluster.fault("rules", user="nobody", allow=["update:leases"])
    two = pod("two", nodeSelector={"kubernetes.io/hostname": "node-a"})
    two["spec"]["containers"].append(two["spec"]["containers"][0] | {"name": "gone"})
    for body in (pod("spdynode"), two, pod("pending", nodeSelector={"kubernetes.io/hostname": "none"})):
        assert any_cluster.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)[0] == 201
    core = any_cluster.core("admin")
    until(lambda: core.read_namespaced_pod("spdynode", NAMESPACE).status.phase == "Running", "the Pod runs")
    yield any_cluster
    for user in ("bridge", "nobody"):
        any_cluster.fault("rules", user=user)
    for name in ("plain", "quota"):
        any_cluster.request("DELETE", f"/api/v1/namespaces/{name}")
    any_cluster.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods")


@pytest.mark.parametrize("name", ["access", "pods", "security", "quota", "leases", "reviews", "watch", "exec"])
def test_answers_are_those_of_a_real_server(prepared: Cluster, name: str) -> None:
    names: dict[str, str] = {}
    for exchange in recorded(name)[1]:
        headers = {"Content-Type": exchange.get("type", "application/json")}
        if "protocol" in exchange:
            headers |= upgrade(exchange["protocol"])
        body = translated(body_of(exchange), names)
        status, _, answer = prepared.request(
            exchange["method"], exchange["path"], body, user=exchange["user"], headers=headers
        )
        assert status == exchange["status"], (exchange["note"], answer)
        if "answer" in exchange:
            found = {key: value for key, value in json.loads(answer).items() if key in COMPARED}
            assert shown(found) == shown(translated(exchange["answer"], names)), exchange["note"]
        if "text" in exchange:
            assert answer.decode() == exchange["text"], exchange["note"]
        if "allowed" in exchange:
            assert json.loads(answer)["status"]["allowed"] == exchange["allowed"], exchange["note"]
        if "event" in exchange:
            assert shown(json.loads(answer)) == shown(exchange["event"]), exchange["note"]
        if "object" in exchange:
            metadata = json.loads(answer)["metadata"]
            names |= {value: metadata[key] for key, value in exchange["object"].items()}


@pytest.mark.parametrize("exchange", recorded("frames")[1], ids=lambda exchange: exchange["note"])
def test_streams_are_those_of_a_real_server(prepared: Cluster, exchange: dict[str, Any]) -> None:
    path, _, query = exchange["path"].partition("?")
    asked = urllib.parse.parse_qs(query)
    command = " ".join(asked["command"])
    asked["command"] = ["sh", "-c", COMMANDS[command]]
    address = f"wss://{prepared.address}{path}?{urllib.parse.urlencode(asked, doseq=True)}"
    opened = websocket.create_connection(
        address,
        timeout=30,
        subprotocols=exchange["protocol"].split(", "),
        header=["Authorization: Bearer token-of-bridge"],
        sslopt={"context": prepared.tls()},
    )
    try:
        assert opened.subprotocol == "v5.channel.k8s.io"
        if command == "cat":
            opened.send_binary(b"\x00hello\n")
        if command in ("cat", "sink"):
            opened.send_binary(b"\xff\x00")
        if "ping" in exchange["note"]:
            opened.ping("abc")
        assert frames_until_close(opened) == exchange["frames"]
    finally:
        opened.shutdown()


def frames_until_close(opened: Any) -> list[dict[str, Any]]:
    """The frames in the form in which the recordings have them."""
    found: list[dict[str, Any]] = []
    while True:
        op, frame = opened.recv_data_frame(control_frame=True)
        if op == websocket.ABNF.OPCODE_CLOSE:
            code = int.from_bytes(frame.data[:2], "big")
            return [*found, {"op": "close", "code": code}]
        if op == websocket.ABNF.OPCODE_PONG:
            found.append({"op": "pong", "data": frame.data.hex()})
        else:
            found.append({"op": "binary", "channel": frame.data[0], "data": frame.data[1:].decode()})


def upgrade(protocol: str) -> dict[str, str]:
    key = base64.b64encode(b"sixteen bytes...").decode()
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key}
    return headers | {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": protocol}


def body_of(exchange: dict[str, Any]) -> Any:
    if "pod" not in exchange:
        return exchange.get("body")
    body = merged(recorded("pods")[0]["base"], exchange["pod"])
    body["spec"]["containers"] = [merged(body["spec"]["containers"][0], exchange.get("container", {}))]
    return body


def merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = copy.deepcopy(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), part)
    return result


def translated(value: Any, names: dict[str, str]) -> Any:
    """With the uids and versions that the stand-in gave in place of those of the recordings."""
    text = json.dumps(value)
    for name, own in names.items():
        text = re.sub(rf'(?<=["( ]){name}(?=["), ])', own, text)
    return json.loads(text)


def shown(value: Any) -> Any:
    """Without the current version of the server, which some messages give."""
    return json.loads(re.sub(r"\(\d+\)|current: \d+", "(current)", json.dumps(value)))
