//! How deep a JSON text nests, found without parsing it.

/// Whether the JSON text opens more than `depth_max` arrays and objects inside each other.
///
/// Brackets in strings do not count. The text need not be valid; what is no JSON is the parser's business.
#[must_use]
pub fn depth_exceeds(json: &[u8], depth_max: usize) -> bool {
    let mut depth = 0_usize;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > depth_max {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    false
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_nesting_and_not_brackets_in_strings() {
        assert!(!depth_exceeds(br#"{"a":[1,[2]]}"#, 3));
        assert!(depth_exceeds(br#"{"a":[1,[2]]}"#, 2));
        assert!(!depth_exceeds(br#"["[[[\"[[["]"#, 1));
        assert!(depth_exceeds("[".repeat(100_000).as_bytes(), 130));
    }
}
