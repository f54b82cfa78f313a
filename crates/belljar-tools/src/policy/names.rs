//! The name and the Python alias of a server or tool, and the patterns that match them.
//!
//! It makes no aliases; the catalog does.

use super::pattern::Pattern;
use super::verdict::Effect;

/// The two names of a server or tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names<'n> {
    /// The own name: the configured one, or the one that the server lists.
    pub name: &'n str,
    /// The alias in Python, which users see in replies and code.
    pub alias: &'n str,
}

impl<'n> Names<'n> {
    /// The names of something that has only one name.
    #[must_use]
    pub fn only(name: &'n str) -> Self {
        Self { name, alias: name }
    }

    /// Whether the pattern matches: a rule that loosens needs the own name, a rule that tightens either name.
    pub(super) fn fit(self, pattern: &Pattern, effect: Effect) -> bool {
        match effect {
            Effect::Loosens => pattern.matches(self.name) == Some(true),
            Effect::Tightens => {
                [self.name, self.alias].iter().any(|name| pattern.matches(name) != Some(false))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_name_is_enough_to_deny_and_never_to_allow() {
        let names = Names { name: "get-env", alias: "get_env" };
        for (pattern, tightens, loosens) in [
            ("get-env", true, true),
            ("get_env", true, false),
            ("get?env", true, true),
            ("set*", false, false),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            assert_eq!(names.fit(&pattern, Effect::Tightens), tightens, "{pattern}");
            assert_eq!(names.fit(&pattern, Effect::Loosens), loosens, "{pattern}");
        }
    }
}
