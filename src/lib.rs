//! belljar: one MCP tool, `run_python`, in a warm interpreter inside a locked container.
//!
//! This is the program: what a session is, what the user configured, and what the client reads. The crates below `crates/`
//! have the parts that stand alone. ARCHITECTURE.md has the graph of the crates and the order of these modules.

pub mod app;
pub mod audit;
pub mod broker;
pub mod cli;
pub mod clients;
pub mod config;
pub mod jobs;
pub mod journal;
pub mod models;
pub mod render;
pub mod rerun;
pub mod server;
pub mod session;
pub mod skills;
pub mod workspace;
