//! The stub of a tool: everything that is known about its call, as Python classes for its objects and a function with a
//! docstring.
//!
//! The text is a complete and harmless Python source for reading, which needs only names of `typing`. Parameters whose
//! names are not valid in Python are in a class that the function's `**` unpacks.

use std::collections::HashSet;

use belljar_base::limits::Limits;

use super::reader::{ReadLimits, described_result, parameters};
use super::types::{Field, Object, Type, Typed};
use crate::catalog::literal::{is_identifier, literal, quoted};
use crate::catalog::tool::Tool;

/// The limits of successive attempts to write a stub that is not too long. The second shortens the notes. The third
/// leaves them out and reads less of the schema.
const EXTENTS: [ReadLimits; 3] = [
    ReadLimits { nodes_max: 20_000, notes_chars_max: 1_000 },
    ReadLimits { nodes_max: 20_000, notes_chars_max: 100 },
    ReadLimits { nodes_max: 500, notes_chars_max: 0 },
];
/// Names that classes must not have.
const PYTHON_NAMES: [&str; 10] =
    ["Any", "Blob", "False", "Literal", "Never", "None", "NotRequired", "True", "TypedDict", "Unpack"];
const LITERAL_CHARS_MAX: usize = 200;
/// The longest name of a parameter or key, in characters. A longer one is left out, since it could be shown only in
/// part.
const NAME_CHARS_MAX: usize = 200;
const HINT_CHARS_MAX: usize = 40;
const LINE_CHARS_MAX: usize = 100;

/// The tool's stub, at most `stub_chars_max` characters. `learned` is the shape of earlier results and a note on its
/// origin. They are used only if the tool does not declare the type of its result.
#[must_use]
pub fn stub(tool: &Tool, learned: Option<(&Typed<'_>, String)>, limits: &Limits) -> String {
    let tries = EXTENTS.iter().map(|extent| Stub::whole(tool, learned.as_ref(), *extent));
    tries.into_iter().find(|stub| stub.chars().count() <= limits.stub_chars_max).unwrap_or_else(|| {
        let head = format!("async def {}(**arguments: Any) -> Any:\n", tool.alias);
        head + &body(&tool.description)
    })
}

struct Stub<'t, 's> {
    objects: &'t [Object<'s>],
    /// The class name of each object, by index, once its class was begun.
    names: Vec<Option<String>>,
    /// Whether each class was written: only then its name may be used without quotes.
    is_written: Vec<bool>,
    text: String,
}

impl Stub<'_, '_> {
    fn whole(tool: &Tool, learned: Option<&(&Typed<'_>, String)>, extent: ReadLimits) -> String {
        let mut taken: HashSet<String> = PYTHON_NAMES.iter().map(|name| (*name).to_owned()).collect();
        taken.insert(tool.alias.clone());
        let prefix = capitalized(&tool.alias);
        let (whole, objects) = parameters(&tool.input_schema, extent);
        let mut writer = Stub::new(&objects);
        let parts = writer.parameters(&whole, &prefix, &mut taken);
        let mut text = std::mem::take(&mut writer.text);
        let told = described_result(tool, extent);
        let mut returns = "Any".to_owned();
        let mut seen = "";
        if let Some(typed) = told.as_ref().or(learned.map(|(typed, _)| *typed)) {
            let mut writer = Stub::new(&typed.objects);
            returns = writer.defined(&typed.kind, &prefix, &mut taken);
            text.push_str(&writer.text);
            seen = learned.filter(|_| told.is_none()).map_or("", |(_, seen)| seen);
        }
        text.push_str(&head(&tool.alias, &parts, &returns));
        text.push_str(&body(&docstring(tool, &whole, seen)));
        text
    }
}

impl<'t, 's> Stub<'t, 's> {
    fn new(objects: &'t [Object<'s>]) -> Self {
        Self {
            objects,
            names: vec![None; objects.len()],
            is_written: vec![false; objects.len()],
            text: String::new(),
        }
    }

    /// The parameters between the parentheses. Their classes are written first.
    fn parameters(&mut self, whole: &Object<'_>, prefix: &str, taken: &mut HashSet<String>) -> Vec<String> {
        let (mut first, mut second, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for field in whole.fields.iter().filter(|field| has_room(field)) {
            if !is_identifier(field.name) {
                odd.push(field.clone());
                continue;
            }
            let kind = self.defined(&field.kind, prefix, taken);
            if field.is_required {
                first.push(format!("{}: {kind}", field.name));
            } else {
                let default = field.default.and_then(|value| literal(value, LITERAL_CHARS_MAX));
                second.push(format!("{}: {kind} = {}", field.name, default.as_deref().unwrap_or("...")));
            }
        }
        first.append(&mut second);
        if !first.is_empty() {
            first.insert(0, "*".to_owned());
        }
        let more = free("more", |name| whole.fields.iter().any(|field| field.name == name));
        let left_out = whole.fields.iter().any(|field| !has_room(field)).then_some(Type::Any);
        let rest = whole.rest.clone().or(left_out);
        if !odd.is_empty() {
            let name = class_name(prefix, "more", taken);
            let odd = Object { hint: String::new(), fields: odd, rest };
            self.write_class(&name, &odd, prefix, taken);
            first.push(format!("**{more}: Unpack[{name}]"));
        } else if let Some(rest) = &rest {
            first.push(format!("**{more}: {}", self.defined(rest, prefix, taken)));
        }
        first
    }

    /// The text of a type, after every class in it was written.
    fn defined(&mut self, kind: &Type<'_>, prefix: &str, taken: &mut HashSet<String>) -> String {
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
                let options: Option<Vec<String>> =
                    values.iter().map(|value| literal(value, LITERAL_CHARS_MAX)).collect();
                match options {
                    Some(options) => format!("Literal[{}]", options.join(", ")),
                    None => self.defined(&Type::of_values(values), prefix, taken),
                }
            }
            Type::List(items) => format!("list[{}]", self.defined(items, prefix, taken)),
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.defined(item, prefix, taken)).collect();
                format!("tuple[{}]", items.join(", "))
            }
            Type::Dict(values) => format!("dict[str, {}]", self.defined(values, prefix, taken)),
            Type::Object(place) => match &self.names[*place] {
                Some(name) => name.clone(),
                None => self.object(*place, prefix, taken),
            },
            Type::Union(kinds) => {
                let kinds: Vec<String> = kinds.iter().map(|kind| self.defined(kind, prefix, taken)).collect();
                kinds.join(" | ")
            }
        }
    }

    fn object(&mut self, place: usize, prefix: &str, taken: &mut HashSet<String>) -> String {
        let objects = self.objects;
        let name = class_name(prefix, &objects[place].hint, taken);
        self.names[place] = Some(name.clone());
        self.write_class(&name, &objects[place], prefix, taken);
        self.is_written[place] = true;
        name
    }

    fn write_class(&mut self, name: &str, object: &Object<'_>, prefix: &str, taken: &mut HashSet<String>) {
        let fields: Vec<&Field<'_>> = object.fields.iter().filter(|field| has_room(field)).collect();
        let is_total = fields.iter().any(|field| field.is_required);
        let mut lines = Vec::new();
        for field in &fields {
            let mut kind = self.defined(&field.kind, prefix, taken);
            if self.is_ahead(&field.kind) {
                kind = quoted(&kind, usize::MAX);
            }
            if is_total && !field.is_required {
                kind = format!("NotRequired[{kind}]");
            }
            lines.push((field, kind));
        }
        let more = match &object.rest {
            Some(rest) => format!("    # and other keys: {}\n", self.defined(rest, prefix, taken)),
            None if fields.len() < object.fields.len() => "    # and other keys: Any\n".to_owned(),
            None => String::new(),
        };
        let total = if is_total { "" } else { ", total=False" };
        // Python would mangle names with two leading underscores inside a class.
        let is_plain = |field: &&Field<'_>| is_identifier(field.name) && !field.name.starts_with("__");
        if fields.iter().all(is_plain) && !fields.is_empty() {
            self.text.push_str(&format!("class {name}(TypedDict{total}):\n"));
            for (field, kind) in lines {
                self.text.push_str(&format!("    {}: {kind}{}\n", field.name, comment(field)));
            }
            self.text.push_str(&format!("{more}\n"));
        } else {
            self.text.push_str(&format!("{name} = TypedDict('{name}', {{\n"));
            for (field, kind) in lines {
                let key = quoted(field.name, usize::MAX);
                self.text.push_str(&format!("    {key}: {kind},{}\n", comment(field)));
            }
            self.text.push_str(&format!("{more}}}{total})\n\n"));
        }
    }

    /// Whether the type names a class that is not written yet, because the type is part of that class.
    fn is_ahead(&self, kind: &Type<'_>) -> bool {
        match kind {
            Type::Object(place) => !self.is_written[*place],
            Type::List(inner) | Type::Dict(inner) => self.is_ahead(inner),
            Type::Tuple(kinds) | Type::Union(kinds) => kinds.iter().any(|kind| self.is_ahead(kind)),
            _ => false,
        }
    }
}

/// The head of the function: one line if it fits, else one line for each parameter.
fn head(alias: &str, parts: &[String], returns: &str) -> String {
    let line = format!("async def {alias}({}) -> {returns}:\n", parts.join(", "));
    if parts.is_empty() || line.chars().count() <= LINE_CHARS_MAX {
        return line;
    }
    let parts: String = parts.iter().map(|part| format!("    {part},\n")).collect();
    format!("async def {alias}(\n{parts}) -> {returns}:\n")
}

fn docstring(tool: &Tool, whole: &Object<'_>, seen: &str) -> String {
    let mut parts = Vec::new();
    if !tool.description.is_empty() {
        parts.push(tool.description.clone());
    }
    if tool.only_reads() {
        parts.push("[read-only]".to_owned());
    }
    let noted = whole.fields.iter().filter(|field| is_identifier(field.name) && !field.notes.is_empty());
    let noted: Vec<String> = noted.map(|field| format!("{}: {}", field.name, field.notes)).collect();
    if !noted.is_empty() {
        parts.push(noted.join("\n"));
    }
    if !seen.is_empty() {
        parts.push(seen.to_owned());
    }
    parts.join("\n\n")
}

/// The body of the function: its docstring, or an ellipsis. Escapes keep the text exact in Python.
fn body(docstring: &str) -> String {
    if docstring.is_empty() {
        return "    ...\n".to_owned();
    }
    let mut escaped = docstring.replace('\\', "\\\\");
    if escaped.contains("\"\"\"") || escaped.ends_with('"') {
        escaped = escaped.replace('"', "\\\"");
    }
    let indented = escaped.split('\n').map(|line| match line {
        "" => String::new(),
        line => format!("    {line}"),
    });
    let indented: Vec<String> = indented.collect();
    format!("    \"\"\"{}\"\"\"\n", indented.join("\n").trim_start())
}

fn comment(field: &Field<'_>) -> String {
    if field.notes.is_empty() { String::new() } else { format!("  # {}", field.notes) }
}

fn has_room(field: &Field<'_>) -> bool {
    field.name.chars().nth(NAME_CHARS_MAX).is_none()
}

/// A class name: `ListIssues` and `filter item` make `ListIssuesFilterItem`, with a number at its end if that is taken.
fn class_name(prefix: &str, hint: &str, taken: &mut HashSet<String>) -> String {
    let hint: String = capitalized(hint).chars().take(HINT_CHARS_MAX).collect();
    let stem = format!("{prefix}{}", if hint.is_empty() { "Object" } else { &hint });
    let name = if taken.contains(&stem) {
        let mut number = 2_usize;
        while taken.contains(&format!("{stem}{number}")) {
            number += 1;
        }
        format!("{stem}{number}")
    } else {
        stem
    };
    taken.insert(name.clone());
    name
}

/// The words of a name joined, each with a capital letter; only ASCII letters and digits.
fn capitalized(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    let name: String = words.collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("T{name}") } else { name }
}

/// The word, with underscores appended until it is not taken.
fn free(word: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut word = word.to_owned();
    while is_taken(&word) {
        word.push('_');
    }
    word
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stubbed(schema: Value) -> String {
        let limits = Limits::default();
        let item = json!({"name": "f", "inputSchema": schema});
        stub(&Tool::from_json(&item, &limits).unwrap(), None, &limits)
    }

    #[test]
    fn objects_are_classes_before_the_function_and_notes_are_comments_and_docstring() {
        let limits = Limits::default();
        let tool = json!({
            "name": "list-issues", "description": "Lists issues.\n\nOf one \"repo\"",
            "inputSchema": {
                "$defs": {"Node": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}, "a-b": {"type": "string"}}}},
                "properties": {
                    "owner": {"type": "string", "description": "Who owns it.", "minLength": 1, "maxLength": 39},
                    "filter": {"type": "object", "properties": {
                        "since": {"type": "string", "format": "date-time"}, "nodes": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}},
                    "state": {"enum": ["open", "closed"], "default": "open"},
                    "at": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]},
                    "if": {"type": "boolean", "description": "Odd."},
                },
                "required": ["owner"],
            },
            "outputSchema": {"type": "object", "additionalProperties": {"type": "integer"}},
        });
        let mut tool = Tool::from_json(&tool, &limits).unwrap();
        tool.alias = "list_issues".into();
        assert_eq!(
            stub(&tool, None, &limits),
            r#"ListIssuesNode = TypedDict('ListIssuesNode', {
    'id': int,
    'next': NotRequired['ListIssuesNode'],
    'a-b': NotRequired[str],
})

class ListIssuesFilter(TypedDict, total=False):
    since: str  # date-time
    nodes: list[ListIssuesNode]

ListIssuesMore = TypedDict('ListIssuesMore', {
    'if': bool,  # Odd.
}, total=False)

async def list_issues(
    *,
    owner: str,
    filter: ListIssuesFilter = ...,
    state: Literal['open', 'closed'] = 'open',
    at: tuple[float, float] = ...,
    **more: Unpack[ListIssuesMore],
) -> dict[str, int]:
    """Lists issues.

    Of one "repo"

    owner: Who owns it. (1 to 39 characters)"""
"#
        );
    }

    #[test]
    fn what_is_too_long_loses_its_notes_and_then_its_types() {
        let property = |chars: usize| json!({"type": "string", "description": "x".repeat(chars)});
        let properties = |count: usize, chars: usize| {
            let properties = (0..count).map(|number| (format!("p{number}"), property(chars)));
            json!({"properties": properties.collect::<serde_json::Map<_, _>>()})
        };
        let chars_max = Limits::default().stub_chars_max;
        assert!(stubbed(properties(20, 900)).contains(&"x".repeat(900)));
        let shortened = stubbed(properties(250, 900));
        assert!(shortened.contains("p249: str = ...") && !shortened.contains(&"x".repeat(101)));
        assert!(shortened.chars().count() <= chars_max);
        let hostile =
            json!({"enum": (0..300).map(|n| format!("{n}{}", "y".repeat(190))).collect::<Vec<_>>()});
        let many: serde_json::Map<_, _> = (0..100).map(|n| (format!("p{n}"), hostile.clone())).collect();
        assert_eq!(stubbed(json!({"properties": many})), "async def f(**arguments: Any) -> Any:\n    ...\n");
    }

    #[test]
    fn names_that_are_taken_or_cannot_be_shown_are_no_trouble() {
        let long = "x".repeat(300);
        let inner = json!({"type": "object", "properties": {"k": {}}});
        let stub = stubbed(
            json!({"properties": {"more": {"type": "integer"}, "a-b": inner, "a b": inner, long: {}, "__k": inner}}),
        );
        assert_eq!(
            stub,
            "class FK(TypedDict, total=False):\n    k: Any\n\n\
             class FAB(TypedDict, total=False):\n    k: Any\n\n\
             class FAB2(TypedDict, total=False):\n    k: Any\n\n\
             FMore = TypedDict('FMore', {\n    'a-b': FAB,\n    'a b': FAB2,\n    # and other keys: Any\n}, total=False)\n\n\
             async def f(*, more: int = ..., __k: FK = ..., **more_: Unpack[FMore]) -> Any:\n    ...\n"
        );
    }

    #[test]
    fn a_docstring_says_what_the_description_says() {
        for (said, written) in [
            ("a\\", "    \"\"\"a\\\\\"\"\"\n"),
            ("\"\"\"x", "    \"\"\"\\\"\\\"\\\"x\"\"\"\n"),
            ("\"a\"", "    \"\"\"\\\"a\\\"\"\"\"\n"),
            ("\"a\" b\n\n  c", "    \"\"\"\"a\" b\n\n      c\"\"\"\n"),
            ("", "    ...\n"),
        ] {
            assert_eq!(body(said), written);
        }
    }
}
