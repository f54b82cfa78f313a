//! The MCP face towards the client; it runs nothing itself.
