//! What the model reads; it decides nothing.

mod calls;
mod compact;
mod fitting;
mod output;
mod reply;
mod structured;

pub use reply::{Block, Reply, Verdict, refusal, render};
