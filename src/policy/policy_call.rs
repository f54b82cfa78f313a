//! A call, as the policy sees it.

use serde_json::{Map, Value};

use super::names::Names;

/// A call, with everything that rules can be about.
#[derive(Debug, Clone, Copy)]
pub struct PolicyCall<'c> {
    /// The names of the server.
    pub server: Names<'c>,
    /// The names of the tool.
    pub tool: Names<'c>,
    /// The server's hints on the tool.
    pub annotations: &'c Map<String, Value>,
    /// The arguments as they are sent.
    pub arguments: &'c Map<String, Value>,
    /// The values that the server may use in addition.
    pub implied: &'c ImpliedArguments,
}

/// The values that the server may use in place of arguments that the call does not give.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImpliedArguments {
    /// Values that the server may use for arguments that were left out, were null or empty, laid out as the arguments are:
    /// its schema's defaults, and null where there is none. Several possible values are the items of a list.
    pub values: Map<String, Value>,
    /// The reason for which the arguments could not be checked against the tool's schema, or its defaults not be found.
    pub unchecked: Option<&'static str>,
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

    /// Whether the tool may destroy, as far as its server says: what does not only read may, where nothing is said (MCP's
    /// own default).
    pub(super) fn may_destroy(&self) -> bool {
        !self.only_reads() && self.hint("destructiveHint") != Some(false)
    }
}
