//! The signature of a tool: one line of Python.
//!
//! It is for reading, not for execution; no schema makes it long or slow.

use belljar_base::limits::Limits;
use belljar_base::text;
use serde_json::{Map, Value};

use super::reader::{ReadLimits, described_result, described_within, parameters};
use super::types::{Field, Object, Type, Typed};
use crate::catalog::literal::{is_identifier, literal, quoted};
use crate::catalog::tool::Tool;

/// The largest number of schemas that are read for one signature, and of types that are written: more than fit into its
/// line.
const EXTENT: ReadLimits = ReadLimits { nodes_max: 500, notes_chars_max: 0 };
const NAME_CHARS_MAX: usize = 60;
const LITERAL_CHARS_MAX: usize = 40;
const OPTIONS_MAX: usize = 16;

/// The tool's signature under its alias, for example
/// `list_issues(*, owner: str, state: Literal['open','closed'] = 'open') -> dict`.
///
/// Required parameters come first, `= ...` marks an optional one without a known default, and parameters whose names
/// are not valid in Python are in `**{...}`. Objects with known keys are written `{key: type, optional?: type}`, and
/// end in `…` if there are more keys than are known or fit.
#[must_use]
pub fn signature(tool: &Tool, limits: &Limits) -> String {
    // The signature gets shorter if it shows less nesting.
    let mut line = String::new();
    for depth in [3, 1, 0] {
        line = with_depth(tool, depth);
        if line.chars().count() <= limits.signature_chars_max {
            return line;
        }
    }
    text::bounded(&line, limits.signature_chars_max).into_owned()
}

/// The type of a schema inside `root`, for example `list[str] | None`.
pub fn type_of(schema: &Map<String, Value>, root: &Map<String, Value>) -> String {
    written(&described_within(schema, root, "value", EXTENT), 2)
}

/// A type in the form of signatures, with at most `depth` levels of dicts and lists.
pub(super) fn written(typed: &Typed<'_>, depth: usize) -> String {
    Line { objects: &typed.objects, left: EXTENT.nodes_max }.kind(&typed.kind, depth)
}

fn with_depth(tool: &Tool, depth: usize) -> String {
    let (whole, objects) = parameters(&tool.input_schema, EXTENT);
    let parameters = Line { objects: &objects, left: EXTENT.nodes_max }.parameters(&whole, depth);
    let mut line = format!("{}({parameters})", tool.alias);
    if let Some(result) = described_result(tool, EXTENT) {
        line.push_str(" -> ");
        line.push_str(&written(&result, depth));
    }
    line
}

struct Line<'t, 's> {
    objects: &'t [Object<'s>],
    /// The number of types that may still be written; a schema may refer to one type many times.
    left: usize,
}

impl Line<'_, '_> {
    fn parameters(&mut self, whole: &Object<'_>, depth: usize) -> String {
        let (mut first, mut second, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for field in &whole.fields {
            let kind = self.kind(&field.kind, depth);
            if !is_identifier(field.name) {
                odd.push(format!("{}{}: {kind}", quoted(field.name, NAME_CHARS_MAX), mark(field)));
            } else if field.is_required {
                first.push(format!("{}: {kind}", text::bounded(field.name, NAME_CHARS_MAX)));
            } else {
                let default = field.default.and_then(|value| literal(value, LITERAL_CHARS_MAX));
                let default = default.as_deref().unwrap_or("...");
                second.push(format!("{}: {kind} = {default}", text::bounded(field.name, NAME_CHARS_MAX)));
            }
        }
        first.append(&mut second);
        if !first.is_empty() {
            first.insert(0, "*".to_owned());
        }
        if !odd.is_empty() {
            first.push(format!("**{{{}}}", odd.join(", ")));
        } else if let Some(rest) = &whole.rest {
            first.push(match self.kind(rest, depth).as_str() {
                "Any" => "**more".to_owned(),
                kind => format!("**more: {kind}"),
            });
        }
        first.join(", ")
    }

    fn kind(&mut self, kind: &Type<'_>, depth: usize) -> String {
        if self.left == 0 {
            return "Any".to_owned();
        }
        self.left -= 1;
        match kind {
            Type::Any => "Any".to_owned(),
            Type::Never => "Never".to_owned(),
            Type::Null => "None".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Int => "int".to_owned(),
            Type::Float => "float".to_owned(),
            Type::Str => "str".to_owned(),
            Type::Blob => "Blob".to_owned(),
            Type::Literal(values) => {
                let shown = values.iter().take(OPTIONS_MAX);
                match shown.map(|value| literal(value, LITERAL_CHARS_MAX)).collect::<Option<Vec<_>>>() {
                    Some(mut options) => {
                        options.extend((values.len() > OPTIONS_MAX).then(|| "…".to_owned()));
                        format!("Literal[{}]", options.join(","))
                    }
                    None => self.kind(&Type::of_values(values), depth),
                }
            }
            Type::List(_) | Type::Tuple(_) if depth == 0 => "list".to_owned(),
            Type::List(items) => match self.kind(items, depth - 1).as_str() {
                "Any" => "list".to_owned(),
                kind => format!("list[{kind}]"),
            },
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.kind(item, depth - 1)).collect();
                format!("tuple[{}]", items.join(", "))
            }
            Type::Dict(_) | Type::Object(_) if depth == 0 => "dict".to_owned(),
            Type::Dict(values) => match self.kind(values, depth - 1).as_str() {
                "Any" => "dict".to_owned(),
                kind => format!("dict[str, {kind}]"),
            },
            Type::Object(place) => self.shape(&self.objects[*place], depth - 1),
            Type::Union(kinds) => {
                let mut written: Vec<String> = Vec::new();
                for kind in kinds.iter().take(OPTIONS_MAX) {
                    // Different types may look the same if parts of them are not shown.
                    let kind = self.kind(kind, depth);
                    if !written.contains(&kind) {
                        written.push(kind);
                    }
                }
                if kinds.len() > OPTIONS_MAX || written.iter().any(|kind| kind == "Any") {
                    return "Any".to_owned();
                }
                written.join(" | ")
            }
        }
    }

    fn shape(&mut self, object: &Object<'_>, depth: usize) -> String {
        let mut keys = Vec::new();
        for field in object.fields.iter().take(OPTIONS_MAX) {
            let kind = self.kind(&field.kind, depth);
            let name = if is_identifier(field.name) {
                text::bounded(field.name, NAME_CHARS_MAX).into_owned()
            } else {
                quoted(field.name, NAME_CHARS_MAX)
            };
            keys.push(format!("{name}{}: {kind}", mark(field)));
        }
        if object.fields.len() > OPTIONS_MAX || object.rest.is_some() {
            keys.push("…".to_owned());
        }
        format!("{{{}}}", keys.join(", "))
    }
}

fn mark(field: &Field<'_>) -> &'static str {
    if field.is_required { "" } else { "?" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

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

    /// No time is measured: code that is not linear would never end here.
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
