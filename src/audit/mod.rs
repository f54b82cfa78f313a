//! What was called and run, and what servers said of themselves, one line of JSON for each: for the user, and never read by
//! code.
//!
//! It judges nothing; who knows what has happened says so here.

mod entry;
mod log;
mod metrics;
mod reading;
mod refusals;
mod server_log;

pub use entry::{CallEvent, Entry, Event, RunEvent};
pub use log::AuditLog;
pub use metrics::{Gauge, Metrics};
pub use reading::{Filter, entries, time};
pub use server_log::{ServerLog, ServerLogEntry, last_entries};
