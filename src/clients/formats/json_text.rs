//! JSON as clients write it, with comments and commas after the last item: read with positions, and edited in place.
//!
//! An edit keeps all other bytes. This module does not know what the file is about.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Number;

use super::spanned::{FormatError, Member, Node, Value};

/// The extensions of JSON that editors use, and no others of JSON5.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads a whole text. A text without a value is an empty table.
pub(crate) fn read(text: &str, depth_max: usize) -> Result<Value, FormatError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| {
        if matches!(error.kind(), ParseErrorKind::NestingDepthExceeded) {
            return FormatError::too_deep(error.range().start, depth_max);
        }
        let message = lowercase(&error.kind().to_string());
        let hint = hint(&text[error.range().start..], &message);
        FormatError { at: error.range().start, message, hint }
    })?;
    match parsed.value {
        Some(value) => value_of(value, depth_max, depth_max),
        None => Ok(Value::empty()),
    }
}

/// The text with this member in the object at `path`, which replaces one of the same name; `None`: the edit is not
/// possible.
pub(crate) fn put(text: &str, path: &[&str], name: &str, entry: &serde_json::Value) -> Option<String> {
    let root = parsed(text)?;
    let mut object = root.object_value_or_create()?;
    for key in path {
        object = object.object_value_or_create(key)?;
    }
    match object.get(name) {
        Some(member) => member.set_value(input(entry)),
        None => drop(object.append(name, input(entry))),
    }
    Some(root.to_string())
}

/// The text without this member.
pub(crate) fn take_out(text: &str, path: &[&str], name: &str) -> Option<String> {
    let root = parsed(text)?;
    let mut object = root.object_value()?;
    for key in path {
        object = object.object_value(key)?;
    }
    object.get(name)?.remove();
    Some(root.to_string())
}

fn parsed(text: &str) -> Option<CstRootNode> {
    let root = CstRootNode::parse(text, &OPTIONS).ok()?;
    (root.to_string() == text).then_some(root)
}

fn value_of(value: ast::Value<'_>, depth_left: usize, depth_max: usize) -> Result<Value, FormatError> {
    let range = value.range();
    let deeper = || depth_left.checked_sub(1).ok_or_else(|| FormatError::too_deep(range.start, depth_max));
    let node = match value {
        ast::Value::NullKeyword(_) => Node::Null,
        ast::Value::BooleanLit(literal) => Node::Bool(literal.value),
        ast::Value::StringLit(literal) => Node::Text(literal.value.into_owned()),
        ast::Value::NumberLit(literal) => match serde_json::from_str::<Number>(literal.value) {
            Ok(number) => Node::Number(number),
            Err(_) => {
                return Err(FormatError { at: range.start, message: "a malformed number".into(), hint: "" });
            }
        },
        ast::Value::Array(array) => {
            let left = deeper()?;
            let items = array.elements.into_iter().map(|item| value_of(item, left, depth_max));
            Node::List(items.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => {
            let left = deeper()?;
            let members = object.properties.into_iter().map(|property| {
                let at = property.range.start;
                let value = value_of(property.value, left, depth_max)?;
                Ok(Member { key: property.name.into_string(), at, value })
            });
            Node::Table(members.collect::<Result<_, FormatError>>()?)
        }
    };
    Ok(Value { range: range.start..range.end, node })
}

fn input(value: &serde_json::Value) -> CstInputValue {
    match value {
        serde_json::Value::Null => CstInputValue::Null,
        serde_json::Value::Bool(value) => CstInputValue::Bool(*value),
        serde_json::Value::Number(number) => CstInputValue::Number(number.to_string()),
        serde_json::Value::String(text) => CstInputValue::String(text.clone()),
        serde_json::Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        serde_json::Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

fn hint(rest: &str, message: &str) -> &'static str {
    if message.starts_with("unterminated") {
        return "the file may have been cut off";
    }
    match rest.trim_start().chars().next() {
        None => "the file may have been cut off",
        Some('\'') => "use \"double quotes\"",
        Some('#') => "a comment begins with //",
        Some(',') => "remove the comma",
        Some('"') if message.starts_with("invalid escape") => "write a backslash as \\\\",
        _ => "",
    }
}

fn lowercase(message: &str) -> String {
    let mut characters = message.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}
