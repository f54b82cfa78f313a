//! The body of an answer: its request is in progress until it has ended, which it does at a given time, whatever more would come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use tokio::time::{Sleep, sleep_until};

/// A body that holds a value until it is dropped.
pub(super) struct HoldingBody<H> {
    body: BoxBody<Bytes, Infallible>,
    _held: H,
    end: Option<Pin<Box<Sleep>>>,
}

impl<H> HoldingBody<H> {
    /// `end` is the time at which it ends in any case.
    pub(super) fn new(body: BoxBody<Bytes, Infallible>, held: H, end: Option<Instant>) -> Self {
        Self { body, _held: held, end: end.map(|end| Box::pin(sleep_until(end.into()))) }
    }
}

impl<H: Unpin> Body for HoldingBody<H> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready()) {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::{BodyExt, Full, StreamBody};
    use tokio::time::Instant;

    use super::{Body, BoxBody, Bytes, Frame, HoldingBody, Infallible};

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_never_ends_ends_at_the_time() {
        let begun = Instant::now();
        let first = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("a")))]);
        let endless = futures_util::StreamExt::chain(first, futures_util::stream::pending());
        let end = begun + Duration::from_secs(300);
        let body = HoldingBody::new(BoxBody::new(StreamBody::new(endless)), (), Some(end.into_std()));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "a");
        assert_eq!(begun.elapsed(), Duration::from_secs(300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_ends_before_is_whole() {
        let begun = Instant::now();
        for end in [None, Some((begun + Duration::from_secs(300)).into_std())] {
            let body = HoldingBody::new(BoxBody::new(Full::new(Bytes::from("abc"))), (), end);
            assert_eq!(body.size_hint().exact(), Some(3));
            assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
