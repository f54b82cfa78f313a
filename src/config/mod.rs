//! What the operator wrote, as one checked value; it starts nothing.

mod defaults;
mod endpoint;
mod entry;
mod entry_values;
mod environment;
mod file;
mod json;
mod later;
mod launch;
mod levels;
mod load;
mod locate;
mod nearest;
mod places;
mod plain_value;
mod policy_file;
mod policy_schema;
mod problem;
mod reach;
mod references;
mod resume;
mod schema;
mod self_reference;
mod server;
mod server_files;
mod server_keys;
mod servers;
mod settings;
mod stance;
mod toml_file;
mod trust;
mod values;

pub use environment::{Environment, Nesting};
pub use later::Later;
pub use load::{
    AllowCommands, Audit, Config, ContainerUser, EngineAddresses, EngineChoice, Journal, LearnShapes,
    Prewarm, Rollback, Sampling, SelfServers, Semantic, StructuredContent,
};
pub use locate::locate_program;
pub use nearest::nearest;
pub use policy_file::PolicyFile;
pub use policy_schema::policy_schema;
pub use problem::{Origin, Position, Problem, Severity, report};
pub use reach::{Endpoint, HttpTransport, Launch, NamedSecrets, Reach};
pub use references::CommandLine;
pub use resume::ResumeFrom;
pub use schema::schema;
pub use self_reference::is_own;
pub use server::{RefusedServer, SandboxFiles, ServerConfig, ServerRules};
pub use server_files::ServerFiles;
pub use servers::servers_of_file;
pub use settings::{Setting, Source};
pub use trust::{Trust, TrustError, distrust_project, project_file, trust_project};
