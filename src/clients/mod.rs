//! What MCP clients' files look like, read and written: their servers come out, belljar itself goes in.
//!
//! It runs no client and starts no server; what an entry of belljar's means, `config` knows.

mod around;
mod backup;
mod claude_switches;
mod dialect;
mod diff;
mod entry;
mod entry_values;
mod error;
mod file;
mod format;
#[cfg(test)]
mod format_tests;
mod install;
#[cfg(test)]
mod install_tests;
mod json_text;
mod masked;
mod merge;
mod opencode_switches;
mod own_entry;
mod passing;
mod places;
mod reading;
mod references;
mod remark;
mod secrets;
mod table;
mod toml_text;
mod tree;
mod yaml_edit;
mod yaml_text;

pub use diff::diff;
pub use error::InstallError;
pub use install::{Edit, Plan, Registration, Replacing, Workshop, install, missing_approval, uninstall};
pub use merge::{Change, merge};
pub use own_entry::{Calls, Starting};
pub use passing::passed;
pub use places::{Scope, Surroundings, place_variables};
pub use reading::{
    Files, Found, FoundServer, IsOwn, client_of_file, read_client, servers_of_client_file,
    unread_project_files,
};
pub use remark::{Remark, Weight};
pub use table::{Client, client, client_names, clients};
