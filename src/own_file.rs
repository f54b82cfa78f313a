//! Small files of this user alone: mode 0600, in folders of mode 0700.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// The bytes of a plain file that nobody else could have written or read.
///
/// # Errors
/// When it is not there, is no such file, or has more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Neither a link nor a pipe is followed or waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = fs::File::options().read(true).custom_flags(flags.bits()).open(path)?;
    let about = file.metadata()?;
    let is_ours =
        about.is_file() && about.uid() == nix::unistd::geteuid().as_raw() && about.mode() & 0o077 == 0;
    if !is_ours || about.len() > bytes_max {
        return Err(io::Error::other("it is no plain file of this user alone, or too large"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes the file whole, in a folder that is made if need be: either the old or the new one is there at any time.
///
/// # Errors
/// When the folder cannot be made or written.
pub fn write(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // tempfile makes files of mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    file.persist(dir.join(name)).map_err(|error| error.error)?;
    Ok(())
}
