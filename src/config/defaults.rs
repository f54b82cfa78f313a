//! The variables, their defaults and what they take, from the embedded `config/defaults.json`: their only source.
//!
//! It does not check values; `variables` does.

use serde_json::{Map, Value};

const DEFAULTS: &str = include_str!("../../config/defaults.json");

/// One documented variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What counts when it is not set; `None`: nothing does.
    pub default: Option<String>,
    /// What may be written, for people.
    pub allowed: String,
}

/// Every documented variable, in the file's order.
///
/// # Panics
/// Never: the embedded file is checked by a test.
#[must_use]
pub fn variables() -> Vec<Variable> {
    let defaults: Map<String, Value> =
        serde_json::from_str(DEFAULTS).expect("the embedded defaults are JSON: tested below");
    defaults
        .into_iter()
        .map(|(name, row)| Variable {
            name,
            default: row["default"].as_str().map(str::to_owned),
            allowed: row["allowed"].as_str().unwrap_or_default().to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_variable_has_its_documented_default() {
        let shown: Vec<String> = variables()
            .iter()
            .map(|variable| format!("{}={}", variable.name, variable.default.as_deref().unwrap_or("-")))
            .collect();
        assert_eq!(
            shown,
            [
                "MCP_BRIDGE_RUNTIME=auto",
                "MCP_BRIDGE_IMAGE=-",
                "MCP_BRIDGE_TIMEOUT=30",
                "MCP_BRIDGE_MAX_TIMEOUT=120",
                "MCP_BRIDGE_MEMORY=512m",
                "MCP_BRIDGE_PIDS=128",
                "MCP_BRIDGE_CPUS=-",
                "MCP_BRIDGE_CONTAINER_USER=65534:65534",
                "MCP_BRIDGE_ALLOW_WEAK=-",
                "MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT=300",
                "MCP_BRIDGE_STATE_DIR=~/MCPs",
                "MCP_BRIDGE_OUTPUT_MODE=compact",
                "MCP_BRIDGE_LOG_LEVEL=INFO",
                "MCP_BRIDGE_ALLOW_SELF_SERVER=0",
                "MCP_BRIDGE_PREWARM=1",
                "MCP_BRIDGE_ROLLBACK=1",
                "MCP_BRIDGE_STRUCTURED=0",
                "MCP_BRIDGE_LEARN_SHAPES=1",
                "MCP_BRIDGE_SEMANTIC=auto",
                "MCP_SERVERS_CONFIG=-",
            ]
        );
        assert!(variables().iter().all(|variable| !variable.allowed.is_empty()));
    }
}
