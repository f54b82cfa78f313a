"""Answers in the words of kube-apiserver 1.36: refusals as `Status` objects, and their HTTP responses."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

Object = dict[str, Any]

NOT_FOUND = "the server could not find the requested resource"


class RefusalError(Exception):
    """A request that ends with a `Status` object."""

    def __init__(self, code: int, reason: str | None, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self.status["message"] = message
        if reason is not None:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code


def bad_request(message: str) -> RefusalError:
    return RefusalError(400, "BadRequest", message)


def forbidden(plural: str, group: str, name: str, words: str) -> RefusalError:
    subject = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return RefusalError(403, "Forbidden", f"{subject} is forbidden: {words}", details(plural, group, name))


def not_found(plural: str, group: str, name: str) -> RefusalError:
    message = f'{qualified(plural, group)} "{name}" not found'
    return RefusalError(404, "NotFound", message, details(plural, group, name))


def already_exists(plural: str, group: str, name: str, is_being_deleted: bool) -> RefusalError:
    message = f'{qualified(plural, group)} "{name}" already exists'
    if is_being_deleted:
        message = f"object is being deleted: {message}"
    return RefusalError(409, "AlreadyExists", message, details(plural, group, name))


def conflict(plural: str, group: str, name: str, words: str) -> RefusalError:
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {words}'
    return RefusalError(409, "Conflict", message, details(plural, group, name))


def cause(reason: str, field: str, message: str) -> Object:
    return {"reason": reason, "message": message, "field": field}


def invalid(kind: str, group: str, name: str, causes: list[Object]) -> RefusalError:
    found = list(dict.fromkeys(f"{cause['field']}: {cause['message']}" for cause in causes))
    words = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
    message = f'{qualified(kind, group)} "{name}" is invalid: {words}'
    return RefusalError(422, "Invalid", message, details(kind, group, name) | {"causes": causes})


def qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def details(kind: str, group: str, name: str) -> Object:
    found = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in found.items() if value}


def encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def respond(value: object, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=encoded(value), status=code, content_type="application/json", headers=headers)


def respond_text(text: str, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(text=text, status=code, content_type="text/plain", charset="utf-8", headers=headers)
