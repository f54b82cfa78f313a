//! Keeps what a run writes: the head and the tail of each stream, in order, and the exact count of the rest.

use std::collections::VecDeque;

use belljar_base::limits::Limits;
use belljar_base::run::{Output, OutputCut, OutputPiece, OutputStream};

/// The largest number of pieces that are kept in the order of both streams. Further output joins the last piece of its
/// stream, so that streams that alternate byte by byte cost no more than others.
const PIECES_MAX: usize = 4096;
/// The size up to which a piece of the tail grows, in bytes; the tail drops whole pieces.
const TAIL_PIECE_BYTES: usize = 8192;

/// A bounded record of a run's output.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    /// The number of the stretch that is being written, and its stream.
    stretch: (u64, Option<OutputStream>),
    stdout: Stream,
    stderr: Stream,
    head_bytes_max: usize,
    tail_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Stream {
    head: Vec<OutputStretch>,
    /// The output after the head was full; its oldest bytes are dropped.
    tail: VecDeque<OutputStretch>,
    head_bytes: usize,
    tail_bytes: usize,
    cut_bytes: u64,
    cut_chars: u64,
}

/// A stretch: consecutive output of one stream, as far as it is in the buffer.
#[derive(Debug)]
struct OutputStretch {
    /// The number of the stretch, which gives the order of the pieces of both streams, in the head or in the tail.
    stretch: u64,
    bytes: Vec<u8>,
}

/// The numbers of bytes and of characters that were left out.
type OmittedCounts = (u64, u64);

impl OutputBuffer {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            stretch: (0, None),
            stdout: Stream::default(),
            stderr: Stream::default(),
            head_bytes_max: limits.output_head_bytes_max,
            tail_bytes_max: limits.output_tail_bytes_max,
        }
    }

    /// Adds bytes; keeps at most the head and the tail of each stream.
    pub(super) fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        if self.stretch.1 != Some(stream) {
            self.stretch = (self.stretch.0 + 1, Some(stream));
        }
        let stretch = self.stretch.0;
        let is_crowded = self.stdout.pieces() + self.stderr.pieces() >= PIECES_MAX;
        let (head_bytes_max, tail_bytes_max) = (self.head_bytes_max, self.tail_bytes_max);
        let stream = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let room = if stream.tail_bytes > 0 || stream.cut_bytes > 0 {
            0
        } else {
            (head_bytes_max - stream.head_bytes).min(bytes.len())
        };
        // A character is not split between head and tail.
        let room = if room < bytes.len() { character_boundary(bytes, room) } else { room };
        let (head, rest) = bytes.split_at(room);
        stream.head_bytes += head.len();
        stream.tail_bytes += rest.len();
        if !head.is_empty() {
            match stream.head.last_mut() {
                Some(last) if last.stretch == stretch || is_crowded => last.bytes.extend_from_slice(head),
                _ => stream.head.push(OutputStretch { stretch, bytes: head.to_vec() }),
            }
        }
        if !rest.is_empty() {
            match stream.tail.back_mut() {
                Some(last)
                    if (last.stretch == stretch || is_crowded) && last.bytes.len() < TAIL_PIECE_BYTES =>
                {
                    last.bytes.extend_from_slice(rest);
                }
                _ => stream.tail.push_back(OutputStretch { stretch, bytes: rest.to_vec() }),
            }
            stream.shed(tail_bytes_max);
        }
    }

    /// The record as text.
    pub(super) fn finish(mut self) -> Output {
        // Each stretch comes with the counts of what was omitted before it, in its stream.
        let mut all: Vec<(OutputStream, OutputStretch, Option<OmittedCounts>)> = Vec::new();
        for (name, stream) in
            [(OutputStream::Stdout, &mut self.stdout), (OutputStream::Stderr, &mut self.stderr)]
        {
            stream.trim_exactly(self.tail_bytes_max);
            let mut omitted = Some((stream.cut_bytes, stream.cut_chars)).filter(|(bytes, _)| *bytes > 0);
            if omitted.is_some() && stream.tail.is_empty() {
                stream.tail.push_back(OutputStretch { stretch: self.stretch.0, bytes: Vec::new() });
            }
            all.extend(stream.head.drain(..).map(|kept| (name, kept, None)));
            all.extend(stream.tail.drain(..).map(|kept| (name, kept, omitted.take())));
        }
        all.sort_by_key(|(_, kept, _)| kept.stretch);
        let mut pieces: Vec<(OutputStream, Vec<u8>)> = Vec::new();
        let mut output = Output::default();
        for (stream, OutputStretch { bytes, .. }, omitted) in all {
            match pieces.last_mut() {
                Some((last, before)) if *last == stream && omitted.is_none() => {
                    before.extend_from_slice(&bytes)
                }
                _ => pieces.push((stream, bytes)),
            }
            if let Some((bytes, chars)) = omitted {
                let cut = Some(OutputCut { before_piece: pieces.len() - 1, bytes, chars });
                match stream {
                    OutputStream::Stdout => output.stdout_cut = cut,
                    OutputStream::Stderr => output.stderr_cut = cut,
                }
            }
        }
        output.pieces =
            pieces.into_iter().map(|(stream, bytes)| OutputPiece { stream, text: text(&bytes) }).collect();
        output
    }
}

impl Stream {
    fn pieces(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Drops the oldest pieces as long as the others fill the tail.
    fn shed(&mut self, tail_bytes_max: usize) {
        while self.tail_bytes > tail_bytes_max {
            let Some(oldest) = self.tail.front() else { return };
            if self.tail_bytes - oldest.bytes.len() < tail_bytes_max {
                return;
            }
            self.tail_bytes -= oldest.bytes.len();
            self.cut_bytes += oldest.bytes.len() as u64;
            self.cut_chars += chars(&oldest.bytes);
            self.tail.pop_front();
        }
    }

    fn trim_exactly(&mut self, tail_bytes_max: usize) {
        let excess = self.tail_bytes.saturating_sub(tail_bytes_max);
        let Some(OutputStretch { bytes: oldest, .. }) = self.tail.front_mut() else { return };
        if excess == 0 {
            return;
        }
        let cut = (excess..oldest.len().min(excess + 4))
            .find(|&at| oldest[at] & 0xC0 != 0x80)
            .unwrap_or(excess)
            .min(oldest.len());
        self.cut_chars += chars(&oldest[..cut]);
        oldest.drain(..cut);
        self.tail_bytes -= cut;
        self.cut_bytes += cut as u64;
    }
}

/// The number of characters that begin in these bytes of UTF-8.
fn chars(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64
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
        assert_eq!(pieces(&output), [(Stdout, "0123456789"), (Stdout, "56789")]);
        let cut = OutputCut { before_piece: 1, bytes: 10_000 - 15, chars: 10_000 - 15 };
        assert_eq!((output.stdout_cut, output.stderr_cut), (Some(cut), None));
    }

    #[test]
    fn characters_that_are_not_kept_are_counted_once_each() {
        let mut buffer = buffer(4, 4);
        for _ in 0..5_000 {
            buffer.push(Stderr, "€€".as_bytes());
        }
        let output = buffer.finish();
        assert_eq!(pieces(&output), [(Stderr, "€"), (Stderr, "€")]);
        let cut = OutputCut { before_piece: 1, bytes: 30_000 - 6, chars: 10_000 - 2 };
        assert_eq!(output.stderr_cut, Some(cut));
    }

    #[test]
    fn a_stream_without_a_tail_is_cut_at_its_end() {
        let mut buffer = buffer(4, 0);
        buffer.push(Stdout, b"012345");
        let output = buffer.finish();
        assert_eq!(pieces(&output), [(Stdout, "0123"), (Stdout, "")]);
        assert_eq!(output.stdout_cut, Some(OutputCut { before_piece: 1, bytes: 2, chars: 2 }));
    }

    #[test]
    fn the_end_of_one_stream_stands_before_the_beginning_of_another_that_came_later() {
        let mut buffer = buffer(4, 4);
        buffer.push(Stdout, b"0123");
        buffer.push(Stdout, b"456789");
        buffer.push(Stderr, b"late");
        buffer.push(Stdout, b"!");
        let output = buffer.finish();
        assert_eq!(pieces(&output), [(Stdout, "0123"), (Stdout, "789"), (Stderr, "late"), (Stdout, "!")]);
        assert_eq!(output.stdout_cut, Some(OutputCut { before_piece: 1, bytes: 3, chars: 3 }));
    }

    #[test]
    fn alternating_bytes_make_a_bounded_number_of_pieces() {
        let mut buffer = buffer(64 << 10, 64 << 10);
        for number in 0..200_000_u32 {
            let digit = [b'0' + (number / 2 % 10) as u8];
            buffer.push(if number % 2 == 0 { Stdout } else { Stderr }, &digit);
        }
        let output = buffer.finish();
        assert!(output.pieces.len() <= PIECES_MAX + 64, "{}", output.pieces.len());
        let digits: String = (0..100_000).map(|number: u32| char::from(b'0' + (number % 10) as u8)).collect();
        for stream in [Stdout, Stderr] {
            let kept: String = output
                .pieces
                .iter()
                .filter(|piece| piece.stream == stream)
                .map(|piece| piece.text.as_str())
                .collect();
            assert_eq!((kept.len(), &digits[..kept.len()]), (100_000, kept.as_str()), "nothing is cut here");
        }
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
            for (stream, whole) in [(Stdout, &written[0]), (Stderr, &written[1])] {
                let cut = output.cut(stream).map_or(0, |cut| cut.bytes);
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
