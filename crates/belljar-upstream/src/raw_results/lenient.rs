//! Reads messages of servers leniently: only the members that are used, and the rest is left out.
//!
//! The types of rmcp refuse a whole message for one odd member.

use rmcp::model::{
    ErrorCode, ErrorData, InitializeResult, PromptsCapability, ProtocolVersion, ResourcesCapability,
    ServerCapabilities, ServerResult, ToolsCapability,
};
use serde_json::{Map, Value, json};

/// The levels of a server's messages about itself.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// The longest error without a message that is shown as its JSON, in characters.
const ERROR_CHARS_MAX: usize = 500;

/// The answer to `initialize`. A result without a version counts as one of the requested version.
pub(super) fn initialized(result: &Value) -> ServerResult {
    let mut read = InitializeResult::new(capabilities(result.get("capabilities")));
    let version = result.get("protocolVersion").filter(|version| version.is_string()).cloned();
    let version = version.and_then(|version| serde_json::from_value(version).ok());
    read.protocol_version = version.unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE);
    ServerResult::InitializeResult(read)
}

/// The answer to `server/discover`.
///
/// # Errors
/// It names no version of the protocol.
pub(super) fn discovered(result: &Value) -> Result<ServerResult, String> {
    let versions = match result.get("supportedVersions") {
        Some(Value::Array(versions)) => versions.iter().filter(|version| version.is_string()).collect(),
        Some(version @ Value::String(_)) => vec![version],
        _ => vec![],
    };
    if versions.is_empty() {
        return Err("its result names no supportedVersions".into());
    }
    let read = json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities(result.get("capabilities")),
        "ttlMs": 0,
        "cacheScope": "private",
    });
    serde_json::from_value(read)
        .map(ServerResult::DiscoverResult)
        .map_err(|_| "its result has another form".into())
}

/// The error of an answer; `None`: it has none. An empty one beside a result counts as none.
pub(super) fn error(error: Option<&Value>, has_result: bool) -> Option<ErrorData> {
    let error = error.filter(|error| !(error.is_null() || has_result && is_empty(error)))?;
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let said = error.get("message").unwrap_or(error);
    let message = match said {
        Value::String(text) => text.clone(),
        _ if is_empty(error) => "an error without a message".into(),
        _ => belljar_base::text::bounded(&error.to_string(), ERROR_CHARS_MAX).into_owned(),
    };
    let data = error.get("data").filter(|data| !data.is_null()).cloned();
    Some(ErrorData::new(code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode), message, data))
}

/// The parameters of a request or a notification; `None`: it is used without any.
///
/// # Errors
/// A member is missing without which the message says nothing.
pub(super) fn params(method: &str, params: Option<&Value>) -> Result<Option<Value>, String> {
    let member = |name: &str| params.and_then(|params| params.get(name));
    let is_id = |id: &&Value| id.is_string() || id.is_i64() || id.is_u64();
    let id = |name: &str| {
        member(name)
            .filter(is_id)
            .cloned()
            .ok_or_else(|| format!("its {name} is neither a number nor a text"))
    };
    Ok(Some(match method {
        "notifications/message" => {
            let data = member("data").ok_or("it has no data")?;
            let level = member("level").and_then(Value::as_str).map(str::to_ascii_lowercase);
            let level = level.filter(|level| LEVELS.contains(&level.as_str()));
            let logger = member("logger").and_then(Value::as_str);
            json!({"level": level.as_deref().unwrap_or("info"), "logger": logger, "data": data})
        }
        "notifications/progress" => {
            let progress = member("progress").and_then(Value::as_f64).ok_or("its progress is no number")?;
            json!({
                "progressToken": id("progressToken")?,
                "progress": progress,
                "total": member("total").and_then(Value::as_f64),
                "message": member("message").and_then(Value::as_str),
            })
        }
        "notifications/cancelled" => {
            json!({"requestId": id("requestId")?, "reason": member("reason").and_then(Value::as_str)})
        }
        "ping" | "roots/list" => return Ok(None),
        _ => {
            let Some(Value::Object(params)) = params else { return Ok(None) };
            let mut params = params.clone();
            if params.get("_meta").is_some_and(|meta| !meta.is_object()) {
                params.shift_remove("_meta");
            }
            Value::Object(params)
        }
    }))
}

/// What the server offers. If there is no object at all, everything may be offered.
fn capabilities(offered: Option<&Value>) -> ServerCapabilities {
    let named = offered.and_then(object);
    let offers = |name: &str| match &named {
        Some(named) => named.get(name).filter(|value| !value.is_null() && **value != Value::Bool(false)),
        None => Some(&Value::Null).filter(|_| name != "logging"),
    };
    let mut can = ServerCapabilities::default();
    can.tools = offers("tools").map(|tools| {
        let mut read = ToolsCapability::default();
        read.list_changed = tools.get("listChanged").and_then(Value::as_bool);
        read
    });
    can.resources = offers("resources").map(|_| ResourcesCapability::default());
    can.prompts = offers("prompts").map(|_| PromptsCapability::default());
    can.logging = offers("logging").map(|_| Map::new());
    can
}

/// An object; `[]` is what PHP writes for an empty one.
pub(crate) fn object(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object.clone()),
        Value::Array(items) if items.is_empty() => Some(Map::new()),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
