//! The decoder of sandbox frames; the input is the sandbox's byte stream.
//!
//! What must hold, and is checked for every input, stands in `tests/oracles/frame_decoder.rs`: no panic, bounded
//! memory, the same frames however the stream is cut, the authority of a line is its first byte's, and a good frame
//! behind garbage is read.
#![no_main]

#[path = "../../tests/oracles/frame_decoder.rs"]
mod frame_decoder;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frame_decoder::check(bytes));
