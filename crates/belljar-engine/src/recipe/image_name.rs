//! The name of an image that the user has had built: part of its reference, of its lock's file, and of commands.

use std::fmt;

use super::language::Language;
use super::requirement::Requirement;

/// At most 40 bytes of lower-case letters, digits and single `-` between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName(String);

const BYTES_MAX: usize = 40;
/// Means the image that belljar has without any of the user's.
const DEFAULT: &str = "default";
/// The reference of belljar's own image.
pub const OWN_IMAGE: &str = "localhost/belljar-sandbox:latest";
/// Before the name in a reference. A host's name comes first, or Podman would take it for one of a registry.
const REPOSITORY: &str = "localhost/belljar/";

impl ImageName {
    /// Checks a text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let shown = belljar_base::text::inert_excerpt(text, 60);
        if text == DEFAULT {
            return Err(format!("{DEFAULT:?} is the name of belljar's own image; choose another"));
        }
        if text.len() > BYTES_MAX || !text.split('-').all(is_word) {
            return Err(format!(
                "{shown:?} is no name of an image: at most {BYTES_MAX} lower-case letters, digits and \"-\" between them"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether this names belljar's own image.
    #[must_use]
    pub fn is_default(text: &str) -> bool {
        text == DEFAULT
    }

    /// A name after what is in the image; nothing where nothing is added.
    #[must_use]
    pub fn after(asked: &[Requirement], languages: &[Language]) -> Option<Self> {
        let packages = asked.iter().map(|one| one.name().to_owned());
        let spoken = languages.iter().map(|language| language.as_str().replace('+', "p"));
        let words: Vec<String> = if languages.len() == Language::all().count() {
            packages.chain(["languages".to_owned()]).collect()
        } else {
            packages.chain(spoken).collect()
        };
        let name = words.join("-");
        // ASCII, as both kinds of names are.
        Self::new(name.get(..BYTES_MAX).unwrap_or(&name).trim_end_matches('-')).ok()
    }

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As engines know the image.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{REPOSITORY}{}:latest", self.0)
    }

    /// The name in a reference of ours.
    #[must_use]
    pub fn of_reference(reference: &str) -> Option<Self> {
        Self::new(reference.strip_prefix(REPOSITORY)?.strip_suffix(":latest")?).ok()
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::language::languages;
    use super::*;

    #[test]
    fn names_are_plain_words_and_come_back_from_references() {
        for wrong in ["", "default", "A", "a b", "-a", "a-", "a--b", "../x", "a:b", "é", &"a".repeat(41)] {
            assert!(ImageName::new(wrong).is_err(), "{wrong:?}");
        }
        let name = ImageName::new("geo-2").unwrap();
        assert_eq!(name.reference(), "localhost/belljar/geo-2:latest");
        assert_eq!(ImageName::of_reference(&name.reference()), Some(name));
        assert_eq!(ImageName::of_reference("localhost/belljar-sandbox:latest"), None);
    }

    #[test]
    fn a_name_comes_of_what_is_added() {
        let asked =
            |names: &[&str]| names.iter().map(|name| Requirement::new(name).unwrap()).collect::<Vec<_>>();
        let after = |names: &[&str], spoken: &[&str]| {
            let name = ImageName::after(&asked(names), &languages(spoken.iter().copied()).unwrap());
            name.map(|name| name.to_string())
        };
        assert_eq!(
            after(&["Rich>=13", "scikit.image"], &["c++", "ruby"]),
            Some("rich-scikit-image-cpp-ruby".into())
        );
        assert_eq!(after(&[], &["all"]), Some("languages".into()));
        assert_eq!(after(&[], &[]), None);
        assert_eq!(after(&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "b"], &[]), Some("a".repeat(39)));
    }
}
