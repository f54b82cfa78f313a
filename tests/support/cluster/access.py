"""Who calls, and what they may do."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field

from aiohttp import web

from answers import Object, RefusalError, cause, forbidden, invalid

ADMIN = "admin"
EVERYTHING = "*:*"
ANONYMOUS = "system:anonymous"


@dataclass
class User:
    """A caller.

    Rules are `VERB:RESOURCE` or `VERB:RESOURCE/SUBRESOURCE`, with `*` for any. A denial goes before. What is allowed is
    allowed in namespaces only, as by a Role, except by `*:*` and for reviews of oneself.
    """

    name: str
    allowed: list[str] = field(default_factory=lambda: [EVERYTHING])
    denied: list[str] = field(default_factory=list)

    def may(self, verb: str, resource: str, namespace: str) -> bool:
        asked = f"{verb}:{resource}"
        is_denied = any(fnmatch.fnmatchcase(asked, rule) for rule in self.denied)
        has_scope = bool(namespace) or resource.startswith("selfsubject")
        rules = self.allowed if has_scope else [rule for rule in self.allowed if rule == EVERYTHING]
        return not is_denied and any(fnmatch.fnmatchcase(asked, rule) for rule in rules)


class Access:
    def __init__(self, tokens: dict[str, str]) -> None:
        """Takes the names of the users by their tokens."""
        self._users = {token: User(name) for token, name in tokens.items()}
        self._anonymous = User(ANONYMOUS, allowed=[])

    def user(self, name: str) -> User:
        return next(user for user in self._users.values() if user.name == name)

    def caller(self, request: web.Request) -> User:
        header = request.headers.get("Authorization")
        if header is None:
            return self._anonymous
        user = self._users.get(header.removeprefix("Bearer "))
        if user is None:
            raise RefusalError(401, "Unauthorized", "Unauthorized")
        return user


def check_path(user: User, path: str) -> None:
    """Discovery is for everybody who has a name."""
    if user.name == ANONYMOUS:
        raise RefusalError(403, "Forbidden", f'forbidden: User "{user.name}" cannot get path "{path}"', {})


def check(user: User, verb: str, plural: str, group: str, namespace: str, name: str, subresource: str) -> None:
    asked = f"{plural}/{subresource}" if subresource else plural
    if user.may(verb, asked, namespace):
        return
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    words = f'User "{user.name}" cannot {verb} resource "{asked}" in API group "{group}" {scope}'
    raise forbidden(plural, group, name, words)


def review_access(user: User, review: Object) -> Object:
    """The answer to a SelfSubjectAccessReview."""
    spec = review.get("spec", {})
    asked = spec.get("resourceAttributes")
    if (asked is None) == (spec.get("nonResourceAttributes") is None):
        words = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found = [cause("FieldValueInvalid", "spec.resourceAttributes", words)]
        raise invalid("", "authorization.k8s.io", "", found)
    if asked is None:
        return review | {"metadata": {}, "status": {"allowed": True}}
    resource = asked.get("resource", "*")
    if asked.get("subresource"):
        resource = f"{resource}/{asked['subresource']}"
    status: Object = {"allowed": user.may(asked.get("verb", "*"), resource, asked.get("namespace", ""))}
    if status["allowed"] and user.name != ADMIN:
        status["reason"] = f'RBAC: allowed by RoleBinding "{user.name}/belljar" of Role "{user.name}"'
        status["reason"] += f' to User "{user.name}"'
    return review | {"metadata": {}, "status": status}


def review_subject(user: User) -> Object:
    """The answer to a SelfSubjectReview."""
    groups = ["system:masters" if user.name == ADMIN else "belljar", "system:authenticated"]
    info = {"username": user.name, "uid": f"uid-{user.name}", "groups": groups}
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": {"userInfo": info},
    }
