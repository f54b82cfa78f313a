"""Adds a hint to an error: what the code probably meant, or what is different in the sandbox.

It gives no hint rather than a general one. Imported when a run has failed.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from errno import EACCES, ECONNREFUSED, EDQUOT, EHOSTUNREACH, ENETUNREACH, ENOSPC, EPERM, EROFS
from traceback import walk_tb
from types import FrameType, ModuleType
from typing import Any

from ..calls.port import port
from ..calls.proxies import ServerModule
from ..calls.results import DictResult, ListResult, StrResult
from ..kernel.posture import read
from ..wire.names import SKILLS_MODULE
from ..worker.interrupts import OURS
from .subscripts import subscripted
from .text_results import hint_of_text

CHARACTERS_MAX = 400
_NAMES_MAX = 3
_CANDIDATES_MAX = 2_000
_SIMILARITY = 0.7
# Modules need more similarity: phonenumbers does not mean numbers.
_SIMILARITY_OF_MODULES = 0.8
_KEYS_MAX = 5
_MIB = 1 << 20
_OWN_FOLDERS = ("/workspace", "/tmp")
_MOUNTED = "/mnt/"
_OF_SERVERS = "mcp_"
_ANSWER = frozenset(("content", "isError", "is_error", "meta", "structuredContent", "structured_content"))
_METHODS_OF_DICT = frozenset(("get", "items", "keys", "values"))
_SOCKETS_OF_MULTIPROCESSING = ("/multiprocessing/forkserver.py", "/multiprocessing/managers.py")
_DEPRECATED = re.compile("deprecated", re.IGNORECASE)
_DEPTH_MAX = 20
_INSIDE = ("/dev", "/etc", "/lib", "/proc", "/run", "/sys", "/usr", "/var")
_NETWORK_CLIENTS = frozenset(
    ("aiohttp", "boto3", "ftplib", "grpc", "httplib2", "httpx", "paramiko", "requests", "urllib3", "websockets")
)
_NETWORK_FILES = ("/socket.py", "/http/client.py", "/ssl.py")
_PIP = re.compile(r"\bpip3?\b['\"\s,]+install\b|\b(conda|apt|apt-get)\s+install\b")
# The name of a tool, after that of its server.
_READS_FILES = re.compile(r"\..*(read|get|open).*file", re.IGNORECASE)
_SHARED_MEMORY = re.compile(r"\bmmap\(-1\b")
_HITS = 20
_OTHER_LANGUAGES = {"true": "True", "false": "False", "null": "None", "none": "None", "undefined": "None"}

# The wordings of Python up to 3.13, and since 3.14.
_AWAITED_NOTHING = re.compile(r"can't be used in 'await' expression|object can't be awaited")
_CALLED_STATUS = re.compile(r"\.(status|result|name|number)\(\)")

# The names under which code usually imports modules.
_USUAL_NAMES = {"np": "numpy", "pd": "pandas", "pl": "polars", "plt": "matplotlib.pyplot", "sns": "seaborn"}
# The modules, and names of other clients, below which code looks for servers and tools.
_HOLDERS = frozenset(("mcp", "mcp.runtime", "functions", "tools"))

NO_NETWORK = (
    "there is no network in here: call a tool of a server instead; "
    'print(runtime.search_tool_docs("what you need")) finds one'
)
NO_INSTALL = "packages cannot be installed, there is no network in here"
BUILD = "belljar image build"
# The usual packages by their modules, as in sandbox-image/requirements.in.
USUAL = frozenset(
    ("PIL", "matplotlib", "numpy", "openpyxl", "pandas", "polars", "pyarrow", "scipy", "seaborn", "sklearn", "tabulate")
)
ADD = f"the user can run `{BUILD} --with NAME --use`"
LOOK = "print(runtime.packages()) shows what is here"
AWAIT = (
    "a coroutine was used as if it were its result: put `await` before the call, in parentheses if more follows, as in "
    "(await f())['key'], or call .sync(...) of a tool"
)
AWAIT_IN_FUNCTION = (
    "`await` works at the top level and in `async def`, not in a lambda or `def`: call .sync(...) of the tool there, "
    "as in lambda x: mcp_NAME.tool.sync(key=x)"
)
LOOP = (
    "an event loop runs where code awaits: write `await f()` or `await asyncio.gather(f(), g())` at the top level, or "
    "asyncio.run(f()), which works in any place"
)
NEST = "leave out nest_asyncio: asyncio.run(f()) works here while an event loop runs, and so does `await f()`"
FORK = (
    "fork servers and managers need sockets, which this sandbox does not have: multiprocessing.get_context('fork') "
    "has Pool, Queue, Pipe and Value"
)
RAW = "a result is the value itself: the server's whole answer is its .raw, a dict, as in r.raw['content']"
TEXT = "the tool answered text, which has no keys: r = ... without them, then print(r)"
HANDLE = (
    "a handle stands for a result that stays on the host: give it, or a part of it (h['rows'][0]), to another call, "
    "or h.load() for the value"
)
JOB = "a job's status, result, name and number are no methods: leave out the ()"
ASYNC_GENERATOR = "`await` makes a generator expression asynchronous: use a list, sum([await f(x) for x in xs])"
HANDLE_SYNC = ".handle_sync(...) of a tool is .handle(...) without await"
NO_AWAIT = "this is no coroutine: leave out `await`, which .sync(...) and plain functions do not need"
MOUNT = "the user adds others with [[mount]] in config.toml, or gives one with `belljar run --file`"
NO_FILES = "files of the host are not in here"
READ_BY_TOOL = "read them with a tool of a server; /workspace and /tmp are this sandbox's own"
NOT_FOR_OTHERS = "the file is there, but its mode lets only its owner read or write it, which code in here is not"
NO_ROOM = (
    "/workspace and /tmp have no more room for this: remove files, write less, or have the user mount a folder with "
    "room ([[mount]] in config.toml, writable = true)"
)
NO_SHARED_MEMORY = (
    "this sandbox has no shared memory without a file: map a file in /dev/shm, use multiprocessing.shared_memory, or "
    "mmap.mmap(-1, n, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if no other process needs it"
)
LESS = "del what is not needed, or leave large results on the host: await mcp_NAME.tool.handle(...)"
NO_SERVER = "no server has this name: print(runtime.list_servers()) shows those that there are"
NO_INPUT = "nobody can answer input() in here: put the value into the code"
NO_MAGIC = "this is plain Python, no notebook: lines with ! or % do not work; use subprocess, or Python itself"
NO_FENCE = "send bare Python, without Markdown fences"
NO_RETURN = "code runs at the top level, where nothing returns: end with the expression instead, its value is shown"
READ_ONLY = "only /workspace and /tmp can be written to"


def hint(error: BaseException, code: str) -> str:
    """Returns the hint for an error of this code, or an empty text. May raise what objects of user code raise."""
    return _hint(error, code)[:CHARACTERS_MAX]


def installs_packages(code: str) -> bool:
    """Whether the code runs pip or another package manager."""
    return "install" in code and _PIP.search(code) is not None


def _hint(error: BaseException, code: str) -> str:
    frames = [frame for frame, _ in walk_tb(error.__traceback__) if not frame.f_code.co_filename.startswith(OURS)]
    if any(frame.f_code.co_filename.endswith(_SOCKETS_OF_MULTIPROCESSING) for frame in frames):
        return FORK
    if _wants_network(error, frames):
        return NO_NETWORK
    if of_text := hint_of_text(error, frames):
        return of_text
    match error:
        case SyntaxError():
            return _of_syntax(error, code)
        case TypeError() if _AWAITED_NOTHING.search(str(error)):
            return NO_AWAIT
        case TypeError() | AttributeError() if "coroutine" in str(error):
            return AWAIT
        case TypeError() if "async_generator" in str(error):
            return ASYNC_GENERATOR
        case AttributeError(name="sync") if getattr(error.obj, "__name__", "") in ("handle", "handle_sync"):
            return HANDLE_SYNC
        case AttributeError() if _is_ours(error.obj, "Handle"):
            return HANDLE
        case TypeError() if "Object of type Handle is not JSON serializable" in str(error):
            return HANDLE
        case TypeError() if "object is not callable" in str(error) and _CALLED_STATUS.search(code):
            return JOB
        case RuntimeError() if re.search("no (running|current) event loop|loop is (already )?running", str(error)):
            return LOOP
        case KeyError():
            return _of_key(error)
        case TypeError() if "string indices" in str(error) and re.search("mcp_|call_tool", subscripted(error)[0]):
            return TEXT
        case MemoryError():
            return _of_memory()
        case ImportError() if "failed to map segment" in str(error):
            return _of_memory()
        case NameError():
            return _of_name(error, frames, code)
        case AttributeError():
            return _of_attribute(error, frames, code)
        case ImportError():
            return _of_import(error, frames, code)
        case EOFError() if "input" in code:
            return NO_INPUT
        case PermissionError(errno=number, filename=None) if number == EPERM and _SHARED_MEMORY.search(code):
            return NO_SHARED_MEMORY
        case OSError():
            return _of_file(error, code)
    return ""


def _is_ours(thing: object, name: str) -> bool:
    kind = type(thing)
    return kind.__module__ == "mcp.runtime" and kind.__qualname__ == name


def _of_syntax(error: SyntaxError, code: str) -> str:
    lines = code.split("\n")
    line = lines[error.lineno - 1].strip() if error.lineno and error.lineno <= len(lines) else ""
    if line.startswith(("!", "%")):
        return f"{NO_INSTALL}: {ADD}; {LOOK}" if installs_packages(line) else NO_MAGIC
    if "```" in line or code.lstrip().startswith("```"):
        return NO_FENCE
    if error.msg and "'return' outside function" in error.msg:
        return NO_RETURN
    if error.msg and re.search("'await' outside|outside of an asynchronous function", error.msg):
        return AWAIT_IN_FUNCTION
    return ""


def _of_memory() -> str:
    """Says how much of its memory the interpreter uses, and what to do."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        sizes = [line.split() for line in status if line.startswith("VmData:")]
    if limit == resource.RLIM_INFINITY or not sizes:
        return f"the sandbox has no more memory: {LESS}"
    used = int(sizes[0][1]) * 1024
    return f"{used // _MIB} of {limit // _MIB} MB of the interpreter's memory are in use: {LESS}"


def _of_key(error: KeyError) -> str:
    """Lists the keys of the dict that lacks this one."""
    name, value = subscripted(error)
    [key] = error.args
    if not isinstance(value, dict) or key in value:
        return ""
    if isinstance(value, DictResult) and key in _ANSWER:
        return RAW
    keys = [repr(known) for known in list(value)[:_KEYS_MAX]]
    more = f" and {len(value) - _KEYS_MAX} more" if len(value) > _KEYS_MAX else ""
    near = _near(key, value) if isinstance(key, str) else ""
    return f"{near} {name} has the keys {', '.join(keys)}{more}".lstrip() if keys else f"{name} is empty"


def _of_name(error: NameError, frames: list[FrameType], code: str) -> str:
    name = error.name
    if not isinstance(name, str):
        return ""
    if name in _OTHER_LANGUAGES:
        return f"in Python it is {_OTHER_LANGUAGES[name]}"
    if name == "display":
        return "runtime.show(thing) shows pictures and tables; so does a last expression"
    if name in sys.stdlib_module_names and re.search(rf"\b{name}\s*\.", code):
        return f"`import {name}` is missing"
    if name in _USUAL_NAMES and re.search(rf"\b{name}\s*\.", code):
        return f"`import {_USUAL_NAMES[name]} as {name}` is missing"
    known: dict[str, object] = {}
    if frames:
        known = {**vars(builtins), **frames[-1].f_globals, **frames[-1].f_locals}
    member = re.search(rf"\b{name}\.(\w+)", code) if name in _HOLDERS else None
    if tool := _of_tool(member[1] if member else name, known, code):
        return tool
    near = _near(name, known)
    if hasattr(sys.modules.get("mcp.runtime"), name) and not name.startswith("_"):
        return f"it is runtime.{name}"
    return near


def _of_tool(name: str, known: dict[str, object], code: str) -> str:
    """For a name that other clients give to a tool or a server: returns the name of it in here."""
    dashed = re.search(rf"\b{name}(-\w+)+", code)
    for spelling in (name, dashed[0] if dashed else name):
        server = "mcp_" + spelling.removeprefix("mcp_").replace("-", "_")
        if isinstance(known.get(server), ServerModule):
            return f"the server is {server}: write {server}.tool(...)"
    plain = re.sub("_+", "_", name.removeprefix("mcp_")).strip("_")
    has_servers = any(type(thing) is ServerModule for thing in known.values())
    if not re.search(rf"\b{name}(\.sync)?\s*\(", code) or not has_servers:
        return ""
    for hit in _searched(plain.replace("_", " ")).get("hits", ()):
        server, tool = hit["serverAlias"], hit["toolAlias"]
        if plain in (tool, f"{server}_{tool}") and not hit.get("skill"):
            return f"the tool is mcp_{server}.{tool}"
    return ""


def _of_attribute(error: AttributeError, frames: list[FrameType], code: str) -> str:
    name, thing = error.name, error.obj
    if not isinstance(name, str):
        return ""
    is_holder = isinstance(thing, ModuleType) and thing.__name__ in _HOLDERS and frames
    if is_holder and (tool := _of_tool(name, frames[-1].f_globals, code)):
        return tool
    if isinstance(thing, dict) and name in thing:
        return f"it is a dict: [{name!r}]"
    if isinstance(thing, DictResult | ListResult | StrResult) and name in _ANSWER:
        return RAW
    if isinstance(thing, StrResult) and name in _METHODS_OF_DICT:
        return TEXT
    if isinstance(thing, dict) and hasattr(str, name):
        keys = ", ".join(repr(key) for key in list(thing)[:_KEYS_MAX] if isinstance(key, str))
        return f"it is a dict with {keys}, no text" if keys else "it is a dict, no text"
    if "has no attribute" not in str(error):  # raised by a library, about something else
        return ""
    if isinstance(thing, ModuleType) and hasattr(thing, "__path__"):
        from importlib.util import find_spec

        if find_spec(f"{thing.__name__}.{name}") is not None:
            return f"`import {thing.__name__}.{name}` is missing"
    return _near(name, dir(thing))


def _of_import(error: ImportError, frames: list[FrameType], code: str) -> str:
    name = error.name or ""
    if isinstance(error, ModuleNotFoundError):
        if str(error).startswith("Server "):  # our own error, which already names the nearest one
            return ""
        top = name.partition(".")[0]
        if not top or top in sys.modules:
            return ""
        if top == "nest_asyncio":
            return NEST
        if top.startswith(_OF_SERVERS):
            return _of_server(top, frames, code)
        kinds = (_installed(), sys.stdlib_module_names)
        near = next(filter(None, (_near(top, names, _SIMILARITY_OF_MODULES) for names in kinds)), "")
        return near or _how_to_add(top)
    module, wanted = sys.modules.get(name), getattr(error, "name_from", None) or _wanted(str(error))
    if wanted and wanted.startswith(_OF_SERVERS):
        return _of_server(wanted, frames, code)
    near = _near(wanted, dir(module)) if module is not None and wanted else ""
    return near or ("print(runtime.skills) lists the skills that are kept" if name == SKILLS_MODULE else "")


def _of_server(name: str, frames: list[FrameType], code: str) -> str:
    if not frames or name not in frames[-1].f_globals:
        return NO_SERVER
    tool = re.search(rf"from\s+{name}\s+import\s+(\w+)", code)
    how = f", and write {name}.{tool[1]}" if tool else ""
    return f"{name} is already there: leave out the import{how}"


def _how_to_add(module: str) -> str:
    from ..programs.packages import installed_as

    if not (module.isascii() and module.isidentifier()):
        return f"{NO_INSTALL}; {LOOK}"
    if module in USUAL:
        adds = f"which adds {installed_as(module)} and other usual packages"
        return f"{NO_INSTALL}: the user can run `{BUILD}`, {adds}; {LOOK}"
    return f"{NO_INSTALL}: the user can run `{BUILD} --with {installed_as(module)} --use`; {LOOK}"


def _of_file(error: OSError, code: str) -> str:
    if error.errno in (ENOSPC, EDQUOT):
        return NO_ROOM
    name = error.filename
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    if not isinstance(name, str):
        return ""
    if isinstance(error, FileNotFoundError):
        if name in ("pip", "pip3", "uv", "conda") or installs_packages(code):
            return f"{NO_INSTALL}: {ADD}; {LOOK}"
        if name in ("curl", "wget", "git", "ssh"):
            return NO_NETWORK
        if not name.startswith(_INSIDE):
            is_own = "/" in name and name.startswith(_OWN_FOLDERS) and not _was_below_home(name, code)
            return _of_own_folder(name) if is_own else _of_missing_file(name)
    elif error.errno == EACCES and name.startswith(_MOUNTED):
        is_read_only = os.access(name, os.R_OK) and os.statvfs(name).f_flag & os.ST_RDONLY
        return READ_ONLY if is_read_only else NOT_FOR_OTHERS
    elif error.errno in (EACCES, EROFS) and name.startswith("/") and not name.startswith(_OWN_FOLDERS):
        return READ_ONLY
    return ""


def _of_own_folder(name: str) -> str:
    """For a path in a folder that the sandbox has, too: says so if a server was started with that place of the host."""
    if mounted := _in_a_mounted_folder(name):
        return mounted
    found = _searched("read file") if name.startswith("/tmp/") else {}
    folders = [folder for paths in found.get("folders", {}).values() for folder in paths]
    is_of_host = any(f"{name}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)
    return f"{NO_FILES}: {_how_to_read()}; {MOUNT}" if is_of_host else ""


def _of_missing_file(name: str) -> str:
    """For a path on the user's machine: says where the file is in the sandbox, if it is mounted."""
    mounted = _mounted_folders()
    if not mounted:
        return f"{NO_FILES}: {_how_to_read()}; {MOUNT}"
    others = f"of the user's files only these folders are in here: {', '.join(mounted[:_NAMES_MAX])}; {MOUNT}"
    return _in_a_mounted_folder(name) or others


def _was_below_home(name: str, code: str) -> bool:
    """Whether the code means the user's home folder, while the sandbox has its own."""
    home = os.path.expanduser("~")
    return name.startswith(f"{home}/") and f"~{name[len(home) :]}" in code


def _how_to_read() -> str:
    """Names the tool that reads files, if a server of the run has one."""
    hits = [hit for hit in _searched("read file").get("hits", ()) if not hit.get("skill")]
    hits = [hit for hit in hits if not _DEPRECATED.search(str(hit.get("description")))]
    names = [f"{hit['serverAlias']}.{hit['toolAlias']}" for hit in hits]
    readers = [name for name in names if _READS_FILES.search(name)]
    return f"await mcp_{min(readers, key=len)}(...) may read them" if readers else READ_BY_TOOL


def _searched(query: str) -> dict[str, Any]:
    try:
        search = {"query": query, "limit": _HITS, "detail": "full"}
        answer = port().call_sync(None, "search_tool_docs", search)
    except Exception:  # calls are not possible, as in a process that code has forked
        return {}
    return answer if isinstance(answer, dict) else {}


def _in_a_mounted_folder(name: str) -> str:
    """Says in which mounted folder a file of this path may be."""
    parts = name.replace("\\", "/").strip("/").split("/")
    for folder in _mounted_folders():
        for begin in range(max(0, len(parts) - _DEPTH_MAX), len(parts)):
            path = "/".join((folder, *parts[begin:]))
            if os.path.lexists(path):
                return f"in here that may be {path}"
    return ""


def _mounted_folders() -> list[str]:
    mounts = [line.partition(" - ") for line in read("/proc/self/mountinfo").split("\n") if line]
    # Mounts of the user are folders on a disk. Others may belong to the engine.
    targets = (place.split()[4] for place, _, kind in mounts if not kind.startswith("tmpfs"))
    return sorted(target for target in targets if target.startswith(_MOUNTED))


def _wants_network(error: BaseException, frames: list[FrameType]) -> bool:
    if isinstance(error, ModuleNotFoundError):
        return (error.name or "").partition(".")[0] in _NETWORK_CLIENTS
    if not isinstance(error, OSError):
        return False
    socket = sys.modules.get("_socket")
    unresolved = (getattr(socket, "gaierror", None), getattr(socket, "herror", None))
    if type(error) in unresolved or type(error).__module__ == "urllib.error":
        return True
    if isinstance(error, FileNotFoundError | TimeoutError):
        return False
    # Sockets cannot be created at all: EPERM.
    by_socket = any(frame.f_code.co_filename.endswith(_NETWORK_FILES) for frame in frames)
    return error.errno in (ENETUNREACH, ECONNREFUSED, EHOSTUNREACH) or (error.errno == EPERM and by_socket)


def _near(name: str, known: Iterable[str], similarity: float = _SIMILARITY) -> str:
    names = [other for other in known if isinstance(other, str) and (name.startswith("_") or not other.startswith("_"))]
    by_case = {other.lower(): other for other in names[:_CANDIDATES_MAX]}
    near = get_close_matches(name.lower(), by_case, _NAMES_MAX, similarity)
    found = [by_case[other] for other in near if by_case[other] != name]
    # A shorter name, as `search` for search_tool_docs. Its twin without `await` would be the same advice again.
    found = found or [other for other in names if len(name) > 3 and name.lower() in other.lower().split("_")]
    found = [other for other in found if other.removesuffix("_sync") not in found or not other.endswith("_sync")]
    found = found[:_NAMES_MAX]
    return f"did you mean {' or '.join(found)}?" if found else ""


def _wanted(message: str) -> str:
    """Returns x from "cannot import name 'x' from 'y'": only Python 3.12 and later has it as an attribute."""
    found = re.match(r"cannot import name '(\w+)'", message)
    return found[1] if found else ""


def _installed() -> list[str]:
    """Lists what can be imported besides the standard library."""
    folders = [folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))]
    names = set()
    for folder in folders:
        try:
            found = os.listdir(folder)
        except OSError:
            continue
        for name in found:
            stem, _, ending = name.partition(".")
            is_module = not ending or ending == "py" or ending.endswith(".so")
            if is_module and stem.isidentifier() and not stem.startswith("_"):
                names.add(stem)
    return sorted(names)
