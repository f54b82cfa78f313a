//! What all crates of belljar share: checked names, the bounds, escaped texts, problems with their places, secrets and their
//! removal, files that belong to this user alone, what differs between systems, who can change where a path leads, and the types of a run.
//!
//! It knows no engine, no server and no configuration, and it starts nothing.

pub mod cache_dir;
pub mod clock;
pub mod digest;
pub mod limits;
pub mod look_budget;
pub mod names;
pub mod own_file;
pub mod problem;
pub mod programs;
pub mod real_file;
pub mod resolved_path;
pub mod run;
pub mod secret;
pub mod system;
pub mod text;
