//! The MCP server that the client sees: the one tool, its manual as a resource, progress and cancellation.
//!
//! It runs nothing itself: it turns requests into runs of the session, and `render` turns reports into replies.

mod arguments;
mod clients;
mod description;
mod files;
mod notifications;
mod questions;
mod remote;
mod reply;
mod requests;
mod serve;
mod server_handler;
mod settings;
mod tasks;

pub use arguments::RunDefaults;
pub use notifications::listeners::Listeners;
pub(crate) use notifications::progress::described;
pub use remote::{HandlerSource, Remote};
pub use requests::Requests;
pub use serve::serve;
pub use server_handler::Handler;
pub use settings::HandlerSettings;
