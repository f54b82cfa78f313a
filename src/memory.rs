//! Gives the memory of large buffers back to the system.
//!
//! glibc maps a large allocation by itself and unmaps it when it is freed. From each such free up to 32 MiB it also learns:
//! allocations up to that size come from the heap from then on, and the heap keeps twice as much free memory. After one
//! result of 25 MB the bridge kept 50 MiB for good. A buffer that is shrunk before it is freed is unmapped and teaches
//! nothing. It does not look for buffers: whoever frees one that may be large hands it in.

use serde_json::value::RawValue;

/// Frees a buffer.
pub fn release(mut buffer: Vec<u8>) {
    buffer.clear();
    // Not to 0, which would free it as large as it is.
    buffer.shrink_to(1);
}

/// Frees JSON text.
pub fn release_json(text: Box<RawValue>) {
    release(Box::<str>::from(text).into_string().into_bytes());
}
