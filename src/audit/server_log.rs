//! The recent messages and failures of servers, in one small file for each, for `belljar doctor`.
//!
//! No caller of a server waits for it: entries that do not fit are dropped, and the disk is written at intervals.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_base::clock;
use belljar_base::digest;
use belljar_base::names::ServerName;
use belljar_base::own_file;
use belljar_base::text;
use chrono::DateTime;
use nix::fcntl::{Flock, FlockArg};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// Remarks of one server that are kept.
const KEPT_MAX: usize = 50;
/// Longest remark, in characters.
const REMARK_CHARS_MAX: usize = 500;
const LEVEL_CHARS_MAX: usize = 20;
/// Remarks that may wait for the disk.
const WAITING_MAX: usize = 512;
/// From the first remark that waits until the disk is written.
const PAUSE: Duration = Duration::from_secs(1);
/// Servers of which remarks are kept; then the longest silent one is forgotten.
const SERVERS_MAX: usize = 500;
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The way to the files.
pub struct ServerLog {
    entries: Mutex<Option<mpsc::Sender<(ServerName, ServerLogEntry)>>>,
    writing: Mutex<Option<JoinHandle<()>>>,
}

/// A line of the log of one server: a message that it sent, or the end of its process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerLogEntry {
    /// The time at which it was received, as RFC 3339 in UTC.
    pub time: String,
    /// The severity: a level of MCP, or `stderr` or `failed`.
    pub level: String,
    /// The text, on one line and harmless to show.
    pub text: String,
}

impl ServerLogEntry {
    /// How long ago that was, for people.
    #[must_use]
    pub fn age(&self) -> String {
        let Ok(time) = DateTime::parse_from_rfc3339(&self.time) else { return "at some time".into() };
        let seconds = (clock::now() - time.to_utc()).num_seconds().max(0);
        match seconds {
            0..120 => format!("{seconds} s ago"),
            120..7_200 => format!("{} min ago", seconds / 60),
            7_200..172_800 => format!("{} h ago", seconds / 3_600),
            _ => format!("{} days ago", seconds / 86_400),
        }
    }
}

impl ServerLog {
    /// Files in this folder, which is made when there is something to write; none without a folder. Must be called inside a
    /// tokio runtime.
    #[must_use]
    pub fn start(dir: Option<PathBuf>) -> Self {
        let log = Self { entries: Mutex::default(), writing: Mutex::default() };
        if let Some(dir) = dir {
            let (sender, entries) = mpsc::channel(WAITING_MAX);
            *log.entries.lock() = Some(sender);
            *log.writing.lock() = Some(tokio::spawn(write_all(dir, entries)));
        }
        log
    }

    /// Keeps a text, which holds no secrets.
    pub fn keep(&self, server: ServerName, level: &str, text: &str) {
        let Some(entries) = self.entries.lock().clone() else { return };
        let entry = ServerLogEntry {
            time: clock::timestamp(),
            level: text::inert_excerpt(level, LEVEL_CHARS_MAX),
            text: text::inert_excerpt(text, REMARK_CHARS_MAX),
        };
        if entries.try_send((server, entry)).is_err() {
            tracing::trace!("what a server says of itself is left out");
        }
    }

    /// Writes what waits, and ends.
    pub async fn close(&self) {
        drop(self.entries.lock().take());
        let writing = self.writing.lock().take();
        if let Some(writing) = writing
            && let Err(error) = writing.await
        {
            tracing::error!(%error, "the task that keeps what servers say broke");
        }
    }
}

/// The last remarks of a server, oldest first.
///
/// # Errors
/// When its file cannot be read; that there is none is no error.
pub fn last_entries(dir: &Path, server: &ServerName, count: usize) -> io::Result<Vec<ServerLogEntry>> {
    let mut kept = read(&dir.join(file_name(server)))?;
    Ok(kept.split_off(kept.len().saturating_sub(count)).into())
}

type Batch = BTreeMap<ServerName, Vec<ServerLogEntry>>;

async fn write_all(dir: PathBuf, mut entries: mpsc::Receiver<(ServerName, ServerLogEntry)>) {
    let mut is_failing = false;
    while let Some((server, first)) = entries.recv().await {
        let mut batch = Batch::from([(server, vec![first])]);
        let until = Instant::now() + PAUSE;
        while let Ok(Some((server, next))) = timeout_at(until, entries.recv()).await {
            let of_server = batch.entry(server).or_default();
            of_server.push(next);
            let excess = of_server.len().saturating_sub(KEPT_MAX);
            of_server.drain(..excess);
        }
        let folder = dir.clone();
        let written = tokio::task::spawn_blocking(move || add(&folder, batch)).await;
        let failed = match written {
            Ok(written) => written.err(),
            Err(error) => Some(io::Error::other(error)),
        };
        // Once for each time that it begins to fail.
        if let Some(error) = failed.as_ref().filter(|_| !is_failing) {
            tracing::warn!(folder = %dir.display(), %error, "what servers say cannot be kept");
        }
        is_failing = failed.is_some();
    }
}

/// Under a lock: other bridges write there too.
fn add(dir: &Path, batch: Batch) -> io::Result<()> {
    own_file::make_folder(dir)?;
    let file = own_file::open(&dir.join("lock"), File::options().append(true).create(true))?;
    let _locked = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
    for (server, entries) in batch {
        let path = dir.join(file_name(&server));
        // What others have spoilt is begun anew.
        let mut kept = read(&path).unwrap_or_default();
        kept.extend(entries);
        let excess = kept.len().saturating_sub(KEPT_MAX);
        kept.drain(..excess);
        // tempfile makes files of mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        for entry in &kept {
            serde_json::to_writer(&mut file, entry)?;
            file.write_all(b"\n")?;
        }
        file.persist(&path).map_err(|error| error.error)?;
    }
    forget_the_silent(dir)
}

fn forget_the_silent(dir: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push((path.metadata()?.modified()?, path));
        }
    }
    files.sort();
    let excess = files.len().saturating_sub(SERVERS_MAX);
    files[..excess].iter().try_for_each(|(_, path)| fs::remove_file(path))
}

fn read(path: &Path) -> io::Result<VecDeque<ServerLogEntry>> {
    let file = own_file::unless_missing(own_file::open(path, File::options().read(true)))?;
    let Some(file) = file else { return Ok(VecDeque::new()) };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Names of servers are no file names.
fn file_name(server: &ServerName) -> String {
    let hash = digest::sha256(server.as_str().as_bytes());
    format!("{}.jsonl", &hash[..32])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn name(name: &str) -> ServerName {
        ServerName::new(name).unwrap()
    }

    #[tokio::test]
    async fn the_last_remarks_of_each_server_are_kept_bounded_and_harmless_by_several_bridges() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state/servers");
        let logs = [ServerLog::start(Some(dir.clone())), ServerLog::start(Some(dir.clone()))];
        for number in 0..40 {
            for (log, who) in logs.iter().zip(["a", "b"]) {
                log.keep(name("../x"), "warning", &format!("{who}{number}\u{1b}[2J\n{}", "x".repeat(600)));
            }
        }
        logs[0].keep(name("other"), "failed", "it ended");
        for log in &logs {
            log.close().await;
            log.keep(name("other"), "info", "too late");
        }
        let kept = last_entries(&dir, &name("../x"), 100).unwrap();
        assert_eq!(kept.len(), KEPT_MAX);
        let of = |who: &str| kept.iter().filter(|entry| entry.text.starts_with(who)).count();
        assert_eq!((of("a"), of("b")), (10, 40), "those that were written last");
        let last = kept.last().unwrap();
        assert!(last.text.starts_with("b39\\x1b[2J xxx") && last.text.chars().count() == REMARK_CHARS_MAX);
        assert_eq!(last.age(), "0 s ago");
        let other = last_entries(&dir, &name("other"), 1).unwrap();
        assert_eq!((other.len(), other[0].level.as_str(), other[0].text.as_str()), (1, "failed", "it ended"));
        assert_eq!(last_entries(&dir, &name("nobody"), 3).unwrap(), []);
        for entry in fs::read_dir(&dir).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
        }
        assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn where_others_can_write_nothing_is_kept_or_read() {
        let dir = tempfile::tempdir().unwrap();
        let batch = || Batch::from([(name("x"), vec![])]);
        add(dir.path(), batch()).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(add(dir.path(), batch()).is_err() && last_entries(dir.path(), &name("x"), 1).is_err());
    }

    #[test]
    fn an_age_is_said_in_the_unit_that_fits() {
        let ago = |seconds| {
            let time = clock::now() - chrono::TimeDelta::seconds(seconds);
            let entry = ServerLogEntry { time: time.to_rfc3339(), level: String::new(), text: String::new() };
            entry.age()
        };
        assert_eq!(ago(7 * 60), "7 min ago");
        assert_eq!(ago(-60), "0 s ago");
        assert_eq!(ago(5 * 3_600), "5 h ago");
        assert_eq!(ago(5 * 86_400), "5 days ago");
    }

    #[test]
    fn of_too_many_servers_the_longest_silent_ones_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..SERVERS_MAX + 3 {
            fs::write(dir.path().join(format!("{number}.jsonl")), "").unwrap();
        }
        add(dir.path(), Batch::from([(name("new"), vec![])])).unwrap();
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, SERVERS_MAX + 1, "and the lock");
        assert!(dir.path().join(file_name(&name("new"))).exists());
    }
}
