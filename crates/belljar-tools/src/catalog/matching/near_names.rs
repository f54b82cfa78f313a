//! Finds the names that a wrong one may have been meant to be.
//!
//! It decides nothing: the names are suggestions.

use belljar_base::text::suggest;

use super::synonyms::{is_known, synonyms};
use super::words::{stem, words};

const NEAR_COUNT: usize = 3;
/// The largest number of known names that one is compared with.
const COMPARED_MAX: usize = 2_000;
/// Longest name whose words are looked up, in bytes: code chooses the name.
const ASKED_BYTES_MAX: usize = 128;
const ABBREVIATION_BYTES_MIN: usize = 3;

/// The names that are similar to `asked`, the most similar first. If none is, those that mean nearly the same.
pub(crate) fn near<'n>(asked: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let names: Vec<&str> = names.take(COMPARED_MAX).collect();
    let near = suggest::ranked(asked, names.iter().copied()).into_iter().map(|(_, name)| name);
    let near: Vec<&str> = near.filter(|name| may_mean(asked, name)).take(NEAR_COUNT).collect();
    if !near.is_empty() || asked.len() > ASKED_BYTES_MAX {
        return near.into_iter().map(str::to_owned).collect();
    }
    names.into_iter().filter(|name| means_the_same(asked, name)).take(NEAR_COUNT).map(str::to_owned).collect()
}

/// Whether one name says all that the other one does, perhaps in synonyms, such as `end` and `end_date`, or begins with
/// the same verb and goes on with a word of its server's own, such as `create_issue` and `new_item`.
fn means_the_same(asked: &str, name: &str) -> bool {
    let stems = |name: &str| words(name).iter().map(|word| stem(word)).collect::<Vec<_>>();
    let (asked, name) = (stems(asked), stems(name));
    let has = |others: &[String], word: &str| {
        others.iter().any(|other| other == word)
            || synonyms(word).any(|same| others.iter().any(|other| other == same))
    };
    let ([verb, _, ..], [own_verb, rest @ ..]) = (asked.as_slice(), name.as_slice()) else {
        return !asked.is_empty() && asked.iter().all(|word| has(&name, word));
    };
    asked.iter().all(|word| has(&name, word))
        || name.iter().all(|word| has(&asked, word))
        || (synonyms(verb).any(|same| same == own_verb)
            && !rest.is_empty()
            && !rest.iter().any(|word| is_known(word)))
}

/// Whether the words in which two names differ may stand for each other: one is a misspelling, an abbreviation or a
/// synonym of the other.
fn may_mean(asked: &str, name: &str) -> bool {
    let stems = |name: &str| words(name).iter().map(|word| stem(word)).collect::<Vec<_>>();
    let (asked, name) = (stems(asked), stems(name));
    let only = |one: &[String], other: &[String]| {
        one.iter().filter(|word| !other.contains(word)).cloned().collect::<Vec<_>>()
    };
    let (asked, name) = (only(&asked, &name), only(&name, &asked));
    match (asked.as_slice(), name.as_slice()) {
        ([], _) | (_, []) => true,
        ([one], [other]) if is_abbreviation(one, other) || is_abbreviation(other, one) => true,
        ([one], [other]) if is_known(one) && is_known(other) => synonyms(one).any(|word| word == other),
        (one, other) => suggest::is_like(&one.concat(), &other.concat()),
    }
}

/// Whether the word is the beginning of the other one, such as "dir" of "directory".
fn is_abbreviation(word: &str, other: &str) -> bool {
    word.len() >= ABBREVIATION_BYTES_MIN && other.starts_with(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_unless_a_word_of_it_means_something_else() {
        let names = [
            "edit_file",
            "write_file",
            "read_file",
            "list_issues",
            "list_directory",
            "create_issue",
            "send_email",
            "echo",
        ];
        let of = |asked: &str| near(asked, names.into_iter());
        assert_eq!(of("delete_file"), Vec::<String>::new());
        assert_eq!(of("update_issue"), Vec::<String>::new());
        assert_eq!(of("wirte_file"), ["write_file"]);
        assert_eq!(of("read_fil"), ["read_file"]);
        assert_eq!(of("list_dir"), ["list_directory"]);
        assert_eq!(of("readfile"), ["read_file"]);
        assert_eq!(of("listIssue"), ["list_issues"]);
        assert_eq!(of("send_mail"), ["send_email"]);
        assert_eq!(of("create_issue_now"), ["create_issue"]);
        assert_eq!(of("ecko"), ["echo"]);
        let of = |asked: &str| near(asked, ["new_item", "end_date", "remove_item", "get_all"].into_iter());
        assert_eq!(of("create_issue"), ["new_item"]);
        assert_eq!(of("end"), ["end_date"]);
        assert_eq!(of("delete_issue"), ["remove_item"]);
        assert_eq!(of("start"), Vec::<String>::new());
    }
}
