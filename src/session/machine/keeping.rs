//! How the machine stores the files of the workspace: between the end of a run and its report.

use belljar_base::run::{FreshReason, RunReport, StateNote};
use belljar_base::text;
use belljar_protocol::ToSupervisor;
use tokio::time::Instant;

use super::{Effect, Machine};
use crate::session::phase::{Phase, Run};

/// Longest sentence about files that cannot be stored, in characters.
const LEFT_OUT_CHARS_MAX: usize = 600;
/// Longest name of a file in such a sentence, in characters.
const NAME_CHARS_MAX: usize = 200;

/// The state of the files that the sandbox reports.
#[derive(Debug, Default)]
pub(super) struct FileSync {
    /// The number of the last `keep` frame.
    seq: u64,
    /// Whether a file could not be written the last time. The sandbox reports all files again then.
    pub(super) everything: bool,
    /// The last sentence about omitted files, which is not repeated.
    left_out: String,
}

impl Machine {
    /// Whether the sandbox was asked to report files. If `answer` is given, it must also be the number of the last
    /// `keep`.
    pub(crate) fn keeps(&self, answer: Option<u64>) -> bool {
        matches!(self.phase, Phase::StoringFiles { .. }) && answer.is_none_or(|seq| seq == self.files.seq)
    }

    /// Whether files have to be stored before the report of the run is given. A dry run changes no stored file.
    pub(super) fn is_kept_now(&self, run: &Run, has_changed_files: bool) -> bool {
        (has_changed_files || self.files.everything) && run.request.keep_files && !run.request.dry_run
    }

    /// Continues after the reported files were stored. `failed`: the problem with those that were not. `left_out`: the
    /// files that the sandbox has omitted.
    pub(crate) fn kept(
        &mut self,
        failed: Option<&str>,
        left_out: &[String],
        left_out_total: u64,
        now: Instant,
    ) -> Vec<Effect> {
        let (report, is_worker_gone) = match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::StoringFiles { report, is_worker_gone, .. } => (report, is_worker_gone),
            other => {
                self.phase = other;
                return vec![];
            }
        };
        self.files.everything = failed.is_some();
        let mut notes: Vec<String> = failed
            .map(|failed| format!("files of /workspace are not kept beyond this sandbox: {failed}"))
            .into_iter()
            .collect();
        let said = told(left_out, left_out_total);
        if said != self.files.left_out {
            self.files.left_out.clone_from(&said);
            notes.extend((!said.is_empty()).then_some(said));
        }
        let Some(mut report) = report else {
            for note in notes {
                self.note(note);
            }
            if failed.is_some() {
                // The sandbox stays until its files can be stored.
                self.idle(now);
                return vec![];
            }
            self.fresh = Some(self.fresh.unwrap_or(FreshReason::IdleStop));
            return vec![Effect::CloseSandbox];
        };
        report.notes.extend(notes);
        if is_worker_gone {
            self.phase = Phase::AwaitingWorker { until: now + self.limits.replace };
        } else {
            self.idle(now);
        }
        vec![Effect::Finish(report)]
    }

    /// Stores changed files before this report is given. Without a report, the sandbox is stopped after that.
    pub(super) fn keep(&mut self, report: Option<Box<RunReport>>, now: Instant) -> Vec<Effect> {
        self.files.seq += 1;
        self.phase =
            Phase::StoringFiles { report, is_worker_gone: false, until: now + self.limits.keep_files };
        let FileSync { seq, everything, .. } = self.files;
        vec![Effect::Send(ToSupervisor::Keep { seq, everything })]
    }

    /// Handles the loss of a sandbox before its files were stored.
    pub(super) fn not_kept(&mut self, why: &str, report: Option<Box<RunReport>>) -> Vec<Effect> {
        self.forget();
        self.files = FileSync { seq: self.files.seq, ..FileSync::default() };
        let said = format!("what was changed last in /workspace is not kept: {why}");
        let Some(mut report) = report else {
            self.note(said);
            return vec![Effect::CloseSandbox];
        };
        report.notes.push(said);
        report.state = StateNote::Lost;
        vec![Effect::CloseSandbox, Effect::Finish(report)]
    }
}

/// A sentence about the files that the sandbox has omitted; empty if there are none.
fn told(left_out: &[String], total: u64) -> String {
    if total == 0 {
        return String::new();
    }
    // Code has chosen the names of the files, and the supervisor has written the reasons.
    let of_file = |said: &String| match said.rsplit_once(": ") {
        Some((name, why)) => format!("{}: {why}", text::name_in_sentence(name, NAME_CHARS_MAX)),
        None => text::name_in_sentence(said, NAME_CHARS_MAX),
    };
    let shown = text::inert_line(&left_out.iter().map(of_file).collect::<Vec<_>>().join("; "));
    let more = match total.saturating_sub(left_out.len() as u64) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let shown = text::bounded(&shown, LEFT_OUT_CHARS_MAX);
    format!("in /workspace for as long as this sandbox lives, and not kept: {shown}{more}")
}

#[cfg(test)]
#[path = "keeping_tests.rs"]
mod tests;
