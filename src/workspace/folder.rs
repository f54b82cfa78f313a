//! One workspace's folder on the host: who holds it, what comes in, what is in it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::WorkspaceName;
use belljar_base::own_file;
use belljar_base::resolved_path::is_written_by_others;
use nix::fcntl::{Flock, FlockArg, OFlag};

use super::file_path::FilePath;
use super::pieces::{Piece, modified, pieces_of};

/// Where the files are, in a workspace's folder.
const FILES: &str = "files";
/// Where a file is while it is not whole.
const INCOMING: &str = "incoming";
/// What says that somebody has the workspace.
const LOCK: &str = "lock";
/// What names of workspaces that end with their session begin with.
const OF_SESSION: &str = ".session-";

/// The location of a workspace.
#[derive(Debug, Clone)]
pub struct WorkspaceLocation {
    /// The folder of all workspaces.
    pub root: PathBuf,
    /// The name of a workspace that is kept. Without a name, the workspace ends with its holder.
    pub name: Option<WorkspaceName>,
}

/// A folder of the user alone that stays the same, whatever takes the place of its name.
#[derive(Debug, Clone)]
struct HeldFolder {
    /// Its name when it was opened.
    name: PathBuf,
    /// The path of what was opened.
    path: PathBuf,
    _held: Arc<File>,
}

impl HeldFolder {
    /// Opens a folder, not a symlink. Below the first one, only folders of this user alone are opened.
    fn open(name: &Path) -> io::Result<Self> {
        let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
        Self::of(name.to_owned(), OpenOptions::new().read(true).custom_flags(flags).open(name)?)
    }

    fn below(&self, name: &str) -> io::Result<Self> {
        let below = Self::open(&self.path.join(name))?;
        let about = below._held.metadata()?;
        let uid = nix::unistd::geteuid().as_raw();
        if about.uid() != uid || is_written_by_others(&about, uid) {
            return Err(io::Error::other("another folder has taken its place"));
        }
        Ok(Self { name: self.name.join(name), ..below })
    }

    fn of(name: PathBuf, held: File) -> io::Result<Self> {
        let path = match cfg!(target_os = "linux") {
            true => PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())),
            false => name.clone(),
        };
        Ok(Self { name, path, _held: Arc::new(held) })
    }
}

/// A workspace that nobody else has.
#[derive(Debug)]
pub struct Workspace {
    /// The folder of all workspaces.
    root: HeldFolder,
    folder: HeldFolder,
    files: HeldFolder,
    unfinished: HeldFolder,
    is_kept: bool,
    bytes_max: u64,
    files_max: usize,
    incoming: Option<(FilePath, File, u64)>,
    /// What is in it, with the bytes of each file.
    sizes: BTreeMap<FilePath, u64>,
    lock: Flock<File>,
}

/// A file that the workspace stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// The path.
    pub path: FilePath,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// The size in bytes, which is 0 for a folder.
    pub bytes: u64,
}

/// The reason for which a workspace cannot be used, or a file cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Another process has it.
    #[error("the workspace \"{name}\" is in use by another belljar")]
    InUse {
        /// Its name.
        name: String,
    },
    /// Its folder cannot be used.
    #[error("the folder {} cannot be used: {error}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be kept or read.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: FilePath,
        /// Why.
        error: io::Error,
    },
    /// The pieces of a file do not follow each other.
    #[error("{path} came in pieces that do not fit together")]
    Pieces {
        /// Which.
        path: FilePath,
    },
    /// There is more than may be kept.
    #[error("there is room for at most {bytes_max} bytes in {files_max} files and folders")]
    Full {
        /// Bytes of all files.
        bytes_max: u64,
        /// Files and folders.
        files_max: usize,
    },
}

impl Workspace {
    /// Takes the workspace, and makes its folder if need be. Also removes what sessions have left that ended without
    /// ending theirs.
    ///
    /// # Errors
    /// When another process has it, or its folder cannot be made.
    pub fn open(location: &WorkspaceLocation, limits: &Limits) -> Result<Self, WorkspaceError> {
        let of_root = |error| WorkspaceError::Folder { folder: location.root.clone(), error };
        own_file::make_folder(&location.root).map_err(of_root)?;
        // Until this one has its lock: so one that has none is being made by nobody.
        let _of_all = lock_all(&location.root).map_err(of_root)?;
        remove_left(&location.root);
        let (folder, is_kept) = match &location.name {
            Some(name) => (location.root.join(name.as_str()), true),
            None => {
                let made = tempfile::Builder::new()
                    .prefix(OF_SESSION)
                    .tempdir_in(&location.root)
                    .map_err(of_root)?;
                (made.keep(), false)
            }
        };
        let of_folder = |error| WorkspaceError::Folder { folder: folder.clone(), error };
        own_file::make_plain_folder(&folder).map_err(of_folder)?;
        let in_use = || WorkspaceError::InUse {
            name: location.name.as_ref().map_or_else(String::new, ToString::to_string),
        };
        let lock = lock(&folder).map_err(of_folder)?.ok_or_else(in_use)?;
        for part in [FILES, INCOMING] {
            own_file::make_plain_folder(&folder.join(part)).map_err(of_folder)?;
        }
        // The root may be the user's own symlink.
        let root = File::open(&location.root).and_then(|held| HeldFolder::of(location.root.clone(), held));
        let root = root.map_err(of_root)?;
        let name = location.name.as_ref().map(|name| name.as_str());
        let name = name.or_else(|| folder.file_name()?.to_str());
        let name = name.ok_or_else(|| of_folder(io::ErrorKind::InvalidFilename.into()))?;
        let held = root.below(name).map_err(of_folder)?;
        let mut workspace = Self {
            files: held.below(FILES).map_err(of_folder)?,
            unfinished: held.below(INCOMING).map_err(of_folder)?,
            root,
            folder: held,
            is_kept,
            bytes_max: limits.workspace_bytes_max,
            files_max: limits.workspace_files_max,
            incoming: None,
            sizes: BTreeMap::new(),
            lock,
        };
        workspace.sizes = workspace.view().all()?.into_iter().map(|kept| (kept.path, kept.bytes)).collect();
        fs::remove_file(workspace.part()).or_else(absent).map_err(of_folder)?;
        Ok(workspace)
    }

    /// Takes in a piece. With the last one the file is there in the place of what had its name.
    ///
    /// # Errors
    /// When it does not fit to the pieces before it, there is no room for it, or it cannot be written; the file is as it was
    /// then.
    pub fn take(&mut self, piece: &Piece) -> Result<(), WorkspaceError> {
        let of_file = |error| WorkspaceError::File { path: piece.path.clone(), error };
        let before = self.incoming.take();
        if piece.is_folder {
            self.check_room(&piece.path, 0)?;
            self.make_room(&piece.path, true).and_then(|target| make_folder(&target)).map_err(of_file)?;
            self.sizes.insert(piece.path.clone(), 0);
            return Ok(());
        }
        let (file, at) = match before {
            _ if piece.offset == 0 => (self.begin().map_err(of_file)?, 0),
            Some((path, file, at)) if path == piece.path && at == piece.offset => (file, at),
            _ => return Err(WorkspaceError::Pieces { path: piece.path.clone() }),
        };
        let at = at + piece.bytes.len() as u64;
        self.check_room(&piece.path, at)?;
        (&file).write_all(&piece.bytes).map_err(of_file)?;
        if !piece.is_last {
            self.incoming = Some((piece.path.clone(), file, at));
            return Ok(());
        }
        self.finish(piece, &file).map_err(of_file)?;
        self.sizes.insert(piece.path.clone(), at);
        Ok(())
    }

    /// Whether there is room for a file of so many bytes in the place of what has its name.
    fn check_room(&self, path: &FilePath, bytes: u64) -> Result<(), WorkspaceError> {
        let others = || self.sizes.iter().filter(|(other, _)| *other != path);
        let room = self.bytes_max.saturating_sub(others().map(|(_, bytes)| bytes).sum());
        if bytes > room || others().count() >= self.files_max { Err(self.full()) } else { Ok(()) }
    }

    /// Takes in a file of the host's, whole.
    ///
    /// # Errors
    /// When it cannot be read or kept, or there would be more than a workspace may hold; nothing has changed then.
    pub fn put(&mut self, path: &FilePath, file: File) -> Result<(), WorkspaceError> {
        let of_file = |error| WorkspaceError::File { path: path.clone(), error };
        if path.below(&self.files_folder()).is_dir() {
            return Err(of_file(io::Error::other("there is a folder of that name")));
        }
        self.check_room(path, file.metadata().map_err(of_file)?.len())?;
        for piece in pieces_of(path.clone(), file).map_err(of_file)? {
            self.take(&piece.map_err(of_file)?)?;
        }
        Ok(())
    }

    /// Removes a file, or an empty folder; one that is not there is removed already.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&mut self, path: &FilePath) -> Result<(), WorkspaceError> {
        let of_file = |error| WorkspaceError::File { path: path.clone(), error };
        let target = plain(&self.files_folder(), path).map_err(of_file)?;
        let removed = match fs::symlink_metadata(&target) {
            Ok(about) if about.is_dir() => fs::remove_dir(&target),
            Ok(_) => fs::remove_file(&target),
            Err(error) => Err(error),
        };
        removed.or_else(absent).map_err(of_file)?;
        self.sizes.remove(path);
        Ok(())
    }

    /// Removes the file that was put in the longest time ago, and the folders that are empty without it; says whether there was
    /// one.
    ///
    /// # Errors
    /// When the folder cannot be read, or the file cannot be removed.
    pub fn remove_oldest(&mut self) -> Result<bool, WorkspaceError> {
        let files = self.files_folder();
        // What a file says of its last change is what its sandbox has said.
        let put_in = |path: &FilePath| {
            let about = fs::symlink_metadata(path.below(&files)).ok()?;
            Some((about.ctime(), about.ctime_nsec()))
        };
        let all = self.view().all()?.into_iter().filter(|kept| !kept.is_folder);
        let Some(oldest) = all.min_by_key(|kept| put_in(&kept.path)) else { return Ok(false) };
        self.remove(&oldest.path)?;
        for (at, _) in oldest.path.as_str().rmatch_indices('/') {
            let folder = FilePath::new(&oldest.path.as_str()[..at]);
            if !folder.is_ok_and(|folder| self.remove(&folder).is_ok()) {
                break;
            }
        }
        Ok(true)
    }

    /// Bytes of all its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sizes.values().sum()
    }

    /// Removes it with all that is in it.
    pub fn discard(mut self) {
        self.is_kept = false;
    }

    /// Has its lock say that it was used now.
    pub(super) fn mark_time(&self) -> io::Result<()> {
        let now = nix::sys::time::TimeSpec::UTIME_NOW;
        Ok(nix::sys::stat::futimens(&*self.lock, &now, &now)?)
    }

    /// Its folder, with more than its files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder.name
    }

    /// What is in it.
    #[must_use]
    pub fn view(&self) -> View {
        View { files: self.files.clone() }
    }

    fn begin(&self) -> io::Result<File> {
        let flags = OFlag::O_NOFOLLOW.bits();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(self.part())
    }

    fn finish(&self, piece: &Piece, file: &File) -> io::Result<()> {
        let mode = if piece.is_executable { 0o700 } else { 0o600 };
        file.set_permissions(Permissions::from_mode(mode))?;
        file.set_times(FileTimes::new().set_modified(modified(piece)))?;
        let target = self.make_room(&piece.path, false)?;
        fs::rename(self.part(), target)
    }

    /// Its folders are there, and nothing of another kind has its name.
    fn make_room(&self, path: &FilePath, is_folder: bool) -> io::Result<PathBuf> {
        let target = plain(&self.files_folder(), path)?;
        if let Some(folder) = target.parent() {
            make_folder(folder)?;
        }
        match fs::symlink_metadata(&target) {
            Ok(about) if about.is_dir() && !is_folder => fs::remove_dir(&target)?,
            Ok(about) if !about.is_dir() && is_folder => fs::remove_file(&target)?,
            _ => {}
        }
        Ok(target)
    }

    fn files_folder(&self) -> PathBuf {
        self.files.path.clone()
    }

    fn part(&self) -> PathBuf {
        self.unfinished.path.join("part")
    }

    fn full(&self) -> WorkspaceError {
        WorkspaceError::Full { bytes_max: self.bytes_max, files_max: self.files_max }
    }
}

/// The content of a workspace, for readers that do not own it. Each file in it is complete.
#[derive(Debug, Clone)]
pub struct View {
    files: HeldFolder,
}

impl View {
    /// The workspace of this name; nothing when there is none.
    #[must_use]
    pub fn named(root: &Path, name: &WorkspaceName) -> Option<Self> {
        let root = HeldFolder::of(root.to_owned(), File::open(root).ok()?).ok()?;
        let files = root.below(name.as_str()).and_then(|folder| folder.below(FILES)).ok()?;
        Some(Self { files })
    }

    /// All files and folders, each folder before what is in it.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn all(&self) -> Result<Vec<StoredFile>, WorkspaceError> {
        let mut found = Vec::new();
        let of_folder = |error| WorkspaceError::Folder { folder: self.files.name.clone(), error };
        list(&self.files.path, "", &mut found).map_err(of_folder)?;
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    /// The pieces of a file.
    ///
    /// # Errors
    /// When it is not there, or is a link.
    pub fn pieces(
        &self,
        path: &FilePath,
    ) -> Result<impl Iterator<Item = io::Result<Piece>> + use<>, WorkspaceError> {
        let file = self.open(path)?;
        pieces_of(path.clone(), file).map_err(|error| WorkspaceError::File { path: path.clone(), error })
    }

    /// A file or folder, to be read.
    ///
    /// # Errors
    /// When it is not there, or is a link.
    pub fn open(&self, path: &FilePath) -> Result<File, WorkspaceError> {
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let target = plain(&self.files.path, path);
        let opened = target.and_then(|target| OpenOptions::new().read(true).custom_flags(flags).open(target));
        opened.map_err(|error| WorkspaceError::File { path: path.clone(), error })
    }

    /// Whether there is a plain file of this path.
    #[must_use]
    pub fn has(&self, path: &FilePath) -> bool {
        let about = self.open(path).ok().and_then(|file| file.metadata().ok());
        about.is_some_and(|about| about.is_file())
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// When it is not there, is no plain file, or has more bytes than these.
    pub fn read(&self, path: &FilePath, bytes_max: u64) -> Result<Vec<u8>, WorkspaceError> {
        let mut bytes = Vec::new();
        for piece in self.pieces(path)? {
            let piece = piece.map_err(|error| WorkspaceError::File { path: path.clone(), error })?;
            bytes.extend(piece.bytes);
            if piece.is_folder || bytes.len() as u64 > bytes_max {
                let why =
                    if piece.is_folder { "it is a folder" } else { "it is too large to be read at once" };
                let error = io::Error::other(why);
                return Err(WorkspaceError::File { path: path.clone(), error });
            }
        }
        Ok(bytes)
    }
}

/// The names of the workspaces that are kept, sorted.
///
/// # Errors
/// When the folder of all cannot be read; one that is not there has none.
pub fn names(root: &Path) -> io::Result<Vec<WorkspaceName>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        names.extend(name.to_str().and_then(|name| WorkspaceName::new(name).ok()));
    }
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    Ok(names)
}

/// Removes the workspaces of sessions that have ended without removing theirs.
pub fn sweep(root: &Path) {
    // Without the folder there is none.
    if let Ok(_of_all) = lock_all(root) {
        remove_left(root);
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // Nobody else removes it too when its lock has gone before the rest of it.
        // Without a name, the folder of all workspaces would be removed.
        let Some(name) = self.folder.name.file_name() else { return };
        let removed =
            lock_all(&self.root.path).and_then(|_of_all| fs::remove_dir_all(self.root.path.join(name)));
        if let Err(error) = removed {
            tracing::warn!(%error, "the files of the session could not be removed");
        }
    }
}

/// The path in this folder, which leads there without a link: the user may have put one in.
fn plain(folder: &Path, path: &FilePath) -> io::Result<PathBuf> {
    let target = path.below(folder);
    let parents = target.ancestors().skip(1).take_while(|parent| *parent != folder);
    for parent in parents {
        if parent.symlink_metadata().is_ok_and(|about| about.is_symlink()) {
            return Err(io::Error::other("a link in its path leads elsewhere"));
        }
    }
    Ok(target)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The lock of this workspace, unless somebody has it.
pub(super) fn lock(folder: &Path) -> io::Result<Option<Flock<File>>> {
    let flags = OFlag::O_NOFOLLOW.bits();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(lock_path(folder))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

/// The file in a workspace's folder that is locked while somebody has it.
pub(super) fn lock_path(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

/// Waits until nobody else makes or sweeps workspaces; it is free again when this is dropped, and when its holder ends in
/// whatever way.
pub(super) fn lock_all(root: &Path) -> io::Result<File> {
    let folder = File::open(root)?;
    folder.lock()?;
    Ok(folder)
}

/// Removes the workspaces of sessions that have ended without it. Its caller has the lock of all.
fn remove_left(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let is_of_session = entry.file_name().to_str().is_some_and(|name| name.starts_with(OF_SESSION));
        if !is_of_session {
            continue;
        }
        // One without a lock was killed while it was made, or while it was removed.
        match lock(&entry.path()) {
            Ok(Some(_lock)) => {
                if let Err(error) = fs::remove_dir_all(entry.path()) {
                    tracing::warn!(%error, "the files of an earlier session could not be removed");
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "whether a session has ended cannot be told"),
        }
    }
}

fn list(folder: &Path, prefix: &str, found: &mut Vec<StoredFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Who has the workspace may be changing it.
        let Ok(about) = entry.metadata() else { continue };
        let path = entry.file_name().to_str().map(|name| format!("{prefix}{name}"));
        // Of what the user has put there himself, names that no sandbox could take are left out, and links.
        let Some(path) = path.and_then(|path| FilePath::new(&path).ok()) else { continue };
        if about.is_dir() {
            let inner = format!("{path}/");
            found.push(StoredFile { path, is_folder: true, bytes: 0 });
            list(&entry.path(), &inner, found)?;
        } else if about.is_file() {
            found.push(StoredFile { path, is_folder: false, bytes: about.len() });
        }
    }
    Ok(())
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
