//! The knowledge about all tools, with pure functions on it. It asks no server.

mod alias;
mod arguments;
mod contents;
mod docs;
mod index;
mod literal;
mod manual;
mod matching;
mod python;
mod refs;
mod schema_subset;
mod search;
mod server_tools;
mod tool;

pub use alias::{AliasKind, server_aliases, tool_aliases};
pub use arguments::{CheckedArguments, LiteralArguments, check_names, checked, find_defaults, undeclared};
pub use contents::Catalog;
pub use docs::{
    Detail, describe_server, discovered_servers, list_servers, list_tools, loaded_server_metadata,
    query_tool_docs, tool_doc,
};
pub use manual::{StatedLimits, capability_summary};
pub use python::{AnsweredCall, Observation, Shapes, json_of_repr, signature};
pub use search::{Queries, SearchHit, grouped, search};
pub use server_tools::{NearMisses, Origin, ServerTools, Tools, UnknownTool, resolved};
pub use tool::{Tool, ToolRefusal};
