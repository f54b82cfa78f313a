"""Which fields the kinds have, by the models of the Kubernetes client for Python."""

from __future__ import annotations

import re

from kubernetes.client import models

from answers import Object, bad_request

LIST = re.compile(r"List\[(.*)\]")
MAP = re.compile(r"Dict\[str, (.*)\]")
MICRO_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{6}(Z|[+-]\d\d:\d\d)")


def split_unknown(kind: str, value: Object) -> tuple[Object, list[str]]:
    """The object without the fields that its kind does not have, and the errors for these.

    Every field of a kind without a model is known.
    """
    errors: list[str] = []
    known = _known(f"V1{kind}", value, "", errors)
    assert isinstance(known, dict)
    return known, errors


def _known(type_: str, value: object, path: str, errors: list[str]) -> object:
    if (match := LIST.fullmatch(type_)) and isinstance(value, list):
        return [_known(match[1], each, f"{path}[{index}]", errors) for index, each in enumerate(value)]
    if (match := MAP.fullmatch(type_)) and isinstance(value, dict):
        return {key: _known(match[1], each, f"{path}.{key}", errors) for key, each in value.items()}
    model = getattr(models, type_, None)
    if model is None or not isinstance(value, dict):
        return value
    types = {name: model.openapi_types[attribute] for attribute, name in model.attribute_map.items()}
    known = {}
    for key, each in value.items():
        inner = f"{path}.{key}" if path else key
        if key in types:
            known[key] = _known(types[key], each, inner, errors)
        else:
            errors.append(f'unknown field "{inner}"')
    return known


def check_times(lease: Object) -> None:
    """Refuses times of a Lease that do not have exactly six decimals."""
    for name in ("acquireTime", "renewTime"):
        text = lease.get("spec", {}).get(name)
        if text is None or MICRO_TIME.fullmatch(text):
            continue
        rest = text[len("2006-01-02T15:04:05") :]
        words = f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{rest}" as ".000000"'
        raise bad_request(f'Lease in version "v1" cannot be handled as a Lease: {words}')
