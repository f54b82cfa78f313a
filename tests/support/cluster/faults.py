"""Faults that a test asks for, by POST /stand-in/faults with `{"fault": NAME, ...}` and the admin's token.

cut_streams                                            drops the connections of all exec streams
refuse_connections  seconds                            drops all connections and listens again after that time
answer              status, count, method, path        answers the next requests that match with that status
delay               seconds, count, method, path       holds the next requests that match up
expire_watches                                         ends the open watches by an error 410, as well as old versions
evict | oom         namespace, pod                     kills the Pod's container
node_gone           namespace, pod                     removes the Pod at once and cuts its streams
unschedulable       message                            schedules no Pod until the message is null
quota               namespace, pods                    lets the namespace have that many Pods, or any number for null
rules               user, allow, deny                  what a user may do: lists of VERB:RESOURCE
reset                                                  ends `answer`, `delay` and `unschedulable`

`method` and `path` are regular expressions that match from the start; `count` is 1 where it is not given. `path` is
matched with the query.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from access import EVERYTHING, Access
from answers import Object, RefusalError, bad_request, encoded, not_found, respond_text
from kubelet import EVICTED, OUT_OF_MEMORY, Kubelet
from resources import PODS, QUOTAS
from store import Store
from streams import Streams

REASONS = {401: "Unauthorized", 403: "Forbidden", 429: "TooManyRequests", 500: "InternalError"}
REASONS |= {503: "ServiceUnavailable", 504: "Timeout"}


@dataclass
class Rule:
    """What happens to the next requests that match."""

    method: re.Pattern[str]
    path: re.Pattern[str]
    count: int
    status: int | None
    seconds: float

    def takes(self, request: web.Request) -> bool:
        is_taken = self.count > 0 and bool(self.method.match(request.method) and self.path.match(request.path_qs))
        self.count -= is_taken
        return is_taken


class Faults:
    def __init__(
        self,
        store: Store,
        kubelet: Kubelet,
        streams: Streams,
        access: Access,
        restart: Callable[[float], Awaitable[None]],
    ) -> None:
        """`restart` drops all connections and listens again after some seconds."""
        self._store = store
        self._kubelet = kubelet
        self._streams = streams
        self._access = access
        self._restart = restart
        self._rules: list[Rule] = []
        self._restarts: set[asyncio.Task[None]] = set()

    async def meet(self, request: web.Request) -> web.Response | None:
        """Holds a request up or answers it, where a fault is for it."""
        for rule in self._rules:
            if rule.takes(request):
                await asyncio.sleep(rule.seconds)
                if rule.status is not None:
                    return _answer(rule.status)
        return None

    async def make(self, asked: Object) -> None:
        name = asked.get("fault")
        if name == "cut_streams":
            self._streams.cut()
        elif name == "refuse_connections":
            task = asyncio.ensure_future(self._restart(float(asked["seconds"])))
            self._restarts.add(task)
            task.add_done_callback(self._restarts.discard)
        elif name in ("answer", "delay"):
            method, path = re.compile(asked.get("method", "")), re.compile(asked.get("path", ""))
            count, seconds = int(asked.get("count", 1)), float(asked.get("seconds", 0))
            self._rules.append(Rule(method, path, count, asked.get("status"), seconds))
        elif name == "expire_watches":
            self._store.expire(is_told=True)
        elif name in ("evict", "oom"):
            await self._kubelet.end(self._pod(asked), EVICTED if name == "evict" else OUT_OF_MEMORY)
        elif name == "node_gone":
            pod = self._pod(asked)
            self._streams.cut(pod["metadata"]["uid"])
            self._store.delete(PODS, pod, 0)
        elif name == "unschedulable":
            self._kubelet.unschedulable = asked["message"]
        elif name == "quota":
            self._set_quota(asked["namespace"], asked["pods"])
        elif name == "rules":
            user = self._access.user(asked["user"])
            user.allowed, user.denied = asked.get("allow", [EVERYTHING]), asked.get("deny", [])
        elif name == "reset":
            self._rules.clear()
            self._kubelet.unschedulable = None
        else:
            raise bad_request(f"no such fault: {name}")

    def _pod(self, asked: Object) -> Object:
        pod = self._store.get(PODS, asked["namespace"], asked["pod"])
        if pod is None:
            raise not_found("pods", "", asked["pod"])
        return pod

    def _set_quota(self, namespace: str, pods: int | None) -> None:
        if known := self._store.get(QUOTAS, namespace, "cap"):
            self._store.remove(QUOTAS, known)
        if pods is not None:
            hard = {"pods": str(pods)}
            metadata = {"name": "cap", "namespace": namespace}
            quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": metadata, "spec": {"hard": hard}}
            self._store.create(QUOTAS, quota | {"status": {"hard": hard}})


def _answer(status: int) -> web.Response:
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    if status == 429:
        return respond_text("Too many requests, please try again later.\n", status, headers)
    reason = REASONS.get(status)
    refusal = RefusalError(status, reason, reason or f"status {status}")
    return web.Response(body=encoded(refusal.status), status=status, content_type="application/json", headers=headers)
