//! The body of an answer that ends at a given time, whatever more would come.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// A body that ends at its own end or at a given time.
pub(super) struct TimedBody<B> {
    body: B,
    end: Pin<Box<Sleep>>,
}

impl<B> TimedBody<B> {
    pub(super) fn new(body: B, end: Instant) -> Self {
        Self { body, end: Box::pin(sleep_until(end)) }
    }
}

impl<B: Body + Unpin> Body for TimedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        if self.end.as_mut().poll(context).is_ready() {
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
    use std::convert::Infallible;
    use std::time::Duration;

    use bytes::Bytes;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_never_ends_ends_at_the_time() {
        let begun = Instant::now();
        let first = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("a")))]);
        let endless = futures_util::StreamExt::chain(first, futures_util::stream::pending());
        let body = TimedBody::new(StreamBody::new(endless), begun + Duration::from_secs(300));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "a");
        assert_eq!(begun.elapsed(), Duration::from_secs(300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_ends_before_is_whole() {
        let begun = Instant::now();
        let body = TimedBody::new(Full::new(Bytes::from("abc")), begun + Duration::from_secs(300));
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(
            (body.collect().await.unwrap().to_bytes(), begun.elapsed()),
            ("abc".into(), Duration::ZERO)
        );
    }
}
