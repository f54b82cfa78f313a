"""The runtime inside the sandbox: a supervisor that never runs user code and the worker that does.

It does not decide anything about servers or tools: the bridge does. See src/protocol/PROTOCOL.md.
"""
