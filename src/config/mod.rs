//! What the operator wrote, as one checked value; it starts nothing.

mod defaults;
mod endpoint;
mod entry;
mod environment;
mod file;
mod json;
mod launch;
mod load;
mod locate;
mod nearest;
mod policy_file;
mod problem;
mod reach;
mod schema;
mod self_reference;
mod server_files;
mod servers;
mod settings;
mod substitute;
mod toml_file;
mod trust;
mod values;

pub use environment::{Environment, Nesting};
pub use load::{
    Audit, Config, ContainerUser, EngineAddresses, EngineChoice, LearnShapes, Prewarm, Rollback, Sampling,
    SelfServers, Semantic, StructuredContent,
};
pub use locate::locate_program;
pub use problem::{Origin, Position, Problem, Severity, report};
pub use reach::{Endpoint, HttpTransport, Launch, NamedSecrets, Reach};
pub use schema::schema;
pub use server_files::ServerFiles;
pub use servers::{ServerConfig, servers_of_file};
pub use settings::{Setting, Source};
pub use trust::{Trust, TrustError, distrust_project, project_file, trust_project};
