//! The environment in which a client starts belljar, for `belljar doctor --client`: the variables that the client
//! passes on.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use belljar_base::limits::Limits;
use belljar_base::text;

use super::import::{is_own_command, surroundings};
use crate::clients::{self, InstallContext, OWN_NAME, Registration, Scope, client};
use crate::config::{ConfigFiles, Environment};

/// The prefix of belljar's own variables.
const SETTINGS: &str = "MCP_BRIDGE_";
/// The variables by which engines are found.
const OF_ENGINES: [&str; 6] = [
    "CONTAINER_HOST",
    "DOCKER_CERT_PATH",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "KUBECONFIG",
    "XDG_RUNTIME_DIR",
];

/// The environment that belljar gets from the client of this name, and lines about it.
///
/// # Errors
/// The reason why the environment is unknown.
pub(crate) fn through(environment: Environment, name: &str) -> Result<(Environment, Vec<String>), String> {
    let client = client(name).ok_or("there is no such client")?;
    let surroundings =
        surroundings(&environment).ok_or("no home folder is known, so there is nowhere to look")?;
    let (config, files) = ConfigFiles::load(environment.clone());
    let state = config.own_state_dir.as_deref().ok_or("no home folder is known")?;
    let limits = Limits::default();
    let context = InstallContext { surroundings: &surroundings, state, limits: &limits };
    let registration = Registration { client, name: OWN_NAME, scope: Scope::User };
    let is_own = |program: &str, words: &[String]| is_own_command(&environment, program, words);
    let (path, passed) = clients::passed(&registration, &environment.variables, &is_own, &context)
        .map_err(|error| error.to_string())?;
    let path = text::inert_line(&path.display().to_string());
    let Some(variables) = passed else {
        let said = format!(
            "{}, by {path}; it is not known which variables it gives belljar, so those of this shell count here",
            client.title
        );
        return Ok((environment, vec![said]));
    };
    let mut lines = vec![format!(
        "{}, by {path}; what follows is with the variables that it gives belljar",
        client.title
    )];
    let way = match client.can_pass_variables() {
        true => format!("`belljar install --client {name}` passes it on"),
        false => {
            "write it with its value as `env` of belljar's entry there, or write ${file:PATH} instead of it"
                .into()
        }
    };
    let through = Environment { variables, ..environment.clone() };
    for wanted in files.referred_variables() {
        let state = match (environment.variable(wanted), through.variable(wanted)) {
            (_, Some(_)) => "comes through".to_owned(),
            (Some(_), None) => format!("DOES NOT COME THROUGH: {way}"),
            (None, None) => "is not set here, and not in its file".to_owned(),
        };
        lines.push(format!("{wanted} {state}"));
    }
    let lost: BTreeSet<String> = environment
        .variables
        .keys()
        .filter_map(|name| name.to_str())
        .filter(|name| name.starts_with(SETTINGS) || OF_ENGINES.contains(name))
        .filter(|name| {
            environment.variable(name).is_some() && !through.variables.contains_key(OsStr::new(name))
        })
        .map(|name| text::inert_line(name).to_string())
        .collect();
    if !lost.is_empty() {
        let lost: Vec<String> = lost.into_iter().collect();
        lines.push(format!(
            "set here, and not for belljar there: {}; settings in config.toml count under every client",
            lost.join(", ")
        ));
    }
    Ok((through, lines))
}
