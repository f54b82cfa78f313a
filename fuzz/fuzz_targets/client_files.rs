//! The readers of MCP clients' files; the input is one file, which each client's reader gets.
//!
//! What must hold, and is checked for every input, stands in `tests/oracles/client_files.rs`: no panic, remarks that are
//! one harmless line at a place in the file, no secret in them, and entries that the reader of the configuration takes.
#![no_main]

#[path = "../../tests/oracles/client_files.rs"]
mod client_files;
#[path = "../../tests/oracles/inert.rs"]
mod inert;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| client_files::check(bytes));
