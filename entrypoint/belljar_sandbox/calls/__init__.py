"""Calls of MCP tools: the Python objects that stand for servers, and the values that calls return."""
