"""Turns resources and prompts into Python values: text, bytes, messages.

`.raw` of each is the whole answer of the server.
"""

from __future__ import annotations

from ..kernel.type_names import Any
from ..wire.json_reader import NotJSONError
from .results import StrResult, blob, block_value, loads, with_raw


class ResourceText(StrResult):
    """The text of a resource."""

    __module__ = "mcp.runtime"

    mime_type: str | None = None

    def json(self) -> Any:
        """Parses the text as JSON."""
        try:
            return loads(self)
        except NotJSONError as error:
            failed = error
        try:
            from json import loads as explain

            explain(self)  # its error names the place
        except ImportError:
            pass
        raise failed


def contents(result: Any) -> Any:
    """Returns the contents of a resource: a single one by itself, several as a list."""
    found = result.get("contents") if isinstance(result, dict) else None
    if not isinstance(found, list):
        return result
    values = [_content(content, result) for content in found]
    return values[0] if len(values) == 1 else with_raw(values, result)


def messages(result: Any) -> Any:
    """Returns the messages of a prompt, each a dict with role and content."""
    found = result.get("messages") if isinstance(result, dict) else None
    if not isinstance(found, list):
        return result
    return with_raw([_message(message) for message in found], result)


def _content(content: Any, result: object) -> Any:
    match content:
        case {"text": str(text)}:
            value = ResourceText(text)
            mime_type = content.get("mimeType")
            value.mime_type = mime_type if isinstance(mime_type, str) else None
            value.raw = result
            return value
        case {"blob": str(data)}:
            return with_raw(blob(content.get("mimeType"), data, content), result)
    return content


def _message(message: Any) -> Any:
    match message:
        case {"content": {"type": "text", "text": str(text)}}:
            return {**message, "content": text}
        case {"content": dict(block)}:
            return {**message, "content": block_value(block)}
    return message
