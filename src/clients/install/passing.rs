//! The variables of the environment that a client passes to belljar, and the part of its entry that is needed for that.
//!
//! No value of a variable is written into a file: entries only name variables.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use serde_json::{Map, Value as Json, json};

use crate::clients::known_clients::PassedVariables;

/// The key of an entry that sets variables.
pub(super) const ENV: &str = "env";

/// The key and the value that belljar's entry needs so that these variables are passed on.
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

/// Whether the client passes on a variable even if the entry does not name the variable.
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
