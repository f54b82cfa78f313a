//! What all crates of belljar share: checked names, the bounds, escaped texts, problems with their places, secrets and their
//! removal, files that belong to this user alone, and the types of a run.
//!
//! It knows no engine, no server and no configuration, and it starts nothing.

pub mod cache_dir;
pub mod clock;
pub mod digest;
pub mod limits;
pub mod names;
pub mod own_file;
pub mod problem;
pub mod programs;
pub mod run;
pub mod secret;
pub mod text;
