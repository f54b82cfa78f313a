"""Helpers for code in the sandbox: which servers and tools there are, how to call them, what to keep.

Each asks the bridge; nothing is cached here. The plain names without `_sync` are to be awaited, except those that
return at once: discovered_servers, describe_server, list_loaded_server_metadata, capability_summary, save_tool,
last_output, save, show, plan, packages, handles, chunk, checkpoint, restore, checkpoints, forget_checkpoint. Their
_sync twins are the same, so that no caller needs to know which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hotcell_sandbox.calls import Calls
from hotcell_sandbox.output_record import OutputRecord
from hotcell_sandbox.resources import ResourceText, contents, messages
from hotcell_sandbox.results import Blob, InvalidCallError, MCPError, ToolError
from hotcell_sandbox.saved_files import SAVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any, NoReturn

    from hotcell_sandbox.chunks import Chunks
    from hotcell_sandbox.handles import Handles
    from hotcell_sandbox.models import LLMAnswer
    from hotcell_sandbox.packages import Packages
    from hotcell_sandbox.plan import Plan
    from hotcell_sandbox.programs import Result
    from hotcell_sandbox.search_results import SearchResults
    from hotcell_sandbox.skills import Skills
    from hotcell_sandbox.time_travel import Checkpoints, TimeTravel

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
    "CheckpointError": "time_travel",
    "Chunk": "chunks",
    "Chunks": "chunks",
    "Handle": "handles",
    "LLMAnswer": "models",
}
_parts: tuple[Any, ...]
_calls: Calls
_record: OutputRecord
_skills: Skills
_travel: Callable[[], TimeTravel]


def __getattr__(name: str) -> Any:
    # At need: a first run waits for what is imported above.
    if name == "skills":
        from hotcell_sandbox.kept_skills import KeptSkills

        return KeptSkills(_calls, _skills)
    if name in _OF_JOBS:
        from hotcell_sandbox.spawning import of_jobs

        return of_jobs(name.removesuffix("_sync"), _parts)
    if name in _CLASSES:
        from importlib import import_module

        return getattr(import_module(f"hotcell_sandbox.{_CLASSES[name]}"), name)
    if name != "state":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hotcell_sandbox.state import State

    return State(SAVED.root)


def __dir__() -> list[str]:
    return sorted((*__all__, *_OF_JOBS, *_CLASSES, "skills", "state"))


def spawn_from(parts: tuple[Any, ...]) -> None:
    """For the runtime itself, at its start: what a job is forked from."""
    global _parts
    _parts = parts


def use(calls: Calls) -> None:
    """For the runtime itself, at its start."""
    global _calls
    _calls = calls


def read_from(record: OutputRecord) -> None:
    """For the runtime itself, at its start."""
    global _record
    _record = record


def keep_in(skills: Skills) -> None:
    """For the runtime itself, at its start."""
    global _skills
    _skills = skills


def travel_with(travel: Callable[[], TimeTravel]) -> None:
    """For the runtime itself, at its start."""
    global _travel
    _travel = travel


def last_output() -> str:
    """All that the run before this one wrote to stdout and stderr: what its reply had to cut stands here."""
    return _record.last_run()


async def call_tool(server: str, tool: str, args: Mapping[str, Any] | None = None, *, handle: bool = False) -> Any:
    """Calls a tool by its own name; the result is unwrapped, `.raw` is all of it.

    With `handle` the result stays on the host, and what comes is a handle of it, an argument for further calls.
    """
    return await _calls.call(server, tool, dict(args or {}), handle)


def call_tool_sync(server: str, tool: str, args: Mapping[str, Any] | None = None, *, handle: bool = False) -> Any:
    """call_tool without await."""
    return _calls.call_sync(server, tool, dict(args or {}), handle)


def handles() -> Handles:
    """The results that are kept on the host: `.handle(...)` of a tool makes one."""
    from hotcell_sandbox.handles import kept

    return kept(_calls)


def save(path: str | PathLike[str], name: str | None = None) -> str:
    """Hands a file over to the user: the reply names it, and it can be read as a resource. Returns where it is kept.

    A file outside /workspace is copied into it; `name` is its path there.
    """
    return SAVED.save(path, name)


def checkpoint(name: str) -> str:
    """Keeps all variables as they are now, to go back to with restore(name), or by run_python with checkpoint: name.

    One of that name is replaced. It shares memory with what does not change. Files, runtime.state and what servers have
    done are not part of it; neither are threads and asyncio tasks.
    """
    return _travel().checkpoint(name)


def restore(name: str) -> NoReturn:
    """Ends this run, and puts all variables back to where checkpoint(name) was called; the next run begins there."""
    _travel().restore(name)


def checkpoints() -> Checkpoints:
    """The checkpoints that there are: dicts of name, run, line, seconds, bytes, sleeps; printed, a table."""
    return _travel().checkpoints()


def forget_checkpoint(name: str) -> None:
    """Lets a checkpoint go."""
    _travel().forget(name)


def packages() -> Packages:
    """What this sandbox's image has besides the standard library: a dict of versions; print it for languages, too."""
    from hotcell_sandbox.packages import Packages

    return Packages()


async def run(
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
    from hotcell_sandbox.programs import Program

    return await Program(language, code, stdin, files, args, timeout).run_async()


def run_sync(
    language: str,
    code: str,
    stdin: str | bytes | None = None,
    files: Mapping[str, str | bytes] | None = None,
    args: Sequence[str] | None = None,
    timeout: float | None = None,
) -> Result:
    """run without await."""
    from hotcell_sandbox.child import Stop
    from hotcell_sandbox.programs import Program

    return Program(language, code, stdin, files, args, timeout).run(Stop())


async def ask_llm(
    prompt: str,
    context: object = None,
    max_tokens: int = 1024,
    system: str | None = None,
    temperature: float | None = None,
) -> LLMAnswer:
    """Asks the model that the user has set, or the client's; the answer is a str with .model, .usage, .stop_reason.

    The context (text, bytes, a dict, a list, a DataFrame) is put behind the prompt. MCPError where there is no answer.
    """
    from hotcell_sandbox.models import Models

    return await Models(_calls, max_tokens, system, temperature).ask(prompt, context)


def ask_llm_sync(
    prompt: str,
    context: object = None,
    max_tokens: int = 1024,
    system: str | None = None,
    temperature: float | None = None,
) -> LLMAnswer:
    """ask_llm without await."""
    from hotcell_sandbox.models import Models

    return Models(_calls, max_tokens, system, temperature).ask_sync(prompt, context)


async def map_llm(
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
    from hotcell_sandbox.models import Models

    return await Models(_calls, max_tokens, system, temperature).map(chunks, prompt, concurrency, on_error)


def map_llm_sync(
    chunks: Iterable[object],
    prompt: str,
    concurrency: int = 4,
    max_tokens: int = 1024,
    system: str | None = None,
    temperature: float | None = None,
    on_error: str = "raise",
) -> list[LLMAnswer | MCPError]:
    """map_llm without await."""
    from hotcell_sandbox.models import Models

    return Models(_calls, max_tokens, system, temperature).map_sync(chunks, prompt, concurrency, on_error)


def chunk(
    text_or_path: str | PathLike[str], size: int = 8000, overlap: int | None = None, by: str = "paragraph"
) -> Chunks:
    """Cuts a text, or a file however large, into parts of at most `size` characters; each has .start and .end.

    A path is a Path, or a text of one line that names a file. Each part repeats `overlap` characters, 200 without, of
    the one before. by: "paragraph", "line" or "sentence", which are cut at larger places only at need, or "chars".
    """
    from hotcell_sandbox.chunks import chunks

    return chunks(text_or_path, size, overlap, by)


def plan(dry_run: bool = True) -> Plan:
    """`with runtime.plan() as plan:` lists the calls of the block: print(plan).

    With dry_run, which is the default, only calls of tools that say that they only read are made; the others return
    placeholders. It holds for all calls of the interpreter while the block is open.
    """
    from hotcell_sandbox.plan import Plan  # at need: a first run waits for what is imported above

    return Plan(_calls, dry_run)


def discovered_servers(detailed: bool = False) -> tuple[Any, ...]:
    """All configured servers: their names, or dicts of name, alias and what description there is."""
    return tuple(_ask("discovered_servers", detailed=detailed))


async def list_servers() -> tuple[str, ...]:
    """The servers of this run."""
    return tuple(await _ask_async("list_servers"))


def list_servers_sync() -> tuple[str, ...]:
    """list_servers without await."""
    return tuple(_ask("list_servers"))


async def list_tools(server: str) -> list[dict[str, Any]]:
    """The tools of a server: name, alias, description, inputSchema, and more where the server says it."""
    return list(await _ask_async("list_tools", server=server))


def list_tools_sync(server: str) -> tuple[dict[str, Any], ...]:
    """list_tools without await."""
    return tuple(_ask("list_tools", server=server))


async def query_tool_docs(server: str, tool: str | None = None, detail: str = "summary") -> Any:
    """Documentation of a server's tools (a list), or of one tool; detail: signature, summary, full or stub."""
    docs = await _ask_async("query_tool_docs", server=server, tool=tool, detail=detail)
    if tool is not None and isinstance(docs, list) and len(docs) == 1:
        return docs[0]
    return docs


def query_tool_docs_sync(server: str, tool: str | None = None, detail: str = "summary") -> list[Any]:
    """query_tool_docs without await; always a list."""
    docs = _ask("query_tool_docs", server=server, tool=tool, detail=detail)
    return docs if isinstance(docs, list) else [docs]


async def search_tool_docs(
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
    asked = _search(query, limit, detail, offset, group_by, servers)
    return _found(await _ask_async("search_tool_docs", **asked), asked["query"], group_by)


def search_tool_docs_sync(
    query: str | Iterable[str] = "",
    limit: int = 8,
    detail: str = "signature",
    offset: int = 0,
    group_by: str | None = None,
    servers: str | Iterable[str] | None = None,
) -> SearchResults:
    """search_tool_docs without await."""
    asked = _search(query, limit, detail, offset, group_by, servers)
    return _found(_ask("search_tool_docs", **asked), asked["query"], group_by)


async def list_resources(server: str) -> list[dict[str, Any]]:
    """What a server has to read: uri, name, perhaps description and mimeType of each."""
    return list(await _ask_async("list_resources", server=server))


def list_resources_sync(server: str) -> list[dict[str, Any]]:
    """list_resources without await."""
    return list(_ask("list_resources", server=server))


async def list_resource_templates(server: str) -> list[dict[str, Any]]:
    """Patterns of further addresses that a server has something to read at: uriTemplate, name, ... of each."""
    return list(await _ask_async("list_resource_templates", server=server))


def list_resource_templates_sync(server: str) -> list[dict[str, Any]]:
    """list_resource_templates without await."""
    return list(_ask("list_resource_templates", server=server))


async def read_resource(uri: str, server: str | None = None) -> Any:
    """What is at the address: a str with .json() and .mime_type, or a Blob; a list of several; .raw is all of it.

    Without a server, the one of those that run which lists the address.
    """
    return contents(await _ask_async("read_resource", uri=uri, server=server))


def read_resource_sync(uri: str, server: str | None = None) -> Any:
    """read_resource without await."""
    return contents(_ask("read_resource", uri=uri, server=server))


async def list_prompts(server: str) -> list[dict[str, Any]]:
    """The prompts of a server: name, perhaps description and arguments of each."""
    return list(await _ask_async("list_prompts", server=server))


def list_prompts_sync(server: str) -> list[dict[str, Any]]:
    """list_prompts without await."""
    return list(_ask("list_prompts", server=server))


async def get_prompt(server: str, name: str, arguments: Mapping[str, str] | None = None) -> Any:
    """A prompt, filled in: a list of messages, each a dict of role and content; .raw is all of it."""
    return messages(await _ask_async("get_prompt", **_prompt(server, name, arguments)))


def get_prompt_sync(server: str, name: str, arguments: Mapping[str, str] | None = None) -> Any:
    """get_prompt without await."""
    return messages(_ask("get_prompt", **_prompt(server, name, arguments)))


def describe_server(name: str) -> dict[str, Any]:
    """One server's metadata: name, alias, tools, cwd."""
    described: dict[str, Any] = _ask("describe_server", name=name)
    return described


def list_loaded_server_metadata() -> tuple[dict[str, Any], ...]:
    """The metadata of all servers of this run; one with a note has not told its tools yet."""
    return tuple(_ask("list_loaded_server_metadata"))


def capability_summary() -> str:
    """The manual of this sandbox."""
    return str(_ask("capability_summary"))


def save_tool(
    func: Callable[..., Any],
    description: str | None = None,
    tags: str | Iterable[str] = (),
    test: Callable[..., Any] | str | None = None,
) -> str:
    """Keeps a function for later sessions: `from skills import name`. print(runtime.skills) lists what is kept.

    The functions, classes, imports and constants that it needs are kept with it. It is tried in a process of its own
    first, and so is `test`, a function without parameters or a source with asserts. description: else the docstring's.
    """
    from hotcell_sandbox.skill_saving import saving  # at need: a first run waits for what is imported above

    return saving(_calls, _skills, func, description=description, tags=tags, test=test)


def show(thing: object) -> None:
    """Shows an image, a figure, or anything that draws itself, as an image of the reply; else prints it."""
    from hotcell_sandbox.pictures import show

    show(thing)


discovered_servers_sync = discovered_servers
describe_server_sync = describe_server
last_output_sync = last_output
save_sync = save
show_sync = show
handles_sync = handles
packages_sync = packages
checkpoint_sync = checkpoint
restore_sync = restore
checkpoints_sync = checkpoints
forget_checkpoint_sync = forget_checkpoint
plan_sync = plan
chunk_sync = chunk
list_loaded_server_metadata_sync = list_loaded_server_metadata
capability_summary_sync = capability_summary
save_tool_sync = save_tool


def _search(
    query: str | Iterable[str],
    limit: int,
    detail: str,
    offset: int,
    group_by: str | None,
    servers: str | Iterable[str] | None,
) -> dict[str, Any]:
    query = query if isinstance(query, str) else list(query)
    named = [servers] if isinstance(servers, str) else None if servers is None else list(servers)
    return {"query": query, "limit": limit, "detail": detail, "offset": offset, "group_by": group_by, "servers": named}


def _prompt(server: str, name: str, arguments: Mapping[str, str] | None) -> dict[str, Any]:
    return {"server": server, "name": name, "arguments": dict(arguments or {})}


def _found(answer: dict[str, Any], query: str | list[str], group_by: str | None) -> SearchResults:
    from hotcell_sandbox.search_results import SearchResults  # at need: a first run waits for what is imported above

    return SearchResults(answer, query, group_by is not None)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    # What was left out is for the bridge to choose.
    return {name: value for name, value in arguments.items() if value is not None}


def _ask(helper: str, **arguments: Any) -> Any:
    return _calls.call_sync(None, helper, _given(arguments))


async def _ask_async(helper: str, **arguments: Any) -> Any:
    return await _calls.call(None, helper, _given(arguments))
