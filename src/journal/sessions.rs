//! The journals that there are: listed, found by the beginning of their names, removed, and kept few and small.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use belljar_base::limits::Limits;
use belljar_base::own_file;
use belljar_base::text::{self, suggest};
use nix::fcntl::{Flock, FlockArg};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::reading::RecordedSession;
use super::record::Record;

/// Longest name that is repeated, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Digits of a name that are shown.
const SHOWN: usize = 8;
/// What the first line of a journal begins with, and what is read of it to see whether it is whole.
const FIRST_WORDS: &[u8] = b"{\"session\":";
const FIRST_LINE_BYTES_MAX: u64 = 64 << 10;
/// Sessions that a message names.
const NAMED_MAX: usize = 5;

/// The folder of journals.
#[derive(Debug, Clone)]
pub struct Sessions {
    dir: PathBuf,
    session_bytes_max: u64,
    bytes_max: u64,
    count_max: usize,
}

/// What outcomes are called that leave nothing to go on from; see [`belljar_base::run::RunOutcome::word`].
const OF_NO_RUN: [&str; 2] = ["cancelled", "not_started"];

/// The facts about a session that `belljar session ls` lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The name of the session.
    pub id: String,
    /// The time at which its first run began.
    pub began: String,
    /// The client, by its own name.
    pub client: String,
    /// The number of runs.
    pub runs: u64,
    /// Whether there is something to go on from: not each run was cancelled or without a sandbox, and where the session
    /// continues another one it has come as far as that.
    pub has_run: bool,
    /// Calls of servers' tools that these and their jobs have made; helpers of the runtime do not count, as in the log.
    pub calls: u64,
    /// The time at which its last run began or ended.
    pub last: String,
    /// The size of its journal.
    pub bytes: u64,
    /// Whether the session is still in use.
    pub is_open: bool,
}

/// The reason for which a session cannot be read or used.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// There is none of that name.
    #[error("there is no session \"{asked}\"; {instead}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// What there is.
        instead: String,
    },
    /// Several begin like that.
    #[error("several sessions begin with \"{asked}\": {names}")]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// Those that do.
        names: String,
    },
    /// It goes on.
    #[error("the session {id} is in use")]
    InUse {
        /// Its name, as it is shown.
        id: String,
    },
    /// It cannot be gone on from within another one.
    #[error("not from session {id}: {reason}")]
    NotEarlier {
        /// Its name, as it is shown.
        id: String,
        /// Why.
        reason: &'static str,
    },
    /// The file of the session is not a journal.
    #[error("the journal of {id} cannot be read: {reason}")]
    Unreadable {
        /// Its name, as it is shown.
        id: String,
        /// Why.
        reason: String,
    },
    /// The folder cannot be read.
    #[error("the folder of journals cannot be used: {0}")]
    Folder(#[from] io::Error),
}

impl Sessions {
    /// What stands for the session that began last, of those that have run anything if there are such.
    pub const LAST: &str = "last";

    /// Those in this folder.
    #[must_use]
    pub fn new(dir: PathBuf, limits: &Limits) -> Self {
        Self {
            dir,
            session_bytes_max: limits.journal_session_bytes_max,
            bytes_max: limits.journals_bytes_max,
            count_max: limits.journals_max,
        }
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What a session's name is shown as.
    #[must_use]
    pub fn short(id: &str) -> String {
        id.chars().take(SHOWN).collect()
    }

    /// All sessions, in the order in which they began. A file that is not a journal is left out.
    ///
    /// # Errors
    /// When the folder cannot be read; that there is none is no error.
    pub fn all(&self) -> io::Result<Vec<SessionSummary>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            if let Ok(Some(about)) = self.about(&id) {
                all.push(about);
            }
        }
        all.sort_by(|one, other| (&one.began, &one.id).cmp(&(&other.began, &other.id)));
        Ok(all)
    }

    /// The name of the session that begins like this; see [`Self::LAST`] for `last`.
    ///
    /// # Errors
    /// When there is none or several.
    pub fn find(&self, asked: &str) -> Result<String, SessionsError> {
        let ids = self.ids()?;
        if asked == Self::LAST
            && let Some(last) = self.all()?.into_iter().max_by_key(|session| session.has_run)
        {
            return Ok(last.id);
        }
        let (asked, said) = (asked.to_lowercase(), text::inert_excerpt(asked, NAME_CHARS_MAX));
        let fit: Vec<&String> = ids.iter().filter(|id| id.starts_with(&asked)).collect();
        match fit[..] {
            [id] if !asked.is_empty() => Ok(id.clone()),
            [] | [_] => Err(SessionsError::Unknown { instead: instead(&asked, &ids), asked: said }),
            _ => Err(SessionsError::Ambiguous { asked: said, names: names(fit.into_iter()) }),
        }
    }

    /// A session to go on from within this one, of this name: of the same client, ended, and with runs.
    ///
    /// # Errors
    /// When there is none, or it is in use.
    pub fn earlier_than(&self, own: &str, asked: &str) -> Result<String, SessionsError> {
        let all = self.all()?;
        let client = all.iter().find(|session| session.id == own).map(|session| session.client.clone());
        let is_of_client = |session: &SessionSummary| Some(&session.client) == client.as_ref();
        if asked == Self::LAST {
            let mut earlier = all.into_iter().filter(|session| session.id != own && session.has_run);
            let last = earlier.rfind(|session| is_of_client(session) && !session.is_open);
            return last.map(|last| last.id).ok_or_else(|| SessionsError::Unknown {
                asked: asked.into(),
                instead: "no earlier session of this client is kept".into(),
            });
        }
        let id = self.find(asked)?;
        let refused = |reason| SessionsError::NotEarlier { id: Self::short(&id), reason };
        match all.iter().find(|session| session.id == id) {
            _ if id == own => Err(refused("it is this one")),
            Some(session) if !is_of_client(session) => Err(refused("it is of another client")),
            Some(session) if session.is_open => Err(SessionsError::InUse { id: Self::short(&id) }),
            Some(session) if session.has_run => Ok(id),
            _ => Err(refused("it has no run that can be made again")),
        }
    }

    /// What is kept of a session.
    ///
    /// # Errors
    /// When its file is not one of this user alone, or does not begin as a journal does.
    pub fn read(&self, id: &str) -> Result<RecordedSession, SessionsError> {
        let unreadable = |reason: String| SessionsError::Unreadable {
            id: Self::short(id),
            reason: text::inert_line(&reason),
        };
        let bytes = own_file::read(&self.path(id), self.session_bytes_max)
            .map_err(|error| unreadable(error.to_string()))?;
        RecordedSession::of(&bytes).map_err(unreadable)
    }

    /// Removes a session that does not go on.
    ///
    /// # Errors
    /// When it does, or its file cannot be removed.
    pub fn remove(&self, id: &str) -> Result<(), SessionsError> {
        if self.is_open(id)? {
            return Err(SessionsError::InUse { id: Self::short(id) });
        }
        Ok(fs::remove_file(self.path(id))?)
    }

    /// Removes files that a killed writer left before their first line was whole. Its caller has the lock of the folder.
    pub(super) fn remove_begun(&self) {
        for id in self.ids().unwrap_or_default() {
            if self.is_only_begun(&id).unwrap_or(false)
                && let Err(error) = self.remove(&id)
            {
                tracing::debug!(%error, "a journal that was only begun stays");
            }
        }
    }

    fn is_only_begun(&self, id: &str) -> io::Result<bool> {
        let mut begun = Vec::new();
        self.opened(id)?.take(FIRST_LINE_BYTES_MAX).read_to_end(&mut begun)?;
        let is_whole = begun.contains(&b'\n') || begun.len() as u64 == FIRST_LINE_BYTES_MAX;
        // A file that never was a journal is not ours to remove.
        let words = begun.len().min(FIRST_WORDS.len());
        Ok(!is_whole && begun[..words] == FIRST_WORDS[..words])
    }

    /// Removes the oldest that are not in use, until there is room for a new one.
    pub(super) fn make_room(&self) {
        let mut files: Vec<(i64, u64, String)> = match self.ids() {
            Ok(ids) => ids.into_iter().filter_map(|id| self.age(id)).collect(),
            Err(error) => return tracing::warn!(%error, "the folder of journals cannot be read"),
        };
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        let mut count = files.len();
        for (_, of_file, id) in files {
            if count < self.count_max && bytes + self.session_bytes_max <= self.bytes_max {
                return;
            }
            if self.remove(&id).is_ok() {
                count -= 1;
                bytes -= of_file;
            }
        }
    }

    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.jsonl"))
    }

    fn ids(&self) -> io::Result<Vec<String>> {
        let names = own_file::names(&self.dir)?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(".jsonl"));
        Ok(ids.filter(|id| is_id(id)).map(str::to_owned).collect())
    }

    /// When it was written last, and its size.
    fn age(&self, id: String) -> Option<(i64, u64, String)> {
        use std::os::unix::fs::MetadataExt;
        let about = self.path(&id).symlink_metadata().ok()?;
        Some((about.mtime(), about.len(), id))
    }

    /// Looks at the first words of each line: what stands in them is only read of those that are wanted.
    fn about(&self, id: &str) -> io::Result<Option<SessionSummary>> {
        let file = self.opened(id)?;
        let bytes = file.metadata()?.len();
        let mut about: Option<SessionSummary> = None;
        let (mut is_behind, mut of_no_run) = (false, 0);
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let is = |name: &str| line.starts_with(format!("{{\"{name}\":").as_bytes());
            match &mut about {
                None => match serde_json::from_slice(&line) {
                    Ok(Record::Session(session)) => {
                        is_behind = session.continues.is_some();
                        about = Some(SessionSummary {
                            id: id.to_owned(),
                            last: session.time.clone(),
                            began: session.time,
                            client: session.client,
                            runs: 0,
                            has_run: false,
                            calls: 0,
                            bytes,
                            is_open: false,
                        });
                    }
                    _ => return Ok(None),
                },
                Some(about) if is("call") => about.calls += u64::from(is_of_server(&line)),
                Some(_) if is("resumed") => is_behind = false,
                Some(about) if is("run") || is("end") => {
                    match serde_json::from_slice(&line) {
                        Ok(Record::Run(run)) => {
                            about.runs += 1;
                            about.last = run.time;
                        }
                        Ok(Record::End(end)) => {
                            of_no_run += u64::from(OF_NO_RUN.contains(&end.outcome.as_str()));
                            about.last = end.time;
                        }
                        // The last one may be half a line.
                        _ => {}
                    }
                }
                Some(_) => {}
            }
            line.clear();
        }
        if let Some(about) = &mut about {
            about.is_open = self.is_open(id)?;
            about.has_run = about.runs > of_no_run && !is_behind;
        }
        Ok(about)
    }

    /// Whether the session goes on: then its file is locked.
    ///
    /// # Errors
    /// When its file cannot be opened.
    pub fn is_open(&self, id: &str) -> io::Result<bool> {
        Ok(Flock::lock(self.opened(id)?, FlockArg::LockExclusiveNonblock).is_err())
    }

    fn opened(&self, id: &str) -> io::Result<File> {
        own_file::open(&self.path(id), File::options().read(true))
    }
}

/// Whether a line is of a call that names a server; its arguments, which may be long, are passed over.
fn is_of_server(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Line {
        call: ServerField,
    }
    /// The field of a call record that names the server.
    #[derive(Deserialize)]
    struct ServerField {
        server: Option<IgnoredAny>,
    }
    serde_json::from_slice(line).is_ok_and(|line: Line| line.call.server.is_some())
}

/// As the bridge names sessions: nothing that leads out of the folder.
fn is_id(name: &str) -> bool {
    (16..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn names<'i>(ids: impl ExactSizeIterator<Item = &'i String>) -> String {
    let count = ids.len();
    let mut names: Vec<String> = ids.take(NAMED_MAX).map(|id| id.chars().take(SHOWN * 2).collect()).collect();
    if count > NAMED_MAX {
        names.push(format!("and {} more", count - NAMED_MAX));
    }
    names.join(", ")
}

/// The session whose id begins most like the one that was asked for, or how to list all.
fn instead(asked: &str, ids: &[String]) -> String {
    let beginnings = ids.iter().filter_map(|id| id.get(..asked.len().min(id.len())));
    let near = suggest::nearest(asked, beginnings);
    match near.and_then(|near| ids.iter().find(|id| id.starts_with(near))) {
        _ if ids.is_empty() => "none is kept yet".into(),
        Some(near) => format!("did you mean {}?", Sessions::short(near)),
        None => "`belljar session ls` lists them".into(),
    }
}

#[cfg(test)]
mod tests {
    use belljar_base::clock;

    use super::*;
    use crate::journal::{Journal, JournalDetail, RunBegun};

    fn ids(sessions: &Sessions) -> Vec<String> {
        sessions.all().unwrap().into_iter().map(|about| about.id).collect()
    }

    /// A session of one run, which goes on as long as this is held.
    fn session(dir: &Path, id: &str, limits: &Limits, code: &str) -> Journal {
        let journal = Journal::new(JournalDetail::Calls, Some(dir.into()), id, limits);
        let (code, servers) = (code.to_owned(), vec![]);
        let run = RunBegun {
            run: 1,
            time: clock::timestamp(),
            code,
            servers,
            timeout_ms: 1_000,
            dry_run: false,
            checkpoint: None,
            aside: false,
        };
        journal.begin("test", &Record::Run(run));
        journal
    }

    fn id(number: u8) -> String {
        format!("{number:02x}").repeat(8)
    }

    #[test]
    fn sessions_are_found_by_the_beginning_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let (path, limits) = (dir.path(), Limits::default());
        let sessions = Sessions::new(path.into(), &limits);
        let said = |asked: &str| sessions.find(asked).unwrap_err().to_string();
        assert_eq!(said("a"), "there is no session \"a\"; none is kept yet");
        let [one, other] = ["aabbccdd00112233", "aabbccee00112233"];
        drop(session(path, one, &limits, "1"));
        drop(session(path, other, &limits, "1"));
        fs::write(path.join("notes.jsonl"), "x").unwrap();
        fs::write(path.join("ffffffffffffffff.jsonl"), "x").unwrap();
        assert_eq!(ids(&sessions), [one, other]);
        assert_eq!(sessions.find("aabbccd").unwrap(), one);
        assert_eq!(sessions.find("AABBCCE").unwrap(), other);
        assert_eq!(sessions.find("last").unwrap(), other);
        assert_eq!(said("aabb"), format!("several sessions begin with \"aabb\": {one}, {other}"));
        assert_eq!(said("aabbcdd"), "there is no session \"aabbcdd\"; did you mean aabbccdd?");
        assert_eq!(said("../x"), "there is no session \"../x\"; `belljar session ls` lists them");
        let error = sessions.read("ffffffffffffffff").unwrap_err().to_string();
        assert!(error.starts_with("the journal of ffffffff cannot be read: "), "{error}");
    }

    #[test]
    fn a_session_that_is_no_earlier_one_is_refused_for_one_reason() {
        let dir = tempfile::tempdir().unwrap();
        let (path, limits) = (dir.path(), Limits::default());
        let sessions = Sessions::new(path.into(), &limits);
        drop(session(path, &id(1), &limits, "1"));
        let _open = session(path, &id(2), &limits, "1");
        let own = session(path, &id(3), &limits, "1");
        let text = fs::read_to_string(sessions.path(&id(1))).unwrap();
        let of_another = text.replace(r#""client":"test""#, r#""client":"other""#).replace(&id(1), &id(4));
        fs::write(sessions.path(&id(4)), of_another).unwrap();
        let begun: String = text.lines().take(1).map(|line| line.replace(&id(1), &id(5)) + "\n").collect();
        fs::write(sessions.path(&id(5)), begun).unwrap();
        let said = |number| sessions.earlier_than(&id(3), &id(number)).map_err(|error| error.to_string());
        assert_eq!(said(1), Ok(id(1)));
        assert_eq!(said(2), Err("the session 02020202 is in use".into()));
        assert_eq!(said(3), Err("not from session 03030303: it is this one".into()));
        assert_eq!(said(4), Err("not from session 04040404: it is of another client".into()));
        assert_eq!(said(5), Err("not from session 05050505: it has no run that can be made again".into()));
        drop(own);
    }

    #[test]
    fn one_that_goes_on_is_neither_removed_nor_made_room_with() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { journals_max: 3, ..Limits::default() };
        let sessions = Sessions::new(dir.path().into(), &limits);
        let first = session(dir.path(), &id(1), &limits, "1");
        assert!(sessions.all().unwrap()[0].is_open);
        assert_eq!(sessions.remove(&id(1)).unwrap_err().to_string(), "the session 01010101 is in use");
        for number in 2..=6 {
            drop(session(dir.path(), &id(number), &limits, "1"));
            set_age(&sessions, &id(number), i64::from(number));
        }
        assert_eq!(ids(&sessions), [id(1), id(5), id(6)]);
        drop(first);
        assert!(!sessions.all().unwrap()[0].is_open);
        sessions.remove(&id(1)).unwrap();
        assert_eq!(ids(&sessions), [id(5), id(6)]);
    }

    #[test]
    fn what_was_only_begun_goes_with_the_next_session_unless_it_is_in_use_or_no_journal() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits::default();
        let sessions = Sessions::new(dir.path().into(), &limits);
        let whole = "{\"session\":{}}\n";
        for (number, content) in
            [(1, ""), (2, "{\"ses"), (3, "{\"session\":{\"ver"), (4, whole), (5, "x"), (6, "")]
        {
            fs::write(sessions.path(&id(number)), content).unwrap();
        }
        let in_use = Flock::lock(File::open(sessions.path(&id(6))).unwrap(), FlockArg::LockExclusiveNonblock);
        drop(session(dir.path(), &id(7), &limits, "1"));
        assert_eq!(sessions.ids().unwrap(), [id(4), id(5), id(6), id(7)]);
        drop(in_use);
        drop(session(dir.path(), &id(8), &limits, "1"));
        assert_eq!(sessions.ids().unwrap(), [id(4), id(5), id(7), id(8)]);
    }

    #[test]
    fn the_oldest_go_when_all_are_too_large() {
        let dir = tempfile::tempdir().unwrap();
        let limits =
            Limits { journal_session_bytes_max: 3_000, journals_bytes_max: 8_000, ..Limits::default() };
        let sessions = Sessions::new(dir.path().into(), &limits);
        for number in 1..=4 {
            drop(session(dir.path(), &id(number), &limits, &"x".repeat(2_000)));
            set_age(&sessions, &id(number), i64::from(number));
        }
        assert_eq!(ids(&sessions), [id(2), id(3), id(4)]);
    }

    fn set_age(sessions: &Sessions, id: &str, seconds: i64) {
        let time = nix::sys::time::TimeSpec::new(seconds, 0);
        let file = File::options().append(true).open(sessions.path(id)).unwrap();
        nix::sys::stat::futimens(&file, &time, &time).unwrap();
    }
}
