//! The reply as plain text: what was written, as it was written, and only those facts that the reader cannot guess.
//!
//! What the sandbox says is output, value, traceback, and lines that begin with `sandbox`. If a line of the first three
//! begins like one of the bridge's, a note behind them says how many lines are the code's.
//!
//! It never decides what a fact means; status and state come from the report.

use std::borrow::Cow;

use belljar_base::limits::Limits;
use belljar_base::run::{OutputStream, PythonError, RunOutcome, RunReport, ToolFault};
use belljar_base::text::inert;

use super::calls::{calls_made, calls_not_made, calls_with_unknown_outcome};
use super::fitting::{fitted, fitted_traceback, hint, hint_of_sandbox, within_room};
use super::output::OutputView;
use super::own_lines::{in_one_line, is_like_own};
use super::sentences::{change, error_line, hint_of};
use super::verdict::{Verdict, exit_code, status, verdict};

const SILENT: &str = "(no output)";
/// What a traceback has in any case, in characters: its first lines, and the exception.
const TRACEBACK_CHARS_MIN: usize = 300;
/// Room for the note on lines that could be taken for the bridge's.
const NOTE_CHARS: usize = 100;

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
    let mut raised = String::new();
    match &report.outcome {
        RunOutcome::Raised(error) => {
            let hint = hint_of_sandbox(&error.hint);
            below.extend(
                Some(hint).filter(|hint| !hint.is_empty()).map(|hint| format!("sandbox hint: {hint}")),
            );
            raised = traceback(error, below.iter().chain(&facts), limits);
        }
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
    assembled(&above.join("\n"), report, &raised, &below.join("\n"), limits)
}

/// Refused arguments as text.
pub(super) fn of_refusal(fault: &ToolFault, limits: &Limits) -> String {
    let hint = if fault.hint.is_empty() { String::new() } else { format!("\nhint: {}", fault.hint) };
    let text = format!("status: validation_error\nerror: {}{hint}", fault.message);
    fitted(&inert(&text), limits.reply_chars_max)
}

/// Whether a line of the sandbox could be taken for one of the bridge's.
fn has_like_own(report: &RunReport, output: &OutputView, raised: Option<&PythonError>) -> bool {
    let mut texts = report.value.iter().chain(&report.bound);
    let is_like = |text: &str| text.lines().any(is_like_own);
    output.has_like_own
        || texts.any(|text| is_like(text))
        || raised.is_some_and(|error| is_like(&traceback_of(error)))
}

/// The output within the bound, then the value or the names that were bound.
fn body(report: &RunReport, output: OutputView, chars_max: usize) -> String {
    let mut below = Vec::new();
    if let Some(value) = &report.value {
        let pieces = &report.output.pieces;
        let has_stdout = pieces.iter().any(|piece| piece.stream == OutputStream::Stdout);
        if !has_stdout && !pieces.is_empty() {
            below.push("[value]".to_owned());
        }
        below.push(inert(value).into_owned());
    }
    below.extend(report.bound.iter().map(|line| in_one_line(line)));
    // The value has half of the room, and what the output leaves of the other half.
    let chars: usize = report.output.pieces.iter().map(|piece| piece.text.chars().count() + 1).sum();
    let below = fitted(&below.join("\n"), chars_max - chars.min(chars_max / 2));
    let room = chars_max.saturating_sub(below.chars().count() + 1);
    let mut body = output.of_both(room);
    if !body.is_empty() && !below.is_empty() && !body.ends_with('\n') {
        body.push('\n');
    }
    body + &below
}

/// The parts within the bound; `below` is safe to show and leaves room for output.
fn assembled(above: &str, report: &RunReport, traceback: &str, below: &str, limits: &Limits) -> String {
    const JOINTS: usize = 2;
    let (above, output) = (inert(above), OutputView::of(report));
    let raised = match &report.outcome {
        RunOutcome::Raised(error) => Some(error),
        _ => None,
    };
    let is_noted = has_like_own(report, &output, raised);
    let mut used = above.chars().count() + below.chars().count() + JOINTS;
    used += if traceback.is_empty() { 0 } else { traceback.chars().count() + 1 };
    used += if is_noted { NOTE_CHARS } else { 0 };
    let body = body(report, output, limits.reply_chars_max.saturating_sub(used));
    let joined = |parts: &[&str]| {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.trim().is_empty()).collect();
        parts.join("\n")
    };
    let said = joined(&[body.trim_end_matches('\n'), traceback]);
    let note = match (is_noted, said.lines().count()) {
        (false, _) => String::new(),
        (true, 1) => "note: the line above is output of the code, whatever it says".to_owned(),
        (true, lines) => format!("note: the {lines} lines above are output of the code, whatever they say"),
    };
    let text = joined(&[above.as_ref(), &said, &note, below]);
    if text.is_empty() { SILENT.to_owned() } else { text }
}

/// The traceback of an exception, within its bound together with the lines below it.
fn traceback<'l>(raised: &PythonError, below: impl Iterator<Item = &'l String>, limits: &Limits) -> String {
    let taken: usize = below.map(|line| line.chars().count() + 1).sum();
    let room = limits.error_chars_max.saturating_sub(taken).max(TRACEBACK_CHARS_MIN);
    fitted_traceback(&inert(&traceback_of(raised)), raised, room)
}

/// The traceback, or the exception alone where there is none.
fn traceback_of(raised: &PythonError) -> Cow<'_, str> {
    match raised.traceback.trim_end() {
        "" => format!("{}: {}", raised.class, raised.message).into(),
        traceback => traceback.into(),
    }
}
