"""Asks the language model that the user has allowed, about one text or about each of many.

The bridge knows the model, its limits, its costs and its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..calls.arguments import encode_arguments
from ..calls.awaitable import Awaitable
from ..calls.placeholder import Placeholder
from ..calls.port import port
from ..calls.results import MCPError
from ..kernel.type_names import Any

HELPER = "ask_llm"
_CHUNK = "{chunk}"
_AT_ONCE_MAX = 64
_NAMED = b'{"context":'


class LLMAnswer(Awaitable, str):
    """The answer of a model, with `model`, `stop_reason` (end_turn, max_tokens, ...) and `usage`, a dict of tokens."""

    __module__ = "mcp.runtime"

    model: str | None
    stop_reason: str | None
    usage: dict[str, Any]


class LanguageModel:
    def __init__(self, max_tokens: int, system: str | None = None, temperature: float | None = None) -> None:
        if type(max_tokens) is not int:
            raise TypeError(f"max_tokens is a whole number, not {type(max_tokens).__name__}")
        if system is not None and not isinstance(system, str):
            raise TypeError(f"system is text, not {type(system).__name__}")
        options = {"max_tokens": max_tokens, "system": system, "temperature": temperature}
        self._options = {name: value for name, value in options.items() if value is not None}

    async def ask(self, prompt: str, context: object) -> LLMAnswer:
        return _answer(await port().call(None, HELPER, self._asked(prompt, context)))

    def ask_sync(self, prompt: str, context: object) -> LLMAnswer:
        return _answer(port().call_sync(None, HELPER, self._asked(prompt, context)))

    def _asked(self, prompt: str, context: object) -> dict[str, Any]:
        return {"prompt": _whole(prompt, context), **self._options}

    async def map(self, chunks: Iterable[object], prompt: str, concurrency: int, on_error: str) -> list[Any]:
        """Returns the answers in the order of the chunks. At most `concurrency` are asked at once."""
        from asyncio import create_task, gather

        numbered = enumerate(_each(chunks))
        _check(concurrency, on_error)
        answers: dict[int, Any] = {}

        async def work() -> None:
            for at, chunk in numbered:
                try:
                    answers[at] = await self.ask(*_filled(prompt, chunk))
                except MCPError as error:
                    error.add_note(f"asked of chunks[{at}]")
                    if on_error == "raise":
                        raise
                    answers[at] = error

        workers = [create_task(work()) for _ in range(concurrency)]
        try:
            await gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await gather(*workers, return_exceptions=True)
        return [answers[at] for at in range(len(answers))]

    def map_sync(self, chunks: Iterable[object], prompt: str, concurrency: int, on_error: str) -> list[Any]:
        # Imported here, since it takes 40 ms. The session's asyncio.run also works while a loop runs.
        import asyncio

        return asyncio.run(self.map(chunks, prompt, concurrency, on_error))


def _answer(answer: Any) -> LLMAnswer:
    if isinstance(answer, Placeholder):
        return answer  # type: ignore[return-value] # which it stands for
    said = LLMAnswer(answer.get("text") or "")
    said.model, said.stop_reason = answer.get("model"), answer.get("stop_reason")
    said.usage = dict(answer.get("usage") or {})
    return said


def _check(concurrency: object, on_error: object) -> None:
    if type(concurrency) is not int or not 1 <= concurrency <= _AT_ONCE_MAX:
        raise ValueError(f"concurrency is {concurrency!r}, no whole number from 1 to {_AT_ONCE_MAX}")
    if on_error not in ("raise", "return"):
        raise ValueError(f"on_error is {on_error!r}; it is 'raise' or 'return'")


def _each(chunks: Iterable[object]) -> Iterable[object]:
    if isinstance(chunks, Placeholder):
        return chunks
    if isinstance(chunks, str | bytes | Mapping) or not isinstance(chunks, Iterable):
        raise TypeError(
            f"map_llm takes several chunks, as runtime.chunk(text) cuts them, or a list; not {type(chunks).__name__}"
        )
    return chunks


def _filled(prompt: str, chunk: object) -> tuple[str, object]:
    """Returns the prompt with the chunk filled in, or both unchanged if the prompt has no place for a chunk."""
    if not isinstance(prompt, str) or _CHUNK not in prompt:
        return prompt, chunk
    return prompt.replace(_CHUNK, _text(chunk, "a chunk")), None


def _whole(prompt: object, context: object) -> str:
    if isinstance(prompt, Placeholder):
        prompt = repr(prompt)
    if not isinstance(prompt, str):
        raise TypeError(f"the prompt is text, not {type(prompt).__name__}; what it is about is the context")
    if context is None:
        return str(prompt)
    return f"{prompt}\n\n<context>\n{_text(context, 'context')}\n</context>"


def _text(value: Any, name: str) -> str:
    match value:
        case str():
            return str(value)
        case Placeholder():
            return repr(value)
        case bytes() | bytearray() | memoryview():
            try:
                return bytes(value).decode()
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{name} is bytes that are no UTF-8 (byte {error.start}); give the text that they hold"
                ) from None
        case dict() | list() | tuple():
            return encode_arguments({"context": value})[len(_NAMED) : -1].decode()
    # The methods of pandas and polars.
    for written in ("to_csv", "write_csv"):
        write = getattr(value, written, None)
        if callable(write) and not isinstance(value, type):
            return str(write())
    raise TypeError(
        f"{name} is {type(value).__name__}; give text, bytes of UTF-8, a dict, a list, or a DataFrame{_remedy(value)}"
    )


def _remedy(value: object) -> str:
    return "; of a file its text: path.read_text()" if hasattr(value, "__fspath__") else ""
