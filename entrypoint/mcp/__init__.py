"""The package that user code imports to reach its MCP servers: mcp.runtime and mcp.servers.

It is not the `mcp` package of PyPI, and hides that package if the image has it.
"""

from . import runtime, servers

__all__ = ["runtime", "servers"]
