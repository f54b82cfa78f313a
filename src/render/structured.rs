//! A report as one JSON object with the seed's field names, and that object as a TOON or JSON block.
//!
//! Absent means empty, as in the seed; the statuses are success, error, timeout and validation_error.

use serde_json::{Map, Value, json};

use super::calls::{calls_with_unknown_outcome, insert_calls_made};
use super::compact::{change, error_line};
use super::fitting::fitted;
use super::reply::Verdict;
use crate::limits::Limits;
use crate::run::{Output, OutputStream, RunOutcome, RunReport, SandboxLoss, StateNote, ToolFault};
use crate::text::inert;

/// Whether a report is an error.
pub(super) fn verdict(report: &RunReport) -> Verdict {
    match report.outcome {
        RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 } => Verdict::Success,
        _ => Verdict::Error,
    }
}

/// The status word.
pub(super) fn status(report: &RunReport) -> &'static str {
    match (&report.outcome, verdict(report)) {
        (RunOutcome::TimedOut { .. }, _) => "timeout",
        (_, Verdict::Success) => "success",
        (_, Verdict::Error) => "error",
    }
}

/// The exit code that a script of this outcome would have had, where it would have had one.
pub(super) fn exit_code(report: &RunReport) -> Option<i64> {
    match &report.outcome {
        RunOutcome::Finished => Some(0),
        RunOutcome::Raised(_) => Some(1),
        RunOutcome::Exited { exit_code } | RunOutcome::SandboxLost(SandboxLoss::Exited { exit_code }) => {
            Some(*exit_code)
        }
        RunOutcome::SandboxLost(SandboxLoss::Killed { signal, .. }) => Some(128 + signal),
        RunOutcome::TimedOut { .. }
        | RunOutcome::Interrupted
        | RunOutcome::NotStarted(_)
        | RunOutcome::SandboxLost(SandboxLoss::OverLimit { .. } | SandboxLoss::Container { .. }) => None,
    }
}

/// The report as data. Streams are given by line, each at most as long as a whole reply.
pub(super) fn of_report(report: &RunReport, limits: &Limits) -> Value {
    let mut fields = Map::new();
    fields.insert("status".into(), json!(status(report)));
    fields.insert("summary".into(), json!(summary(report)));
    if let Some(exit_code) = exit_code(report) {
        fields.insert("exitCode".into(), json!(exit_code));
    }
    let names: Vec<String> =
        report.servers.iter().map(|server| inert(server.as_str()).into_owned()).collect();
    insert_lines(&mut fields, "servers", names);
    for (key, stream) in [("stdout", OutputStream::Stdout), ("stderr", OutputStream::Stderr)] {
        insert_lines(&mut fields, key, lines(&report.output, stream, limits));
    }
    if let Some(value) = &report.value {
        fields.insert("value".into(), json!(fitted(&inert(value), limits.reply_chars_max)));
    }
    if let Some(error) = error_line(&report.outcome) {
        fields.insert("error".into(), json!(inert(&error)));
    }
    match &report.outcome {
        RunOutcome::Raised(raised) => {
            fields
                .insert("traceback".into(), json!(fitted(&inert(&raised.traceback), limits.reply_chars_max)));
            if let Some(line) = raised.line {
                fields.insert("line".into(), json!(line));
            }
        }
        RunOutcome::TimedOut { after } => {
            fields.insert("timeoutSeconds".into(), json!(after.as_secs_f64().ceil() as u64));
        }
        RunOutcome::NotStarted(fault) => {
            fields.insert("code".into(), json!(fault.code));
            if !fault.hint.is_empty() {
                fields.insert("hint".into(), json!(inert(&fault.hint)));
            }
        }
        _ => {}
    }
    if !matches!(report.outcome, RunOutcome::NotStarted(_)) {
        fields.insert("state".into(), json!(state(report.state)));
    }
    let output = &report.output;
    for (key, bytes) in
        [("stdoutCutBytes", output.stdout_cut_bytes), ("stderrCutBytes", output.stderr_cut_bytes)]
    {
        if bytes > 0 {
            fields.insert(key.into(), json!(bytes));
        }
    }
    insert_calls_made(report, &mut fields);
    let is_told = report.state == StateNote::Kept;
    let mut notes: Vec<String> = change(report).into_iter().filter(|_| !is_told).collect();
    notes.extend(calls_with_unknown_outcome(report));
    notes.extend(report.notes.iter().map(|note| inert(note).into_owned()));
    insert_lines(&mut fields, "notes", notes);
    fields.into()
}

/// Refused arguments as data.
pub(super) fn of_refusal(fault: &ToolFault) -> Value {
    let message = inert(&fault.message);
    let mut fields = json!({"status": "validation_error", "summary": message, "error": message});
    if !fault.hint.is_empty() {
        fields["hint"] = json!(inert(&fault.hint));
    }
    fields
}

/// A fenced TOON block, or a fenced JSON block where TOON has no form for the value.
pub(super) fn toon(value: &Value) -> String {
    let (language, body) = match toon_format::encode_default(value) {
        Ok(body) if !body.trim().is_empty() => ("toon", body),
        // Too deep, or empty: JSON can say both.
        Ok(_) | Err(_) => ("json", value.to_string()),
    };
    // A fence longer than any in the body, so that printed backquotes cannot end the block.
    let fence = "`".repeat(longest_backquotes(&body).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", body.trim_end())
}

fn longest_backquotes(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

fn insert_lines(fields: &mut Map<String, Value>, key: &str, lines: Vec<String>) {
    if !lines.is_empty() {
        fields.insert(key.to_owned(), json!(lines));
    }
}

fn lines(output: &Output, stream: OutputStream, limits: &Limits) -> Vec<String> {
    let whole: String = output
        .pieces
        .iter()
        .filter(|piece| piece.stream == stream)
        .map(|piece| piece.text.as_str())
        .collect();
    fitted(&inert(&whole), limits.reply_chars_max).lines().map(str::to_owned).collect()
}

fn state(note: StateNote) -> &'static str {
    match note {
        StateNote::Kept => "kept",
        StateNote::Fresh(_) => "fresh",
        StateNote::Lost => "lost",
        StateNote::RolledBack | StateNote::RolledBackFurther => "rolled_back",
    }
}

fn summary(report: &RunReport) -> String {
    let is_silent = report.output.pieces.is_empty() && report.value.is_none() && report.images.is_empty();
    match &report.outcome {
        RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 } if is_silent => {
            "Success (no output)".to_owned()
        }
        RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 } => "Success".to_owned(),
        RunOutcome::TimedOut { after } => {
            format!("Timeout: execution exceeded {}s", after.as_secs_f64())
        }
        outcome => error_line(outcome).map(|line| inert(&line).into_owned()).unwrap_or_default(),
    }
}
