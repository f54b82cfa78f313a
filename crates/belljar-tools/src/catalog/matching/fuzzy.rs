//! Finds the known words that a misspelt one may have been meant to be: words a few edits away, and longer words that
//! begin with it.
//!
//! It visits every word, but excludes most of them by their lengths and letters before it compares any spelling.

use super::postings::Postings;

/// How similar a known word must be to count as the correct spelling, from 0 to 1.
const LIKENESS_MIN: f64 = 0.7;
/// The similarity of a longer word that begins with the misspelt one.
const PREFIX_LIKENESS: f64 = 0.8;
/// The bonus for the same first letter, which is rarely mistyped.
const SAME_START: f64 = 0.05;
/// The largest number of edits: characters that are added, left out, replaced, or exchanged with their neighbour.
const EDITS_MAX: u32 = 3;
/// The shortest word that is compared, in characters; shorter words are similar to too many.
const CHARS_MIN: usize = 3;
/// The largest number of words that one may stand for.
const FOUND_MAX: usize = 4;

/// The shape of each word, by the word's number. Shapes are compared before the words themselves.
#[derive(Debug, Default)]
pub(crate) struct FuzzyWords(Vec<Shape>);

/// The length of a word, and its letters.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Two bits for each of 32 kinds of letters: whether the word has one, and whether it has a second one.
    letters: u64,
    chars: u32,
}

impl FuzzyWords {
    pub(crate) fn new(words: &Postings) -> Self {
        Self(words.words().iter().map(|word| Shape::of(word)).collect())
    }

    /// The numbers of the most similar words, at most four, each with its similarity from 0.7 to 1.
    pub(crate) fn of(&self, word: &str, words: &Postings) -> Vec<(usize, f32)> {
        let shape = Shape::of(word);
        if (shape.chars as usize) < CHARS_MIN {
            return Vec::new();
        }
        let longer = words.beginning_with(word);
        let mut found: Vec<(usize, f64)> =
            longer.clone().take(FOUND_MAX).map(|number| (number, PREFIX_LIKENESS)).collect();
        for (number, other) in self.0.iter().enumerate() {
            if shape.may_be(*other) && !longer.contains(&number) {
                let known = &words.words()[number];
                let likeness = strsim::normalized_damerau_levenshtein(word, known) + same_start(word, known);
                if likeness >= LIKENESS_MIN {
                    found.push((number, likeness));
                }
            }
        }
        found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        found.truncate(FOUND_MAX);
        found.into_iter().map(|(number, likeness)| (number, likeness.min(1.0) as f32)).collect()
    }

    /// Its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Shape>()
    }
}

impl Shape {
    fn of(word: &str) -> Self {
        let mut shape = Self { letters: 0, chars: 0 };
        for character in word.chars() {
            let once = 1_u64 << (2 * (u32::from(character) % 32));
            shape.letters |= if shape.letters & once == 0 { once } else { once << 1 };
            shape.chars += 1;
        }
        shape
    }

    /// Whether the words may be within `EDITS_MAX` edits of each other. Each edit adds and removes at most one letter,
    /// so words that differ in more letters are never compared.
    fn may_be(self, other: Self) -> bool {
        let longest = f64::from(self.chars.max(other.chars));
        let edits = (((1.0 - LIKENESS_MIN + SAME_START) * longest) as u32).min(EDITS_MAX);
        self.chars.abs_diff(other.chars) <= edits
            && (self.letters & !other.letters).count_ones() <= edits
            && (other.letters & !self.letters).count_ones() <= edits
    }
}

fn same_start(one: &str, other: &str) -> f64 {
    if one.chars().next() == other.chars().next() { SAME_START } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::postings::Posting;
    use super::*;

    fn known(words: &[&str]) -> Postings {
        let place = vec![Posting { tool: 0, count: 1.0 }];
        Postings::new(words.iter().map(|word| ((*word).to_owned(), place.clone())).collect())
    }

    fn found(word: &str, among: &[&str]) -> Vec<String> {
        let words = known(among);
        let numbers = FuzzyWords::new(&words).of(word, &words);
        numbers.into_iter().map(|(number, _)| words.words()[number].to_string()).collect()
    }

    #[test]
    fn every_kind_of_slip_is_seen_through() {
        let among = ["calendar", "branch", "message", "repository", "deploy", "issu"];
        for (slip, meant) in [
            ("calandar", "calendar"),
            ("branhc", "branch"),
            ("mesage", "message"),
            ("respository", "repository"),
            ("deploi", "deploy"),
            ("kalendar", "calendar"),
            ("repo", "repository"),
        ] {
            assert_eq!(found(slip, &among), [meant], "{slip}");
        }
        assert_eq!(found("giraffe", &among), [""; 0]);
        assert_eq!(found("de", &among), [""; 0]);
    }

    #[test]
    fn the_nearest_come_first_and_are_few() {
        let among = ["test", "tests", "text", "teat", "tent", "best"];
        assert_eq!(found("tesst", &among), ["test", "tests"]);
        assert_eq!(found("tet", &among), ["teat", "tent", "test", "text"]);
    }

    proptest! {
        /// A word that is not compared would not have been similar enough.
        #[test]
        fn nothing_within_the_edits_is_overlooked(word in "[a-f]{3,9}", edits in prop::collection::vec((0_usize..9, 0_u8..4, "[a-f]"), 1..4)) {
            let mut other: Vec<char> = word.chars().collect();
            for (at, kind, letter) in edits {
                let at = at % other.len();
                match kind {
                    0 => other.insert(at, letter.chars().next().unwrap()),
                    1 if other.len() > 3 => {
                        other.remove(at);
                    }
                    2 if at + 1 < other.len() => other.swap(at, at + 1),
                    _ => other[at] = letter.chars().next().unwrap(),
                }
            }
            let other: String = other.into_iter().collect();
            let likeness = strsim::normalized_damerau_levenshtein(&word, &other) + same_start(&word, &other);
            prop_assert!(likeness < LIKENESS_MIN || Shape::of(&word).may_be(Shape::of(&other)), "{word} {other}");
        }
    }
}
