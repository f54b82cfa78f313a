//! The `belljar` program: it parses the command line and leaves the rest to the library.

use std::process::ExitCode;

use clap::Parser;
use tikv_jemalloc_ctl::{Access, AsName};
use tikv_jemallocator::Jemalloc;

// glibc's allocator keeps what was freed: in half an hour of runs the bridge grew from 47 to 116 MB.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    give_freed_memory_back();
    belljar::app::complete();
    belljar::app::main(belljar::cli::Arguments::parse())
}

/// Has the allocator return freed pages to the system at once. By default it does so over ten seconds, and only while
/// memory is allocated or freed: a bridge that waits for its client would keep the memory of its last large result.
fn give_freed_memory_back() {
    // One setting is for the arena that exists already, the other for arenas that are created later.
    for setting in [&b"arena.0.dirty_decay_ms\0"[..], b"arenas.dirty_decay_ms\0"] {
        // Without it memory is given back later, and nothing else changes.
        let _set_or_later = setting.name().write(0_isize);
    }
}
