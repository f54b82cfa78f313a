"""Turns the answer to a call into the Python value or the exception that the caller gets.

`.raw` of a dict, list or str is the whole result of the server. Binary content in it is a Blob with the same keys.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping

from ..display.images import IMAGES, kind_of
from ..display.text import cut
from ..kernel.type_names import Any
from ..wire.frames import DEPTH_MAX, Frame, deeper_than
from ..wire.json_reader import reader
from .awaitable import Awaitable
from .placeholder import Placeholder

_MIME_TYPE_CHARACTERS_MAX = 100
_ERROR_CHARACTERS_MAX = 2_000  # of each part of an error that is no text
INVALID = "invalid_arguments"
# What may stand in a result beside its value.
_MEMBERS = frozenset(("content", "structuredContent", "isError", "_meta", "resultType"))
_CALLS_SHOWN_MAX = 5
# How many images and files results had beside their structured content since the last run, by the calls.
_beside: dict[str, int] = {}
_read = reader()


class MCPError(RuntimeError):
    """A call or a helper failed. `code` says how (see the protocol), `hint` what to do, `data` is the server's own."""

    __module__ = "mcp.runtime"  # where users know it from

    def __init__(self, message: str, *, code: str = "internal", hint: str | None = None, data: object = None) -> None:
        super().__init__(f"{message}\n{hint}" if hint else message)
        self.message = message
        self.code = code
        self.hint = hint
        self.data = data


class InvalidCallError(MCPError, TypeError, ValueError):
    """A call cannot succeed as it is written, and was not sent. `line`: its line, in code that has not run."""

    __module__ = "mcp.runtime"

    def __init__(self, message: str, *, hint: str | None = None, line: int | None = None) -> None:
        super().__init__(message, code=INVALID, hint=hint)
        self.line = line


class ToolError(MCPError):
    """The tool itself returned an error."""

    __module__ = "mcp.runtime"

    def __init__(
        self,
        server: str,
        tool: str,
        message: str,
        *,
        hint: str | None = None,
        raw: object = None,
        data: object = None,
    ) -> None:
        super().__init__(message, code="tool_error", hint=hint, data=data)
        self.server = server
        self.tool = tool
        self.raw = raw

    def __reduce__(self) -> tuple[Any, ...]:
        # The other attributes follow from the dict.
        return ToolError, (self.server, self.tool, *self.args), vars(self)


class DictResult(dict[str, "Any"], Awaitable):
    raw: Any = None

    def __missing__(self, key: str) -> Any:
        # Hints find the dict by this frame.
        raise KeyError(key)


class ListResult(list["Any"], Awaitable):
    raw: Any = None


class StrResult(str, Awaitable):
    raw: Any = None


class TupleResult(tuple["Any", ...], Awaitable):
    pass


_AWAITABLE: dict[type, Callable[[Any], Any]] = {dict: DictResult, list: ListResult, str: StrResult, tuple: TupleResult}


class Blob(Awaitable, Mapping[str, "Any"]):
    """Binary content of a result: an image, audio or an embedded resource. As an argument of a call it becomes base64.

    It has the keys of the server's content block, since a tool's schema may promise them.
    """

    __module__ = "mcp.runtime"
    # Each equals only itself, also as a key and in sets.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, mime_type: str, data: bytes, block: dict[str, Any]) -> None:
        self.mime_type = mime_type
        self.data = data
        self.raw: object = block
        self._block = block

    def __getitem__(self, key: str) -> Any:
        return self._block[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._block)

    def __len__(self) -> int:
        return len(self._block)

    def save(self, path: str) -> str:
        """Writes the bytes to a file and returns its path."""
        with open(path, "wb") as file:
            file.write(self.data)
        saved: str = awaitable(path)
        return saved

    def show(self) -> None:
        """Adds an image to the reply of the run, like an open figure."""
        if not self._is_image():
            raise TypeError(f"only images can be shown, not {self.mime_type[:_MIME_TYPE_CHARACTERS_MAX]}; .save(path)")
        IMAGES.show(self._kind(), self.data)

    def _kind(self) -> str:
        """Returns the media type by the first bytes, else the server's, without parameters."""
        return kind_of(self.data) or self.mime_type.partition(";")[0].strip().lower()

    def _belljar_picture(self) -> tuple[str, bytes] | None:
        return (self._kind(), self.data) if self._is_image() else None

    def _is_image(self) -> bool:
        kind = self._kind()
        return kind.startswith("image/") and len(kind) <= _MIME_TYPE_CHARACTERS_MAX

    def __repr__(self) -> str:
        show = ", .show()" if self._is_image() else ""
        return f"<{self.mime_type}, {len(self.data)} bytes: .data, .save(path){show}>"


def answer(frame: Frame, server: str | None, tool: str) -> Any:
    """Returns the value of a `result` frame, or raises its fault."""
    fault = frame.get("fault")
    if isinstance(fault, dict):
        message, code, hint = (fault.get(key) for key in ("message", "code", "hint"))
        hint = hint if isinstance(hint, str) else None
        if code == "tool_error" and server is not None:
            raise ToolError(server, tool, str(message), hint=hint, data=fault.get("data"))
        if code == INVALID:
            raise InvalidCallError(str(message), hint=hint)
        raise MCPError(str(message), code=str(code), hint=hint)
    planned = frame.get("planned")
    if isinstance(planned, dict):
        return Placeholder(f"{planned.get('server') or 'runtime'}.{planned.get('tool')}")
    if server is None:
        return frame.get("value")
    wrapped = frame.get("wrapped")
    return unwrap(frame.get("value") if wrapped is None else wrapped, server, tool, wrapped is not None)


def unwrap(result: Any, server: str, tool: str, wraps: bool = False) -> Any:
    """Returns the value of a tool's result. `wraps`: the value is the only member of the structured content."""
    if not isinstance(result, dict):
        return result
    blocks = [_or_blob(block) for block in _blocks(result.get("content"))]
    blobs = {_base64(block): block for block in blocks if isinstance(block, Blob)}
    if blobs:
        # In `.raw`, too, binary content is no base64.
        result = {**result, "content": blocks}
    if result.get("isError") in (1, "true"):
        raise ToolError(server, tool, _words_of_error(result, blocks), raw=result)
    structured = result.get("structuredContent")
    if structured is not None:
        if blobs:
            beside = {*blobs}
            structured = result["structuredContent"] = _with_blobs(structured, blobs, beside)
            if beside:
                _beside.setdefault(f"{server}.{tool}", len(beside))
        if wraps and isinstance(structured, dict) and structured.keys() == {"result"}:
            structured = structured["result"]
            structured = _parsed(structured) if isinstance(structured, str) else structured
        return with_raw(structured, result)
    if not blocks:
        others = {key: value for key, value in result.items() if key not in _MEMBERS}
        return with_raw(others, result) if others else None
    if len(blocks) == 1:
        return with_raw(block_value(blocks[0]), result)
    return with_raw([block_value(block) for block in blocks], result)


def _words_of_error(result: dict[str, Any], blocks: list[Any]) -> str:
    """Returns what a tool says about its error: texts, what only the structured content says, and its challenges."""
    said = [value if isinstance(value, str) else _shown(value) for value in map(_told, blocks) if value is not None]
    structured, meta = result.get("structuredContent"), result.get("_meta")
    if structured and not any(_parsed(text) == structured for text in said):
        said.append(_shown(structured))
    challenges = meta.get("mcp/www_authenticate") if isinstance(meta, dict) else None
    if challenges:
        said.append(f"the server asks for other credentials: {_shown(challenges)}")
    return "\n".join(said) or "the tool reported an error without text"


def _told(block: Any) -> Any:
    """Returns the text of a block of an error, the block if it has none, None if it is binary."""
    match block:
        case Blob():
            return None
        case {"text": str(text)} | {"resource": {"text": str(text)}}:
            return text
    return block


def _shown(value: object) -> str:
    return cut(repr(value), _ERROR_CHARACTERS_MAX)


def note_beside(notes: list[str]) -> None:
    """Adds a note about results whose value is the structured content although they have images, too."""
    if _beside:
        calls = [f"{call} ({count})" for call, count in [*_beside.items()][:_CALLS_SHOWN_MAX]]
        more = f" and {len(_beside) - len(calls)} more tools" if len(_beside) > len(calls) else ""
        notes.append(
            f"beside the value, results have images or files, in .raw['content']: {', '.join(calls)}{more}; "
            ".show() or .save(path) of such a block"
        )
        _beside.clear()


def _blocks(content: Any) -> list[Any]:
    """Returns the blocks of the content. A text counts as a block of text, and one block as a list of it."""
    items = content if isinstance(content, list) else [content]
    return [{"type": "text", "text": item} if isinstance(item, str) else item for item in items if item is not None]


def block_value(block: Any) -> Any:
    match block:
        case Blob():
            return block
        case {"type": "text", "text": str(text)}:
            return _parsed(text)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
    return _or_blob(block)


def _or_blob(block: Any) -> Any:
    """Returns binary content as a Blob if it can be decoded, anything else unchanged."""
    data = _base64(block)
    if data is None:
        return block
    of = block["resource"] if block["type"] == "resource" else block
    return blob(of.get("mimeType"), data, block)


def _base64(block: Any) -> str | None:
    match block:
        case {"type": "image" | "audio", "data": str(data)}:
            return data
        case {"type": "resource", "resource": {"blob": str(data)}}:
            return data
    return None


def _with_blobs(value: Any, blobs: dict[str | None, Blob], beside: set[str | None]) -> Any:
    """Returns structured content in which a block that repeats a block of the content is replaced by its Blob. `beside`
    loses the data of these."""
    if isinstance(value, dict):
        data = _base64(value)
        if data in blobs:
            beside.discard(data)
            return blobs[data]
        return {key: _with_blobs(item, blobs, beside) for key, item in value.items()}
    return [_with_blobs(item, blobs, beside) for item in value] if isinstance(value, list) else value


def _parsed(text: str) -> Any:
    if text.lstrip(" \t\r\n")[:1] in ("{", "["):
        try:
            return loads(text)
        except (ValueError, RecursionError):
            pass
        # Some tools return the repr of a list. Such a text prints like the list, but its items are characters.
        if text.rstrip(" \t\r\n")[-1:] in ("}", "]"):
            from ..wire.python_literal import literal

            try:
                return literal(text)
            except (ValueError, RecursionError, MemoryError):
                pass
    return text


def loads(text: str) -> Any:
    """Parses JSON of a server. ValueError if it is not JSON, or nests too deep."""
    if deeper_than(DEPTH_MAX, text.encode("utf-8", "replace")):
        raise ValueError(f"nesting > {DEPTH_MAX}")
    return _read(text)


def blob(mime_type: object, data: str, block: dict[str, Any]) -> Any:
    try:
        return Blob(str(mime_type or "application/octet-stream"), decoded(data), block)
    except ValueError:
        return block


def decoded(data: str) -> bytes:
    """Decodes base64: also that for URLs, in lines, or without its padding. ValueError if it is none."""
    try:
        return a2b_base64(data, strict_mode=True)
    except ValueError:
        data = "".join(data.split()).rstrip("=").replace("-", "+").replace("_", "/")
        return a2b_base64(data + "=" * (-len(data) % 4), strict_mode=True)


def with_raw(value: Any, raw: object) -> Any:
    value = awaitable(value)
    if isinstance(value, DictResult | ListResult | StrResult | Blob):
        value.raw = raw
    return value


def awaitable(value: Any) -> Any:
    """Returns the same value as an awaitable one, if there is such a class for its type."""
    twin = _AWAITABLE.get(type(value))
    return value if twin is None else twin(value)
