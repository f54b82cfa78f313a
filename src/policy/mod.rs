//! What code may call, as the user has decided: rules, profiles, labels of data, budgets. Pure: it asks nobody and calls
//! nothing.
//!
//! It believes nothing that code says of itself; of a tool it knows what its server says, which are hints.

mod arguments;
mod called;
mod choice;
mod decide;
mod ledger;
mod named;
mod names;
mod number;
mod pattern;
mod readings;
mod rules;
mod spelling;
mod verdict;

pub use called::{Called, Implied};
pub use choice::ToolChoice;
pub use decide::Decision;
pub use ledger::{Ledger, NotAgain, Plan, RunBudget};
pub use names::Names;
pub use pattern::Pattern;
pub use readings::{Nesting, inner, may_be_nothing};
pub use rules::{Budgets, Label, Labels, Policy, Profile, Rule};
pub use verdict::Verdict;
