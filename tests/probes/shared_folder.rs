//! A folder of the host with a named pipe and a socket in it, both of which a program of the host reads.
//!
//! It is mounted where there is no defence, and asked for in `[[mount]]` by the session with one.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder, which goes with its owner, as do those who read.
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
        let made = Command::new("mkfifo").arg("--mode=666").arg(in_it("pipe")).status();
        assert!(made.expect("mkfifo is installed").success());
        let open_to_all =
            |path: PathBuf| fs::set_permissions(path, Permissions::from_mode(0o777)).expect("own file");
        open_to_all(in_it("pipe"));
        let socket = UnixDatagram::bind(in_it("socket")).expect("a socket");
        open_to_all(in_it("socket"));
        let pipe = OpenOptions::new().read(true).write(true).open(in_it("pipe")).expect("the pipe");
        Self { folder, _pipe: pipe, _socket: socket }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}
