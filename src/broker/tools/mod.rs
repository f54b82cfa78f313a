//! The knowledge about the servers' tools: stored lists, the search index, and learned shapes.
//!
//! It starts no server.

pub(super) mod catalog_cache;
pub(super) mod indexing;
mod listing_diff;
pub(super) mod searched_skills;
pub(super) mod shape_store;
pub(super) mod tool_index;
