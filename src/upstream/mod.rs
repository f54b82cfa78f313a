//! Keeps MCP clients to the configured servers; it knows no runs.
