//! The parts of a policy file: rules, labels of servers, and budgets; and the profile.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::names::Names;
use super::pattern::Pattern;
use super::verdict::{Effect, Verdict};

/// The whole policy. The default allows every call.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// The profile, which decides if no rule matches. It comes from a setting.
    #[serde(skip)]
    pub profile: Profile,
    /// The problem with the user's policy. While there is one, no call is allowed.
    #[serde(skip)]
    pub defect: Option<String>,
    /// The rules. The first one that matches a call decides.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
    /// The labels of servers.
    pub labels: Labels,
    /// The budgets of calls.
    pub budgets: Budgets,
}

impl Policy {
    /// Whether the policy is only its profile.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.labels == Labels::default() && self.budgets == Budgets::default()
    }
}

/// The decision about calls that no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Every call is allowed.
    #[default]
    Open,
    /// The human is asked about calls of tools that are not marked as read-only.
    Careful,
    /// Calls of tools that are not marked as read-only are denied.
    ReadOnly,
}

impl Profile {
    /// Whether calls are denied that leave no record: that cannot be logged, or whose tool cannot be compared with what it
    /// was.
    #[must_use]
    pub fn needs_records(self) -> bool {
        self != Self::Open
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Careful => "careful",
            Self::ReadOnly => "read-only",
        })
    }
}

/// A rule. It matches a call if all of its conditions hold.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Names of servers. A rule that asks or denies also matches their Python names.
    #[serde(default = "Pattern::any")]
    pub server: Pattern,
    /// Names of tools, as their servers list them. A rule that asks or denies also matches their Python names.
    #[serde(default = "Pattern::any")]
    pub tool: Pattern,
    /// The wanted value of the tool's `readOnlyHint`; a tool without the hint is not read-only.
    pub read_only: Option<bool>,
    /// The wanted value of the tool's `destructiveHint`; without the hint, a tool that is not read-only is destructive.
    pub destructive: Option<bool>,
    /// Patterns of arguments by name, or by path with dots. They match strings as they are, and other values as JSON.
    /// If the value is an array, or the path leads through one, one matching item is enough. For `allow` and `warn`,
    /// every item must match. A rule that asks or denies matches a value in every spelling that a server may accept,
    /// and a default like a given value. A rule that allows or warns matches only the exact text, and a path with `..`
    /// only with the pattern `*`.
    #[serde(default)]
    pub arguments: BTreeMap<String, Pattern>,
    /// The decision about the call.
    pub decision: Verdict,
    /// The reason that a denial or question shows.
    #[serde(default)]
    pub reason: String,
}

/// The labels of servers, by patterns of their names.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Labels {
    /// Servers that have private data.
    pub private: Vec<Pattern>,
    /// Servers that bring in content of strangers.
    pub untrusted: Vec<Pattern>,
    /// Servers that can send data out.
    pub egress: Vec<Pattern>,
    /// The decision about a call of a server of `egress` after the session has touched data of both other labels.
    /// `None`: the call is allowed with a warning, and under `careful` the human is asked.
    pub when_mixed: Option<Verdict>,
}

/// One label of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// The label of [`Labels::private`].
    Private,
    /// The label of [`Labels::untrusted`].
    Untrusted,
    /// The label of [`Labels::egress`].
    Egress,
}

impl Labels {
    /// Whether the server has the label, by either of its names.
    #[must_use]
    pub fn has(&self, label: Label, server: Names<'_>) -> bool {
        let patterns = match label {
            Label::Private => &self.private,
            Label::Untrusted => &self.untrusted,
            Label::Egress => &self.egress,
        };
        patterns.iter().any(|pattern| server.fit(pattern, Effect::Tightens))
    }
}

/// The budgets of calls; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budgets {
    /// The largest number of calls of one run.
    pub calls_per_run: Option<u64>,
    /// The largest number of calls of one session.
    pub calls_per_session: Option<u64>,
    /// The largest number of bytes of arguments and results of one run.
    pub bytes_per_run: Option<u64>,
    /// The largest number of bytes of arguments and results of one session.
    pub bytes_per_session: Option<u64>,
}
