//! Records runs, calls and their outcomes in the journal, without the secrets of servers.
//!
//! A call that is sent to a server is recorded before it is sent, and any other call when it is answered.

use std::sync::atomic::Ordering;
use std::time::Duration;

use belljar_base::clock;
use belljar_base::digest;
use belljar_base::names::RunId;
use belljar_base::run::{OutputStream, PythonError, Reset, RunOutcome, RunReport, RunRequest, ToolFault};
use belljar_base::text;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::broker::answer::Answer;
use crate::broker::call::Call;
use crate::broker::parts::Broker;
use crate::broker::record::journal_form::{CHECK, JournalForm, is_kept, sorted};
use crate::broker::run::call_record::CallRecord;
use crate::broker::run::context::RunContext;
use crate::jobs::JobSummary;
use crate::journal::{
    CallAnswered, CallBegun, CallOutcome, JobBegun, JobEnded, JournalDetail, OutputText, Record,
    RecordedJson, Resumption, RunBegun, RunEnded, SandboxUp, ServerOfRun,
};

/// The helper that is not recorded: the runtime itself calls it, the code does not depend on it, and skills are stored
/// on the disk already.
const UNTOLD: &str = "load_skills";
/// Longest name of a client, server or tool, in characters.
const NAME_CHARS_MAX: usize = 256;
/// Longest traceback that is recorded, in characters.
const TRACEBACK_CHARS_MAX: usize = 4_000;

impl Broker {
    /// Records that a sandbox has started.
    pub fn journal_sandbox(&self, engine: &str, image: &str, python: &str) {
        // In the address of an engine, the part before the host may contain a password.
        let engine = engine.rsplit_once('@').map_or(engine, |(_, host)| host);
        let [engine, image, python] =
            [engine, image, python].map(|said| text::inert_excerpt(said, NAME_CHARS_MAX));
        let time_zone = (self.stated_limits)().time_zone;
        self.journal.append(&Record::Sandbox(SandboxUp {
            time: clock::timestamp(),
            engine,
            image,
            python,
            time_zone,
        }));
    }

    /// Records that the runs of the resumed session have been replayed.
    pub fn journal_resumed(&self, until: Option<u64>) {
        self.journal.append(&Record::Resumed(Resumption { until }));
    }

    /// Records the beginning of a run.
    pub fn journal_run(&self, run: &RunContext, request: &RunRequest, client: &str) {
        if !self.journal.is_on() {
            return;
        }
        let servers = self.run_servers(run).into_iter();
        let servers = servers.map(|server| ServerOfRun {
            name: server.name,
            alias: server.alias,
            takes_files: server.takes_files,
        });
        let begun = RunBegun {
            run: run.id.0,
            time: clock::timestamp(),
            code: self.shared.upstream.without_credentials(request.code.clone()),
            servers: servers.collect(),
            timeout_ms: u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
            dry_run: request.dry_run,
            checkpoint: match &request.reset {
                Reset::Checkpoint(name) => Some(self.shared.upstream.without_credentials(name.clone())),
                Reset::No | Reset::Fresh => None,
            },
            aside: run.is_aside(),
        };
        self.journal.begin(&text::inert_excerpt(client, NAME_CHARS_MAX), &Record::Run(begun));
    }

    /// Records the end of a run, before its report is given, and adds notes about the journal to the report.
    pub fn journal_end(&self, run: &RunContext, report: &mut RunReport) {
        if self.journal.is_on() {
            let ended = self.ended(run.id, report, run.began.elapsed());
            self.journal.append(&Record::End(ended));
        }
        report.notes.extend(self.journal.take_said());
    }

    /// The outcome of a run in the form of the journal.
    pub fn ended(&self, run: RunId, report: &RunReport, took: Duration) -> RunEnded {
        let clean = |said: &str| self.shared.upstream.without_credentials(said.to_owned());
        let mut room = self.limits.journal_output_chars_max;
        // The hash covers one stream after the other, since their interleaving can differ between two runs of the same
        // code.
        let (mut said, mut complained) = (String::new(), String::new());
        let mut output = Vec::new();
        for piece in &report.output.pieces {
            let written = clean(&piece.text);
            match piece.stream {
                OutputStream::Stdout => said.push_str(&written),
                OutputStream::Stderr => complained.push_str(&written),
            }
            // `text::bounded` returns the mark of a cut text even for a limit of 0 characters.
            let kept = if room == 0 { String::new() } else { text::bounded(&written, room).into_owned() };
            room -= kept.chars().count();
            if !kept.is_empty() {
                output.push(OutputText { stream: piece.stream, text: kept });
            }
        }
        let value = report.value.as_deref().map(clean);
        let bound: Vec<String> = report.bound.iter().map(|line| clean(line)).collect();
        let error = match &report.outcome {
            RunOutcome::Raised(error) => Some(PythonError {
                class: clean(&error.class),
                message: clean(&error.message),
                traceback: text::bounded(&clean(&error.traceback), TRACEBACK_CHARS_MAX).into_owned(),
                traceback_chars: 0,
                line: error.line,
                hint: String::new(),
            }),
            _ => None,
        };
        said.push_str(&complained);
        said.push_str(value.as_deref().unwrap_or_default());
        bound.iter().for_each(|line| said.push_str(line));
        if let Some(error) = &error {
            said.push_str(&error.class);
            said.push_str(&error.message);
        }
        let value_max = self.limits.journal_output_chars_max;
        RunEnded {
            run: run.0,
            time: clock::timestamp(),
            outcome: report.outcome.word().to_owned(),
            error,
            output,
            value: value.map(|value| text::bounded(&value, value_max).into_owned()),
            bound,
            said_bytes: said.len() as u64,
            said_sha256: digest::sha256(said.as_bytes()),
            images: report.images.len() as u64,
            notes: report
                .notes
                .iter()
                .map(|note| clean(note))
                .chain(report.sandbox_notes.iter().map(|note| clean(&format!("(by the sandbox) {note}"))))
                .collect(),
            state: report.state,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Records the beginning of a job.
    pub fn journal_job(&self, summary: &JobSummary) {
        let name = self.shared.upstream.without_credentials(summary.name.clone());
        let (run, job, time) = (summary.run, summary.number, clock::timestamp());
        self.journal.append(&Record::Job(JobBegun { run, job, time, name }));
    }

    /// Records the end of a job.
    pub fn journal_job_end(&self, summary: &JobSummary) {
        let why = self.shared.upstream.without_credentials(summary.why.clone());
        let (run, job, time, outcome) =
            (summary.run, summary.number, clock::timestamp(), summary.status.word().to_owned());
        let ms = u64::try_from(summary.took.as_millis()).unwrap_or(u64::MAX);
        self.journal.append(&Record::JobEnd(JobEnded {
            run,
            job,
            time,
            outcome,
            why,
            calls: summary.calls,
            ms,
        }));
    }

    /// The form of a call for the journal and a replay; `None`: neither needs it.
    pub(crate) fn journal_form(&self, call: &Call<'_>) -> Option<JournalForm> {
        let is_untold = call.server.is_none() && call.tool == UNTOLD;
        if is_untold || !(self.journal.is_on() || call.run().replay().is_some()) {
            return None;
        }
        let clean = |name: &str| self.shared.upstream.without_credentials(name.to_owned());
        let name = |name: &str| text::bounded(&clean(name), NAME_CHARS_MAX).into_owned();
        Some(JournalForm {
            server: call.server.as_deref().map(name),
            tool: name(&call.tool),
            arguments: self.shared.upstream.json_without_credentials(sorted(&call.arguments)),
        })
    }

    /// Records a call that is about to be sent to its server.
    pub(crate) fn note_begun(&self, call: &Call<'_>) {
        let form = call.record.entry().form.take();
        let Some(mut form) = form else { return };
        if self.journal.is_on() {
            let number = self.next_number();
            self.journal.append(&Record::Call(self.begun(call.record, &form, (number, None))));
            if call.run().replay().is_none() {
                // The answer refers to the call by its number, so the arguments need not stay in memory while the call
                // takes place.
                form.arguments = RawValue::NULL.to_owned();
            }
            call.record.entry().number = Some(number);
        }
        call.record.entry().form = Some(form);
    }

    /// Records the answer to a call, before the code gets it.
    pub(super) fn note_answer(
        &self,
        record: &CallRecord,
        form: JournalForm,
        answer: &Result<Answer, ToolFault>,
    ) {
        let is_nothing = form.server.is_none() && form.tool == CHECK && finds_nothing(answer);
        if !self.journal.is_on() || is_nothing {
            return;
        }
        let came = match answer {
            Ok(Answer::Value(value)) if is_kept(form.server.as_deref(), &form.tool) => {
                let value = self.shared.upstream.json_without_credentials(value.clone());
                CallOutcome::Value(RecordedJson::of(&value, self.limits.journal_call_bytes_max))
            }
            Ok(Answer::Value(value)) => CallOutcome::Value(self.kept(value)),
            Ok(Answer::ToolError(value)) => CallOutcome::ToolError(self.kept(value)),
            Ok(Answer::Planned { server, tool }) => {
                CallOutcome::Planned { server: server.clone(), tool: tool.clone() }
            }
            Err(fault) => {
                let clean = |said: &str| self.shared.upstream.without_credentials(said.to_owned());
                let (message, hint) = (clean(&fault.message), clean(&fault.hint));
                CallOutcome::Fault(ToolFault { message, hint, ..fault.clone() })
            }
        };
        let begun = record.entry().number;
        self.journal.append(&match begun {
            Some(call) => Record::Answer(CallAnswered { run: record.run.id.0, call, came, ms: record.ms() }),
            None => Record::Call(self.begun(record, &form, (self.next_number(), Some(came)))),
        });
    }

    fn next_number(&self) -> u64 {
        self.calls_noted.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn begun(
        &self,
        record: &CallRecord,
        form: &JournalForm,
        (call, came): (u64, Option<CallOutcome>),
    ) -> CallBegun {
        CallBegun {
            run: record.run.id.0,
            job: record.run.job_number(),
            call,
            server: form.server.clone(),
            tool: form.tool.clone(),
            arguments: self.kept(&form.arguments),
            came,
        }
    }

    /// The part of the arguments or the result of a call that the journal records.
    fn kept(&self, json: &RawValue) -> RecordedJson {
        let bytes_max = match self.journal.keep() {
            JournalDetail::Full => self.limits.journal_call_bytes_max,
            JournalDetail::Calls | JournalDetail::Off => 0,
        };
        RecordedJson::of(json, bytes_max)
    }
}

fn finds_nothing(answer: &Result<Answer, ToolFault>) -> bool {
    let Ok(Answer::Value(faults)) = answer else { return false };
    matches!(serde_json::from_str::<Vec<Value>>(faults.get()), Ok(faults) if faults.iter().all(Value::is_null))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn a_check_that_finds_nothing_is_known() {
        let value = |json: &str| Ok(Answer::Value(raw(json)));
        assert!(finds_nothing(&value("[null,null]")) && finds_nothing(&value("[]")));
        assert!(!finds_nothing(&value(r#"[null,{"code":"unknown_tool"}]"#)) && !finds_nothing(&value("1")));
    }
}
