//! Claims about the program with real containers: each that depends on the engine is tested on every engine.

#![allow(clippy::restriction, reason = "a test ends at what it does not expect, and prints")]

#[path = "../support/mod.rs"]
mod support;

mod apart;
mod calls;
mod checked_calls;
mod checkpoints;
mod clock;
mod commands;
mod configuration;
mod docs;
mod each_write;
mod endings;
mod engine_faults;
mod failed_runs;
mod files;
mod fleet;
mod floods;
mod functions;
mod handles;
mod hints;
mod images;
mod injection;
mod jobs;
mod killed;
mod kubernetes;
mod languages;
mod lasting_runs;
mod libraries;
mod lifecycle;
mod limits;
mod login;
mod models;
mod mounts;
mod oauth;
mod oci_runtimes;
mod output;
mod own_podman;
mod pins;
mod policy;
mod policy_rules;
mod posture;
mod process_engine;
mod readable;
mod real_servers;
mod replies;
mod resources;
mod search;
mod secrets;
mod server_entries;
mod server_faults;
mod servers_ask;
mod sessions;
mod shared;
mod skills;
mod skills_killed;
mod spelled_secrets;
mod state;
mod stored_state;
mod system_calls;
mod tasks;
mod ten_servers;
mod users;
mod web;
