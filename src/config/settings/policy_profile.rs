//! Reads the profile of the policy from the settings, also when these are edited while the bridge runs.
//!
//! It reads no other settings.

use belljar_base::limits::Limits;
use belljar_base::problem::{Origin, Problem};
use belljar_tools::policy::Profile;

use super::resolve::Settings;
use super::toml_file::ReadFailures;
use super::{toml_file, values};
use crate::config::read::environment::Environment;
use crate::config::read::trust;

const VARIABLE: &str = "MCP_BRIDGE_POLICY";
const KEY: &str = "policy.profile";

/// The profile, which decides about calls that no rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProfileSetting {
    pub(crate) profile: Profile,
    /// The problem with the profile. While there is one, no call is allowed.
    pub(crate) defect: Option<String>,
}

impl ProfileSetting {
    /// Reads the profile from the settings.
    pub(crate) fn profile(settings: &mut Settings<'_>) -> Profile {
        settings.required(VARIABLE, values::profile)
    }

    /// Joins the profile with the problem of the policy's settings: one that cannot be read must not become a looser
    /// one.
    pub(crate) fn new(profile: Profile, read_failures: &ReadFailures) -> Self {
        Self { profile, defect: read_failures.policy.as_ref().map(ToString::to_string) }
    }

    /// Reads the profile again from the files.
    pub(crate) fn again(
        &self,
        environment: &Environment,
        limits: &Limits,
        problems: &mut Vec<Problem>,
    ) -> Self {
        if toml_file::is_emptied(environment) {
            return self.clone();
        }
        let mut found = Vec::new();
        let mut settings = Settings::new(environment, limits, &mut found);
        let profile = Self::profile(&mut settings);
        let (_, read_failures, _) = settings.finish();
        let is_of_it = |problem: &Problem| {
            problem.key.as_deref() == Some(KEY) || problem.origin == Origin::Variable(VARIABLE.to_owned())
        };
        let of_it = read_failures.policy.clone().filter(|problem| !is_of_it(problem));
        problems.extend(found.into_iter().filter(is_of_it).chain(of_it));
        Self::new(profile, &read_failures)
    }
}

/// The files that may set the profile, and the record of trust, which decides whether a project's file may set it.
pub(crate) fn places(environment: &Environment) -> impl Iterator<Item = std::path::PathBuf> {
    toml_file::paths(environment).into_iter().chain(trust::store(environment))
}
