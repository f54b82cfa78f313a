"""Calls of MCP tools: Python objects for servers and tools, and the values that calls return."""
