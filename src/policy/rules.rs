//! What the user writes: a profile, rules, labels of servers, budgets.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::names::Names;
use super::pattern::Pattern;
use super::verdict::{Effect, Verdict};

/// The whole policy. The default lets every call pass.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What counts where no rule does; a setting of its own.
    #[serde(skip)]
    pub profile: Profile,
    /// What is wrong with what the user has written: then no call passes.
    #[serde(skip)]
    pub defect: Option<String>,
    /// The first that fits a call decides.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
    /// What servers hold, bring in and let out.
    #[serde(default)]
    pub labels: Labels,
    /// How much may be called.
    #[serde(default)]
    pub budgets: Budgets,
}

impl Policy {
    /// Whether it decides nothing beside its profile.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.labels == Labels::default() && self.budgets == Budgets::default()
    }
}

/// A stance towards all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Every call passes.
    #[default]
    Open,
    /// What is not said to only read is asked for.
    Careful,
    /// What is not said to only read is denied.
    ReadOnly,
}

/// A decision on the calls that it fits: all of its conditions must hold.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Names of servers; to ask or deny also their Python names.
    #[serde(default = "Pattern::any")]
    pub server: Pattern,
    /// Names of tools, as their servers call them; to ask or deny also their Python names.
    #[serde(default = "Pattern::any")]
    pub tool: Pattern,
    /// What the tool's `readOnlyHint` must be; without one a tool does not only read.
    #[serde(default)]
    pub read_only: Option<bool>,
    /// What the tool's `destructiveHint` must be; without one a tool that does not only read destroys.
    #[serde(default)]
    pub destructive: Option<bool>,
    /// Values of arguments, by name, or by path with dots: strings as they are, others as JSON. Of an array, also on the way,
    /// any item counts, and for `allow` and `warn` every item. To ask or deny a value counts in every spelling that a server
    /// may take for it, and a default as if it were given; to allow or warn only the exact text. What goes up (`..`) is let
    /// pass by `*` alone.
    #[serde(default)]
    pub arguments: BTreeMap<String, Pattern>,
    /// What happens to the call.
    pub decision: Verdict,
    /// Told with a denial or question.
    #[serde(default)]
    pub reason: String,
}

/// The labels of servers, by patterns of their names.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// Hold what is not for everybody.
    #[serde(default)]
    pub private: Vec<Pattern>,
    /// Bring in what strangers have written.
    #[serde(default)]
    pub untrusted: Vec<Pattern>,
    /// Let data out.
    #[serde(default)]
    pub egress: Vec<Pattern>,
    /// What happens to a call that lets data out when a session has touched both of the others; unset: it is let pass with a
    /// warning, and asked for under `careful`.
    #[serde(default)]
    pub when_mixed: Option<Verdict>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// Of [`Labels::private`].
    Private,
    /// Of [`Labels::untrusted`].
    Untrusted,
    /// Of [`Labels::egress`].
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

/// The budgets of calls. One that is unset leaves the other limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// Calls of one run.
    #[serde(default)]
    pub calls_per_run: Option<u64>,
    /// Calls of one session.
    #[serde(default)]
    pub calls_per_session: Option<u64>,
    /// Bytes of arguments and results of one run.
    #[serde(default)]
    pub bytes_per_run: Option<u64>,
    /// The same of one session.
    #[serde(default)]
    pub bytes_per_session: Option<u64>,
}
