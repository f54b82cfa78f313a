//! The socket of the shared bridge, and the lock that only one of them has.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use belljar_base::own_file;
use nix::fcntl::{Flock, FlockArg};
use tokio::net::{UnixListener, UnixStream};

/// The place of the shared bridge of one user.
#[derive(Debug, Clone)]
pub(super) struct Place {
    dir: PathBuf,
}

impl Place {
    /// The place in this folder, which belongs to the user alone.
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
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

    /// Takes the place, and listens there. A socket that a killed bridge has left is replaced.
    ///
    /// # Errors
    /// `AddrInUse`: another bridge has the place. Or the system refuses.
    pub(super) fn listen(&self) -> io::Result<(UnixListener, Flock<File>)> {
        let lock = self.lock("serve.lock", FlockArg::LockExclusiveNonblock)?;
        let socket = self.socket();
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Only this user can come to the folder, whatever the mode of the socket is until the next line.
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
        Ok((listener, lock))
    }

    /// The turn to start a bridge. Others wait for it, and then find that one.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn turn_to_start(&self) -> io::Result<Flock<File>> {
        self.lock("serve.starting", FlockArg::LockExclusive)
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
