"""Label and field selectors, and merge patches."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from answers import Object, bad_request
from resources import Resource

TERM = re.compile(r"[^,(]+(?:\([^)]*\))?")
IN = re.compile(r"\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*")
# By which key a strategic merge patch finds the elements of a list.
MERGE_KEYS = ("name", "mountPath", "uid", "type")

Test = Callable[[Object], bool]


def selector(resource: Resource, labels: str, fields: str) -> Test:
    tests = [_label_test(term) for term in TERM.findall(labels)]
    tests += [_field_test(resource, term) for term in TERM.findall(fields)]
    return lambda value: all(test(value) for test in tests)


def _label_test(term: str) -> Test:
    def of(value: Object, key: str) -> str | None:
        found: str | None = value["metadata"].get("labels", {}).get(key)
        return found

    if match := IN.fullmatch(term):
        key, is_in, wanted = match[1], match[2] == "in", [each.strip() for each in match[3].split(",")]
        return lambda value: (of(value, key) in wanted) == is_in
    key, operator, text = _split(term)
    if operator == "!=":
        return lambda value: of(value, key) != text
    if operator:
        return lambda value: of(value, key) == text
    if key.startswith("!"):
        return lambda value: of(value, key[1:]) is None
    return lambda value: of(value, key) is not None


def _field_test(resource: Resource, term: str) -> Test:
    path, operator, text = _split(term)
    if path not in resource.selectable_fields:
        raise bad_request(f"field label not supported: {path}")
    return lambda value: (_field(value, path) == text) == (operator != "!=")


def _field(value: Object, path: str) -> str:
    found: object = value
    for key in path.split("."):
        found = found.get(key, "") if isinstance(found, dict) else ""
    return str(found)


def _split(term: str) -> tuple[str, str, str]:
    key, operator, text = re.fullmatch(r"\s*([^=!]*|![^=]*?)\s*(?:(==|=|!=)\s*(.*?))?\s*", term).groups("")  # type: ignore[union-attr]
    return key, operator, text


def merged(value: Any, patch: Any, is_strategic: bool) -> Any:
    """The value after a JSON merge patch, or one that merges lists of named elements as well."""
    if isinstance(patch, dict):
        result = dict(value) if isinstance(value, dict) else {}
        for key, part in patch.items():
            if part is None:
                result.pop(key, None)
            elif not key.startswith("$"):
                result[key] = merged(result.get(key), part, is_strategic)
        return result
    if is_strategic and isinstance(patch, list) and isinstance(value, list):
        return _merged_list(value, patch)
    return patch


def _merged_list(value: list[Any], patch: list[Any]) -> list[Any]:
    elements = [each for each in value + patch if isinstance(each, dict)]
    key = next((key for key in MERGE_KEYS if all(key in each for each in elements)), None)
    if key is None or len(elements) < len(value) + len(patch):
        return patch
    found = {each[key]: each for each in elements[: len(value)]}
    for each in elements[len(value) :]:
        if each.get("$patch") == "delete":
            found.pop(each[key], None)
        else:
            found[each[key]] = merged(found.get(each[key]), each, True)
    return list(found.values())
