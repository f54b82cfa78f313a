//! Programs of this machine.

mod locate;

pub use locate::{find_program, locate_program, path_folders, searched_folders, searched_places};
