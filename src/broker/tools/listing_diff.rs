//! The changes between two lists of one server's tools, as a sentence for the reader of a reply.

use std::collections::BTreeMap;

use belljar_base::names::ServerName;
use belljar_base::text;
use belljar_tools::catalog::Tool;

/// Longest list of names, in characters.
const NAMES_CHARS_MAX: usize = 300;
const SERVER_CHARS_MAX: usize = 100;

/// Describes the changes; `None`: there are none. If the first list may be from an earlier day, only names are
/// compared: otherwise a server whose descriptions vary a little would be reported each day.
pub(crate) fn said(server: &ServerName, before: &[Tool], after: &[Tool], names_only: bool) -> Option<String> {
    let by_name = |tools: &[Tool]| -> BTreeMap<String, Tool> {
        tools.iter().map(|tool| (tool.name.as_str().to_owned(), tool.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let names = |tools: &BTreeMap<String, Tool>, holds: &dyn Fn(&str, &Tool) -> bool| {
        let names = tools
            .iter()
            .filter(|(name, tool)| holds(name, tool))
            .map(|(name, _)| text::name_in_sentence(name, NAMES_CHARS_MAX));
        names.collect::<Vec<_>>().join(", ")
    };
    let is_other = |name: &str, tool: &Tool| before.get(name).is_some_and(|before| before != tool);
    let changes = [
        ("added", names(&after, &|name, _| !before.contains_key(name))),
        ("removed", names(&before, &|name, _| !after.contains_key(name))),
        ("changed", if names_only { String::new() } else { names(&after, &is_other) }),
    ];
    let changes: Vec<String> = changes
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", text::inert_excerpt(&names, NAMES_CHARS_MAX)))
        .collect();
    let server = text::inert_excerpt(server.as_str(), SERVER_CHARS_MAX);
    (!changes.is_empty()).then(|| format!("server {server} has changed its tools ({})", changes.join("; ")))
}

#[cfg(test)]
mod tests {
    use belljar_base::limits::Limits;
    use serde_json::{Value, json};

    use super::*;

    fn tools(items: &Value) -> Vec<Tool> {
        let tool = |item: &Value| Tool::from_json(item, &Limits::default()).unwrap();
        items.as_array().unwrap().iter().map(tool).collect()
    }

    #[test]
    fn what_was_added_removed_and_changed_is_named_within_bounds() {
        let server = ServerName::new("s").unwrap();
        let before = tools(&json!([{"name": "a"}, {"name": "b"}, {"name": "c", "description": "C."}]));
        let after = tools(&json!([{"name": "b"}, {"name": "c", "description": "D."}, {"name": "d"}]));
        let all = "server s has changed its tools (added: d; removed: a; changed: c)";
        assert_eq!(said(&server, &before, &after, false).unwrap(), all);
        let names = "server s has changed its tools (added: d; removed: a)";
        assert_eq!(said(&server, &before, &after, true).unwrap(), names);
        assert_eq!(said(&server, &before, &before, false), None);
        // The same schema with its keys in another order.
        let schemas = [r#"{"type":"object","title":"t"}"#, r#"{"title":"t","type":"object"}"#];
        let [one, other] = schemas.map(|schema| {
            let schema: Value = serde_json::from_str(schema).unwrap();
            tools(&json!([{"name": "a", "inputSchema": schema}]))
        });
        assert_eq!(said(&server, &one, &other, false), None);
        let many: Vec<Value> = (0..1_000).map(|number| json!({"name": format!("tool{number}")})).collect();
        assert!(said(&server, &[], &tools(&json!(many)), false).unwrap().chars().count() < 400);
    }
}
