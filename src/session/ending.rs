//! The end of a run as the worker reports it, within bounds. The runtime keeps to these bounds by itself; a forged
//! frame does not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_base::limits::Limits;
use belljar_base::run::{Image, PythonError, RunOutcome};
use belljar_base::text;
use belljar_protocol::{DoneFrame, DoneOutcome};

use crate::workspace::{FilePath, uri};

/// Longest class name, message, and traceback of an exception, and longest value, in characters.
const ERROR_CHARS_MAX: (usize, usize, usize) = (200, 16_000, 64_000);
const HINT_CHARS_MAX: usize = 500;
const VALUE_CHARS_MAX: usize = 64_000;
/// The largest number of lines about bound names, and the longest line in characters.
const BOUND_MAX: (usize, usize) = (16, 200);
/// The types of images that clients show.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The largest number of files that one run hands over.
const SAVED_MAX: usize = 20;

/// The end of a run as the worker reports it, within the bounds.
pub(super) struct RunEnding {
    pub(super) outcome: RunOutcome,
    pub(super) value: Option<String>,
    pub(super) bound: Vec<String>,
    pub(super) images: Vec<Image>,
    /// The addresses of files that were handed over.
    pub(super) saved: Vec<String>,
    /// The bridge's notes about parts that it has left out.
    pub(super) notes: Notes,
    /// The worker's notes.
    pub(super) sandbox_notes: Notes,
}

impl RunEnding {
    pub(super) fn of(done: DoneFrame, limits: &Limits) -> Self {
        let outcome = match done.outcome {
            DoneOutcome::Finished => RunOutcome::Finished,
            DoneOutcome::Raised { error } => RunOutcome::Raised(bounded(error)),
            DoneOutcome::Exited { exit_code } => RunOutcome::Exited { exit_code },
            DoneOutcome::Interrupted { error } => {
                RunOutcome::Raised(error.map_or_else(keyboard_interrupt, bounded))
            }
        };
        let value = done.value.map(|value| text::bounded(&value, VALUE_CHARS_MAX).into_owned());
        let (lines_max, chars_max) = BOUND_MAX;
        let bound = done.bound.iter().take(lines_max);
        let bound = bound.map(|line| text::bounded(line, chars_max).into_owned()).collect();
        let (mut notes, mut sandbox_notes) = (Notes::default(), Notes::default());
        for note in &done.notes {
            sandbox_notes.push(note);
        }
        let count = done.images.len();
        let images = pictures(done.images, limits);
        if images.len() < count {
            let left_out = count - images.len();
            notes.push(&format!("{left_out} of {count} images are left out: too many, too large, or none"));
        }
        let saved = done.saved.iter().take(SAVED_MAX).filter_map(|path| FilePath::new(path).ok());
        let saved = saved.map(|path| uri(&path)).collect();
        Self { outcome, value, bound, images, saved, notes, sandbox_notes }
    }
}

fn pictures(images: Vec<Image>, limits: &Limits) -> Vec<Image> {
    let mut bytes = 0;
    images
        .into_iter()
        .filter(is_picture)
        .take(limits.images_max)
        .take_while(|image| {
            bytes += image.base64.len();
            bytes <= limits.images_bytes_max
        })
        .collect()
}

fn is_picture(image: &Image) -> bool {
    IMAGE_TYPES.contains(&image.mime_type.as_str()) && STANDARD.decode(&image.base64).is_ok()
}

pub(super) fn bounded(error: PythonError) -> PythonError {
    let (class, message, traceback) = ERROR_CHARS_MAX;
    PythonError {
        class: text::bounded(&error.class, class).into_owned(),
        message: text::bounded(&error.message, message).into_owned(),
        traceback: text::bounded(&error.traceback, traceback).into_owned(),
        traceback_chars: error.traceback_chars,
        line: error.line,
        hint: text::bounded(&error.hint, HINT_CHARS_MAX).into_owned(),
    }
}

fn keyboard_interrupt() -> PythonError {
    PythonError {
        class: "KeyboardInterrupt".into(),
        message: String::new(),
        traceback: String::new(),
        traceback_chars: 0,
        line: None,
        hint: String::new(),
    }
}

/// Longest note, in characters.
pub(super) const NOTE_CHARS_MAX: usize = 1000;
/// The largest number of notes that one report has from the sandbox, and about it.
pub(super) const NOTES_MAX: usize = 20;

/// The notes of one report.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// Adds a note, unless there are too many or it repeats the last one, so that a flood of equal notes becomes one
    /// note.
    pub(super) fn push(&mut self, note: &str) {
        let note = text::bounded(note, NOTE_CHARS_MAX).into_owned();
        if self.0.len() < NOTES_MAX && self.0.last() != Some(&note) {
            self.0.push(note);
        }
    }

    /// Adds notes that were bounded before.
    pub(super) fn extend(&mut self, notes: impl IntoIterator<Item = String>) {
        self.0.extend(notes);
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
