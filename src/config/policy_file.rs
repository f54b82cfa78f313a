//! Reads the user's policy.toml, beside the user's config.toml: which calls pass. A project has none.
//!
//! What cannot be read lets no call pass: half of a policy could be the looser half.

use toml::de::Error;

use super::environment::Environment;
use super::file;
use super::json;
use super::problem::{Origin, Problem};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::text;

/// Longest message of the parser that is repeated, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// The policy, without its profile.
pub(super) fn read(environment: &Environment, limits: &Limits, problems: &mut Vec<Problem>) -> Policy {
    let path = environment.config_file().map(|file| file.with_file_name("policy.toml"));
    let Some(path) = path.filter(|path| path.symlink_metadata().is_ok()) else { return Policy::default() };
    let read = file::read(&path, environment.uid, limits).and_then(|bytes| {
        // An empty file decides nothing, which is no problem here.
        if bytes.trim_ascii().is_empty() { Ok(String::new()) } else { file::text(&path, bytes) }
    });
    let parsed = read.and_then(|text| {
        toml::from_str::<Policy>(&text).map_err(|error| Box::new(problem(&path, &text, &error)))
    });
    parsed.unwrap_or_else(|problem| {
        let problem = problem.hint("no call of a tool passes until that is right");
        problems.push(problem.clone());
        Policy { defect: Some(problem.to_string()), ..Policy::default() }
    })
}

fn problem(path: &std::path::Path, text: &str, error: &Error) -> Problem {
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

    fn loaded(policy: &str) -> (Policy, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/hotcell");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("policy.toml"), policy).unwrap();
        let environment = Environment {
            variables: BTreeMap::new(),
            home: Some(home.path().into()),
            uid: nix::unistd::geteuid().as_raw(),
            cwd: None,
            executable: None,
        };
        let mut problems = Vec::new();
        let policy = read(&environment, &Limits::default(), &mut problems);
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
