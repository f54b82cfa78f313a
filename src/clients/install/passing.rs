//! Which variables of the environment come through a client to belljar, and what its entry needs for that.
//!
//! No value of a variable is written into a file: entries name variables.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use serde_json::{Map, Value as Json, json};

use crate::clients::table::Passes;

/// Where an entry sets variables.
pub(super) const ENV: &str = "env";

/// What an entry of belljar says so that these variables come through: a key of it, and its value.
pub(in crate::clients) fn passing(passes: Passes, wanted: &BTreeSet<String>) -> Option<(&'static str, Json)> {
    let lost: Vec<&String> =
        wanted.iter().filter(|name| !comes_through(passes, OsStr::new(name.as_str()))).collect();
    match passes {
        _ if lost.is_empty() => None,
        Passes::Unknown => None,
        Passes::Listed { key, .. } => Some((key, json!(lost))),
        Passes::Harmless { .. } => {
            let referred = lost.into_iter().map(|name| (name.clone(), json!(format!("${name}"))));
            Some((ENV, Json::Object(referred.collect::<Map<_, _>>())))
        }
    }
}

/// Whether a variable comes through when the entry does not name it.
pub(super) fn comes_through(passes: Passes, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    match passes {
        Passes::Unknown => true,
        Passes::Listed { always, .. } => always.contains(&name),
        Passes::Harmless { secret, names } => {
            let name = name.to_uppercase();
            !names.contains(&name.as_str()) && !secret.iter().any(|part| name.contains(part))
        }
    }
}
