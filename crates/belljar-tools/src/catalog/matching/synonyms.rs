//! Words with nearly the same meaning in queries for tools. They are general words of computing and daily life: a list
//! that is fitted to known queries would not help with others.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use super::words::stem;

/// Groups of synonyms, one a line. A word may be in several groups. It stands for the words of its own groups, but not
/// for those of their other groups. If a line has a colon, only the first word stands for the others. `get_rid` stands
/// for a verb and a word that follows it, perhaps after others, as in "put the file away".
const GROUPS: &str = include_str!("synonyms.txt");

/// The stems that each stem may stand for.
static BY_STEM: LazyLock<HashMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let mut by_stem: HashMap<String, BTreeSet<String>> = HashMap::new();
    for group in GROUPS.lines() {
        let stems: Vec<String> = group.replace(':', "").split_whitespace().map(entry).collect();
        let heads = if group.contains(':') { 1 } else { stems.len() };
        for own in &stems[..heads] {
            by_stem
                .entry(own.clone())
                .or_default()
                .extend(stems.iter().filter(|other| *other != own).cloned());
        }
    }
    by_stem
});

/// The stem of a word of a group. Of two words, the first one is stemmed.
fn entry(word: &str) -> String {
    word.split_once('_').map_or_else(|| stem(word), |(verb, rest)| phrase(verb, rest))
}

/// A verb and a word that follows it, as one word of a group.
pub(crate) fn phrase(verb: &str, rest: &str) -> String {
    format!("{}_{rest}", stem(verb))
}

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
        assert!(of("dollar").contains(&stem("currency")) && !of("currency").contains(&stem("dollar")));
        assert!(synonyms(&phrase("getting", "rid")).any(|word| word == stem("delete")));
    }

    #[test]
    fn every_line_is_a_group_of_different_words_in_lower_case() {
        for group in GROUPS.lines() {
            let words: Vec<&str> = group.split(&[' ', ':'][..]).filter(|word| !word.is_empty()).collect();
            let stems: BTreeSet<String> = words.iter().map(|word| stem(word)).collect();
            assert!(stems.len() >= 2 && stems.len() == words.len(), "{group}");
            assert_eq!(group.to_lowercase(), group);
        }
    }
}
