//! The reader of configuration files; the input is one file.
//!
//! What must hold, and is checked for every input, stands in `tests/oracles/config_parser.rs`: no panic, the verdict
//! of another JSON parser, each entry a server or a problem, problems that are one harmless line at a place in the file,
//! and no value of env or args in them.
#![no_main]

#[path = "../../tests/oracles/config_parser.rs"]
mod config_parser;
#[path = "../../tests/oracles/inert.rs"]
mod inert;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| config_parser::check(bytes));
