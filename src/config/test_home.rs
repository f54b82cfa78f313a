//! A home folder for the tests of this module: with the files and variables of a test, and with what they load.

use std::fs;
use std::path::PathBuf;

use belljar_base::limits::Limits;

use super::configuration::Config;
use super::read::environment::Environment;
use super::read::trust::ProjectFile;

/// A home folder.
pub(super) struct Home {
    pub(super) folder: tempfile::TempDir,
    /// The folder in it that paths of files are relative to.
    files: &'static str,
    /// The working folder in it.
    cwd: &'static str,
    variables: Vec<(String, String)>,
}

impl Home {
    /// A home with the working folder `work`.
    pub(super) fn new() -> Self {
        Self::with("", "work")
    }

    /// A home that is the working folder, with files of servers in `MCPs`.
    pub(super) fn of_servers() -> Self {
        Self::with("MCPs", "")
    }

    fn with(files: &'static str, cwd: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(files).join(cwd)).unwrap();
        Self { folder, files, cwd, variables: Vec::new() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(self.files).join(name)
    }

    pub(super) fn file(self, name: &str, contents: impl AsRef<[u8]>) -> Self {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), contents).unwrap();
        self
    }

    pub(super) fn user(self, text: &str) -> Self {
        self.file(".config/belljar/config.toml", text)
    }

    pub(super) fn project(self, text: &str) -> Self {
        self.file("work/.belljar/config.toml", text)
    }

    pub(super) fn trusted(self) -> Self {
        self.trusts();
        self
    }

    /// Trusts the project's file as it is now.
    pub(super) fn trusts(&self) {
        let (environment, limits) = (self.environment(), Limits::default());
        ProjectFile::read(&environment, &limits).unwrap().trust(&environment, &limits).unwrap();
    }

    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn environment(&self) -> Environment {
        Environment {
            variables: self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            home: Some(self.folder.path().to_owned()),
            uid: nix::unistd::geteuid().as_raw(),
            cwd: Some(self.folder.path().join(self.cwd)),
            executable: None,
            owner: None,
        }
    }

    pub(super) fn load(&self) -> Config {
        Config::load(&self.environment())
    }

    /// The text without the home's place.
    pub(super) fn said(&self, what: impl ToString) -> String {
        what.to_string().replace(&format!("{}/", self.folder.path().display()), "")
    }
}
