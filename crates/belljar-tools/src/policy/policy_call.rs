//! A call, as the policy sees it.

use serde_json::{Map, Value};

use super::names::Names;

/// A call, with everything that rules can refer to.
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
    /// Values for arguments that are absent, null or empty, in the structure of the arguments: the defaults of the
    /// tool's schema, and null without a default. Several possible values are the items of a list.
    pub values: Map<String, Value>,
    /// The reason why the arguments could not be checked against the tool's schema, or why its defaults are unknown.
    pub unchecked: Option<&'static str>,
}

/// A call that borrows nothing, for another thread.
#[derive(Debug)]
pub struct DetachedCall {
    server: [String; 2],
    tool: [String; 2],
    annotations: Map<String, Value>,
    arguments: Map<String, Value>,
    implied: ImpliedArguments,
}

impl DetachedCall {
    /// The call, as the policy sees it.
    pub(super) fn as_call(&self) -> PolicyCall<'_> {
        fn names([name, alias]: &[String; 2]) -> Names<'_> {
            Names { name, alias }
        }
        PolicyCall {
            server: names(&self.server),
            tool: names(&self.tool),
            annotations: &self.annotations,
            arguments: &self.arguments,
            implied: &self.implied,
        }
    }
}

impl PolicyCall<'_> {
    /// The call with copies of those arguments that `is_wanted` names.
    pub(super) fn detached(&self, is_wanted: impl Fn(&str) -> bool) -> DetachedCall {
        let names = |names: Names<'_>| [names.name.to_owned(), names.alias.to_owned()];
        let wanted = self.arguments.iter().filter(|(name, _)| is_wanted(name));
        DetachedCall {
            server: names(self.server),
            tool: names(self.tool),
            annotations: self.annotations.clone(),
            arguments: wanted.map(|(name, value)| (name.clone(), value.clone())).collect(),
            implied: self.implied.clone(),
        }
    }

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
