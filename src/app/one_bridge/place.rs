//! The socket of the shared bridge, and the lock that only one of them has.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_base::resolved_path::ResolvedPath;
use belljar_base::{digest, own_file};
use nix::fcntl::{Flock, FlockArg};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::{UnixListener, UnixStream};

use crate::config::Config;

/// The place of the shared bridge of one user.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    dir: PathBuf,
    /// The folder of the key; `None`: the user has no home.
    state: Option<PathBuf>,
}

/// The time between two looks whether the place is free.
const AGAIN: Duration = Duration::from_millis(10);
/// The largest file with a key, in bytes.
const KEY_BYTES_MAX: u64 = 100;

/// The lock that the shared bridge holds while it runs.
const LOCK: &str = "serve.lock";
/// What ended bridges leave in the folder of locks. A bridge with a sandbox has a lock of its own there.
const IDLE: [&str; 5] = ["folder-number", LOCK, "serve.log", "serve.sock", "serve.starting"];

impl Place {
    /// The place in the folder of locks, which belongs to the user alone, and its key in the state folder.
    pub(crate) fn new(config: &Config) -> Self {
        Self { dir: config.lock_dir.clone(), state: config.own_state_dir.clone() }
    }

    /// The key of the bridge that listens. Without one it is empty, and no bridge has an empty key.
    pub(super) fn key(&self) -> String {
        let state = self.state.as_ref();
        let key = state.and_then(|state| own_file::read(&state.join(self.key_file()), KEY_BYTES_MAX).ok());
        key.and_then(|key| String::from_utf8(key).ok()).unwrap_or_default()
    }

    /// The name of the file with the key. Bridges with other folders of locks, which clients with few variables start, have keys of
    /// their own.
    fn key_file(&self) -> String {
        let digest = digest::sha256(ResolvedPath::of(&self.dir).end.as_os_str().as_encoded_bytes());
        format!("serve-{digest:.16}.key")
    }

    /// Makes the key of the bridge that is about to listen.
    ///
    /// # Errors
    /// It cannot be stored.
    fn make_key(&self) -> io::Result<String> {
        let state = self.state.as_ref().ok_or_else(|| io::Error::other("no home folder is known"))?;
        let mut bytes = [0; 32];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| io::Error::other("the system gives no random bytes"))?;
        let key = digest::hex(&bytes);
        own_file::write(state, &self.key_file(), key.as_bytes())?;
        Ok(key)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("serve.sock")
    }

    /// The file of what a bridge says that a relay has started.
    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("serve.log")
    }

    /// Connects to the running bridge.
    ///
    /// # Errors
    /// No bridge is running, or it does not answer, or another user's program is in its place.
    pub(super) async fn connect(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(self.socket()).await?;
        // What is sent has the credentials of servers in it.
        match stream.peer_cred()?.uid() {
            uid if uid == nix::unistd::geteuid().as_raw() => Ok(stream),
            uid => Err(io::Error::other(format!("user {uid} listens at {}", self.socket().display()))),
        }
    }

    /// Takes the place, makes its key, and listens there. A socket that a killed bridge has left is replaced.
    ///
    /// # Errors
    /// `AddrInUse`: another bridge has the place. Or the system refuses.
    pub(super) fn listen(&self) -> io::Result<(UnixListener, Flock<File>, String)> {
        let lock = self.lock(LOCK, FlockArg::LockExclusiveNonblock)?;
        let key = self.make_key()?;
        let socket = self.socket();
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Only this user can come to the folder, whatever the mode of the socket is until the next line.
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
        Ok((listener, lock, key))
    }

    /// Waits until the bridge that had the place has ended, at most this long.
    pub(super) async fn left(&self, within: Duration) {
        let waiting = async {
            while self.lock(LOCK, FlockArg::LockExclusiveNonblock).is_err() {
                tokio::time::sleep(AGAIN).await;
            }
        };
        if tokio::time::timeout(within, waiting).await.is_err() {
            tracing::warn!("the bridge has not ended yet");
        }
    }

    /// The turn to start a bridge. Others wait for it, and then find that one.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn turn_to_start(&self) -> io::Result<Flock<File>> {
        self.lock("serve.starting", FlockArg::LockExclusive)
    }

    /// The folder of locks, if no bridge uses it: only what ended bridges leave is in it.
    pub(crate) fn idle(&self) -> Option<&Path> {
        let mut files = std::fs::read_dir(&self.dir).ok()?.filter_map(Result::ok);
        let is_idle = files.all(|file| IDLE.iter().any(|name| file.file_name() == *name));
        (is_idle && self.lock(LOCK, FlockArg::LockExclusiveNonblock).is_ok()).then_some(&*self.dir)
    }

    /// Removes this folder, unless a bridge uses it now. No shared bridge starts meanwhile.
    ///
    /// # Errors
    /// It is in use, or the system refuses.
    pub(crate) fn remove_idle(&self) -> io::Result<()> {
        let _starting = self.lock("serve.starting", FlockArg::LockExclusiveNonblock)?;
        let _serving = self.lock(LOCK, FlockArg::LockExclusiveNonblock)?;
        for name in IDLE.into_iter().filter(|name| *name != LOCK).chain([LOCK]) {
            match std::fs::remove_file(self.dir.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::remove_dir(&self.dir)
    }

    fn lock(&self, name: &str, how: FlockArg) -> io::Result<Flock<File>> {
        own_file::make_folder(&self.dir)?;
        let file = own_file::open(&self.dir.join(name), File::options().append(true).create(true))?;
        Flock::lock(file, how).map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => io::ErrorKind::AddrInUse.into(),
            errno => errno.into(),
        })
    }
}
