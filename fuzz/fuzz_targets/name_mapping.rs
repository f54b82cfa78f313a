//! Python names for servers and tools; the input is one raw name on each line.
//!
//! What must hold, and is checked for every input, stands in `tests/oracles/name_mapping.rs`: valid, unique and
//! reversible aliases that do not depend on the order and are nothing that the proxies have themselves.
#![no_main]

#[path = "../../tests/oracles/name_mapping.rs"]
mod name_mapping;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| name_mapping::check(bytes));
