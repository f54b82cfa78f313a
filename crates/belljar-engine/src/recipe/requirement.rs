//! A package that the user asks for: a name, perhaps extras and versions, and nothing that pip would take for an option.

use std::fmt;

/// A requirement such as `polars`, `rich==13.7.1` or `pandas[excel]>=2,<3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// As distributions are compared: lower case, words joined by one `-`.
    name: String,
    /// Extras with their brackets, or nothing.
    extras: String,
    /// Such as `>=2,<3`, or nothing.
    versions: String,
}

/// The reason for which a text is not a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// It asks for a place instead of a package of the index.
    #[error(
        "{text:?} is an address; only packages of the index can be added, as NAME, NAME==VERSION or NAME[EXTRA]>=VERSION"
    )]
    Address {
        /// What was written.
        text: String,
    },
    /// It is not a requirement.
    #[error("{text:?} is no package, at character {at}; write NAME, NAME==VERSION or NAME[EXTRA]>=VERSION")]
    Form {
        /// What was written, shortened.
        text: String,
        /// Where it goes wrong, counted from 1.
        at: usize,
    },
}

/// Longest requirement, in bytes.
const BYTES_MAX: usize = 200;
const COMPARISONS: [&str; 6] = ["==", ">=", "<=", "~=", "!=", ">"];

impl Requirement {
    /// Checks a text.
    ///
    /// # Errors
    /// What it is instead, and where it goes wrong.
    pub fn new(text: &str) -> Result<Self, RequirementError> {
        let shown = || belljar_base::text::inert_excerpt(text, 60);
        if text.contains("://") || text.contains('@') || text.contains('/') {
            return Err(RequirementError::Address { text: shown() });
        }
        let text = text.trim_end();
        let wrong_at = |rest: &str| RequirementError::Form {
            text: shown(),
            at: text[..text.len() - rest.len()].chars().count() + 1,
        };
        if text.len() > BYTES_MAX {
            let at = text.char_indices().take_while(|(at, _)| *at < BYTES_MAX).count() + 1;
            return Err(RequirementError::Form { text: shown(), at });
        }
        let rest = text.trim_start();
        let (name, rest) = word(rest).ok_or_else(|| wrong_at(rest))?;
        let (extras, rest) = extras(rest.trim_start()).map_err(wrong_at)?;
        let versions = versions(rest.trim()).map_err(wrong_at)?;
        Ok(Self { name: plain(name), extras, versions })
    }

    /// The package's name, as distributions are compared.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.name, self.extras, self.versions)
    }
}

fn plain(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// A name at the beginning, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = text.find(|c: char| !is_inner(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let is_name = word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.ends_with(|c: char| c.is_ascii_alphanumeric());
    is_name.then_some((word, rest))
}

fn extras(text: &str) -> Result<(String, &str), &str> {
    let Some(inner) = text.strip_prefix('[') else { return Ok((String::new(), text)) };
    let mut names = Vec::new();
    let mut rest = inner;
    loop {
        let (name, behind) = word(rest.trim_start()).ok_or(rest)?;
        names.push(plain(name));
        rest = behind.trim_start();
        if let Some(behind) = rest.strip_prefix(']') {
            return Ok((format!("[{}]", names.join(",")), behind));
        }
        rest = rest.strip_prefix(',').ok_or(rest)?;
    }
}

fn versions(text: &str) -> Result<String, &str> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let all = COMPARISONS.into_iter().chain(["<"]);
        let (comparison, behind) =
            all.into_iter().find_map(|sign| Some((sign, rest.strip_prefix(sign)?))).ok_or(rest)?;
        let behind = behind.trim_start();
        let is_version =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '!' | '*' | '-' | '_');
        let end = behind.find(|c: char| !is_version(c)).unwrap_or(behind.len());
        if !behind.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(behind);
        }
        found.push(format!("{comparison}{}", &behind[..end]));
        rest = behind[end..].trim_start();
        if rest.is_empty() {
            return Ok(found.join(","));
        }
        rest = rest.strip_prefix(',').ok_or(rest)?.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_extras_and_versions_are_taken() {
        for (text, taken) in [
            ("polars", "polars"),
            (" Scikit_Learn ", "scikit-learn"),
            ("rich==13.7.1", "rich==13.7.1"),
            ("pandas [Excel, html] >= 2 , < 3.*", "pandas[excel,html]>=2,<3.*"),
            ("x~=1!2.0rc1+local_1", "x~=1!2.0rc1+local_1"),
        ] {
            assert_eq!(Requirement::new(text).map(|found| found.to_string()), Ok(taken.to_owned()), "{text}");
        }
        assert_eq!(Requirement::new("Scikit.Learn>1").unwrap().name(), "scikit-learn");
    }

    #[test]
    fn what_pip_would_take_for_an_option_a_place_or_a_line_is_refused() {
        for (text, at) in [
            ("", 1),
            ("--index-url", 1),
            ("-r", 1),
            ("rich --hash=x", 6),
            ("rich\nevil", 6),
            ("rich; python_version<'3'", 5),
            ("rich==", 7),
            ("rich== ", 7),
            ("rich==1,,2", 9),
            ("rich[a", 7),
            ("rich[", 6),
            ("é", 1),
            ("rich==1 2", 9),
            ("rich===1", 7),
        ] {
            let found = Requirement::new(text).unwrap_err();
            assert!(
                matches!(&found, RequirementError::Form { at: found, .. } if *found == at),
                "{text:?}: {found:?}"
            );
        }
        for text in ["https://x.org/a.whl", "name@https://x", "git+ssh://x", "./here", "a@b", "../up"] {
            assert!(matches!(Requirement::new(text), Err(RequirementError::Address { .. })), "{text}");
        }
        assert!(Requirement::new(&"x".repeat(201)).is_err());
        let said = Requirement::new("a\u{1b}[0m b").unwrap_err().to_string();
        assert!(!said.contains('\u{1b}'), "{said}");
    }
}
