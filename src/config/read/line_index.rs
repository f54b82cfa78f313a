//! Finds the line and column of any byte of a text, quickly for large texts and many lookups.
//!
//! It keeps no copy of the text.

use belljar_base::problem::Position;

/// Distance of the stored positions, in bytes.
const STRIDE_BYTES: usize = 1024;

/// An index of the lines of a text.
pub(crate) struct LineIndex<'t> {
    text: &'t [u8],
    /// The positions of every `STRIDE_BYTES`-th byte.
    kept: Vec<Position>,
}

impl<'t> LineIndex<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut here = Position { line: 1, column: 1 };
        let kept = text.as_bytes().chunks(STRIDE_BYTES).map(|chunk| {
            let begin = here;
            chunk.iter().for_each(|byte| step(&mut here, *byte));
            begin
        });
        Self { text: text.as_bytes(), kept: kept.collect() }
    }

    /// The position of the byte. Behind the end of the text, it is the position of the end.
    pub(crate) fn position(&self, at: usize) -> Position {
        let at = at.min(self.text.len());
        let begin = (at / STRIDE_BYTES).min(self.kept.len().saturating_sub(1));
        let mut here = self.kept.get(begin).copied().unwrap_or(Position { line: 1, column: 1 });
        let rest = self.text.get(begin * STRIDE_BYTES..at).unwrap_or_default();
        rest.iter().for_each(|byte| step(&mut here, *byte));
        here
    }
}

fn step(here: &mut Position, byte: u8) {
    if byte == b'\n' {
        *here = Position { line: here.line + 1, column: 1 };
    } else if byte & 0xc0 != 0x80 {
        here.column += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_the_place_that_counting_finds() {
        let long = "ä".repeat(700);
        for text in ["", "a", "\n\n", "ä\r\nb", &format!("{long}\n{long}x\n\n{long}")] {
            let places = LineIndex::new(text);
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                assert_eq!(places.position(at), Position::of(text, at), "{at}");
            }
            assert_eq!(places.position(text.len() + 9), Position::of(text, text.len()));
        }
    }
}
