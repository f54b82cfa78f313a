//! Arguments that a tool also wants as HTTP headers, so that a proxy in front of a server can route by them
//! (`x-mcp-header`, MCP 2026-07-28).
//!
//! It sends nothing, and leaves the arguments in the body unchanged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

const KEYWORD: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// Keywords of a schema that have values, not schemas.
const VALUES: [&str; 4] = ["default", "const", "enum", "examples"];
/// Keywords whose values map names to schemas. These names are not keywords.
const BY_NAME: [&str; 4] = ["$defs", "definitions", "dependentSchemas", "patternProperties"];

/// The headers of one server's tools. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(crate) struct ParameterHeaders(Arc<Mutex<HashMap<String, Vec<ParameterHeader>>>>);

/// An argument that is sent as a header.
#[derive(Debug, PartialEq, Eq)]
struct ParameterHeader {
    /// The names of the properties on the path to it, from the arguments on.
    path: Vec<String>,
    name: HeaderName,
}

impl ParameterHeaders {
    /// Returns the tools that may be called, without those whose `x-mcp-header` is invalid (MCP 2026-07-28, "Custom
    /// headers"). The headers of the returned tools replace those of the earlier ones.
    /// `left_out` takes in the others.
    pub(crate) fn admit(&self, tools: Vec<Value>, left_out: &mut Vec<String>) -> Vec<Value> {
        let mut known = HashMap::new();
        let admitted = tools.into_iter().filter(|tool| {
            let name = tool["name"].as_str().unwrap_or_default();
            match tool["inputSchema"].as_object().map_or(Ok(vec![]), headers_of) {
                Ok(headers) if headers.is_empty() => true,
                Ok(headers) => {
                    known.insert(name.to_owned(), headers);
                    true
                }
                Err(why) => {
                    left_out.push(format!("{name} (its x-mcp-header is not valid: {why})"));
                    false
                }
            }
        });
        let admitted = admitted.collect();
        *self.0.lock() = known;
        admitted
    }

    /// Adds the headers of a call.
    pub(super) fn add(&self, tool: &str, arguments: &Value, headers: &mut HeaderMap) {
        for ParameterHeader { path, name } in self.0.lock().get(tool).into_iter().flatten() {
            let found = path.iter().try_fold(arguments, |value, key| value.get(key));
            let text = match found {
                Some(Value::String(text)) => text.clone(),
                Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
                _ => continue,
            };
            headers.insert(name.clone(), header_of(&text));
        }
    }

    /// Whether a call of this tool needs such headers.
    pub(super) fn has(&self, tool: &str) -> bool {
        self.0.lock().contains_key(tool)
    }
}

/// The headers that a tool's schema requests. The error is the rule that it breaks.
fn headers_of(schema: &Map<String, Value>) -> Result<Vec<ParameterHeader>, &'static str> {
    let (mut headers, mut names) = (vec![], HashSet::new());
    if schema.contains_key(KEYWORD) {
        return Err("it stands at the root");
    }
    collect(schema, &mut vec![], &mut headers)?;
    if headers.iter().any(|header: &ParameterHeader| !names.insert(header.name.clone())) {
        return Err("two properties have the same one");
    }
    Ok(headers)
}

/// Collects the headers of a schema that is reached through `properties` only.
fn collect(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    headers: &mut Vec<ParameterHeader>,
) -> Result<(), &'static str> {
    for (key, value) in schema {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let Value::Object(property) = property else { continue };
                    path.push(name.clone());
                    if let Some(header) = property.get(KEYWORD) {
                        headers
                            .push(ParameterHeader { path: path.clone(), name: name_of(header, property)? });
                    }
                    collect(property, path, headers)?;
                    path.pop();
                }
            }
            (key, _) if key == KEYWORD || VALUES.contains(&key) => {}
            (key, Value::Object(named)) if BY_NAME.contains(&key) => {
                named.values().try_for_each(must_have_none)?;
            }
            (_, value) => must_have_none(value)?,
        }
    }
    Ok(())
}

/// Refuses the keyword anywhere in a schema that is not reached through `properties` only.
fn must_have_none(value: &Value) -> Result<(), &'static str> {
    match value {
        Value::Object(schema) if schema.contains_key(KEYWORD) => {
            Err("it stands where `properties` alone do not lead")
        }
        Value::Object(schema) => schema
            .iter()
            .filter(|(key, _)| !VALUES.contains(&key.as_str()))
            .try_for_each(|(_, value)| must_have_none(value)),
        Value::Array(items) => items.iter().try_for_each(must_have_none),
        _ => Ok(()),
    }
}

fn name_of(header: &Value, property: &Map<String, Value>) -> Result<HeaderName, &'static str> {
    let name = header.as_str().ok_or("it is no text")?;
    if name.is_empty() {
        return Err("it is empty");
    }
    // `HeaderName` accepts exactly the tokens of RFC 9110, section 5.6.2.
    let name = HeaderName::from_bytes(format!("{PREFIX}{name}").as_bytes());
    let name = name.map_err(|_| "it is no name of a header")?;
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(name),
        _ => Err("its property is no string, integer or boolean"),
    }
}

/// A text as the value of a header; an encoded form if a header cannot have the text itself.
pub(super) fn header_of(text: &str) -> HeaderValue {
    use base64::Engine;
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text;
    let encoded = || format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text));
    let text = if is_plain && !text.starts_with("=?base64?") { text.to_owned() } else { encoded() };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(properties: Value) -> Value {
        json!({"name": "t", "inputSchema": {"type": "object", "properties": properties}})
    }

    #[test]
    fn arguments_become_headers_nested_ones_included() {
        let headers = ParameterHeaders::default();
        let listed = tool(json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "absent": {"type": "string", "x-mcp-header": "Absent"},
            "plain": {"type": "string"},
        }));
        assert_eq!(headers.admit(vec![listed.clone()], &mut vec![]), [listed]);
        let mut sent = HeaderMap::new();
        let arguments =
            json!({"region": " 日本", "deep": {"on": true}, "count": 3, "absent": null, "plain": "x"});
        headers.add("t", &arguments, &mut sent);
        let mut sent: Vec<_> =
            sent.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        sent.sort_unstable();
        assert_eq!(
            sent,
            [
                ("mcp-param-count", "3"),
                ("mcp-param-on", "true"),
                ("mcp-param-region", "=?base64?IOaXpeacrA==?=")
            ]
        );
        assert!(headers.has("t") && !headers.has("other"));
    }

    #[test]
    fn tools_whose_headers_are_not_well_formed_are_left_out() {
        let of = |header: Value, kind: &str| tool(json!({"a": {"type": kind, "x-mcp-header": header}}));
        let twice = json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}});
        let in_items = json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}});
        let refused = [
            of(json!(""), "string"),
            of(json!(1), "string"),
            of(json!("a b"), "string"),
            of(json!("a\r\n"), "string"),
            of(json!("A"), "object"),
            of(json!("A"), "number"),
            tool(twice),
            tool(in_items),
            json!({"name": "t", "inputSchema": {"x-mcp-header": "A"}}),
        ];
        for tool in refused {
            assert!(ParameterHeaders::default().admit(vec![tool.clone()], &mut vec![]).is_empty(), "{tool}");
        }
        let of_a_value = tool(json!({"a": {"type": "object", "default": {"x-mcp-header": 1}}}));
        assert_eq!(ParameterHeaders::default().admit(vec![of_a_value], &mut vec![]).len(), 1);
    }
}
