//! Plans how a confined server is started: the files that it sees, found by following its command, and those that its
//! entry adds.
//!
//! The server's keeper carries out the plan.

mod caches;
mod follow;
mod grant;
mod lacks;
mod plan;
mod resolve;
mod runner_arguments;
mod surroundings;

pub use lacks::{Lack, in_words};
pub(super) use lacks::{lacks, to_suggest};
pub(super) use plan::{Confinement, ConfinementError};
