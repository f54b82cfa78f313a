//! The user's decisions on what code may call: rules, profiles, labels of data, budgets. It is pure: it asks nobody and
//! calls nothing.
//!
//! It trusts nothing that code says about itself. About a tool it knows only what its server says, which is a hint.

mod arguments;
mod choice;
mod decide;
mod ledger;
mod literal_meaning;
mod names;
mod number;
mod pattern;
mod places;
mod policy_call;
mod readings;
mod rules;
mod spelling;
mod verdict;

pub use choice::ToolChoice;
pub use decide::{Decision, ToolRules};
pub use ledger::{Ledger, Plan, RunBudget};
pub use names::Names;
pub use pattern::Pattern;
pub use policy_call::{CallArguments, FindDefaults, PolicyCall};
pub use readings::{DecodingDepth, inner, may_be_nothing, may_hold_json};
pub use rules::{Budgets, Label, Labels, Policy, Profile, Rule};
pub use verdict::Verdict;
