//! Describes the problem with a value in one line: the place, the expected value, and the actual one.
//!
//! The validator finds the problems. This module drops those with values that servers accept although their schemas do
//! not.

use std::collections::HashSet;

use belljar_base::text;
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::names::{Names, meant};
use crate::catalog::literal::{is_identifier, literal, quoted};
use crate::catalog::python::type_of;
use crate::catalog::refs::pointed;

/// The depth of nested unions in which the likeliest branch is examined.
const UNIONS_MAX: usize = 3;
/// The largest number of errors of one branch that are examined.
const ERRORS_MAX: usize = 50;
const LINE_CHARS_MAX: usize = 160;
const PLACE_CHARS_MAX: usize = 80;
const TYPE_CHARS_MAX: usize = 80;
const GLIMPSE_CHARS_MAX: usize = 40;
const OPTIONS_CHARS_MAX: usize = 90;
const KEYS_MAX: usize = 3;

/// Writes messages about the arguments of one call.
pub(super) struct Messages<'a> {
    /// The schema of all arguments.
    pub(super) schema: &'a Map<String, Value>,
    /// The arguments, a JSON object.
    pub(super) arguments: &'a Value,
}

impl Messages<'_> {
    /// The message for an unknown parameter.
    pub(super) fn unknown(&self, name: &str, meant: Option<&str>) -> String {
        let meant = meant.map(|meant| format!("; did you mean {}?", quoted(meant, GLIMPSE_CHARS_MAX)));
        line(format!("unknown parameter {}{}", quoted(name, GLIMPSE_CHARS_MAX), meant.unwrap_or_default()))
    }

    /// The message for a missing parameter.
    pub(super) fn missing(&self, name: &str) -> String {
        let kind = self.schema.get("properties").and_then(|known| known.get(name)?.as_object());
        let kind = kind.map(|schema| format!(": {}", self.kind(schema))).unwrap_or_default();
        line(format!("missing parameter {}{kind}", quoted(name, GLIMPSE_CHARS_MAX)))
    }

    /// Adds the message for an error of the validator, without duplicates. Nothing is added for a forgiven value, or
    /// for the names of the outermost object, which [`Names`] examines.
    pub(super) fn add(&self, error: &ValidationError<'_>, lines: &mut Vec<String>) {
        self.add_inner(error, UNIONS_MAX, lines);
    }

    fn add_inner(&self, error: &ValidationError<'_>, unions_left: usize, lines: &mut Vec<String>) {
        let path = error.instance_path().as_str();
        let keyword = error.schema_path().as_str();
        let Some(value) = self.arguments.pointer(path) else { return };
        let Some(schema) = self.parent(keyword) else { return };
        if ["/additionalProperties", "/required"].contains(&keyword) || self.is_pardoned(schema, path, value)
        {
            return;
        }
        if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } =
            error.kind()
            && unions_left > 0
            && let Some(branch) = likeliest(context, path)
        {
            for error in branch.iter().take(ERRORS_MAX) {
                self.add_inner(error, unions_left - 1, lines);
            }
            return;
        }
        for what in self.what(error.kind(), keyword, schema, value) {
            let place = self.place(path);
            let note = note(schema, value);
            let line = line(if place.is_empty() { what } else { format!("{place}: {what}{note}") });
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }

    fn what(
        &self,
        kind: &ValidationErrorKind,
        keyword: &str,
        schema: &Map<String, Value>,
        value: &Value,
    ) -> Vec<String> {
        let expected = |expected: String| vec![format!("expected {expected}, got {}", glimpse(value))];
        let at = |bound: &str, limit: &Value| {
            vec![format!("expected {bound} {}, got {}", shown(limit), glimpse(value))]
        };
        let count = |bound: &str, limit: u64, things: &str| {
            vec![format!("expected {bound} {limit} {things}, got {}", glimpse(value))]
        };
        match kind {
            ValidationErrorKind::Type { .. }
            | ValidationErrorKind::AnyOf { .. }
            | ValidationErrorKind::OneOfNotValid { .. } => expected(self.kind(schema)),
            ValidationErrorKind::Constant { expected_value } => expected(shown(expected_value)),
            ValidationErrorKind::Enum { options } => vec![enumerated(options, value)],
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                if Names::of(schema).missing(&HashSet::new()).contains(&name) {
                    vec![format!("missing key {}", quoted(name, GLIMPSE_CHARS_MAX))]
                } else {
                    vec![]
                }
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known =
                    || schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
                let is_free = |known: &&str| value.get(known).is_none();
                unexpected
                    .iter()
                    .take(KEYS_MAX)
                    .map(|name| {
                        let meant = meant(name, known().map(String::as_str).filter(is_free));
                        let meant = meant.map(|(_, known)| quoted(known, GLIMPSE_CHARS_MAX));
                        let meant = meant.map(|known| format!("; did you mean {known}?")).unwrap_or_default();
                        format!("unknown key {}{meant}", quoted(name, GLIMPSE_CHARS_MAX))
                    })
                    .collect()
            }
            ValidationErrorKind::Minimum { limit } => at(">=", limit),
            ValidationErrorKind::Maximum { limit } => at("<=", limit),
            ValidationErrorKind::ExclusiveMinimum { limit } => at(">", limit),
            ValidationErrorKind::ExclusiveMaximum { limit } => at("<", limit),
            ValidationErrorKind::MinLength { limit } => count("at least", *limit, "characters"),
            ValidationErrorKind::MaxLength { limit } => count("at most", *limit, "characters"),
            ValidationErrorKind::MinItems { limit } => count("at least", *limit, "items"),
            ValidationErrorKind::MaxItems { limit } => count("at most", *limit, "items"),
            ValidationErrorKind::MinProperties { limit } => count("at least", *limit, "keys"),
            ValidationErrorKind::MaxProperties { limit } => count("at most", *limit, "keys"),
            ValidationErrorKind::Pattern { pattern } => {
                expected(format!("text that matches {}", quoted(pattern, TYPE_CHARS_MAX)))
            }
            ValidationErrorKind::UniqueItems => expected("items that differ".to_owned()),
            ValidationErrorKind::FalseSchema => vec!["not allowed here".to_owned()],
            _ => {
                let keyword = keyword.rsplit('/').next().unwrap_or_default();
                expected(format!("what the schema's {} allows", quoted(keyword, GLIMPSE_CHARS_MAX)))
            }
        }
    }

    fn kind(&self, schema: &Map<String, Value>) -> String {
        text::bounded(&type_of(schema, self.schema), TYPE_CHARS_MAX).into_owned()
    }

    /// The schema that has this keyword.
    fn parent(&self, keyword: &str) -> Option<&Map<String, Value>> {
        match keyword.rsplit_once('/')?.0 {
            "" => Some(self.schema),
            parent => pointed(parent.strip_prefix('/')?, self.schema)?.as_object(),
        }
    }

    /// Whether a value is forgiven. Servers accept the default that they publish, and null for a nullable schema,
    /// whatever type the schema states.
    fn is_pardoned(&self, schema: &Map<String, Value>, path: &str, value: &Value) -> bool {
        let accepts = |schema: &Map<String, Value>| {
            schema.get("default") == Some(value)
                || (value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)))
        };
        accepts(schema)
            || self.parameter(path).and_then(|(_, schema)| schema.as_object()).is_some_and(accepts)
    }

    /// The parameter whose whole value is at this path, and its schema.
    fn parameter<'p>(&self, path: &'p str) -> Option<(&'p str, &Value)> {
        let name = path.strip_prefix('/').filter(|name| !name.contains(['/', '~']))?;
        Some((name, self.schema.get("properties")?.get(name)?))
    }

    /// The optional parameter that an error is about, if its value is null and its schema does not accept null.
    pub(super) fn may_be_left_out(&self, error: &ValidationError<'_>) -> Option<String> {
        let path = error.instance_path().as_str();
        let value = self.arguments.pointer(path).filter(|value| value.is_null())?;
        let schema = self.parent(error.schema_path().as_str())?;
        let (name, _) = self.parameter(path)?;
        let is_required = Names::of(self.schema).missing(&HashSet::new()).contains(&name);
        (!is_required && !self.is_pardoned(schema, path, value)).then(|| name.to_owned())
    }

    /// A JSON Pointer into the arguments as Python writes it: `labels[0].name`.
    fn place(&self, pointer: &str) -> String {
        let mut value = Some(self.arguments);
        let mut place = String::new();
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            if let Some(Value::Array(items)) = value {
                place.push_str(&format!("[{step}]"));
                value = step.parse().ok().and_then(|index: usize| items.get(index));
                continue;
            }
            if !is_identifier(&step) {
                place.push_str(&format!("[{}]", quoted(&step, GLIMPSE_CHARS_MAX)));
            } else if place.is_empty() {
                place.push_str(&step);
            } else {
                place.push_str(&format!(".{step}"));
            }
            value = value.and_then(|value| value.get(&step));
        }
        text::bounded(&place, PLACE_CHARS_MAX).into_owned()
    }
}

/// A note that may help, or an empty text.
fn note(schema: &Map<String, Value>, value: &Value) -> &'static str {
    if value.is_string() && is_of_other_type(schema) { "; text is not converted" } else { "" }
}

/// Whether the schema names its types, and a text is not among them.
fn is_of_other_type(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind != "string",
        Some(Value::Array(kinds)) => !kinds.contains(&Value::from("string")),
        _ => false,
    }
}

/// The branch of a union that was most likely meant: the only one whose type fits, or among several of them the only
/// one whose constants fit.
fn likeliest<'e>(
    branches: &'e [Vec<ValidationError<'static>>],
    path: &str,
) -> Option<&'e [ValidationError<'static>]> {
    let fits = |branch: &&Vec<ValidationError<'static>>,
                kinds: fn(&ValidationErrorKind) -> bool,
                here: bool| {
        !branch.iter().any(|error| kinds(error.kind()) && (error.instance_path().as_str() == path) == here)
    };
    let is_type = |kind: &ValidationErrorKind| matches!(kind, ValidationErrorKind::Type { .. });
    let is_constant = |kind: &ValidationErrorKind| {
        matches!(kind, ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. })
    };
    let mut fitting: Vec<_> = branches.iter().filter(|branch| fits(branch, is_type, true)).collect();
    if fitting.len() > 1 {
        fitting.retain(|branch| fits(branch, is_constant, false));
    }
    match fitting[..] {
        [only] => Some(only),
        _ => None,
    }
}

/// The allowed values. If the value is a text, the most similar one comes first.
fn enumerated(options: &Value, value: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut shown_chars = 0;
    let mut names: Vec<String> = Vec::new();
    for option in options {
        let name = shown(option);
        shown_chars += name.chars().count() + 2;
        if shown_chars > OPTIONS_CHARS_MAX && !names.is_empty() {
            break;
        }
        names.push(name);
    }
    let more = options.len() - names.len();
    let more = if more > 0 { format!(" (+{more} more)") } else { String::new() };
    let texts = options.iter().filter_map(Value::as_str);
    let meant = value.as_str().and_then(|value| meant(value, texts));
    let meant = meant.map(|(_, option)| format!("; did you mean {}?", quoted(option, GLIMPSE_CHARS_MAX)));
    format!("expected {}{more}, got {}{}", names.join(" or "), glimpse(value), meant.unwrap_or_default())
}

/// A value of the schema, as a literal.
fn shown(value: &Value) -> String {
    literal(value, GLIMPSE_CHARS_MAX).unwrap_or_else(|| glimpse(value))
}

/// The kind of a value and its beginning.
fn glimpse(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "bool True".to_owned(),
        Value::Bool(false) => "bool False".to_owned(),
        Value::Number(number) if number.is_f64() => format!("float {number}"),
        Value::Number(number) => format!("int {number}"),
        Value::String(text) => format!("str {}", quoted(text, GLIMPSE_CHARS_MAX)),
        Value::Array(items) => format!("list of {}", items.len()),
        Value::Object(members) if members.is_empty() => "empty dict".to_owned(),
        Value::Object(members) => {
            let keys: Vec<String> =
                members.keys().take(KEYS_MAX).map(|key| quoted(key, GLIMPSE_CHARS_MAX / 2)).collect();
            let more = if members.len() > KEYS_MAX { ", …" } else { "" };
            format!("dict with {}{more}", keys.join(", "))
        }
    }
}

/// The text on one line, within the bound.
fn line(text: String) -> String {
    text::inert_excerpt(&text, LINE_CHARS_MAX)
}
