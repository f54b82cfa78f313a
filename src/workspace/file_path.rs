//! Names of files in a workspace.

use std::fmt;
use std::path::{Path, PathBuf};

/// Deepest file: so many folders and its own name.
const COMPONENTS_MAX: usize = 32;
/// Longest name of a file or folder, in bytes, on the file systems in use.
const COMPONENT_BYTES_MAX: usize = 255;
/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 2_048;

/// The path of a file below a workspace's folder: it leads nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(Box<str>);

/// The reason for which a text is not such a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilePathError {
    /// It has no component, or an empty one.
    #[error("a file's path is relative, and has no empty part")]
    Empty,
    /// A component is `.` or `..`.
    #[error("a file's path has no part \".\" or \"..\"")]
    Dots,
    /// A component holds a character that no file name may have.
    #[error("a file's path holds no NUL")]
    Nul,
    /// It is too long, or leads too deep.
    #[error(
        "a file's path has at most {COMPONENTS_MAX} parts of at most {COMPONENT_BYTES_MAX} bytes, \
         {PATH_BYTES_MAX} bytes in all"
    )]
    TooLong,
}

impl FilePath {
    /// Checks that the text names a file below the folder.
    ///
    /// # Errors
    /// When it is absolute, leads upwards, or is longer than file systems take.
    pub fn new(text: &str) -> Result<Self, FilePathError> {
        if text.len() > PATH_BYTES_MAX || text.split('/').count() > COMPONENTS_MAX {
            return Err(FilePathError::TooLong);
        }
        for component in text.split('/') {
            match component {
                "" => return Err(FilePathError::Empty),
                "." | ".." => return Err(FilePathError::Dots),
                _ if component.contains('\0') => return Err(FilePathError::Nul),
                _ if component.len() > COMPONENT_BYTES_MAX => return Err(FilePathError::TooLong),
                _ => {}
            }
        }
        Ok(Self(text.into()))
    }

    /// The text, with `/` between its parts.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path in this folder.
    pub(super) fn below(&self, folder: &Path) -> PathBuf {
        folder.join(&*self.0)
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_or_nowhere_are_refused() {
        for (text, error) in [
            ("", FilePathError::Empty),
            ("/etc/passwd", FilePathError::Empty),
            ("a//b", FilePathError::Empty),
            ("a/", FilePathError::Empty),
            ("..", FilePathError::Dots),
            ("a/../../b", FilePathError::Dots),
            ("./a", FilePathError::Dots),
            ("a\0b", FilePathError::Nul),
            (&"a/".repeat(40), FilePathError::TooLong),
            (&"a".repeat(256), FilePathError::TooLong),
            (&format!("{}b", "aaaaaaaaa/".repeat(300)), FilePathError::TooLong),
        ] {
            assert_eq!(FilePath::new(text).unwrap_err(), error, "{text:?}");
        }
        for text in ["a", "out/fig 1.png", "…", "..a", "a\nb", r"..\a", "C:\\x"] {
            assert_eq!(FilePath::new(text).unwrap().as_str(), text);
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_out_of_its_folder(text in "[./a\\\\\\PC]{0,20}") {
            if let Ok(path) = FilePath::new(&text) {
                let below = path.below(Path::new("/w"));
                let parts: Vec<_> = below.components().collect();
                prop_assert!(parts.len() > 2);
                prop_assert!(parts[2..].iter().all(|part| matches!(part, std::path::Component::Normal(_))));
            }
        }
    }
}
