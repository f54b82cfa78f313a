//! The part of a server's schema that the validator gets: local, bounded, and without keywords that only some
//! validators know.
//!
//! It never fetches: a reference to another document is left out, so a call that the referenced schema refuses may be
//! sent.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

use super::refs::pointed;

/// The largest number of values in a schema; the largest of 6,910 real ones has 2,210.
const VALUES_MAX: usize = 20_000;
/// The largest number of different targets of a schema's references, and the largest total depth of the schema and
/// these targets: compilation is recursive. Real schemas have up to ten targets.
const TARGETS_MAX: usize = 64;
const DEPTHS_MAX: usize = 400;
/// The largest compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 256 << 10;

/// Keywords whose value is data.
const DATA: [&str; 2] = ["const", "enum"];
/// Keywords whose value is a table of schemas.
const TABLES: [&str; 7] = [
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "dependentRequired",
    "patternProperties",
    "properties",
];
/// Keywords that tell nothing about a value, that would make the validator fetch a schema, or that are not enforced:
/// servers do not agree on formats, and unevaluated members take more work than `arguments::cost` estimates.
const LEFT_OUT: [&str; 22] = [
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$schema",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "deprecated",
    "description",
    "examples",
    "format",
    "id",
    "readOnly",
    "title",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A tool's validator, which is made at its first use. All checkers compare as equal, so that they do not matter when
/// tools are compared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checker(Arc<OnceLock<Option<Validator>>>);

impl PartialEq for Checker {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Checker {
    /// The validator for the schema, which must be the same one at every call; `None` if the schema cannot be used.
    pub(super) fn validator(&self, schema: &Map<String, Value>) -> Option<&Validator> {
        self.0.get_or_init(|| compiled(schema)).as_ref()
    }
}

/// The treatment of patterns in a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patterns {
    Kept,
    LeftOut,
}

fn compiled(schema: &Map<String, Value>) -> Option<Validator> {
    if !is_bounded(schema) {
        return None;
    }
    // Only patterns that can be matched in linear time are accepted, since others could take forever. If any is not
    // accepted, the schema is used without its patterns.
    [Patterns::Kept, Patterns::LeftOut].into_iter().find_map(|patterns| {
        let tame = Value::Object(SubsetBuilder { root: schema, patterns }.of_object(schema));
        let options = jsonschema::options()
            .with_draft(draft(schema))
            .should_validate_formats(false)
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX));
        // If the validator panics, the schema counts as unusable.
        catch_unwind(AssertUnwindSafe(|| options.build(&tame).ok())).ok().flatten()
    })
}

/// The version of JSON Schema that the schema names; without one, the version that MCP names.
fn draft(schema: &Map<String, Value>) -> Draft {
    let said = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let drafts = [
        ("draft-04", Draft::Draft4),
        ("draft-06", Draft::Draft6),
        ("draft-07", Draft::Draft7),
        ("2019-09", Draft::Draft201909),
    ];
    drafts.into_iter().find(|(name, _)| said.contains(name)).map_or(Draft::Draft202012, |(_, draft)| draft)
}

/// Whether the schema can be compiled in bounded time and depth.
fn is_bounded(schema: &Map<String, Value>) -> bool {
    let mut seen = SchemaSize::default();
    let Some(depth) = seen.depth_of_members(schema, 0) else { return false };
    if seen.targets.len() > TARGETS_MAX {
        return false;
    }
    let targets = seen.targets.iter().filter_map(|target| pointed(target, schema));
    let depths: usize =
        targets.map(|target| SchemaSize::default().depth(target, 0).unwrap_or(DEPTHS_MAX)).sum();
    depth + depths <= DEPTHS_MAX
}

/// The sizes in a schema that bound the time of its compilation.
#[derive(Default)]
struct SchemaSize<'s> {
    values: usize,
    targets: BTreeSet<&'s str>,
}

impl<'s> SchemaSize<'s> {
    /// The depth of the value; `None` beyond the bounds.
    fn depth(&mut self, value: &'s Value, above: usize) -> Option<usize> {
        self.values += 1;
        if self.values > VALUES_MAX || above > DEPTHS_MAX {
            return None;
        }
        match value {
            Value::Object(members) => self.depth_of_members(members, above),
            Value::Array(items) => items
                .iter()
                .try_fold(1, |depth: usize, item| Some(depth.max(1 + self.depth(item, above + 1)?))),
            _ => Some(1),
        }
    }

    fn depth_of_members(&mut self, members: &'s Map<String, Value>, above: usize) -> Option<usize> {
        if let Some(Value::String(reference)) = members.get("$ref") {
            self.targets.extend(reference.strip_prefix("#/"));
        }
        members
            .values()
            .try_fold(1, |depth: usize, member| Some(depth.max(1 + self.depth(member, above + 1)?)))
    }
}

/// Copies a schema without the parts that the validator must not get. Every remaining part keeps its pointer.
struct SubsetBuilder<'s> {
    root: &'s Map<String, Value>,
    patterns: Patterns,
}

impl SubsetBuilder<'_> {
    /// Copies a schema. A value that is no schema becomes one that allows everything.
    fn of(&self, schema: &Value) -> Value {
        match schema {
            Value::Object(schema) => Value::Object(self.of_object(schema)),
            Value::Bool(all) => Value::Bool(*all),
            _ => Value::Bool(true),
        }
    }

    fn of_object(&self, schema: &Map<String, Value>) -> Map<String, Value> {
        let has_patterns = schema.contains_key("patternProperties");
        let kept = schema.iter().filter(|(keyword, inner)| match keyword.as_str() {
            "$ref" => self.is_local(inner),
            "pattern" | "patternProperties" => self.patterns == Patterns::Kept,
            "additionalProperties" => self.patterns == Patterns::Kept || !has_patterns,
            "type" => is_type(inner),
            "required" => inner.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
            "properties" => inner.is_object(),
            "allOf" | "anyOf" | "oneOf" => inner.as_array().is_some_and(|schemas| !schemas.is_empty()),
            keyword => !LEFT_OUT.contains(&keyword),
        });
        kept.map(|(keyword, inner)| (keyword.clone(), self.of_keyword(keyword, inner))).collect()
    }

    fn of_keyword(&self, keyword: &str, inner: &Value) -> Value {
        match (keyword, inner) {
            (data, _) if DATA.contains(&data) => inner.clone(),
            (table, Value::Object(schemas)) if TABLES.contains(&table) => {
                let of_entry =
                    |schema: &Value| if schema.is_array() { schema.clone() } else { self.of(schema) };
                schemas.iter().map(|(name, schema)| (name.clone(), of_entry(schema))).collect()
            }
            ("allOf" | "anyOf" | "oneOf" | "items" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter().map(|schema| self.of(schema)).collect()
            }
            ("additionalItems" | "additionalProperties" | "contains" | "else" | "if" | "items", _)
            | ("not" | "propertyNames" | "then", _)
            | (_, Value::Object(_)) => self.of(inner),
            _ => inner.clone(),
        }
    }

    /// Whether the reference names a schema of this document that was copied as a schema.
    fn is_local(&self, reference: &Value) -> bool {
        let pointer = reference.as_str().and_then(|reference| reference.strip_prefix("#/"));
        let is_copied = |pointer: &str| {
            let mut steps = pointer.split('/');
            !pointer.contains('%') && !steps.any(|step| DATA.contains(&step) || LEFT_OUT.contains(&step))
        };
        let target =
            pointer.filter(|pointer| is_copied(pointer)).and_then(|pointer| pointed(pointer, self.root));
        target.is_some_and(|target| target.is_object() || target.is_boolean())
    }
}

fn is_type(said: &Value) -> bool {
    let is_known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match said {
        Value::Array(names) => !names.is_empty() && names.iter().all(is_known),
        name => is_known(name),
    }
}
