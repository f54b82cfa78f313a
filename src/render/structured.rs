//! A report as one JSON object with the seed's field names, and that object as a TOON or JSON block.
//!
//! Absent means empty, as in the seed; the statuses are success, error, timeout and validation_error.

use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::run::{OutputStream, RunOutcome, RunReport, StateNote, ToolFault};
use belljar_base::text::{bounded, inert};
use serde_json::{Map, Value, json};

use super::calls::{calls_not_made, calls_with_unknown_outcome, insert_calls_made};
use super::fitting::{fitted, fitted_traceback, hint, hint_of_sandbox, within_room};
use super::output::OutputView;
use super::sentences::{change, error_line, hint_of};
use super::verdict::{exit_code, status};

/// Longest error in one line, in characters, where the traceback has the whole; and longest summary.
const ERROR_LINE_CHARS_MAX: usize = 300;
/// Longest name of an exception in a summary, in characters.
const CLASS_CHARS_MAX: usize = 80;
/// Names of servers that are listed.
const SERVERS_MAX: usize = 50;
/// Longest name of a server, in characters.
const SERVER_CHARS_MAX: usize = 64;

/// The report as data, and what is written of it, within the bound of a reply: what takes the room is cut until it fits.
pub(super) fn within(
    report: &RunReport,
    limits: &Limits,
    write: impl Fn(&Value) -> String,
) -> (Value, String) {
    let written = OutputView::of(report);
    let mut room = limits.reply_chars_max;
    loop {
        let value = of_report(report, &written, limits, room);
        let text = write(&value);
        let chars = text.chars().count();
        if chars <= limits.reply_chars_max || room == 0 {
            return (value, text);
        }
        // Escapes and keys take room too; how much shows only in the text.
        room = (room * limits.reply_chars_max / chars * 9 / 10).min(room.saturating_sub(1));
    }
}

/// The report as data: streams by line, and streams, value and notes together about as long as `room`, in characters.
fn of_report(report: &RunReport, written: &OutputView, limits: &Limits, room: usize) -> Value {
    let mut fields = Map::new();
    fields.insert("status".into(), json!(status(report)));
    fields.insert("summary".into(), json!(summary(report)));
    if let Some(exit_code) = exit_code(report) {
        fields.insert("exitCode".into(), json!(exit_code));
    }
    insert_lines(&mut fields, "servers", servers(report));
    for (key, stream) in [("stdout", OutputStream::Stdout), ("stderr", OutputStream::Stderr)] {
        insert_lines(&mut fields, key, written.lines_of(stream, room));
    }
    if let Some(value) = &report.value {
        fields.insert("value".into(), json!(fitted(&inert(value), room)));
    }
    insert_lines(&mut fields, "bound", within_room(&report.bound, room));
    insert_lines(&mut fields, "files", report.saved.clone());
    if let Some(error) = error_line(&report.outcome) {
        let error = inert(&error);
        let error = match has_traceback(report) {
            true => bounded(&error, ERROR_LINE_CHARS_MAX).into_owned(),
            false => fitted(&error, limits.error_chars_max),
        };
        fields.insert("error".into(), json!(error));
    }
    match &report.outcome {
        RunOutcome::Raised(raised) => {
            // Error, traceback, hint and line.
            fields.insert("errorFrom".into(), json!("sandbox"));
            let hint = hint_of_sandbox(&raised.hint);
            let traceback =
                limits.error_chars_max.saturating_sub(ERROR_LINE_CHARS_MAX + hint.chars().count());
            if has_traceback(report) {
                let shown = fitted_traceback(&inert(&raised.traceback), raised, traceback);
                fields.insert("traceback".into(), json!(shown));
            }
            if !hint.is_empty() {
                fields.insert("hint".into(), json!(hint));
            }
            if let Some(line) = raised.line {
                fields.insert("line".into(), json!(line));
            }
        }
        RunOutcome::TimedOut { after, .. } => {
            fields.insert("timeoutSeconds".into(), seconds(*after));
        }
        RunOutcome::NotStarted(fault) => {
            fields.insert("code".into(), json!(fault.code));
        }
        _ => {}
    }
    if let Some(said) = hint_of(&report.outcome) {
        fields.insert("hint".into(), json!(hint(&said)));
    }
    if !matches!(report.outcome, RunOutcome::NotStarted(_)) {
        fields.insert("state".into(), json!(state(report.state)));
    }
    insert_calls_made(report, &mut fields);
    let is_told = report.state == StateNote::Kept;
    let mut notes: Vec<String> = change(report).into_iter().filter(|_| !is_told).collect();
    notes.extend(calls_with_unknown_outcome(report));
    notes.extend(calls_not_made(report));
    notes.extend(report.notes.iter().cloned());
    insert_lines(&mut fields, "notes", within_room(&notes, room / 2));
    insert_lines(&mut fields, "sandboxNotes", within_room(&report.sandbox_notes, room / 4));
    fields.into()
}

/// A whole number where it is one, as most are.
fn seconds(time: Duration) -> Value {
    match time.subsec_nanos() {
        0 => json!(time.as_secs()),
        _ => json!(time.as_secs_f64()),
    }
}

fn has_traceback(report: &RunReport) -> bool {
    matches!(&report.outcome, RunOutcome::Raised(raised) if !raised.traceback.trim().is_empty())
}

/// Refused arguments as data.
pub(super) fn of_refusal(fault: &ToolFault, limits: &Limits) -> Value {
    let message = fitted(&inert(&fault.message), limits.error_chars_max);
    let mut fields = json!({"status": "validation_error", "summary": message, "error": message});
    if !fault.hint.is_empty() {
        fields["hint"] = json!(hint(&fault.hint));
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

fn servers(report: &RunReport) -> Vec<String> {
    let names = report.servers.iter().take(SERVERS_MAX);
    let mut names: Vec<String> =
        names.map(|server| bounded(&inert(server.as_str()), SERVER_CHARS_MAX).into_owned()).collect();
    if report.servers.len() > SERVERS_MAX {
        names.push(format!("… {} more", report.servers.len() - SERVERS_MAX));
    }
    names
}

/// The name of an exception's class, if it is one.
fn exception(class: &str) -> &str {
    let is_name = !class.is_empty()
        && class.chars().count() <= CLASS_CHARS_MAX
        && class.chars().all(|character| character.is_alphanumeric() || "._<>".contains(character));
    if is_name { class } else { "an exception" }
}

fn state(note: StateNote) -> &'static str {
    match note {
        StateNote::Kept => "kept",
        StateNote::Fresh(_) => "fresh",
        StateNote::Lost => "lost",
        StateNote::RolledBack | StateNote::RolledBackFurther => "rolled_back",
        StateNote::Restored => "restored",
    }
}

fn summary(report: &RunReport) -> String {
    let is_silent = report.output.pieces.is_empty()
        && report.value.is_none()
        && report.bound.is_empty()
        && report.images.is_empty()
        && report.saved.is_empty();
    match &report.outcome {
        RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 } if is_silent => {
            "Success (no output)".to_owned()
        }
        RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 } => "Success".to_owned(),
        RunOutcome::TimedOut { after, .. } => {
            format!("Timeout: execution exceeded {}s", after.as_secs_f64())
        }
        // The sandbox's own words stand in `error`.
        RunOutcome::Raised(raised) => format!("Error: the code raised {}", exception(&raised.class)),
        outcome => error_line(outcome)
            .map(|error| {
                let first = error.lines().next().unwrap_or_default();
                bounded(&inert(first), ERROR_LINE_CHARS_MAX).into_owned()
            })
            .unwrap_or_default(),
    }
}
