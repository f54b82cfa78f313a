"""The runtime inside the sandbox: a supervisor that never runs user code, and a worker that does.

The bridge decides everything about servers and tools. See crates/belljar-protocol/src/PROTOCOL.md.
"""
