//! What was called and run, one line of JSON for each: for the user, and never read by code.
//!
//! It judges nothing; who knows what has happened says so here.

mod entry;
mod log;
mod reading;

pub use entry::{CallEvent, Entry, Event, RunEvent};
pub use log::Log;
pub use reading::{Filter, entries, time};
