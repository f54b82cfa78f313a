//! Claims about the program that need no container engine: how it starts, speaks, refuses and explains.

#![allow(clippy::restriction, reason = "a test ends at what it does not expect, and prints")]

#[path = "../support/mod.rs"]
mod support;

#[path = "../tokens/listing.rs"]
mod listing;

// Of `make soak`, which has no harness of its own.
#[path = "../soak/checks.rs"]
mod checks;
#[path = "../soak/facts.rs"]
mod facts;
#[path = "../soak/flat.rs"]
mod flat;
// Faults are only in the histories of real bridges.
#[allow(dead_code)]
#[path = "../soak/history.rs"]
mod history;

/// A session, for tests with only one.
fn session() -> belljar_base::names::SessionId {
    belljar_base::names::SessionId::new("a")
}

mod arguments;
mod both_ways;
mod clients;
mod commands;
mod completions;
mod configuration;
mod confined_servers;
mod conversation;
mod deadline;
mod documentation;
mod each_write;
mod eras;
mod images;
mod install;
mod kubernetes;
mod listening;
mod login;
mod login_command;
mod models;
mod npm;
mod oauth;
mod odd_servers;
mod own_folders;
mod remote;
mod remote_stress;
mod requests;
mod search;
mod server_entries;
mod service_login;
mod service_login_hostile;
mod sessions;
mod shared;
mod soak_checks;
mod start;
mod stateless;
mod through_clients;
mod tidy;
mod tls;
mod tokens;
mod web;
