//! A call, as the policy sees it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::names::Names;

/// A call, with everything that rules can refer to.
#[derive(Clone, Copy)]
pub struct PolicyCall<'c> {
    /// The names of the server.
    pub server: Names<'c>,
    /// The names of the tool.
    pub tool: Names<'c>,
    /// The server's hints on the tool.
    pub annotations: &'c Map<String, Value>,
    /// The arguments.
    pub arguments: &'c CallArguments,
}

/// The arguments of a call. A clone shares them, so that another thread can compare them.
#[derive(Clone, Default)]
pub struct CallArguments {
    /// The arguments as they are sent.
    pub given: Arc<Map<String, Value>>,
    /// The reason why they could not be checked against the tool's schema.
    pub unchecked: Option<&'static str>,
    /// Finds what the server may use in addition. It can take long.
    pub defaults: Option<Arc<FindDefaults>>,
}

/// Finds the values for arguments that are absent, null or empty, in the structure of the arguments: the defaults of the
/// tool's schema, and null without a default. Several possible values are the items of a list. The error is the reason why
/// they are not known.
pub type FindDefaults = dyn Fn(&Map<String, Value>) -> Result<Map<String, Value>, &'static str> + Send + Sync;

impl From<Map<String, Value>> for CallArguments {
    fn from(given: Map<String, Value>) -> Self {
        Self { given: Arc::new(given), ..Self::default() }
    }
}

impl PolicyCall<'_> {
    fn hint(&self, name: &str) -> Option<bool> {
        self.annotations.get(name).and_then(Value::as_bool)
    }

    /// Whether its server says that the tool changes nothing.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        self.hint("readOnlyHint") == Some(true)
    }

    /// Whether the tool may destroy data, according to its server. If the server says nothing, a tool that is not
    /// read-only may (MCP's own default).
    pub(super) fn may_destroy(&self) -> bool {
        !self.only_reads() && self.hint("destructiveHint") != Some(false)
    }
}
