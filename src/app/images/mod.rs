//! `belljar image`: builds, pulls, lists, chooses and removes images.
//!
//! The engine does the work.

mod build;
pub(super) mod command;
mod engine_images;
mod pull;
mod show_progress;

pub(super) use engine_images::{built_by_belljar, of_another_version};
