//! What code may call, as the user has decided: rules, profiles, labels of data, budgets. Pure: it asks nobody and calls
//! nothing.
//!
//! It believes nothing that code says of itself; of a tool it knows what its server says, which are hints.

mod arguments;
mod choice;
mod decide;
mod ledger;
mod literal_meaning;
mod names;
mod number;
mod pattern;
mod policy_call;
mod readings;
mod rules;
mod spelling;
mod verdict;

pub use choice::ToolChoice;
pub use decide::Decision;
pub use ledger::{EarlierRefusal, Ledger, Plan, RunBudget};
pub use names::Names;
pub use pattern::Pattern;
pub use policy_call::{ImpliedArguments, PolicyCall};
pub use readings::{DecodingDepth, inner, may_be_nothing};
pub use rules::{Budgets, Label, Labels, Policy, Profile, Rule};
pub use verdict::Verdict;
