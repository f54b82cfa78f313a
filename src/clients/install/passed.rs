//! The variables that belljar gets when a client starts it.
//!
//! It starts no client.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde_json::Value as Json;

use super::edit::{InstallContext, Registration, own_entry_of};
use super::passing::{ENV, comes_through, referred_variable};
use crate::clients::error::InstallError;
use crate::clients::known_clients::OwnCommandCheck;
use crate::clients::known_clients::PassedVariables;

/// Variables with their values.
pub type Variables = BTreeMap<OsString, OsString>;

/// The client's file, and those of the variables `here` that belljar gets when the client starts it; `None`: it is
/// unknown which variables the client passes on.
///
/// # Errors
/// The file cannot be read, or has no entry of belljar.
pub fn passed(
    registration: &Registration<'_>,
    here: &Variables,
    is_own: OwnCommandCheck<'_>,
    context: &InstallContext<'_>,
) -> Result<(PathBuf, Option<Variables>), InstallError> {
    let (path, entry) = own_entry_of(registration, is_own, context)?;
    let passed_variables = registration.client.passed_variables;
    if passed_variables == PassedVariables::Unknown {
        return Ok((path, None));
    }
    let mut variables: Variables = here.clone();
    variables.retain(|name, _| comes_through(passed_variables, name));
    if let PassedVariables::Listed { key, .. } = passed_variables {
        let listed = entry.get(key).and_then(Json::as_array).into_iter().flatten().filter_map(local_name);
        let found = listed.filter_map(|name| here.get_key_value(OsStr::new(name)));
        variables.extend(found.map(|(name, value)| (name.clone(), value.clone())));
    }
    for (name, value) in entry.get(ENV).and_then(Json::as_object).into_iter().flatten() {
        let Some(value) = value.as_str() else { continue };
        let value = match referred_variable(passed_variables, value) {
            Some(name) => here.get(OsStr::new(name)).cloned().unwrap_or_default(),
            None => value.into(),
        };
        variables.insert(name.into(), value);
    }
    Ok((path, Some(variables)))
}

/// The name of a listed variable; `None`: the variable comes from another machine.
fn local_name(listed: &Json) -> Option<&str> {
    match listed {
        Json::Object(named) if named.get("source").is_some_and(|source| source != "local") => None,
        Json::Object(named) => named.get("name")?.as_str(),
        name => name.as_str(),
    }
}
