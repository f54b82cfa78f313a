//! The operator's configuration as one checked value. This module starts nothing.

mod config_files;
mod configuration;
mod load;
mod owner;
mod read;
mod schema;
mod servers;
mod settings;
#[cfg(test)]
mod test_home;

pub use config_files::ConfigFiles;
pub use config_files::edited_settings;
pub use configuration::{Config, claim_folders};
pub use owner::Owner;
pub(crate) use read::changeable::own_program;
pub use read::environment::{Environment, Nesting, this_program};
pub use read::references::CommandLine;
pub use read::trust::{ProjectFile, Trust, TrustError, distrust_project, project_file};
pub use schema::schema;
pub use servers::deferred_entry::DeferredEntry;
pub use servers::env_pattern::EnvPattern;
pub use servers::load::servers_of_file;
pub use servers::self_reference::is_own;
pub use servers::server::{RefusedServer, SandboxFiles, ServerConfig, ServerRules};
pub use servers::transport::{Endpoint, Launch, NamedSecrets, SandboxChoice, Transport};
pub use settings::choices::{
    AllowCommands, Audit, LearnShapes, Rollback, Sampling, SandboxServers, SelfServers, Shared,
    StructuredContent,
};
pub use settings::edit::{EditError, set_image};
pub use settings::model::{ModelAccess, ModelEndpoint, ModelKey, ModelSettings};
pub use settings::mounts::MountedFolder;
pub use settings::pip::PackageSources;
pub use settings::policy_file::PolicyFile;
pub use settings::policy_schema::policy_schema;
pub use settings::resolve::{Setting, Source};
pub use settings::resume::ResumeFrom;
