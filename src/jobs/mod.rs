//! Which jobs there are and what has become of them: code that goes on beside later runs, and outlives its interpreter.
//!
//! It runs nothing and starts no process: `session` does, and tells it of what comes of that. All that is kept is bounded.

mod job;
mod registry;

pub use job::{JobRequest, JobSummary, Status};
pub use registry::Jobs;
