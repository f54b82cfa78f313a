//! The reply as plain text: what was written, as it was written, and only those facts that the reader cannot guess.
//!
//! It never decides what a fact means; status and state come from the report.

use super::calls::{calls_made, calls_with_unknown_outcome};
use super::fitting::{fitted, grouped};
use super::reply::Verdict;
use super::structured::{exit_code, status, verdict};
use crate::limits::Limits;
use crate::run::{
    FreshReason, Output, OutputStream, RunOutcome, RunReport, SandboxLoss, StateNote, ToolFault,
};
use crate::text::inert;

const SILENT: &str = "(no output)";

/// The report as text: status lines unless it succeeded, output, value, error, then what is to be known besides.
pub(super) fn of_report(report: &RunReport, limits: &Limits) -> String {
    let mut above = Vec::new();
    if verdict(report) == Verdict::Error {
        above.push(format!("status: {}", status(report)));
        if let Some(exit_code) = exit_code(report) {
            above.push(format!("exit: {exit_code}"));
        }
    }
    let mut below: Vec<String> = Vec::new();
    match &report.outcome {
        RunOutcome::Raised(raised) => {
            let traceback = raised.traceback.trim_end();
            below.push(if traceback.is_empty() {
                format!("{}: {}", raised.class, raised.message)
            } else {
                traceback.to_owned()
            });
        }
        outcome => below.extend(error_line(outcome).map(|line| format!("error: {line}"))),
    }
    if let RunOutcome::NotStarted(fault) = &report.outcome
        && !fault.hint.is_empty()
    {
        below.push(format!("hint: {}", fault.hint));
    }
    below.extend(change(report));
    below.extend(calls_made(report));
    below.extend(calls_with_unknown_outcome(report));
    below.extend(report.notes.iter().map(|note| format!("note: {note}")));
    assembled(&above.join("\n"), &body(report), &below.join("\n"), limits)
}

/// Refused arguments as text.
pub(super) fn of_refusal(fault: &ToolFault, limits: &Limits) -> String {
    let hint = if fault.hint.is_empty() { String::new() } else { format!("\nhint: {}", fault.hint) };
    let text = format!("status: validation_error\nerror: {}{hint}", fault.message);
    fitted(&inert(&text), limits.reply_chars_max)
}

/// What went wrong in one line, or nothing.
pub(super) fn error_line(outcome: &RunOutcome) -> Option<String> {
    Some(match outcome {
        RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 } => return None,
        RunOutcome::Raised(raised) if raised.message.is_empty() => raised.class.clone(),
        RunOutcome::Raised(raised) => format!("{}: {}", raised.class, raised.message),
        RunOutcome::Exited { exit_code } => format!("SystemExit({exit_code})"),
        RunOutcome::TimedOut { after } => {
            format!("Execution timed out after {}s", after.as_secs_f64())
        }
        RunOutcome::Interrupted => "Execution was cancelled by the client".to_owned(),
        RunOutcome::SandboxLost(SandboxLoss::Exited { exit_code }) => {
            format!("the interpreter exited ({exit_code}) in the middle of the run")
        }
        RunOutcome::SandboxLost(SandboxLoss::Killed { out_of_memory: true, .. }) => {
            "the interpreter was killed because the sandbox ran out of memory".to_owned()
        }
        RunOutcome::SandboxLost(SandboxLoss::Killed { signal, .. }) => {
            format!("the interpreter was killed by signal {signal}")
        }
        RunOutcome::SandboxLost(SandboxLoss::OverLimit { exceeded }) => {
            format!("the interpreter was ended: {exceeded}")
        }
        RunOutcome::SandboxLost(SandboxLoss::Container { reason }) => {
            format!("the sandbox went away: {reason}")
        }
        RunOutcome::NotStarted(fault) => fault.message.clone(),
    })
}

/// What became of the variables, when the reader could take it to be otherwise.
pub(super) fn change(report: &RunReport) -> Option<String> {
    let sentence = match (report.state, &report.outcome) {
        (_, RunOutcome::NotStarted(_))
        | (StateNote::Kept, RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 }) => {
            return None;
        }
        (
            StateNote::Fresh(FreshReason::First),
            RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 },
        ) => return None,
        (StateNote::Kept | StateNote::Fresh(FreshReason::First), _) => "variables kept",
        (StateNote::Fresh(FreshReason::Reset), _) => "fresh interpreter, as requested by reset",
        (StateNote::Fresh(FreshReason::IdleStop), _) => {
            "fresh interpreter: the sandbox had been stopped for being idle; earlier variables are gone"
        }
        (StateNote::Fresh(FreshReason::Lost), _) => {
            "fresh interpreter: the previous one was lost; earlier variables are gone"
        }
        (StateNote::RolledBack, _) => "variables as before this run",
        (StateNote::RolledBackFurther, _) => {
            "variables as after an earlier run; what later runs changed is gone"
        }
        (StateNote::Lost, _) => "variables lost; the next run starts with a fresh interpreter",
    };
    Some(format!("state: {sentence}"))
}

/// Output in order, stretches of stderr between marks, then the value.
fn body(report: &RunReport) -> String {
    let mut body = String::new();
    let pieces = &report.output.pieces;
    let has_stdout = pieces.iter().any(|piece| piece.stream == OutputStream::Stdout);
    for (index, piece) in pieces.iter().enumerate() {
        let is_stderr = piece.stream == OutputStream::Stderr;
        let before = index.checked_sub(1).map(|before| pieces[before].stream);
        if before != Some(piece.stream) && (is_stderr || before.is_some()) {
            new_line(&mut body);
            body.push_str(if is_stderr { "[stderr]\n" } else { "[stdout]\n" });
        }
        body.push_str(&piece.text);
    }
    if let Some(value) = &report.value {
        new_line(&mut body);
        if !has_stdout && !pieces.is_empty() {
            body.push_str("[value]\n");
        }
        body.push_str(value);
    }
    for notice in cuts(&report.output) {
        new_line(&mut body);
        body.push_str(&notice);
    }
    body
}

fn cuts(output: &Output) -> impl Iterator<Item = String> {
    [("stdout", output.stdout_cut_bytes), ("stderr", output.stderr_cut_bytes)]
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(stream, bytes)| {
            format!("… {} bytes of {stream} left out between its head and tail …", grouped(bytes))
        })
}

fn new_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// The parts within the bound. The facts below come before the output when there is no room for both.
fn assembled(above: &str, body: &str, below: &str, limits: &Limits) -> String {
    const JOINTS: usize = 2;
    let (above, body) = (inert(above), inert(body));
    let below = fitted(&inert(below), limits.reply_chars_max / 2);
    let used = above.chars().count() + below.chars().count() + JOINTS;
    let body = body.trim_end_matches('\n');
    let body = fitted(body, limits.reply_chars_max.saturating_sub(used));
    let parts = [above.as_ref(), body.as_str(), below.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    if parts.is_empty() { SILENT.to_owned() } else { parts.join("\n") }
}
