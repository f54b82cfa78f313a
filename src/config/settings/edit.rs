//! Changes one setting in the user's own config.toml. The rest of the file stays as the user wrote it.
//!
//! A file that cannot be read as a whole is not touched.

use std::io;
use std::path::{Path, PathBuf};

use belljar_base::limits::Limits;
use belljar_base::problem::Problem;
use belljar_base::real_file::RealFile;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::config::read::environment::Environment;
use crate::config::read::file;

/// The reason for which a setting was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// No home folder is known, so there is no place for the file.
    #[error("no home folder is known, so there is no config.toml; set HOME or XDG_CONFIG_HOME")]
    NoHome,
    /// The file cannot be read as a configuration file.
    #[error("{problem}; correct it first")]
    Unreadable {
        /// The problem and its place.
        problem: Box<Problem>,
    },
    /// The file is not valid TOML.
    #[error("{path}:{line}:{column}: {message}; correct it first")]
    NoToml {
        /// The file.
        path: String,
        /// The line of the error, from 1.
        line: usize,
        /// The column of the error, from 1, in characters.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// The file has a value that is no table under the section's name.
    #[error("{path}: {section:?} is no table; correct it first")]
    NoTable {
        /// The path of the file.
        path: String,
        /// The name of the section.
        section: &'static str,
    },
    /// The file is for another version of belljar.
    #[error("{path}: its version is not {VERSION}; use the belljar that it is for, or correct it first")]
    OtherVersion {
        /// The path of the file.
        path: String,
    },
    /// The file cannot be written.
    #[error("{path} cannot be written: {source}")]
    Write {
        /// The path of the file.
        path: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// The version of the settings that this belljar reads and edits.
pub(super) const VERSION: &str = "1";
/// The key of the version, which may be left out.
pub(super) const VERSION_KEY: &str = "version";
const SECTION: &str = "sandbox";
const KEY: &str = "image";

/// Sets `sandbox.image`, or removes it for `None`. Returns the path of the file.
///
/// # Errors
/// The file cannot be read, is not valid TOML, or cannot be written. It is unchanged then.
pub fn set_image(environment: &Environment, image: Option<&str>) -> Result<PathBuf, EditError> {
    let path = environment.config_file().ok_or(EditError::NoHome)?;
    let shown = || path.display().to_string();
    let real = RealFile::of(&path);
    let text = match file::is_absent(real.path()) {
        true => String::new(),
        false => read(environment, real.path())?,
    };
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
        EditError::NoToml {
            path: shown(),
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
            message: belljar_base::text::inert_line(error.message()),
        }
    })?;
    if document.get(VERSION_KEY).is_some_and(|version| version.to_string().trim() != VERSION) {
        return Err(EditError::OtherVersion { path: shown() });
    }
    let section = document.entry(SECTION).or_insert_with(|| Item::Table(Table::new()));
    let table =
        section.as_table_like_mut().ok_or_else(|| EditError::NoTable { path: shown(), section: SECTION })?;
    match (image, table.get_mut(KEY)) {
        // Comments and blanks around the value stay.
        (Some(image), Some(Item::Value(old))) => {
            let decor = old.decor().clone();
            *old = image.into();
            *old.decor_mut() = decor;
        }
        (Some(image), _) => drop(table.insert(KEY, value(image))),
        (None, _) => drop(table.remove(KEY)),
    }
    if table.is_empty() && image.is_none() {
        document.remove(SECTION);
    }
    let changed = document.to_string();
    if changed != text {
        real.replace(changed.as_bytes()).map_err(|source| EditError::Write { path: shown(), source })?;
    }
    Ok(path)
}

fn read(environment: &Environment, path: &Path) -> Result<String, EditError> {
    let bytes = file::read(path, environment.uid, &Limits::default())
        .map_err(|problem| EditError::Unreadable { problem })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before =
            String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]).into_owned();
        EditError::NoToml {
            path: path.display().to_string(),
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
            message: "it is not UTF-8".into(),
        }
    })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn environment(home: &Path) -> Environment {
        let uid = nix::unistd::geteuid().as_raw();
        Environment {
            variables: BTreeMap::new(),
            home: Some(home.into()),
            uid,
            cwd: None,
            executable: None,
            owner: None,
        }
    }

    fn edited(before: &str, image: Option<&str>) -> String {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/belljar");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), before).unwrap();
        let path = set_image(&environment(home.path()), image).unwrap();
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn only_the_one_setting_changes() {
        let text =
            "# mine\n[run]\ntimeout = 5 # short\n\n[sandbox]\nimage = \"a\" # first\nmemory = \"1g\"\n";
        assert_eq!(edited(text, Some("b")), text.replace("\"a\"", "\"b\""));
        assert_eq!(edited(text, None), text.replace("image = \"a\" # first\n", ""));
        assert_eq!(
            edited("[run]\ntimeout = 5\n", Some("b")),
            "[run]\ntimeout = 5\n\n[sandbox]\nimage = \"b\"\n"
        );
        assert_eq!(edited("sandbox = { image = \"a\" }\n", Some("b")), "sandbox = { image = \"b\" }\n");
        assert_eq!(edited("", None), "");
        let once = edited("", Some("b"));
        assert_eq!((once.as_str(), edited(&once, None).as_str()), ("[sandbox]\nimage = \"b\"\n", ""));
    }

    #[test]
    fn a_new_file_is_its_users_alone_and_one_behind_a_link_stays_there() {
        let home = tempfile::tempdir().unwrap();
        let environment = environment(home.path());
        let path = set_image(&environment, Some("a")).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let elsewhere = home.path().join("dotfiles.toml");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        set_image(&environment, Some("b")).unwrap();
        assert!(path.is_symlink() && fs::read_to_string(&elsewhere).unwrap().contains("\"b\""));
    }

    #[test]
    fn a_file_that_is_not_understood_is_not_touched() {
        for (text, says) in [
            ("[sandbox\n", ":1:9: "),
            ("[run]\ntimeout = \n", ":2:"),
            ("sandbox = 5\n", "\"sandbox\" is no table"),
            ("version = 2\n", "its version is not 1"),
        ] {
            let home = tempfile::tempdir().unwrap();
            let folder = home.path().join(".config/belljar");
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join("config.toml");
            fs::write(&path, text).unwrap();
            let error = set_image(&environment(home.path()), Some("b")).unwrap_err().to_string();
            assert!(error.contains(says) && error.ends_with(" correct it first"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let nobody = Environment { home: None, ..environment(Path::new("/")) };
        assert!(matches!(set_image(&nobody, None), Err(EditError::NoHome)));
    }
}
