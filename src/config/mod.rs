//! The operator's configuration as one checked value. This module starts nothing.

mod config_files;
mod load;
mod read;
mod schema;
mod servers;
mod settings;
mod settings_diff;
#[cfg(test)]
mod test_home;

pub use config_files::ConfigFiles;
pub use load::{Config, EngineAddresses};
pub use read::environment::{Environment, Nesting};
pub use read::references::CommandLine;
pub use read::trust::{Trust, TrustError, distrust_project, project_file, trust_project};
pub use schema::schema;
pub use servers::deferred_entry::DeferredEntry;
pub use servers::env_pattern::EnvPattern;
pub use servers::inherited::Inherited;
pub use servers::load::servers_of_file;
pub use servers::self_reference::is_own;
pub use servers::server::{RefusedServer, SandboxFiles, ServerConfig, ServerRules};
pub use servers::transport::{Endpoint, HttpTransport, Launch, NamedSecrets, SandboxChoice, Transport};
pub use settings::choices::{
    AllowCommands, Audit, ContainerUser, EngineChoice, Journal, LearnShapes, Prewarm, Rollback, Sampling,
    SandboxServers, SelfServers, StructuredContent,
};
pub use settings::edit::{EditError, set_image};
pub use settings::model::{ModelAccess, ModelBounds, ModelEndpoint, ModelKey, ModelSettings};
pub use settings::mounts::MountedFolder;
pub use settings::pip::PackageSources;
pub use settings::policy_file::PolicyFile;
pub use settings::policy_schema::policy_schema;
pub use settings::resolve::{Setting, Source};
pub use settings::resume::ResumeFrom;
pub use settings_diff::edited_settings;
