//! Programs of this machine.

mod locate;

pub use locate::locate_program;
