//! Connects the modules: start-up, shutdown order, exit codes. It decides nothing about runs or calls.

mod clients;
mod common;
mod completions;
mod config;
mod doctor;
mod entry;
mod files;
mod greeting;
mod guardian;
mod images;
mod kubernetes;
mod log;
mod login;
mod model;
mod one_bridge;
mod run;
mod serve;
mod sessions;
mod skill;
mod token;
mod trust;
mod wiring;

pub use completions::complete;
pub use entry::main;
