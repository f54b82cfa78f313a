//! What is known of all tools, as pure functions over it; it asks no server.
