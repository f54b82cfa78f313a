//! A session as a Python script of cells, as editors and Jupyter know them.

use belljar_base::text;

use super::reading::{RecordedRun, RecordedSession};
use super::sessions::Sessions;

/// Longest line about a run, in characters.
const TITLE_CHARS_MAX: usize = 200;

/// One cell for each run, below a line that says what came of it.
#[must_use]
pub fn script(session: &RecordedSession) -> String {
    let mut script = format!("# {}\n", title(session));
    for run in &session.runs {
        let code = run.begun.code.trim_end();
        script.push_str(&format!("\n# %% {}\n{code}\n", title_of_run(run)));
    }
    script
}

/// The session in a line.
pub(super) fn title(session: &RecordedSession) -> String {
    let begun = &session.begun;
    let title = format!(
        "belljar session {}, {}, client {}",
        Sessions::short(&begun.id),
        begun.time,
        if begun.client.is_empty() { "unknown" } else { &begun.client }
    );
    text::inert_excerpt(&title, TITLE_CHARS_MAX)
}

/// A run in a line.
pub(super) fn title_of_run(run: &RecordedRun) -> String {
    let number = run.begun.run;
    let fresh = if run.is_fresh && number > 1 { ", in a fresh interpreter" } else { "" };
    let dry = if run.begun.dry_run { ", a dry run" } else { "" };
    let came = match &run.ended {
        None => "not ended".into(),
        Some(ended) => match &ended.error {
            Some(error) => format!("{} {}", ended.outcome, error.class),
            None => ended.outcome.clone(),
        },
    };
    text::inert_excerpt(&format!("run {number}: {came}{fresh}{dry}"), TITLE_CHARS_MAX)
}
