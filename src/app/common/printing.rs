//! What commands print. A reader that has gone, as `head` does, is no defect: the command does its work to the end.
//!
//! The standard macros panic then. Output that is lost otherwise, as on a full disk, is reported by the exit code. A terminal
//! gets no control characters: code, servers and files could steer it. A file or pipe gets all bytes as they are.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::text;

/// Output could not be written, as sysexits.h says it.
const LOST: u8 = 74;

static IS_LOST: AtomicBool = AtomicBool::new(false);

/// A line to stdout.
macro_rules! out {
    () => {{ $crate::app::common::printing::to_stdout("\n"); }};
    ($($words:tt)*) => {{ $crate::app::common::printing::to_stdout(&format!("{}\n", format_args!($($words)*))); }};
}

/// A line to stderr.
macro_rules! err {
    ($($words:tt)*) => {{ $crate::app::common::printing::to_stderr(&format!("{}\n", format_args!($($words)*))); }};
}

pub(in crate::app) use {err, out};

/// Writes at once, since nobody flushes later who could tell of a failure; whether it could.
pub(in crate::app) fn to_stdout(text: &str) -> bool {
    let stdout = std::io::stdout();
    write(&mut stdout.lock(), "stdout", &shown(text, stdout.is_terminal()))
}

/// The same to stderr.
pub(in crate::app) fn to_stderr(text: &str) -> bool {
    let stderr = std::io::stderr();
    write(&mut stderr.lock(), "stderr", &shown(text, stderr.is_terminal()))
}

fn shown(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { text::inert(text) } else { Cow::Borrowed(text) }
}

/// Some words are not printed: these.
pub(in crate::app) fn lost(what: &str) {
    IS_LOST.store(true, Ordering::Relaxed);
    to_stderr(&format!("belljar: left out: {what}\n"));
}

/// What a command that succeeded exits with: whether all of its words have been written.
pub(in crate::app) fn told(code: ExitCode) -> ExitCode {
    if code == ExitCode::SUCCESS && IS_LOST.load(Ordering::Relaxed) { ExitCode::from(LOST) } else { code }
}

fn write(stream: &mut dyn Write, name: &str, text: &str) -> bool {
    let Err(error) = stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) else { return true };
    // Said once; where stderr is lost as well, the exit code alone tells.
    if error.kind() != ErrorKind::BrokenPipe && !IS_LOST.swap(true, Ordering::Relaxed) {
        to_stderr(&format!("belljar: cannot write to {name}: {error}\n"));
    }
    false
}
