//! Reads the shape of a tool's result in the order in which the sandbox unwraps it: structured content, else texts (as
//! JSON, as the repr of a list or dict, or as they are), else binary content.
//!
//! It keeps no value, and does not read results by which a tool reports an error.

use std::collections::HashMap;
use std::fmt;

use belljar_base::text;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::repr::{self, Literal};
use super::shape::{Scalar, Shape};

/// The largest depth of objects and lists that is read: one more than that of a stored shape, to notice deeper values.
const DEPTH_MAX: usize = 9;
/// The largest number of items of one list, and of keys of one object, that are read.
const ITEMS_MAX: usize = 200;

#[derive(Deserialize)]
struct CallResult<'r> {
    #[serde(default, rename = "isError")]
    is_error: bool,
    #[serde(default, borrow, rename = "structuredContent")]
    structured: Option<&'r RawValue>,
    #[serde(default, borrow)]
    content: Vec<&'r RawValue>,
    #[serde(flatten, borrow)]
    others: HashMap<&'r str, IgnoredAny>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    data: Option<IgnoredAny>,
    resource: Option<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    text: Option<IgnoredAny>,
    blob: Option<IgnoredAny>,
}

/// The shape of a tool's result; `None` if the tool reports an error or the result is not understood.
pub(super) fn shape_of_result(result: &str) -> Option<Shape> {
    let result: CallResult<'_> = object(result)?;
    if result.is_error {
        return None;
    }
    if let Some(structured) = result.structured {
        return shape_of(structured.get());
    }
    let mut blocks = Vec::new();
    for block in result.content.iter().take(ITEMS_MAX) {
        blocks.push(is_object(block.get()).then(|| shape_of_block(block.get())).flatten()?);
    }
    match blocks.len() {
        // The value may be another member.
        0 if result.others.keys().any(|name| !matches!(*name, "_meta" | "resultType")) => None,
        0 => Some(Shape::scalar(Scalar::Null)),
        1 => blocks.pop(),
        _ => Some(Shape::list(union(blocks))),
    }
}

/// The shape of a JSON text.
pub(super) fn shape_of(json: &str) -> Option<Shape> {
    let mut parser = serde_json::Deserializer::from_str(json);
    let shape = ShapeSeed { depth: 0 }.deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    Some(shape)
}

fn shape_of_block(block: &str) -> Option<Shape> {
    let Some(Block { kind, text, data, resource }) = object(block) else { return shape_of(block) };
    match (kind.as_str(), text, data, resource) {
        ("text", Some(text), ..) => Some(shape_of_text(&text)),
        ("image" | "audio", _, Some(_), _) => Some(Shape::scalar(Scalar::Blob)),
        ("resource", .., Some(Resource { text: Some(_), .. })) => Some(Shape::scalar(Scalar::Str)),
        ("resource", .., Some(Resource { blob: Some(_), .. })) => Some(Shape::scalar(Scalar::Blob)),
        _ => shape_of(block),
    }
}

/// Reads an object. A derived deserializer would accept a list too.
fn object<'r, T: Deserialize<'r>>(json: &'r str) -> Option<T> {
    is_object(json).then(|| serde_json::from_str(json).ok())?
}

fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

/// The shape of a text. If the text is an object or a list, as JSON or as a Python literal, it is the shape of that
/// value.
fn shape_of_text(text: &str) -> Shape {
    let may_be_value = text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with(['{', '[']);
    let read = || shape_of(text).or_else(|| Some(shape_of_literal(&repr::read(text)?, 0)));
    may_be_value.then(read).flatten().unwrap_or_else(|| Shape::scalar(Scalar::Str))
}

fn shape_of_literal(literal: &Literal, depth: usize) -> Shape {
    let parts_max = if depth < DEPTH_MAX { ITEMS_MAX } else { 0 };
    match literal {
        Literal::Null => Shape::scalar(Scalar::Null),
        Literal::Bool(_) => Shape::scalar(Scalar::Bool),
        Literal::Int(_) => Shape::scalar(Scalar::Int),
        Literal::Float(_) => Shape::scalar(Scalar::Float),
        Literal::Str(_) => Shape::scalar(Scalar::Str),
        // Shapes have no type for these.
        Literal::Bytes(_) | Literal::Object => Shape::default(),
        Literal::List(items) | Literal::Tuple(items) => Shape::list(union(
            items.iter().take(parts_max).map(|item| shape_of_literal(item, depth + 1)).collect(),
        )),
        Literal::Dict(members) => {
            let member = |(key, value): &(Literal, Literal)| match key {
                Literal::Str(key) => Some((key.clone(), shape_of_literal(value, depth + 1))),
                _ => None,
            };
            // Shapes have only keys that are texts.
            let members: Option<Vec<_>> = members.iter().take(parts_max).map(member).collect();
            members.map_or_else(Shape::default, Shape::object)
        }
    }
}

fn union(shapes: Vec<Shape>) -> Shape {
    shapes.into_iter().fold(Shape::default(), |mut all, shape| {
        all.merge(shape);
        all
    })
}

/// Deserializes the next value into its shape.
#[derive(Clone, Copy)]
struct ShapeSeed {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for ShapeSeed {
    type Value = Shape;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ShapeSeed {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::scalar(Scalar::Null))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::scalar(Scalar::Bool))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::scalar(Scalar::Int))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::scalar(Scalar::Int))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::scalar(Scalar::Float))
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::scalar(Scalar::Str))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let inner = ShapeSeed { depth: self.depth + 1 };
        let mut seen = Shape::default();
        let mut count = 0;
        while count < ITEMS_MAX && self.depth < DEPTH_MAX {
            let Some(item) = items.next_element_seed(inner)? else { return Ok(Shape::list(seen)) };
            seen.merge(item);
            count += 1;
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Shape::list(seen))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Shape, A::Error> {
        let inner = ShapeSeed { depth: self.depth + 1 };
        let mut seen = Vec::new();
        while seen.len() < ITEMS_MAX && self.depth < DEPTH_MAX {
            let Some(key) = members.next_key::<String>()? else { return Ok(Shape::object(seen)) };
            if key == text::NUMBER_KEY {
                let digits = members.next_value::<String>()?;
                let is_whole = digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                return Ok(Shape::scalar(if is_whole { Scalar::Int } else { Scalar::Float }));
            }
            seen.push((key, members.next_value_seed(inner)?));
        }
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Shape::object(seen))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::signature::written;
    use super::*;

    fn seen(result: &Value) -> Option<String> {
        shape_of_result(&result.to_string()).map(|shape| written(&shape.typed(), 10))
    }

    #[test]
    fn a_result_has_the_shape_of_what_the_sandbox_makes_of_it() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAEC"});
        let resource = |key: &str| json!({"type": "resource", "resource": {"uri": "u", key: "AAEC"}});
        for (result, shape) in [
            (json!({"content": []}), "None"),
            (json!({"content": [text("plain")]}), "str"),
            (json!({"content": [text(" {\"a\": [1]}")]}), "{a: list[int]}"),
            (json!({"content": [text("{broken")]}), "str"),
            (
                json!({"content": [text("[{'a': 1, 'b': None}, {'a': 2, 'b': b''}]")]}),
                "list[{a: int, b: None}]",
            ),
            (json!({"content": [text("{1: 2}")]}), "Any"),
            (json!({"content": [text("(1, 2)")]}), "str"),
            (json!({"content": [text("5")]}), "str"),
            (json!({"content": [text("x")], "structuredContent": {"n": 1.5}}), "{n: float}"),
            (json!({"content": [text("x")], "structuredContent": null}), "str"),
            (json!({"content": [text("a"), text("[1]"), image.clone()]}), "list[str | Blob | list[int]]"),
            (json!({"content": [image]}), "Blob"),
            (json!({"content": [resource("text")]}), "str"),
            (json!({"content": [resource("blob")]}), "Blob"),
            (json!({"content": [{"type": "resource_link", "uri": "u"}]}), "{type: str, uri: str}"),
        ] {
            assert_eq!(seen(&result).as_deref(), Some(shape), "{result}");
        }
        for nothing in
            [json!({"isError": true, "content": [text("{\"a\":1}")]}), json!([]), json!({"content": 1})]
        {
            assert_eq!(seen(&nothing), None, "{nothing}");
        }
    }

    #[test]
    fn what_is_long_or_deep_is_looked_at_in_part_and_read_to_its_end() {
        let mut rows = vec![json!({"a": 1}); ITEMS_MAX];
        rows.push(json!({"late": 1}));
        assert_eq!(
            seen(&json!({"structuredContent": {"rows": rows}})).as_deref(),
            Some("{rows: list[{a: int}]}")
        );
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
        assert!(shape_of(&deep).is_some());
        assert_eq!(shape_of("{\"a\": 1} x"), None);
    }
}
