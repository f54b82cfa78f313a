//! Reads a journal back, as far as it is whole: of a process that was killed the last line may be half written.

use std::collections::HashMap;

use super::kept::Kept;
use super::record::{
    CallBegun, Came, JobBegun, JobEnded, Record, RunBegun, RunEnded, SandboxUp, SessionBegun,
};
use super::writing::VERSION;
use crate::run::StateNote;
use crate::text;

/// Longest name of a call, or arguments, in a line about it, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// What is kept of a session.
#[derive(Debug, Clone)]
pub struct RecordedSession {
    /// Its first line.
    pub begun: SessionBegun,
    /// Its sandboxes, one after the other.
    pub sandboxes: Vec<SandboxUp>,
    /// Its runs, in their order.
    pub runs: Vec<RecordedRun>,
    /// Its jobs, in their order.
    pub jobs: Vec<RecordedJob>,
    /// Why it may not be all that there was.
    pub damage: Option<Damage>,
}

/// Why a journal may not hold all that there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// It had no more room.
    Full,
    /// Its last line is half written: what that tells was not acknowledged to anybody.
    Torn,
    /// This line, counted from 1, is none of a journal; what comes behind it is left out.
    Line(usize),
}

/// A run.
#[derive(Debug, Clone)]
pub struct RecordedRun {
    /// How it began.
    pub begun: RunBegun,
    /// Whether it began with an empty namespace.
    pub is_fresh: bool,
    /// Its calls, in the order in which they were made.
    pub calls: Vec<RecordedCall>,
    /// How it ended; nothing when the bridge ended before.
    pub ended: Option<RunEnded>,
}

/// A job. A run that is made once more does not make its calls again.
#[derive(Debug, Clone)]
pub struct RecordedJob {
    /// How it began.
    pub begun: JobBegun,
    /// How it ended; nothing when the bridge ended before.
    pub ended: Option<JobEnded>,
    /// Its calls, in the order in which they were made.
    pub calls: Vec<RecordedCall>,
}

/// A call.
#[derive(Debug, Clone)]
pub struct RecordedCall {
    /// How it began.
    pub begun: CallBegun,
    /// What came of it and how long that took in milliseconds; nothing when the bridge ended before.
    pub came: Option<(Came, u64)>,
}

/// Where a call stands: in which run or job, and which of its calls.
enum Place {
    Run(usize, usize),
    Job(usize, usize),
}

impl RecordedCall {
    /// In a line: its name, its arguments and what came of it.
    #[must_use]
    pub fn shown(&self) -> String {
        let arguments = match &self.begun.arguments {
            Kept::Whole(json) => text::inert_excerpt(json.get(), SHOWN_CHARS_MAX),
            Kept::LeftOut { bytes, .. } => format!("({bytes} B)"),
        };
        let came = match &self.came {
            Some((came, ms)) => format!("{}, {ms} ms", came.word()),
            None => "no answer: it may have been made".into(),
        };
        let name = text::inert_excerpt(&self.begun.name(), SHOWN_CHARS_MAX);
        format!("{name} {arguments}: {came}")
    }
}

impl RecordedSession {
    /// Of the bytes of its file.
    ///
    /// # Errors
    /// Why it is none that this belljar can read.
    pub fn of(bytes: &[u8]) -> Result<Self, String> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let begun = match lines.next().map(serde_json::from_slice) {
            Some(Ok(Record::Session(begun))) => begun,
            _ => return Err("its first line is not that of a journal".into()),
        };
        if begun.version != VERSION {
            return Err(format!("it is of form {}, and this belljar reads form {VERSION}", begun.version));
        }
        let mut session = Self { begun, sandboxes: vec![], runs: vec![], jobs: vec![], damage: None };
        let mut calls = HashMap::new();
        let mut is_fresh = true;
        for (line, at) in lines.zip(2..) {
            if !line.ends_with(b"\n") {
                session.damage = Some(Damage::Torn);
                break;
            }
            match serde_json::from_slice(line) {
                Ok(Record::Full {}) => session.damage = Some(Damage::Full),
                Ok(Record::Sandbox(sandbox)) => {
                    session.sandboxes.push(sandbox);
                    session.fresh(&mut is_fresh);
                }
                Ok(record) => session.take(record, &mut calls, &mut is_fresh),
                Err(_) => {
                    session.damage = Some(Damage::Line(at));
                    break;
                }
            }
        }
        session.leave_out_aside();
        Ok(session)
    }

    /// Runs that lead nowhere by themselves; what comes after the first of them begins as that did.
    fn leave_out_aside(&mut self) {
        let (mut was_aside, mut begins_fresh) = (false, false);
        self.runs.retain_mut(|run| {
            if run.begun.aside {
                begins_fresh = if was_aside { begins_fresh } else { run.is_fresh };
            } else {
                run.is_fresh |= std::mem::take(&mut begins_fresh);
            }
            was_aside = run.begun.aside;
            !was_aside
        });
    }

    /// A sandbox has started: the run that waits for it begins afresh, or else the next.
    fn fresh(&mut self, is_fresh: &mut bool) {
        match self.runs.last_mut().filter(|run| run.ended.is_none()) {
            Some(run) => run.is_fresh = true,
            None => *is_fresh = true,
        }
    }

    /// `calls`: where each stands; `is_fresh`: whether the next run begins with an empty namespace.
    fn take(&mut self, record: Record, calls: &mut HashMap<u64, Place>, is_fresh: &mut bool) {
        match record {
            Record::Run(begun) => {
                let is_fresh = std::mem::take(is_fresh);
                self.runs.push(RecordedRun { begun, is_fresh, calls: vec![], ended: None });
            }
            Record::Call(mut begun) if begun.job.is_some() => {
                let Some(at) = self.jobs.iter().rposition(|job| Some(job.begun.job) == begun.job) else {
                    return;
                };
                let came = begun.came.take().map(|came| (came, 0));
                calls.insert(begun.call, Place::Job(at, self.jobs[at].calls.len()));
                self.jobs[at].calls.push(RecordedCall { begun, came });
            }
            Record::Call(mut begun) => {
                let Some(at) = self.runs.iter().rposition(|run| run.begun.run == begun.run) else { return };
                let came = begun.came.take().map(|came| (came, 0));
                calls.insert(begun.call, Place::Run(at, self.runs[at].calls.len()));
                self.runs[at].calls.push(RecordedCall { begun, came });
            }
            Record::Answer(answered) => {
                let call = match calls.get(&answered.call) {
                    Some(Place::Run(run, call)) => &mut self.runs[*run].calls[*call],
                    Some(Place::Job(job, call)) => &mut self.jobs[*job].calls[*call],
                    None => return,
                };
                call.came = Some((answered.came, answered.ms));
            }
            Record::End(ended) => {
                let Some(run) = self.runs.iter_mut().rfind(|run| run.begun.run == ended.run) else { return };
                run.is_fresh |= matches!(ended.state, StateNote::Fresh(_));
                *is_fresh = ended.state == StateNote::Lost;
                run.ended = Some(ended);
            }
            Record::Job(begun) => self.jobs.push(RecordedJob { begun, ended: None, calls: vec![] }),
            Record::JobEnd(ended) => {
                if let Some(job) = self.jobs.iter_mut().rfind(|job| job.begun.job == ended.job) {
                    job.ended = Some(ended);
                }
            }
            Record::Session(_) | Record::Sandbox(_) | Record::Resumed {} | Record::Full {} => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = r#"{"session":{"version":1,"id":"ab","time":"t","client":"c","belljar":"0.1.0","protocol":1,"keep":"full"}}"#;

    fn run(number: u64) -> String {
        format!(
            r#"{{"run":{{"run":{number},"time":"t","code":"{number}","servers":[],"timeout_ms":1,"dry_run":false}}}}"#
        )
    }

    fn call(run: u64, number: u64) -> String {
        format!(
            r#"{{"call":{{"run":{run},"call":{number},"server":"s","tool":"t","arguments":{{"whole":{{}}}}}}}}"#
        )
    }

    fn answer(run: u64, call: u64) -> String {
        format!(
            r#"{{"answer":{{"run":{run},"call":{call},"came":{{"value":{{"whole":{{"n":{call}}}}}}},"ms":3}}}}"#
        )
    }

    fn end(run: u64, state: &str) -> String {
        format!(
            r#"{{"end":{{"run":{run},"time":"t","outcome":"finished","output":[],"said_bytes":0,"said_sha256":"","images":0,"state":{state},"ms":1}}}}"#
        )
    }

    const SANDBOX: &str = r#"{"sandbox":{"time":"t","engine":"e","image":"i","python":"3.14.0"}}"#;

    fn read(lines: &[&str]) -> RecordedSession {
        RecordedSession::of((lines.join("\n") + "\n").as_bytes()).unwrap()
    }

    #[test]
    fn calls_are_with_their_runs_and_answers_with_their_calls_in_whatever_order_they_came() {
        let session = read(&[
            SESSION,
            &run(1),
            SANDBOX,
            &call(1, 1),
            &call(1, 2),
            &answer(1, 2),
            &end(1, r#"{"fresh":"first"}"#),
            &run(2),
            &call(2, 3),
            &answer(1, 1),
        ]);
        let calls = |run: &RecordedRun| {
            let call = |call: &RecordedCall| (call.begun.call, call.came.is_some());
            run.calls.iter().map(call).collect::<Vec<_>>()
        };
        assert_eq!(
            session.runs.iter().map(calls).collect::<Vec<_>>(),
            [vec![(1, true), (2, true)], vec![(3, false)]]
        );
        let ended = session.runs.iter().map(|run| (run.begun.run, run.ended.is_some()));
        assert_eq!(ended.collect::<Vec<_>>(), [(1, true), (2, false)]);
        assert_eq!((session.damage, session.sandboxes.len()), (None, 1));
    }

    #[test]
    fn it_is_known_which_runs_began_with_an_empty_namespace() {
        let kept = r#""kept""#;
        let session = read(&[
            SESSION,
            SANDBOX,
            &run(1),
            &end(1, kept),
            &run(2),
            &end(2, r#""lost""#),
            &run(3),
            &end(3, kept),
            &run(4),
            SANDBOX,
            &end(4, kept),
            SANDBOX,
            &run(5),
            &end(5, r#""rolled_back""#),
            &run(6),
            &end(6, r#"{"fresh":"reset"}"#),
            &run(7),
            &end(7, kept),
        ]);
        let fresh: Vec<u64> =
            session.runs.iter().filter(|run| run.is_fresh).map(|run| run.begun.run).collect();
        assert_eq!(fresh, [1, 3, 4, 5, 6]);
    }

    #[test]
    fn wherever_a_journal_is_cut_off_what_stands_before_is_read() {
        let lines = [SESSION, &run(1), &call(1, 1), &answer(1, 1), &end(1, r#""kept""#), &run(2)];
        let whole = lines.join("\n") + "\n";
        let mut lengths = vec![];
        for cut in SESSION.len() + 1..=whole.len() {
            let session = RecordedSession::of(&whole.as_bytes()[..cut]).unwrap();
            let is_line = whole.as_bytes()[cut - 1] == b'\n';
            assert_eq!(session.damage, (!is_line).then_some(Damage::Torn), "{cut}");
            let of_runs = session.runs.iter().map(|run| {
                1 + run.calls.len()
                    + run.calls.iter().filter(|call| call.came.is_some()).count()
                    + usize::from(run.ended.is_some())
            });
            lengths.push(of_runs.sum::<usize>());
        }
        assert!(lengths.is_sorted());
        assert_eq!((lengths[0], *lengths.last().unwrap()), (0, 5));
    }

    #[test]
    fn what_is_no_journal_or_not_all_of_one_is_said() {
        let wrong = |bytes: &[u8]| RecordedSession::of(bytes).unwrap_err();
        assert_eq!(wrong(b""), "its first line is not that of a journal");
        assert_eq!(wrong(run(1).as_bytes()), "its first line is not that of a journal");
        let newer = SESSION.replace("\"version\":1", "\"version\":9");
        assert_eq!(wrong(newer.as_bytes()), "it is of form 9, and this belljar reads form 1");
        let session = read(&[SESSION, &run(1), "nonsense", &run(2)]);
        assert_eq!((session.damage, session.runs.len()), (Some(Damage::Line(3)), 1));
        assert_eq!(read(&[SESSION, &run(1), r#"{"full":{}}"#]).damage, Some(Damage::Full));
    }
}
