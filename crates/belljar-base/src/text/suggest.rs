//! Suggests the known name that a mistyped one most likely stands for.
//!
//! Names are compared by their letters and digits, without case: `perPage` and `per_page` are the same name.

/// Likeness above which a name is suggested, from 0 to 1.
const ALIKE_ABOVE: f64 = 0.5;
/// Longest name that is compared, in characters: the time grows with the product of both lengths, and code chooses the name.
/// While a name of 2 MB was compared, the bridge stood still and lost its sandbox.
const CHARS_MAX: usize = 64;

/// How alike two names are, from 0 to 1; 0 if one of them is too long to compare.
#[must_use]
pub fn likeness(one: &str, other: &str) -> f64 {
    let (one, other) = (folded(one), folded(other));
    let (shorter, longer) = (one.len().min(other.len()), one.len().max(other.len()));
    // Each letter more in one name is a difference.
    if shorter == 0 || 4 * shorter < longer {
        0.0
    } else {
        strsim::normalized_damerau_levenshtein(&one, &other)
    }
}

/// Whether one name may be a slip for the other.
#[must_use]
pub fn is_like(one: &str, other: &str) -> bool {
    likeness(one, other) > ALIKE_ABOVE
}

/// The known names that the name resembles, each with its likeness, the likest first.
#[must_use]
pub fn ranked<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<(f64, &'k str)> {
    let mut ranked: Vec<(f64, &str)> = known
        .into_iter()
        .map(|known| (likeness(name, known), known))
        .filter(|(likeness, _)| *likeness > ALIKE_ABOVE)
        .collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    ranked
}

/// The known name that the name resembles most.
#[must_use]
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    ranked(name, known).first().map(|(_, known)| *known)
}

/// The nearest name as a question, for example `did you mean "memory"?`.
#[must_use]
pub fn did_you_mean<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<String> {
    nearest(name, known).map(|near| format!("did you mean {near:?}?"))
}

fn folded(name: &str) -> String {
    if name.chars().nth(CHARS_MAX).is_some() {
        return String::new();
    }
    name.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_its_own_and_a_strange_one_none() {
        let known = ["memory", "pids", "pre_warm", "a-b"];
        assert_eq!(nearest("memroy", known), Some("memory"));
        assert_eq!(nearest("PreWarm", known), Some("pre_warm"));
        assert_eq!(nearest("AB", known), Some("a-b"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(did_you_mean("pid", known).as_deref(), Some("did you mean \"pids\"?"));
    }

    #[test]
    fn the_likest_name_is_first_and_equals_are_in_order() {
        let known = ["pagex", "page", "pages", "page1234"];
        assert_eq!(ranked("page", known), [(1.0, "page"), (0.8, "pages"), (0.8, "pagex")]);
    }

    #[test]
    fn long_names_and_names_without_letters_resemble_nothing() {
        assert_eq!(nearest(&"a".repeat(1 << 22), ["a"]), None);
        assert_eq!(nearest("aaa", [&*"a".repeat(65)]), None);
        assert_eq!(nearest("--", ["__", "--"]), None);
    }
}
