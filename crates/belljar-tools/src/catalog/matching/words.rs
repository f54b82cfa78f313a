//! Splits identifiers and sentences into words, and reduces words to stems.
//!
//! It knows English endings only; words of other languages are compared as they are.

const STOP_WORDS: [&str; 111] = [
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "did", "do", "does", "doing", "e", "eg", "else", "ever", "for", "from", "g", "got",
    "had", "has", "have", "he", "her", "here", "him", "his", "how", "i", "ie", "if", "in", "into", "is",
    "it", "its", "just", "many", "may", "me", "might", "much", "must", "my", "need", "no", "not", "now",
    "of", "on", "only", "or", "our", "out", "over", "please", "same", "say", "says", "she", "should", "so",
    "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "to", "too", "up", "us", "use", "used", "using", "very", "via", "want", "was", "we", "well",
    "were", "what", "when", "where", "which", "who", "whose", "will", "with", "would", "yet", "you", "your",
];
/// The longest word that counts, in characters; longer texts are no words.
const WORD_CHARS_MAX: usize = 40;

/// The words of a text in order. The text is split at every character that is no letter or digit, and inside
/// `camelCase` and `HTTPServer`.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let characters: Vec<char> = text.chars().collect();
    for (index, &character) in characters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| characters[before]);
        let after = characters.get(index + 1);
        let begins = character.is_uppercase()
            && (before.is_some_and(|c| c.is_lowercase() || c.is_ascii_digit())
                || (before.is_some_and(char::is_uppercase) && after.is_some_and(|c| c.is_lowercase())));
        if !character.is_alphanumeric() || begins || stands_alone(character) {
            finish(&mut word, &mut words);
        }
        if stands_alone(character) {
            words.push(character.to_string());
        } else if character.is_alphanumeric() && word.len() < WORD_CHARS_MAX {
            word.extend(character.to_lowercase());
        }
    }
    finish(&mut word, &mut words);
    words
}

/// Whether a word tells nothing about a tool.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// The word without its most common English endings, so that "listing issues", "lists" and "list issue" match.
pub(crate) fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
    }
    let singular = match word {
        _ if word.ends_with("ies") && word.len() > 4 => format!("{}y", &word[..word.len() - 3]),
        _ if ["sses", "ches", "shes", "xes", "zes"].iter().any(|end| word.ends_with(end)) => {
            word[..word.len() - 2].to_owned()
        }
        _ if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) => {
            word[..word.len() - 1].to_owned()
        }
        _ => word.to_owned(),
    };
    let base = ["ing", "ed"]
        .iter()
        .find_map(|end| {
            singular
                .strip_suffix(end)
                .filter(|base| base.len() >= 3 && base.contains(['a', 'e', 'i', 'o', 'u', 'y']))
        })
        .unwrap_or(&singular);
    let bytes = base.as_bytes();
    match bytes {
        [.., one, other] if one == other && base.len() < singular.len() && !b"aeiouls".contains(one) => {
            &base[..base.len() - 1]
        }
        [.., b'e'] if base.len() > 3 => &base[..base.len() - 1],
        _ => base,
    }
    .to_owned()
}

fn finish(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

/// Whether a character counts as a word of its own. Chinese and Japanese are written without spaces, and Korean words
/// have attached particles.
fn stands_alone(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_every_style_have_the_same_words() {
        for style in [
            "listPullRequests",
            "list_pull_requests",
            "list-pull-requests",
            "ListPullRequests",
            "list pull.requests",
        ] {
            assert_eq!(words(style), ["list", "pull", "requests"]);
        }
        assert_eq!(words("HTTPServer2Get s3 日本"), ["http", "server2", "get", "s3", "日", "本"]);
    }

    #[test]
    fn forms_of_one_word_meet() {
        for forms in [
            &["create", "creates", "created", "creating"][..],
            &["list", "lists", "listing", "listed"],
            &["query", "queries"],
            &["branch", "branches"],
            &["get", "getting"],
            &["file", "files"],
            &["delete", "deleting"],
            &["call", "calls", "calling"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.iter().all(|other| *other == stems[0]), "{stems:?}");
        }
        assert_eq!(stem("status"), "status");
        assert_eq!(stem("class"), "class");
    }
}
