//! Writes lines to `audit.jsonl`, mode 0600, and keeps a few files before it.
//!
//! Several bridges write to the same files: each batch is written under a lock. What one session writes beyond its share
//! goes to `audit-more.jsonl`, so that it takes no space of other sessions.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::SessionId;
use belljar_base::own_file;
use nix::fcntl::{Flock, FlockArg};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::entry::{CallEvent, Entry, Event, RunEvent};
use super::metrics::Metrics;
use super::refusals::Refusals;

/// Lines that may wait for the disk; then who has more waits as well, since none is left out.
const WAITING_MAX: usize = 1_024;
/// How long a line waits for others that are written with it: a thread that wakes for each would take a processor from
/// the calls that the lines are about. What a bridge that is killed has not written is lost with it.
const GATHERING: Duration = Duration::from_millis(10);
/// How long equal refusals are counted before a line with their number is written.
const COUNTING: Duration = Duration::from_secs(1);
/// What is written to see whether the disk is full.
const PROBE: [u8; 4_096] = [0; 4_096];

/// A file of lines, and the files that were put aside before it.
#[derive(Debug)]
pub(super) struct Ring {
    stem: &'static str,
    old_files_max: usize,
}

/// The lines of all sessions, as far as a session is within its share.
const SHARED: Ring = Ring { stem: "audit", old_files_max: 4 };
/// The lines that sessions have written beyond their share.
const BEYOND: Ring = Ring { stem: "audit-more", old_files_max: 1 };
/// All of them.
pub(super) const RINGS: [Ring; 2] = [SHARED, BEYOND];

impl Ring {
    /// The names of its files, the oldest first.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.old_files_max).rev().map(|number| self.old(number)).chain([self.name()])
    }

    fn name(&self) -> String {
        format!("{}.jsonl", self.stem)
    }

    /// The name of a file that was put aside; 1 is the last one.
    fn old(&self, number: usize) -> String {
        format!("{}.{number}.jsonl", self.stem)
    }
}

/// The writer of the log file, for all sessions of this process.
#[derive(Default)]
pub struct AuditLog {
    dir: Option<PathBuf>,
    /// The owner of the sessions; `None`: the user.
    owner: Option<String>,
    metrics: Option<Arc<Metrics>>,
    lines: Mutex<Option<mpsc::Sender<Line>>>,
    writing: Mutex<Option<JoinHandle<()>>>,
    trouble: Arc<Mutex<Trouble>>,
}

/// Whether lines can be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Trouble {
    /// Nobody has tried.
    #[default]
    Unknown,
    None,
    /// The reason why they cannot.
    Known(String),
}

struct Line {
    entry: Entry,
    /// Whether equal ones are counted.
    is_refused: bool,
}

impl AuditLog {
    /// A log in this folder, which is made when there is something to write; none without a folder. Must be called inside a
    /// tokio runtime.
    #[must_use]
    pub fn start(dir: Option<PathBuf>, limits: &Limits) -> Self {
        let log = Self { dir: dir.clone(), ..Self::default() };
        if let Some(dir) = dir {
            let (sender, lines) = mpsc::channel(WAITING_MAX);
            let writer = Writer {
                dir,
                share_bytes: limits.audit_share_bytes_max,
                file_bytes_max: limits.audit_file_bytes_max,
                written_bytes: BTreeMap::new(),
                files: [None, None],
                trouble: Arc::clone(&log.trouble),
            };
            *log.lines.lock() = Some(sender);
            *log.writing.lock() = Some(tokio::task::spawn_blocking(move || writer.write_all(lines)));
        }
        log
    }

    /// This log, for the sessions of this owner.
    #[must_use]
    pub fn of_owner(self, owner: Option<&str>) -> Self {
        Self { owner: owner.map(str::to_owned), ..self }
    }

    /// This log, whose runs and calls are counted there, whether they are written or not.
    #[must_use]
    pub fn counted(self, metrics: Option<Arc<Metrics>>) -> Self {
        Self { metrics, ..self }
    }

    /// A log that should be written, and cannot be for this reason.
    #[must_use]
    pub fn nowhere(reason: &str) -> Self {
        let trouble = Arc::new(Mutex::new(Trouble::Known(reason.to_owned())));
        Self { trouble, ..Self::default() }
    }

    /// Whether anything is written.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.lines.lock().is_some()
    }

    /// The reason why lines cannot be written, if they should be. If nobody has tried yet, it is tried.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let mut trouble = self.trouble.lock();
        if let Some(dir) = &self.dir
            && *trouble == Trouble::Unknown
        {
            *trouble = Trouble::of(&tried(dir));
        }
        match &*trouble {
            Trouble::Known(reason) => Some(reason.clone()),
            Trouble::Unknown | Trouble::None => None,
        }
    }

    /// Writes an event of this session. Waits only when the disk is far behind.
    pub async fn record(&self, session: &SessionId, event: Event) {
        self.send(session, self.owner.as_deref(), event, false).await;
    }

    /// Writes that a request was refused before it reached a session.
    pub async fn record_refused_request(&self, owner: Option<&str>, outcome: &str, why: String) {
        let outcome = outcome.to_owned();
        let refused = RunEvent { run: 0, outcome, calls: 0, readings: 0, why, code_bytes: 0, ms: 0 };
        self.send(&SessionId::new("-"), owner, Event::Run(refused), false).await;
    }

    /// Writes a call that was not made. Equal ones are counted for a second, and their number is written then.
    pub async fn record_refused(&self, session: &SessionId, call: CallEvent) {
        self.send(session, self.owner.as_deref(), Event::Call(call), true).await;
    }

    async fn send(&self, session: &SessionId, owner: Option<&str>, event: Event, is_refused: bool) {
        if let Some(metrics) = &self.metrics {
            metrics.count(&event);
        }
        let Some(lines) = self.lines.lock().clone() else { return };
        let entry = Entry::now(session.as_str(), owner, event);
        // Only a writer that broke takes no more, which has been said.
        drop(lines.send(Line { entry, is_refused }).await);
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

impl Trouble {
    fn of(written: &io::Result<()>) -> Self {
        match written {
            Ok(()) => Self::None,
            Err(error) => Self::Known(error.to_string()),
        }
    }
}

/// Tries to write a block to the folder. Only that shows that the disk is full.
fn tried(dir: &Path) -> io::Result<()> {
    drop(begun(dir, &SHARED)?);
    tempfile::tempfile_in(dir)?.write_all(&PROBE)
}

/// The task of the log.
struct Writer {
    dir: PathBuf,
    share_bytes: u64,
    file_bytes_max: u64,
    /// The bytes that each session has written so far.
    written_bytes: BTreeMap<String, u64>,
    /// The open files of each of [`RINGS`].
    files: [Option<Files>; 2],
    trouble: Arc<Mutex<Trouble>>,
}

impl Writer {
    fn write_all(mut self, mut lines: mpsc::Receiver<Line>) {
        let runtime = Handle::current();
        let mut refusals = Refusals::default();
        loop {
            let mut batch = Vec::new();
            let first = match refusals.are_counted() {
                true => runtime.block_on(async { tokio::time::timeout(COUNTING, lines.recv()).await }),
                false => Ok(lines.blocking_recv()),
            };
            let is_over = matches!(first, Ok(None));
            if let Ok(Some(line)) = first {
                refusals.take(line.entry, line.is_refused, &mut batch);
                thread::park_timeout(GATHERING);
            }
            while let Ok(line) = lines.try_recv() {
                refusals.take(line.entry, line.is_refused, &mut batch);
            }
            if is_over || refusals.are_due(COUNTING) {
                refusals.end(&mut batch);
            }
            self.write(&batch);
            if is_over {
                return;
            }
        }
    }

    fn write(&mut self, batch: &[Entry]) {
        if batch.is_empty() {
            return;
        }
        // Those within the shares of their sessions, and the others.
        let mut rings = [Vec::new(), Vec::new()];
        for entry in batch {
            let mut line = match serde_json::to_vec(entry) {
                Ok(line) => line,
                Err(error) => {
                    tracing::error!(%error, "a line of the audit log could not be made");
                    continue;
                }
            };
            line.push(b'\n');
            let written_bytes = self.written_bytes.entry(entry.session.clone()).or_default();
            let ring = usize::from(*written_bytes >= self.share_bytes);
            *written_bytes += line.len() as u64;
            rings[ring].append(&mut line);
        }
        let mut written = Ok(());
        for ((ring, files), lines) in RINGS.iter().zip(&mut self.files).zip(&rings) {
            if !lines.is_empty() {
                // An error in the one does not keep the other lines from being written.
                written = written.and(append(&self.dir, (ring, self.file_bytes_max), files, lines));
            }
        }
        let mut trouble = self.trouble.lock();
        // Once for each time that it begins to fail.
        match &written {
            Err(error) if !matches!(*trouble, Trouble::Known(_)) => {
                tracing::error!(folder = %self.dir.display(), %error, "the audit log cannot be written; lines are lost");
            }
            _ => {}
        }
        *trouble = Trouble::of(&written);
    }
}

/// The files that stay open between two batches.
struct Files {
    lock: File,
    lines: File,
}

/// Leaves the files open for the next batch, as long as all goes well.
fn append(
    dir: &Path,
    (ring, file_bytes_max): (&Ring, u64),
    files: &mut Option<Files>,
    batch: &[u8],
) -> io::Result<()> {
    let of = (ring, file_bytes_max);
    match files.take() {
        None => append_to(dir, of, files, (begun(dir, ring)?, batch)),
        Some(open) => match append_to(dir, of, files, (open, batch)) {
            // The user has removed the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                append_to(dir, of, files, (begun(dir, ring)?, batch))
            }
            written => written,
        },
    }
}

fn begun(dir: &Path, ring: &Ring) -> io::Result<Files> {
    own_file::make_folder(dir)?;
    Ok(Files { lock: opened(&dir.join("audit.lock"))?, lines: opened(&dir.join(ring.name()))? })
}

fn append_to(
    dir: &Path,
    (ring, file_bytes_max): (&Ring, u64),
    files: &mut Option<Files>,
    (open, batch): (Files, &[u8]),
) -> io::Result<()> {
    let locked =
        Flock::lock(open.lock, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
    let path = dir.join(ring.name());
    let mut lines = match path.metadata() {
        Ok(there) if there.len() >= file_bytes_max => {
            put_aside(dir, ring)?;
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

fn put_aside(dir: &Path, ring: &Ring) -> io::Result<()> {
    for number in (1..ring.old_files_max).rev() {
        let (older, newer) = (dir.join(ring.old(number + 1)), dir.join(ring.old(number)));
        if newer.exists() {
            fs::rename(newer, older)?;
        }
    }
    fs::rename(dir.join(ring.name()), dir.join(ring.old(1)))
}

fn opened(path: &Path) -> io::Result<File> {
    own_file::open(path, File::options().append(true).create(true))
}

#[cfg(test)]
mod tests {
    use std::fs::{OpenOptions, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::audit::entry::RunEvent;
    use crate::audit::{Filter, entries};

    fn a() -> SessionId {
        SessionId::new("a")
    }

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
        let logs = ["a", "b"]
            .map(|session| (SessionId::new(session), AuditLog::start(Some(dir.clone()), &Limits::default())));
        for run in 0..500 {
            for (session, log) in &logs {
                log.record(session, event(run)).await;
            }
        }
        for (session, log) in &logs {
            log.close().await;
            log.record(session, event(999)).await;
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
        for name in SHARED.names() {
            fs::write(dir.path().join(&name), format!("{name}\n")).unwrap();
        }
        let full = OpenOptions::new().append(true).open(dir.path().join("audit.jsonl")).unwrap();
        full.set_len(Limits::default().audit_file_bytes_max).unwrap();
        let log = AuditLog::start(Some(dir.path().to_owned()), &Limits::default());
        log.record(&a(), event(1)).await;
        log.close().await;
        let read = |name: String| fs::read(dir.path().join(name)).unwrap();
        assert!(read(SHARED.old(1)).starts_with(b"audit.jsonl\n"));
        assert_eq!(read(SHARED.old(4)), b"audit.3.jsonl\n");
        assert!(!dir.path().join(SHARED.old(5)).exists());
        assert_eq!(entries(dir.path(), &Filter::default()).unwrap().len(), 1);
    }

    #[tokio::test]
    async fn what_is_removed_or_put_aside_by_another_meanwhile_is_begun_anew() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("belljar");
        let mut files = None;
        let mut append = |line: &str| append(&dir, (&SHARED, 1_000), &mut files, line.as_bytes()).unwrap();
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        append("1\n");
        append("2\n");
        assert_eq!(read("audit.jsonl"), "1\n2\n");
        fs::rename(dir.join("audit.jsonl"), dir.join(SHARED.old(1))).unwrap();
        append("3\n");
        fs::rename(dir.join("audit.jsonl"), dir.join(SHARED.old(1))).unwrap();
        fs::write(dir.join("audit.jsonl"), "another's\n").unwrap();
        append("4\n");
        assert_eq!((read("audit.jsonl"), read(&SHARED.old(1))), ("another's\n4\n".into(), "3\n".into()));
        fs::remove_dir_all(&dir).unwrap();
        append("5\n");
        assert_eq!(read("audit.jsonl"), "5\n");
        assert!(dir.join("audit.lock").exists());
    }

    #[tokio::test]
    async fn without_a_folder_and_where_nothing_can_be_written_nobody_waits() {
        let off = AuditLog::start(None, &Limits::default());
        assert_eq!((off.is_on(), off.trouble()), (false, None));
        off.record(&a(), event(1)).await;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let broken = AuditLog::start(Some(dir.path().join("file")), &Limits::default());
        assert_eq!(broken.trouble().unwrap(), "File exists (os error 17)");
        for run in 0..3_000 {
            broken.record(&a(), event(run)).await;
        }
        broken.close().await;
        assert!(broken.trouble().is_some());
        assert_eq!(AuditLog::nowhere("no home").trouble().unwrap(), "no home");
    }

    #[tokio::test]
    async fn where_others_can_write_nothing_is_logged_or_read_and_that_is_trouble() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let file = dir.path().join("audit.jsonl");
        fs::write(&file, "").unwrap();
        for (of_folder, of_file) in [(0o777, 0o600), (0o700, 0o666)] {
            mode(dir.path(), of_folder);
            mode(&file, of_file);
            let log = AuditLog::start(Some(dir.path().into()), &Limits::default());
            let trouble = log.trouble().unwrap();
            assert!(trouble.contains("of yours"), "{trouble}");
            log.record(&a(), event(1)).await;
            log.close().await;
            assert!(log.trouble().is_some() && entries(dir.path(), &Filter::default()).is_err());
            assert_eq!(fs::read(&file).unwrap(), b"");
        }
    }

    #[tokio::test]
    async fn a_log_that_can_be_written_again_is_no_trouble_after_its_next_line() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("file");
        fs::write(&place, "").unwrap();
        let log = AuditLog::start(Some(place.clone()), &Limits::default());
        assert!(log.trouble().is_some());
        fs::remove_file(&place).unwrap();
        assert!(log.trouble().is_some());
        log.record(&a(), event(1)).await;
        log.close().await;
        assert_eq!(log.trouble(), None);
    }

    fn refused(run: u64, tool: &str, arguments: u64) -> CallEvent {
        CallEvent {
            run,
            job: None,
            server: "s".into(),
            tool: tool.into(),
            arguments: arguments.into(),
            bytes_out: 1,
            bytes_in: 0,
            outcome: "denied".into(),
            decision: "rule 1".into(),
            ms: 0,
            times: 1,
        }
    }

    fn calls(dir: &Path) -> Vec<(String, String, u64)> {
        let calls =
            entries(dir, &Filter::default()).unwrap().into_iter().filter_map(|entry| match entry.event {
                Event::Call(call) => Some((entry.session, call.tool, call.times)),
                Event::Run(_) => None,
            });
        calls.collect()
    }

    #[tokio::test]
    async fn equal_refusals_are_counted_before_the_line_of_their_run() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::start(Some(dir.path().to_owned()), &Limits::default());
        for number in 0..5_000 {
            log.record_refused(&a(), refused(1, if number % 2 == 0 { "t" } else { "u" }, number)).await;
        }
        log.record(&a(), event(1)).await;
        log.close().await;
        let all = entries(dir.path(), &Filter::default()).unwrap();
        let counted = |tool: &str| -> u64 {
            calls(dir.path()).iter().filter(|call| call.1 == tool).map(|call| call.2).sum()
        };
        assert_eq!((counted("t"), counted("u")), (2_500, 2_500));
        assert!(all.len() < 500, "{}", all.len());
        assert!(matches!(all.last().unwrap().event, Event::Run(_)), "{:?}", all.last());
    }

    #[tokio::test]
    async fn refusals_with_ever_other_names_are_counted_together() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::start(Some(dir.path().to_owned()), &Limits::default());
        for number in 0..5_000 {
            log.record_refused(&a(), refused(1, &format!("tool{number}"), 0)).await;
        }
        log.close().await;
        let calls = calls(dir.path());
        assert_eq!(calls.iter().map(|call| call.2).sum::<u64>(), 5_000);
        assert!(calls.len() < 500 && calls[0].1 == "tool0", "{}", calls.len());
    }

    #[tokio::test]
    async fn a_session_that_floods_the_log_takes_no_lines_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let limits =
            Limits { audit_file_bytes_max: 20_000, audit_share_bytes_max: 10_000, ..Limits::default() };
        let log = AuditLog::start(Some(dir.path().to_owned()), &limits);
        let [quiet, loud] = ["quiet", "loud"].map(SessionId::new);
        let made = |number: u64| Event::Call(refused(number, "made", 0));
        log.record(&quiet, made(0)).await;
        for number in 0..20_000 {
            log.record(&loud, made(number)).await;
        }
        log.record(&quiet, made(1)).await;
        log.close().await;
        let bytes: u64 =
            fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
        let calls = entries(dir.path(), &Filter::default()).unwrap();
        let runs = |session: &str| -> Vec<u64> {
            let of = calls.iter().filter(|entry| entry.session == session);
            of.filter_map(|entry| match &entry.event {
                Event::Call(call) => Some(call.run),
                Event::Run(_) => None,
            })
            .collect()
        };
        assert_eq!(runs("quiet"), [0, 1]);
        let loud = runs("loud");
        assert!(loud.is_sorted() && loud[0] == 0 && loud.last() == Some(&19_999));
        // A batch may be as large as all that waits.
        assert!(loud.len() < 15_000 && bytes < 2_500_000, "{} lines, {bytes} bytes", loud.len());
    }
}
