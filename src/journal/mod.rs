//! The journal of a session, one file of lines each: what was run and called, and what came of it; written as it happens,
//! read back, listed, removed, and written anew as a script or a notebook.
//!
//! It knows neither sandboxes nor servers, runs nothing and answers no call: who does says so here.

mod notebook;
mod reading;
mod record;
mod recorded_json;
mod repetitions;
mod script;
mod sessions;
mod writing;

pub use notebook::notebook;
pub use reading::{Damage, RecordedCall, RecordedJob, RecordedRun, RecordedSession};
pub use record::JournalDetail;
pub use record::{
    CallAgain, CallAnswered, CallBegun, CallOutcome, JobBegun, JobEnded, OutputText, Record, Resumption,
    RunBegun, RunEnded, SandboxUp, ServerOfRun, SessionBegun,
};
pub use recorded_json::RecordedJson;
pub use script::script;
pub use sessions::{SessionSummary, Sessions, SessionsError};
pub use writing::Journal;
