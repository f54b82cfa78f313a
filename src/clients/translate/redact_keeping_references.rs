//! Hides parts of a text, but not the references in it: they are no secrets, and show which secret is used where.
//!
//! The caller decides which parts are hidden.

/// The first character that stands for a reference. It is in Unicode's private use area, so that no rule about words
/// matches it.
const FIRST_MARK: u32 = 0xf_0000;
/// The largest number of references of a text that are kept; further ones are hidden like other text.
const REFERENCES_MAX: usize = 1_000;

/// Applies `hide` to the text and keeps its references. References in hidden parts are appended.
pub(super) fn around_references(text: &str, hide: impl Fn(&str) -> String) -> String {
    let (shown, hidden) = split(text, hide);
    if hidden.is_empty() { shown } else { format!("{shown} with {}", hidden.join(" and ")) }
}

/// The part of the text that `part` returns, with the references in it. `part` does not see their text.
pub(crate) fn part_with_references(text: &str, part: impl Fn(&str) -> String) -> String {
    split(text, part).0
}

/// The text after `hide`, and the references that it has removed.
fn split(text: &str, hide: impl Fn(&str) -> String) -> (String, Vec<String>) {
    let mut bare: String =
        text.chars().map(|c| if is_mark(c) { char::REPLACEMENT_CHARACTER } else { c }).collect();
    let marks = (FIRST_MARK..).filter_map(char::from_u32).map(String::from);
    let marked: Vec<(&str, String)> = references(text).into_iter().zip(marks).collect();
    for (reference, mark) in &marked {
        bare = bare.replacen(reference, mark, 1);
    }
    let mut shown = hide(&bare);
    let mut hidden = Vec::new();
    for (reference, mark) in &marked {
        let reference = shown_reference(reference);
        if shown.contains(mark) {
            shown = shown.replace(mark, &reference);
        } else if !hidden.contains(&reference) {
            hidden.push(reference);
        }
    }
    (shown, hidden)
}

/// A reference without its default, which may be a secret.
pub(crate) fn shown_reference(reference: &str) -> String {
    match reference.split_once(":-") {
        Some((name, default)) if default != "}" => format!("{name}:-…}}"),
        _ => reference.to_owned(),
    }
}

/// The references in a text in belljar's syntax, in their order.
pub(crate) fn references(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(dollar) = text[from..].find("${").map(|at| from + at)
        && found.len() < REFERENCES_MAX
    {
        let end = text[dollar..].find('}').map(|end| dollar + end + 1);
        match end {
            Some(end) if !text[..dollar].ends_with('$') => {
                found.push(&text[dollar..end]);
                from = end;
            }
            _ => from = dollar + 2,
        }
    }
    found
}

fn is_mark(character: char) -> bool {
    u32::from(character) >= FIRST_MARK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_stay_where_they_are_or_are_named_when_they_are_hidden() {
        let all = |_: &str| "…".to_owned();
        assert_eq!(around_references("s3cret", all), "…");
        assert_eq!(around_references("s3cret ${A}/${file:~/k}", all), "… with ${A} and ${file:~/k}");
        let as_it_is = |text: &str| text.to_owned();
        assert_eq!(around_references("${A:-s3cret}${B:-}", as_it_is), "${A:-…}${B:-}");
        for text in ["${A}${A}", "$${A} ${B", "a ${file:x:y} b", "$${${A}"] {
            assert_eq!(around_references(text, as_it_is), text);
        }
        let first = |text: &str| text.split('?').next().unwrap().to_owned();
        assert_eq!(around_references("${H}/x?k=${K}&k=${K}", first), "${H}/x with ${K}");
        assert_eq!(part_with_references("${H}/x?k=${K}", first), "${H}/x");
        let forged = format!("${{A}}{}", char::from_u32(FIRST_MARK).unwrap());
        assert_eq!(around_references(&forged, as_it_is), "${A}\u{fffd}");
    }

    #[test]
    fn only_references_are_found() {
        assert_eq!(references("${A} $${B} ${cmd:a b} ${"), ["${A}", "${cmd:a b}"]);
    }
}
