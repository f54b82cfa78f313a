//! The reader of JSON-RPC lines; the input is what a client, or a server, sends.
//!
//! What must hold, and is checked for every input, stands in `tests/oracles/jsonrpc_input.rs`: no panic, the same
//! messages however the bytes are cut, nothing lost in silence, refusals to whom they belong, open requests told apart.
#![no_main]

#[path = "../../tests/oracles/jsonrpc_input.rs"]
mod jsonrpc_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jsonrpc_input::check(bytes));
