//! What the operator wrote, as one checked value; it starts nothing.

mod choices;
mod config_files;
mod defaults;
mod edit;
mod edited;
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
mod model;
mod mounts;
mod nearest;
mod pip;
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
mod server_keys;
mod servers;
mod settings;
mod stance;
mod toml_file;
mod trust;
mod values;

pub use choices::{
    AllowCommands, Audit, ContainerUser, EngineChoice, Journal, LearnShapes, Prewarm, Rollback, Sampling,
    SelfServers, Semantic, StructuredContent,
};
pub use config_files::ConfigFiles;
pub use edit::{EditError, set_image};
pub use edited::edited_settings;
pub use environment::{Environment, Nesting};
pub use later::Later;
pub use load::{Config, EngineAddresses};
pub use locate::locate_program;
pub use model::{ModelBounds, ModelEndpoint, ModelKey, ModelSettings, ModelWay};
pub use mounts::MountedFolder;
pub use nearest::nearest;
pub use pip::PackageSources;
pub use policy_file::PolicyFile;
pub use policy_schema::policy_schema;
pub use problem::{Origin, Position, Problem, Severity, report};
pub use reach::{Endpoint, HttpTransport, Launch, NamedSecrets, Reach};
pub use references::CommandLine;
pub use resume::ResumeFrom;
pub use schema::schema;
pub use self_reference::is_own;
pub use server::{RefusedServer, SandboxFiles, ServerConfig, ServerRules};
pub use servers::servers_of_file;
pub use settings::{Setting, Source};
pub use trust::{Trust, TrustError, distrust_project, project_file, trust_project};
