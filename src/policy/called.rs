//! A call that the policy decides on.

use serde_json::{Map, Value};

use super::names::Names;

/// A call, as the bridge knows it.
#[derive(Debug, Clone, Copy)]
pub struct Called<'c> {
    /// What the server is called.
    pub server: Names<'c>,
    /// What the tool is called.
    pub tool: Names<'c>,
    /// The server's hints on it.
    pub annotations: &'c Map<String, Value>,
    /// Its arguments, as they are sent.
    pub arguments: &'c Map<String, Value>,
    /// What they say beyond that.
    pub implied: &'c Implied,
}

/// What a call's arguments say beyond the values that stand in them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Implied {
    /// Values that the server may use for arguments that were left out, were null or empty, laid out as the arguments are:
    /// its schema's defaults, and null where there is none. Several possible values are the items of a list.
    pub values: Map<String, Value>,
    /// Why the arguments could not be checked against the tool's schema, or the defaults not be found.
    pub unchecked: Option<&'static str>,
}

impl Called<'_> {
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
