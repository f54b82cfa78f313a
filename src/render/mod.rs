//! What the model reads; it decides nothing.

mod calls;
mod fitting;
mod output;
mod own_lines;
mod reply;
mod reply_text;
mod sentences;
mod structured;
mod verdict;

pub use calls::{calls_made, calls_with_unknown_outcome};
pub use reply::{Block, Reply, refusal, render};
pub use verdict::Verdict;
