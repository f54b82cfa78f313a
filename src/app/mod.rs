//! Wires the rooms together: start-up, shutdown order, exit codes. It decides nothing about runs or calls.

mod doctor;
mod entry;
mod guardian;
mod logging;
mod run;
mod search_model;
mod serve;
mod signals;
mod wiring;

pub use entry::main;
