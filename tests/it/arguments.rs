//! Calls of real tools: what their schemas allow is sent, and what they do not is refused. `TOOLS` names another file than
//! the committed one.

use std::path::Path;

use belljar_base::names::ServerName;
use belljar_tools::catalog::{Tool, checked};
use serde_json::{Map, Value, json};

use crate::search::quality;

#[test]
fn what_the_schemas_of_real_tools_allow_is_sent_and_what_they_do_not_is_refused() {
    let file = std::env::var("TOOLS").unwrap_or_else(|_| quality::TOOLS.to_owned());
    let catalog = quality::catalog(Path::new(&file));
    let (mut tools, mut refused, mut let_through) = (0, Vec::new(), Vec::new());
    for server in catalog.servers() {
        for tool in server.listed() {
            tools += 1;
            let path = format!("{}.{}", server.name, tool.name);
            for every in [false, true] {
                if let Err(fault) = checked(&server.name, tool, allowed(tool, every)) {
                    refused.push(format!("{path}: {}", fault.message));
                }
            }
            let_through.extend(wrong_that_is_sent(&server.name, tool).map(|what| format!("{path}: {what}")));
        }
    }
    assert!(tools > 600, "{tools}");
    assert_eq!(refused, [""; 0]);
    assert_eq!(let_through, [""; 0]);
}

/// Arguments that fit: the required ones, or one for every parameter.
fn allowed(tool: &Tool, every: bool) -> Map<String, Value> {
    let required = required(tool);
    // Text that fits a pattern is not made up here.
    let is_easy = |schema: &Value| schema.get("pattern").is_none();
    let wanted = properties(tool)
        .filter(|(name, schema)| (every && is_easy(schema)) || required.contains(&name.as_str()));
    wanted.map(|(name, schema)| (name.clone(), fitting(schema, &tool.input_schema))).collect()
}

/// A mistake that is not noticed: nothing given where something is required, or a value that no type allows.
fn wrong_that_is_sent(server: &ServerName, tool: &Tool) -> Option<String> {
    let has_default = |name: &&str| tool.input_schema["properties"][*name].get("default").is_some();
    if !required(tool).iter().all(has_default) && checked(server, tool, Map::new()).is_ok() {
        return Some("nothing".to_owned());
    }
    let simple = |schema: &Value| {
        schema.get("type").is_some_and(|kind| ["string", "integer"].map(Value::from).contains(kind))
    };
    let (name, _) = properties(tool).find(|(_, schema)| simple(schema))?;
    let mut arguments = allowed(tool, false);
    arguments.insert(name.clone(), json!([{}]));
    checked(server, tool, arguments).is_ok().then(|| format!("{name} as a list"))
}

fn properties(tool: &Tool) -> impl Iterator<Item = (&String, &Value)> {
    tool.input_schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn required(tool: &Tool) -> Vec<&str> {
    let names = tool.input_schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

/// A value that a schema of the ordinary kind allows.
fn fitting(schema: &Value, root: &Map<String, Value>) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        return fitting(Value::Object(root.clone()).pointer(pointer).unwrap_or(&Value::Null), root);
    }
    let first = |key: &str| schema[key].as_array().and_then(|values| values.first());
    if let Some(value) = schema.get("const").or_else(|| first("enum")) {
        return value.clone();
    }
    if let Some(schema) = first("anyOf").or_else(|| first("oneOf")).or_else(|| first("allOf")) {
        return fitting(schema, root);
    }
    let count = |key: &str| schema[key].as_u64().unwrap_or(0) as usize;
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("string") => json!("a".repeat(count("minLength"))),
        Some("integer" | "number") => {
            let least =
                schema["minimum"].as_f64().or(schema["exclusiveMinimum"].as_f64().map(|least| least + 1.0));
            let most = schema["maximum"].as_f64().unwrap_or(f64::MAX);
            let value = least.unwrap_or(1.0).min(most);
            if kind == Some("integer") { json!(value as i64) } else { json!(value) }
        }
        Some("boolean") => json!(true),
        Some("array") => json!(vec![fitting(&schema["items"], root); count("minItems")]),
        Some("object") => {
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(|name| (name.to_owned(), fitting(&schema["properties"][name], root))).collect()
        }
        _ => Value::Null,
    }
}
