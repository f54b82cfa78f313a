//! Reads a call's arguments: a JSON object, bounded in bytes and depth.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::limits::Limits;
use crate::protocol::depth_exceeds;
use crate::run::{FaultCode, ToolFault};

/// The arguments of a tool's call.
pub(super) fn object(raw: &RawValue, limits: &Limits) -> Result<Map<String, Value>, ToolFault> {
    let text = raw.get();
    if text.len() > limits.arguments_bytes_max {
        let mib = limits.arguments_bytes_max >> 20;
        return Err(invalid(format!("the arguments have {} bytes, limit {mib} MiB", text.len())));
    }
    if depth_exceeds(text.as_bytes(), limits.json_depth_max) {
        return Err(invalid(format!("the arguments have nesting > {}", limits.json_depth_max)));
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    // The depth is bounded already.
    parser.disable_recursion_limit();
    match Value::deserialize(&mut parser) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(invalid("the arguments are no object".into())),
        Err(error) => Err(invalid(format!("the arguments cannot be read: {error}"))),
    }
}

/// The arguments of a helper, by name.
pub(super) fn of_helper<T: DeserializeOwned>(
    helper: &str,
    raw: &RawValue,
    limits: &Limits,
) -> Result<T, ToolFault> {
    let arguments = object(raw, limits)?;
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| invalid(format!("{helper} cannot be called like this: {error}")))
}

fn invalid(message: String) -> ToolFault {
    ToolFault::new(FaultCode::InvalidArguments, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        let limits = Limits { arguments_bytes_max: 3 << 20, json_depth_max: 3, ..Limits::default() };
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        object(&raw, &limits).unwrap_err().message
    }

    #[test]
    fn arguments_are_refused_for_size_depth_and_kind() {
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(3 << 20));
        assert_eq!(refusal(&large), "the arguments have 3145736 bytes, limit 3 MiB");
        assert_eq!(refusal(r#"{"a":[[[1]]]}"#), "the arguments have nesting > 3");
        assert_eq!(refusal("[1]"), "the arguments are no object");
    }
}
