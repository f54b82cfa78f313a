//! The progress of a build or pull, for the person who waits for it.

use belljar_base::text;
use belljar_engine::ImageProgress;

use crate::app::common::printing::err;
use crate::app::common::progress::ProgressLine;

/// What a line begins with that names a step of a build.
const STEP: &str = "step ";

/// Prints a line of at most `chars_max` characters and returns it. The number of downloaded bytes is part of the line of progress
/// on a terminal, and a line elsewhere.
pub(super) fn show_progress(
    progress: ImageProgress<'_>,
    shown: &ProgressLine,
    chars_max: usize,
) -> Option<String> {
    match progress {
        ImageProgress::Line(line) => {
            let line = text::inert_excerpt(line, chars_max);
            if is_step(&line) {
                shown.step(&line);
            }
            err!("{line}");
            return Some(line);
        }
        ImageProgress::Downloaded(bytes) if shown.is_shown() => shown.downloaded(bytes),
        ImageProgress::Downloaded(bytes) => err!("{} MB so far", bytes / 1_000_000),
    }
    None
}

/// Whether a line names a step of a build: `Step 1/9 : ...` of Docker, `[1/2] STEP 1/9: ...` of Podman.
fn is_step(line: &str) -> bool {
    let without_stage = line.strip_prefix('[').and_then(|rest| Some(rest.split_once("] ")?.1));
    let begin = without_stage.unwrap_or(line).get(..STEP.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(STEP))
}
