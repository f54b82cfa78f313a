//! The tool as the client lists it: small, and identical at every start.

use std::sync::Arc;

use belljar_base::names::ServerName;
use belljar_base::text;
use rmcp::model::{MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::arguments::RunDefaults;

/// The tool's name.
pub(super) const NAME: &str = "run_python";
/// The longest description, in bytes: Claude Code cuts longer ones silently (anthropics/claude-code issue 41593).
const DESCRIPTION_BYTES_MAX: usize = 2048;
/// The longest list of servers in the description, in bytes; the others are counted as "+N more".
const SERVERS_BYTES_MAX: usize = 400;
/// The longest sentences about servers that cannot be used, in characters.
const UNUSABLE_CHARS_MAX: usize = 350;
/// The number of characters of one result that a client may show. It exceeds the client's default, since replies are
/// bounded here.
const RESULT_CHARS_MAX: u64 = 100_000;

/// The beginning of the description, in which the next one takes the place of the first where sessions are named.
const STAY: &str = "variables stay between runs;";
const STAY_IN_SESSION: &str =
    "variables stay in the session that the first reply names: pass it as session each time;";
/// The description of the argument for the name.
const SESSION: &str = "name of the session to go on with, from an earlier reply; without it, a new one without variables begins";

/// The tool, with these servers in its description. Without any, the description has the sentences about servers that
/// cannot be used.
pub(super) fn run_python(servers: &[ServerName], unusable: &[String], defaults: RunDefaults) -> Tool {
    let description = description(servers, unusable);
    debug_assert!(description.len() <= DESCRIPTION_BYTES_MAX);
    let mut meta = Map::new();
    meta.insert("anthropic/alwaysLoad".into(), Value::Bool(true));
    meta.insert("anthropic/maxResultSizeChars".into(), RESULT_CHARS_MAX.into());
    Tool::new(NAME, description, Arc::new(input_schema(defaults)))
        .annotate(
            ToolAnnotations::with_title("Run Python")
                .read_only(false)
                .destructive(!servers.is_empty())
                .idempotent(false)
                .open_world(!servers.is_empty()),
        )
        .with_meta(MetaObject(meta))
}

/// Adds the argument by which a client without a connection of its own names its session.
pub(super) fn add_session(tool: &mut Tool) {
    let schema = Arc::make_mut(&mut tool.input_schema);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("session".into(), json!({"type": "string", "description": SESSION}));
    }
    if let Some(description) = &mut tool.description {
        let with_session = description.replacen(STAY, STAY_IN_SESSION, 1);
        debug_assert!(with_session.len() <= DESCRIPTION_BYTES_MAX && with_session != **description);
        *description = with_session.into();
    }
}

fn description(servers: &[ServerName], unusable: &[String]) -> String {
    let mut text = format!(
        "Run Python in a sandbox: {STAY} no network, no host files. You get what it prints, a last expression's value, \
         figures.\n",
    );
    if servers.is_empty() && unusable.is_empty() {
        text.push_str("No MCP servers are configured.\n");
    } else if servers.is_empty() {
        let said = text::inert_excerpt(&unusable.join("; "), UNUSABLE_CHARS_MAX);
        text.push_str(&format!("No MCP server can be used now: {said}.\n"));
    } else {
        text.push_str(&format!("MCP servers as Python functions: {}.\n", server_names(servers)));
        text.push_str(
            "Find tools: print(runtime.search_tool_docs([\"plain words\", \"others\"])). Call: await mcp_NAME.tool(arg=...), or \
             mcp_NAME.tool.sync(...); - becomes _; asyncio.gather works.\n",
        );
    }
    text.push_str(
        "Read first: print(runtime.capability_summary()). Long work: runtime.spawn(f). Give the user \
         files: runtime.save(path).",
    );
    text
}

/// Names in order until the space is used up. A name that is no plain text is escaped.
fn server_names(servers: &[ServerName]) -> String {
    let mut shown = String::new();
    for (index, server) in servers.iter().enumerate() {
        let name = server.as_str().escape_debug().to_string();
        if shown.len() + name.len() + 2 > SERVERS_BYTES_MAX {
            return format!("{shown}, +{} more", servers.len() - index).trim_start_matches(", ").to_owned();
        }
        if !shown.is_empty() {
            shown.push_str(", ");
        }
        shown.push_str(&name);
    }
    shown
}

fn input_schema(defaults: RunDefaults) -> Map<String, Value> {
    let schema = json!({
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "servers": {
                "type": "array",
                "items": {"type": "string"},
                "description": "default all"
            },
            "timeout": {
                "type": "number",
                "description": format!(
                    "seconds, default {}, max {}",
                    defaults.timeout.as_secs_f64(),
                    defaults.timeout_max.as_secs_f64()
                )
            },
            "reset": {"type": "boolean", "description": "fresh interpreter"},
            "checkpoint": {"type": "string", "description": "go back to it first"}
        },
        "required": ["code"],
        "additionalProperties": false
    });
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DEFAULTS: RunDefaults =
        RunDefaults { timeout: Duration::from_secs(30), timeout_max: Duration::from_secs(120) };

    fn servers(count: usize) -> Vec<ServerName> {
        (0..count).map(|n| ServerName::new(&format!("server-number-{n}")).unwrap()).collect()
    }

    #[test]
    fn a_thousand_servers_fit_the_description() {
        let tool = run_python(&servers(1000), &[], DEFAULTS);
        let description = tool.description.unwrap();
        assert!(description.len() <= DESCRIPTION_BYTES_MAX, "{}", description.len());
        assert!(description.contains("server-number-0, server-number-1"));
        assert!(description.contains("+978 more"), "{description}");
    }

    #[test]
    fn a_name_longer_than_the_room_is_counted() {
        let long = ServerName::new(&"x".repeat(256)).unwrap();
        let description = description(&[long.clone(), long], &[]);
        assert!(description.contains("+1 more"), "{description}");
    }

    #[test]
    fn without_servers_nothing_is_said_of_calls() {
        let tool = run_python(&[], &[], DEFAULTS);
        insta::assert_snapshot!(serde_json::to_string_pretty(&tool).unwrap());
    }

    #[test]
    fn servers_that_cannot_be_used_are_named_where_there_are_no_others_and_fit_the_description() {
        let said = ["server 'a' is configured, but ...".to_owned(), "x".repeat(10_000)];
        let shown = description(&[], &said);
        assert!(
            shown.contains("\nNo MCP server can be used now: server 'a' is configured, but ...; xxx"),
            "{shown}"
        );
        assert!(!shown.contains("are configured") && shown.len() <= DESCRIPTION_BYTES_MAX);
        assert_eq!(description(&servers(1), &said), description(&servers(1), &[]));
    }

    #[test]
    fn with_servers_the_tool_reads_like_this() {
        let tool = run_python(&servers(3), &[], DEFAULTS);
        insta::assert_snapshot!(serde_json::to_string_pretty(&tool).unwrap());
    }
}
