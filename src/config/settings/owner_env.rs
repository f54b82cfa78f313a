//! The variables that `[owners.NAME.env]` of the user's file sets for the servers of one owner's sessions, so that people behind
//! one `belljar serve` use accounts of their own.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use belljar_base::limits::Limits;
use belljar_base::problem::{Problem, Severity};
use belljar_confine::PrivatePlaces;

use super::toml_file::{FileOwner, TomlFile};
use crate::config::read::environment::Environment;
use crate::config::read::references::{Commands, Files, ResolvedReferences, Sources};

/// The values of variables by their names; `None`: the variable counts as not set, since its value cannot be read. Another
/// owner's value does not take its place.
pub(crate) type OwnerEnv = BTreeMap<String, Option<String>>;

/// The variables for the owner of this environment.
pub(crate) fn owner_env(
    environment: &Environment,
    limits: &Limits,
    private: &PrivatePlaces,
    files: &[TomlFile],
    problems: &mut Vec<Problem>,
) -> OwnerEnv {
    let mut env = OwnerEnv::new();
    for file in files {
        let problem = |key: &str, message: String| Problem::of_file(&file.path, message).key(key);
        if file.owner != FileOwner::User {
            if let Some(first) = file.owner_env.first() {
                let problem = problem("owners", "is not taken from a project".into()).at(first.position);
                problems.push(problem.severity(Severity::Warning).hint("write it into your own config.toml"));
            }
            continue;
        }
        let sources =
            Sources { environment, limits, files: Files::Closed, commands: Commands::Refused, private };
        let is_own = |owner: &String| environment.owner.as_ref() == Some(owner);
        for written in file.owner_env.iter().filter(|written| is_own(&written.owner)) {
            let key = format!("owners.{}.env.{}", written.owner, written.name);
            let found = match Environment::is_of_settings(OsStr::new(&written.name)) {
                true => Err(("names a variable of belljar's own settings".to_owned(), "")),
                false => sources
                    .substitute(&written.text, None, &mut ResolvedReferences::default())
                    .map_err(|unresolved| (unresolved.message, unresolved.hint)),
            };
            let value = found.unwrap_or_else(|(message, hint)| {
                problems.push(problem(&key, message).at(written.position).hint(hint));
                None
            });
            if !Environment::is_of_settings(OsStr::new(&written.name)) {
                env.insert(written.name.clone(), value);
            }
        }
    }
    env
}

#[cfg(test)]
mod tests {
    use crate::config::Transport;
    use crate::config::test_home::Home;

    #[test]
    fn an_owner_has_its_own_values_and_never_those_of_another_one_in_their_place() {
        let entry = "[servers.s]\ncommand = \"c\"\nenv = { T = \"${TOKEN}\" }\n";
        let config = "[owners.ann.env]\nTOKEN = \"${ANN_TOKEN}\"\nPATH = \"/x\"\n[owners.eve.env]\nTOKEN = \"${EVE}\"\n";
        let home = Home::new().user(&format!("{config}{entry}"));
        let home = home.variable("TOKEN", "own").variable("ANN_TOKEN", "ann's");
        let value = |owner: Option<&str>| {
            let environment = home.environment();
            let environment = match owner {
                Some(owner) => environment.of_owner(owner, []),
                None => environment,
            };
            let config = crate::config::Config::load(&environment);
            let said: Vec<String> = config.problems.iter().map(|problem| home.said(problem)).collect();
            let of_server = config.servers.first().map(|server| match &server.transport {
                Transport::Launch(launch) => launch.env.iter().next().unwrap().1.to_owned(),
                Transport::Endpoint(_) => panic!("it is started"),
            });
            (of_server, said)
        };
        assert_eq!(value(None), (Some("own".into()), vec![]));
        assert_eq!(value(Some("bob")), (Some("own".into()), vec![]));
        let (of_ann, said) = value(Some("ann"));
        assert_eq!(of_ann.as_deref(), Some("ann's"));
        assert!(
            said[0].contains("owners.ann.env.PATH: names a variable of belljar's own settings"),
            "{said:?}"
        );
        let (of_eve, said) = value(Some("eve"));
        assert_eq!(of_eve, None);
        assert!(said.iter().any(|said| said.contains("refers to ${EVE}, which is not set")), "{said:?}");
    }

    #[test]
    fn a_table_of_owners_that_cannot_be_read_starts_no_sandbox() {
        for bad in [
            "owners = 1",
            "[owners]\nann = 1",
            "[owners.ann]\nenv = 1",
            "[owners.ann.env]\nT = 1",
            "[owners.ann]\nenvs = {}",
            "[owners.Ann.env]\nT = \"t\"",
            "[owners.ann.env]\n\"T \" = \"t\"",
        ] {
            let config = Home::new().user(bad).load();
            assert!(config.sandbox_problem.is_some(), "{bad}");
        }
        let of_project = Home::new().project("[owners.ann.env]\nT = \"t\"\n").trusted().load();
        let said = of_project.problems[0].to_string();
        assert!(said.contains("owners: is not taken from a project"), "{said}");
    }
}
