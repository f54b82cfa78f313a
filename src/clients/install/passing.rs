//! The variables of the environment that a client passes to belljar, and the part of its entry that is needed for that.
//!
//! No value of a variable is written into a file: entries only name variables.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use serde_json::{Map, Value as Json, json};

use crate::clients::known_clients::{Client, PassedVariables};

/// The key of an entry that sets variables.
pub(super) const ENV: &str = "env";

/// The key and the value that belljar's entry needs so that these variables are passed on.
pub(crate) fn passing(
    passed_variables: PassedVariables,
    wanted: &BTreeSet<String>,
) -> Option<(&'static str, Json)> {
    let lost: Vec<&String> =
        wanted.iter().filter(|name| !comes_through(passed_variables, OsStr::new(name.as_str()))).collect();
    match passed_variables {
        _ if lost.is_empty() => None,
        PassedVariables::Unknown | PassedVariables::Few { reference: None, .. } => None,
        PassedVariables::Listed { key, .. } => Some((key, json!(lost))),
        PassedVariables::Harmless { .. } => Some(referred(&lost, ("$", ""))),
        PassedVariables::Few { reference: Some(reference), .. } => Some(referred(&lost, reference)),
    }
}

/// The variables that a client keeps back, if its entry cannot pass them on without their values.
#[must_use]
pub fn unpassable<'v>(client: &Client, wanted: &'v BTreeSet<String>) -> Vec<&'v str> {
    let is_lost = |name: &&str| !comes_through(client.passed_variables, OsStr::new(name));
    match client.can_pass_variables() {
        true => Vec::new(),
        false => wanted.iter().map(String::as_str).filter(is_lost).collect(),
    }
}

/// The variable that a value of the entry's `env` refers to.
pub(super) fn referred_variable(passed_variables: PassedVariables, value: &str) -> Option<&str> {
    match passed_variables {
        PassedVariables::Harmless { .. } => {
            let name = value.strip_prefix('$')?;
            Some(name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name))
        }
        PassedVariables::Few { reference: Some((before, after)), .. } => {
            value.strip_prefix(before)?.strip_suffix(after)
        }
        _ => None,
    }
}

fn referred(names: &[&String], (before, after): (&str, &str)) -> (&'static str, Json) {
    let referred = names.iter().map(|name| ((*name).clone(), json!(format!("{before}{name}{after}"))));
    (ENV, Json::Object(referred.collect::<Map<_, _>>()))
}

/// Whether the client passes on a variable even if the entry does not name the variable.
pub(super) fn comes_through(passed_variables: PassedVariables, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    match passed_variables {
        PassedVariables::Unknown => true,
        PassedVariables::Listed { always, .. } | PassedVariables::Few { always, .. } => {
            always.contains(&name)
        }
        PassedVariables::Harmless { secret, names } => {
            let name = name.to_uppercase();
            !names.contains(&name.as_str()) && !secret.iter().any(|part| name.contains(part))
        }
    }
}
