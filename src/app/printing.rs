//! What commands print. A reader that has gone, as `head` does, is no defect: the command does its work to the end.
//!
//! The standard macros panic then. Words that are lost otherwise, as on a full disk, are told of by the exit code.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Output could not be written, as sysexits.h says it.
const LOST: u8 = 74;

static IS_LOST: AtomicBool = AtomicBool::new(false);

/// A line to stdout.
macro_rules! out {
    () => {{ $crate::app::printing::to_stdout("\n"); }};
    ($($words:tt)*) => {{ $crate::app::printing::to_stdout(&format!("{}\n", format_args!($($words)*))); }};
}

/// A line to stderr.
macro_rules! err {
    ($($words:tt)*) => {{ $crate::app::printing::to_stderr(&format!("{}\n", format_args!($($words)*))); }};
}

pub(super) use {err, out};

/// Writes at once, since nobody flushes later who could tell of a failure; whether it could.
pub(super) fn to_stdout(text: &str) -> bool {
    write(&mut std::io::stdout().lock(), "stdout", text)
}

/// The same to stderr.
pub(super) fn to_stderr(text: &str) -> bool {
    write(&mut std::io::stderr().lock(), "stderr", text)
}

/// Some words are not printed: these.
pub(super) fn lost(what: &str) {
    IS_LOST.store(true, Ordering::Relaxed);
    to_stderr(&format!("hotcell: left out: {what}\n"));
}

/// What a command that succeeded exits with: whether all of its words have been written.
pub(super) fn told(code: ExitCode) -> ExitCode {
    if code == ExitCode::SUCCESS && IS_LOST.load(Ordering::Relaxed) { ExitCode::from(LOST) } else { code }
}

fn write(stream: &mut dyn Write, name: &str, text: &str) -> bool {
    let Err(error) = stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) else { return true };
    // Said once; where stderr is lost as well, the exit code alone tells.
    if error.kind() != ErrorKind::BrokenPipe && !IS_LOST.swap(true, Ordering::Relaxed) {
        to_stderr(&format!("hotcell: cannot write to {name}: {error}\n"));
    }
    false
}
