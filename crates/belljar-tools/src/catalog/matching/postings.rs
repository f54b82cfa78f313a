//! For each word, the tools that have it and how much it counts in each. The words are sorted, and one list has the
//! postings of all words.
//!
//! It knows no ranking and no tools, only their numbers.

use std::collections::HashMap;
use std::ops::Range;

/// One tool that has a word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Posting {
    /// The tool's number.
    pub(crate) tool: u32,
    /// The weighted count of the word in that tool; above 0.
    pub(crate) count: f32,
}

/// The tools of each word. Words are numbered in their order from 0.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    /// The words, sorted, each once.
    words: Vec<Box<str>>,
    /// The end of each word's part of `places`.
    ends: Vec<usize>,
    /// The postings of the first word, then those of the second, and so on. Those of one word are sorted by tool
    /// number.
    places: Vec<Posting>,
}

impl Postings {
    /// Makes postings from those of each word, which must be sorted by tool number.
    pub(crate) fn new(by_word: HashMap<String, Vec<Posting>>) -> Self {
        let mut sorted: Vec<(String, Vec<Posting>)> = by_word.into_iter().collect();
        sorted.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut postings = Self {
            words: Vec::with_capacity(sorted.len()),
            ends: Vec::with_capacity(sorted.len()),
            places: Vec::with_capacity(sorted.iter().map(|(_, places)| places.len()).sum()),
        };
        for (word, places) in sorted {
            postings.words.push(word.into());
            postings.places.extend(places);
            postings.ends.push(postings.places.len());
        }
        postings
    }

    /// Merges postings. The number beside each part is added to its tool numbers; the numbers must grow from part to
    /// part.
    pub(crate) fn merged(parts: &[(u32, &Self)]) -> Self {
        let mut found: HashMap<&str, usize> = HashMap::new();
        let mut sizes: Vec<(&str, usize)> = Vec::new();
        // The position in `sizes` of each word of each part, so that each word is looked up only once.
        let mut slots: Vec<usize> = Vec::new();
        for (_, part) in parts {
            for number in 0..part.words.len() {
                let word = &*part.words[number];
                let slot = *found.entry(word).or_insert_with(|| {
                    sizes.push((word, 0));
                    sizes.len() - 1
                });
                sizes[slot].1 += part.range(number).len();
                slots.push(slot);
            }
        }
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_unstable_by_key(|slot| sizes[*slot].0);
        let mut nexts = vec![0; sizes.len()];
        let (mut words, mut ends, mut end) =
            (Vec::with_capacity(order.len()), Vec::with_capacity(order.len()), 0);
        for slot in order {
            let (word, size) = sizes[slot];
            nexts[slot] = end;
            end += size;
            words.push(word.into());
            ends.push(end);
        }
        let mut places = vec![Posting { tool: 0, count: 0.0 }; end];
        let mut slots = slots.into_iter();
        for (first, part) in parts {
            for (number, slot) in (0..part.words.len()).zip(&mut slots) {
                for place in &part.places[part.range(number)] {
                    places[nexts[slot]] = Posting { tool: first + place.tool, count: place.count };
                    nexts[slot] += 1;
                }
            }
        }
        Self { words, ends, places }
    }

    /// All words, sorted.
    pub(crate) fn words(&self) -> &[Box<str>] {
        &self.words
    }

    /// The number of a word; `None`: no tool has it.
    pub(crate) fn number(&self, word: &str) -> Option<usize> {
        self.words.binary_search_by(|known| (**known).cmp(word)).ok()
    }

    /// The numbers of the words that begin with `start`.
    pub(super) fn beginning_with(&self, start: &str) -> Range<usize> {
        let first = self.words.partition_point(|word| **word < *start);
        let count = self.words[first..].partition_point(|word| word.starts_with(start));
        first..first + count
    }

    /// The tools that have the word with this number.
    pub(crate) fn places(&self, number: usize) -> &[Posting] {
        &self.places[self.range(number)]
    }

    /// Its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.words.iter().map(|word| size_of::<Box<str>>() + word.len()).sum();
        texts + self.ends.capacity() * size_of::<usize>() + self.places.capacity() * size_of::<Posting>()
    }

    fn range(&self, number: usize) -> Range<usize> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        start..self.ends[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postings(words: &[(&str, &[(u32, f32)])]) -> Postings {
        let places = |places: &[(u32, f32)]| {
            places.iter().map(|(tool, count)| Posting { tool: *tool, count: *count }).collect()
        };
        Postings::new(words.iter().map(|(word, found)| ((*word).to_owned(), places(found))).collect())
    }

    fn shown(postings: &Postings) -> Vec<String> {
        let line = |number: usize| {
            let places =
                postings.places(number).iter().map(|place| format!(" {}:{}", place.tool, place.count));
            format!("{}{}", postings.words()[number], places.collect::<String>())
        };
        (0..postings.words().len()).map(line).collect()
    }

    #[test]
    fn parts_merge_as_if_they_had_been_one() {
        let one = postings(&[("list", &[(0, 1.0), (2, 0.5)]), ("issue", &[(1, 2.0)])]);
        let other = postings(&[("list", &[(0, 3.0)]), ("zebra", &[(1, 1.5)]), ("a", &[(0, 0.25)])]);
        let merged = Postings::merged(&[(0, &one), (3, &postings(&[])), (3, &other)]);
        assert_eq!(shown(&merged), ["a 3:0.25", "issue 1:2", "list 0:1 2:0.5 3:3", "zebra 4:1.5"]);
        assert_eq!(shown(&Postings::merged(&[])), [""; 0]);
    }

    #[test]
    fn words_are_found_by_themselves_and_by_their_beginning() {
        let some = postings(&[("is", &[]), ("issue", &[]), ("issuer", &[]), ("it", &[])]);
        assert_eq!((some.number("issue"), some.number("issu"), some.number("zz")), (Some(1), None, None));
        assert_eq!(some.beginning_with("issu"), 1..3);
        assert_eq!(some.beginning_with("iss"), 1..3);
        assert_eq!(some.beginning_with("zz"), 4..4);
        assert_eq!(some.beginning_with("a"), 0..0);
    }
}
