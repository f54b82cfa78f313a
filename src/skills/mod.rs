//! Functions that code has kept for later sessions: plain `.py` files with a header, and their earlier versions.
//!
//! It runs none of them, and checks no Python; the sandbox does. What is in a file that was changed behind its back is given
//! to nobody but the user, until the user accepts it.

mod arguments;
mod definition;
mod disk;
mod error;
mod folder;
#[cfg(test)]
mod folder_tests;
mod header;
mod name;
mod skill_file;

pub use arguments::SkillArguments;
pub use definition::Definition;
pub use error::SkillError;
pub use folder::{NewSkill, PendingSkill, SaveResult, Skills};
pub use header::Header;
pub use name::SkillName;
pub use skill_file::{Skill, SkillFile};
