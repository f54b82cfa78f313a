//! The texts of `belljar session` about sessions, runs and calls, without control characters.

use belljar_base::run::{FreshReason, PythonError, StateNote};
use belljar_base::text;

use crate::journal::{
    Damage, JobEnded, RecordedJob, RecordedRun, RecordedSession, RunEnded, SessionSummary, Sessions,
};

/// Longest text of one column, in characters.
const COLUMN_CHARS_MAX: usize = 200;

/// One line about a session.
pub(crate) fn about(about: &SessionSummary) -> String {
    let client = if about.client.is_empty() { "unknown client" } else { &about.client };
    let in_use = if about.is_open { ", in use" } else { "" };
    format!(
        "{}  {}  {}, {}, {}, {} kB{in_use}",
        Sessions::short(&about.id),
        text::inert_excerpt(&about.began, COLUMN_CHARS_MAX),
        counted(about.runs, "run"),
        counted(about.calls, "call"),
        text::inert_excerpt(client, COLUMN_CHARS_MAX),
        about.bytes.div_ceil(1000),
    )
}

/// The lines about a session, above those of its runs.
pub(crate) fn of_session(session: &RecordedSession) -> String {
    let begun = &session.begun;
    let mut said = format!("session {}\n  began {}", begun.id, begun.time);
    if !begun.client.is_empty() {
        said.push_str(&format!("\n  client {}", text::inert_excerpt(&begun.client, COLUMN_CHARS_MAX)));
    }
    said.push_str(&format!("\n  belljar {}, protocol {}", begun.belljar, begun.protocol));
    if let Some(continues) = &begun.continues {
        said.push_str(&format!("\n  begins with the runs of {}", Sessions::short(continues)));
    }
    for sandbox in &session.sandboxes {
        let line = format!(
            "sandbox {}: {} at {}, Python {}",
            sandbox.time, sandbox.image, sandbox.engine, sandbox.python
        );
        said.push_str(&format!("\n  {}", text::inert_excerpt(&line, 3 * COLUMN_CHARS_MAX)));
    }
    text::inert(&(said + "\n")).into_owned()
}

/// The lines about a run, with its calls and output.
pub(super) fn of_run(run: &RecordedRun) -> String {
    let begun = &run.begun;
    let mut said = format!("\nrun {}, {}{}\n", begun.run, begun.time, kind(run));
    said.push_str(&indented(&begun.code, "    "));
    for call in &run.calls {
        said.push_str(&format!("  call {}\n", call.shown()));
    }
    match &run.ended {
        Some(ended) => said.push_str(&of_end(ended)),
        None => said.push_str("  not ended: the session ended before\n"),
    }
    text::inert(&said).into_owned()
}

/// The lines about a job that the run above has started, with its calls.
pub(super) fn of_job(job: &RecordedJob) -> String {
    let begun = &job.begun;
    let mut said = format!("  job {} '{}', {}\n", begun.job, begun.name, begun.time);
    for call in &job.calls {
        said.push_str(&format!("    call {}\n", call.shown()));
    }
    match &job.ended {
        Some(JobEnded { outcome, why, ms, .. }) => {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            said.push_str(&format!("    {outcome}, {ms} ms{why}\n"));
        }
        None => said.push_str("    not ended: the session ended before\n"),
    }
    text::inert(&said).into_owned()
}

/// The reason why a journal may be incomplete; `None`: it is complete.
pub(super) fn of_damage(session: &RecordedSession) -> Option<String> {
    Some(match session.damage? {
        Damage::Full => "this journal was full: what followed is not in it".into(),
        Damage::Torn => {
            "its last line is half written, as of a belljar that was killed, and is left out".into()
        }
        Damage::Line(line) => {
            format!("line {line} of its file does not belong in a journal; what follows is left out")
        }
    })
}

fn of_end(ended: &RunEnded) -> String {
    let mut said = String::new();
    for written in &ended.output {
        said.push_str(&indented(&written.text, "  | "));
    }
    if let Some(value) = &ended.value {
        said.push_str(&indented(value, "  = "));
    }
    for line in &ended.bound {
        said.push_str(&indented(line, "  = "));
    }
    let said_of = |error: &PythonError| error.class.len() + error.message.len();
    let kept = ended.output.iter().map(|written| written.text.len()).sum::<usize>()
        + ended.value.iter().chain(&ended.bound).map(String::len).sum::<usize>()
        + ended.error.as_ref().map_or(0, said_of);
    if let Some(error) = &ended.error {
        let traceback = if error.traceback.is_empty() { &error.message } else { &error.traceback };
        said.push_str(&indented(traceback, "  ! "));
    }
    for note in &ended.notes {
        said.push_str(&indented(note, "  note: "));
    }
    let more = match ended.said_bytes > kept as u64 {
        true => format!(", {} B in all, of which this is the beginning", ended.said_bytes),
        false => String::new(),
    };
    let pictures =
        if ended.images > 0 { format!(", {}", counted(ended.images, "picture")) } else { String::new() };
    said + &format!("  {}, {} ms{pictures}{more}{}\n", ended.outcome, ended.ms, of_state(ended.state))
}

fn of_state(state: StateNote) -> &'static str {
    match state {
        StateNote::Kept | StateNote::Fresh(FreshReason::First) => "",
        StateNote::Fresh(FreshReason::Reset) => ", in a fresh interpreter by reset",
        StateNote::Fresh(FreshReason::IdleStop) => ", in a fresh interpreter after an idle stop",
        StateNote::Fresh(FreshReason::NewSession) => ", in a new session",
        StateNote::Fresh(FreshReason::Lost) => ", in a fresh interpreter, as the one before was lost",
        StateNote::Lost => ", variables lost",
        StateNote::RolledBack => ", variables as before this run",
        StateNote::RolledBackFurther => ", variables as after an earlier run",
        StateNote::Restored => ", variables as at a checkpoint",
    }
}

fn kind(run: &RecordedRun) -> String {
    let dry = if run.begun.dry_run { ", dry run" } else { "" };
    let names: Vec<&str> = run.begun.servers.iter().map(|server| server.name.as_str()).collect();
    match names.is_empty() {
        true => dry.to_owned(),
        false => format!("{dry}, servers {}", text::inert_excerpt(&names.join(", "), COLUMN_CHARS_MAX)),
    }
}

fn indented(text: &str, indent: &str) -> String {
    text.trim_end().lines().map(|line| format!("{indent}{line}\n")).collect()
}

fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
