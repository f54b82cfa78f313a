//! Writes lines to `audit.jsonl`, mode 0600, and keeps a few files before it.
//!
//! Several bridges write to the same file: each batch is written under a lock.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg, OFlag};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::entry::{Entry, Event};

/// Lines that may wait for the disk; then who has more waits as well, since none is left out.
const WAITING_MAX: usize = 1_024;
/// How long a line waits for others that are written with it: a thread that wakes for each would take a processor from
/// the calls that the lines are about. What a bridge that is killed has not written is lost with it.
const GATHERING: Duration = Duration::from_millis(10);
/// Size from which a file is put aside.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files that were put aside and are kept.
pub(super) const OLD_FILES_MAX: usize = 4;

/// The writer of the log file.
pub struct AuditLog {
    session: String,
    lines: Mutex<Option<mpsc::Sender<String>>>,
    writing: Mutex<Option<JoinHandle<()>>>,
}

impl AuditLog {
    /// A log in this folder, which is made when there is something to write; none without a folder. Must be called inside a
    /// tokio runtime.
    #[must_use]
    pub fn start(dir: Option<PathBuf>, session: &str) -> Self {
        let log = Self { session: session.to_owned(), lines: Mutex::default(), writing: Mutex::default() };
        if let Some(dir) = dir {
            let (sender, lines) = mpsc::channel(WAITING_MAX);
            *log.lines.lock() = Some(sender);
            *log.writing.lock() = Some(tokio::task::spawn_blocking(move || write_all(&dir, lines)));
        }
        log
    }

    /// Whether anything is written.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.lines.lock().is_some()
    }

    /// Writes what has happened; waits only when the disk is far behind.
    pub async fn record(&self, event: Event) {
        let Some(lines) = self.lines.lock().clone() else { return };
        match serde_json::to_string(&Entry::now(&self.session, event)) {
            // Only a writer that broke takes no more, which has been said.
            Ok(line) => drop(lines.send(line + "\n").await),
            Err(error) => tracing::error!(%error, "a line of the audit log could not be made"),
        }
    }

    /// Writes what waits, and ends.
    pub async fn close(&self) {
        drop(self.lines.lock().take());
        let writing = self.writing.lock().take();
        if let Some(writing) = writing
            && let Err(error) = writing.await
        {
            tracing::error!(%error, "the audit log's task broke");
        }
    }
}

fn write_all(dir: &Path, mut lines: mpsc::Receiver<String>) {
    let mut files = None;
    let mut batch = Vec::new();
    let mut is_failing = false;
    while let Some(line) = lines.blocking_recv() {
        batch.extend_from_slice(line.as_bytes());
        thread::park_timeout(GATHERING);
        while let Ok(line) = lines.try_recv() {
            batch.extend_from_slice(line.as_bytes());
        }
        let written = append(dir, &mut files, &batch);
        batch.clear();
        // Once for each time that it begins to fail.
        match &written {
            Err(error) if !is_failing => {
                tracing::error!(folder = %dir.display(), %error, "the audit log cannot be written; lines are lost");
            }
            _ => {}
        }
        is_failing = written.is_err();
    }
}

/// The files that stay open between two batches.
struct Files {
    lock: File,
    lines: File,
}

/// Leaves the files open for the next batch, as long as all goes well.
fn append(dir: &Path, files: &mut Option<Files>, batch: &[u8]) -> io::Result<()> {
    match files.take() {
        None => append_to(dir, files, begun(dir)?, batch),
        Some(open) => match append_to(dir, files, open, batch) {
            // The user has removed the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                append_to(dir, files, begun(dir)?, batch)
            }
            written => written,
        },
    }
}

fn begun(dir: &Path) -> io::Result<Files> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    Ok(Files { lock: opened(&dir.join("audit.lock"))?, lines: opened(&dir.join("audit.jsonl"))? })
}

fn append_to(dir: &Path, files: &mut Option<Files>, open: Files, batch: &[u8]) -> io::Result<()> {
    let locked =
        Flock::lock(open.lock, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
    let path = dir.join("audit.jsonl");
    let mut lines = match path.metadata() {
        Ok(there) if there.len() >= FILE_BYTES_MAX => {
            put_aside(dir, &path)?;
            opened(&path)?
        }
        Ok(there) if is_of(&open.lines, &there)? => open.lines,
        // Another bridge has put it aside, or the user removed it.
        _ => opened(&path)?,
    };
    lines.write_all(batch)?;
    let lock = locked.unlock().map_err(|(_, errno)| io::Error::from(errno))?;
    *files = Some(Files { lock, lines });
    Ok(())
}

fn is_of(file: &File, there: &Metadata) -> io::Result<bool> {
    let open = file.metadata()?;
    Ok((open.dev(), open.ino()) == (there.dev(), there.ino()))
}

fn put_aside(dir: &Path, path: &Path) -> io::Result<()> {
    for number in (1..OLD_FILES_MAX).rev() {
        let (older, newer) = (dir.join(old(number + 1)), dir.join(old(number)));
        if newer.exists() {
            fs::rename(newer, older)?;
        }
    }
    fs::rename(path, dir.join(old(1)))
}

/// The name of a file that was put aside; 1 is the last one.
pub(super) fn old(number: usize) -> String {
    format!("audit.{number}.jsonl")
}

fn opened(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags.bits()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::entry::RunEvent;
    use crate::audit::{Filter, entries};

    fn event(run: u64) -> Event {
        Event::Run(RunEvent {
            run,
            outcome: "finished".into(),
            calls: 0,
            readings: 0,
            why: String::new(),
            code_bytes: 1,
            ms: 2,
        })
    }

    #[tokio::test]
    async fn lines_of_several_bridges_are_whole_in_one_file_of_the_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state/belljar");
        let logs = ["a", "b"].map(|session| AuditLog::start(Some(dir.clone()), session));
        for run in 0..500 {
            for log in &logs {
                log.record(event(run)).await;
            }
        }
        for log in &logs {
            log.close().await;
            log.record(event(999)).await;
        }
        let all = entries(&dir, &Filter::default()).unwrap();
        assert_eq!(all.len(), 1_000);
        assert_eq!(all.iter().filter(|entry| entry.session == "a").count(), 500);
        assert_eq!(dir.join("audit.jsonl").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn large_files_are_put_aside_and_the_oldest_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        for name in (1..=OLD_FILES_MAX).map(old).chain(["audit.jsonl".into()]) {
            fs::write(dir.path().join(&name), format!("{name}\n")).unwrap();
        }
        let full = OpenOptions::new().append(true).open(dir.path().join("audit.jsonl")).unwrap();
        full.set_len(FILE_BYTES_MAX).unwrap();
        let log = AuditLog::start(Some(dir.path().to_owned()), "a");
        log.record(event(1)).await;
        log.close().await;
        let read = |name: String| fs::read(dir.path().join(name)).unwrap();
        assert!(read(old(1)).starts_with(b"audit.jsonl\n"));
        assert_eq!(read(old(OLD_FILES_MAX)), b"audit.3.jsonl\n");
        assert!(!dir.path().join(old(OLD_FILES_MAX + 1)).exists());
        assert_eq!(entries(dir.path(), &Filter::default()).unwrap().len(), 1);
    }

    #[tokio::test]
    async fn what_is_removed_or_put_aside_by_another_meanwhile_is_begun_anew() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("belljar");
        let mut files = None;
        let mut append = |line: &str| append(&dir, &mut files, line.as_bytes()).unwrap();
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        append("1\n");
        append("2\n");
        assert_eq!(read("audit.jsonl"), "1\n2\n");
        fs::rename(dir.join("audit.jsonl"), dir.join(old(1))).unwrap();
        append("3\n");
        fs::rename(dir.join("audit.jsonl"), dir.join(old(1))).unwrap();
        fs::write(dir.join("audit.jsonl"), "another's\n").unwrap();
        append("4\n");
        assert_eq!((read("audit.jsonl"), read(&old(1))), ("another's\n4\n".into(), "3\n".into()));
        fs::remove_dir_all(&dir).unwrap();
        append("5\n");
        assert_eq!(read("audit.jsonl"), "5\n");
        assert!(dir.join("audit.lock").exists());
    }

    #[tokio::test]
    async fn without_a_folder_and_where_nothing_can_be_written_nobody_waits() {
        let off = AuditLog::start(None, "a");
        assert!(!off.is_on());
        off.record(event(1)).await;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let broken = AuditLog::start(Some(dir.path().join("file")), "a");
        for run in 0..3_000 {
            broken.record(event(run)).await;
        }
        broken.close().await;
    }
}
