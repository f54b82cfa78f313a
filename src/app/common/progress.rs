//! The last line of a terminal, which shows what a command is doing, for how long, and how much it has downloaded.
//!
//! Nothing is shown if stderr is not a terminal. Other output must be written through [`above`] or [`StderrAbove`], so that
//! it does not mix with this line.

use std::io::{self, Write};
use std::time::Duration;

use belljar_base::text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// The time after which the line appears.
const DELAY: Duration = Duration::from_secs(1);
/// The time between two updates of the line.
const TICK: Duration = Duration::from_millis(500);
/// Longest description of a step, in characters.
const STEP_CHARS_MAX: usize = 200;
/// The parts of the line. `wide_msg` is cut at the width of the terminal.
const TEMPLATE: &str = "{spinner} {elapsed_precise} {prefix}{wide_msg}";

static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// The line, until this value is dropped. A process has at most one.
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    /// Makes the line visible; `None`: stderr is not a terminal.
    appears: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Begins with this step. The line is visible after a second. This must be called in the runtime.
    pub(crate) fn new(step: &str) -> Self {
        let (bar, target) = (ProgressBar::hidden(), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        let appears = (!target.is_hidden()).then(|| {
            let bar = bar.clone();
            *LINE.lock() = Some(bar.clone());
            tokio::spawn(async move {
                tokio::time::sleep(DELAY).await;
                bar.set_draw_target(target);
                bar.enable_steady_tick(TICK);
            })
        });
        let line = Self { bar, appears };
        line.step(step);
        line
    }

    /// Whether stderr is a terminal that can show the line.
    pub(crate) fn is_shown(&self) -> bool {
        self.appears.is_some()
    }

    /// Describes the step that begins.
    pub(crate) fn step(&self, step: &str) {
        self.bar.set_message(text::inert_excerpt(step, STEP_CHARS_MAX));
    }

    /// Shows the number of bytes that were downloaded so far.
    pub(crate) fn downloaded(&self, bytes: u64) {
        self.bar.set_prefix(format!("{} MB ", bytes / 1_000_000));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let Some(appears) = self.appears.take() else { return };
        appears.abort();
        *LINE.lock() = None;
        self.bar.finish_and_clear();
    }
}

/// Writes whole lines above the line of progress, if it is visible. `write` must not call this function again.
pub(crate) fn above<T>(write: impl FnOnce() -> T) -> T {
    let bar = LINE.lock().clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Stderr for writers of whole lines.
pub(crate) struct StderrAbove;

impl Write for StderrAbove {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        above(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
