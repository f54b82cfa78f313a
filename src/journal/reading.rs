//! Reads a journal back, as far as it is whole: of a process that was killed the last line may be half written.

use std::collections::HashMap;

use belljar_base::run::{FreshReason, StateNote};
use belljar_base::text;

use super::record::{
    CallBegun, CallOutcome, JobBegun, JobEnded, Record, Resumption, RunBegun, RunEnded, SandboxUp,
    SessionBegun, VERSION,
};
use super::recorded_json::RecordedJson;

/// Longest name of a call, or arguments, in a line about it, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// A session as its journal has it.
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

/// The reason for which a journal may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The journal had no more room.
    Full,
    /// The last line is incomplete: nobody got an acknowledgement of what it records.
    Torn,
    /// This line, counted from 1, does not belong in a journal. It and everything behind it are left out.
    Line(usize),
}

/// A run.
#[derive(Debug, Clone)]
pub struct RecordedRun {
    /// How it began.
    pub begun: RunBegun,
    /// Whether it began with an empty namespace.
    pub is_fresh: bool,
    /// If the session went back to the end of an earlier run: the number of runs before that, which no longer include
    /// this one for later runs.
    pub(crate) left_behind: Option<usize>,
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
    pub came: Option<(CallOutcome, u64)>,
    /// How often it was made; more than once only if it was refused each time.
    pub times: u64,
}

/// The run or job of a call, and its index among the calls of that.
enum CallLocation {
    Run(usize, usize),
    Job(usize, usize),
}

impl RecordedCall {
    /// In a line: its name, its arguments and what came of it.
    #[must_use]
    pub fn shown(&self) -> String {
        let arguments = match &self.begun.arguments {
            RecordedJson::Whole(json) => text::inert_excerpt(json.get(), SHOWN_CHARS_MAX),
            RecordedJson::LeftOut { bytes, .. } => format!("({bytes} B)"),
        };
        let came = match &self.came {
            Some((came, ms)) => format!("{}, {ms} ms", came.word()),
            None => "no answer: it may have been made".into(),
        };
        let name = text::inert_excerpt(&self.begun.name(), SHOWN_CHARS_MAX);
        let times = if self.times == 1 { String::new() } else { format!(", {} times", self.times) };
        format!("{name} {arguments}: {came}{times}")
    }
}

impl RecordedSession {
    /// All calls of its runs and jobs.
    pub fn calls(&self) -> impl Iterator<Item = &RecordedCall> {
        let of_runs = self.runs.iter().flat_map(|run| &run.calls);
        of_runs.chain(self.jobs.iter().flat_map(|job| &job.calls))
    }

    /// The runs that lead to the variables at the end of this run: those since the interpreter was new, or all if one of
    /// them went back to a checkpoint, which may be older. Runs that the session had left behind by then are not among
    /// them. `None` if there is no such run.
    #[must_use]
    pub fn leading_to(&self, until: u64) -> Option<Vec<&RecordedRun>> {
        let end = self.runs.iter().rposition(|run| run.begun.run == until)? + 1;
        let counts = |run: &&RecordedRun| run.left_behind.is_none_or(|count| count >= end);
        let mut runs: Vec<&RecordedRun> = self.runs[..end].iter().filter(counts).collect();
        let begin = runs.iter().rposition(|run| run.is_fresh).unwrap_or(0);
        let goes_back = |run: &&RecordedRun| {
            let is_restored = run.ended.as_ref().is_some_and(|ended| ended.state == StateNote::Restored);
            is_restored || run.begun.checkpoint.is_some()
        };
        let begin = if runs[begin..].iter().any(goes_back) { 0 } else { begin };
        Some(runs.split_off(begin))
    }

    /// The last run before the present interpreter that has kept its variables, if the interpreter before was lost or
    /// stopped, and not given up by a reset.
    #[must_use]
    pub fn last_run_before_loss(&self) -> Option<u64> {
        let state = |run: &RecordedRun| run.ended.as_ref().map(|ended| ended.state);
        let counts = |run: &RecordedRun| run.left_behind.is_none();
        let first = self.runs.iter().rposition(|run| run.is_fresh && counts(run))?;
        if let Some(StateNote::Fresh(FreshReason::First | FreshReason::Reset)) = state(&self.runs[first]) {
            return None;
        }
        let last =
            self.runs[..first].iter().rfind(|run| counts(run) && state(run) != Some(StateNote::Lost))?;
        Some(last.begun.run)
    }

    /// The last run that has kept its variables.
    #[must_use]
    pub fn last_run_with_variables(&self) -> Option<u64> {
        let has_kept = |run: &&RecordedRun| {
            let ended = run.ended.as_ref().filter(|_| run.left_behind.is_none());
            ended.is_some_and(|ended| ended.state != StateNote::Lost)
        };
        self.runs.iter().rfind(has_kept).map(|run| run.begun.run)
    }

    /// The time zone of its last sandbox; `None`: the journal does not have it.
    #[must_use]
    pub fn time_zone(&self) -> Option<String> {
        let zone = self.sandboxes.last().map(|sandbox| sandbox.time_zone.clone());
        zone.filter(|zone| !zone.is_empty())
    }

    /// Reads a journal from the bytes of its file.
    ///
    /// # Errors
    /// The reason for which this version of belljar cannot read it.
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
                // The session went on with the variables that it has made.
                begins_fresh &= run.left_behind.is_none();
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

    fn call(&mut self, location: Option<&CallLocation>) -> Option<&mut RecordedCall> {
        match location? {
            CallLocation::Run(run, call) => self.runs.get_mut(*run)?.calls.get_mut(*call),
            CallLocation::Job(job, call) => self.jobs.get_mut(*job)?.calls.get_mut(*call),
        }
    }

    /// `calls`: where each stands; `is_fresh`: whether the next run begins with an empty namespace.
    fn take(&mut self, record: Record, calls: &mut HashMap<u64, CallLocation>, is_fresh: &mut bool) {
        match record {
            Record::Run(begun) => {
                let is_fresh = std::mem::take(is_fresh);
                let run = RecordedRun { begun, is_fresh, left_behind: None, calls: vec![], ended: None };
                self.runs.push(run);
            }
            Record::Call(mut begun) if begun.job.is_some() => {
                let Some(at) = self.jobs.iter().rposition(|job| Some(job.begun.job) == begun.job) else {
                    return;
                };
                let came = begun.came.take().map(|came| (came, 0));
                calls.insert(begun.call, CallLocation::Job(at, self.jobs[at].calls.len()));
                self.jobs[at].calls.push(RecordedCall { begun, came, times: 1 });
            }
            Record::Call(mut begun) => {
                let Some(at) = self.runs.iter().rposition(|run| run.begun.run == begun.run) else { return };
                let came = begun.came.take().map(|came| (came, 0));
                calls.insert(begun.call, CallLocation::Run(at, self.runs[at].calls.len()));
                self.runs[at].calls.push(RecordedCall { begun, came, times: 1 });
            }
            Record::Answer(answered) => {
                if let Some(call) = self.call(calls.get(&answered.call)) {
                    call.came = Some((answered.came, answered.ms));
                }
            }
            Record::Again(again) => {
                if let Some(call) = self.call(calls.get(&again.call)) {
                    call.times = call.times.saturating_add(again.times);
                }
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
            Record::Resumed(Resumption { until: Some(until) }) => {
                // The runs that have brought the variables back are left out already.
                *is_fresh = false;
                let count = self.runs.iter().filter(|run| !run.begun.aside).count();
                let later = self.runs.iter_mut().filter(|run| run.begun.run > until);
                later.for_each(|run| run.left_behind = run.left_behind.or(Some(count)));
            }
            Record::Session(_) | Record::Sandbox(_) | Record::Resumed(_) | Record::Full {} => {}
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

    /// For each run: its number, how its variables were at its end, and the checkpoint that it began from.
    fn session(of: &[(u64, &str, Option<&str>)]) -> RecordedSession {
        let checkpoint = |name: &str| format!(r#","checkpoint":"{name}""#);
        let lines = of.iter().map(|(number, state, name)| {
            let begun = run(*number);
            let (begun, closing) = begun.split_at(begun.len() - 2);
            format!("{begun}{}{closing}\n{}", name.map(checkpoint).unwrap_or_default(), end(*number, state))
        });
        let lines: Vec<String> = [SESSION.to_owned()].into_iter().chain(lines).collect();
        read(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn numbers(of: &[(u64, &str, Option<&str>)], until: u64) -> Option<Vec<u64>> {
        session(of).leading_to(until).map(|runs| runs.iter().map(|run| run.begun.run).collect())
    }

    const KEPT: &str = r#""kept""#;
    const RESET: &str = r#"{"fresh":"reset"}"#;

    #[test]
    fn only_runs_of_the_same_interpreter_lead_to_a_run() {
        let of = [(1, KEPT, None), (2, RESET, None), (3, KEPT, None), (4, KEPT, None)];
        assert_eq!(numbers(&of, 3), Some(vec![2, 3]));
        assert_eq!(numbers(&of, 1), Some(vec![1]));
        assert_eq!(numbers(&of, 9), None);
    }

    #[test]
    fn after_going_back_all_earlier_runs_count() {
        let restored = r#""restored""#;
        let of = [(1, KEPT, None), (2, RESET, None), (3, restored, None), (4, KEPT, None)];
        assert_eq!(numbers(&of, 4), Some(vec![1, 2, 3, 4]));
        let of = [(1, KEPT, None), (2, RESET, None), (3, KEPT, Some("a")), (4, KEPT, None)];
        assert_eq!(numbers(&of, 4), Some(vec![1, 2, 3, 4]));
        assert_eq!(numbers(&of, 2), Some(vec![2]));
    }

    #[test]
    fn after_a_resume_the_runs_before_it_count_and_those_that_were_left_behind_do_not() {
        let aside = |number: u64| run(number).replace("\"dry_run\"", "\"aside\":true,\"dry_run\"");
        let resumed = |until: u64| format!(r#"{{"resumed":{{"until":{until}}}}}"#);
        let (kept, lost) = (r#""kept""#, r#""lost""#);
        let mut lines = vec![SESSION.to_owned(), SANDBOX.into()];
        for (number, state) in [(1, kept), (2, kept), (3, lost)] {
            lines.extend([run(number), end(number, state)]);
        }
        let read_now = |lines: &[String]| read(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let leading = |session: &RecordedSession, until| -> Vec<u64> {
            session.leading_to(until).unwrap().iter().map(|run| run.begun.run).collect()
        };
        // It is broken off once: runs 4 and 6 bring run 1 back, 7 run 2.
        lines.extend([SANDBOX.into(), aside(4), end(4, kept), SANDBOX.into(), aside(6), end(6, kept)]);
        assert_eq!(read_now(&lines).last_run_with_variables(), Some(2));
        lines.extend([aside(7), end(7, kept), resumed(2), run(8), end(8, kept)]);
        let session = read_now(&lines);
        assert_eq!(session.last_run_with_variables(), Some(8));
        assert_eq!(leading(&session, 8), [1, 2, 8]);
        assert_eq!(leading(&session, 3), [1, 2, 3], "as it was then");
        // Code asks for the same in run 10, which began in a new interpreter.
        lines.extend([SANDBOX.into(), run(10), end(10, r#"{"fresh":"idle_stop"}"#)]);
        assert_eq!(read_now(&lines).last_run_before_loss(), Some(8));
        lines.extend([aside(11), end(11, r#"{"fresh":"reset"}"#), resumed(8)]);
        let session = read_now(&lines);
        assert_eq!((session.last_run_with_variables(), session.last_run_before_loss()), (Some(8), None));
        lines.extend([run(12), end(12, kept)]);
        assert_eq!(leading(&read_now(&lines), 12), [1, 2, 8, 12]);
    }

    #[test]
    fn a_stop_or_loss_is_told_from_a_reset() {
        let (idle, lost) = (r#"{"fresh":"idle_stop"}"#, r#""lost""#);
        let before_loss = |of: &[_]| session(of).last_run_before_loss();
        assert_eq!(before_loss(&[(1, KEPT, None), (2, KEPT, None)]), None);
        assert_eq!(before_loss(&[(1, KEPT, None), (2, idle, None), (3, KEPT, None)]), Some(1));
        assert_eq!(before_loss(&[(1, KEPT, None), (2, idle, None), (3, RESET, None)]), None);
        // The run that lost the interpreter has left nothing.
        assert_eq!(before_loss(&[(1, KEPT, None), (2, lost, None), (3, KEPT, None)]), Some(1));
        assert_eq!(before_loss(&[(1, lost, None), (2, KEPT, None)]), None);
        let under_way = read(&[SESSION, &run(1), SANDBOX, &end(1, KEPT), &run(2), SANDBOX]);
        assert_eq!(under_way.last_run_before_loss(), Some(1));
    }
}
