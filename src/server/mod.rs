//! The MCP face towards the client: the one tool, its manual as a resource, progress and cancellation.
//!
//! It runs nothing itself: requests become runs of the session, reports become replies by way of `render`.

mod arguments;
mod clients;
mod description;
mod files;
mod notifications;
mod questions;
mod reply;
mod requests;
mod serve;
mod server_handler;
mod settings;
mod tasks;

pub use arguments::RunDefaults;
pub use requests::Requests;
pub use serve::serve;
pub use server_handler::Handler;
pub use settings::HandlerSettings;
