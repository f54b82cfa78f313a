//! The places of a client's files for this user and folder. It opens none.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use belljar_base::real_file::RealFile;
use belljar_base::system::System;

use super::known_clients::{Base, Client, FileLocation, WriteSupport};

/// The environment that decides the places of clients' files.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The user's home folder.
    pub home: PathBuf,
    /// XDG_CONFIG_HOME, or `~/.config`.
    pub config: PathBuf,
    /// The effective user.
    pub uid: u32,
    /// The folder of the project: the working folder.
    pub project: Option<PathBuf>,
    /// The project or repository that has the file in it that the user has named.
    pub project_of_given: Option<PathBuf>,
    /// The folders that variables name for single clients, if they are set.
    pub named: Vec<(&'static str, OsString)>,
}

/// The variables that change the places of clients' files.
#[must_use]
pub fn place_variables() -> Vec<&'static str> {
    let places = super::known_clients::clients().iter().flat_map(|client| client.places);
    let named = places.filter_map(|location| match location.base {
        Base::Named(variable, _) => Some(variable),
        _ => None,
    });
    let mut named: Vec<&str> = named.collect();
    named.dedup();
    named
}

/// The scope of the servers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Servers of the user, in every folder.
    User,
    /// Servers of one project.
    Project,
}

/// A file of a client, which need not exist.
#[derive(Debug, Clone)]
pub(super) struct ClientFile {
    pub(super) path: PathBuf,
    pub(super) location: &'static FileLocation,
    /// The folder of the project that the file belongs to.
    pub(super) project: Option<PathBuf>,
}

impl ClientFile {
    /// The file to which its path leads now; `None`: it is a project's, and links of the project, whose author is not the user,
    /// lead out of the project's folder.
    pub(super) fn real(&self) -> Option<RealFile> {
        let file = RealFile::of(&self.path);
        let is_in = |project: &PathBuf| file.path().starts_with(RealFile::of(project).path());
        self.project.as_ref().is_none_or(is_in).then_some(file)
    }
}

impl Client {
    /// The files of one scope.
    pub(super) fn files(&'static self, surroundings: &Surroundings, scope: Scope) -> Vec<ClientFile> {
        let of_scope =
            |location: &&FileLocation| (location.base == Base::Project) == (scope == Scope::Project);
        let file = |location: &'static FileLocation| {
            let path = surroundings.base(location.base)?.join(location.path);
            let project = surroundings.project.clone().filter(|_| scope == Scope::Project);
            Some(ClientFile { path, location, project })
        };
        self.places.iter().filter(of_scope).filter_map(file).collect()
    }

    /// The file that belljar is added to: the first one that exists, else the first one.
    pub(super) fn written_file(
        &'static self,
        surroundings: &Surroundings,
        scope: Scope,
    ) -> Option<ClientFile> {
        let mut files = self.files(surroundings, scope);
        files.retain(|file| file.location.is_written == WriteSupport::Yes);
        let there = files.iter().position(|file| file.path.symlink_metadata().is_ok());
        (!files.is_empty()).then(|| files.swap_remove(there.unwrap_or(0)))
    }

    /// The user's file that belljar is added to.
    #[must_use]
    pub fn user_file(&'static self, surroundings: &Surroundings) -> Option<PathBuf> {
        self.written_file(surroundings, Scope::User).map(|file| file.path)
    }

    /// Whether one of the client's files has this name.
    pub(super) fn has_file_called(&'static self, path: &Path) -> bool {
        self.places.iter().any(|location| path.ends_with(location.path))
    }

    /// A file that the user says is the client's. It is treated like the client's file of the same name, else like the
    /// first one.
    pub(super) fn file_given(&'static self, path: &Path, surroundings: &Surroundings) -> ClientFile {
        let mut of_user = self.files(surroundings, Scope::User);
        of_user.retain(|file| file.path == path);
        if let Some(file) = of_user.pop() {
            return file;
        }
        let mut called = self.places.iter().filter(|location| path.ends_with(location.path));
        let of_project = called.clone().find(|location| location.base == Base::Project);
        let location = of_project.or_else(|| called.next()).unwrap_or(&self.places[0]);
        let depth = Path::new(location.path).components().count();
        let project = path.ancestors().nth(depth).filter(|_| location.base == Base::Project);
        // Any other file in the project that is open, or in a repository, may come from a stranger, too.
        let project = project.map(Path::to_owned).or_else(|| surroundings.project_of_given.clone());
        ClientFile { path: path.to_owned(), location, project }
    }

    /// Whether the client seems to be on this machine: one of its files exists, or the folder of such a file exists and
    /// is neither the home folder nor the configuration folder.
    #[must_use]
    pub fn is_there(&'static self, surroundings: &Surroundings) -> bool {
        self.files(surroundings, Scope::User).iter().any(|file| {
            let folder = file.path.parent();
            file.path.exists()
                || folder.is_some_and(|folder| {
                    folder != surroundings.home && folder != surroundings.config && folder.is_dir()
                })
        })
    }
}

impl Surroundings {
    fn base(&self, base: Base) -> Option<PathBuf> {
        Some(match base {
            Base::Home => self.home.clone(),
            Base::Application => System::HERE
                .application_settings()
                .map_or_else(|| self.config.clone(), |dir| self.home.join(dir)),
            Base::Config => self.config.clone(),
            Base::Named(variable, usual) => {
                let named = self.named.iter().find(|(name, _)| *name == variable);
                named.map_or_else(|| self.home.join(usual), |(_, folder)| PathBuf::from(folder))
            }
            Base::Project => self.project.clone()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use belljar_confine::LOGIN_PLACES;

    use super::*;

    #[test]
    fn files_of_clients_are_kept_like_logins() {
        let surroundings = Surroundings {
            home: "/h".into(),
            config: "/h/.config".into(),
            uid: 1000,
            project: None,
            project_of_given: None,
            named: vec![],
        };
        let is_kept =
            |path: &Path| LOGIN_PLACES.iter().any(|place| path.starts_with(Path::new("/h").join(place)));
        let clients = super::super::known_clients::clients();
        let files = clients.iter().flat_map(|client| client.files(&surroundings, Scope::User));
        let files: Vec<PathBuf> = files.map(|file| file.path).collect();
        let open: Vec<&PathBuf> = files.iter().filter(|path| !is_kept(path)).collect();
        assert!(files.len() >= clients.len() && open.is_empty(), "{open:?}");
    }
}
