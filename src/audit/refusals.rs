//! Counts equal refusals, so that a flood of them leaves few lines.
//!
//! The first of a kind passes at once. The number of the others follows as one entry that stands for them all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::entry::{CallEvent, Entry, Event};

/// The largest number of kinds that are counted separately; the others of a run are counted together.
const KINDS_MAX: usize = 64;

/// The refusals that are being counted.
#[derive(Default)]
pub(super) struct Refusals {
    began: Option<Instant>,
    /// The entry that stands for those after the first, if there are any.
    kinds: BTreeMap<Kind, Option<Entry>>,
}

/// What equal refusals have in common: session, run, job, server, tool, outcome and decision. The arguments may differ.
type Kind = (String, u64, Option<u64>, String, String, String, String);

impl Refusals {
    /// Whether there are any that are not written.
    pub(super) fn are_counted(&self) -> bool {
        self.began.is_some()
    }

    /// Whether they have been counted for this long.
    pub(super) fn are_due(&self, time: Duration) -> bool {
        self.began.is_some_and(|began| began.elapsed() >= time)
    }

    /// Takes an entry in, and adds to the batch what is to be written now.
    pub(super) fn take(&mut self, mut entry: Entry, is_refused: bool, batch: &mut Vec<Entry>) {
        let call = match &mut entry.event {
            Event::Call(call) if is_refused => call,
            Event::Call(_) => return batch.push(entry),
            Event::Run(_) => {
                self.end(batch);
                return batch.push(entry);
            }
        };
        let mut kind = kind(&entry.session, call);
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind) {
            (call.server, call.tool) = Default::default();
            call.decision = "further calls that were not made".into();
            kind = self::kind(&entry.session, call);
        }
        self.began.get_or_insert_with(Instant::now);
        match self.kinds.get_mut(&kind) {
            None => {
                self.kinds.insert(kind, None);
                batch.push(entry);
            }
            Some(Some(Entry { event: Event::Call(counted), time, .. })) => {
                counted.times += 1;
                counted.bytes_out += call.bytes_out;
                counted.ms += call.ms;
                *time = entry.time;
            }
            Some(others) => *others = Some(entry),
        }
    }

    /// Adds the numbers to the batch, and counts anew.
    pub(super) fn end(&mut self, batch: &mut Vec<Entry>) {
        self.began = None;
        batch.extend(std::mem::take(&mut self.kinds).into_values().flatten());
    }
}

fn kind(session: &str, call: &CallEvent) -> Kind {
    let CallEvent { run, job, server, tool, outcome, decision, .. } = call;
    (session.to_owned(), *run, *job, server.clone(), tool.clone(), outcome.clone(), decision.clone())
}
