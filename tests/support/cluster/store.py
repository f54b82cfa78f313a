"""The objects, their versions and changes, and the garbage collection of what has lost its owners."""

from __future__ import annotations

import asyncio
import calendar
import copy
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from answers import Object
from resources import PODS, Resource

COLLECTION_PERIOD = 0.05
DEFAULT_GRACE = 30


@dataclass(frozen=True)
class Event:
    """A change. `before` is what was there."""

    version: int
    type: str
    resource: Resource
    object: Object
    before: Object | None


class Store:
    """Everything in memory. Objects are never changed in place, so that events can share them."""

    def __init__(self) -> None:
        self.version = 200
        # The oldest version from which a watch can start.
        self.oldest = self.version
        self._objects: dict[Resource, dict[tuple[str, str], Object]] = {}
        self._log: list[Event] = []
        self._watches: set[asyncio.Queue[Event | None]] = set()

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects.get(resource, {}).get((namespace, name))

    def list(self, resource: Resource, namespace: str = "") -> list[Object]:
        found = self._objects.get(resource, {}).items()
        return [value for (space, _), value in sorted(found) if namespace in ("", space)]

    def create(self, resource: Resource, value: Object) -> Object:
        return self._put("ADDED", resource, fresh(value), None)

    def replace(self, resource: Resource, value: Object, before: Object) -> Object:
        """Stores another state of an object; the version stays where nothing differs."""
        if _without_version(value) == _without_version(before):
            return before
        return self._put("MODIFIED", resource, value, before)

    def change(self, resource: Resource, value: Object, edit: Callable[[Object], None]) -> Object | None:
        """Edits the latest state of an object, unless it is gone."""
        latest = self.get(resource, value["metadata"].get("namespace", ""), value["metadata"]["name"])
        if latest is None or latest["metadata"]["uid"] != value["metadata"]["uid"]:
            return None
        edited = copy.deepcopy(latest)
        edit(edited)
        return self.replace(resource, edited, latest)

    def remove(self, resource: Resource, value: Object) -> Object:
        metadata = value["metadata"]
        del self._objects[resource][metadata.get("namespace", ""), metadata["name"]]
        gone = {**value, "metadata": {**metadata, "resourceVersion": self._next()}}
        self._publish(Event(self.version, "DELETED", resource, gone, value))
        return gone

    def delete(self, resource: Resource, value: Object, grace: int | None = None) -> Object:
        """Removes an object. A Pod on a node stays until its kubelet has ended it, unless it gets no time for that."""
        if resource != PODS:
            return self.remove(resource, value)
        if grace is None:
            grace = int(value["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE))
        if "nodeName" not in value["spec"] or value["status"].get("phase") in ("Succeeded", "Failed"):
            grace = 0
        known = value["metadata"].get("deletionGracePeriodSeconds")
        if known is not None and grace >= known and grace > 0:
            return value
        marks = {"deletionTimestamp": stamp(grace), "deletionGracePeriodSeconds": grace}
        marked = {**value, "metadata": {**value["metadata"], **marks, "generation": 2}}
        return self.remove(resource, marked) if grace == 0 else self.replace(resource, marked, value)

    def watch(self) -> asyncio.Queue[Event | None]:
        """All changes from now on; `None` says that the watch has expired."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._watches.add(queue)
        return queue

    def unwatch(self, queue: asyncio.Queue[Event | None]) -> None:
        self._watches.discard(queue)

    def since(self, version: int) -> Iterator[Event]:
        return (event for event in self._log if event.version > version)

    def expire(self, is_told: bool) -> None:
        """Forgets the changes so far, as a compaction or a restart does; open watches are told by an error."""
        self._next()
        self.oldest = self.version
        self._log.clear()
        for queue in self._watches if is_told else ():
            queue.put_nowait(None)

    async def collect_garbage(self) -> None:
        """Deletes, again and again, the objects of which every owner is gone."""
        seen = 0
        while True:
            await asyncio.sleep(COLLECTION_PERIOD)
            if seen == self.version:
                continue
            seen = self.version
            present = {value["metadata"]["uid"] for values in self._objects.values() for value in values.values()}
            for resource in list(self._objects):
                for value in self.list(resource):
                    owners = value["metadata"].get("ownerReferences")
                    if owners and not any(owner.get("uid") in present for owner in owners):
                        self.delete(resource, value)

    def _put(self, change: str, resource: Resource, value: Object, before: Object | None) -> Object:
        value = {**value, "metadata": {**value["metadata"], "resourceVersion": self._next()}}
        place = value["metadata"].get("namespace", ""), value["metadata"]["name"]
        self._objects.setdefault(resource, {})[place] = value
        self._publish(Event(self.version, change, resource, value, before))
        return value

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    def _publish(self, event: Event) -> None:
        self._log.append(event)
        for queue in self._watches:
            queue.put_nowait(event)


def fresh(value: Object) -> Object:
    """The object with what a server adds when it is created."""
    added = {"uid": str(uuid.uuid4()), "creationTimestamp": stamp()}
    return {**value, "metadata": {**value["metadata"], **added}}


def stamp(later: int = 0) -> str:
    """The time so many seconds from now, as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(calendar.timegm(time.gmtime()) + later))


def _without_version(value: Object) -> Object:
    return {**value, "metadata": {**value["metadata"], "resourceVersion": None}}
