//! How a confined server is started: what it sees, found by following its command, and what its entry adds.
//!
//! Its keeper confines it, by what this module plans.

mod caches;
mod changeable;
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
