//! Files in pieces, as they go into a sandbox and come out of it.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::FilePath;

/// Bytes of a file in one piece.
const PIECE_BYTES: usize = 256 * 1024;

/// A part of a file, or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Which file.
    pub path: FilePath,
    /// It is a folder: there are no bytes.
    pub is_folder: bool,
    /// Whether the file may be executed.
    pub is_executable: bool,
    /// When it was last changed, in microseconds since 1970.
    pub modified_us: u64,
    /// Where in the file these bytes stand.
    pub offset: u64,
    /// They.
    pub bytes: Vec<u8>,
    /// Whether the file is whole with them.
    pub is_last: bool,
}

/// The pieces of an open file.
struct FilePieces {
    file: std::fs::File,
    next: Option<Piece>,
}

impl FilePieces {
    fn new(path: FilePath, file: std::fs::File) -> std::io::Result<Self> {
        let about = file.metadata()?;
        let modified = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let next = Piece {
            path,
            is_folder: about.is_dir(),
            is_executable: about.permissions().mode() & 0o100 != 0,
            modified_us: u64::try_from(modified.as_micros()).unwrap_or_default(),
            offset: 0,
            bytes: vec![],
            is_last: about.is_dir(),
        };
        Ok(Self { file, next: Some(next) })
    }
}

impl Iterator for FilePieces {
    type Item = std::io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut piece = self.next.take()?;
        if piece.is_folder {
            return Some(Ok(piece));
        }
        let mut bytes = Vec::with_capacity(PIECE_BYTES);
        if let Err(error) = (&self.file).take(PIECE_BYTES as u64).read_to_end(&mut bytes) {
            return Some(Err(error));
        }
        piece.is_last = bytes.len() < PIECE_BYTES;
        if !piece.is_last {
            self.next = Some(Piece { offset: piece.offset + bytes.len() as u64, ..piece.clone() });
        }
        piece.bytes = bytes;
        Some(Ok(piece))
    }
}

/// The pieces of an open file, as they would be kept under this path.
///
/// # Errors
/// When what it is cannot be told.
pub(super) fn pieces_of(
    path: FilePath,
    file: std::fs::File,
) -> std::io::Result<impl Iterator<Item = std::io::Result<Piece>>> {
    FilePieces::new(path, file)
}

/// The time that a piece gives for its file.
pub(super) fn modified(piece: &Piece) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_micros(piece.modified_us)).unwrap_or(UNIX_EPOCH)
}
