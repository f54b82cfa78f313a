"""One module per server of the run: `from mcp.servers.github import list_issues`.

It holds none itself: they are made as they are imported.
"""

from importlib import import_module
from types import ModuleType


def __getattr__(alias: str) -> ModuleType:
    if alias.startswith("_"):
        raise AttributeError(alias)
    try:
        return import_module(f"{__name__}.{alias}")
    except ModuleNotFoundError as error:
        raise AttributeError(str(error)) from None
