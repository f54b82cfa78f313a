//! Counts calls that reached no server and had the same outcome again and again, so that a flood of them does not fill
//! the journal.
//!
//! A call whose equal had the same outcome before it is counted. The count is a line of its own, which stands before any
//! other line about an equal call, and before the end of the run.

use std::collections::HashMap;

use belljar_base::digest;

use super::record::{CallAgain, CallBegun, Record};

/// The largest number of different calls that are counted at a time.
const KINDS_MAX: usize = 1_000;

/// The calls that may be repeated.
#[derive(Default)]
pub(super) struct Repetitions(HashMap<CallKey, Repeated>);

/// What equal calls have in common: run, job, server, tool and the hash of the arguments.
type CallKey = (u64, Option<u64>, Option<String>, String, String);

struct Repeated {
    call: u64,
    /// The hash of the outcome.
    came: String,
    times: u64,
}

impl Repetitions {
    /// Takes a record in. Returns the records that are to be written before it; `None`: it was counted, and is not written.
    pub(super) fn take(&mut self, record: &Record) -> Option<Vec<Record>> {
        match record {
            Record::Call(begun) => {
                let key = key(begun);
                let came = begun.came.as_ref().and_then(|came| serde_json::to_vec(came).ok());
                let came = came.map(|came| digest::sha256(&came));
                if let (Some(before), Some(came)) = (self.0.get_mut(&key), &came)
                    && before.came == *came
                {
                    before.times += 1;
                    return None;
                }
                let mut written =
                    Vec::from_iter(self.0.remove(&key).and_then(|known| known.again(begun.run)));
                if let Some(came) = came {
                    if self.0.len() == KINDS_MAX {
                        written.extend(self.all());
                    }
                    self.0.insert(key, Repeated { call: begun.call, came, times: 0 });
                }
                Some(written)
            }
            Record::End(_) | Record::JobEnd(_) => Some(self.all()),
            Record::Session(_)
            | Record::Run(_)
            | Record::Sandbox(_)
            | Record::Answer(_)
            | Record::Again(_)
            | Record::Job(_)
            | Record::Resumed(_)
            | Record::Full {} => Some(vec![]),
        }
    }

    fn all(&mut self) -> Vec<Record> {
        self.0.drain().filter_map(|((run, ..), known)| known.again(run)).collect()
    }
}

impl Repeated {
    fn again(self, run: u64) -> Option<Record> {
        let again = CallAgain { run, call: self.call, times: self.times };
        (again.times > 0).then_some(Record::Again(again))
    }
}

fn key(begun: &CallBegun) -> CallKey {
    let CallBegun { run, job, server, tool, arguments, .. } = begun;
    (*run, *job, server.clone(), tool.clone(), arguments.sha256())
}
