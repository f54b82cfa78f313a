//! One line of Python that says how a tool is called, from its JSON Schemas.
//!
//! It is for reading, not for execution; whatever it does not understand is `Any`, and no schema makes it long or slow.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::literal::{is_identifier, literal, quoted};
use super::refs::resolved;
use super::tool::Tool;
use crate::limits::Limits;
use crate::text;

/// Schemas looked at for one signature: more than its line has room for.
const NODES_MAX: usize = 500;
/// Names of `required` looked at in one schema, for the same reason.
const REQUIRED_MAX: usize = 500;
/// Schemas within schemas that are followed; a `$ref` can make them endless.
const NESTED_MAX: usize = 12;
const NAME_CHARS_MAX: usize = 60;
const LITERAL_CHARS_MAX: usize = 40;
const OPTIONS_MAX: usize = 16;

/// The tool's signature under its alias, for example
/// `list_issues(*, owner: str, state: Literal['open','closed'] = 'open') -> dict`.
///
/// Required parameters come first, `= ...` marks an optional one without a known default, and parameters that are no
/// Python names stand in `**{...}`. Objects with known keys are written `{key: type, optional?: type}`.
#[must_use]
pub fn signature(tool: &Tool, limits: &Limits) -> String {
    // The less nesting is shown the shorter it gets.
    let tries = [3, 1, 0].map(|depth| with_depth(tool, depth));
    let shortest = &tries[2];
    let fitting = tries.iter().find(|line| line.chars().count() <= limits.signature_chars_max);
    text::bounded(fitting.unwrap_or(shortest), limits.signature_chars_max).into_owned()
}

/// A schema within another as a type, for example `list[str] | None`.
pub(super) fn type_of(schema: &Map<String, Value>, root: &Map<String, Value>) -> String {
    Writer { root, nodes_left: NODES_MAX, nested: 0 }.object(schema, 2)
}

fn with_depth(tool: &Tool, depth: usize) -> String {
    let mut writer = Writer { root: &tool.input_schema, nodes_left: NODES_MAX, nested: 0 };
    let parameters = writer.parameters(depth);
    let mut line = format!("{}({parameters})", tool.alias);
    if let Some(output) = &tool.output_schema {
        let mut writer = Writer { root: output, nodes_left: NODES_MAX, nested: 0 };
        line.push_str(" -> ");
        line.push_str(&writer.object(output, depth));
    }
    line
}

struct Writer<'s> {
    root: &'s Map<String, Value>,
    nodes_left: usize,
    nested: usize,
}

impl Writer<'_> {
    fn parameters(&mut self, depth: usize) -> String {
        let whole = self.root;
        let required = required(whole);
        let (mut first, mut second, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for (name, schema) in properties(whole) {
            let is_required = required.contains(name.as_str());
            let kind = self.kind(schema, depth);
            if !is_identifier(name) {
                let mark = if is_required { "" } else { "?" };
                odd.push(format!("{}{mark}: {kind}", quoted(name, NAME_CHARS_MAX)));
            } else if is_required {
                first.push(format!("{}: {kind}", text::bounded(name, NAME_CHARS_MAX)));
            } else {
                let default = self.default(schema);
                let default = default.as_deref().unwrap_or("...");
                second.push(format!("{}: {kind} = {default}", text::bounded(name, NAME_CHARS_MAX)));
            }
        }
        first.append(&mut second);
        if !first.is_empty() {
            first.insert(0, "*".to_owned());
        }
        if !odd.is_empty() {
            first.push(format!("**{{{}}}", odd.join(", ")));
        } else if let Some(more) = whole.get("additionalProperties") {
            match more {
                Value::Bool(true) => first.push("**more".to_owned()),
                Value::Object(_) => first.push(format!("**more: {}", self.kind(more, depth))),
                _ => {}
            }
        }
        first.join(", ")
    }

    /// A schema's default, where it has a short one.
    fn default(&self, schema: &Value) -> Option<String> {
        if self.nodes_left == 0 {
            return None;
        }
        literal(resolved(schema, self.root)?.get("default")?, LITERAL_CHARS_MAX)
    }

    /// A schema as a type.
    fn kind(&mut self, schema: &Value, depth: usize) -> String {
        self.nodes_left = self.nodes_left.saturating_sub(1);
        if self.nodes_left == 0 || self.nested == NESTED_MAX {
            return "Any".to_owned();
        }
        self.nested += 1;
        let kind = match resolved(schema, self.root) {
            Some(Value::Object(schema)) => self.object(schema, depth),
            Some(Value::Bool(false)) => "Never".to_owned(),
            _ => "Any".to_owned(),
        };
        self.nested -= 1;
        kind
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> String {
        let kind = self.plain(schema, depth);
        if schema.get("nullable") == Some(&Value::Bool(true)) && !kind.ends_with("None") {
            return format!("{kind} | None");
        }
        kind
    }

    fn plain(&mut self, schema: &Map<String, Value>, depth: usize) -> String {
        if let Some(value) = schema.get("const") {
            return options(std::slice::from_ref(value));
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            return options(values);
        }
        if let Some(Value::Array(kinds)) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            return self.union(kinds.iter().take(OPTIONS_MAX), depth);
        }
        match schema.get("type") {
            Some(Value::String(kind)) => self.named(kind, schema, depth),
            Some(Value::Array(kinds)) => {
                let names = kinds.iter().filter_map(Value::as_str).take(OPTIONS_MAX);
                joined(names.map(|name| self.named(name, schema, depth)).collect())
            }
            _ if schema.contains_key("properties") => self.named("object", schema, depth),
            _ if schema.contains_key("items") => self.named("array", schema, depth),
            _ => match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
                Some([only]) => self.kind(only, depth.saturating_sub(1)),
                Some([_, ..]) => "dict".to_owned(),
                _ => "Any".to_owned(),
            },
        }
    }

    fn union<'v>(&mut self, kinds: impl Iterator<Item = &'v Value>, depth: usize) -> String {
        if self.nodes_left == 0 {
            return "Any".to_owned();
        }
        joined(kinds.map(|kind| self.kind(kind, depth.saturating_sub(1))).collect())
    }

    fn named(&mut self, name: &str, schema: &Map<String, Value>, depth: usize) -> String {
        match name {
            "string" => "str".to_owned(),
            "integer" => "int".to_owned(),
            "number" => "float".to_owned(),
            "boolean" => "bool".to_owned(),
            "null" => "None".to_owned(),
            "array" => match schema.get("items") {
                Some(items @ Value::Object(_)) if depth > 0 => match self.kind(items, depth - 1).as_str() {
                    "Any" => "list".to_owned(),
                    kind => format!("list[{kind}]"),
                },
                _ => "list".to_owned(),
            },
            "object" => self.shape(schema, depth),
            _ => "Any".to_owned(),
        }
    }

    fn shape(&mut self, schema: &Map<String, Value>, depth: usize) -> String {
        if depth == 0 {
            return "dict".to_owned();
        }
        let required = required(schema);
        let keys: Vec<String> = properties(schema)
            .take(OPTIONS_MAX + 1)
            .enumerate()
            .map(|(index, (name, schema))| {
                if index == OPTIONS_MAX {
                    return "…".to_owned();
                }
                let mark = if required.contains(name.as_str()) { "" } else { "?" };
                let kind = self.kind(schema, depth - 1);
                if is_identifier(name) {
                    format!("{}{mark}: {kind}", text::bounded(name, NAME_CHARS_MAX))
                } else {
                    format!("{}{mark}: {kind}", quoted(name, NAME_CHARS_MAX))
                }
            })
            .collect();
        if !keys.is_empty() {
            return format!("{{{}}}", keys.join(", "));
        }
        match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => {
                format!("dict[str, {}]", self.kind(values, depth - 1))
            }
            _ => "dict".to_owned(),
        }
    }
}

fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn required(schema: &Map<String, Value>) -> HashSet<&str> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.take(REQUIRED_MAX).filter_map(Value::as_str).collect()
}

/// `Literal[...]` of the values that Python can write there.
fn options(values: &[Value]) -> String {
    let mut written: Vec<String> = Vec::new();
    for value in values.iter().take(OPTIONS_MAX) {
        match literal(value, LITERAL_CHARS_MAX) {
            Some(value) if !value.starts_with(['[', '{']) => written.push(value),
            _ => return "Any".to_owned(),
        }
    }
    if values.len() > OPTIONS_MAX {
        written.push("…".to_owned());
    }
    if written.is_empty() { "Never".to_owned() } else { format!("Literal[{}]", written.join(",")) }
}

/// A union without repetition, `None` last.
fn joined(kinds: Vec<String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for kind in kinds {
        if !unique.contains(&kind) {
            unique.push(kind);
        }
    }
    if unique.is_empty() || unique.iter().any(|kind| kind == "Any") {
        return "Any".to_owned();
    }
    unique.sort_by_key(|kind| kind == "None");
    unique.join(" | ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn signed(schema: Value) -> String {
        let limits = Limits::default();
        let mut item = json!({"name": "f", "inputSchema": schema});
        if let Some(output) = item["inputSchema"].get("OUT").cloned() {
            item["outputSchema"] = output;
        }
        signature(&Tool::from_json(&item, &limits).unwrap(), &limits)
    }

    #[test]
    fn required_come_first_and_defaults_are_shown() {
        assert_eq!(
            signed(json!({"properties": {
                "state": {"enum": ["open", "closed"], "default": "open"}, "owner": {"type": "string"},
                "labels": {"type": "array", "items": {"type": "string"}}}, "required": ["owner"], "OUT": {"type": "object"}})),
            "f(*, owner: str, state: Literal['open','closed'] = 'open', labels: list[str] = ...) -> dict"
        );
        assert_eq!(signed(json!({})), "f()");
        assert_eq!(signed(json!({"additionalProperties": {"type": "integer"}})), "f(**more: int)");
    }

    #[test]
    fn unions_objects_and_local_references_are_followed() {
        assert_eq!(
            signed(json!({
                "$defs": {"P": {"type": "object", "properties": {"x": {"type": "number"}, "next": {"$ref": "#/$defs/P"}}, "required": ["x"]}},
                "properties": {
                    "p": {"$ref": "#/$defs/P"},
                    "u": {"anyOf": [{"type": "null"}, {"type": "string"}, {"type": "integer"}], "default": null},
                    "t": {"type": ["string", "null"]},
                    "m": {"type": "object", "additionalProperties": {"type": "boolean"}},
                    "far": {"$ref": "https://example.com/x"},
                    "loop": {"$ref": "#/properties/loop"},
                    "one": {"allOf": [{"type": "integer"}]}
                },
                "required": ["p", "u", "t", "m", "far", "loop", "one"]
            })),
            "f(*, p: {x: float, next?: {x: float, next?: {x: float, next?: dict}}}, u: str | int | None, t: str | None, \
             m: dict[str, bool], far: Any, loop: Any, one: int)"
        );
    }

    #[test]
    fn names_that_are_no_python_are_passed_in_a_dict_and_hostile_text_is_inert() {
        assert_eq!(
            signed(
                json!({"properties": {"a-b": {"type": "string"}, "class": {}, "x')\n\u{1b}": {"const": "'\u{202e}"}},
                "required": ["a-b"]})
            ),
            r"f(**{'a-b': str, 'class'?: Any, 'x\')\n\x1b'?: Literal['\'\u202e']})"
        );
    }

    #[test]
    fn a_huge_schema_gives_a_bounded_line_quickly() {
        let defs: Map<String, Value> = (0..40)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
                (format!("d{n}"), json!({"anyOf": [next, next], "properties": {"a": next, "b": next}}))
            })
            .collect();
        assert_eq!(
            signed(json!({"$defs": defs, "properties": {"a": {"$ref": "#/$defs/d0"}}})),
            "f(*, a: Any = ...)"
        );
        let many: Map<String, Value> =
            (0..5000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        let line = signed(json!({ "properties": many }));
        assert_eq!(line.chars().count(), Limits::default().signature_chars_max);
    }

    /// Nothing is measured: what is not linear here does not come to an end.
    #[test]
    fn a_hostile_schema_of_many_megabytes_is_no_work() {
        let names = || (0..300_000).map(|n| format!("p{n}"));
        let far = format!("#/{}", "x".repeat(1 << 20));
        let reference = json!({"$ref": "#/far"});
        let properties: Map<String, Value> = names().map(|name| (name, reference.clone())).collect();
        let required: Vec<String> = names().collect();
        let line = signed(json!({"far": {"$ref": far}, "properties": properties, "required": required}));
        assert!(line.starts_with("f(*, p0: Any, p1: Any, "), "{line}");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop::sample::select(vec![
            "type",
            "properties",
            "items",
            "enum",
            "anyOf",
            "allOf",
            "$ref",
            "required",
            "default",
            "const",
            "a",
            "nullable",
            "additionalProperties",
        ]);
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop::sample::select(vec!["object", "array", "string", "#/properties", "#/a", "\u{1b}"])
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 48, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..5).prop_map(|pairs| pairs
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect::<Map<_, _>>()
                    .into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_schema_gives_one_inert_line(schema in any_json()) {
            let line = signed(schema);
            let is_inert = line.starts_with("f(") && !line.contains(char::is_control);
            prop_assert!(is_inert, "{}", line);
            prop_assert!(line.chars().count() <= Limits::default().signature_chars_max);
        }
    }
}
