//! The root of a sandbox of processes: the files of every confined process, the writable places, and the user's
//! folders.

use std::fs::{self, File};

use super::plan::{ENVIRONMENT_FOLDER, Plan};
use crate::confine::{Access, Machine, Root, Step, StepFailure, place};

/// Files and folders of the machine for the sandbox. They are opened before the root is built, since the root may cover
/// them.
pub(super) struct Sources {
    machine: Machine,
    environment: Option<File>,
    folders: Vec<File>,
}

impl Sources {
    pub(super) fn open(plan: &Plan) -> Result<Self, StepFailure> {
        let folders =
            plan.folders.iter().map(|folder| place(&folder.host)).collect::<Result<_, StepFailure>>()?;
        // A folder above the environment, such as the user's data folder, may be a symlink.
        let real = |folder: &String| fs::canonicalize(folder).step(format!("find {folder}"));
        let environment = plan.environment_folder.as_ref().map(real).transpose()?;
        let environment = environment.map(|real| place(&real.to_string_lossy())).transpose()?;
        Ok(Self { machine: Machine::open()?, environment, folders })
    }
}

/// Builds the root and makes it this process's own.
pub(super) fn build(plan: &Plan, sources: Sources) -> Result<(), StepFailure> {
    let root = Root::new()?;
    root.machine(sources.machine)?;
    if let Some(environment) = &sources.environment {
        root.show(environment, ENVIRONMENT_FOLDER, Access::Execute)?;
    }
    for (path, mib) in &plan.places {
        root.writable(path, *mib)?;
    }
    root.processes(&plan.masked)?;
    for (folder, place) in plan.folders.iter().zip(&sources.folders) {
        root.show(place, &folder.guest, if folder.writable { Access::Write } else { Access::Read })?;
    }
    root.enter()
}
