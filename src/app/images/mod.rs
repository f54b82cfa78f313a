//! `belljar image`: builds, lists, chooses and removes images.
//!
//! The engine does the work.

mod build;
pub(super) mod command;
mod engine_images;
