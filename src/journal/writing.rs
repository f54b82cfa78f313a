//! Writes the lines of one session as they come: each in one write, which has been made when this returns.
//!
//! What has been written outlives the process, however it ends; it is not forced to the disk. A journal that cannot be
//! written ends, and says so once: no run waits for it or fails by it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use belljar_base::clock;
use belljar_base::limits::Limits;
use belljar_base::own_file;
use belljar_protocol as protocol;
use nix::fcntl::{Flock, FlockArg};
use parking_lot::Mutex;

use super::reading::RecordedSession;
use super::record::JournalDetail;
use super::record::{CallBegun, CallOutcome, Record, SessionBegun, VERSION};
use super::repetitions::Repetitions;
use super::sessions::Sessions;

/// What the last line of a full journal takes at most.
const LAST_LINE_BYTES: u64 = 64;

/// Refused calls get this part of a journal, so that a flood of them leaves room for what follows.
const REFUSED_PART: u64 = 4;

/// The way to the file of one session.
pub struct Journal {
    keep: JournalDetail,
    bytes_max: u64,
    /// All journals, and the name of this one, where any are kept.
    among: Option<(Sessions, String)>,
    state: Mutex<WriterState>,
}

/// The file of the journal, and the note for the next reply.
struct WriterState {
    file: JournalFile,
    /// A note for the next reply.
    said: Option<String>,
    /// Calls that are counted instead of being written.
    repetitions: Repetitions,
    /// The room that is left for refused calls.
    refused_bytes_left: u64,
}

/// The file of the journal in each phase of the session.
enum JournalFile {
    /// The file is created when a run begins. These records came before.
    Waits { sessions: Sessions, id: String, first: Vec<Record>, continues: Option<String> },
    /// The file is open. It is locked, so that nobody removes it while it is in use.
    Open { file: Flock<File>, path: PathBuf, bytes: u64 },
    /// Nothing is written any more, or never was. The path is that of the file, if there is one.
    Over(Option<PathBuf>),
}

impl Journal {
    /// Of a session with this name, in a folder that is made by its first run; nowhere without a folder.
    #[must_use]
    pub fn new(keep: JournalDetail, dir: Option<PathBuf>, id: &str, limits: &Limits) -> Self {
        let dir = dir.filter(|_| keep != JournalDetail::Off);
        let among = dir.map(|dir| (Sessions::new(dir, limits), id.to_owned()));
        let file = match among.clone() {
            Some((sessions, id)) => JournalFile::Waits { sessions, id, first: vec![], continues: None },
            None => JournalFile::Over(None),
        };
        let state = Mutex::new(WriterState {
            file,
            said: None,
            repetitions: Repetitions::default(),
            refused_bytes_left: limits.journal_session_bytes_max / REFUSED_PART,
        });
        Self { keep, bytes_max: limits.journal_session_bytes_max, among, state }
    }

    /// Whether anything is written now.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !matches!(self.state.lock().file, JournalFile::Over(_))
    }

    /// How much is kept.
    #[must_use]
    pub fn keep(&self) -> JournalDetail {
        self.keep
    }

    /// All journals, and the name of this session among them, where any are kept.
    #[must_use]
    pub fn among(&self) -> Option<(Sessions, String)> {
        self.among.clone()
    }

    /// The session begins with the runs of another one.
    pub fn continues(&self, of: &str) {
        if let JournalFile::Waits { continues, .. } = &mut self.state.lock().file {
            *continues = Some(of.to_owned());
        }
    }

    /// A run begins, for this client: the first one makes the file.
    pub fn begin(&self, client: &str, record: &Record) {
        let mut state = self.state.lock();
        if let JournalFile::Waits { sessions, id, first, continues } = &mut state.file {
            let session = Record::Session(SessionBegun {
                version: VERSION,
                id: id.clone(),
                time: clock::timestamp(),
                client: client.to_owned(),
                belljar: env!("CARGO_PKG_VERSION").to_owned(),
                protocol: protocol::VERSION,
                keep: self.keep,
                continues: continues.take(),
            });
            let first = std::mem::take(first);
            let path = sessions.path(id);
            match opened(sessions, &path) {
                Ok(file) => {
                    state.file = JournalFile::Open { file, path, bytes: 0 };
                    self.write(&mut state, &session);
                    first.iter().for_each(|record| self.write(&mut state, record));
                }
                Err(error) => state.fail(&error),
            }
        }
        self.write(&mut state, record);
    }

    /// Something has happened; before the first run it is kept until then.
    pub fn append(&self, record: &Record) {
        let mut state = self.state.lock();
        if let JournalFile::Waits { first, .. } = &mut state.file {
            first.push(record.clone());
            // Of sandboxes that came and went before the first run the last one counts.
            if first.len() > 2 {
                first.remove(0);
            }
            return;
        }
        self.write(&mut state, record);
    }

    /// What has been written so far.
    ///
    /// # Errors
    /// Why there is nothing, as the end of a sentence.
    pub fn recorded(&self) -> Result<RecordedSession, String> {
        let path = match &self.state.lock().file {
            JournalFile::Open { path, .. } | JournalFile::Over(Some(path)) => path.clone(),
            JournalFile::Waits { .. } | JournalFile::Over(None) => {
                return Err("no journal of this session is kept".into());
            }
        };
        let bytes = std::fs::read(path).map_err(|error| format!("the journal cannot be read: {error}"))?;
        RecordedSession::of(&bytes).map_err(|why| format!("the journal cannot be read: {why}"))
    }

    /// What the reader of the next reply should know; once.
    pub fn take_said(&self) -> Option<String> {
        self.state.lock().said.take()
    }

    fn write(&self, state: &mut WriterState, record: &Record) {
        let Some(before) = state.repetitions.take(record) else { return };
        before.iter().chain([record]).for_each(|record| self.write_line(state, record));
    }

    fn write_line(&self, state: &mut WriterState, record: &Record) {
        let JournalFile::Open { file, path, bytes } = &mut state.file else { return };
        let mut line = match serde_json::to_vec(record) {
            Ok(line) => line,
            Err(error) => return state.fail(&error.into()),
        };
        line.push(b'\n');
        if let Record::Call(CallBegun { came: Some(CallOutcome::Fault(_)), .. }) = record {
            let Some(left) = state.refused_bytes_left.checked_sub(line.len() as u64) else {
                return state.leave_out();
            };
            state.refused_bytes_left = left;
        }
        let is_full = *bytes + line.len() as u64 + LAST_LINE_BYTES > self.bytes_max;
        if is_full {
            line = b"{\"full\":{}}\n".to_vec();
        }
        match file.write_all(&line) {
            Ok(()) if is_full => {
                state.file = JournalFile::Over(Some(std::mem::take(path)));
                let mib = self.bytes_max >> 20;
                state.said = Some(format!(
                    "the journal of this session has {mib} MiB, which is all that is kept; what follows is not in it"
                ));
            }
            Ok(()) => *bytes += line.len() as u64,
            Err(error) => {
                // Half a line must not stand in the way of those before it.
                if let Err(error) = file.set_len(*bytes) {
                    tracing::warn!(%error, "the last line of the journal is left half written");
                }
                state.fail(&error);
            }
        }
    }
}

impl WriterState {
    /// Leaves out a refused call, and says so once.
    fn leave_out(&mut self) {
        if std::mem::take(&mut self.refused_bytes_left) > 0 {
            self.said = Some(
                "the journal of this session has no room for more refused calls; a run that made more of them cannot be \
                 replayed"
                    .into(),
            );
        }
    }

    fn fail(&mut self, error: &io::Error) {
        tracing::error!(%error, "the journal cannot be written");
        self.file = JournalFile::Over(None);
        self.said = Some(format!("the journal of this session cannot be written, and ends here: {error}"));
    }
}

/// Makes room for the new file among the others, and makes it.
fn opened(sessions: &Sessions, path: &Path) -> io::Result<Flock<File>> {
    own_file::make_folder(sessions.dir())?;
    // Until the file has its own lock: so one that is only begun, and has none, is nobody's.
    let of_all = File::open(sessions.dir())?;
    of_all.lock()?;
    sessions.remove_begun();
    sessions.make_room();
    let file = own_file::open(path, File::options().append(true).create_new(true))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    use belljar_base::run::{FaultCode, ToolFault};
    use serde_json::value::RawValue;

    use super::*;
    use crate::journal::RecordedJson;
    use crate::journal::record::{RunBegun, SandboxUp};

    const ID: &str = "0123456789abcdef";

    fn run(number: u64, code: &str) -> Record {
        Record::Run(RunBegun {
            run: number,
            time: clock::timestamp(),
            code: code.into(),
            servers: vec![],
            timeout_ms: 1_000,
            dry_run: false,
            checkpoint: None,
            aside: false,
        })
    }

    fn sandbox(image: &str) -> Record {
        let [time, engine, python] = ["t", "e", "3.14.0"].map(str::to_owned);
        Record::Sandbox(SandboxUp { time, engine, image: image.into(), python, time_zone: "UTC".into() })
    }

    fn written(dir: &Path) -> String {
        std::fs::read_to_string(dir.join(format!("{ID}.jsonl"))).unwrap()
    }

    /// The name of what each line tells.
    fn told(text: &str) -> Vec<&str> {
        text.lines().map(|line| line.split('"').nth(1).unwrap()).collect()
    }

    #[test]
    fn a_session_without_a_run_leaves_nothing_and_its_first_run_makes_a_file_of_the_user_alone() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("state/sessions");
        let journal = Journal::new(JournalDetail::Calls, Some(dir.clone()), ID, &Limits::default());
        journal.append(&sandbox("one"));
        journal.append(&sandbox("two"));
        journal.append(&sandbox("three"));
        assert!(journal.is_on() && !dir.exists());
        journal.begin("me", &run(1, "x = 1"));
        journal.begin("somebody else", &run(2, "x"));
        let text = written(&dir);
        assert_eq!(told(&text), ["session", "sandbox", "sandbox", "run", "run"]);
        assert!(text.contains("\"client\":\"me\"") && !text.contains("\"one\""), "{text}");
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join(format!("{ID}.jsonl")))), (0o700, 0o600));
        assert_eq!(journal.take_said(), None);
    }

    #[test]
    fn a_full_journal_says_so_in_its_last_line_and_once_to_the_reader() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { journal_session_bytes_max: 1_000, ..Limits::default() };
        let journal = Journal::new(JournalDetail::Calls, Some(dir.path().into()), ID, &limits);
        journal.begin("me", &run(1, "1"));
        journal.begin("me", &run(2, &"x".repeat(1_000)));
        journal.begin("me", &run(3, "1"));
        let text = written(dir.path());
        assert_eq!(told(&text), ["session", "run", "full"]);
        assert!(text.len() <= 1_000, "{}", text.len());
        assert!(journal.take_said().unwrap().contains("is all that is kept"));
        assert_eq!((journal.take_said(), journal.is_on()), (None, false));
    }

    #[test]
    fn where_nothing_can_be_written_it_is_said_once_and_nobody_waits() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let journal = Journal::new(JournalDetail::Full, Some(file), ID, &Limits::default());
        for number in 1..4 {
            journal.begin("me", &run(number, "1"));
        }
        let said = journal.take_said().unwrap();
        assert!(said.starts_with("the journal of this session cannot be written, and ends here: "), "{said}");
        assert_eq!((journal.take_said(), journal.is_on()), (None, false));
        for off in [
            Journal::new(JournalDetail::Off, Some(dir.path().into()), ID, &Limits::default()),
            Journal::new(JournalDetail::Full, None, ID, &Limits::default()),
        ] {
            off.begin("me", &run(1, "1"));
            assert_eq!((off.take_said(), off.is_on()), (None, false));
        }
        assert!(!dir.path().join(format!("{ID}.jsonl")).exists());
    }

    #[test]
    fn where_others_can_write_no_journal_is_kept_or_listed() {
        let dir = tempfile::tempdir().unwrap();
        let journal = || Journal::new(JournalDetail::Full, Some(dir.path().into()), ID, &Limits::default());
        let first = journal();
        first.begin("me", &run(1, "1"));
        let (sessions, _) = first.among().unwrap();
        assert_eq!(sessions.all().unwrap().len(), 1);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let next = journal();
        next.begin("me", &run(1, "1"));
        assert!(next.take_said().unwrap().contains("only you can write"));
        assert_eq!(sessions.all().unwrap(), []);
    }

    fn refused(number: u64, tool: &str, message: &str) -> Record {
        let none = RawValue::from_string("{}".into()).unwrap();
        Record::Call(CallBegun {
            run: 1,
            job: None,
            call: number,
            server: Some("s".into()),
            tool: tool.into(),
            arguments: RecordedJson::of(&none, 0),
            came: Some(CallOutcome::Fault(ToolFault::new(FaultCode::Denied, message))),
        })
    }

    #[test]
    fn equal_refused_calls_are_counted_before_an_equal_call_with_another_outcome() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(JournalDetail::Calls, Some(dir.path().into()), ID, &Limits::default());
        journal.begin("me", &run(1, "1"));
        for (number, (tool, message)) in
            [("t", "a"), ("t", "a"), ("u", "a"), ("t", "a"), ("t", "b"), ("t", "a")].into_iter().enumerate()
        {
            journal.append(&refused(number as u64 + 1, tool, message));
        }
        let text = written(dir.path());
        assert_eq!(told(&text), ["session", "run", "call", "call", "again", "call", "call"]);
        let session = journal.recorded().unwrap();
        let times: Vec<u64> = session.runs[0].calls.iter().map(|call| call.times).collect();
        assert_eq!(times, [3, 1, 1, 1]);
    }

    #[test]
    fn a_flood_of_refused_calls_leaves_room_for_what_follows() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { journal_session_bytes_max: 100_000, ..Limits::default() };
        let journal = Journal::new(JournalDetail::Calls, Some(dir.path().into()), ID, &limits);
        journal.begin("me", &run(1, "1"));
        for number in 1..2_000 {
            journal.append(&refused(number, &format!("t{number}"), "no"));
        }
        assert!(written(dir.path()).len() < 30_000, "{}", written(dir.path()).len());
        let said = journal.take_said().unwrap();
        assert!(said.contains("no room for more refused calls"), "{said}");
        journal.begin("me", &run(2, "2"));
        assert!(journal.is_on() && journal.take_said().is_none());
        assert_eq!(journal.recorded().unwrap().runs.len(), 2);
    }
}
