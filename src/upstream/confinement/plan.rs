//! Plans the namespaces of one server from its command and its entry.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::caches::Runner;
use super::follow::VisibleFiles;
use super::surroundings::Surroundings;
use crate::confine::{Access, Failed, ServerPlan, ServerSandbox, Visible, remedy};
use crate::text as texts;
use crate::upstream::{Inherited, ProcessSpec};

/// The plan by which one confined server is started.
#[derive(Debug)]
pub(in crate::upstream) struct Confinement {
    /// Its program, which PATH inside need not lead to.
    pub(in crate::upstream) program: PathBuf,
    /// Variables that take the place of those it would have.
    pub(in crate::upstream) variables: Vec<(String, String)>,
    /// The confinement that the server's keeper sets up.
    pub(in crate::upstream) plan: ServerPlan,
}

/// Why a server cannot be confined.
#[derive(Debug)]
pub(in crate::upstream) struct NotConfined {
    /// What is wrong, for everybody.
    pub(in crate::upstream) reason: String,
    /// What the user can do, if the reason does not say it. A model does not read it: the remedies give rights.
    pub(in crate::upstream) remedy: Option<String>,
}

impl From<String> for NotConfined {
    fn from(reason: String) -> Self {
        Self { reason, remedy: None }
    }
}

/// HOME of a server that has none, or one that is no place of its own.
const HOME: &str = "/home/server";

impl Confinement {
    /// For this command.
    pub(in crate::upstream) fn new(spec: &ProcessSpec, sandbox: &ServerSandbox) -> Result<Self, NotConfined> {
        let is_supported =
            cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
        if !is_supported || spec.keeper.is_none() {
            let reason = "that takes Linux on x86-64 or aarch64".to_owned();
            return Err(NotConfined { reason, remedy: Some(WITHOUT.to_owned()) });
        }
        let own = variables(spec);
        let home = own.get("HOME").map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute() && home.parent().is_some());
        let home = home.unwrap_or_else(|| HOME.into());
        let here = || fs::read_link("/proc/self/cwd").unwrap_or_else(|_| "/".into());
        let folder = spec.cwd.clone().unwrap_or_else(here);
        let at = Surroundings { variables: &own, home: &home, folder: &folder };
        // A program that is not there is an error of its start.
        let program = at.locate(&spec.program).unwrap_or_else(|| spec.program.clone());
        let mut found = VisibleFiles::new(&sandbox.write);
        found.command(&program, &spec.args, &at);
        if found.runner == Some(Runner::Containers) {
            let program = program.display();
            return Err(NotConfined {
                reason: format!(
                    "{program} asks an engine outside to start containers, which has all your rights"
                ),
                remedy: Some(WITHOUT.to_owned()),
            });
        }
        for (key, paths, access) in
            [("read", &sandbox.read, Access::Execute), ("write", &sandbox.write, Access::Change)]
        {
            for path in paths {
                if let Err(error) = fs::metadata(path) {
                    let what = error.kind();
                    let path = path.display();
                    return Err(format!(
                        "its sandbox.{key} names {path}: {what}; create it, or change the entry"
                    )
                    .into());
                }
                found.tree(path, access);
            }
        }
        let mut variables = vec![("HOME".to_owned(), text(&home)?), ("TMPDIR".to_owned(), "/tmp".to_owned())];
        variables.extend(found.runner.iter().flat_map(|runner| runner.variables(sandbox.network)));
        let home = found.real(&home).unwrap_or(home);
        let (links, visible) = found.into_parts();
        let visible = visible.into_iter().map(|(path, access)| Ok(Visible { path: text(&path)?, access }));
        let links = links.into_iter().map(|(path, target)| Ok((text(&path)?, text(&target)?)));
        Ok(Self {
            program,
            variables,
            plan: ServerPlan {
                network: sandbox.network,
                folder: text(&folder)?,
                home: text(&home)?,
                links: links.collect::<Result<_, String>>()?,
                visible: visible.collect::<Result<_, String>>()?,
            },
        })
    }

    /// Why a server was not started, by the step of its confinement that failed.
    pub(in crate::upstream) fn failed(failed: &Failed) -> NotConfined {
        let remedy =
            remedy(failed).map_or_else(|| WITHOUT.to_owned(), |found| format!("{found}; or {WITHOUT}"));
        // Its package names files.
        let could_not = texts::inert_excerpt(&failed.could_not, STEP_CHARS_MAX);
        let reason = format!("a process could not {could_not}: {}", failed.why);
        NotConfined { reason, remedy: Some(remedy) }
    }
}

/// The step that failed, with the path that it names.
const STEP_CHARS_MAX: usize = 300;
const WITHOUT: &str = "`sandbox = false` in its entry starts it with all your rights";

/// The variables that the server would have without confinement.
fn variables(spec: &ProcessSpec) -> BTreeMap<String, String> {
    let inherited = match &spec.inherited {
        Inherited::All => &[][..],
        Inherited::Only { variables, .. } => variables,
    };
    let inherited = inherited.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let own = spec.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    inherited.chain(own).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn text(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is no UTF-8", path.display()))
}
