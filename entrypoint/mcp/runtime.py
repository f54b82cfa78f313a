"""Helpers for code in the sandbox: which servers and tools there are, how to call them, what to keep.

Each asks the bridge; nothing is cached here. Every helper can be used with and without `await`: where its result is
awaited in sight of the call it returns a coroutine, so that several go on side by side, otherwise the result itself,
which can be awaited as well. A name with `_sync` is the same helper.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from sys import _getframe

from belljar_sandbox.calls.port import open_port
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
    from belljar_sandbox.run.checkpoint_api import Checkpoints, TimeTravel
    from belljar_sandbox.run.job_spawn import Spawner
    from belljar_sandbox.skills.loader import Skills
    from belljar_sandbox.wire.output_record import OutputRecord

    T = TypeVar("T")

__all__ = [
    "Blob",
    "InvalidCallError",
    "MCPError",
    "ResourceText",
    "ToolError",
    "ask_llm",
    "ask_llm_sync",
    "call_tool",
    "call_tool_sync",
    "capability_summary",
    "capability_summary_sync",
    "checkpoint",
    "checkpoint_sync",
    "checkpoints",
    "checkpoints_sync",
    "chunk",
    "chunk_sync",
    "describe_server",
    "describe_server_sync",
    "discovered_servers",
    "discovered_servers_sync",
    "forget_checkpoint",
    "forget_checkpoint_sync",
    "get_prompt",
    "get_prompt_sync",
    "handles",
    "handles_sync",
    "last_output",
    "last_output_sync",
    "list_loaded_server_metadata",
    "list_loaded_server_metadata_sync",
    "list_prompts",
    "list_prompts_sync",
    "list_resource_templates",
    "list_resource_templates_sync",
    "list_resources",
    "list_resources_sync",
    "list_servers",
    "list_servers_sync",
    "list_tools",
    "list_tools_sync",
    "map_llm",
    "map_llm_sync",
    "packages",
    "packages_sync",
    "plan",
    "plan_sync",
    "query_tool_docs",
    "query_tool_docs_sync",
    "read_resource",
    "read_resource_sync",
    "restore",
    "restore_sync",
    "resume",
    "resume_sync",
    "run",
    "run_sync",
    "save",
    "save_sync",
    "save_tool",
    "save_tool_sync",
    "search_tool_docs",
    "search_tool_docs_sync",
    "show",
    "show_sync",
]

# spawn(work, *args, name=None, timeout=None), jobs(), job(number), and what they return and raise.
_OF_JOBS = ("Job", "JobError", "job", "job_sync", "jobs", "jobs_sync", "spawn", "spawn_sync")
# What has its own module, which jobs look for here when they send one of these to later runs.
_CLASSES = {
    "CheckpointError": "belljar_sandbox.run.checkpoint_api",
    "Chunk": "belljar_sandbox.llm.chunks",
    "Chunks": "belljar_sandbox.llm.chunks",
    "Handle": "belljar_sandbox.calls.handles",
    "LLMAnswer": "belljar_sandbox.llm.models",
}
_calls: Calls
_record: OutputRecord
_skills: Skills
_spawner: Callable[[], Spawner]
_travel: Callable[[], TimeTravel]


def __getattr__(name: str) -> Any:
    # At need: a first run waits for what is imported above.
    if name == "skills":
        from belljar_sandbox.skills.catalog import KeptSkills

        return KeptSkills(_calls, _skills)
    if name in _OF_JOBS:
        return _of_jobs(name.removesuffix("_sync"))
    if name in _CLASSES:
        from importlib import import_module

        return getattr(import_module(_CLASSES[name]), name)
    if name != "state":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from belljar_sandbox.run.state import State

    return State(SAVED.root)


def _of_jobs(name: str) -> Any:
    from belljar_sandbox.calls import job_handles

    match name:
        case "spawn":
            return _spawner().spawn
        case "jobs":
            return job_handles.listing(_calls)
        case "job":
            return job_handles.finding(_calls)
    return getattr(job_handles, name)


def __dir__() -> list[str]:
    return sorted((*__all__, *_OF_JOBS, *_CLASSES, "skills", "state"))


def bind(
    calls: Calls,
    record: OutputRecord,
    skills: Skills,
    spawner: Callable[[], Spawner],
    travel: Callable[[], TimeTravel],
) -> None:
    """For the worker, once at its start. What few runs need is made when it is used."""
    global _calls, _record, _skills, _spawner, _travel
    _calls, _record, _skills, _spawner, _travel = calls, record, skills, spawner, travel
    open_port(calls)


def last_output() -> str:
    """All that the run before this one wrote to stdout and stderr: what its reply had to cut stands here."""
    return _given(_record.last_run())


def call_tool(server: str, tool: str, args: Mapping[str, Any] | None = None, *, handle: bool = False) -> Any:
    """Calls a tool by its own name; the result is unwrapped, `.raw` is all of it.

    With `handle` the result stays on the host, and what comes is a handle of it, an argument for further calls.
    """
    return _made(_calls.later, _calls.call_sync, server, tool, dict(args or {}), handle)


def handles() -> Handles:
    """The results that are kept on the host: `.handle(...)` of a tool makes one."""
    from belljar_sandbox.calls.handles import kept

    return _given(kept(_calls))


def save(path: str | PathLike[str], name: str | None = None) -> str:
    """Hands a file over to the user: the reply names it and says where the user finds it after the session.

    Returns where it is in this session. A file outside /workspace is copied into it; `name` is its path there. What is
    written to it later is kept for the user only when it is saved again.
    """
    return _given(SAVED.save(path, name))


def checkpoint(name: str) -> str:
    """Keeps all variables as they are now, to go back to with restore(name), or by run_python with checkpoint: name.

    One of that name is replaced. It shares memory with what does not change. Files, runtime.state and what servers have
    done are not part of it; neither are threads and asyncio tasks.
    """
    return _given(_travel().checkpoint(name))


def restore(name: str) -> NoReturn:
    """Ends this run, and puts all variables back to where checkpoint(name) was called; the next run begins there."""
    _travel().restore(name)


def resume(session: str = "last") -> NoReturn:
    """Ends this run, and makes the runs of an earlier session again, with calls answered from its journal.

    All variables are then as that session left them, and those of this one are gone. `session` is the beginning of its
    name, which `belljar session ls` lists, or "last"; "5f1c:3" stops after run 3. MCPError where it cannot be resumed.
    """
    from belljar_sandbox.run.checkpoint_api import GoingBack

    _calls.call_sync(None, "resume_session", {"session": session})
    raise GoingBack


def checkpoints() -> Checkpoints:
    """The checkpoints that there are: dicts of name, run, line, seconds, bytes, sleeps; printed, a table."""
    return _given(_travel().checkpoints())


def forget_checkpoint(name: str) -> None:
    """Lets a checkpoint go."""
    _travel().forget(name)
    return _given(None)


def packages() -> Packages:
    """What this sandbox's image has besides the standard library: a dict of versions; print it for languages, too."""
    from belljar_sandbox.programs.packages import Packages

    return _given(Packages())


def run(
    language: str,
    code: str,
    stdin: str | bytes | None = None,
    files: Mapping[str, str | bytes] | None = None,
    args: Sequence[str] | None = None,
    timeout: float | None = None,
) -> Result:
    """Runs a program in a folder of its own: python, bash, javascript, c, c++, ruby or php, where the image has it.

    The result has status (completed, failed, crashed, terminated, timeout), exit_code, signal, stdout, stderr and
    diagnostics. `files` are written beside the code; `timeout` is in seconds, 10 without. It runs where this code runs.
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
    """Asks the model that the user has set, or the client's; the answer is a str with .model, .usage, .stop_reason.

    The context (text, bytes, a dict, a list, a DataFrame) is put behind the prompt. MCPError where there is no answer.
    """
    from belljar_sandbox.llm.models import Models

    models = Models(_calls, max_tokens, system, temperature)
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
    """Asks the same of each chunk, several at once; the answers come in the order of the chunks.

    A chunk stands where the prompt has {chunk}, else behind it. on_error="return": a failure stands in its place.
    """
    from belljar_sandbox.llm.models import Models

    models = Models(_calls, max_tokens, system, temperature)
    return _made(models.map, models.map_sync, chunks, prompt, concurrency, on_error)


def chunk(
    text_or_path: str | PathLike[str], size: int = 8000, overlap: int | None = None, by: str = "paragraph"
) -> Chunks:
    """Cuts a text, or a file however large, into parts of at most `size` characters; each has .start and .end.

    A path is a Path, or a text of one line that names a file. Each part repeats `overlap` characters, 200 without, of
    the one before. by: "paragraph", "line" or "sentence", which are cut at larger places only at need, or "chars".
    """
    from belljar_sandbox.llm.chunks import chunks

    return _given(chunks(text_or_path, size, overlap, by))


def plan(dry_run: bool = True) -> Plan:
    """`with runtime.plan() as plan:` lists the calls of the block: print(plan).

    With dry_run, which is the default, only calls of tools that say that they only read are made; the others return
    placeholders. It holds for all calls of the interpreter while the block is open.
    """
    from belljar_sandbox.calls.plan import Plan  # at need: a first run waits for what is imported above

    return _given(Plan(_calls, dry_run))


def discovered_servers(detailed: bool = False) -> tuple[Any, ...]:
    """All configured servers: their names, or dicts of name, alias and what description there is."""
    return _asked("discovered_servers", tuple, detailed=detailed)


def list_servers() -> tuple[str, ...]:
    """The servers of this run."""
    return _asked("list_servers", tuple)


def list_tools(server: str) -> list[dict[str, Any]]:
    """The tools of a server: name, alias, description, inputSchema, and more where the server says it."""
    return _asked("list_tools", list, server=server)


def query_tool_docs(server: str, tool: str | None = None, detail: str = "summary") -> Any:
    """Documentation of a server's tools (a list), or of one tool; detail: signature, summary, full or stub."""

    def one_of_one(docs: Any) -> Any:
        return docs[0] if tool is not None and isinstance(docs, list) and len(docs) == 1 else docs

    return _asked("query_tool_docs", one_of_one, server=server, tool=tool, detail=detail)


def query_tool_docs_sync(server: str, tool: str | None = None, detail: str = "summary") -> list[Any]:
    """query_tool_docs, but always a list."""

    def listed(docs: Any) -> Any:
        return docs if isinstance(docs, list) else [docs]

    return _asked("query_tool_docs", listed, server=server, tool=tool, detail=detail)


def search_tool_docs(
    query: str | Iterable[str] = "",
    limit: int = 8,
    detail: str = "signature",
    offset: int = 0,
    group_by: str | None = None,
    servers: str | Iterable[str] | None = None,
) -> SearchResults:
    """Searches the tools of all servers of this run, or of those given, running or not; printed, one line for each.

    A list of queries is one search, for other words or several things; an empty query lists all.
    detail: signature, summary or full; group_by: "server". The next page: offset=8, 16, ...
    """
    asked = query if isinstance(query, str) else list(query)

    def found(answer: Any) -> SearchResults:
        from belljar_sandbox.calls.search_results import SearchResults  # at need: a first run waits for what is above

        return SearchResults(answer, asked, group_by is not None)

    named = [servers] if isinstance(servers, str) else None if servers is None else list(servers)
    options = {"limit": limit, "detail": detail, "offset": offset, "group_by": group_by, "servers": named}
    return _asked("search_tool_docs", found, query=asked, **options)


def list_resources(server: str) -> list[dict[str, Any]]:
    """What a server has to read: uri, name, perhaps description and mimeType of each."""
    return _asked("list_resources", list, server=server)


def list_resource_templates(server: str) -> list[dict[str, Any]]:
    """Patterns of further addresses that a server has something to read at: uriTemplate, name, ... of each."""
    return _asked("list_resource_templates", list, server=server)


def read_resource(uri: str, server: str | None = None) -> Any:
    """What is at the address: a str with .json() and .mime_type, or a Blob; a list of several; .raw is all of it.

    Without a server, the one of those that run which lists the address.
    """
    return _asked("read_resource", contents, uri=uri, server=server)


def list_prompts(server: str) -> list[dict[str, Any]]:
    """The prompts of a server: name, perhaps description and arguments of each."""
    return _asked("list_prompts", list, server=server)


def get_prompt(server: str, name: str, arguments: Mapping[str, str] | None = None) -> Any:
    """A prompt, filled in: a list of messages, each a dict of role and content; .raw is all of it."""
    return _asked("get_prompt", messages, server=server, name=name, arguments=dict(arguments or {}))


def describe_server(name: str) -> dict[str, Any]:
    """One server's metadata: name, alias, tools, cwd."""
    return _asked("describe_server", dict, name=name)


def list_loaded_server_metadata() -> tuple[dict[str, Any], ...]:
    """The metadata of all servers of this run; one with a note has not told its tools yet."""
    return _asked("list_loaded_server_metadata", tuple)


def capability_summary() -> str:
    """The manual of this sandbox."""
    return _asked("capability_summary", str)


def save_tool(
    func: Callable[..., Any],
    description: str | None = None,
    tags: str | Iterable[str] = (),
    test: Callable[..., Any] | str | None = None,
) -> str:
    """Keeps a function for later sessions: `from skills import name`. print(runtime.skills) lists what is kept.

    The functions, classes, imports and constants that it needs are kept with it, and mcp_NAME is there as it is here.
    It is tried first in a process of its own, where no server can be called, and so is `test`, a function without
    parameters or a source with asserts. description: else the docstring's.
    """
    from belljar_sandbox.skills.saving import saving  # at need: a first run waits for what is imported above

    return _given(saving(_calls, _skills, func, description=description, tags=tags, test=test))


def show(thing: object) -> None:
    """Shows an image, a figure, or anything that draws itself, as an image of the reply; else prints it."""
    if isinstance(thing, Blob):
        thing.show()
    else:
        from belljar_sandbox.display.show import show

        show(thing)
    return _given(None)


ask_llm_sync = ask_llm
call_tool_sync = call_tool
capability_summary_sync = capability_summary
checkpoint_sync = checkpoint
checkpoints_sync = checkpoints
chunk_sync = chunk
describe_server_sync = describe_server
discovered_servers_sync = discovered_servers
forget_checkpoint_sync = forget_checkpoint
get_prompt_sync = get_prompt
handles_sync = handles
last_output_sync = last_output
list_loaded_server_metadata_sync = list_loaded_server_metadata
list_prompts_sync = list_prompts
list_resource_templates_sync = list_resource_templates
list_resources_sync = list_resources
list_servers_sync = list_servers
list_tools_sync = list_tools
map_llm_sync = map_llm
packages_sync = packages
plan_sync = plan
read_resource_sync = read_resource
restore_sync = restore
resume_sync = resume
run_sync = run
save_sync = save
save_tool_sync = save_tool
search_tool_docs_sync = search_tool_docs
show_sync = show


def _asked(helper: str, read: Callable[[Any], T], /, **arguments: Any) -> T:
    """What the bridge answers. What was left out is for the bridge to choose."""
    arguments = {name: value for name, value in arguments.items() if value is not None}

    async def later() -> T:
        return read(await _calls.call(None, helper, arguments))

    return _made(later, lambda: read(_calls.call_sync(None, helper, arguments)))


def _given(value: T) -> T:
    """What a helper has at once."""

    async def later() -> T:
        return value

    return _made(later, lambda: value)


def _made(later: Callable[..., Coroutine[Any, Any, T]], now: Callable[..., T], *arguments: Any) -> T:
    """A coroutine, or the result, as the code needs it that has called the helper."""
    from belljar_sandbox.run.await_detection import is_awaited  # at need: it reads code, with what takes time to import

    helper = _getframe(1)
    while helper.f_back is not None and helper.f_back.f_globals is helper.f_globals:
        helper = helper.f_back
    if helper.f_back is not None and is_awaited(helper.f_back):
        coroutine = later(*arguments)
        # What Python's own warning calls it.
        coroutine.__qualname__ = f"runtime.{helper.f_code.co_name}"  # type: ignore[attr-defined]
        return coroutine  # type: ignore[return-value] # which it will be
    made: T = awaitable(now(*arguments))
    return made
