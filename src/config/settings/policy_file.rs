//! Reads the user's policy.toml, beside the user's config.toml: the rules for calls. A project has no such file.
//!
//! If it cannot be read, no call is allowed: the readable half of a policy could be the looser half.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::problem::{Position, Problem};
use belljar_base::text::{self, suggest};
use belljar_confine::ChangeablePlaces;
use belljar_tools::policy::Policy;
use parking_lot::Mutex;
use toml::de::Error;

use super::policy_profile::{self, ProfileSetting};
use crate::config::read::changeable::of_configuration;
use crate::config::read::environment::Environment;
use crate::config::read::file;

/// The longest part of a parser's message that is repeated, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// The user's policy, which may be edited while the bridge runs.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// The environment that names the files; `None`: no file changes the policy.
    environment: Option<Environment>,
    limits: Limits,
    profile_setting: ProfileSetting,
    /// The places that others can change, in which no policy may be. All clones share them.
    changeable: Arc<Mutex<Changeable>>,
    seen: Fingerprints,
    /// Why the policy may not be where it is.
    misled: Option<Problem>,
    policy: Arc<Policy>,
}

/// The places that others can change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changeable {
    pub(crate) places: ChangeablePlaces,
    /// Whether there are any beyond the workspaces and the outbox. While there are, the real places of files are looked
    /// at before each run and call, which takes some microseconds. Otherwise they are looked at when a file has changed.
    pub(crate) has_others: bool,
}

/// The fingerprints of the files that the policy comes from.
#[derive(Debug, Clone, PartialEq, Default)]
struct Fingerprints {
    policy: Option<file::Fingerprint>,
    settings: Vec<file::Fingerprint>,
    /// The places where the files really are.
    places: BTreeSet<PathBuf>,
    /// The places that others can change.
    changeable: ChangeablePlaces,
}

/// Its content makes no configuration another one: it is followed in the files.
impl PartialEq for PolicyFile {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl PolicyFile {
    /// Reads it for the first time.
    pub(crate) fn open(
        environment: &Environment,
        limits: &Limits,
        profile_setting: ProfileSetting,
        changeable: Changeable,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut file = Self {
            environment: Some(environment.clone()),
            limits: limits.clone(),
            profile_setting,
            changeable: Arc::new(Mutex::new(changeable)),
            seen: Fingerprints::default(),
            misled: None,
            policy: Arc::default(),
        };
        file.seen = file.fingerprints();
        file.misled = misled(environment, &file.seen.changeable);
        file.read(problems);
        file
    }

    /// A policy that no file changes.
    #[must_use]
    pub fn fixed(policy: Policy) -> Self {
        let profile_setting = ProfileSetting { profile: policy.profile, defect: policy.defect.clone() };
        let (limits, policy) = (Limits::default(), Arc::new(policy));
        let (changeable, seen) = (Arc::default(), Fingerprints::default());
        Self { environment: None, limits, profile_setting, changeable, seen, misled: None, policy }
    }

    /// Sets the places that others can change, for all clones.
    pub(crate) fn mistrust(&self, changeable: &Changeable) {
        self.changeable.lock().clone_from(changeable);
    }

    /// The policy as it was read last.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy)
    }

    /// Checks the policy's file and the files that may set the profile. If the policy has changed, reads it again and
    /// returns its problems; `None`: it has not changed.
    pub fn look(&mut self) -> Option<Vec<Problem>> {
        let environment = self.environment.as_ref()?;
        let seen = self.fingerprints();
        let before = std::mem::replace(&mut self.seen, seen);
        if before == self.seen {
            return None;
        }
        let mut problems = Vec::new();
        let is_elsewhere = before.places != self.seen.places || before.changeable != self.seen.changeable;
        let mut is_changed = before.policy != self.seen.policy;
        // What a file says counts only if others cannot have written it where it is now.
        if is_elsewhere || is_changed || before.settings != self.seen.settings {
            let misled = misled(environment, &self.seen.changeable);
            is_changed |= misled != self.misled;
            self.misled = misled;
        }
        if before.settings != self.seen.settings {
            let profile_setting = self.profile_setting.again(environment, &self.limits, &mut problems);
            is_changed |= profile_setting != self.profile_setting;
            self.profile_setting = profile_setting;
        }
        if !is_changed {
            return None;
        }
        self.read(&mut problems);
        Some(problems)
    }

    fn fingerprints(&self) -> Fingerprints {
        let Some(environment) = &self.environment else { return Fingerprints::default() };
        let policy = path(environment);
        let settings: Vec<PathBuf> = policy_profile::places(environment).collect();
        let changeable = self.changeable.lock().clone();
        let files = policy.iter().cloned().chain(environment.config_file());
        Fingerprints {
            policy: policy.as_deref().map(file::fingerprint),
            settings: settings.iter().map(|place| file::fingerprint(place)).collect(),
            places: if changeable.has_others { file::real_places(files) } else { BTreeSet::new() },
            changeable: changeable.places,
        }
    }

    fn read(&mut self, problems: &mut Vec<Problem>) {
        let Some(environment) = &self.environment else { return };
        // An absent file may be one that others have moved.
        let misled = self.misled.clone();
        let path = path(environment).filter(|path| misled.is_some() || !file::is_absent(path));
        let mut policy = path.map_or_else(Policy::default, |path| {
            let read = match misled {
                Some(problem) => Err(Box::new(Problem { hint: format!("{};", problem.hint), ..problem })),
                None => read(&path, environment.uid, &self.limits, &self.policy),
            };
            read.unwrap_or_else(|problem| {
                let hint = format!("{} no call of a tool passes until that is right", problem.hint);
                let problem = problem.hint(hint.trim_start());
                problems.push(problem.clone());
                // The earlier rules stay, so that the next policy is compared with them.
                Policy { defect: Some(problem.to_string()), ..Policy::clone(&self.policy) }
            })
        });
        policy.profile = self.profile_setting.profile;
        policy.defect = self.profile_setting.defect.clone().or(policy.defect);
        self.policy = Arc::new(policy);
    }
}

/// The path of the policy, whether it exists or not.
pub(crate) fn path(environment: &Environment) -> Option<PathBuf> {
    environment.config_file().map(|file| file.with_file_name("policy.toml"))
}

/// Why the policy, or the user's settings with its profile, may not be where they are: others can change the path.
fn misled(environment: &Environment, changeable: &ChangeablePlaces) -> Option<Problem> {
    let mut places = path(environment).into_iter().chain(environment.config_file());
    places.find_map(|place| of_configuration(changeable, &place))
}

/// The policy, without its profile.
fn read(path: &Path, uid: u32, limits: &Limits, before: &Policy) -> Result<Policy, Box<Problem>> {
    let bytes = file::read(path, uid, limits)?;
    if !bytes.trim_ascii().is_empty() {
        let text = file::text(path, bytes)?;
        return toml::from_str(&text).map_err(|error| Box::new(problem(path, &text, &error)));
    }
    if before.is_empty() {
        return Ok(Policy::default());
    }
    // An editor may not have written the content yet.
    let problem = Problem::of_file(path, "is empty, and was not before");
    Err(Box::new(problem.hint("remove it, or leave a comment in it, if nothing is to be decided;")))
}

fn problem(path: &Path, text: &str, error: &Error) -> Problem {
    let message = text::inert_excerpt(error.message(), MESSAGE_CHARS_MAX);
    let hint = did_you_mean(error.message()).map(|near| format!("did you mean `{near}`?"));
    let problem = Problem::of_file(path, format!("is no policy: {message}"));
    let problem = problem.hint(hint.unwrap_or_default());
    match error.span() {
        Some(span) => problem.at(Position::of(text, span.start)),
        None => problem,
    }
}

/// The allowed word that is most similar to the one in the file. The parser's message quotes the file's word first,
/// then the allowed ones.
fn did_you_mean(message: &str) -> Option<&str> {
    let message = message.strip_prefix("unknown ")?;
    let mut words = message.split('`').skip(1).step_by(2);
    let written = words.next()?;
    suggest::nearest(written, words)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use belljar_tools::policy::{Profile, Verdict};

    use super::*;

    /// A user's folder of belljar.
    struct User(tempfile::TempDir);

    impl User {
        fn new(policy: &str) -> Self {
            let user = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir_all(user.0.path().join(".config/belljar")).unwrap();
            user.writes("policy.toml", policy);
            user
        }

        fn writes(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join(".config/belljar").join(name), text).unwrap();
        }

        fn opens(&self) -> (PolicyFile, Vec<String>) {
            let environment = Environment {
                variables: BTreeMap::new(),
                home: Some(self.0.path().into()),
                uid: nix::unistd::geteuid().as_raw(),
                cwd: None,
                executable: None,
                owner: None,
            };
            let mut problems = Vec::new();
            let profile_setting = ProfileSetting { profile: Profile::Open, defect: None };
            let changeable = Changeable::default();
            let file = PolicyFile::open(
                &environment,
                &Limits::default(),
                profile_setting,
                changeable,
                &mut problems,
            );
            (file, self.said(&problems))
        }

        fn said(&self, problems: &[Problem]) -> Vec<String> {
            let home = self.0.path().to_str().unwrap();
            problems.iter().map(|problem| problem.to_string().replace(home, "~")).collect()
        }
    }

    fn loaded(policy: &str) -> (Policy, Vec<String>) {
        let (file, problems) = User::new(policy).opens();
        (Policy::clone(&file.policy()), problems)
    }

    #[test]
    fn a_policy_that_has_been_emptied_lets_nothing_pass_until_it_says_something() {
        let rule = "[[rule]]\ndecision = \"deny\"\ntool = \"x\"\n";
        let user = User::new(rule);
        let (mut file, _) = user.opens();
        assert!(file.look().is_none());
        // The claim also holds if the file was invalid in between.
        user.writes("policy.toml", "[[rule]");
        assert_eq!(file.look().map(|problems| problems.len()), Some(1));
        for _ in 0..2 {
            user.writes("policy.toml", " \n\n");
            let said = user.said(&file.look().unwrap());
            assert!(said[0].contains("policy.toml: is empty, and was not before"), "{said:?}");
            assert!(said[0].ends_with("no call of a tool passes until that is right"), "{said:?}");
            assert!(file.policy().defect.is_some());
        }
        user.writes("policy.toml", rule);
        assert_eq!(file.look(), Some(vec![]));
        assert_eq!((file.policy().defect.clone(), file.policy().rules.len()), (None, 1));
        user.writes("policy.toml", "# nothing\n");
        assert_eq!(file.look(), Some(vec![]));
        assert_eq!(*file.policy(), Policy::default());
        user.writes("policy.toml", "");
        assert_eq!(file.look(), Some(vec![]));
        assert_eq!(*file.policy(), Policy::default());
    }

    #[test]
    fn the_profile_is_followed_and_a_file_that_may_set_it_and_cannot_be_read_lets_nothing_pass() {
        let user = User::new("");
        let (mut file, _) = user.opens();
        let mut edited = |config: &str| {
            user.writes("config.toml", config);
            let problems = file.look().map(|problems| user.said(&problems));
            let policy = file.policy();
            (problems, policy.profile, policy.defect.clone())
        };
        assert_eq!(edited("[run]\ntimeout = 20\n"), (None, Profile::Open, None));
        assert_eq!(edited("[policy]\nprofile = \"read-only\"\n"), (Some(vec![]), Profile::ReadOnly, None));
        assert_eq!(edited(""), (None, Profile::ReadOnly, None), "somebody writes it");
        let (problems, _, defect) = edited("[policy]\nprofile = \"opne\"\n");
        assert!(problems.unwrap()[0].contains("config.toml:2:11"));
        assert!(defect.unwrap().contains("config.toml:2:11: policy.profile: is \"opne\", no profile"));
        let (problems, _, defect) = edited("[policy\n");
        assert_eq!(problems.unwrap().len(), 1);
        assert!(defect.unwrap().contains("config.toml:1:"));
        assert_eq!(edited("[policy]\nprofile = \"careful\"\n"), (Some(vec![]), Profile::Careful, None));
    }

    #[test]
    fn the_example_is_a_policy() {
        let (policy, problems) = loaded(include_str!("../../../config/examples/valid/policy.toml"));
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
        let user = User::new("[budgets]\ncalls_per_run = 7\n");
        let (folder, aside) = (user.0.path().join(".config/belljar"), user.0.path().join("aside"));
        let (mut file, _) = user.opens();
        assert_eq!(file.policy().budgets.calls_per_run, Some(7));
        let defect_after = |file: &mut PolicyFile| {
            let problems = file.look().expect("it is seen to be another");
            assert_eq!(problems.is_empty(), file.policy().defect.is_none());
            file.policy().defect.clone()
        };
        // As when its folder may not be looked into any more, which the superuser always may.
        std::fs::rename(&folder, &aside).unwrap();
        std::os::unix::fs::symlink("belljar", &folder).unwrap();
        assert!(defect_after(&mut file).unwrap().contains("is a symbolic link that leads back"));
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(defect_after(&mut file), None);
        std::os::unix::fs::symlink("belljar", &folder).unwrap();
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
                "~/.config/belljar/policy.toml:3:10: is no policy: invalid type: integer `3`, expected a string",
            ),
            (
                "[[rule]]\nserver = \"a\"\ndecison = \"deny\"\n",
                "~/.config/belljar/policy.toml:3:1: is no policy: unknown field `decison`, expected one of `server`, \
                 `tool`, `read_only`, `destructive`, `arguments`, `decision`, `reason`; did you mean `decision`?",
            ),
            (
                "[[rule]]\ndecision = \"alow\"\n",
                "expected one of `allow`, `warn`, `ask`, `deny`; did you mean `allow`?",
            ),
            ("[budget]\n", "did you mean `budgets`?"),
            ("[[rule]\n", "~/.config/belljar/policy.toml:1:8: is no policy: unclosed array table"),
        ] {
            let (policy, problems) = loaded(policy);
            assert!(policy.defect.is_some());
            assert!(problems[0].contains(said), "{problems:?}");
            assert!(problems[0].ends_with("no call of a tool passes until that is right"), "{problems:?}");
        }
    }
}
