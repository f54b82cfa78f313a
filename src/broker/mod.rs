//! May this call happen, and who answers it: a server by way of `upstream`, or the bridge itself from the catalog.
//!
//! It keeps no processes and knows no sandbox; what a call claims of itself is believed in nothing.

mod admission;
mod answer;
mod arguments;
mod call;
mod catalog_cache;
mod dry_run;
mod failures;
mod handle_calls;
mod handles;
mod held_value;
mod helpers;
mod human;
mod indexing;
mod jobs;
mod journalling;
mod kept_folder;
mod knowledge;
mod learned;
mod listing_news;
mod literal_calls;
mod model;
mod model_request;
mod oversight;
mod pin_files;
mod pins;
mod replay;
mod replay_words;
mod resources;
mod resuming;
mod roster;
mod search;
mod search_wait;
mod searched_skills;
mod semantics;
mod sending;
mod server_progress;
mod servers_ask;
mod shown_arguments;
mod shown_requests;
mod skills;
mod state;
mod trust;
mod uri_template;
mod vector_cache;

pub use call::{Answer, Call, HandlesOf, Making};
pub use human::{Approval, Human, Question, Waits};
pub use oversight::{LoggedArguments, Oversight};
pub use replay::{Replay, Replayed, Way, not_kept};
pub use roster::{Roster, model_endpoint, remote_spec};
pub use sending::Sending;
pub use state::{Broker, Folders};
pub use trust::Changes;
