//! May this call happen, and who answers it: a server by way of `upstream`, or the bridge itself from the catalog.
//!
//! It keeps no processes and knows no sandbox; what a call claims of itself is believed in nothing.

mod admission;
mod answer;
mod arguments;
mod catalog_cache;
mod dry_run;
mod helpers;
mod human;
mod indexing;
mod kept_folder;
mod knowledge;
mod learned;
mod listing_news;
mod literal_calls;
mod oversight;
mod pins;
mod resources;
mod roster;
mod saved_tools;
mod search;
mod semantics;
mod sending;
mod server_progress;
mod servers_ask;
mod shown_requests;
mod uri_template;
mod vector_cache;

pub use answer::{Answer, Broker, Call, Folders, Making};
pub use human::{Approval, Human, Question, Waits};
pub use oversight::{LoggedArguments, Oversight};
pub use pins::trust;
pub use roster::{Roster, remote_spec};
pub use sending::Sending;
