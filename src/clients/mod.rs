//! Reads and writes the files of MCP clients: imports their servers, and adds belljar itself.
//!
//! It starts no client and no server. The meaning of belljar's entries is in `config`.

mod claude_switches;
mod error;
mod file;
mod formats;
mod http_address;
mod install;
mod known_clients;
mod merge;
mod opencode_switches;
mod over_http;
mod own_entry;
mod places;
mod reading;
mod translate;

pub use error::InstallError;
pub(crate) use formats::json_text::read as read_json;
pub(crate) use formats::spanned::{Member, Node, Value};
pub use http_address::{HttpAddress, HttpAddressError};
pub use install::edit::{
    Edit, InstallContext, Plan, Registration, ReplaceRule, install, missing_approval, uninstall,
};
pub use install::passed::passed;
pub use install::passing::unpassable;
pub use known_clients::{Client, client, client_names, clients};
pub use known_clients::{ClientServer, ClientServers, OwnCommandCheck};
pub use merge::diff;
pub use merge::{Change, ConfinementChoice, merge};
pub use own_entry::{Calls, OWN_NAME, Reach, StartCommand};
pub use places::{Scope, Surroundings, place_variables};
pub use reading::{Files, client_of_file, read_client, servers_of_client_file, unread_project_files};
