"""A stand-in for a Kubernetes cluster of one node, whose Pods are containers of Podman or Docker.

It answers as kube-apiserver 1.36 and a kubelet do, as far as a client needs that runs Pods and executes in them. It is
a test fixture. It prints `ready` once it listens. At SIGTERM, SIGINT or the end of a pipe as its stdin it removes its
containers and ends. faults.py says which faults a test can ask for.

usage: main.py --engine unix:///run/docker.sock --token admin:SECRET --token bridge:SECRET --kubeconfig PATH
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import signal
import ssl
import stat
import sys
import tempfile
from pathlib import Path

from aiohttp import web

import certificates
from access import Access
from answers import Object
from engine import Engine
from faults import Faults
from kubelet import Kubelet
from pods import ENFORCE
from resources import NAMESPACES
from server import Server
from store import Store
from streams import Streams

# A real server takes bodies of up to 3 MiB.
LARGEST_BODY = 3 << 20
ADDRESS = "127.0.0.1"


class Listener:
    """Listens on one port, and can drop all connections and pause."""

    def __init__(self, runner: web.AppRunner, tls: ssl.SSLContext, port: int, store: Store) -> None:
        self.port = port
        self._runner = runner
        self._tls = tls
        self._store = store
        self._site: web.TCPSite | None = None

    async def start(self) -> None:
        self._site = web.TCPSite(self._runner, ADDRESS, self.port, ssl_context=self._tls, reuse_address=True)
        await self._site.start()
        if self.port == 0:
            self.port = self._runner.addresses[0][1]

    async def restart(self, seconds: float) -> None:
        assert self._site is not None and self._runner.server is not None
        await self._site.stop()
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        self._store.expire(is_told=False)
        await asyncio.sleep(seconds)
        await self.start()


async def main() -> None:
    options = _options()
    store = Store()
    tokens = dict(reversed(each.split(":", 1)) for each in options.token)
    for name in ("default", options.namespace):
        store.create(NAMESPACES, _namespace(name, options.level if name == options.namespace else "privileged"))
    engine = Engine(options.engine)
    await engine.remove_all()
    kubelet = Kubelet(store, engine, options.pod_network)
    streams, access = Streams(engine), Access(tokens)
    app = web.Application(client_max_size=LARGEST_BODY)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    tls, authority = _tls()
    listener = Listener(runner, tls, options.port, store)
    faults = Faults(store, kubelet, streams, access, listener.restart)
    app.router.add_route("*", "/{path:.*}", Server(store, access, kubelet, streams, faults).handle)
    await runner.setup()
    background = [asyncio.create_task(kubelet.run()), asyncio.create_task(store.collect_garbage())]
    try:
        await listener.start()
        _write_kubeconfig(options.kubeconfig, options.namespace, listener.port, authority, tokens)
        print("ready", flush=True)
        await _end(faults)
    finally:
        for task in background:
            task.cancel()
        streams.cut()
        await kubelet.close()
        await engine.close()
        await runner.cleanup()


def _tls() -> tuple[ssl.SSLContext, str]:
    with tempfile.TemporaryDirectory() as folder:
        authority = certificates.write(Path(folder))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(Path(folder) / "server.crt", Path(folder) / "server.key")
    tls.set_alpn_protocols(["http/1.1"])
    return tls, authority


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A stand-in for a Kubernetes cluster.")
    parser.add_argument("--engine", required=True, metavar="unix:///PATH", help="the socket of Docker or Podman")
    parser.add_argument(
        "--kubeconfig", required=True, type=Path, help="the file to write, with a context for each user"
    )
    parser.add_argument(
        "--token", action="append", required=True, metavar="NAME:TOKEN", help="a user; admin may ask for faults"
    )
    parser.add_argument("--port", type=int, default=0, help="by default, one that is free")
    parser.add_argument("--namespace", default="belljar")
    parser.add_argument("--level", default="restricted", help="the level of Pod security that the namespace enforces")
    parser.add_argument(
        "--pod-network", default="none", help="the engine's network for Pods; by default, they have none"
    )
    return parser.parse_args()


def _namespace(name: str, level: str) -> Object:
    metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name, ENFORCE: level}}
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata, "status": {"phase": "Active"}}


def _write_kubeconfig(path: Path, namespace: str, port: int, authority: str, tokens: dict[str, str]) -> None:
    """The current context is the first user's."""
    cluster = {
        "server": f"https://{ADDRESS}:{port}",
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
    }
    context = {"cluster": "stand-in", "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "stand-in", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}} for token, name in tokens.items()],
        "contexts": [{"name": name, "context": context | {"user": name}} for name in tokens.values()],
        "current-context": next(iter(tokens.values())),
    }
    path.touch(0o600)
    path.write_text(json.dumps(config, indent=2))


async def _end(faults: Faults) -> None:
    """Waits for a signal, or for the end of a pipe as stdin, by which a test that has died ends its stand-in.

    Each line of the pipe is a fault, which is answered by a line when it is made.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, ended.set)
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        await ended.wait()
        return
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    stopped = asyncio.create_task(ended.wait())
    while not ended.is_set():
        line = asyncio.create_task(lines.readline())
        await asyncio.wait({line, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not line.done() or not line.result():
            line.cancel()
            stopped.cancel()
            return
        await faults.make(json.loads(line.result()))
        print("made", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
