//! Wires the rooms together: start-up, shutdown order, exit codes. It decides nothing about runs or calls.

mod config;
mod doctor;
mod entry;
mod failure;
mod files;
mod guardian;
mod image;
mod image_build;
mod import;
mod install;
mod log;
mod logging;
mod login;
mod model;
mod named;
mod new_file;
mod printing;
mod replay;
mod run;
mod search_model;
mod serve;
mod session;
mod session_words;
mod signals;
mod skill;
mod through_client;
mod trust;
mod wiring;

pub use entry::main;
