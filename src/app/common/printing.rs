//! The output of commands. A closed reader, such as `head`, is no error: the command completes its work.
//!
//! The standard macros would panic in that case. Other lost output, for example on a full disk, is reported by the exit
//! code. On a terminal, control characters are escaped, since code, servers and files could otherwise control the
//! terminal. A file or pipe gets all bytes unchanged.

use std::borrow::Cow;
use std::io::{BufRead, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use belljar_base::text;
use serde::Serialize;
use textwrap::WordSplitter;
use textwrap::core::display_width;

use super::progress::above;

/// The exit code for output that could not be written, from sysexits.h.
const LOST: u8 = 74;

/// Narrower terminals are not considered, in columns.
const COLUMNS_MIN: usize = 40;

static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line to stdout.
macro_rules! out {
    () => {{ $crate::app::common::printing::to_stdout("\n"); }};
    ($($words:tt)*) => {{ $crate::app::common::printing::to_stdout(&format!("{}\n", format_args!($($words)*))); }};
}

/// Prints a line to stderr.
macro_rules! err {
    ($($words:tt)*) => {{ $crate::app::common::printing::to_stderr(&format!("{}\n", format_args!($($words)*))); }};
}

/// Prints a line of a table to stdout.
macro_rules! row {
    ($($words:tt)*) => {{ $crate::app::common::printing::to_stdout_row(&format!($($words)*)); }};
}

pub(crate) use {err, out, row};

/// Writes and flushes, since no later flush could report a failure. Returns whether it succeeded.
pub(crate) fn to_stdout(text: &str) -> bool {
    let stdout = std::io::stdout();
    write(&mut stdout.lock(), "stdout", &shown(text, stdout.is_terminal()))
}

/// Writes a line of a table, whose columns are separated by at least two spaces. On a terminal, a line that is too long
/// continues below its last column.
pub(crate) fn to_stdout_row(line: &str) -> bool {
    let mut stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return to_stdout(&format!("{line}\n"));
    }
    let line = fitted(&text::inert(line), terminal_columns());
    write(&mut stdout, "stdout", &format!("{line}\n"))
}

/// The width of the terminal, in columns.
fn terminal_columns() -> usize {
    console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns)).max(COLUMNS_MIN)
}

/// The line, wrapped between words. A word that is longer than a line, such as a path, stays whole so that it can be
/// copied.
fn fitted(line: &str, columns: usize) -> String {
    // A column that begins far on the right leaves no room for its text.
    let left: String = line.chars().take(columns * 2 / 5).collect();
    let indent = left.rfind("  ").map_or(2, |at| display_width(&left[..at]) + 2);
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(columns)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(line, options)
}

/// Words of a line about what does not work.
const TROUBLES: [&str; 8] =
    ["CANNOT", "FAILED", "MISSING", "NONE", "NOT FOUND", "NOT READ", "NOT USED", "error: "];
/// Words of a line, or labels, about what the user may want to change.
const WARNINGS: [&str; 5] = ["NOT ", "WARNING", "WEAKER", "notice", "warning: "];

/// The state of a check that a line of a report describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckState {
    /// All is well.
    Ok,
    /// The user may want to change something.
    Warning,
    /// Something does not work.
    Failed,
}

impl CheckState {
    /// The state by the words of the line.
    pub(crate) fn of(label: &str, text: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word) || label == *word);
        match (has(&TROUBLES), has(&WARNINGS)) {
            (true, _) => Self::Failed,
            (_, true) => Self::Warning,
            _ => Self::Ok,
        }
    }
}

/// Prints a line of a report, with a label. On a terminal it begins with a mark: that all is well, a warning or a trouble. Colours
/// follow NO_COLOR, CLICOLOR and TERM.
pub(crate) fn to_stdout_marked(label: &str, text: &str) -> bool {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return to_stdout(&format!("{label:10} {text}\n"));
    }
    let (mark, colour) = match CheckState::of(label, text) {
        CheckState::Failed => ("✗", AnsiColor::Red),
        CheckState::Warning => ("!", AnsiColor::Yellow),
        CheckState::Ok if label.is_empty() => (" ", AnsiColor::Green),
        CheckState::Ok => ("✓", AnsiColor::Green),
    };
    let (style, bold) = (colour.on_default(), Style::new().bold());
    // Styles have no width, so the line is made without them first.
    let line = fitted(&format!("{label:9}  {}", text::inert_line(text)), terminal_columns() - 2);
    let (label, text) = line.split_at(label.len());
    let line = format!("{style}{mark}{style:#} {bold}{label}{bold:#}{}\n", text.replace('\n', "\n  "));
    write(&mut AutoStream::auto(stdout.lock()), "stdout", &line)
}

/// Whether a user can be asked.
pub(crate) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Whether the user answers yes to the question, on a terminal.
pub(crate) fn is_confirmed(question: &str) -> bool {
    let mut answer = String::new();
    let is_asked = to_stdout(question) && std::io::stdin().lock().read_line(&mut answer).is_ok();
    is_asked && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

/// Writes to stderr, as [`to_stdout`] does to stdout.
pub(crate) fn to_stderr(text: &str) -> bool {
    // It is not locked here, since the line of progress locks it, too, while it is changed.
    let mut stderr = std::io::stderr();
    let text = shown(text, stderr.is_terminal());
    write(&mut stderr, "stderr", &text)
}

fn shown(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { text::inert(text) } else { Cow::Borrowed(text) }
}

/// Reports that this output is lost.
pub(crate) fn lost(what: &str) {
    IS_LOST.store(true, Ordering::Relaxed);
    to_stderr(&format!("belljar: left out: {what}\n"));
}

/// The exit code of a command that succeeded with `code`: it depends on whether all output was written.
pub(crate) fn told(code: ExitCode) -> ExitCode {
    if code == ExitCode::SUCCESS && IS_LOST.load(Ordering::Relaxed) { ExitCode::from(LOST) } else { code }
}

fn write(stream: &mut dyn Write, name: &str, text: &str) -> bool {
    let written = above(|| stream.write_all(text.as_bytes()).and_then(|()| stream.flush()));
    let Err(error) = written else { return true };
    // The loss is reported once. If stderr is lost as well, only the exit code reports it.
    if error.kind() != ErrorKind::BrokenPipe && !IS_LOST.swap(true, Ordering::Relaxed) {
        to_stderr(&format!("belljar: cannot write to {name}: {error}\n"));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_too_long_continues_below_its_last_column() {
        for (line, columns, expected) in [
            ("name  a text", 40, "name  a text"),
            ("name        one two three", 20, "name        one two\n        three"),
            ("no columns but many words", 16, "no columns but\n  many words"),
            ("    12  a path/to/some/file/somewhere", 20, "    12  a\n        path/to/some/file/somewhere"),
            ("名前  一二 三四", 12, "名前  一二\n      三四"),
        ] {
            assert_eq!(fitted(line, columns), expected);
        }
    }
}
