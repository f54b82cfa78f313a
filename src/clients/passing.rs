//! Which variables of the environment come through a client to belljar, and what its entry needs for that.
//!
//! No value of a variable is written into a file: entries name variables.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use super::error::InstallError;
use super::install::{Registration, Workshop, own_entry_of};
use super::reading::IsOwn;
use super::table::Passes;

/// Where an entry sets variables.
const ENV: &str = "env";

/// Variables with their values.
pub type Variables = BTreeMap<OsString, OsString>;

/// What an entry of belljar says so that these variables come through: a key of it, and its value.
pub(super) fn passing(passes: Passes, wanted: &BTreeSet<String>) -> Option<(&'static str, Json)> {
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
fn comes_through(passes: Passes, name: &OsStr) -> bool {
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

/// The client's file, and the variables that belljar gets of these when the client starts it; nothing where it is not known
/// which.
///
/// # Errors
/// The file cannot be read, or belljar is not in it.
pub fn passed(
    registration: &Registration<'_>,
    here: &Variables,
    is_own: IsOwn<'_>,
    workshop: &Workshop<'_>,
) -> Result<(PathBuf, Option<Variables>), InstallError> {
    let (path, entry) = own_entry_of(registration, is_own, workshop)?;
    let passes = registration.client.passes;
    if passes == Passes::Unknown {
        return Ok((path, None));
    }
    let mut variables: Variables = here.clone();
    variables.retain(|name, _| comes_through(passes, name));
    if let Passes::Listed { key, .. } = passes {
        let listed = entry.get(key).and_then(Json::as_array).into_iter().flatten().filter_map(local_name);
        let found = listed.filter_map(|name| here.get_key_value(OsStr::new(name)));
        variables.extend(found.map(|(name, value)| (name.clone(), value.clone())));
    }
    for (name, value) in entry.get(ENV).and_then(Json::as_object).into_iter().flatten() {
        let Some(value) = value.as_str() else { continue };
        let referred = value.strip_prefix('$').filter(|_| matches!(passes, Passes::Harmless { .. }));
        let value = match referred {
            Some(name) => {
                let bare = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
                here.get(OsStr::new(bare)).cloned().unwrap_or_default()
            }
            None => value.into(),
        };
        variables.insert(name.into(), value);
    }
    Ok((path, Some(variables)))
}

/// The name of a listed variable, unless it is one of another machine.
fn local_name(listed: &Json) -> Option<&str> {
    match listed {
        Json::Object(named) if named.get("source").is_some_and(|source| source != "local") => None,
        Json::Object(named) => named.get("name")?.as_str(),
        name => name.as_str(),
    }
}
