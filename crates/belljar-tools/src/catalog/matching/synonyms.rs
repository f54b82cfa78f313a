//! Words with nearly the same meaning in queries for tools. They are general words of computing and daily life: a list
//! that is fitted to known queries would not help with others.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use super::words::stem;

/// Groups of synonyms, one a line. A word may be in several groups. It stands for the words of its own groups, but not
/// for those of their other groups.
const GROUPS: &str = include_str!("synonyms.txt");

/// The stems that each stem may stand for.
static BY_STEM: LazyLock<HashMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let mut by_stem: HashMap<String, BTreeSet<String>> = HashMap::new();
    for group in GROUPS.lines() {
        let stems: BTreeSet<String> = group.split_whitespace().map(stem).collect();
        for own in &stems {
            by_stem
                .entry(own.clone())
                .or_default()
                .extend(stems.iter().filter(|other| *other != own).cloned());
        }
    }
    by_stem
});

/// The stems of the synonyms of the word with this stem.
pub(crate) fn synonyms(stem: &str) -> impl Iterator<Item = &str> {
    BY_STEM.get(stem).into_iter().flatten().map(String::as_str)
}

/// Whether a word with this stem is in the list.
pub(crate) fn is_known(stem: &str) -> bool {
    BY_STEM.contains_key(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_group_stand_for_each_other_and_no_further() {
        let of = |word: &str| synonyms(&stem(word)).map(str::to_owned).collect::<Vec<_>>();
        assert!(of("pictures").contains(&stem("photo")) && of("photo").contains(&stem("picture")));
        assert!(!of("picture").contains(&stem("picture")));
        assert_eq!(of("zebra"), Vec::<String>::new());
    }

    #[test]
    fn every_line_is_a_group_of_different_words_in_lower_case() {
        for group in GROUPS.lines() {
            let words: Vec<&str> = group.split_whitespace().collect();
            let stems: BTreeSet<String> = words.iter().map(|word| stem(word)).collect();
            assert!(stems.len() >= 2 && stems.len() == words.len(), "{group}");
            assert_eq!(group.to_lowercase(), group);
        }
    }
}
