//! Calls that the bridge answers itself: documents, search, skills, jobs, resources, and questions to a model.
//!
//! A helper is no tool of a server.

mod helper;
mod jobs;
mod model;
pub(super) mod model_request;
mod resources;
mod resuming;
mod search;
mod search_wait;
mod skills;
mod uri_template;
