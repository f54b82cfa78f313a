"""The scheduler and the one node: starts the container of each Pod, and reports its state as a kubelet does."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import shutil
import tempfile
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

from answers import Object, bad_request
from engine import Engine, EngineError
from pods import quantity
from resources import NODES, PODS
from store import Store, stamp

NODE = "node-a"
NODE_ADDRESS = "192.0.2.1"
# A real one waits for seconds between its tries.
PULL_RETRY = 0.3
POLL = 0.05
ULIMIT = 4096
TERMINATION_LOG = "/dev/termination-log"
SERVICE = {
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
    "KUBERNETES_PORT_443_TCP_PORT": "443",
    "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
}
STARTED = {"PodReadyToStartContainers": True, "Initialized": True, "PodScheduled": True}


@dataclass(frozen=True)
class Verdict:
    """Why a container is ended on purpose."""

    reason: str
    pod_reason: str | None = None
    message: str | None = None


EVICTED = Verdict(
    "Error",
    "Evicted",
    "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 512Mi. ",
)
OUT_OF_MEMORY = Verdict("OOMKilled")


class Kubelet:
    """Follows the Pods in the store. `unschedulable` is a message while no Pod may be scheduled."""

    def __init__(self, store: Store, engine: Engine, network: str) -> None:
        self.unschedulable: str | None = None
        self._store = store
        self._engine = engine
        self._network = network
        self._containers: dict[str, str] = {}
        self._creations: dict[str, asyncio.Task[str]] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._ends: set[asyncio.Task[None]] = set()
        self._folder = Path(tempfile.mkdtemp(prefix="belljar-stand-in-"))
        # The engine can be another user's.
        self._folder.chmod(0o755)
        self._addresses = ipaddress.ip_network("10.244.0.0/16").hosts()
        store.create(NODES, _node())

    async def run(self) -> None:
        changes = self._store.watch()
        while True:
            event = await changes.get()
            if event is None or event.resource != PODS:
                continue
            uid = event.object["metadata"]["uid"]
            if event.type == "ADDED":
                self._lives[uid] = asyncio.create_task(self._live(event.object))
                self._lives[uid].add_done_callback(_show_failure)
            elif event.type == "DELETED":
                self._begin(self._remove(uid))
            elif event.before is not None and _is_ending(event.object) and not _is_ending(event.before):
                self._begin(self._terminate(event.object))

    async def close(self) -> None:
        for task in [*self._lives.values(), *self._ends]:
            task.cancel()
        await asyncio.gather(*self._lives.values(), *self._ends, return_exceptions=True)
        await self._engine.remove_all()
        shutil.rmtree(self._folder, ignore_errors=True)

    def container(self, pod: Object) -> str | None:
        """The id of the Pod's container once it runs."""
        is_running = bool(pod["status"].get("containerStatuses", [{}])[0].get("state", {}).get("running"))
        return self._containers.get(pod["metadata"]["uid"]) if is_running else None

    async def end(self, pod: Object, verdict: Verdict) -> None:
        """Kills the Pod's container, for a reason that its status then gives."""
        container = self.container(pod)
        if container is None:
            raise bad_request(f"pod {pod['metadata']['name']} does not run")
        self._verdicts[pod["metadata"]["uid"]] = verdict
        await self._engine.kill(container)

    def _begin(self, end: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(end)
        task.add_done_callback(_show_failure)
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _live(self, pod: Object) -> None:
        pod = await self._schedule(pod)
        uid = pod["metadata"]["uid"]
        address = str(next(self._addresses))
        network = {"hostIP": NODE_ADDRESS, "hostIPs": [{"ip": NODE_ADDRESS}]}
        network |= {"podIP": address, "podIPs": [{"ip": address}], "startTime": stamp()}
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        self._report(pod, waiting, "Pending", STARTED | {"PodReadyToStartContainers": False}, network)
        container = await self._create(pod)
        self._containers[uid] = container
        try:
            await self._engine.start(container)
        except EngineError as error:
            self._report(pod, {"terminated": _terminated(128, "StartError", str(error))}, "Failed", STARTED)
            return
        running = {"running": {"startedAt": stamp()}}
        self._report(pod, running, "Running", STARTED | {"Ready": True, "ContainersReady": True})
        await self._engine.wait(container)
        state = (await self._engine.inspect(container))["State"]
        self._report_end(pod, state, running["running"]["startedAt"])

    async def _schedule(self, pod: Object) -> Object:
        shown = None
        while True:
            refusal = self.unschedulable or _mismatch(pod)
            if refusal is None:
                break
            if refusal != shown:
                shown = refusal
                self._edit(pod, _unschedulable(refusal))
            await asyncio.sleep(POLL)

        def bind(latest: Object) -> None:
            latest["spec"]["nodeName"] = NODE
            latest["status"]["conditions"] = [_condition("PodScheduled", True)]

        return self._edit(pod, bind) or pod

    async def _create(self, pod: Object) -> str:
        """Creates the container; as long as the engine has no such image, the Pod says so."""
        uid, image = pod["metadata"]["uid"], pod["spec"]["containers"][0]["image"]
        reasons = iter(["ErrImagePull"])
        while True:
            try:
                creation = asyncio.create_task(self._engine.create(f"k8s-{uid}", self._settings(pod)))
                self._creations[uid] = creation
                return await asyncio.shield(creation)
            except EngineError as error:
                reason, message = next(reasons, "ImagePullBackOff"), f'Back-off pulling image "{image}"'
                if error.status != 404:
                    reason, message = "CreateContainerError", str(error)
                elif reason == "ErrImagePull":
                    message = f'failed to pull and unpack image "{image}": not found'
                self._report(pod, {"waiting": {"reason": reason, "message": message}}, "Pending", STARTED)
            await asyncio.sleep(PULL_RETRY)

    async def _terminate(self, pod: Object) -> None:
        """Ends a Pod that has time for it, and then removes it as a kubelet does."""
        container = self._containers.get(pod["metadata"]["uid"])
        if container is not None:
            with contextlib.suppress(EngineError):
                await self._engine.stop(container, pod["metadata"]["deletionGracePeriodSeconds"])
                await asyncio.wait([self._lives[pod["metadata"]["uid"]]], timeout=5)
        latest = self._store.get(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        if latest is not None and latest["metadata"]["uid"] == pod["metadata"]["uid"]:
            self._store.delete(PODS, latest, 0)

    async def _remove(self, uid: str) -> None:
        life = self._lives.pop(uid)
        life.cancel()
        await asyncio.wait([life])
        # The engine completes what it has begun, also for a client that has gone.
        if uid in self._creations:
            await asyncio.wait([self._creations.pop(uid)])
        await self._engine.remove(f"k8s-{uid}")
        self._containers.pop(uid, None)
        self._verdicts.pop(uid, None)
        self._log_file(uid).unlink(missing_ok=True)

    def _report_end(self, pod: Object, state: Object, started: str) -> None:
        code = state["ExitCode"]
        verdict = self._verdicts.get(pod["metadata"]["uid"])
        reason = "Completed" if code == 0 else "OOMKilled" if state.get("OOMKilled") else "Error"
        terminated = _terminated(code, verdict.reason if verdict else reason, self._last_words(pod))
        extra: Object = {}
        if verdict and verdict.pod_reason:
            extra = {"reason": verdict.pod_reason, "message": verdict.message}
        ended = {"terminated": terminated | {"startedAt": started}}
        self._report(pod, ended, "Succeeded" if code == 0 else "Failed", STARTED, extra)

    def _report(
        self, pod: Object, state: Object, phase: str, true: dict[str, bool], more: Object | None = None
    ) -> None:
        """Sets the state of the container and of its Pod."""
        container = pod["spec"]["containers"][0]
        is_running = "running" in state
        status = {"name": container["name"], "state": state, "lastState": {}, "ready": is_running, "restartCount": 0}
        status |= {"image": container["image"], "imageID": "", "started": is_running}
        if uid := self._containers.get(pod["metadata"]["uid"]):
            status["containerID"] = f"containerd://{uid}"

        def edit(latest: Object) -> None:
            reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
            names = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            conditions = [_condition(name, true.get(name, False), reason) for name in names]
            latest["status"] |= {"phase": phase, "conditions": conditions, "containerStatuses": [status]} | (more or {})

        self._edit(pod, edit)

    def _edit(self, pod: Object, edit: Callable[[Object], None]) -> Object | None:
        return self._store.change(PODS, pod, edit)

    def _log_file(self, uid: str) -> Path:
        return self._folder / uid

    def _last_words(self, pod: Object) -> str:
        return self._log_file(pod["metadata"]["uid"]).read_bytes()[-4096:].decode(errors="replace")

    def _settings(self, pod: Object) -> Object:
        """The container in the words of the engine's API."""
        spec = pod["spec"]
        container = spec["containers"][0]
        context = spec["securityContext"] | container.get("securityContext", {})
        log = self._log_file(pod["metadata"]["uid"])
        log.touch()
        log.chmod(0o666)
        settings: Object = {"Image": container["image"], "Hostname": pod["metadata"]["name"][:63]}
        settings["Env"] = [f"{name}={value}" for name, value in _environment(container).items()]
        if container.get("command"):
            settings |= {"Entrypoint": container["command"], "Cmd": container.get("args", [])}
        elif container.get("args"):
            settings["Cmd"] = container["args"]
        if container.get("workingDir"):
            settings["WorkingDir"] = container["workingDir"]
        if "runAsUser" in context:
            settings["User"] = f"{context['runAsUser']}:{context.get('runAsGroup', 0)}"
        settings["HostConfig"] = _confinement(context) | {
            "NetworkMode": self._network,
            "Binds": [f"{log}:{container['terminationMessagePath']}"],
            "Tmpfs": _mounts(spec, container),
            # The engines' own are more than root may set on some machines.
            "Ulimits": [{"Name": name, "Soft": ULIMIT, "Hard": ULIMIT} for name in ("nofile", "nproc")],
        }
        settings["HostConfig"] |= _limits(container["resources"].get("limits", {}))
        return settings


def _show_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        traceback.print_exception(task.exception())


def _environment(container: Object) -> dict[str, str]:
    return SERVICE | {each["name"]: each.get("value", "") for each in container.get("env", [])}


def _confinement(context: Object) -> Object:
    options = [] if context.get("allowPrivilegeEscalation", True) else ["no-new-privileges"]
    if context.get("seccompProfile", {}).get("type", "Unconfined") == "Unconfined":
        options.append("seccomp=unconfined")
    capabilities = context.get("capabilities", {})
    return {
        "SecurityOpt": options,
        "ReadonlyRootfs": bool(context.get("readOnlyRootFilesystem")),
        "CapDrop": capabilities.get("drop", []),
        "CapAdd": capabilities.get("add", []),
    }


def _limits(limits: Object) -> Object:
    found = {}
    if "memory" in limits:
        # A node has no swap.
        found["Memory"] = found["MemorySwap"] = int(quantity(limits["memory"]))
    if "cpu" in limits:
        found["NanoCpus"] = int(quantity(limits["cpu"]) * 10**9)
    return found


def _mounts(spec: Object, container: Object) -> dict[str, str]:
    """Volumes of the kind `emptyDir`, which have none of noexec, nosuid and nodev."""
    empty = {volume["name"]: volume["emptyDir"] or {} for volume in spec["volumes"] if "emptyDir" in volume}
    found = {}
    for mount in container.get("volumeMounts", []):
        if mount["name"] in empty:
            size = empty[mount["name"]].get("sizeLimit")
            access = "ro" if mount.get("readOnly") else "rw"
            options = [access, "exec", "suid", "dev", "mode=0777"] + ([f"size={int(quantity(size))}"] if size else [])
            found[mount["mountPath"]] = ",".join(options)
    return found


def _is_ending(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _terminated(code: int, reason: str, message: str) -> Object:
    found = {"exitCode": code, "reason": reason, "finishedAt": stamp()}
    return found | ({"message": message} if message else {})


def _condition(name: str, is_true: bool, reason: str | None = None) -> Object:
    condition = {"type": name, "status": str(is_true), "lastProbeTime": None, "lastTransitionTime": stamp()}
    return condition if is_true or reason is None else condition | {"reason": reason}


def _mismatch(pod: Object) -> str | None:
    """Why the scheduler finds no node for the Pod."""
    labels = _node()["metadata"]["labels"]
    wanted = pod["spec"].get("nodeSelector", {})
    if all(labels.get(key) == value for key, value in wanted.items()):
        return None
    return (
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def _unschedulable(message: str) -> Callable[[Object], None]:
    def edit(latest: Object) -> None:
        condition = _condition("PodScheduled", False, "Unschedulable") | {"message": message}
        latest["status"]["conditions"] = [condition]

    return edit


def _node() -> Object:
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = _condition("Ready", True)
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": NODE, "labels": labels},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
    }
