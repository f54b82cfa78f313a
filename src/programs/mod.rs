//! Programs of this machine.

mod locate;

pub use locate::{find_program, locate_program, searched_places, tried_programs};
