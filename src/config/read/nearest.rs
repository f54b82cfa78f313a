//! The known word that a misspelt one most likely stands for.
//!
//! It decides nothing: the word is said to the operator.

/// How alike two words must be, from 0 to 1.
const LIKENESS_MIN: f64 = 0.6;

/// Longer words are no slips.
const WORD_BYTES_MAX: usize = 64;

/// The most alike of the known words, or none that is alike at all.
#[must_use]
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = word.to_lowercase();
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(&word, known);
    let alike = known.into_iter().map(|known| (likeness(known), known));
    let best = alike.filter(|(likeness, _)| *likeness >= LIKENESS_MIN);
    best.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_own_and_a_strange_one_none() {
        let known = ["memory", "pids", "prewarm"];
        assert_eq!(nearest("memroy", known), Some("memory"));
        assert_eq!(nearest("PreWarm", known), Some("prewarm"));
        assert_eq!(nearest("colour", known), None);
    }
}
