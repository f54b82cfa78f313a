//! Asks language models over HTTP, as OpenAI's chat completions have it, and keeps count of what that costs.
//!
//! It knows no run, no policy and no client: whoever asks may ask.

mod chat;
mod endpoint;
mod error;
mod ledger;
mod retry;

pub use chat::{ModelAnswer, ModelRequest, Usage, estimated_tokens, stop_reason};
pub use endpoint::Endpoint;
pub use error::ModelError;
pub use ledger::{Bounds, BudgetError, Ledger, RunBudget, TokenReservation};
