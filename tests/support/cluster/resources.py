"""The kinds of objects that are served, and how clients discover them."""

from __future__ import annotations

from dataclasses import dataclass

from answers import Object

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
CORE = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True)
class Resource:
    """A kind of objects under its plural name."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()
    verbs: tuple[str, ...] = tuple(VERBS)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"apis/{self.api_version}" if self.group else f"api/{self.version}"

    @property
    def selectable_fields(self) -> tuple[str, ...]:
        return CORE + self.selectable


INVOLVED = tuple(f"involvedObject.{field}" for field in ("name", "namespace", "uid", "kind"))
ONLY_CREATED = ("create",)

PODS = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    short=("po",),
    subresources=("exec", "status"),
    selectable=("spec.nodeName", "spec.restartPolicy", "status.phase"),
)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, ("ns",), ("status",), ("status.phase",))
NODES = Resource("", "v1", "nodes", "Node", False, ("no",), ("status",))
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), ("status",))
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    False,
    verbs=ONLY_CREATED,
)
SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=ONLY_CREATED
)
# Those without a name here are only stored, so that manifests can be applied.
ALL = [
    PODS,
    NAMESPACES,
    NODES,
    QUOTAS,
    Resource("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Resource("", "v1", "events", "Event", short=("ev",), selectable=INVOLVED),
    Resource("", "v1", "limitranges", "LimitRange", short=("limits",)),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), subresources=("status",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",)),
    Resource("", "v1", "services", "Service", short=("svc",), subresources=("status",)),
    Resource("apps", "v1", "deployments", "Deployment", short=("deploy",), subresources=("status",)),
    LEASES,
    ACCESS_REVIEWS,
    SUBJECT_REVIEWS,
    Resource("batch", "v1", "cronjobs", "CronJob", short=("cj",), subresources=("status",)),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",)),
    Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
]


def find(group: str, version: str, plural: str) -> Resource | None:
    return next((each for each in ALL if (each.group, each.version, each.plural) == (group, version, plural)), None)


def is_served(group: str, version: str) -> bool:
    return any((each.group, each.version) == (group, version) for each in ALL)


def groups() -> dict[str, list[Resource]]:
    """The resources of each named group."""
    found: dict[str, list[Resource]] = {}
    for resource in ALL:
        if resource.group:
            found.setdefault(resource.group, []).append(resource)
    return found


def group_list() -> Object:
    items = [_group(name, members) for name, members in groups().items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": items}


def _group(name: str, members: list[Resource]) -> Object:
    version = {"groupVersion": members[0].api_version, "version": members[0].version}
    return {"name": name, "versions": [version], "preferredVersion": version}


def resource_list(group: str, version: str) -> Object:
    items: list[Object] = []
    for each in ALL:
        if (each.group, each.version) != (group, version):
            continue
        entry: Object = {"name": each.plural, "singularName": each.kind.lower(), "namespaced": each.is_namespaced}
        items.append(entry | {"kind": each.kind, "verbs": list(each.verbs), "shortNames": list(each.short)})
        for sub in each.subresources:
            items.append(entry | {"name": f"{each.plural}/{sub}", "kind": each.kind, "verbs": _verbs(sub)})
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": items}


def _verbs(subresource: str) -> list[str]:
    return ["create", "get"] if subresource == "exec" else ["get", "patch", "update"]


def aggregated(is_core: bool) -> Object:
    """Discovery in one answer, as kubectl asks for it."""
    found = {"": [each for each in ALL if not each.group]} if is_core else groups()
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {
                    "version": members[0].version,
                    "resources": [_aggregated(each) for each in members],
                    "freshness": "Current",
                }
            ],
        }
        for name, members in found.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated(resource: Resource) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.kind.lower(),
        "verbs": list(resource.verbs),
        "shortNames": list(resource.short),
        "subresources": [
            {"subresource": sub, "responseKind": kind, "verbs": _verbs(sub)} for sub in resource.subresources
        ],
    }


def openapi_roots() -> Object:
    roots = sorted({each.root for each in ALL})
    return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}


def openapi(root: str) -> Object:
    """As much of OpenAPI as tells kubectl that the server checks the fields itself."""
    parameters = [{"name": name, "in": "query"} for name in ("dryRun", "fieldManager", "fieldValidation", "force")]
    paths: Object = {}
    for each in ALL:
        if each.root == root:
            kind = {"group": each.group, "version": each.version, "kind": each.kind}
            operation = {"parameters": parameters, "x-kubernetes-group-version-kind": kind, "responses": {}}
            scope = "namespaces/{namespace}/" if each.is_namespaced else ""
            paths[f"/{root}/{scope}{each.plural}/{{name}}"] = {"patch": operation}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": paths}
