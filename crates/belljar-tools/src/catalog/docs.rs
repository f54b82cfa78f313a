//! The documents that the sandbox's helpers return about servers and tools, as JSON in the format of
//! elusznik/mcp-server-code-execution-mode.
//!
//! It does not search, and escapes all text of servers.

use belljar_base::text;
use serde_json::{Map, Value, json};

use super::contents::Catalog;
use super::python::Shapes;
use super::server_tools::{ServerTools, Tools, UnknownTool};
use super::tool::Tool;

/// The amount of detail in the document of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The path, the first line of the description and, in searches, the signature.
    Signature,
    /// The path and the description.
    Summary,
    /// The path, the description and the schema of the arguments.
    Full,
    /// A stub in Python with everything, instead of the description.
    Stub,
}

const LINE_CHARS_MAX: usize = 160;
/// The note beside the empty list of a server whose tools are not known yet.
const NOT_KNOWN_YET: &str = "its tools are not known yet: it is being asked for them, look again";
/// The size of the stubs in one answer, in bytes, after which no further stub begins.
const STUBS_BYTES_MAX: usize = 4 << 20;

impl Detail {
    /// All values, with the words that code uses for them.
    pub const WORDS: [(&str, Self); 4] = [
        ("signature", Self::Signature),
        ("summary", Self::Summary),
        ("full", Self::Full),
        ("stub", Self::Stub),
    ];
}

/// `list_servers`: the names.
#[must_use]
pub fn list_servers(catalog: &Catalog) -> Value {
    catalog.servers().iter().map(|server| json!(server.name)).collect()
}

/// `discovered_servers(detailed=True)`: name, alias, description, the number of tools where known, and the error.
#[must_use]
pub fn discovered_servers(catalog: &Catalog) -> Value {
    let row = |server: &ServerTools| {
        let mut row = json!({"name": server.name, "alias": server.alias});
        if let Some(description) = &server.description {
            row["description"] = json!(description);
        }
        match &server.tools {
            Tools::Listed(tools) => row["tools"] = json!(tools.len()),
            Tools::Failed { reason } => row["error"] = json!(reason),
            Tools::Unasked => {}
        }
        row
    };
    catalog.servers().iter().map(|server| row(server)).collect()
}

/// `list_tools(server)`: every tool with the keys of MCP, and its alias.
#[must_use]
pub fn list_tools(server: &ServerTools) -> Value {
    let row = |tool: &Tool| {
        let mut row = json!({
            "name": tool.name, "alias": tool.alias, "description": tool.description,
            "inputSchema": inert_object(&tool.input_schema),
        });
        if let Some(title) = &tool.title {
            row["title"] = json!(title);
        }
        if let Some(output) = &tool.output_schema {
            row["outputSchema"] = inert_object(output);
        }
        if !tool.annotations.is_empty() {
            row["annotations"] = inert_object(&tool.annotations);
        }
        row
    };
    server.listed().iter().map(row).collect()
}

/// `describe_server(name)`: name, alias, tools, cwd; and where they apply, the description, the error, and a note that
/// the tools are not known yet.
#[must_use]
pub fn describe_server(server: &ServerTools) -> Value {
    let tools: Value = server.listed().iter().map(metadata).collect();
    let mut described =
        json!({"name": server.name, "alias": server.alias, "tools": tools, "cwd": server.cwd});
    if let Some(description) = &server.description {
        described["description"] = json!(description);
    }
    match &server.tools {
        Tools::Failed { reason } => described["error"] = json!(reason),
        Tools::Unasked => described["note"] = json!(NOT_KNOWN_YET),
        Tools::Listed(_) => {}
    }
    described
}

/// `list_loaded_server_metadata()`: the document of [`describe_server`] for every server.
#[must_use]
pub fn loaded_server_metadata(catalog: &Catalog) -> Value {
    catalog.servers().iter().map(|server| describe_server(server)).collect()
}

/// `query_tool_docs(server, tool=None, detail)`: the documents of one tool or of all. If there are very many tools, the
/// last ones have no stub.
///
/// # Errors
/// [`UnknownTool`] if the server has no such tool.
pub fn query_tool_docs(
    server: &ServerTools,
    tool: Option<&str>,
    detail: Detail,
    shapes: &Shapes,
) -> Result<Value, UnknownTool> {
    Ok(match tool {
        Some(tool) => json!([tool_doc(server, server.resolve(tool)?, detail, shapes)]),
        None => {
            let mut bytes_left = STUBS_BYTES_MAX;
            let doc = |tool| {
                let detail = if bytes_left > 0 { detail } else { Detail::Signature };
                let doc = tool_doc(server, tool, detail, shapes);
                bytes_left = bytes_left.saturating_sub(doc["stub"].as_str().map_or(0, str::len));
                doc
            };
            server.listed().iter().map(doc).collect()
        }
    })
}

/// One tool's document: server, serverAlias, tool, toolAlias, readOnly if its server says so, the description unless it
/// is empty, and inputSchema for full detail. For a stub, the stub replaces the description.
#[must_use]
pub fn tool_doc(server: &ServerTools, tool: &Tool, detail: Detail, shapes: &Shapes) -> Value {
    let mut doc = json!({
        "server": server.name, "serverAlias": server.alias, "tool": tool.name, "toolAlias": tool.alias,
    });
    if tool.only_reads() {
        doc["readOnly"] = json!(true);
    }
    let description = match detail {
        Detail::Signature => {
            text::bounded_at_word(tool.description.lines().next().unwrap_or(""), LINE_CHARS_MAX)
        }
        Detail::Summary | Detail::Full => tool.description.as_str().into(),
        Detail::Stub => {
            doc["stub"] = json!(shapes.stub(&server.name, tool));
            "".into()
        }
    };
    if !description.is_empty() {
        doc["description"] = json!(description);
    }
    if detail == Detail::Full {
        doc["inputSchema"] = inert_object(&tool.input_schema);
    }
    doc
}

fn metadata(tool: &Tool) -> Value {
    json!({
        "name": tool.name, "alias": tool.alias, "description": tool.description,
        "inputSchema": inert_object(&tool.input_schema),
    })
}

/// A schema with escaped texts. Keys stay unchanged, since calls use them.
fn inert_object(members: &Map<String, Value>) -> Value {
    members.iter().map(|(key, value)| (key.clone(), inert(value))).collect()
}

fn inert(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text::inert(text).into_owned()),
        Value::Array(items) => items.iter().map(inert).collect(),
        Value::Object(members) => inert_object(members),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use belljar_base::limits::Limits;

    use super::super::contents::tests::{catalog, name};
    use super::*;

    fn some() -> Catalog {
        catalog(&[(
            "my-fs",
            json!([{"name": "read-file", "description": "Reads.\n\u{1b}More.", "title": "Read",
            "inputSchema": {"properties": {"p": {"description": "\u{202e}x"}}}, "annotations": {"readOnlyHint": true}}]),
        )])
    }

    #[test]
    fn documents_have_the_seeds_keys() {
        let catalog = some();
        let server = catalog.server("my-fs").unwrap();
        let docs = |tool, detail| {
            query_tool_docs(server, tool, detail, &Shapes::default()).map(|docs| docs.to_string())
        };
        let path = r#""server":"my-fs","serverAlias":"my_fs","tool":"read-file","toolAlias":"read_file","readOnly":true"#;
        assert_eq!(docs(None, Detail::Signature), Ok(format!(r#"[{{{path},"description":"Reads."}}]"#)));
        assert_eq!(
            docs(Some("READ-FILE"), Detail::Summary),
            Ok(format!(r#"[{{{path},"description":"Reads.\n\\x1bMore."}}]"#))
        );
        assert_eq!(
            docs(Some("read_file"), Detail::Full),
            Ok(format!(
                r#"[{{{path},"description":"Reads.\n\\x1bMore.","inputSchema":{{"properties":{{"p":{{"description":"\\u202ex"}}}}}}}}]"#
            ))
        );
        assert_eq!(
            docs(Some("read_file"), Detail::Stub),
            Ok(format!(
                r#"[{{{path},"stub":"async def read_file(*, p: Any = ...) -> Any:\n    \"\"\"Reads.\n    \\\\x1bMore.\n\n    [read-only]\n\n    p: \\\\u202ex\"\"\"\n"}}]"#
            ))
        );
        assert_eq!(
            docs(Some("read_fil"), Detail::Summary).unwrap_err().near.to_string(),
            "did you mean 'read_file'?"
        );
    }

    #[test]
    fn servers_are_described_in_the_seeds_shape_with_their_failures() {
        let catalog = some();
        assert_eq!(list_servers(&catalog), json!(["my-fs"]));
        let schema = json!({"properties": {"p": {"description": "\\u202ex"}}});
        let tool = json!({"name": "read-file", "alias": "read_file", "description": "Reads.\n\\x1bMore.", "inputSchema": schema});
        assert_eq!(
            loaded_server_metadata(&catalog),
            json!([{"name": "my-fs", "alias": "my_fs", "tools": [tool], "cwd": null}])
        );
        let unasked = Catalog::new([(name("a"), None, None)], &Limits::default());
        assert_eq!(
            loaded_server_metadata(&unasked),
            json!([{"name": "a", "alias": "a", "tools": [], "cwd": null, "note": NOT_KNOWN_YET}])
        );
        let mut listed = tool.clone();
        listed["title"] = json!("Read");
        listed["annotations"] = json!({"readOnlyHint": true});
        assert_eq!(list_tools(&catalog.servers()[0]), json!([listed]));
        let failed = catalog.with_tools(&name("my-fs"), Err("exited 1".into()), &Limits::default());
        assert_eq!(
            describe_server(&failed.servers()[0]),
            json!({"name": "my-fs", "alias": "my_fs", "tools": [], "cwd": null, "error": "exited 1"})
        );
        assert_eq!(
            discovered_servers(&failed),
            json!([{"name": "my-fs", "alias": "my_fs", "error": "exited 1"}])
        );
        assert_eq!(discovered_servers(&catalog), json!([{"name": "my-fs", "alias": "my_fs", "tools": 1}]));
    }
}
