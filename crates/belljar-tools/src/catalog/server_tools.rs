//! One server with its tools, or the reason why it has none.
//!
//! It asks no server.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;

use super::alias::tool_aliases;
use super::matching::near_names::near;
use super::matching::postings::Postings;
use super::python::signature;
use super::tool::{Tool, shown};
use crate::policy::Names;

/// The longest part of an unknown tool's name that is shown, in characters: the name may be as long as a frame.
const ASKED_CHARS_MAX: usize = 100;

/// One server. Its fields are fixed; new knowledge about it makes a new catalog.
#[derive(Debug)]
pub struct ServerTools {
    /// The raw name.
    pub name: ServerName,
    /// The Python name, unique within the catalog.
    pub alias: String,
    /// The operator's description of its purpose, bounded and without control characters.
    pub description: Option<String>,
    /// Its working folder, if one is configured.
    pub cwd: Option<PathBuf>,
    /// The server's tools.
    pub tools: Tools,
    /// Whether the tools are those of a server.
    pub origin: Origin,
    /// The words of its tools, counted by the first search. Catalogs that share the server share them.
    pub(super) words: OnceLock<Postings>,
}

/// The origin of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A configured server.
    Server,
    /// Skills: functions that code has saved, which a search finds too.
    Skills,
}

/// The tools of a server, or the reason for which they are not known.
#[derive(Debug, Clone, PartialEq)]
pub enum Tools {
    /// The tools are unknown, because the server was not asked yet.
    Unasked,
    /// The server has these tools, sorted by name, without duplicates.
    Listed(Vec<Tool>),
    /// The server could not list its tools.
    Failed {
        /// The reason, for the model.
        reason: String,
    },
}

/// A tool that a server does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Tool '{tool}' not found for server {server}")]
pub struct UnknownTool {
    /// The server.
    pub server: ServerName,
    /// The requested name, in a form that can be shown.
    pub tool: String,
    /// The tools that may have been meant.
    pub near: NearMisses,
}

/// Names that are similar to the requested one, the most similar first, at most three: aliases of tools, or names of
/// servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearMisses(pub Vec<String>);

impl Tools {
    /// Adds aliases and signatures to tools. If several have one name, the first counts.
    #[must_use]
    pub fn listed(tools: Vec<Tool>, limits: &Limits) -> Self {
        Self::Listed(named(tools, limits))
    }

    /// The list of tools; empty if it is unknown.
    #[must_use]
    pub fn into_listed(self) -> Vec<Tool> {
        match self {
            Self::Listed(tools) => tools,
            Self::Unasked | Self::Failed { .. } => Vec::new(),
        }
    }

    /// A failure with this reason, which is made harmless to show.
    #[must_use]
    pub fn failed(reason: &str, limits: &Limits) -> Self {
        Self::Failed { reason: shown(reason, limits) }
    }
}

impl ServerTools {
    /// The name and alias of the server.
    #[must_use]
    pub fn names(&self) -> Names<'_> {
        Names { name: self.name.as_str(), alias: &self.alias }
    }

    /// The known tools.
    #[must_use]
    pub fn listed(&self) -> &[Tool] {
        match &self.tools {
            Tools::Listed(tools) => tools,
            Tools::Unasked | Tools::Failed { .. } => &[],
        }
    }

    /// A tool by its raw name, else by its alias, else by either in another case or Unicode form if only one matches.
    ///
    /// # Errors
    /// [`UnknownTool`] with the names that may have been meant.
    pub fn resolve(&self, tool_or_alias: &str) -> Result<&Tool, UnknownTool> {
        resolved(self.listed(), tool_or_alias).ok_or_else(|| self.unknown(tool_or_alias, usize::MAX))
    }

    /// The error for a tool that the server does not have. Its name is compared with so many of the tools'.
    #[must_use]
    pub fn unknown(&self, asked: &str, compared_max: usize) -> UnknownTool {
        let names = self.listed().iter().take(compared_max).map(|tool| tool.alias.as_str());
        UnknownTool {
            server: self.name.clone(),
            tool: text::inert_excerpt(asked, ASKED_CHARS_MAX),
            near: NearMisses(near(asked, names)),
        }
    }
}

/// The tool with this raw name, else with this alias, else with either in another case or Unicode form if only one
/// matches.
#[must_use]
pub fn resolved<'t>(tools: &'t [Tool], tool_or_alias: &str) -> Option<&'t Tool> {
    let exact = tools
        .iter()
        .find(|tool| tool.name.as_str() == tool_or_alias)
        .or_else(|| tools.iter().find(|tool| tool.alias == tool_or_alias));
    if exact.is_some() {
        return exact;
    }
    let composed = text::composed(tool_or_alias);
    let mut folded = tools.iter().filter(|tool| {
        tool.alias.eq_ignore_ascii_case(tool_or_alias)
            || tool.name.as_str().eq_ignore_ascii_case(tool_or_alias)
            || text::composed(tool.name.as_str()) == composed
    });
    folded.next().filter(|_| folded.next().is_none())
}

impl fmt::Display for NearMisses {
    /// Writes `did you mean 'a' or 'b'?`, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.0.iter().map(|name| format!("'{name}'")).collect();
        write!(f, "did you mean {}?", names.join(" or "))
    }
}

impl From<UnknownTool> for ToolFault {
    fn from(unknown: UnknownTool) -> Self {
        Self::new(FaultCode::UnknownTool, unknown.to_string()).hint(unknown.near.to_string())
    }
}

/// Adds aliases and signatures to tools, and sorts them by name. If several have one name, the first counts.
pub(super) fn named(mut tools: Vec<Tool>, limits: &Limits) -> Vec<Tool> {
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools.dedup_by(|one, other| one.name == other.name);
    tools.truncate(limits.tools_per_server_max);
    let names: Vec<String> = tools.iter().map(|tool| tool.name.as_str().to_owned()).collect();
    let mut aliases = tool_aliases(names.iter().map(String::as_str), limits.alias_bytes_max);
    for (tool, name) in tools.iter_mut().zip(&names) {
        tool.alias = aliases.remove(name.as_str()).unwrap_or_else(|| name.clone());
        tool.signature = signature(tool, limits);
    }
    tools
}
