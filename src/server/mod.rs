//! The MCP face towards the client: the one tool, its manual as a resource, progress and cancellation.
//!
//! It runs nothing itself: requests become runs of the session, reports become replies by way of `render`.

mod answering;
mod approvals;
mod arguments;
mod clients;
mod description;
mod face;
mod files;
mod listeners;
mod live_output;
mod notify;
mod progress;
mod questions;
mod requests;
mod rounds;
mod serve;
mod tasks;

pub use arguments::RunDefaults;
pub use face::{Face, FaceSettings};
pub use requests::Requests;
pub use serve::serve;
