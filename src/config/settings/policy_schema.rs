//! The JSON schema of a policy.toml, for editors.
//!
//! The reader does not use it: its own problems say more.

use serde_json::{Value, json};

/// The JSON schema of a policy.toml.
#[must_use]
pub fn policy_schema() -> Value {
    let pattern =
        |about: &str| json!({"type": "string", "minLength": 1, "maxLength": 200, "description": about});
    let patterns = |about: &str| json!({"type": "array", "items": pattern("* and ?"), "description": about});
    let number = |about: &str| json!({"type": "integer", "minimum": 0, "description": about});
    let decision = |about: &str| json!({"enum": ["allow", "warn", "ask", "deny"], "description": about});
    let rule = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["decision"],
        "properties": {
            "server": pattern("names of servers, * and ?; to ask or deny also their Python names"),
            "tool": pattern("names of tools, * and ?; to ask or deny also their Python names"),
            "read_only": {"type": "boolean",
                "description": "what the tool's readOnlyHint must be; without one it does not only read"},
            "destructive": {"type": "boolean",
                "description": "what the tool's destructiveHint must be; without one what does not only read destroys"},
            "arguments": {"type": "object", "additionalProperties": pattern("* and ?"),
                "description": "values by name, or by path with dots; for ask and deny any fits, in every spelling, and defaults count; for allow and warn all, exactly"},
            "decision": decision("what happens to a call that fits"),
            "reason": {"type": "string", "description": "told with a denial or question"},
        },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "policy.toml of belljar",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "rule": {"type": "array", "items": rule, "description": "the first that fits a call decides"},
            "labels": {
                "type": "object",
                "additionalProperties": false,
                "description": "what is said of servers, by patterns of their names",
                "properties": {
                    "private": patterns("hold what is not for everybody"),
                    "untrusted": patterns("bring in what strangers have written"),
                    "egress": patterns("let data out"),
                    "when_mixed": decision("what happens to a call that lets data out once a session has read private and \
                                            untrusted data; unset: warn, under the profile careful ask"),
                },
            },
            "budgets": {
                "type": "object",
                "additionalProperties": false,
                "description": "how much may be called",
                "properties": {
                    "calls_per_run": number("calls of one run"),
                    "calls_per_session": number("calls of one session"),
                    "bytes_per_run": number("bytes of arguments and answers of one run"),
                    "bytes_per_session": number("the same of one session"),
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use belljar_tools::policy::Policy;

    use super::*;

    #[test]
    fn the_committed_schema_of_policies_is_the_current_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/policy-schema.json");
        assert_eq!(std::fs::read_to_string(path).unwrap(), format!("{:#}\n", policy_schema()));
    }

    #[test]
    fn the_schema_of_policies_takes_what_the_reader_takes_and_nothing_else() {
        let schema = jsonschema::validator_for(&policy_schema()).unwrap();
        let rule = |key: &str, value: Value| {
            let mut rule = json!({"decision": "deny"});
            rule[key] = value;
            json!({"rule": [rule]})
        };
        let example: Value =
            toml::from_str(include_str!("../../../config/examples/valid/policy.toml")).unwrap();
        for (policy, is_good) in [
            (json!({}), true),
            (example, true),
            (rule("arguments", json!({"a.b": "x*"})), true),
            (rule("reason", json!("")), true),
            (json!({"labels": {"when_mixed": "ask"}, "budgets": {"calls_per_run": 0}}), true),
            (json!({"profile": "open"}), false),
            (json!({"rule": [{"server": "a"}]}), false),
            (rule("servers", json!("a")), false),
            (rule("server", json!("")), false),
            (rule("tool", json!("x".repeat(201))), false),
            (rule("decision", json!("alow")), false),
            (rule("read_only", json!("true")), false),
            (rule("arguments", json!({"a": 1})), false),
            (json!({"budgets": {"calls": 3}}), false),
            (json!({"budgets": {"bytes_per_run": -1}}), false),
            (json!({"labels": {"secret": []}}), false),
            (json!({"labels": {"private": [""]}}), false),
        ] {
            assert_eq!(schema.is_valid(&policy), is_good, "{policy}");
            assert_eq!(serde_json::from_value::<Policy>(policy.clone()).is_ok(), is_good, "{policy}");
        }
    }
}
