//! The facts that a JSON Schema states about one place, merged with those of its `$ref` and `allOf`.
//!
//! It makes no types, and does not choose among alternatives. It does not detect contradictions.

use std::collections::HashSet;
use std::ptr;

use serde_json::{Map, Value};

use crate::catalog::refs::target;

/// The largest number of schemas that are merged for one place, which also bounds the depth of references.
const SCHEMAS_MAX: usize = 64;
/// The largest number of properties of one place; of further ones only their existence is known.
const PROPERTIES_MAX: usize = 300;
const REQUIRED_MAX: usize = 500;
const VALUES_MAX: usize = 300;
/// Keywords that describe a value. A schema without them only refers to another one, or describes it in words.
const STRUCTURE: [&str; 12] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "items",
    "prefixItems",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
];

/// The facts that a schema states about one place.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts<'s> {
    /// The schemas that state the facts, the nearest first.
    pub(super) schemas: Vec<&'s Map<String, Value>>,
    /// The names of JSON types that are allowed.
    pub(super) kinds: Option<Vec<&'s str>>,
    /// The allowed values, at most [`VALUES_MAX`]; with more, any value counts as allowed.
    pub(super) values: Option<Vec<&'s Value>>,
    /// The keys of objects, with all schemas that describe each.
    pub(super) properties: Vec<(&'s str, Vec<&'s Value>)>,
    /// Whether the schema has more keys than `properties` has.
    pub(super) is_cut: bool,
    pub(super) required: HashSet<&'s str>,
    /// The value of `additionalProperties`.
    pub(super) rest: Option<&'s Value>,
    /// The schemas of `patternProperties`.
    pub(super) patterns: Vec<&'s Value>,
    /// The schema of a list's items.
    pub(super) items: Option<&'s Value>,
    /// The schemas of a list's first items.
    pub(super) prefix: Option<&'s [Value]>,
    /// The alternatives of `anyOf` and `oneOf`.
    pub(super) choices: Vec<&'s [Value]>,
    pub(super) is_nullable: bool,
    /// Whether no value is allowed.
    pub(super) is_never: bool,
    pub(super) default: Option<&'s Value>,
    /// The name of the definition that the last `$ref` names.
    pub(super) name: Option<&'s str>,
}

/// The identity of an object: the schemas that describe it.
pub(super) type Identity = Vec<*const Map<String, Value>>;

impl<'s> Facts<'s> {
    /// Adds the facts of a schema. Each schema and each property takes one from the budget, and nothing is read beyond
    /// it.
    pub(super) fn add(&mut self, schema: &'s Value, root: &'s Map<String, Value>, budget: &mut usize) {
        match schema {
            Value::Object(schema) => self.add_object(schema, root, budget),
            Value::Bool(false) => self.is_never = true,
            _ => {}
        }
    }

    /// Adds the facts of a schema that is an object, as a whole document is.
    pub(super) fn add_object(
        &mut self,
        schema: &'s Map<String, Value>,
        root: &'s Map<String, Value>,
        budget: &mut usize,
    ) {
        // A schema that was added before is the end of a circular reference.
        let is_known = self.schemas.iter().any(|known| ptr::eq(*known, schema));
        if *budget == 0 || is_known || self.schemas.len() == SCHEMAS_MAX {
            return;
        }
        *budget -= 1;
        self.schemas.push(schema);
        self.add_own(schema, budget);
        match schema.get("$ref").and_then(Value::as_str) {
            Some("#") => self.add_object(root, root, budget),
            Some(reference) => {
                let is_definition = ["#/$defs/", "#/definitions/"].iter().any(|at| reference.starts_with(at));
                if is_definition {
                    self.name = reference.rsplit('/').next();
                }
                if let Some(target) = target(reference, root) {
                    self.add(target, root, budget);
                }
            }
            None => {}
        }
        for part in array(schema, "allOf") {
            self.add(part, root, budget);
        }
    }

    /// The identity by which an object is recognised.
    pub(super) fn identity(&self) -> Identity {
        let says_much = |schema: &&&Map<String, Value>| STRUCTURE.iter().any(|key| schema.contains_key(*key));
        self.schemas.iter().filter(says_much).map(|schema| ptr::from_ref(*schema)).collect()
    }

    /// The value of a keyword in the first of its schemas that has it.
    pub(super) fn first(&self, key: &str) -> Option<&'s Value> {
        self.schemas.iter().find_map(|schema| schema.get(key))
    }

    fn add_own(&mut self, schema: &'s Map<String, Value>, budget: &mut usize) {
        match schema.get("type") {
            Some(Value::String(kind)) => self.narrow_kinds(vec![kind]),
            Some(Value::Array(kinds)) => {
                self.narrow_kinds(kinds.iter().take(VALUES_MAX).filter_map(Value::as_str).collect());
            }
            _ => {}
        }
        match (schema.get("const"), schema.get("enum")) {
            (Some(value), _) => self.narrow_values(vec![value]),
            (None, Some(Value::Array(values))) if values.len() <= VALUES_MAX => {
                self.narrow_values(values.iter().collect());
            }
            _ => {}
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            self.add_properties(properties, budget);
        }
        let required = array(schema, "required").iter().filter_map(Value::as_str);
        self.required.extend(required.take(REQUIRED_MAX));
        self.rest = self.rest.or_else(|| schema.get("additionalProperties"));
        if let Some(Value::Object(patterns)) = schema.get("patternProperties") {
            self.patterns.extend(patterns.values().take(SCHEMAS_MAX));
        }
        let items = schema.get("items");
        let listed = schema.get("prefixItems").or(items).and_then(Value::as_array);
        self.prefix = self.prefix.or(listed.map(Vec::as_slice));
        self.items = self.items.or(items.filter(|items| items.is_object()));
        for key in ["anyOf", "oneOf"] {
            let choices = array(schema, key);
            if choices.iter().any(says_what) {
                self.choices.push(choices);
            }
        }
        self.is_nullable |= schema.get("nullable") == Some(&Value::Bool(true));
        self.default = self.default.or_else(|| schema.get("default"));
    }

    fn add_properties(&mut self, properties: &'s Map<String, Value>, budget: &mut usize) {
        let before = self.properties.len();
        for (name, schema) in properties {
            let known = self.properties[..before].iter_mut().find(|(known, _)| known == name);
            if let Some((_, schemas)) = known {
                schemas.push(schema);
            } else if *budget > 0 && self.properties.len() < PROPERTIES_MAX {
                *budget -= 1;
                self.properties.push((name, vec![schema]));
            } else {
                self.is_cut = true;
                return;
            }
        }
    }

    /// Keeps the types that both lists allow. If there are none, the types of the schema that was added last replace
    /// the others.
    fn narrow_kinds(&mut self, kinds: Vec<&'s str>) {
        let Some(known) = &self.kinds else {
            self.kinds = Some(kinds);
            return;
        };
        let both = |kind: &&str| known.contains(kind) || (*kind == "integer" && known.contains(&"number"));
        let narrowed: Vec<&str> = kinds.iter().copied().filter(both).collect();
        self.kinds = Some(if narrowed.is_empty() { kinds } else { narrowed });
    }

    fn narrow_values(&mut self, values: Vec<&'s Value>) {
        let Some(known) = &self.values else {
            self.values = Some(values);
            return;
        };
        let narrowed: Vec<&Value> = known.iter().copied().filter(|value| values.contains(value)).collect();
        self.values = Some(if narrowed.is_empty() { values } else { narrowed });
    }
}

/// Whether an alternative tells the type of a value, and not only a further condition, such as required keys.
fn says_what(choice: &Value) -> bool {
    const WHAT: [&str; 11] = [
        "type",
        "properties",
        "additionalProperties",
        "items",
        "prefixItems",
        "enum",
        "const",
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
    ];
    choice.is_boolean() || WHAT.iter().any(|key| choice.get(key).is_some())
}

fn array<'s>(schema: &'s Map<String, Value>, key: &str) -> &'s [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
