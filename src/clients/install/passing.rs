//! Which variables of the environment come through a client to belljar, and what its entry needs for that.
//!
//! No value of a variable is written into a file: entries name variables.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use serde_json::{Map, Value as Json, json};

use crate::clients::known_clients::PassedVariables;

/// Where an entry sets variables.
pub(super) const ENV: &str = "env";

/// What an entry of belljar says so that these variables come through: a key of it, and its value.
pub(in crate::clients) fn passing(
    passed_variables: PassedVariables,
    wanted: &BTreeSet<String>,
) -> Option<(&'static str, Json)> {
    let lost: Vec<&String> =
        wanted.iter().filter(|name| !comes_through(passed_variables, OsStr::new(name.as_str()))).collect();
    match passed_variables {
        _ if lost.is_empty() => None,
        PassedVariables::Unknown => None,
        PassedVariables::Listed { key, .. } => Some((key, json!(lost))),
        PassedVariables::Harmless { .. } => {
            let referred = lost.into_iter().map(|name| (name.clone(), json!(format!("${name}"))));
            Some((ENV, Json::Object(referred.collect::<Map<_, _>>())))
        }
    }
}

/// Whether a variable comes through when the entry does not name it.
pub(super) fn comes_through(passed_variables: PassedVariables, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    match passed_variables {
        PassedVariables::Unknown => true,
        PassedVariables::Listed { always, .. } => always.contains(&name),
        PassedVariables::Harmless { secret, names } => {
            let name = name.to_uppercase();
            !names.contains(&name.as_str()) && !secret.iter().any(|part| name.contains(part))
        }
    }
}
