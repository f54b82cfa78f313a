//! The tools of a server that its entry offers, by patterns of their names.
//!
//! It knows no servers; the code that lists tools leaves out the excluded ones.

use super::names::Names;
use super::pattern::Pattern;
use super::verdict::Effect;

/// The choice of the tools that are offered. The default is all tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolChoice {
    allow: Option<Vec<Pattern>>,
    deny: Vec<Pattern>,
}

impl ToolChoice {
    /// Offers the tools that match a pattern of `allow`, or all without `allow`, except those that match one of `deny`.
    #[must_use]
    pub fn new(allow: Option<Vec<Pattern>>, deny: Vec<Pattern>) -> Self {
        Self { allow, deny }
    }

    /// The key of the entry that excludes a tool with these names; `None`: it is offered. A name that is too long to
    /// compare counts as matching every pattern of `deny`, and no pattern of `allow`.
    #[must_use]
    pub fn kept_back(&self, tool: Names<'_>) -> Option<&'static str> {
        if self.deny.iter().any(|pattern| tool.fit(pattern, Effect::Tightens)) {
            return Some("deny");
        }
        let is_allowed =
            |allow: &Vec<Pattern>| allow.iter().any(|pattern| tool.fit(pattern, Effect::Loosens));
        (!self.allow.as_ref().is_none_or(is_allowed)).then_some("allow")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::new(text).unwrap()).collect()
    }

    #[test]
    fn deny_counts_more_than_allow_and_without_allow_everything_is_allowed() {
        let both = ToolChoice::new(Some(patterns(&["get_*", "list"])), patterns(&["*_secret"]));
        for (tool, key) in [
            ("get_issue", None),
            ("list", None),
            ("get_secret", Some("deny")),
            ("the_secret", Some("deny")),
            ("delete", Some("allow")),
            ("List", Some("allow")),
        ] {
            assert_eq!(both.kept_back(Names::only(tool)), key, "{tool}");
        }
        assert_eq!(ToolChoice::default().kept_back(Names::only("delete")), None);
        assert_eq!(ToolChoice::new(Some(vec![]), vec![]).kept_back(Names::only("delete")), Some("allow"));
    }

    #[test]
    fn a_name_that_cannot_be_compared_is_kept_back() {
        let long = "x".repeat(100_000);
        assert_eq!(
            ToolChoice::new(Some(patterns(&["x*"])), vec![]).kept_back(Names::only(&long)),
            Some("allow")
        );
        assert_eq!(ToolChoice::new(None, patterns(&["y*"])).kept_back(Names::only(&long)), Some("deny"));
    }
}
