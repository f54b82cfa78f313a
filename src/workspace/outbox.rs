//! The outbox: copies of the files that sessions have handed over to the user, in one folder for each session.
//!
//! It keeps within its bounds by removing the oldest, never anything of a session that goes on. It knows nothing of how the
//! user comes to the files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use belljar_base::limits::Limits;
use belljar_base::names::WorkspaceName;

use super::file_path::FilePath;
use super::folder::{View, Workspace, WorkspaceError, WorkspaceLocation, lock, lock_all, lock_path, names};

/// The folder of all sessions' files, and its bounds; each session's are those of a workspace.
#[derive(Debug, Clone)]
pub struct Outbox {
    root: PathBuf,
    limits: Limits,
}

/// The files that one session has handed over.
#[derive(Debug, Clone)]
pub struct SessionOutbox {
    /// The session.
    pub session: WorkspaceName,
    /// The files.
    pub view: View,
    /// The time at which the last file was handed over, in seconds and nanoseconds since 1970.
    last: (i64, i64),
}

impl Outbox {
    /// The one in this folder, which is made when something is first handed over.
    #[must_use]
    pub fn new(root: PathBuf, limits: &Limits) -> Self {
        Self { root, limits: limits.clone() }
    }

    /// The part of a session, which nobody else has.
    ///
    /// # Errors
    /// When another process has it, or its folder cannot be made.
    pub fn of(&self, session: &WorkspaceName) -> Result<Workspace, WorkspaceError> {
        let location = WorkspaceLocation { root: self.root.clone(), name: Some(session.clone()) };
        Workspace::open(&location, &self.limits)
    }

    /// Takes in a file of this session. Where there is no room, the files of the session that handed over last the longest
    /// time ago go, and then the oldest of this one.
    ///
    /// # Errors
    /// When it is no plain file, or cannot be kept.
    pub fn take(&self, own: &mut Workspace, path: &FilePath, file: File) -> Result<(), WorkspaceError> {
        let of_file = |error| WorkspaceError::File { path: path.clone(), error };
        let about = file.metadata().map_err(of_file)?;
        if !about.is_file() {
            return Err(of_file(io::Error::other("it is no plain file")));
        }
        let full = || WorkspaceError::Full {
            bytes_max: self.limits.workspace_bytes_max.min(self.limits.outbox_bytes_max),
            files_max: self.limits.workspace_files_max,
        };
        // Nothing goes for what there is no room for in any case.
        if about.len() > self.limits.workspace_bytes_max.min(self.limits.outbox_bytes_max) {
            return Err(full());
        }
        own.mark_time().map_err(of_file)?;
        let room = self.make_room(own, about.len()).map_err(of_file)?;
        if about.len() > room {
            return Err(full());
        }
        while own.bytes().saturating_add(about.len()) > room && own.remove_oldest()? {}
        loop {
            // It reads nothing of a file that there is no room for.
            match own.put(path, file.try_clone().map_err(of_file)?) {
                Err(WorkspaceError::Full { .. }) if own.remove_oldest()? => {}
                done => return done,
            }
        }
    }

    /// What all sessions have handed over, the last one last.
    ///
    /// # Errors
    /// When the folder cannot be read; one that is not there has nothing.
    pub fn all(&self) -> io::Result<Vec<SessionOutbox>> {
        let mut all = Vec::new();
        for session in names(&self.root)? {
            let folder = self.root.join(session.as_str());
            let is_folder = fs::symlink_metadata(&folder).is_ok_and(|about| about.is_dir());
            let last =
                fs::symlink_metadata(lock_path(&folder)).map(|about| (about.mtime(), about.mtime_nsec()));
            // What somebody else has put there is not ours to show or to remove.
            if let (true, true, Ok(last), Some(view)) =
                (is_folder, is_session(&session), last, View::named(&self.root, &session))
            {
                all.push(SessionOutbox { session, view, last });
            }
        }
        all.sort_by(|one, other| (one.last, one.session.as_str()).cmp(&(other.last, other.session.as_str())));
        Ok(all)
    }

    /// The session that has handed over a file of this path last.
    #[must_use]
    pub fn last_with(&self, path: &FilePath) -> Option<WorkspaceName> {
        let all = self.all().ok()?;
        all.into_iter().rev().find(|of| of.view.has(path)).map(|of| of.session)
    }

    /// Removes what sessions that have ended handed over, the oldest first, until there is room for so many bytes more of this
    /// one; gives the bytes that this one may have in all.
    fn make_room(&self, own: &Workspace, bytes: u64) -> io::Result<u64> {
        // Two at once would both count what the other one removes.
        let _of_all = lock_all(&self.root)?;
        let own_folder = own.folder();
        let mut others = Vec::new();
        for of in self.all()? {
            if self.root.join(of.session.as_str()) != own_folder {
                let kept = of.view.all().unwrap_or_default();
                others.push((of.session, kept.iter().map(|kept| kept.bytes).sum::<u64>()));
            }
        }
        let (mut count, mut taken) = (others.len() + 1, others.iter().map(|(_, bytes)| bytes).sum::<u64>());
        for (session, of_session) in others {
            let wanted = taken.saturating_add(own.bytes()).saturating_add(bytes);
            if count <= self.limits.outbox_sessions_max && wanted <= self.limits.outbox_bytes_max {
                break;
            }
            if remove_ended(&self.root.join(session.as_str()))? {
                count -= 1;
                taken -= of_session;
            }
        }
        Ok(self.limits.outbox_bytes_max.saturating_sub(taken))
    }
}

/// Removes the folder of a session, unless that goes on.
fn remove_ended(folder: &Path) -> io::Result<bool> {
    let Some(_lock) = lock(folder)? else { return Ok(false) };
    fs::remove_dir_all(folder)?;
    Ok(true)
}

/// As the bridge names sessions.
fn is_session(name: &WorkspaceName) -> bool {
    let name = name.as_str();
    (16..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
