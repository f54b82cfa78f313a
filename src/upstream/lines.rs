//! Bounds the lines of a server's stdout: one that is too long ends the connection.
//!
//! Dropping it alone, as rmcp does, would leave the request that it answers waiting for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// A reader that reports the end of its input when a line passes the bound.
pub(super) struct BoundedLines<R> {
    inner: R,
    line_bytes: usize,
    line_bytes_max: usize,
    overlong: Arc<AtomicBool>,
}

impl<R> BoundedLines<R> {
    /// The reader, and the flag that says whether it has cut its input off.
    pub(super) fn new(inner: R, line_bytes_max: usize) -> (Self, Arc<AtomicBool>) {
        let overlong = Arc::new(AtomicBool::new(false));
        (Self { inner, line_bytes: 0, line_bytes_max, overlong: Arc::clone(&overlong) }, overlong)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.overlong.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = &buffer.filled()[before..];
        self.line_bytes = match memchr::memrchr(b'\n', read) {
            Some(at) => read.len() - at - 1,
            None => self.line_bytes + read.len(),
        };
        if self.line_bytes > self.line_bytes_max {
            self.overlong.store(true, Ordering::Release);
            buffer.set_filled(before);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_line_over_the_bound_ends_the_input_and_lines_at_the_bound_do_not() {
        let (mut reader, overlong) = BoundedLines::new(&b"12345\n12345\n"[..], 5);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.unwrap();
        assert_eq!((read.as_slice(), overlong.load(Ordering::Acquire)), (&b"12345\n12345\n"[..], false));

        let (mut reader, overlong) = BoundedLines::new(&b"1234\n123456"[..], 5);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.unwrap();
        assert_eq!((read.as_slice(), overlong.load(Ordering::Acquire)), (&b""[..], true));
    }
}
