"""Watches: a stream of the changes that a client asks for."""

from __future__ import annotations

import asyncio
import contextlib
import time

from aiohttp import web

from answers import Object, RefusalError, cause, encoded, invalid
from resources import Resource
from selection import Test
from store import Event, Store

BOOKMARK_PERIOD = 60
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def watch(
    request: web.Request, store: Store, resource: Resource, namespace: str, is_selected: Test
) -> web.StreamResponse:
    """Sends what is there, or what has changed since the asked version, and then each change."""
    changes = store.watch()
    try:
        return await Watch(request, store, resource, namespace, is_selected).serve(changes)
    finally:
        store.unwatch(changes)


def parse_version(text: str) -> int:
    if text and not text.isdigit():
        words = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise RefusalError(500, None, f'resourceVersion: Invalid value: "{text}": {words}')
    return int(text or "0")


class Watch:
    def __init__(
        self, request: web.Request, store: Store, resource: Resource, namespace: str, is_selected: Test
    ) -> None:
        self._request = request
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._is_selected = is_selected
        self._version = parse_version(request.query.get("resourceVersion", ""))
        self._has_initial = request.query.get("sendInitialEvents") == "true"
        self._response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if self._has_initial and request.query.get("resourceVersionMatch") != "NotOlderThan":
            words = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            found = [cause("FieldValueForbidden", "resourceVersionMatch", words)]
            raise invalid("ListOptions", "meta.k8s.io", "", found)

    async def serve(self, changes: asyncio.Queue[Event | None]) -> web.StreamResponse:
        # Taken before anything is awaited, so that no change is missed or seen twice.
        first = self._first()
        await self._response.prepare(self._request)
        with contextlib.suppress(ConnectionError):
            for event in first:
                await self._send(event)
            if self._has_initial:
                await self._send_bookmark({INITIAL_EVENTS_END: "true"})
            if None not in first:
                await self._follow(changes)
        return self._response

    def _first(self) -> list[Event | None]:
        if self._version == 0 or self._has_initial:
            present = self._store.list(self._resource, self._namespace)
            return [Event(self._store.version, "ADDED", self._resource, value, None) for value in present]
        return [None] if self._version < self._store.oldest else list(self._store.since(self._version))

    async def _follow(self, changes: asyncio.Queue[Event | None]) -> None:
        """Ends with the asked time, the client or the expiry of the watch."""
        limit = float(self._request.query.get("timeoutSeconds", "0")) or float("inf")
        end = time.monotonic() + limit
        while (rest := end - time.monotonic()) > 0:
            try:
                event = await asyncio.wait_for(changes.get(), min(rest, BOOKMARK_PERIOD))
            except TimeoutError:
                if self._request.transport is None:
                    return
                if self._request.query.get("allowWatchBookmarks") == "true" and rest > BOOKMARK_PERIOD:
                    await self._send_bookmark({})
                continue
            await self._send(event)
            if event is None:
                return

    async def _send(self, event: Event | None) -> None:
        if event is None:
            words = f"too old resource version: {self._version} ({self._store.oldest})"
            await self._write("ERROR", RefusalError(410, "Expired", words).status)
            return
        namespace = event.object["metadata"].get("namespace", "")
        # A watch from a version in the future is silent up to it.
        if event.resource == self._resource and self._namespace in ("", namespace) and event.version > self._version:
            change = self._seen(event)
            if change is not None:
                await self._write(change, event.object)

    def _seen(self, event: Event) -> str | None:
        """The change as it looks through the selector: an object comes into the selection or leaves it."""
        was = event.before is not None and self._is_selected(event.before)
        if event.type == "DELETED":
            return "DELETED" if was else None
        if self._is_selected(event.object):
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else None

    async def _send_bookmark(self, annotations: Object) -> None:
        metadata = {"resourceVersion": str(self._store.version)} | ({"annotations": annotations} if annotations else {})
        kind = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        await self._write("BOOKMARK", kind | {"metadata": metadata})

    async def _write(self, change: str, value: Object) -> None:
        await self._response.write(encoded({"type": change, "object": value}))
