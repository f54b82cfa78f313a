//! Bytes become lines become frames: bounded, in linear time, and in step again after any garbage.

use belljar_base::limits::Limits;

use super::from_sandbox::{self, DroppedLine, FromSandbox};

/// Capacity of a buffer that is kept when nothing is in it.
const KEPT_BYTES: usize = 1 << 20;
/// Turns the sandbox's byte stream into frames.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Start of the first line not yet returned.
    start: usize,
    /// No line feed lies between `start` and here, so bytes are searched once.
    searched: usize,
    overlong: bool,
    line_bytes_max: usize,
    depth_max: usize,
}

impl Decoder {
    /// A decoder for what the sandbox sends.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            overlong: false,
            line_bytes_max: limits.frame_to_bridge_bytes_max,
            depth_max: limits.json_depth_max,
        }
    }

    /// Memory that is held for lines.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Takes bytes in. At most one line's bound and these bytes are held.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && (self.start == self.buffer.len() || self.start > 64 * 1024) {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
            if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
                // What came before needed more than what is to come.
                self.buffer.shrink_to(KEPT_BYTES);
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, or why its line was dropped; nothing until more bytes come.
    pub fn next_frame(&mut self) -> Option<Result<FromSandbox, DroppedLine>> {
        loop {
            let Some(at) = find_line_feed(&self.buffer[self.searched..]) else {
                return self.no_line_feed();
            };
            let line = self.start..self.searched + at;
            self.start = line.end + 1;
            self.searched = self.start;
            if std::mem::take(&mut self.overlong) {
                continue;
            }
            if line.len() >= self.line_bytes_max {
                return Some(Err(DroppedLine::Overlong { bytes_max: self.line_bytes_max }));
            }
            return Some(from_sandbox::parse(&self.buffer[line], self.depth_max));
        }
    }

    fn no_line_feed(&mut self) -> Option<Result<FromSandbox, DroppedLine>> {
        self.searched = self.buffer.len();
        if self.overlong {
            self.start = self.searched;
            return None;
        }
        if self.buffer.len() - self.start < self.line_bytes_max {
            return None;
        }
        self.overlong = true;
        self.start = self.searched;
        Some(Err(DroppedLine::Overlong { bytes_max: self.line_bytes_max }))
    }
}

fn find_line_feed(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::FromSupervisor;

    fn small() -> Limits {
        Limits { frame_to_bridge_bytes_max: 40, ..Limits::default() }
    }

    fn all(decoder: &mut Decoder) -> Vec<String> {
        std::iter::from_fn(|| decoder.next_frame())
            .map(|frame| match frame {
                Ok(FromSandbox::Supervisor(FromSupervisor::Pong { seq })) => format!("pong {seq}"),
                Ok(other) => format!("{other:?}"),
                Err(dropped) => dropped.to_string(),
            })
            .collect()
    }

    #[test]
    fn frames_resume_behind_an_overlong_line_however_it_is_cut() {
        let stream = [
            b"S{\"type\":\"pong\",\"seq\":1}\n".as_slice(),
            &[b'x'; 200],
            b"\nS{\"type\":\"pong\",\"seq\":2}\n",
        ]
        .concat();
        for chunk in [1, 7, 39, 40, 41, 1000] {
            let mut decoder = Decoder::new(&small());
            let mut seen = Vec::new();
            for bytes in stream.chunks(chunk) {
                decoder.push(bytes);
                seen.extend(all(&mut decoder));
            }
            assert_eq!(seen, ["pong 1", "a line of more than 40 bytes", "pong 2"], "chunks of {chunk}");
        }
    }

    #[test]
    fn frame_one_byte_over_limit_is_dropped_and_at_the_limit_is_not() {
        let frame = |padding: usize| format!("S{{\"type\":\"pong\",\"seq\":1}}{}\n", " ".repeat(padding));
        let fits = 40 - frame(0).len();
        let mut decoder = Decoder::new(&small());
        decoder.push(frame(fits).as_bytes());
        decoder.push(frame(fits + 1).as_bytes());
        assert_eq!(all(&mut decoder), ["pong 1", "a line of more than 40 bytes"]);
    }

    proptest! {
        #[test]
        fn any_garbage_leaves_the_next_frame_readable(garbage in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::new(&small());
            decoder.push(&garbage);
            all(&mut decoder);
            decoder.push(b"\nS{\"type\":\"pong\",\"seq\":7}\n");
            let seen = all(&mut decoder);
            prop_assert_eq!(seen.last().map(String::as_str), Some("pong 7"));
        }
    }
}
