//! Lines from and to a peer.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

use super::outline::Outline;

/// How much is read at once.
const READ_BYTES: usize = 16 * 1024;
/// A line of so many times the bound has no end: nobody waits for it any longer.
pub const ENDLESS_TIMES: usize = 8;
/// Capacity of a buffer that is kept when nothing is in it.
const KEPT_BYTES: usize = 4 * READ_BYTES;
/// RFC 8259, section 8.1, lets a reader ignore it.
const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

/// A line that came in.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its line feed and what else is blank at its ends; never empty.
    Whole(Vec<u8>),
    /// Longer than the bound, and dropped.
    Overlong {
        /// The id that it carried, as JSON text, as far as one can be made out.
        id: Option<String>,
    },
    /// So long that its end is not waited for; what still comes of it is dropped unsaid.
    Endless,
}

/// The source of lines.
pub trait Incoming: Send {
    /// The next line; nothing when no more come. Cancel-safe.
    ///
    /// # Errors
    /// As what the lines come over.
    fn next(&mut self) -> impl Future<Output = std::io::Result<Option<Line>>> + Send;
}

/// The destination of lines. A clone has the same destination.
pub trait LineSink: Clone + Send + Sync + 'static {
    /// Sends a line, line feed included.
    ///
    /// # Errors
    /// As what the lines go over, and after [`Self::close`].
    fn write(&self, line: Vec<u8>) -> impl Future<Output = std::io::Result<()>> + Send;

    /// No more lines go.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Reads lines within a bound; what is longer is dropped to its end.
#[derive(Debug)]
pub struct LineReader<R> {
    inner: R,
    line_bytes_max: usize,
    buffer: Vec<u8>,
    /// Where the first line that was not given out begins.
    start: usize,
    /// Up to where it has no line feed.
    searched: usize,
    /// The line that is being dropped.
    overlong: Option<Overlong>,
}

#[derive(Debug, Default)]
struct Overlong {
    outline: Outline,
    bytes: usize,
    /// That it does not end has been said.
    is_endless: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader of lines of at most so many bytes, line feed included.
    pub fn new(inner: R, line_bytes_max: usize) -> Self {
        Self { inner, line_bytes_max, buffer: Vec::new(), start: 0, searched: 0, overlong: None }
    }

    /// The next line that is not blank; nothing at the end of the stream, where an unfinished line counts as nothing.
    async fn next_line(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            while let Some(line) = self.take_line() {
                match line {
                    Line::Whole(line) if line.is_empty() => {}
                    line => return Ok(Some(line)),
                }
            }
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
            if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
                // What was dropped needed more than what is to come.
                self.buffer.shrink_to(READ_BYTES);
            }
            self.make_room();
            if self.inner.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Makes room for what is read next. The buffer doubles, but not beyond the longest line: while it is copied to a
    /// larger one, both take memory.
    fn make_room(&mut self) {
        let (length, capacity) = (self.buffer.len(), self.buffer.capacity());
        if capacity - length < READ_BYTES {
            let doubled = (2 * capacity).min(self.line_bytes_max + READ_BYTES);
            self.buffer.reserve_exact(doubled.max(length + READ_BYTES) - length);
        }
    }

    fn take_line(&mut self) -> Option<Line> {
        let line_feed = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let end = line_feed.map_or(self.buffer.len(), |at| self.searched + at + 1);
        self.searched = end;
        if self.overlong.is_some() || end - self.start > self.line_bytes_max {
            let overlong = self.overlong.get_or_insert_default();
            overlong.bytes += end - self.start;
            if !overlong.is_endless {
                overlong.outline.push(&self.buffer[self.start..end]);
            }
            self.start = end;
            let is_endless = overlong.bytes > self.line_bytes_max * ENDLESS_TIMES;
            let is_new = is_endless && !std::mem::replace(&mut overlong.is_endless, is_endless);
            if is_new || line_feed.is_none() {
                if line_feed.is_some() {
                    self.overlong = None;
                }
                return is_new.then_some(Line::Endless);
            }
            return self.overlong.take().map(|overlong| match overlong.is_endless {
                true => Line::Whole(Vec::new()),
                false => Line::Overlong { id: overlong.outline.id() },
            });
        }
        line_feed?;
        let whole = self.start == 0 && end == self.buffer.len();
        let mut line = if whole {
            self.searched = 0;
            std::mem::take(&mut self.buffer)
        } else {
            self.buffer[std::mem::replace(&mut self.start, end)..end].to_vec()
        };
        line.truncate(line.trim_ascii_end().len());
        let blank = line.len() - line.trim_ascii_start().len();
        let mark = if line[blank..].starts_with(UTF8_BOM) { UTF8_BOM.len() } else { 0 };
        line.drain(..blank + mark);
        Some(Line::Whole(line))
    }
}

impl<R: AsyncRead + Send + Unpin> Incoming for LineReader<R> {
    async fn next(&mut self) -> std::io::Result<Option<Line>> {
        self.next_line().await
    }
}

/// Writes whole lines, whoever sends them.
#[derive(Debug)]
pub struct LineWriter<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for LineWriter<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    /// A writer that other ends may share.
    pub fn new(inner: W) -> Self {
        Self(Arc::new(Mutex::new(Some(inner))))
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> LineSink for LineWriter<W> {
    /// Behind those that wait already. To give it up half-way would leave half a line: after that only [`Self::close`]
    /// is left.
    async fn write(&self, line: Vec<u8>) -> std::io::Result<()> {
        let mut inner = self.0.lock().await;
        let inner = inner.as_mut().ok_or(std::io::ErrorKind::NotConnected)?;
        inner.write_all(&line).await?;
        inner.flush().await
    }

    async fn close(&self) {
        self.0.lock().await.take();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn all(bytes: &[u8], piece: usize, bound: usize) -> Vec<String> {
        let (mut writer, reader) = tokio::io::duplex(piece);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move { writer.write_all(&bytes).await });
        let mut reader = LineReader::new(reader, bound);
        let mut seen = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            seen.push(match line {
                Line::Whole(line) => String::from_utf8(line).unwrap(),
                Line::Overlong { id } => format!("overlong {}", id.unwrap_or_default()),
                Line::Endless => "endless".to_owned(),
            });
        }
        writing.await.unwrap().unwrap();
        seen
    }

    #[tokio::test]
    async fn lines_are_whole_however_they_are_cut_and_blank_ones_do_not_count() {
        let text = b"\n  \r\n{\"a\":1}\r\n\xef\xbb\xbf {}\nlast";
        for piece in [1, 2, 3, 7, 100] {
            assert_eq!(all(text, piece, 100).await, ["{\"a\":1}", " {}"], "pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn a_line_one_byte_over_the_bound_is_dropped_with_its_id_and_at_the_bound_it_is_not() {
        let text = b"{\"id\":1}..\n{\"id\":12}..\n{\"x\":\"aaaaaaaaaaaaaaaa\",\"id\":3}\n{\"id\":4}\n";
        for piece in [1, 5, 100] {
            let seen = all(text, piece, 11).await;
            assert_eq!(
                seen,
                ["{\"id\":1}..", "overlong 12", "overlong 3", "{\"id\":4}"],
                "pieces of {piece}"
            );
        }
    }

    #[tokio::test]
    async fn a_line_without_end_is_said_once_before_its_end_and_costs_nothing_afterwards() {
        let endless = "x".repeat(50 * ENDLESS_TIMES + 1);
        for piece in [1, 7, 100, 4096] {
            let seen = all(format!("{endless}{endless}\n{{}}\n").as_bytes(), piece, 50).await;
            assert_eq!(seen, ["endless", "{}"], "pieces of {piece}");
        }
        let mut reader = LineReader::new(endless.as_bytes(), 50);
        assert_eq!(reader.next().await.unwrap(), Some(Line::Endless));
    }

    #[tokio::test]
    async fn the_room_of_a_line_that_was_dropped_is_given_back() {
        let text = ["x".repeat(1 << 20), String::new()].join("\n");
        let mut reader = LineReader::new(text.as_bytes(), 1 << 19);
        assert_eq!(reader.next().await.unwrap(), Some(Line::Overlong { id: None }));
        assert_eq!(reader.next().await.unwrap(), None);
        assert!(reader.buffer.capacity() <= KEPT_BYTES, "{}", reader.buffer.capacity());
    }

    proptest! {
        #[test]
        fn what_is_kept_is_never_more_than_a_line_and_a_read(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
            let mut reader = LineReader::new(tokio::io::empty(), 50);
            for piece in bytes.chunks(33) {
                reader.buffer.extend_from_slice(piece);
                while reader.take_line().is_some() {}
                prop_assert!(reader.buffer.len() - reader.start <= 50);
            }
        }
    }
}
