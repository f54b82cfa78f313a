//! The JSON schema of a config.toml, for editors, generated from the same table as the settings themselves.
//!
//! The reader does not use it: its own problems say more.

use belljar_base::limits::Limits;
use serde_json::{Map, Value, json};

use super::settings::definitions::{Definition, EffectTime, ValueForm, definitions};

/// The JSON schema of a config.toml.
#[must_use]
pub fn schema() -> Value {
    let mut sections = Map::new();
    for row in definitions() {
        let Some((section, key)) = row.key.as_deref().and_then(|key| key.split_once('.')) else { continue };
        let section = sections
            .entry(section)
            .or_insert_with(|| json!({"type": "object", "additionalProperties": false, "properties": {}}));
        section["properties"][key] = of(&row);
    }
    let servers = sections
        .entry("servers")
        .or_insert_with(|| json!({"type": "object", "additionalProperties": false, "properties": {}}));
    servers["additionalProperties"] = server();
    let version =
        "the version of the settings; one from the future is an error, and nothing of the file counts";
    sections.insert("version".to_owned(), json!({"const": 1, "description": version}));
    sections.insert("mount".to_owned(), mount());
    sections.insert("owners".to_owned(), owners());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config.toml of belljar",
        "type": "object",
        "additionalProperties": false,
        "properties": sections,
    })
}

/// The schema of `[owners.NAME.env]`.
fn owners() -> Value {
    json!({
        "type": "object",
        "description": "variables for the sessions of an owner over HTTP, by the name of its token",
        "additionalProperties": {
            "type": "object",
            "additionalProperties": false,
            "required": ["env"],
            "properties": {
                "env": {"type": "object", "additionalProperties": {"type": "string"},
                    "description": "what entries find instead of belljar's own variables, such as \"${ANN_TOKEN}\""},
            },
        },
    })
}

/// The schema of one `[[mount]]`.
fn mount() -> Value {
    json!({
        "type": "array",
        "maxItems": 32,
        "items": {
            "type": "object",
            "description": "a folder of the user that code may read; of a project's file none is taken. Edited, it counts \
                            for the next sandbox",
            "additionalProperties": false,
            "required": ["host"],
            "properties": {
                "host": {"type": "string", "minLength": 1,
                    "description": "the folder, such as ~/data; a relative one is taken from this file's folder"},
                "guest": {"type": "string", "pattern": "^/mnt/.+$",
                    "description": "where code finds it, below /mnt; without it, by the folder's own name"},
                "writable": {"type": "boolean", "default": false, "description": "whether code may write to it"},
            },
        },
    })
}

/// The schema of an entry below `[servers]`: its keys are those of `server_keys::KEYS`, and the descriptions are for
/// people.
fn server() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let named = |about: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": about});
    let patterns = |about: &str| {
        let pattern = json!({"type": "string", "minLength": 1, "maxLength": 200});
        json!({"type": "array", "maxItems": 1_000, "items": pattern, "description": about})
    };
    let places = |about: &str| json!({"type": "array", "items": {"type": "string", "minLength": 1}, "description": about});
    let sandbox = json!({"type": "object", "additionalProperties": false, "properties": {
        "read": places("files and folders that the server can read"),
        "write": places("files and folders that it can change"),
        "network": {"enum": ["none", "host"], "default": "none", "description": "what it can reach"},
        "env": {"type": "array", "maxItems": 1_000, "items": {"type": "string", "pattern": r"^(\*|[^\s*=${}]+\*?)$"},
            "description": "variables of belljar's environment that it inherits beside the default ones"},
    }});
    let url = "where a remote server is, http or https; instead of a command";
    let transport = json!({"enum": ["stdio", "local", "http", "streamable-http", "streamable_http", "streamableHttp", "sse"],
        "description": "how it is spoken to; left out, that is found out"});
    let calls_max = Limits::default().calls_in_flight_per_server_max;
    json!({
        "type": "object",
        "description": "a server; its name is the key. Texts may refer to ${NAME}, ${NAME:-default}, ${file:PATH} and, \
                        where policy.allow_cmd is true, ${cmd:PROGRAM ARGUMENTS}",
        "additionalProperties": false,
        "properties": {
            "command": text("the program that is started, on PATH or with a path"),
            "args": {"type": "array", "items": {"type": "string"}, "description": "its arguments"},
            "env": named("variables on top of those that it inherits"),
            "env_inherit": {"type": "array", "maxItems": 1_000, "items": {"type": "string", "pattern": r"^(\*|[^\s*=${}]+\*?)$"},
                "description": "variables of belljar's environment that it inherits beside the default ones: names, with * \
                                at their end for any rest; [\"*\"] is all"},
            "cwd": text("its working folder; a relative one is taken from this file's folder"),
            "url": text(url),
            "serverUrl": text(url),
            "httpUrl": text(url),
            "headers": named("sent with each request to the url"),
            "login": super::servers::login::schema(),
            "type": transport.clone(),
            "transport": transport,
            "description": text("what the server is for, for the model"),
            "disabled": {"type": "boolean", "description": "whether it is left out"},
            "enabled": {"type": "boolean", "description": "the opposite of disabled"},
            "start_timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 3_600, "default": 30,
                "description": "seconds that its start may take"},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 86_400,
                "description": "seconds that one call may take; the run's own time holds as well"},
            "max_concurrency": {"type": "integer", "minimum": 1, "maximum": calls_max,
                "description": "calls that are under way at once"},
            "allow": patterns("the only tools that are offered: patterns of their own names, * and ?"),
            "deny": patterns("tools that are not offered, also of those in allow"),
            "sandbox": {"oneOf": [{"type": "boolean"}, sandbox],
                "description": "whether the server is confined, and what it can have beyond its own program; left out, \
                                servers.sandbox decides"},
            "sandbox_files": {"type": "boolean", "default": true,
                "description": "false: a call with a binary value of the sandbox is refused; this keeps from mistakes only"},
            "private": {"type": "boolean", "default": false,
                "description": "true: each session of the shared bridge has a server of its own"},
        },
    })
}

/// The schema of `[sandbox.kubernetes]`, the only table among the settings.
fn kubernetes() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let texts = |about: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": about});
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "context": text("the context of the kubeconfig; left out, its current one, or the cluster that belljar runs in"),
            "namespace": text("the namespace; left out, that of the context"),
            "node_selector": texts("labels that a node must have"),
            "tolerations": {"type": "array", "items": {"type": "object"},
                "description": "taints of nodes that are tolerated, as a Pod has them"},
            "runtime_class": text("the RuntimeClass of the Pods, instead of sandbox.oci_runtime"),
            "pull_secret": text("the Secret with which nodes pull the image"),
            "resources": texts("what a node must have left for a sandbox, such as cpu = \"250m\"; left out, its limits"),
        },
    })
}

fn of(row: &Definition) -> Value {
    let mut schema = match row.form {
        ValueForm::Text => json!({"type": "string"}),
        ValueForm::Integer => json!({"type": "integer"}),
        ValueForm::Number => json!({"type": "number"}),
        ValueForm::Switch => json!({"type": "boolean"}),
        ValueForm::Count => json!({"type": ["integer", "boolean"]}),
        ValueForm::Size => json!({"type": ["string", "integer"]}),
        ValueForm::List => json!({"type": "array", "items": {"type": "string", "pattern": "^[^,]*$"}}),
        ValueForm::TextOrList => {
            json!({"type": ["string", "array"], "items": {"type": "string", "pattern": "^[^,]*$"}})
        }
        ValueForm::Table => kubernetes(),
    };
    let counts = match row.counts {
        EffectTime::NextRun => "for the next run",
        EffectTime::NextSandbox => "for the next sandbox",
        EffectTime::NextServer => "for servers started from then on",
        EffectTime::Restart => "once belljar is started again",
    };
    let about = format!("{}. As a variable: {}. Edited, it counts {counts}.", row.allowed, row.variable);
    schema["description"] = json!(about);
    if !row.words.is_empty() {
        schema["enum"] = json!(row.words);
    }
    if let Some((minimum, maximum)) = &row.bounds {
        schema["minimum"] = minimum.clone();
        schema["maximum"] = maximum.clone();
    }
    if let Some(default) = &row.default {
        let typed = row.typed(default);
        // The definitions write the words of choices in lower case.
        schema["default"] = match &typed {
            Value::String(word) if !row.words.is_empty() => json!(word.to_lowercase()),
            _ => typed,
        };
    }
    schema
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
