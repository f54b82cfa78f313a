//! What the operator wrote, as one checked value; it starts nothing.

mod defaults;
mod entry;
mod environment;
mod file;
mod json;
mod load;
mod locate;
mod problem;
mod self_reference;
mod server_files;
mod servers;
mod substitute;
mod variables;

pub use defaults::{Variable, variables};
pub use environment::{Environment, Nesting};
pub use load::{
    Config, ContainerUser, EngineAddresses, EngineChoice, LearnShapes, Prewarm, Rollback, SelfServers,
    Semantic, StructuredContent,
};
pub use locate::locate_program;
pub use problem::{Origin, Position, Problem, Severity, report};
pub use server_files::ServerFiles;
pub use servers::{ServerConfig, ServerEnvironment, servers_of_file};
