"""Helpers for code in the sandbox: to find servers and tools, to call them, and to save results.

Each helper can be used with and without `await`. If the code awaits the result, the helper returns a coroutine, so that
several can run at once; otherwise it returns the result, which can be awaited, too. A name with `_sync` is the same
helper.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from sys import _getframe

from belljar_sandbox.calls import port as _port
from belljar_sandbox.calls.resources import ResourceText, contents, messages
from belljar_sandbox.calls.results import Blob, InvalidCallError, MCPError, ToolError, awaitable
from belljar_sandbox.worker.saved_files import SAVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any, NoReturn, TypeVar

    from belljar_sandbox.calls.calls import Calls
    from belljar_sandbox.calls.handles import Handles
    from belljar_sandbox.calls.plan import Plan
    from belljar_sandbox.calls.search_results import SearchResults
    from belljar_sandbox.llm.chunks import Chunks
    from belljar_sandbox.llm.models import LLMAnswer
    from belljar_sandbox.programs.packages import Packages
    from belljar_sandbox.programs.program import Result
    from belljar_sandbox.run.checkpoint_api import CheckpointApi, Checkpoints
    from belljar_sandbox.run.job_spawn import Spawner
    from belljar_sandbox.skills.loader import SkillLoader
    from belljar_sandbox.wire.output_record import OutputRecord

    T = TypeVar("T")

# Each helper also has its name with `_sync`.
_HELPERS = (
    *("ask_llm", "call_tool", "capability_summary", "checkpoint", "checkpoints", "chunk", "describe_server"),
    *("discovered_servers", "forget_checkpoint", "get_prompt", "handles", "last_output", "list_loaded_server_metadata"),
    *("list_prompts", "list_resource_templates", "list_resources", "list_servers", "list_tools", "map_llm", "packages"),
    *("plan", "query_tool_docs", "read_resource", "restore", "resume", "run", "save", "save_tool"),
    *("search_tool_docs", "show"),
)
__all__ = ["Blob", "InvalidCallError", "MCPError", "ResourceText", "ToolError"]
__all__ += [*_HELPERS, *(f"{name}_sync" for name in _HELPERS)]  # noqa: PLE0604 - they are strings

# What other modules have and is visible here. Pickled results of jobs refer to the classes.
_ELSEWHERE = {
    "CheckpointError": "belljar_sandbox.run.checkpoint_api",
    "Chunk": "belljar_sandbox.llm.chunks",
    "Chunks": "belljar_sandbox.llm.chunks",
    "Handle": "belljar_sandbox.calls.handles",
    "LLMAnswer": "belljar_sandbox.llm.models",
    **dict.fromkeys(("Job", "JobError", "job", "job_sync", "jobs", "jobs_sync"), "belljar_sandbox.calls.job_handles"),
}
_calls: Calls
_record: OutputRecord
_skills: SkillLoader
_spawner: Callable[[], Spawner]
_checkpoint_api: Callable[[], CheckpointApi]


def __getattr__(name: str) -> Any:
    # Imported when it is used, since a first run waits for the imports above.
    if name == "skills":
        from belljar_sandbox.skills.catalog import SkillCatalog

        return SkillCatalog(_skills)
    if name in ("spawn", "spawn_sync"):
        return _spawner().spawn
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(_ELSEWHERE[name]), name.removesuffix("_sync"))
    if name != "state":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from belljar_sandbox.run.state import State

    return State(SAVED.root)


def __dir__() -> list[str]:
    return sorted((*__all__, *_ELSEWHERE, "skills", "spawn", "spawn_sync", "state"))


def bind(
    calls: Calls,
    record: OutputRecord,
    skills: SkillLoader,
    spawner: Callable[[], Spawner],
    checkpoint_api: Callable[[], CheckpointApi],
) -> None:
    """Called by the worker, once at its start. What few runs need is created when it is used."""
    global _calls, _record, _skills, _spawner, _checkpoint_api
    _calls, _record, _skills, _spawner, _checkpoint_api = calls, record, skills, spawner, checkpoint_api
    _port.open_port(calls, _made)


def last_output() -> str:
    """Returns everything that the previous run wrote to stdout and stderr, and its traceback, including what its reply
    had to cut."""
    return _port.given(_record.last_run())


def call_tool(
    server: str, tool: str, args: Mapping[str, Any] | None = None, *, handle: bool = False, **arguments: Any
) -> Any:
    """Calls a tool by its own name. The result is unwrapped; `.raw` has all of it.

    The arguments of the tool are the dict `args`, or are given by name where this function has no such parameter.
    With `handle`, the result stays on the host, and a handle of it is returned, an argument for further calls.
    """
    if not isinstance(tool, str):
        raise TypeError("the name of the tool comes second: call_tool('server', 'tool', {'argument': value})")
    return _made(_calls.later, _calls.call_sync, server, tool, {**(args or {}), **arguments}, handle)


def handles() -> Handles:
    """Lists the results that are on the host: `.handle(...)` of a tool leaves its result there."""
    from belljar_sandbox.calls.handles import kept

    return _port.given(kept())


def save(path: str | PathLike[str], name: str | None = None) -> str:
    """Saves a file for the user: the reply names it and says where the user finds it after the session.

    Returns its path in this session. A file outside /workspace is copied into it; `name` is its path there. The user
    gets the file as it is now: save it again after changing it.
    """
    return _port.given(SAVED.save(path, name))


def checkpoint(name: str) -> str:
    """Saves all variables as they are now. restore(name), or run_python with checkpoint: name, restores them.

    A checkpoint of the same name is replaced. It shares memory with what does not change. It does not include files,
    runtime.state, effects on servers, threads and asyncio tasks.
    """
    return _port.given(_checkpoint_api().checkpoint(name))


def restore(name: str) -> NoReturn:
    """Ends this run, and restores all variables as they were when checkpoint(name) was called, for the next run."""
    _checkpoint_api().restore(name)


def resume(session: str = "last") -> NoReturn:
    """Ends this run, and runs the code of an earlier session again, with calls answered from its journal.

    All variables are then as that session left them, and those of this one are lost. `session` is the beginning of its
    name, which `belljar session ls` lists, or "last"; "5f1c:3" stops after run 3. MCPError if it cannot be resumed.
    """
    from belljar_sandbox.run.checkpoint_api import RestoreRequested

    _calls.call_sync(None, "resume_session", {"session": session})
    raise RestoreRequested


def checkpoints() -> Checkpoints:
    """Lists the checkpoints: dicts with name, run, line, seconds, bytes, sleeps. Prints a table."""
    return _port.given(_checkpoint_api().checkpoints())


def forget_checkpoint(name: str) -> None:
    """Deletes a checkpoint."""
    _checkpoint_api().forget(name)
    return _port.given(None)


def packages() -> Packages:
    """Lists what the image has besides the standard library: a dict of versions. Printed, it shows languages, too."""
    from belljar_sandbox.programs.packages import Packages

    return _port.given(Packages())


def run(
    language: str,
    code: str,
    stdin: str | bytes | None = None,
    files: Mapping[str, str | bytes] | None = None,
    args: Sequence[str] | None = None,
    timeout: float | None = None,
) -> Result:
    """Runs a program in a folder of its own: python, bash, javascript, c, c++, ruby or php, if the image has it.

    The result has status (completed, failed, crashed, terminated, timeout), exit_code, signal, stdout, stderr and
    diagnostics. `files` are written beside the code; `timeout` is in seconds, by default 10. It runs in this sandbox.
    """
    from belljar_sandbox.programs.program import Program

    program = Program(language, code, stdin, files, args, timeout)
    return _made(program.run_async, program.run)


def ask_llm(
    prompt: str,
    context: object = None,
    max_tokens: int = 1024,
    system: str | None = None,
    temperature: float | None = None,
) -> LLMAnswer:
    """Asks the model that the user has set, or the client's. The answer is a str with .model, .usage, .stop_reason.

    The context (text, bytes, a dict, a list, a DataFrame) is appended to the prompt. MCPError if there is no answer.
    """
    from belljar_sandbox.llm.models import LanguageModel

    models = LanguageModel(max_tokens, system, temperature)
    return _made(models.ask, models.ask_sync, prompt, context)


def map_llm(
    chunks: Iterable[object],
    prompt: str,
    concurrency: int = 4,
    max_tokens: int = 1024,
    system: str | None = None,
    temperature: float | None = None,
    on_error: str = "raise",
) -> list[LLMAnswer | MCPError]:
    """Asks the same about each chunk, several at once. Returns the answers in the order of the chunks.

    A chunk replaces {chunk} in the prompt, or is appended to it. on_error="return" returns errors in place of answers.
    """
    from belljar_sandbox.llm.models import LanguageModel

    models = LanguageModel(max_tokens, system, temperature)
    return _made(models.map, models.map_sync, chunks, prompt, concurrency, on_error)


def chunk(
    text_or_path: str | PathLike[str], size: int = 8000, overlap: int | None = None, by: str = "paragraph"
) -> Chunks:
    """Cuts a text, or a file of any size, into parts of at most `size` characters. Each has .start and .end.

    A path is a Path, or a text of one line that names a file. Each part repeats the last `overlap` characters of the
    one before, by default 200. by: "paragraph", "line" or "sentence", which are cut only if they are too long, or
    "chars".
    """
    from belljar_sandbox.llm.chunks import chunks

    return _port.given(chunks(text_or_path, size, overlap, by))


def plan(dry_run: bool = True) -> Plan:
    """`with runtime.plan() as plan:` lists the calls of the block: print(plan).

    With dry_run, the default, only calls of tools marked [read-only] are made; the others return placeholders. Make
    calls that list or read before the block: their tools may not be marked. This applies to all calls of the
    interpreter while the block is open.
    """
    from belljar_sandbox.calls.plan import Plan

    return _port.given(Plan(_calls, dry_run))


def discovered_servers(detailed: bool = False) -> tuple[Any, ...]:
    """Lists all configured servers: their names, or dicts with name, alias and description."""
    return _port.asked("discovered_servers", tuple, detailed=detailed)


def list_servers() -> tuple[str, ...]:
    """Lists the servers of this run."""
    return _port.asked("list_servers", tuple)


def list_tools(server: str) -> list[dict[str, Any]]:
    """Lists the tools of a server: dicts with name, alias, description, inputSchema, and more if the server has it."""
    return _port.asked("list_tools", list, server=server)


def query_tool_docs(server: str, tool: str | None = None, detail: str = "summary") -> Any:
    """Returns the documentation of a server's tools (a list), or of one tool. detail: signature, summary, full or
    stub."""

    def one_of_one(docs: Any) -> Any:
        return docs[0] if tool is not None and isinstance(docs, list) and len(docs) == 1 else docs

    return _port.asked("query_tool_docs", one_of_one, server=server, tool=tool, detail=detail)


def query_tool_docs_sync(server: str, tool: str | None = None, detail: str = "summary") -> list[Any]:
    """Like query_tool_docs, but always returns a list."""

    def listed(docs: Any) -> Any:
        return docs if isinstance(docs, list) else [docs]

    return _port.asked("query_tool_docs", listed, server=server, tool=tool, detail=detail)


def search_tool_docs(
    query: str | Iterable[str] = "",
    limit: int = 8,
    detail: str = "signature",
    offset: int = 0,
    group_by: str | None = None,
    servers: str | Iterable[str] | None = None,
) -> SearchResults:
    """Searches the tools of all servers of this run, or of those given, running or not. Prints one line for each.

    Two or three plain wordings in a list find more than one does. A list may also ask for several things. An empty
    query lists all tools.
    detail: signature, summary or full; group_by: "server". The next page: offset=8, 16, ...
    """
    asked = query if isinstance(query, str) else list(query)

    def found(answer: Any) -> SearchResults:
        from belljar_sandbox.calls.search_results import SearchResults

        return SearchResults(answer, asked, group_by is not None)

    named = [servers] if isinstance(servers, str) else None if servers is None else list(servers)
    options = {"limit": limit, "detail": detail, "offset": offset, "group_by": group_by, "servers": named}
    return _port.asked("search_tool_docs", found, query=asked, **options)


def list_resources(server: str) -> list[dict[str, Any]]:
    """Lists the resources of a server: dicts with uri, name, and description and mimeType if the server has them."""
    return _port.asked("list_resources", list, server=server)


def list_resource_templates(server: str) -> list[dict[str, Any]]:
    """Lists the resource templates of a server, which are patterns of addresses: dicts with uriTemplate, name, ..."""
    return _port.asked("list_resource_templates", list, server=server)


def read_resource(uri: str, server: str | None = None) -> Any:
    """Reads a resource: returns a str with .json() and .mime_type, or a Blob, or a list of several; .raw is all of it.

    Without a server, the running server that lists the address is asked.
    """
    return _port.asked("read_resource", contents, uri=uri, server=server)


def list_prompts(server: str) -> list[dict[str, Any]]:
    """Lists the prompts of a server: dicts with name, and description and arguments if the server has them."""
    return _port.asked("list_prompts", list, server=server)


def get_prompt(server: str, name: str, arguments: Mapping[str, str] | None = None) -> Any:
    """Fills in a prompt: returns a list of messages, each a dict with role and content; .raw is all of it."""
    return _port.asked("get_prompt", messages, server=server, name=name, arguments=dict(arguments or {}))


def describe_server(name: str) -> dict[str, Any]:
    """Returns the metadata of a server: name, alias, tools, cwd."""
    return _port.asked("describe_server", dict, name=name)


def list_loaded_server_metadata() -> tuple[dict[str, Any], ...]:
    """Returns the metadata of all servers of this run. One with a note has not listed its tools yet."""
    return _port.asked("list_loaded_server_metadata", tuple)


def capability_summary() -> str:
    """Returns the manual of this sandbox."""
    return _port.asked("capability_summary", str)


def save_tool(
    func: Callable[..., Any],
    test: Callable[..., Any] | str | None = None,
    *,
    description: str | None = None,
    tags: str | Iterable[str] = (),
) -> str:
    """Saves a function for later sessions: `from skills import name`. print(runtime.skills) lists what is saved.

    The functions, classes, imports and constants that it needs are saved with it. It can use mcp_NAME as code does
    here. First it is imported in a process of its own, where no server can be called, and `test` is run there: a
    function without parameters, or a source with asserts. description: by default that of the docstring.
    """
    from belljar_sandbox.skills.saving import saving

    return _port.given(saving(_skills, func, description=description, tags=tags, test=test))


def show(thing: object) -> None:
    """Shows an image, a figure, or an object that draws itself, as an image of the reply. Anything else is printed."""
    if isinstance(thing, Blob):
        thing.show()
    else:
        from belljar_sandbox.display.show import show

        show(thing)
    return _port.given(None)


for _name in _HELPERS:
    globals().setdefault(f"{_name}_sync", globals()[_name])


def _made(later: Callable[..., Coroutine[Any, Any, T]], now: Callable[..., T], *arguments: Any) -> T:
    """Returns a coroutine if the caller of the helper awaits it, otherwise the result.

    The helper is a function of this module, or a method of an object that a helper returned.
    """
    from belljar_sandbox.run.await_detection import is_awaited  # its imports take time

    helper = _getframe(1)
    if helper.f_globals is vars(_port) and helper.f_back is not None:
        helper = helper.f_back  # of the function that has asked by `asked` or `given`
    while helper.f_back is not None and helper.f_back.f_globals is helper.f_globals:
        helper = helper.f_back
    if helper.f_back is not None and is_awaited(helper.f_back):
        coroutine = later(*arguments)
        # The name in Python's warning that it was never awaited.
        coroutine.__qualname__ = f"runtime.{helper.f_code.co_qualname}"  # type: ignore[attr-defined]
        return coroutine  # type: ignore[return-value] # which it will be
    made: T = awaitable(now(*arguments))
    return made
