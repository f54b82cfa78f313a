//! Documents and signatures of tools; the input is what a server lists.
//!
//! What must hold, and is checked for every input, stands in `tests/oracles/schema_to_python.rs`: bounded, inert
//! text, signatures that a small tokenizer reads to their end, and quotations that say exactly what the schema says.
#![no_main]

#[path = "../../tests/oracles/inert.rs"]
mod inert;
#[path = "../../tests/oracles/schema_to_python.rs"]
mod schema_to_python;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| schema_to_python::check(bytes));
