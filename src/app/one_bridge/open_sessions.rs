//! The sessions over HTTP of one owner that clients may come back to after `belljar serve` has ended or put them aside: a file for
//! each, with the journal from which it resumes.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use belljar_base::own_file;
use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError};
use serde::{Deserialize, Serialize};

/// The largest file, in bytes: what a client says of itself is in it.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// The largest number of files. The oldest gives way.
const FILES_MAX: usize = 256;
/// Longest id of a session, in bytes.
const ID_BYTES_MAX: usize = 64;

/// The sessions in this folder.
#[derive(Debug, Clone)]
pub(super) struct OpenSessions {
    dir: PathBuf,
    /// When the owner's token was made: who gets a token of the same name later has none of the sessions.
    token: String,
    /// How long a session can be found again after it has begun.
    time: Duration,
}

/// What is stored of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    token: String,
    /// The id of its journal, once it has begun.
    #[serde(default)]
    journal: Option<String>,
    /// How the client opened its connection, if it has one.
    #[serde(default)]
    opened: Option<SessionState>,
}

impl OpenSessions {
    pub(super) fn new(dir: PathBuf, token: &str, time: Duration) -> Self {
        Self { dir, token: token.to_owned(), time }
    }

    /// The id of the journal of the session with this id or name; `None`: no such session can go on.
    pub(super) fn journal(&self, id: &str) -> Option<String> {
        self.stored(id)?.journal
    }

    /// Stores that the session with this id or name has this journal now.
    pub(super) fn begun(&self, id: &str, journal: &str) {
        let stored = Stored { journal: Some(journal.to_owned()), ..self.stored(id).unwrap_or_default() };
        if let Err(error) = self.write(id, stored) {
            tracing::warn!(%error, "a session will not be found again");
        }
    }

    fn stored(&self, id: &str) -> Option<Stored> {
        let path = self.dir.join(file_of(id)?);
        let age = path.metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default();
        let stored: Stored = serde_json::from_slice(&own_file::read(&path, FILE_BYTES_MAX).ok()?).ok()?;
        (stored.token == self.token && age < self.time).then_some(stored)
    }

    fn write(&self, id: &str, stored: Stored) -> io::Result<()> {
        let name = file_of(id).ok_or_else(|| io::Error::other("the id of the session is odd"))?;
        let stored = Stored { token: self.token.clone(), ..stored };
        let json = serde_json::to_vec(&stored).map_err(io::Error::other)?;
        if json.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other("what the client says of itself is too long to be stored"));
        }
        own_file::write(&self.dir, &name, &json)?;
        self.remove_old()
    }

    fn remove_old(&self) -> io::Result<()> {
        let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
        for file in std::fs::read_dir(&self.dir)? {
            let file = file?;
            files.push((file.metadata()?.modified()?, file.path()));
        }
        files.sort();
        for (_, path) in &files[..files.len().saturating_sub(FILES_MAX)] {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }

    fn remove(&self, id: &str) -> io::Result<()> {
        let Some(name) = file_of(id) else { return Ok(()) };
        match std::fs::remove_file(self.dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

#[async_trait::async_trait]
impl SessionStore for OpenSessions {
    async fn load(&self, session_id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        Ok(self.stored(session_id).and_then(|stored| stored.opened))
    }

    async fn store(&self, session_id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let stored = self.stored(session_id).unwrap_or_default();
        Ok(self.write(session_id, Stored { opened: Some(state.clone()), ..stored })?)
    }

    async fn delete(&self, session_id: &str) -> Result<(), SessionStoreError> {
        Ok(self.remove(session_id)?)
    }
}

/// The name of a session's file; `None`: no session has such an id.
fn file_of(id: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (!id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(is_plain)).then(|| format!("{id}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_is_found_by_its_owner_s_token_within_its_time() {
        let place = tempfile::tempdir().unwrap();
        let sessions = |token: &str, hours: u64| {
            OpenSessions::new(place.path().join("open"), token, Duration::from_secs(hours * 3_600))
        };
        let own = sessions("made at noon", 1);
        own.begun("a-1", "journal");
        let opened = r#"{"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}"#;
        let state = SessionState::new(serde_json::from_str(opened).unwrap());
        own.store("a-1", &state).await.unwrap();
        assert_eq!(own.journal("a-1").as_deref(), Some("journal"), "opening it again loses nothing");
        assert_eq!(own.load("a-1").await.unwrap().unwrap().initialize_params.client_info.name, "c");
        assert_eq!(sessions("made at one", 1).journal("a-1"), None);
        assert_eq!(sessions("made at noon", 0).journal("a-1"), None);
        for odd in ["", "..", "../open/a-1", "a/1", "a-2", &"a".repeat(65)] {
            own.begun(odd, "x");
            assert!(odd == "a-2" || own.journal(odd).is_none(), "{odd}");
        }
        own.delete("a-1").await.unwrap();
        own.delete("a-1").await.unwrap();
        assert_eq!(own.journal("a-1"), None);
    }

    #[test]
    fn the_oldest_files_give_way() {
        let place = tempfile::tempdir().unwrap();
        let own = OpenSessions::new(place.path().to_owned(), "t", Duration::MAX);
        for number in 0..FILES_MAX + 3 {
            own.begun(&format!("s{number}"), "j");
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), FILES_MAX);
        assert!(own.journal(&format!("s{}", FILES_MAX + 2)).is_some());
    }
}
