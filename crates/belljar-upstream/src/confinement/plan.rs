//! Plans the namespaces of one server from its command and its entry.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use belljar_base::look_budget::LookBudget;
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::system::System;
use belljar_base::text as texts;
use belljar_confine::{
    Access, ChangeablePlaces, ServerPlan, ServerSandbox, StepFailure, VisiblePath, remedy,
};

use super::caches::Runner;
use super::follow::{FollowResult, VisibleFiles};
use super::grant::granted;
use super::resolve::{ResolveError, resolve};
use super::surroundings::{LOOKS_MAX, Surroundings};
use crate::ProcessSpec;

/// The plan by which one confined server is started.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// The path of its program, since PATH inside the confinement need not lead to it.
    pub(crate) program: PathBuf,
    /// Variables that replace the server's own.
    pub(crate) variables: Vec<(String, String)>,
    /// The confinement that the server's keeper sets up.
    pub(crate) plan: ServerPlan,
    /// Paths that the program's files refer to, and that the server does not see.
    pub(crate) unfollowed: Vec<PathBuf>,
}

/// The reason why a server cannot be confined.
#[derive(Debug)]
pub(crate) struct ConfinementError {
    /// What is wrong. Users and models get this text.
    pub(crate) reason: String,
    /// A hint for the user, if the reason has none. A model does not get it, since the remedies grant rights.
    pub(crate) remedy: Option<String>,
}

impl From<String> for ConfinementError {
    fn from(reason: String) -> Self {
        Self { reason, remedy: None }
    }
}

/// HOME of a server without a usable one.
const HOME: &str = "/home/server";

impl Confinement {
    /// Plans the confinement of this command.
    pub(crate) fn new(spec: &ProcessSpec, sandbox: &ServerSandbox) -> Result<Self, ConfinementError> {
        let is_supported =
            System::HERE.keeps_processes() && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        if !is_supported || spec.keeper.is_none() {
            let reason = "that takes Linux on x86-64 or aarch64".to_owned();
            return Err(ConfinementError { reason, remedy: Some(WITHOUT.to_owned()) });
        }
        let inherited = inherited(spec);
        let mut own = inherited.clone();
        own.extend(spec.env.iter().cloned());
        let is_home = |home: &PathBuf| {
            let is_up = home.components().any(|part| part == Component::ParentDir);
            home.is_absolute() && home.parent().is_some() && !is_up
        };
        let home_in =
            |variables: &BTreeMap<String, String>| variables.get("HOME").map(PathBuf::from).filter(is_home);
        let home = home_in(&own).unwrap_or_else(|| HOME.into());
        let with_real = |home: &PathBuf| {
            [home.clone()].into_iter().chain(resolve(home).map(|way| way.end)).collect::<Vec<_>>()
        };
        let homes = with_real(&home);
        let user_homes = home_in(&inherited).as_ref().map(with_real).unwrap_or_default();
        let changeable = spec.changeable.get()?.into_iter().chain(sandbox.write.iter().cloned());
        let changeable = ChangeablePlaces::new(changeable.map(|path| (String::new(), path)));
        let cwd = spec.cwd.as_ref().map(|folder| followed(folder, "cwd")).transpose()?.flatten();
        let at = Surroundings {
            changeable: &changeable,
            projects: &spec.projects,
            variables: &own,
            inherited: &inherited,
            home: &home,
            user_homes: &user_homes,
            homes: &homes,
            folder: cwd.as_ref().map(|way| way.end.as_path()).or(spec.cwd.as_deref()),
            private: &spec.private,
            secret: &spec.private.secret(),
            looks: LookBudget::new(LOOKS_MAX),
        };
        let program = at.locate(&spec.program).unwrap_or_else(|| spec.program.clone());
        let mut found = VisibleFiles::new(&at);
        // These paths come first, since files of the program may lead to them.
        for (paths, access) in [(&sandbox.read, Access::Execute), (&sandbox.write, Access::Change)] {
            for path in paths {
                let way = granted(path, access, at.changeable, &at)?;
                is_text(&way)?;
                found.see(&way, access);
            }
        }
        if let Some(link) = cwd.as_ref().and_then(|way| at.changeable.link_in(way)) {
            return Err(format!(
                "its folder goes through the symlink {}; confined servers can change that one, so name the real path in cwd",
                texts::name_in_sentence(&link.to_string_lossy(), STEP_CHARS_MAX)
            )
            .into());
        }
        if let Some(link) = cwd.as_ref().and_then(|way| at.link_of_project(way)) {
            let link = texts::name_in_sentence(&link.to_string_lossy(), STEP_CHARS_MAX);
            return Err(
                format!("its cwd goes through the project's symlink {link}; name the real path").into()
            );
        }
        if let Some((place, why)) =
            cwd.as_ref().and_then(|way| way.chosen_by_others(nix::unistd::geteuid().as_raw()))
        {
            let place = texts::name_in_sentence(&place.to_string_lossy(), STEP_CHARS_MAX);
            return Err(format!("its cwd leads through {place}, {why}").into());
        }
        // Arguments and variables may name files of the folder by the path that the entry gives.
        if let Some(way) = &cwd {
            is_text(way)?;
            found.see_links(way);
        }
        // If the program does not exist, its start fails with that error.
        if let Some(way) = followed(&program, "command")? {
            let shown = |path: &Path| texts::name_in_sentence(&path.to_string_lossy(), STEP_CHARS_MAX);
            if let Some((_, place)) = at.changeable.changed_in(&way).filter(|_| spec.is_searched()) {
                return Err(format!(
                    "its command is searched in PATH and found at {}, which confined servers can change; name the full path",
                    shown(place)
                )
                .into());
            }
            if let Some(link) = found.link_before(&way, &at) {
                let link = shown(link);
                return Err(format!(
                    "its command goes through the symlink {link}, which leads out of the project, or of what confined servers \
                     can change, or belongs to another user; name the real path, or add that to sandbox.read"
                )
                .into());
            }
            is_text(&way)?;
            found.see(&way, Access::Execute);
        }
        found.command(&program, &spec.args, &at);
        if found.runner == Some(Runner::Containers) {
            let program = texts::name_in_sentence(&program.to_string_lossy(), STEP_CHARS_MAX);
            return Err(ConfinementError {
                reason: format!(
                    "{program} asks an engine outside to start containers, which has all your rights"
                ),
                remedy: Some(WITHOUT.to_owned()),
            });
        }
        let mut variables = vec![("HOME".to_owned(), text(&home)?), ("TMPDIR".to_owned(), "/tmp".to_owned())];
        variables.extend(found.runner.iter().flat_map(|runner| runner.variables(sandbox.network)));
        let folder = text(at.folder.unwrap_or(&home))?;
        let home = homes.last().unwrap_or(&home);
        let FollowResult { links, visible, unfollowed } = found.into_parts();
        let visible =
            visible.into_iter().map(|(path, access)| Ok(VisiblePath { path: text(&path)?, access }));
        let links = links.into_iter().map(|(path, target)| Ok((text(&path)?, text(&target)?)));
        Ok(Self {
            program,
            variables,
            plan: ServerPlan {
                network: sandbox.network,
                folder,
                home: text(home)?,
                links: links.collect::<Result<_, String>>()?,
                visible: visible.collect::<Result<_, String>>()?,
            },
            unfollowed,
        })
    }

    /// Why a server was not started, by the step of its confinement that failed.
    pub(crate) fn failed(failed: &StepFailure) -> ConfinementError {
        let remedy =
            remedy(failed).map_or_else(|| WITHOUT.to_owned(), |found| format!("{found}; or {WITHOUT}"));
        // Paths in it are quoted.
        let could_not = texts::inert_excerpt(&failed.could_not, STEP_CHARS_MAX);
        let reason = format!("a process could not {could_not}: {}", failed.why);
        ConfinementError { reason, remedy: Some(remedy) }
    }
}

/// The longest name of a failed step, with the path in it, in characters.
const STEP_CHARS_MAX: usize = 300;
const WITHOUT: &str = "`sandbox = false` in its entry starts it with all your rights";

/// Resolves a path of the entry; `None` if it does not exist.
fn followed(path: &Path, key: &str) -> Result<Option<ResolvedPath>, String> {
    match resolve(path) {
        Ok(way) => Ok(Some(way)),
        Err(ResolveError::Missing(io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)) => Ok(None),
        // The kernel would go on, perhaps through places that nobody has looked at.
        Err(ResolveError::Missing(io::ErrorKind::InvalidFilename)) => {
            Err(format!("its {key} cannot be followed, since its symlinks are too long; name the real path"))
        }
        Err(ResolveError::Missing(kind)) => Err(format!("its {key} cannot be followed: {kind}")),
        Err(ResolveError::OfKernel(place)) => {
            let place = texts::name_in_sentence(&place.to_string_lossy(), STEP_CHARS_MAX);
            Err(format!("its {key} leads through {place}, which is not the same for other processes"))
        }
    }
}

/// The variables that the server inherits from the bridge's environment.
fn inherited(spec: &ProcessSpec) -> BTreeMap<String, String> {
    spec.inherited_texts().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Refuses a path of the entry that is not UTF-8, since the plan is text. Such a path that files refer to is left out
/// instead.
fn is_text(way: &ResolvedPath) -> Result<(), String> {
    let links = way.links.iter().flat_map(|(link, target)| [link, target]);
    links.chain([&way.end]).try_for_each(|path| text(path).map(drop))
}

fn text(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let shown = texts::name_in_sentence(&path.to_string_lossy(), STEP_CHARS_MAX);
        format!("{shown} is not UTF-8; rename it, or change the entry")
    })
}
