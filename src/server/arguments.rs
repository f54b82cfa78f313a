//! Checks the arguments of `run_python` and makes a request of them. Invalid input is refused only here.

use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, Reset, RunRequest, ServerScope, ToolFault};
use belljar_base::text::suggest;
use serde_json::{Map, Value};

/// The defaults for arguments that the caller does not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunDefaults {
    /// The timeout of a run that sets none.
    pub timeout: Duration,
    /// The longest timeout that a run may set.
    pub timeout_max: Duration,
}

/// The names of all arguments.
const NAMES: [&str; 5] = ["code", "servers", "timeout", "reset", "checkpoint"];

const HINT_CHECKPOINT: &str = "checkpoint goes back to a checkpoint by its name";

/// The configured servers.
#[derive(Clone, Copy)]
pub(super) struct Configured<'c> {
    /// The names of the usable servers.
    pub(super) names: &'c [ServerName],
    /// Returns the reason why another server cannot be used.
    pub(super) refusal: &'c dyn Fn(&str) -> ToolFault,
}

/// Makes a checked request of the arguments.
///
/// # Errors
/// `invalid_arguments`, with the argument, its value and the allowed values.
pub(super) fn run_request(
    arguments: &Map<String, Value>,
    configured: Configured<'_>,
    defaults: RunDefaults,
    limits: &Limits,
) -> Result<RunRequest, ToolFault> {
    if let Some(unknown) = arguments.keys().find(|key| !NAMES.contains(&key.as_str())) {
        let nearest = suggest::did_you_mean(unknown, NAMES).map(|near| near + " ").unwrap_or_default();
        return Err(invalid(format!("unknown argument {unknown:?}"))
            .hint(format!("{nearest}run_python takes code, servers, timeout, reset and checkpoint")));
    }
    Ok(RunRequest {
        code: code(arguments.get("code"), limits)?,
        servers: servers(arguments.get("servers"), configured)?,
        timeout: timeout(arguments.get("timeout"), defaults)?,
        timeout_max: defaults.timeout_max,
        reset: reset(arguments.get("reset"), arguments.get("checkpoint"))?,
        dry_run: false,
        keep_files: true,
    })
}

fn code(value: Option<&Value>, limits: &Limits) -> Result<String, ToolFault> {
    let code = match value {
        Some(Value::String(code)) => code,
        None | Some(Value::Null) => {
            return Err(invalid("code is missing".into()).hint("pass the Python source as code"));
        }
        Some(other) => return Err(mistyped("code", other, "a string of Python source")),
    };
    if code.trim().is_empty() {
        return Err(invalid("code is empty".into()).hint("pass the Python source as code"));
    }
    if code.len() > limits.code_bytes_max {
        return Err(invalid(format!(
            "code has {} bytes, at most {} are taken",
            code.len(),
            limits.code_bytes_max
        ))
        .hint("keep data out of the code: read it through a tool"));
    }
    if let Some(at) = code.find('\0') {
        return Err(invalid(format!("code holds a NUL character at byte {at}")).hint("write it as \\x00"));
    }
    Ok(code.clone())
}

fn servers(value: Option<&Value>, configured: Configured<'_>) -> Result<ServerScope, ToolFault> {
    let list = match value {
        None | Some(Value::Null) => return Ok(ServerScope::All),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(mistyped("servers", other, "a list of server names")),
    };
    let mut servers: Vec<ServerName> = Vec::new();
    for value in list {
        let Value::String(text) = value else {
            return Err(mistyped("servers", value, "a list of server names"));
        };
        let Some(server) = configured.names.iter().find(|name| name.as_str() == text) else {
            return Err((configured.refusal)(text));
        };
        if !servers.contains(server) {
            servers.push(server.clone());
        }
    }
    Ok(ServerScope::Only(servers))
}

fn reset(reset: Option<&Value>, checkpoint: Option<&Value>) -> Result<Reset, ToolFault> {
    let is_reset = match reset {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_reset)) => *is_reset,
        Some(other) => return Err(mistyped("reset", other, "true or false").hint(HINT_CHECKPOINT)),
    };
    match checkpoint {
        None | Some(Value::Null) if is_reset => Ok(Reset::Fresh),
        None | Some(Value::Null) => Ok(Reset::No),
        Some(Value::String(_)) if is_reset => {
            Err(invalid("reset and checkpoint exclude each other".into()).hint(HINT_CHECKPOINT))
        }
        Some(Value::String(name)) => Ok(Reset::Checkpoint(name.clone())),
        Some(other) => Err(mistyped("checkpoint", other, "the name of a checkpoint")),
    }
}

fn timeout(value: Option<&Value>, defaults: RunDefaults) -> Result<Duration, ToolFault> {
    let bounds = format!("a number of seconds above 0 and up to {}", defaults.timeout_max.as_secs());
    let seconds = match value {
        None | Some(Value::Null) => return Ok(defaults.timeout),
        Some(Value::Number(number)) => number.as_f64().unwrap_or(f64::NAN),
        Some(other) => return Err(mistyped("timeout", other, &bounds)),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if !timeout.is_zero() && timeout <= defaults.timeout_max => Ok(timeout),
        _ => Err(invalid(format!("timeout is {seconds}, it must be {bounds}"))
            .hint("longer work goes on beside other runs as a job: runtime.spawn(f)")),
    }
}

fn mistyped(name: &str, value: &Value, wanted: &str) -> ToolFault {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    invalid(format!("{name} is {kind}, it must be {wanted}"))
}

fn invalid(message: String) -> ToolFault {
    ToolFault::new(FaultCode::InvalidArguments, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(arguments: Value) -> Result<RunRequest, String> {
        let names = ["github", "time"].map(|name| ServerName::new(name).unwrap());
        let refusal = |name: &str| {
            ToolFault::new(FaultCode::ServerUnavailable, format!("server '{name}' is off")).hint("why")
        };
        let configured = Configured { names: &names, refusal: &refusal };
        let defaults =
            RunDefaults { timeout: Duration::from_secs(30), timeout_max: Duration::from_secs(120) };
        let limits = Limits { code_bytes_max: 50, ..Limits::default() };
        let Value::Object(arguments) = arguments else { panic!("an object") };
        run_request(&arguments, configured, defaults, &limits)
            .map_err(|fault| format!("{}; {}", fault.message, fault.hint))
    }

    #[test]
    fn defaults_hold_for_what_is_not_said() {
        let asked = check(json!({"code": "1", "servers": null, "timeout": null, "reset": null})).unwrap();
        assert_eq!(
            asked,
            RunRequest {
                code: "1".into(),
                servers: ServerScope::All,
                timeout: Duration::from_secs(30),
                timeout_max: Duration::from_secs(120),
                reset: Reset::No,
                dry_run: false,
                keep_files: true,
            }
        );
    }

    #[test]
    fn every_argument_is_taken() {
        let asked = check(json!({"code": "1", "servers": ["time", "time"], "timeout": 0.5, "reset": true}));
        assert_eq!(
            asked.unwrap(),
            RunRequest {
                code: "1".into(),
                servers: ServerScope::Only(vec![ServerName::new("time").unwrap()]),
                timeout: Duration::from_millis(500),
                timeout_max: Duration::from_secs(120),
                reset: Reset::Fresh,
                dry_run: false,
                keep_files: true,
            }
        );
    }

    #[test]
    fn every_refusal_names_the_argument_and_what_it_must_be() {
        let cases = [
            (json!({}), "code is missing; pass the Python source as code"),
            (json!({"code": 1}), "code is a number, it must be a string of Python source; "),
            (json!({"code": " \n"}), "code is empty; pass the Python source as code"),
            (
                json!({"code": "x".repeat(51)}),
                "code has 51 bytes, at most 50 are taken; keep data out of the code: read it through a tool",
            ),
            (json!({"code": "a\0"}), "code holds a NUL character at byte 1; write it as \\x00"),
            (
                json!({"code": "1", "servers": "time"}),
                "servers is a string, it must be a list of server names; ",
            ),
            (
                json!({"code": "1", "servers": [1]}),
                "servers is a number, it must be a list of server names; ",
            ),
            (json!({"code": "1", "servers": ["githup"]}), "server 'githup' is off; why"),
            (
                json!({"code": "1", "timeout": true}),
                "timeout is a boolean, it must be a number of seconds above 0 and up to 120; ",
            ),
            (
                json!({"code": "1", "timeout": -1}),
                "timeout is -1, it must be a number of seconds above 0 and up to 120; longer work goes on beside other runs as a job: runtime.spawn(f)",
            ),
            (
                json!({"code": "1", "timeout": 0}),
                "timeout is 0, it must be a number of seconds above 0 and up to 120; longer work goes on beside other runs as a job: runtime.spawn(f)",
            ),
            (
                json!({"code": "1", "timeout": 1e9}),
                "timeout is 1000000000, it must be a number of seconds above 0 and up to 120; longer work goes on beside other runs as a job: runtime.spawn(f)",
            ),
            (
                json!({"code": "1", "reset": 1}),
                "reset is a number, it must be true or false; checkpoint goes back to a checkpoint by its name",
            ),
            (
                json!({"code": "1", "reset": true, "checkpoint": "raw"}),
                "reset and checkpoint exclude each other; checkpoint goes back to a checkpoint by its name",
            ),
            (
                json!({"code": "1", "checkpoint": true}),
                "checkpoint is a boolean, it must be the name of a checkpoint; ",
            ),
            (
                json!({"code": "1", "timout": 3}),
                "unknown argument \"timout\"; did you mean \"timeout\"? run_python takes code, servers, timeout, reset and checkpoint",
            ),
        ];
        for (arguments, refusal) in cases {
            assert_eq!(check(arguments).unwrap_err(), refusal);
        }
    }
}
