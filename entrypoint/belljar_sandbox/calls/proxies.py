"""Servers and tools as Python objects: mcp_<alias>, mcp_servers, and the modules mcp.servers.<alias>.

They grant nothing and have no schemas. The name of an attribute is sent to the bridge as the name of a tool, and what
`help` and `inspect` show is requested when it is read.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..display.text import listed
from .calls import Calls
from .port import Server
from .results import MCPError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inspect import Signature
    from typing import Any

    from .handles import Handle

_PACKAGE = "mcp.servers."
_NAMES_MAX = 20
_UNKNOWN = "async def tool(**arguments: Any) -> Any: ..."


class ToolFunction:
    # A tool: `await it(argument=...)`, or `it.sync(argument=...)` without await. `__doc__` is a property of this class,
    # which therefore has no docstring.

    def __init__(self, calls: Calls, server: Server, tool: str) -> None:
        self._calls = calls
        self._server = server.name
        self._tool = tool
        self.__name__ = self.__qualname__ = tool
        self.__module__ = _PACKAGE + server.alias

    def __call__(self, /, *positional: object, **arguments: Any) -> Coroutine[Any, Any, Any]:
        self._keywords_only(positional)
        return self._calls.later(self._server, self._tool, arguments)

    def sync(self, /, *positional: object, **arguments: Any) -> Any:
        self._keywords_only(positional)
        return self._calls.call_sync(self._server, self._tool, arguments)

    def handle(self, /, *positional: object, **arguments: Any) -> Coroutine[Any, Any, Handle]:
        """Calls the tool. The result stays on the host, and a handle of it is returned, an argument for further
        calls."""
        self._keywords_only(positional)
        return self._calls.later(self._server, self._tool, arguments, handle=True)

    def handle_sync(self, /, *positional: object, **arguments: Any) -> Handle:
        """handle without await."""
        self._keywords_only(positional)
        handle: Handle = self._calls.call_sync(self._server, self._tool, arguments, handle=True)
        return handle

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The documentation of the tool, requested when it is read, or why it is not available."""
        from .stubs import documentation

        try:
            return documentation(self._stub())
        except MCPError as error:
            return f"no documentation: {error}"

    @property
    def __signature__(self) -> Signature:
        from .stubs import signature

        try:
            return signature(self._stub())
        except MCPError:  # a call of the tool raises the reason
            return signature(_UNKNOWN)

    def __get__(self, instance: object, owner: type | None = None) -> ToolFunction:
        # So that `help` and `inspect` treat it as a function.
        return self

    def _stub(self) -> str:
        arguments = {"server": self._server, "tool": self._tool, "detail": "stub"}
        [doc] = self._calls.call_sync(None, "query_tool_docs", arguments)
        return str(doc["stub"])

    def _keywords_only(self, positional: tuple[object, ...]) -> None:
        if positional:
            raise TypeError(f"{self._server}.{self._tool} takes keyword arguments only")

    def __repr__(self) -> str:
        return f"<tool {self._server}.{self._tool}>"


class ServerModule(ModuleType):
    """A server, as `mcp_<alias>` and as the module `mcp.servers.<alias>`: its attributes are its tools."""

    def __init__(self, calls: Calls, server: Server) -> None:
        super().__init__(_PACKAGE + server.alias, server.description)
        self.__dict__["_calls"] = calls
        self.__dict__["_server"] = server

    async def list_tools(self) -> list[dict[str, Any]]:
        found = await self._calls.call(None, "list_tools", {"server": self._server.name})
        return list(found)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return _aliases(self._calls, self._server)
        if name == "TOOLS":
            return list(self._tool_map().values())
        if name == "TOOL_MAP":
            return self._tool_map()
        return ToolFunction(self._calls, self._server, _tool_name(name))

    def __dir__(self) -> list[str]:
        # Without private names: __getattr__ would return a tool for each of them.
        own = ["__doc__", "__name__", "list_tools"]
        try:
            return sorted([*own, *_aliases(self._calls, self._server)])
        except MCPError:  # then tools cannot be called either
            return own

    def _tool_map(self) -> dict[str, dict[str, Any]]:
        """Returns the metadata of the tools by their names in Python."""
        tools = self._calls.call_sync(None, "list_tools", {"server": self._server.name})
        return {str(tool["alias"]): tool for tool in tools}

    def __repr__(self) -> str:
        return f"<server {self._server.name}: await .tool(argument=...), .tool.sync(...), help(.tool), .list_tools()>"


class ServerTable(dict[str, ServerModule]):
    """`mcp_servers`."""

    def __missing__(self, name: str) -> ServerModule:
        if isinstance(name, str) and not name.isascii():
            from unicodedata import normalize

            same = [known for known in self if normalize("NFKC", known) == normalize("NFKC", name)]
            if same:
                return self[same[0]]
        raise MCPError(f"Server {name!r} is not available", code="server_unavailable", hint=_available(self, name))


class Proxies:
    """Puts servers into the namespace of user code, and imports their modules."""

    def __init__(self, calls: Calls, namespace: dict[str, Any], mcp: ModuleType) -> None:
        """`mcp`: the package of this name, which code can use without an import."""
        self._calls = calls
        self._namespace = namespace
        self._table = ServerTable()
        self._modules: dict[Server, ServerModule] = {}
        # The servers of the run by alias.
        self._offered: dict[str, ServerModule] = {}
        self._package = vars(mcp.servers)
        # Everything that is offered in the run, by its name in user code.
        self.names: dict[str, Any] = {}
        self._lasting = {"mcp": mcp, "runtime": mcp.runtime, "save_tool": mcp.runtime.save_tool}
        namespace.update(self._lasting)
        sys.meta_path.insert(0, self)

    def offer(self, servers: list[Server]) -> dict[str, Server]:
        """Makes the servers of a run available. Returns them by name."""
        self._table.clear()
        offered: dict[str, ServerModule] = {}
        for server in servers:
            module = self._modules.get(server)
            if module is None:
                module = self._modules[server] = ServerModule(self._calls, server)
            self._table[server.name] = self._namespace[f"mcp_{server.alias}"] = offered[server.alias] = module
        self._offer_modules(offered)
        self._namespace["mcp_servers"] = self._table
        self._namespace["LOADED_MCP_SERVERS"] = tuple(self._table)
        for name, thing in self._lasting.items():
            self._namespace.setdefault(name, thing)
        self.names.clear()
        self.names.update(self._lasting, mcp_servers=self._table, LOADED_MCP_SERVERS=tuple(self._table))
        self.names.update((f"mcp_{alias}", module) for alias, module in offered.items())
        return {server.name: server for server in servers}

    def _offer_modules(self, modules: dict[str, ServerModule]) -> None:
        for alias, module in self._offered.items():
            if modules.get(alias) is not module:
                # Otherwise an import would still find it, although it is not in this run.
                sys.modules.pop(_PACKAGE + alias, None)
                self._package.pop(alias, None)
        self._offered = modules
        self._package["__all__"] = list(modules)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith(_PACKAGE):
            return None
        alias = name.removeprefix(_PACKAGE)
        if alias not in self._offered:
            # If `name` were the full name, `from mcp.servers import x` would replace this error by one of its own.
            raise ModuleNotFoundError(
                f"Server {alias!r} is not available. {_available(self._offered, alias)}", name=alias
            )
        return ModuleSpec(name, self, origin="belljar")  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._offered[spec.name.removeprefix(_PACKAGE)]

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete when it is created."""


def _aliases(calls: Calls, server: Server) -> list[str]:
    docs = calls.call_sync(None, "query_tool_docs", {"server": server.name, "detail": "signature"})
    return [str(doc["toolAlias"]) for doc in docs]


def _tool_name(name: str) -> str:
    # Python and notebooks look for such names on every object.
    if name.startswith(("__", "_ipython")) or (name.startswith("_repr_") and name.endswith("_")):
        raise AttributeError(name)
    return name


def _available(servers: Iterable[str], wanted: str) -> str:
    from difflib import get_close_matches  # takes 4 ms, and is rarely needed

    names = sorted(servers)
    near = get_close_matches(str(wanted), names, 1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    return f"{meant}In this run: {listed(names, _NAMES_MAX) or 'none'}."
