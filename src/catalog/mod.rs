//! What is known of all tools, as pure functions over it; it asks no server.

mod alias;
mod arguments;
mod docs;
mod index;
mod known;
mod literal;
mod lookalikes;
mod manual;
mod postings;
mod python;
mod refs;
mod search;
mod synonyms;
mod tool;
mod vectors;
mod words;

pub use alias::{Naming, server_aliases, tool_aliases};
pub use arguments::{Checked, Given, check_names, checked, implied, undeclared};
pub use docs::{
    Detail, describe_server, discovered_servers, list_servers, list_tools, loaded_server_metadata,
    query_tool_docs, tool_doc,
};
pub use known::{Catalog, NearMisses, Origin, ServerTools, Tools, UnknownTool, resolved};
pub use manual::capability_summary;
pub use python::{Answered, Shapes, Sighting, signature};
pub use search::{Queries, Query, SearchHit, grouped, search};
pub use tool::{Tool, ToolRefusal};
pub use vectors::{Vectors, respelt, tool_text};
