//! The languages that an image can have beside Python and the shell.

use std::fmt;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Language(&'static str);

/// Their names, as `runtime.run` has them.
const NAMES: [&str; 5] = ["c", "c++", "javascript", "php", "ruby"];
/// What every image has.
const ALWAYS: [&str; 2] = ["python", "bash"];
const OTHER_NAMES: [(&str, &str); 5] =
    [("cpp", "c++"), ("js", "javascript"), ("node", "javascript"), ("nodejs", "javascript"), ("rb", "ruby")];

impl Language {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(Self)
    }

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The languages of a list of names; `all` is all of them. Those that every image has are none to add.
///
/// # Errors
/// The first name that is not a language, with the names of all languages.
pub fn languages<'t>(names: impl IntoIterator<Item = &'t str>) -> Result<Vec<Language>, String> {
    let mut found = Vec::new();
    for name in names {
        let plain = name.trim().to_ascii_lowercase();
        if plain == "all" {
            found.extend(Language::all());
        } else if !ALWAYS.contains(&plain.as_str()) {
            let named =
                OTHER_NAMES.iter().find(|(other, _)| *other == plain).map_or(plain.as_str(), |pair| pair.1);
            let known = NAMES.into_iter().find(|known| *known == named).ok_or_else(|| {
                let shown = belljar_base::text::inert_excerpt(name, 40);
                format!("there is no language {shown:?} to add; there is {}, or all", NAMES.join(", "))
            })?;
            found.push(Language(known));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_have_their_usual_names_and_others_are_refused() {
        let named = |names: &[&str]| {
            languages(names.iter().copied())
                .map(|found| found.into_iter().map(Language::as_str).collect::<Vec<_>>())
        };
        assert_eq!(named(&["Ruby", "cpp", "node", "ruby"]), Ok(vec!["c++", "javascript", "ruby"]));
        assert_eq!(named(&["all", "c"]), Ok(NAMES.to_vec()));
        assert_eq!(named(&["python", "bash"]), Ok(vec![]));
        let refused = named(&["cob\u{1b}ol"]).unwrap_err();
        assert_eq!(
            refused,
            "there is no language \"cob\\\\x1bol\" to add; there is c, c++, javascript, php, ruby, or all"
        );
    }
}
