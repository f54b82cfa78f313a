//! The settings: their definitions and values, the files that set them, and the policy.
//!
//! It reads no entries of servers.

pub(super) mod choices;
pub(super) mod definitions;
pub(super) mod edit;
pub(super) mod model;
pub(super) mod mounts;
pub(super) mod owner_env;
pub(super) mod pip;
pub(super) mod policy_file;
pub(super) mod policy_profile;
pub(super) mod policy_schema;
pub(super) mod resolve;
pub(super) mod resume;
pub(super) mod toml_file;
pub(super) mod values;
