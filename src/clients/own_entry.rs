//! What belljar's own entry looks like in the files of clients: a form for each row of the table.
//!
//! It writes nothing: `install` does.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// The command by which a client starts belljar, with its timeout.
#[derive(Debug, Clone, Copy)]
pub struct StartCommand<'s> {
    /// The absolute path of the executable.
    pub program: &'s Path,
    /// The longest time that a reply may take.
    pub longest_reply: Duration,
    /// The longest time until it answers at all.
    pub start: Duration,
    /// The variables that it needs of the client's environment.
    pub variables: &'s BTreeSet<String>,
    /// Whether the client asks before calls.
    pub calls: Calls,
}

/// The treatment of belljar's calls by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// As it is set.
    AsSet,
    /// It makes them without asking.
    Approved,
}

/// The entry with what the user has added to the one that is there. Of a table or a list in both, all parts count.
pub(super) fn with_additions(mut entry: Value, there: &Value) -> Value {
    let (Some(made), Some(there)) = (entry.as_object_mut(), there.as_object()) else { return entry };
    for (key, old) in there {
        match (made.get_mut(key), old) {
            (None, old) => {
                made.insert(key.clone(), old.clone());
            }
            (Some(Value::Object(new)), Value::Object(old)) => {
                for (key, old) in old {
                    new.entry(key).or_insert_with(|| old.clone());
                }
            }
            // The words that start belljar are its own.
            (Some(Value::Array(new)), Value::Array(old)) if key != "args" && key != "command" => {
                let more: Vec<Value> = old.iter().filter(|one| !new.contains(one)).cloned().collect();
                new.extend(more);
            }
            (Some(_), _) => {}
        }
    }
    entry
}

/// The parts of an entry.
#[derive(Debug)]
pub(super) struct Parts<'p> {
    pub(super) name: &'p str,
    pub(super) program: &'p str,
    pub(super) reply_s: u64,
    pub(super) start_s: u64,
}

pub(super) fn plain(parts: &Parts<'_>) -> Value {
    json!({"command": parts.program, "args": []})
}

pub(super) fn with_type(parts: &Parts<'_>) -> Value {
    json!({"type": "stdio", "command": parts.program, "args": []})
}

/// The one tool stays loaded where this client would have the model search for tools first.
pub(super) fn claude_code(parts: &Parts<'_>) -> Value {
    json!({"type": "stdio", "command": parts.program, "args": [], "alwaysLoad": true})
}

/// In milliseconds.
pub(super) fn gemini(parts: &Parts<'_>) -> Value {
    json!({"command": parts.program, "args": [], "timeout": parts.reply_s * 1000})
}

pub(super) fn codex(parts: &Parts<'_>) -> Value {
    json!({
        "command": parts.program,
        "args": [],
        "startup_timeout_sec": parts.start_s,
        "tool_timeout_sec": parts.reply_s,
    })
}

/// Of version 1, whose time is that of calls too, in milliseconds.
pub(super) fn opencode(parts: &Parts<'_>) -> Value {
    json!({"type": "local", "command": [parts.program], "enabled": true, "timeout": parts.reply_s * 1000})
}

/// Of OpenCode 2, whose servers stand under `mcp.servers`, and which has no `enabled`.
pub(super) fn opencode_2(parts: &Parts<'_>) -> Value {
    json!({"type": "local", "command": [parts.program]})
}

pub(super) fn zed(parts: &Parts<'_>) -> Value {
    json!({"source": "custom", "command": parts.program, "args": [], "env": {}, "timeout": parts.reply_s})
}

pub(super) fn goose(parts: &Parts<'_>) -> Value {
    json!({
        "name": parts.name,
        "description": "Python with your MCP servers as functions",
        "type": "stdio",
        "cmd": parts.program,
        "args": [],
        "envs": {},
        "enabled": true,
        "timeout": parts.reply_s,
    })
}
