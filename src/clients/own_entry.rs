//! Belljar's own entry in the files of clients, in the form that each client needs.
//!
//! It writes nothing: `install` does.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use belljar_base::text;
use serde_json::{Value, json};

use super::http_address::HttpAddress;

/// What belljar's entry says: the command by which a client starts belljar or the address, and timeouts.
#[derive(Debug, Clone, Copy)]
pub struct StartCommand<'s> {
    /// The absolute path of the executable, or of the program that starts it.
    pub program: &'s Path,
    /// The arguments with which that program starts belljar.
    pub args: &'s [&'s str],
    /// The longest time of a reply.
    pub longest_reply: Duration,
    /// The longest time until belljar answers for the first time.
    pub start: Duration,
    /// The variables of the client's environment that belljar needs.
    pub variables: &'s BTreeSet<String>,
    /// Whether the client asks before calls.
    pub calls: Calls,
    /// How the client reaches belljar.
    pub reach: Reach<'s>,
}

/// How a client reaches belljar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach<'s> {
    /// It starts belljar, whose settings say whether that uses the shared bridge.
    Start,
    /// It starts belljar, which uses the shared bridge.
    StartShared,
    /// It sends requests to this address, and starts nothing.
    Http(&'s HttpAddress),
}

/// The usual name of belljar's entry.
pub const OWN_NAME: &str = "belljar";

/// The variable that has belljar use the shared bridge.
pub(super) const SHARED: &str = "MCP_BRIDGE_SHARED";

/// The treatment of belljar's calls by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// The present setting stays.
    AsSet,
    /// The client makes the calls without asking.
    Approved,
}

/// The new entry, with the user's additions to the existing one. A table or list that both have gets the parts of both.
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
            // The words of the command line are not merged, and a variable that has had the token is not needed any more.
            (Some(Value::Array(new)), Value::Array(old))
                if !["args", "command", "env_keys"].contains(&key.as_str()) =>
            {
                let more: Vec<Value> = old.iter().filter(|one| !new.contains(one)).cloned().collect();
                new.extend(more);
            }
            (Some(_), _) => {}
        }
    }
    entry
}

/// An existing entry without the variable that has belljar use the shared bridge. `env` is the key of its variables.
pub(super) fn without_shared(mut there: Value, env: &str) -> Value {
    let variables = there.get_mut(env).and_then(Value::as_object_mut);
    let is_empty = variables.is_some_and(|all| all.shift_remove(SHARED).is_some() && all.is_empty());
    if let Some(entry) = there.as_object_mut().filter(|_| is_empty) {
        entry.shift_remove(env);
    }
    there
}

/// The keys with which an existing entry adds to the new one.
pub(super) fn additions(entry: &Value, there: &Value) -> Vec<String> {
    let keys = there.as_object().into_iter().flatten().map(|(key, _)| key);
    let adds = |key: &&String| {
        let of_key = |value: &Value| json!({ key.as_str(): value.get(key.as_str()).unwrap_or(&Value::Null) });
        entry.get(key.as_str()).is_none() || with_additions(of_key(entry), &of_key(there)) != of_key(entry)
    };
    keys.filter(adds).map(|key| text::inert_excerpt(key, 60)).collect()
}

/// The longest time that Cline takes.
const CLINE_TIMEOUT_MAX_S: u64 = 3_600;

/// The parts of an entry.
#[derive(Debug)]
pub(super) struct Parts<'p> {
    pub(super) name: &'p str,
    pub(super) program: &'p str,
    pub(super) args: &'p [&'p str],
    pub(super) reply_s: u64,
    pub(super) start_s: u64,
}

impl Parts<'_> {
    /// The program and its arguments, for clients that have them in one list.
    fn words(&self) -> Vec<&str> {
        [&[self.program], self.args].concat()
    }
}

pub(super) fn plain(parts: &Parts<'_>) -> Value {
    json!({"command": parts.program, "args": parts.args})
}

pub(super) fn with_type(parts: &Parts<'_>) -> Value {
    json!({"type": "stdio", "command": parts.program, "args": parts.args})
}

/// The entry for Claude Code. The one tool stays loaded even if the client would have the model search for tools first.
pub(super) fn claude_code(parts: &Parts<'_>) -> Value {
    json!({"type": "stdio", "command": parts.program, "args": parts.args, "alwaysLoad": true})
}

/// The entry for Gemini CLI, whose times are in milliseconds.
pub(super) fn gemini(parts: &Parts<'_>) -> Value {
    json!({"command": parts.program, "args": parts.args, "timeout": parts.reply_s * 1000})
}

/// The entry for GitHub Copilot CLI, whose times are in milliseconds.
pub(super) fn copilot(parts: &Parts<'_>) -> Value {
    let timeout = parts.reply_s * 1000;
    json!({"type": "local", "command": parts.program, "args": parts.args, "tools": ["*"], "timeout": timeout})
}

/// The entry for Cline, which ends a call after 60 s by default.
pub(super) fn cline(parts: &Parts<'_>) -> Value {
    json!({"command": parts.program, "args": parts.args, "timeout": parts.reply_s.min(CLINE_TIMEOUT_MAX_S)})
}

pub(super) fn codex(parts: &Parts<'_>) -> Value {
    json!({
        "command": parts.program,
        "args": parts.args,
        "startup_timeout_sec": parts.start_s,
        "tool_timeout_sec": parts.reply_s,
    })
}

/// The entry for Vibe, which splits a command that is one text, and ends a call after 60 s by default.
pub(super) fn vibe(parts: &Parts<'_>) -> Value {
    json!({
        "name": parts.name,
        "transport": "stdio",
        "command": parts.words(),
        "args": [],
        "startup_timeout_sec": parts.start_s,
        "tool_timeout_sec": parts.reply_s,
    })
}

/// The entry for Continue, whose time is in milliseconds. It also applies to calls, which end after 60 s by default.
pub(super) fn continue_dev(parts: &Parts<'_>) -> Value {
    json!({
        "name": parts.name,
        "command": parts.program,
        "args": parts.args,
        "connectionTimeout": parts.reply_s * 1000,
    })
}

/// The entry for OpenCode 1. Its time in milliseconds also applies to calls.
pub(super) fn opencode(parts: &Parts<'_>) -> Value {
    json!({"type": "local", "command": parts.words(), "enabled": true, "timeout": parts.reply_s * 1000})
}

/// The entry for OpenCode 2, which has servers under `mcp.servers` and no `enabled`.
pub(super) fn opencode_2(parts: &Parts<'_>) -> Value {
    json!({"type": "local", "command": parts.words()})
}

pub(super) fn zed(parts: &Parts<'_>) -> Value {
    json!({"source": "custom", "command": parts.program, "args": parts.args, "env": {}, "timeout": parts.reply_s})
}

pub(super) fn goose(parts: &Parts<'_>) -> Value {
    json!({
        "name": parts.name,
        "description": "Python with your MCP servers as functions",
        "type": "stdio",
        "cmd": parts.program,
        "args": parts.args,
        "envs": {},
        "enabled": true,
        "timeout": parts.reply_s,
    })
}
