//! The profile of the policy as the settings have it, also when these are edited while the bridge runs.
//!
//! Of other settings it says nothing: they stay as they were read first.

use std::cell::Cell;

use super::environment::Environment;
use super::problem::{Origin, Problem};
use super::settings::Settings;
use super::{toml_file, trust, values};
use crate::limits::Limits;
use crate::policy::Profile;

const VARIABLE: &str = "MCP_BRIDGE_POLICY";
const KEY: &str = "policy.profile";

/// What counts where no rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stance {
    pub(super) profile: Profile,
    /// What is wrong with it: then no call passes.
    pub(super) defect: Option<String>,
}

impl Stance {
    /// As the settings have it.
    pub(super) fn of(settings: &mut Settings<'_>) -> Self {
        // One that cannot be read must not be replaced by something looser.
        let is_misread = Cell::new(false);
        let profile =
            settings.required(VARIABLE, |text| values::profile(text).inspect_err(|_| is_misread.set(true)));
        let defect = format!("{KEY} cannot be read; `hotcell doctor` says why");
        Self { profile, defect: is_misread.get().then_some(defect) }
    }

    /// As the files have it now.
    pub(super) fn again(
        &self,
        environment: &Environment,
        limits: &Limits,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let is_empty = |path: &std::path::PathBuf| path.metadata().is_ok_and(|about| about.len() == 0);
        if toml_file::paths(environment).iter().any(is_empty) {
            // Somebody is about to write it.
            return self.clone();
        }
        let mut found = Vec::new();
        let mut settings = Settings::new(environment, limits, &mut found);
        let mut stance = Self::of(&mut settings);
        let (_, unreadable, _) = settings.finish();
        let is_of_it = |problem: &Problem| {
            problem.key.as_deref() == Some(KEY) || problem.origin == Origin::Variable(VARIABLE.to_owned())
        };
        problems.extend(found.into_iter().filter(is_of_it));
        if let Some(problem) = unreadable {
            stance.defect.get_or_insert_with(|| format!("what may set {KEY} cannot be read: {problem}"));
            problems.push(problem);
        }
        stance
    }
}

/// The files that it may stand in, or depend on.
pub(super) fn places(environment: &Environment) -> impl Iterator<Item = std::path::PathBuf> {
    toml_file::paths(environment).into_iter().chain(trust::store(environment))
}
