//! Keeps what a run writes: the head and the tail of each stream, in order, and the exact count of the rest.

use std::collections::VecDeque;

use crate::limits::Limits;
use crate::run::{Output, OutputPiece, OutputStream};

/// A bounded record of a run's output.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    head: Vec<Kept>,
    /// What came after the head was full; its oldest bytes give way.
    tail: VecDeque<Kept>,
    /// The stretch of one stream that is being written.
    stretch: (u64, Option<OutputStream>),
    stdout: Counts,
    stderr: Counts,
    head_bytes_max: usize,
    tail_bytes_max: usize,
}

#[derive(Debug)]
struct Kept {
    stream: OutputStream,
    /// Tells in which order the pieces of both streams came, whichever of them were kept as head or as tail.
    stretch: u64,
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Counts {
    head_bytes: usize,
    tail_bytes: usize,
    cut_bytes: u64,
}

impl OutputBuffer {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            stretch: (0, None),
            stdout: Counts::default(),
            stderr: Counts::default(),
            head_bytes_max: limits.output_head_bytes_max,
            tail_bytes_max: limits.output_tail_bytes_max,
        }
    }

    /// Takes bytes in; holds at most head and tail of each stream.
    pub(super) fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        if self.stretch.1 != Some(stream) {
            self.stretch = (self.stretch.0 + 1, Some(stream));
        }
        let stretch = self.stretch.0;
        let head_bytes_max = self.head_bytes_max;
        let counts = self.counts(stream);
        let room = if counts.tail_bytes > 0 || counts.cut_bytes > 0 {
            0
        } else {
            (head_bytes_max - counts.head_bytes).min(bytes.len())
        };
        // A character is not torn between head and tail.
        let room = if room < bytes.len() { character_boundary(bytes, room) } else { room };
        let (head, rest) = bytes.split_at(room);
        counts.head_bytes += head.len();
        counts.tail_bytes += rest.len();
        if !head.is_empty() {
            match self.head.last_mut() {
                Some(last) if last.stretch == stretch => last.bytes.extend_from_slice(head),
                _ => self.head.push(Kept { stream, stretch, bytes: head.to_vec() }),
            }
        }
        if !rest.is_empty() {
            match self.tail.back_mut() {
                Some(last) if last.stretch == stretch && last.bytes.len() < 8192 => {
                    last.bytes.extend_from_slice(rest);
                }
                _ => self.tail.push_back(Kept { stream, stretch, bytes: rest.to_vec() }),
            }
            self.shed(stream);
        }
    }

    /// The record as text.
    pub(super) fn finish(mut self) -> Output {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            self.trim_exactly(stream);
        }
        let mut all: Vec<Kept> = self.head.into_iter().chain(self.tail).collect();
        all.sort_by_key(|kept| kept.stretch);
        let mut pieces: Vec<(OutputStream, Vec<u8>)> = Vec::new();
        for Kept { stream, bytes, .. } in all {
            match pieces.last_mut() {
                Some((last, kept)) if *last == stream => kept.extend_from_slice(&bytes),
                _ => pieces.push((stream, bytes)),
            }
        }
        Output {
            pieces: pieces
                .into_iter()
                .map(|(stream, bytes)| OutputPiece { stream, text: text(&bytes) })
                .collect(),
            stdout_cut_bytes: self.stdout.cut_bytes,
            stderr_cut_bytes: self.stderr.cut_bytes,
        }
    }

    fn counts(&mut self, stream: OutputStream) -> &mut Counts {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }

    /// Lets whole chunks go while the tail holds more than it must.
    fn shed(&mut self, stream: OutputStream) {
        let tail_bytes_max = self.tail_bytes_max;
        while self.counts(stream).tail_bytes > tail_bytes_max {
            let Some(at) = self.tail.iter().position(|kept| kept.stream == stream) else { return };
            let oldest = self.tail[at].bytes.len();
            if self.counts(stream).tail_bytes - oldest < tail_bytes_max {
                return;
            }
            self.tail.remove(at);
            let counts = self.counts(stream);
            counts.tail_bytes -= oldest;
            counts.cut_bytes += oldest as u64;
        }
    }

    fn trim_exactly(&mut self, stream: OutputStream) {
        let excess = self.counts(stream).tail_bytes.saturating_sub(self.tail_bytes_max);
        let Some(Kept { bytes: oldest, .. }) = self.tail.iter_mut().find(|kept| kept.stream == stream) else {
            return;
        };
        if excess == 0 {
            return;
        }
        let cut = (excess..oldest.len().min(excess + 4))
            .find(|&at| oldest[at] & 0xC0 != 0x80)
            .unwrap_or(excess)
            .min(oldest.len());
        oldest.drain(..cut);
        let counts = self.counts(stream);
        counts.tail_bytes -= cut;
        counts.cut_bytes += cut as u64;
    }
}

/// The last boundary of a character at or before `at`, looking back no further than a character is long.
fn character_boundary(bytes: &[u8], at: usize) -> usize {
    (at.saturating_sub(3)..=at).rev().find(|&at| bytes[at] & 0xC0 != 0x80).unwrap_or(at)
}

/// UTF-8 as it is, other bytes as `\xNN`.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use OutputStream::{Stderr, Stdout};

    fn buffer(head: usize, tail: usize) -> OutputBuffer {
        OutputBuffer::new(&Limits {
            output_head_bytes_max: head,
            output_tail_bytes_max: tail,
            ..Limits::default()
        })
    }

    fn pieces(output: &Output) -> Vec<(OutputStream, &str)> {
        output.pieces.iter().map(|piece| (piece.stream, piece.text.as_str())).collect()
    }

    #[test]
    fn order_is_kept_and_bytes_that_are_no_utf8_are_shown() {
        let mut buffer = buffer(100, 100);
        buffer.push(Stdout, b"a");
        buffer.push(Stdout, b"b\xff");
        buffer.push(Stderr, "é".as_bytes());
        buffer.push(Stdout, b"c");
        let output = buffer.finish();
        assert_eq!(pieces(&output), [(Stdout, "ab\\xff"), (Stderr, "é"), (Stdout, "c")]);
    }

    #[test]
    fn a_character_split_over_two_frames_is_whole_again() {
        let mut buffer = buffer(100, 100);
        let euro = "€".as_bytes();
        buffer.push(Stdout, &euro[..1]);
        buffer.push(Stdout, &euro[1..]);
        assert_eq!(pieces(&buffer.finish()), [(Stdout, "€")]);
    }

    #[test]
    fn a_flood_keeps_head_tail_and_the_exact_count() {
        let mut buffer = buffer(10, 5);
        for _ in 0..1000 {
            buffer.push(Stdout, b"0123456789");
        }
        let output = buffer.finish();
        assert_eq!(pieces(&output), [(Stdout, "012345678956789")]);
        assert_eq!(output.stdout_cut_bytes, 10_000 - 15);
    }

    #[test]
    fn the_end_of_one_stream_stands_before_the_beginning_of_another_that_came_later() {
        let mut buffer = buffer(4, 4);
        buffer.push(Stdout, b"0123");
        buffer.push(Stdout, b"456789");
        buffer.push(Stderr, b"late");
        buffer.push(Stdout, b"!");
        let output = buffer.finish();
        assert_eq!(pieces(&output), [(Stdout, "0123789"), (Stderr, "late"), (Stdout, "!")]);
        assert_eq!(output.stdout_cut_bytes, 3);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_uncounted(chunks in proptest::collection::vec((any::<bool>(), "[a-z]{0,40}"), 0..60)) {
            let mut buffer = buffer(50, 30);
            let mut written = [String::new(), String::new()];
            for (err, text) in &chunks {
                buffer.push(if *err { Stderr } else { Stdout }, text.as_bytes());
                written[usize::from(*err)].push_str(text);
            }
            let output = buffer.finish();
            for (stream, cut, whole) in
                [(Stdout, output.stdout_cut_bytes, &written[0]), (Stderr, output.stderr_cut_bytes, &written[1])]
            {
                let kept: String = output.pieces.iter().filter(|p| p.stream == stream).map(|p| p.text.as_str()).collect();
                prop_assert_eq!(kept.len() as u64 + cut, whole.len() as u64);
                if cut == 0 {
                    prop_assert_eq!(&kept, whole);
                } else {
                    prop_assert_eq!(&kept[..50], &whole[..50]);
                    prop_assert_eq!(&kept[50..], &whole[whole.len() - 30..]);
                }
            }
        }
    }
}
