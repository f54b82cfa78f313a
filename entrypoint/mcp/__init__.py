"""What user code imports to reach its MCP servers: mcp.runtime and mcp.servers.

It is not the `mcp` package of PyPI, and hides one that the image may hold.
"""

from . import runtime, servers

__all__ = ["runtime", "servers"]
