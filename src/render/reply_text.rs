//! The reply as plain text: what was written, as it was written, and only those facts that the reader cannot guess.
//!
//! What the sandbox says is output, value, traceback, and lines that begin with `sandbox`; its other lines never begin like
//! those of the bridge.
//!
//! It never decides what a fact means; status and state come from the report.

use super::calls::{calls_made, calls_not_made, calls_with_unknown_outcome};
use super::fitting::{fitted, hint, hint_of_sandbox, within_room};
use super::output::OutputView;
use super::own_lines::{in_one_line, quoted};
use super::sentences::{change, error_line, hint_of};
use super::verdict::{Verdict, exit_code, status, verdict};
use crate::limits::Limits;
use crate::run::{OutputStream, PythonError, RunOutcome, RunReport, ToolFault};
use crate::text::inert;

const SILENT: &str = "(no output)";
/// What a traceback has in any case, in characters: its first lines, and the exception.
const TRACEBACK_CHARS_MIN: usize = 300;

/// The report as text: status lines unless it succeeded, output, value, error, then what is to be known besides.
pub(super) fn of_report(report: &RunReport, limits: &Limits) -> String {
    let mut above = Vec::new();
    if verdict(report) == Verdict::Error {
        above.push(format!("status: {}", status(report)));
        if let Some(exit_code) = exit_code(report) {
            above.push(format!("exit: {exit_code}"));
        }
    }
    // What became of the variables and of calls that cannot be taken back comes before the middle of a traceback.
    let facts: Vec<String> = change(report)
        .into_iter()
        .chain(calls_made(report))
        .chain(calls_with_unknown_outcome(report))
        .chain(calls_not_made(report))
        .collect();
    let mut below: Vec<String> = Vec::new();
    match &report.outcome {
        RunOutcome::Raised(raised) => below.push(raised_part(raised, &facts, limits)),
        outcome => below.extend(error_line(outcome).map(|line| format!("error: {}", in_one_line(&line)))),
    }
    if let Some(said) = hint_of(&report.outcome) {
        below.push(format!("hint: {}", hint(&said)));
    }
    below.extend(facts);
    below.extend(report.notes.iter().map(|note| format!("note: {}", in_one_line(note))));
    let files = report.saved.iter().map(|uri| format!("file: {uri}"));
    let notes = report.sandbox_notes.iter().map(|note| format!("sandbox note: {}", in_one_line(note)));
    // They have room of their own: the sandbox must not crowd out what the bridge says.
    let of_sandbox = within_room(&files.chain(notes).collect::<Vec<_>>(), limits.reply_chars_max / 4);
    let below = [fitted(&inert(&below.join("\n")), limits.reply_chars_max / 2), of_sandbox.join("\n")];
    let below: Vec<&str> = below.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    assembled(&above.join("\n"), report, &below.join("\n"), limits)
}

/// Refused arguments as text.
pub(super) fn of_refusal(fault: &ToolFault, limits: &Limits) -> String {
    let hint = if fault.hint.is_empty() { String::new() } else { format!("\nhint: {}", fault.hint) };
    let text = format!("status: validation_error\nerror: {}{hint}", fault.message);
    fitted(&inert(&text), limits.reply_chars_max)
}

/// The output within the bound, then the value or the names that were bound.
fn body(report: &RunReport, chars_max: usize) -> String {
    let mut below = Vec::new();
    if let Some(value) = &report.value {
        let pieces = &report.output.pieces;
        let has_stdout = pieces.iter().any(|piece| piece.stream == OutputStream::Stdout);
        if !has_stdout && !pieces.is_empty() {
            below.push("[value]".to_owned());
        }
        below.push(quoted(value));
    }
    below.extend(report.bound.iter().map(|line| quoted(&in_one_line(line))));
    let below = fitted(&below.join("\n"), chars_max / 2);
    let room = chars_max.saturating_sub(below.chars().count() + 1);
    let mut body = OutputView::of(report).of_both(room);
    if !body.is_empty() && !below.is_empty() && !body.ends_with('\n') {
        body.push('\n');
    }
    body + &below
}

/// The parts within the bound; `below` is safe to show and leaves room for output.
fn assembled(above: &str, report: &RunReport, below: &str, limits: &Limits) -> String {
    const JOINTS: usize = 2;
    let above = inert(above);
    let used = above.chars().count() + below.chars().count() + JOINTS;
    let body = body(report, limits.reply_chars_max.saturating_sub(used));
    let parts = [above.as_ref(), body.trim_end_matches('\n'), below];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    if parts.is_empty() { SILENT.to_owned() } else { parts.join("\n") }
}

/// The traceback and the hint of an exception, within their bound together with the facts below them.
fn raised_part(raised: &PythonError, facts: &[String], limits: &Limits) -> String {
    let hint = match hint_of_sandbox(&raised.hint) {
        hint if hint.is_empty() => String::new(),
        hint => format!("\nsandbox hint: {hint}"),
    };
    let traceback = match raised.traceback.trim_end() {
        "" => format!("{}: {}", raised.class, raised.message),
        traceback => traceback.to_owned(),
    };
    let taken: usize =
        facts.iter().map(|fact| fact.chars().count() + 1).sum::<usize>() + hint.chars().count();
    let room = limits.error_chars_max.saturating_sub(taken).max(TRACEBACK_CHARS_MIN);
    fitted(&quoted(&traceback), room) + &hint
}
