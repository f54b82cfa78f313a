//! Reads the user's policy.toml, beside the user's config.toml: which calls pass. A project has none.
//!
//! What cannot be read lets no call pass: half of a policy could be the looser half.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::Error;

use super::environment::Environment;
use super::file;
use super::json;
use super::problem::{Origin, Problem};
use crate::limits::Limits;
use crate::policy::{Policy, Profile};
use crate::text;

/// Longest message of the parser that is repeated, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// The user's policy, which may be edited while the bridge runs.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// Nothing where the user has no home.
    path: Option<PathBuf>,
    uid: u32,
    limits: Limits,
    profile: Profile,
    /// What is wrong beside the file: then no call passes, whatever it says.
    defect: Option<String>,
    seen: Option<file::Look>,
    policy: Arc<Policy>,
}

impl PolicyFile {
    /// Reads it for the first time.
    pub(super) fn open(
        environment: &Environment,
        limits: &Limits,
        (profile, defect): (Profile, Option<String>),
        problems: &mut Vec<Problem>,
    ) -> Self {
        let path = environment.config_file().map(|file| file.with_file_name("policy.toml"));
        let (uid, limits, policy) = (environment.uid, limits.clone(), Arc::default());
        let mut file = Self { path, uid, limits, profile, defect, seen: None, policy };
        file.seen = file.look_of();
        file.read(problems);
        file
    }

    /// One that no file changes.
    #[must_use]
    pub fn fixed(policy: Policy) -> Self {
        let (profile, defect) = (policy.profile, policy.defect.clone());
        let (limits, policy) = (Limits::default(), Arc::new(policy));
        Self { path: None, uid: 0, limits, profile, defect, seen: None, policy }
    }

    /// The policy as it was read.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy)
    }

    /// Looks at the file; when it is not what it was, it is read again, and its problems are returned.
    pub fn look(&mut self) -> Option<Vec<Problem>> {
        let seen = self.look_of();
        if seen == self.seen {
            return None;
        }
        self.seen = seen;
        let mut problems = Vec::new();
        self.read(&mut problems);
        Some(problems)
    }

    fn look_of(&self) -> Option<file::Look> {
        self.path.as_deref().map(file::look)
    }

    fn read(&mut self, problems: &mut Vec<Problem>) {
        let path = self.path.as_deref().filter(|path| !file::is_absent(path));
        let mut policy =
            path.map_or_else(Policy::default, |path| read(path, self.uid, &self.limits, problems));
        policy.profile = self.profile;
        policy.defect = self.defect.clone().or(policy.defect);
        self.policy = Arc::new(policy);
    }
}

/// The policy, without its profile.
fn read(path: &Path, uid: u32, limits: &Limits, problems: &mut Vec<Problem>) -> Policy {
    let read = file::read(path, uid, limits).and_then(|bytes| {
        // An empty file decides nothing, which is no problem here.
        if bytes.trim_ascii().is_empty() { Ok(String::new()) } else { file::text(path, bytes) }
    });
    let parsed = read.and_then(|text| {
        toml::from_str::<Policy>(&text).map_err(|error| Box::new(problem(path, &text, &error)))
    });
    parsed.unwrap_or_else(|problem| {
        let problem = problem.hint("no call of a tool passes until that is right");
        problems.push(problem.clone());
        Policy { defect: Some(problem.to_string()), ..Policy::default() }
    })
}

fn problem(path: &Path, text: &str, error: &Error) -> Problem {
    let message = text::inert_excerpt(error.message(), MESSAGE_CHARS_MAX);
    let problem = Problem::new(Origin::File(path.to_owned()), format!("is no policy: {message}"));
    match error.span() {
        Some(span) => problem.at(json::position(text, span.start)),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::policy::Verdict;

    fn opened(home: &Path, problems: &mut Vec<Problem>) -> PolicyFile {
        let environment = Environment {
            variables: BTreeMap::new(),
            home: Some(home.into()),
            uid: nix::unistd::geteuid().as_raw(),
            cwd: None,
            executable: None,
        };
        PolicyFile::open(&environment, &Limits::default(), (Profile::Open, None), problems)
    }

    fn loaded(policy: &str) -> (Policy, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/hotcell");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("policy.toml"), policy).unwrap();
        let mut problems = Vec::new();
        let file = opened(home.path(), &mut problems);
        let policy = Policy::clone(&file.policy());
        let said = problems.iter().map(|problem| problem.to_string());
        (policy, said.map(|said| said.replace(home.path().to_str().unwrap(), "~")).collect())
    }

    #[test]
    fn the_example_is_a_policy() {
        let (policy, problems) = loaded(include_str!("../../config/examples/valid/policy.toml"));
        assert_eq!(problems, [""; 0]);
        assert_eq!(policy.rules.len(), 3);
        assert_eq!(policy.rules[0].decision, Verdict::Deny);
        assert_eq!(policy.budgets.calls_per_run, Some(200));
        assert!(policy.defect.is_none() && policy.labels.egress.len() == 2);
    }

    #[test]
    fn nothing_is_decided_where_nothing_is_written() {
        assert_eq!(loaded(" \n"), (Policy::default(), vec![]));
    }

    #[test]
    fn a_file_that_cannot_be_seen_any_more_lets_nothing_pass_and_one_that_goes_is_no_policy() {
        let home = tempfile::tempdir().unwrap();
        let (folder, aside) = (home.path().join(".config/hotcell"), home.path().join("aside"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("policy.toml"), "[budgets]\ncalls_per_run = 7\n").unwrap();
        let mut file = opened(home.path(), &mut Vec::new());
        assert_eq!(file.policy().budgets.calls_per_run, Some(7));
        let defect_after = |file: &mut PolicyFile| {
            let problems = file.look().expect("it is seen to be another");
            assert_eq!(problems.is_empty(), file.policy().defect.is_none());
            file.policy().defect.clone()
        };
        // As when its folder may not be looked into any more, which the superuser always may.
        std::fs::rename(&folder, &aside).unwrap();
        std::os::unix::fs::symlink("hotcell", &folder).unwrap();
        assert!(defect_after(&mut file).unwrap().contains("policy.toml: is a symbolic link that leads back"));
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(defect_after(&mut file), None);
        std::os::unix::fs::symlink("hotcell", &folder).unwrap();
        assert!(defect_after(&mut file).is_some(), "it was absent, and may be there now");
        std::fs::remove_file(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(defect_after(&mut file), None);
        std::os::unix::fs::symlink("gone", folder.join("policy.toml")).unwrap();
        assert!(defect_after(&mut file).unwrap().contains("is a symbolic link to nothing"));
        // A file in the place of its folder holds no policy.
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::write(&folder, "").unwrap();
        assert_eq!(defect_after(&mut file), None);
    }

    #[test]
    fn what_cannot_be_read_lets_nothing_pass_and_says_where() {
        for (policy, said) in [
            (
                "[[rule]]\ndecision = \"deny\"\nserver = 3\n",
                "~/.config/hotcell/policy.toml:3:10: is no policy: invalid type: integer `3`, expected a string",
            ),
            (
                "[[rule]]\nserver = \"a\"\ndecison = \"deny\"\n",
                "~/.config/hotcell/policy.toml:3:1: is no policy: unknown field `decison`, expected one of `server`, \
                 `tool`, `read_only`, `destructive`, `arguments`, `decision`, `reason`",
            ),
            ("[[rule]\n", "~/.config/hotcell/policy.toml:1:8: is no policy: unclosed array table"),
        ] {
            let (policy, problems) = loaded(policy);
            assert!(policy.defect.is_some());
            assert!(problems[0].contains(said), "{problems:?}");
            assert!(problems[0].contains("no call of a tool passes"), "{problems:?}");
        }
    }
}
