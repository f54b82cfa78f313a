//! What happened between a client and a bridge, and in the server's ledger, as data.

use std::collections::HashMap;

use serde::Serialize;

use crate::facts::Facts;

/// Calls of one run have numbers from `run * CALLS` on; those from `STRAY` on belong to what outlives its run.
pub const CALLS: u64 = 1000;
pub const STRAY: u64 = 900;

/// What the client did or saw, with the time of the machine's monotonic clock, in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    pub at: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A request is sent: a run, or something that has an answer of its own.
    Asked { id: i64, run: Option<u64>, deed: &'static str },
    /// A line is sent that is no message; it may be answered without an id.
    Garbage,
    /// The client no longer wants the latest request with this id.
    Cancelled { id: i64 },
    /// A message with an id has come; facts when it is the reply of a run.
    Answered { id: Option<i64>, facts: Option<Facts> },
    /// Something was broken on purpose.
    Fault { fault: &'static str },
    /// The bridge is ended. `midway`: requests may be without an answer.
    Ended { how: &'static str, midway: bool },
}

/// A call as the server wrote it down before it did anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub at: u64,
    pub pid: i32,
    pub number: u64,
    /// When it was about to be answered.
    pub answered_at: Option<u64>,
}

/// One bridge's life.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub events: Vec<Event>,
    pub ledger: Vec<Entry>,
}

impl History {
    /// The runs that the client has asked for.
    pub fn runs(&self) -> impl Iterator<Item = u64> {
        self.events.iter().filter_map(|event| match event.what {
            What::Asked { run, .. } => run,
            _ => None,
        })
    }
}

impl Entry {
    pub fn run(&self) -> u64 {
        self.number / CALLS
    }

    pub fn is_stray(&self) -> bool {
        self.number % CALLS >= STRAY
    }

    /// Those of a ledger: lines of `TIME PROCESS REQUEST EVENT`; others are no calls.
    pub fn all(lines: &[String]) -> Vec<Self> {
        let mut entries: Vec<Self> = Vec::new();
        let mut open: HashMap<(i32, String), usize> = HashMap::new();
        for line in lines {
            let mut words = line.splitn(4, ' ');
            let (Some(Ok(at)), Some(Ok(pid)), Some(id), Some(event)) =
                (words.next().map(str::parse), words.next().map(str::parse), words.next(), words.next())
            else {
                continue;
            };
            let key = (pid, id.to_owned());
            if let Some(call) = event.strip_prefix("call ") {
                open.insert(key, entries.len());
                entries.push(Self { at, pid, number: number(call), answered_at: None });
            } else if event == "answered"
                && let Some(index) = open.remove(&key)
            {
                entries[index].answered_at = Some(at);
            }
        }
        entries
    }
}

/// `echo {"n": 5}`; 0, which is no run's, when it is missing.
fn number(call: &str) -> u64 {
    let arguments = call.split_once(' ').map_or("", |(_, arguments)| arguments);
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    arguments["n"].as_u64().unwrap_or(0)
}
