//! Checks the arguments of a call. The fault that refuses a call lists its problems together, with the tool's
//! signature.
//!
//! It sends nothing; the caller decides about the call.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use jsonschema::Validator;
use serde_json::{Map, Value};

use super::super::tool::Tool;
use super::cost::is_bounded;
use super::defaults::defaults;
use super::messages::Messages;
use super::names::{DeclaredNames, Names};
use crate::policy::FindDefaults;

/// The number of problems of one call that are listed; the others are counted.
const PROBLEMS_MAX: usize = 5;
/// The largest number of the validator's errors that are examined.
const ERRORS_MAX: usize = 200;
const TOOL_CHARS_MAX: usize = 120;
/// The reason why arguments were not checked.
const TOO_MANY: &str = "the arguments are too many to be checked against the tool's schema";
const SCHEMA_UNUSABLE: &str = "the tool's schema is too large or broken, so that no arguments can be checked";
/// The longest part of a signature in a refusal, in characters.
const SIGNATURE_CHARS_MAX: usize = 600;

/// The arguments of a call as the code writes them.
#[derive(Debug, Clone, Copy)]
pub enum LiteralArguments<'g> {
    /// The call gives arguments by these names, and no others.
    Names(&'g [String]),
    /// The names cannot be read from the code.
    Unknown,
    /// Some arguments are positional.
    ByPlace,
}

/// Arguments in which no mistake was found.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedArguments {
    /// The arguments of the call, without optional ones that are null and whose schema does not accept null: code often
    /// passes `None` to leave an argument out.
    pub arguments: Map<String, Value>,
    /// The reason why the arguments were not checked against the schema; `None` if they were.
    pub unchecked: Option<&'static str>,
}

/// Returns the arguments of a call if no mistake was found in them.
///
/// # Errors
/// [`FaultCode::InvalidArguments`] with the problems and the signature.
pub fn checked(
    server: &ServerName,
    tool: &Tool,
    arguments: Map<String, Value>,
) -> Result<CheckedArguments, ToolFault> {
    let arguments = declared(&tool.input_schema, arguments);
    let Some(validator) = tool.checker.validator(&tool.input_schema) else {
        return Ok(CheckedArguments { arguments, unchecked: Some(SCHEMA_UNUSABLE) });
    };
    let mut arguments = Value::Object(arguments);
    // If the validator panics, the arguments count as unchecked, and the call is not refused for that.
    let found = catch_unwind(AssertUnwindSafe(|| {
        leave_out(tool, validator, &mut arguments);
        problems(tool, validator, &arguments)
    }));
    let (problems, unchecked) = match found {
        Ok(Some(problems)) => (problems, None),
        Ok(None) => (vec![], Some(TOO_MANY)),
        Err(_) => (vec![], Some(SCHEMA_UNUSABLE)),
    };
    match arguments {
        Value::Object(arguments) if problems.is_empty() => Ok(CheckedArguments { arguments, unchecked }),
        _ => Err(refusal("nothing was sent to ", server, tool, problems)),
    }
}

/// The search for the arguments that a call of the tool implies in addition to its own, for the policy.
#[must_use]
pub fn find_defaults(tool: &Tool) -> Arc<FindDefaults> {
    let schema = Arc::clone(&tool.input_schema);
    Arc::new(move |arguments| defaults(&schema, arguments))
}

/// Arguments that the tool does not declare and that are sent all the same, each with the declared one that was perhaps meant: the
/// tool may use them, or ignore them silently.
#[must_use]
pub fn undeclared<'a>(tool: &'a Tool, arguments: &'a Map<String, Value>) -> Vec<(&'a str, Option<&'a str>)> {
    let names = Names::of(&tool.input_schema);
    // A tool without a schema declares nothing, so nothing counts as undeclared.
    let has_schema = !tool.input_schema.is_empty();
    let open = arguments.keys().map(String::as_str).filter(|name| has_schema && names.leaves_open(name));
    open.map(|name| (name, names.meant(name, |known| !arguments.contains_key(known)))).collect()
}

/// Checks whether a call in code could succeed, by the names of its arguments.
///
/// # Errors
/// As [`checked`].
pub fn check_names(server: &ServerName, tool: &Tool, given: LiteralArguments<'_>) -> Result<(), ToolFault> {
    let problems = match given {
        LiteralArguments::Unknown => return Ok(()),
        LiteralArguments::ByPlace => vec!["arguments are given by name only".to_owned()],
        LiteralArguments::Names(_) if tool.checker.validator(&tool.input_schema).is_none() => return Ok(()),
        LiteralArguments::Names(names) => {
            let declared = DeclaredNames::of(&tool.input_schema);
            let names: Vec<&str> = names.iter().map(|name| declared.meant(name)).collect();
            of_names(&Messages { schema: &tool.input_schema, arguments: &Value::Null }, &names)
        }
    };
    if problems.is_empty() { Ok(()) } else { Err(refusal("", server, tool, problems)) }
}

/// The arguments by their declared names, where code has written these in another Unicode form.
fn declared(schema: &Map<String, Value>, arguments: Map<String, Value>) -> Map<String, Value> {
    if arguments.keys().all(|name| name.is_ascii()) {
        return arguments;
    }
    let (mut named, names) = (Map::new(), DeclaredNames::of(schema));
    for (name, value) in arguments {
        let declared = names.meant(&name);
        let name = if named.contains_key(declared) { name } else { declared.to_owned() };
        named.insert(name, value);
    }
    named
}

/// Removes arguments that are null and optional, and whose schema does not accept null.
fn leave_out(tool: &Tool, validator: &Validator, arguments: &mut Value) {
    let has_nothing = |arguments: &Map<String, Value>| arguments.values().any(Value::is_null);
    if !arguments.as_object().is_some_and(has_nothing) || !is_bounded(&tool.input_schema, arguments) {
        return;
    }
    let messages = Messages { schema: &tool.input_schema, arguments };
    let errors = validator.iter_errors(arguments).take(ERRORS_MAX);
    let names: Vec<String> = errors.filter_map(|error| messages.may_be_left_out(&error)).collect();
    if let Value::Object(arguments) = arguments {
        names.iter().for_each(|name| drop(arguments.shift_remove(name)));
    }
}

/// The problems with the arguments; `None`: the check would take too long.
fn problems(tool: &Tool, validator: &Validator, arguments: &Value) -> Option<Vec<String>> {
    let messages = Messages { schema: &tool.input_schema, arguments };
    let names: Vec<&str> =
        arguments.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
    if !is_bounded(&tool.input_schema, arguments) {
        return None;
    }
    let mut problems = of_names(&messages, &names);
    if !validator.is_valid(arguments) {
        for error in validator.iter_errors(arguments).take(ERRORS_MAX) {
            messages.add(&error, &mut problems);
        }
    }
    Some(problems)
}

fn of_names(messages: &Messages<'_>, given: &[&str]) -> Vec<String> {
    let names = Names::of(messages.schema);
    let unknown = names.unknown(given);
    let unknown = unknown.into_iter().map(|(name, meant)| messages.unknown(name, meant));
    let given: HashSet<&str> = given.iter().copied().collect();
    unknown.chain(names.missing(&given).into_iter().map(|name| messages.missing(name))).collect()
}

fn refusal(said: &str, server: &ServerName, tool: &Tool, problems: Vec<String>) -> ToolFault {
    let path = text::inert_excerpt(&format!("{server}.{}", tool.alias), TOOL_CHARS_MAX);
    let message = match &problems[..] {
        [only] => format!("{said}{path}: {only}"),
        several => {
            let shown: String =
                several.iter().take(PROBLEMS_MAX).map(|problem| format!("\n- {problem}")).collect();
            let more = several.len().saturating_sub(PROBLEMS_MAX);
            let more = if more > 0 { format!("\n(+{more} more)") } else { String::new() };
            format!("{said}{path}, {} problems:{shown}{more}", several.len())
        }
    };
    let signature = text::bounded(&tool.signature, SIGNATURE_CHARS_MAX);
    ToolFault::new(FaultCode::InvalidArguments, message).hint(format!("signature: {signature}"))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
