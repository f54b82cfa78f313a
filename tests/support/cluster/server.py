"""The API: which request asks for what, and the verbs on objects."""

from __future__ import annotations

import copy
import json
import random
import re
import string
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

import access
import fields
import pods
import resources
from access import Access, User
from answers import (
    NOT_FOUND,
    Object,
    RefusalError,
    already_exists,
    bad_request,
    cause,
    conflict,
    details,
    forbidden,
    invalid,
    not_found,
    respond,
    respond_text,
)
from faults import Faults
from kubelet import Kubelet
from resources import ACCESS_REVIEWS, LEASES, NAMESPACES, PODS, SUBJECT_REVIEWS, Resource
from selection import merged, selector
from store import Store, fresh
from streams import Streams
from watching import parse_version, watch

PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[^/]+)/(?P<rest>.+)")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAME_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LONGEST_NAME = 253
LONGEST_LABEL = 63
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
MEDIA_TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}


@dataclass(frozen=True)
class Target:
    """What a path names."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str

    @staticmethod
    def parse(path: str) -> Target | None:
        match = PATH.fullmatch(path)
        if match is None:
            return None
        parts = match["rest"].rstrip("/").split("/")
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
            namespace, parts = parts[1], parts[2:]
        name, subresource = (*parts[1:3], "", "")[:2]
        return Target(match["group"] or "", match["version"], parts[0], namespace, name, subresource)


class Server:
    def __init__(self, store: Store, access_: Access, kubelet: Kubelet, streams: Streams, faults: Faults) -> None:
        self._store = store
        self._access = access_
        self._kubelet = kubelet
        self._streams = streams
        self._faults = faults

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            if request.path == "/stand-in/faults":
                return await self._make_fault(request)
            if (answer := await self._faults.meet(request)) is not None:
                return answer
            if request.path in ("/healthz", "/livez", "/readyz"):
                return respond_text("ok")
            if request.path == "/version":
                return respond(VERSION)
            user = self._access.caller(request)
            target = Target.parse(request.path)
            return self._discover(request, user) if target is None else await self._serve(request, user, target)
        except RefusalError as refusal:
            return respond(refusal.status, refusal.code)

    async def _make_fault(self, request: web.Request) -> web.Response:
        if self._access.caller(request).name != access.ADMIN:
            raise RefusalError(403, "Forbidden", "faults are for the admin")
        await self._faults.make(await request.json())
        return respond({})

    def _discover(self, request: web.Request, user: User) -> web.Response:
        path = request.path.rstrip("/")
        access.check_path(user, path or "/")
        if path in ("/api", "/apis") and "as=APIGroupDiscoveryList" in request.headers.get("Accept", ""):
            answer = respond(resources.aggregated(is_core=path == "/api"))
            answer.headers["Content-Type"] = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            return answer
        if path == "/api":
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": request.host}]
            return respond({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
        if path == "/apis":
            return respond(resources.group_list())
        if path == "/openapi/v3":
            return respond(resources.openapi_roots())
        if path.startswith("/openapi/v3/"):
            return respond(resources.openapi(path.removeprefix("/openapi/v3/")))
        group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
        if resources.is_served(group.removeprefix("/"), version):
            return respond(resources.resource_list(group, version))
        return respond_text("404 page not found\n", 404)

    async def _serve(self, request: web.Request, user: User, target: Target) -> web.StreamResponse:
        verb = _verb(request, target)
        namespace = target.name if target.plural == "namespaces" else target.namespace
        access.check(user, verb, target.plural, target.group, namespace, target.name, target.subresource)
        if not resources.is_served(target.group, target.version):
            return respond_text("404 page not found\n", 404)
        resource = resources.find(target.group, target.version, target.plural)
        if resource is None or (target.subresource and target.subresource not in resource.subresources):
            raise RefusalError(404, "NotFound", NOT_FOUND, {})
        if target.subresource == "exec":
            return await self._execute(request, user, target)
        handlers: dict[str, Callable[[web.Request, User, Target, Resource], Awaitable[web.StreamResponse]]] = {
            "create": self._create,
            "get": self._get,
            "list": self._list,
            "watch": self._list,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_all,
        }
        if verb not in resource.verbs:
            raise RefusalError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
            )
        return await handlers[verb](request, user, target, resource)

    async def _execute(self, request: web.Request, user: User, target: Target) -> web.StreamResponse:
        if request.method == "GET" and not user.may("create", "pods/exec", target.namespace):
            raise forbidden("pods", "", target.name, "")
        pod = self._present(PODS, target)
        name = pods.container_of(pod, request.query.get("container"))
        return await self._streams.serve(request, pod["metadata"]["uid"], name, self._kubelet.container(pod))

    async def _create(self, request: web.Request, user: User, target: Target, resource: Resource) -> web.StreamResponse:
        value, headers = await self._body(request, resource, target)
        if resource == ACCESS_REVIEWS:
            return respond(access.review_access(user, value), 201)
        if resource == SUBJECT_REVIEWS:
            return respond(access.review_subject(user), 201)
        value = self._admitted(value, resource, target)
        metadata = value["metadata"]
        known = self._store.get(resource, metadata.get("namespace", ""), metadata["name"])
        if known is not None:
            is_ending = "deletionTimestamp" in known["metadata"]
            raise already_exists(resource.plural, resource.group, metadata["name"], is_ending)
        if request.query.get("dryRun") == "All":
            return respond(fresh(value), 201, headers)
        return respond(self._store.create(resource, value), 201, headers)

    async def _get(self, request: web.Request, user: User, target: Target, resource: Resource) -> web.StreamResponse:
        return respond(self._present(resource, target))

    async def _list(self, request: web.Request, user: User, target: Target, resource: Resource) -> web.StreamResponse:
        query = request.query
        is_selected = selector(resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        if _is_watch(request):
            return await watch(request, self._store, resource, target.namespace, is_selected)
        version = parse_version(query.get("resourceVersion", ""))
        if version > self._store.version:
            words = f"Timeout: Too large resource version: {version}, current: {self._store.version}"
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            raise RefusalError(504, "Timeout", words, {"causes": causes, "retryAfterSeconds": 1})
        if query.get("resourceVersionMatch") == "Exact" and version < self._store.oldest:
            raise RefusalError(410, "Expired", "The resourceVersion for the provided list is too old.")
        items = [value for value in self._store.list(resource, target.namespace) if is_selected(value)]
        metadata = {"resourceVersion": str(self._store.version)}
        kind = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return respond(kind | {"metadata": metadata, "items": items})

    async def _update(self, request: web.Request, user: User, target: Target, resource: Resource) -> web.StreamResponse:
        value, headers = await self._body(request, resource, target)
        metadata = value["metadata"]
        known = self._store.get(resource, target.namespace, target.name)
        if (uid := metadata.get("uid")) and uid != (known or _NOTHING)["metadata"]["uid"]:
            raise _other_uid(resource, target, uid, known)
        if known is None:
            return self._create_by_update(value, user, target, resource)
        version = metadata.get("resourceVersion")
        if not version and resource == LEASES:
            words = "Invalid value: 0: must be specified for an update"
            found = [cause("FieldValueInvalid", "metadata.resourceVersion", words)]
            raise invalid(resource.plural, resource.group, target.name, found)
        _check_version(resource, target, version, known)
        return respond(self._replace(request, resource, target, value, known), headers=headers)

    def _create_by_update(self, value: Object, user: User, target: Target, resource: Resource) -> web.Response:
        if resource != LEASES:
            raise not_found(resource.plural, resource.group, target.name)
        access.check(user, "create", target.plural, target.group, target.namespace, target.name, "")
        return respond(self._store.create(resource, self._admitted(value, resource, target)), 201)

    async def _patch(self, request: web.Request, user: User, target: Target, resource: Resource) -> web.StreamResponse:
        if request.content_type not in (MERGE, STRATEGIC, APPLY):
            accepted = ", ".join((MERGE, STRATEGIC, APPLY))
            words = "the body of the request was in an unknown format - accepted media types include: "
            raise RefusalError(415, "UnsupportedMediaType", words + accepted)
        patch = _parsed(await request.read(), resource)
        known = self._store.get(resource, target.namespace, target.name)
        if known is None and request.content_type == APPLY:
            access.check(user, "create", target.plural, target.group, target.namespace, target.name, "")
            value = self._admitted(patch, resource, target)
            return respond(self._store.create(resource, value), 201)
        known = self._present(resource, target)
        _check_version(resource, target, patch.get("metadata", {}).get("resourceVersion"), known)
        value = merged(known, patch, request.content_type != MERGE)
        if value["metadata"]["uid"] != known["metadata"]["uid"]:
            words = f'Invalid value: "{value["metadata"]["uid"]}": field is immutable'
            found = [cause("FieldValueInvalid", "metadata.uid", words)] * 2
            raise invalid(resource.kind, resource.group, target.name, found)
        headers = _check_fields(request, resource, value)[1]
        return respond(self._replace(request, resource, target, value, known), headers=headers)

    async def _delete(self, request: web.Request, user: User, target: Target, resource: Resource) -> web.StreamResponse:
        options = await _delete_options(request)
        known = self._present(resource, target)
        _check_preconditions(resource, target, options.get("preconditions", {}), known)
        if request.query.get("dryRun") != "All" and options.get("dryRun") != ["All"]:
            known = self._delete_one(resource, known, options)
        if resource == PODS:
            return respond(known)
        found = details(resource.plural, resource.group, target.name) | {"uid": known["metadata"]["uid"]}
        return respond({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": found})

    async def _delete_all(
        self, request: web.Request, user: User, target: Target, resource: Resource
    ) -> web.StreamResponse:
        options = await _delete_options(request)
        query = request.query
        is_selected = selector(resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        items = [value for value in self._store.list(resource, target.namespace) if is_selected(value)]
        gone = [self._delete_one(resource, value, options) for value in items]
        metadata = {"resourceVersion": str(self._store.version)}
        kind = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return respond(kind | {"metadata": metadata, "items": gone})

    def _delete_one(self, resource: Resource, value: Object, options: Object) -> Object:
        if resource == NAMESPACES:
            for each in resources.ALL:
                for inner in self._store.list(each, value["metadata"]["name"]) if each.is_namespaced else []:
                    self._store.delete(each, inner, 0)
        return self._store.delete(resource, value, options.get("gracePeriodSeconds"))

    def _present(self, resource: Resource, target: Target) -> Object:
        found = self._store.get(resource, target.namespace, target.name)
        if found is None:
            raise not_found(resource.plural, resource.group, target.name)
        return found

    def _replace(
        self, request: web.Request, resource: Resource, target: Target, value: Object, known: Object
    ) -> Object:
        """Stores what may be changed: only the status by the subresource of that name, and anything else without it."""
        if target.subresource == "status":
            value = known | {"status": value.get("status", {})}
        elif "status" in resource.subresources:
            value = value | {"status": known.get("status", {})}
        kept = ("uid", "creationTimestamp", "resourceVersion", "name", "namespace", "generation")
        metadata = value["metadata"] | {key: known["metadata"][key] for key in kept if key in known["metadata"]}
        value = value | {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return value if request.query.get("dryRun") == "All" else self._store.replace(resource, value, known)

    async def _body(
        self, request: web.Request, resource: Resource, target: Target
    ) -> tuple[Object, dict[str, str] | None]:
        """The object in a request, and the warnings about it."""
        if request.content_type not in ("application/json", "application/octet-stream"):
            words = "the body of the request was in an unknown format - accepted media types include: "
            raise RefusalError(415, "UnsupportedMediaType", words + MEDIA_TYPES)
        value = _parsed(await request.read(), resource)
        value.setdefault("metadata", {})
        if value["metadata"].get("namespace", target.namespace) != target.namespace and target.namespace:
            words = "the namespace of the provided object does not match the namespace sent on the request"
            raise bad_request(words)
        return _check_fields(request, resource, value)

    def _admitted(self, value: Object, resource: Resource, target: Target) -> Object:
        """The object with its defaults, unless it is refused."""
        value = copy.deepcopy(value)
        metadata = value.setdefault("metadata", {})
        for key in ("uid", "resourceVersion", "creationTimestamp"):
            metadata.pop(key, None)
        if resource.is_namespaced:
            metadata["namespace"] = target.namespace
            namespace = self._store.get(NAMESPACES, "", target.namespace)
            if namespace is None:
                raise not_found("namespaces", "", target.namespace)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(random.choices(string.ascii_lowercase, k=5))
        _check_metadata(resource, metadata)
        value |= {"kind": resource.kind, "apiVersion": resource.api_version}
        if resource == NAMESPACES:
            value["status"] = {"phase": "Active"}
        if resource == PODS:
            value = pods.with_defaults(value)
            pods.validate(value)
            assert namespace is not None
            pods.check_security(value, namespace)
            pods.check_quota(value, self._store)
        return value


_NOTHING: Object = {"metadata": {"uid": ""}}


def _verb(request: web.Request, target: Target) -> str:
    if target.subresource == "exec":
        return "create" if request.method == "POST" else "get"
    if request.method == "GET":
        return "get" if target.name else "watch" if _is_watch(request) else "list"
    if request.method == "DELETE":
        return "delete" if target.name else "deletecollection"
    return VERBS.get(request.method, request.method.lower())


def _is_watch(request: web.Request) -> bool:
    return request.query.get("watch") in ("true", "1")


def _parsed(body: bytes, resource: Resource) -> Object:
    try:
        value = json.loads(body)
    except ValueError:
        start = body[:22].decode(errors="replace")
        words = "couldn't get version/kind; json parse error: unexpected end of JSON input"
        words = f"the object provided is unrecognized (must be of type {resource.kind}): {words} ({start} ...)"
        raise bad_request(words) from None
    if not isinstance(value, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {resource.kind})")
    if value.get("kind", resource.kind) != resource.kind:
        kind, version = value["kind"], resource.version
        words = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {words}')
    return value


def _check_fields(request: web.Request, resource: Resource, value: Object) -> tuple[Object, dict[str, str] | None]:
    """Refuses unknown fields where the request asks for it, and else drops them with a warning."""
    if resource == LEASES:
        fields.check_times(value)
    known, errors = fields.split_unknown(resource.kind, value)
    how = request.query.get("fieldValidation", "Warn")
    if not errors or how == "Ignore":
        return known, None
    words = ", ".join(errors)
    if how == "Strict":
        subject = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise bad_request(f"{subject}: strict decoding error: {words}")
    quoted = words.replace('"', '\\"')
    return known, {"Warning": f'299 - "{quoted}"'}


def _check_metadata(resource: Resource, metadata: Object) -> None:
    name = metadata.get("name", "")
    found = []
    if not name:
        found.append(cause("FieldValueRequired", "metadata.name", "Required value: name or generateName is required"))
    elif not NAME.fullmatch(name):
        found.append(cause("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {NAME_WORDS}'))
    if len(name) > LONGEST_NAME:
        words = f'Invalid value: "{name}": must be no more than {LONGEST_NAME} characters'
        found.append(cause("FieldValueInvalid", "metadata.name", words))
    for label in metadata.get("labels", {}).values():
        if len(label) > LONGEST_LABEL:
            words = f'Invalid value: "{label}": must be no more than {LONGEST_LABEL} bytes'
            found.append(cause("FieldValueInvalid", "metadata.labels", words))
    if found:
        raise invalid(resource.kind, resource.group, name, found)


def _check_version(resource: Resource, target: Target, version: str | None, known: Object) -> None:
    if version and version != known["metadata"]["resourceVersion"]:
        words = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource.plural, resource.group, target.name, words)


def _other_uid(resource: Resource, target: Target, uid: str, known: Object | None) -> RefusalError:
    found = (known or _NOTHING)["metadata"]["uid"]
    words = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{resource.plural}/{target.namespace}/{target.name}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {found}"
    )
    return conflict(resource.plural, resource.group, target.name, words)


def _check_preconditions(resource: Resource, target: Target, wanted: Object, known: Object) -> None:
    metadata = known["metadata"]
    for key, shown, then in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if key in wanted and wanted[key] != metadata[key]:
            words = (
                f"the {shown} in the precondition ({wanted[key]}) does not match the {shown} in record "
                f"({metadata[key]}). The object might have been {then}"
            )
            raise conflict(resource.kind, resource.group, target.name, words)


async def _delete_options(request: web.Request) -> Object:
    body = await request.read()
    options: Object = json.loads(body) if body else {}
    if "gracePeriodSeconds" in request.query:
        options["gracePeriodSeconds"] = int(request.query["gracePeriodSeconds"])
    return options
