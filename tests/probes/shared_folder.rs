//! Folders of the host that are mounted, with named pipes and a socket in them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

/// A folder with a named pipe and a socket, both of which a program of the host reads: a mount of it is refused.
pub struct SharedFolder {
    folder: tempfile::TempDir,
    _pipe: File,
    _socket: UnixDatagram,
}

impl SharedFolder {
    /// Where code finds it.
    pub const GUEST: &'static str = "/mnt/shared";

    pub fn new() -> Self {
        let mode = Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().permissions(mode).tempdir().expect("a folder");
        let in_it = |name: &str| folder.path().join(name);
        make_pipe(&in_it("pipe"));
        let socket = UnixDatagram::bind(in_it("socket")).expect("a socket");
        fs::set_permissions(in_it("socket"), Permissions::from_mode(0o777)).expect("own file");
        let pipe = OpenOptions::new().read(true).write(true).open(in_it("pipe")).expect("the pipe");
        Self { folder, _pipe: pipe, _socket: socket }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A folder that is mounted while it is empty, and in which a named pipe appears afterwards: Landlock refuses it.
pub struct Pipes(tempfile::TempDir);

impl Pipes {
    /// Where code finds it.
    pub const GUEST: &'static str = "/mnt/pipes";

    pub fn new() -> Self {
        let mode = Permissions::from_mode(0o755);
        Self(tempfile::Builder::new().permissions(mode).tempdir().expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// `pipe`, which everybody may write to.
    pub fn make(&self) {
        make_pipe(&self.path().join("pipe"));
    }
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg("--mode=666").arg(path).status();
    assert!(made.expect("mkfifo is installed").success());
    fs::set_permissions(path, Permissions::from_mode(0o666)).expect("own file");
}
