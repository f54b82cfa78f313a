//! Bodies of replies within the bound: one message, or a stream of server-sent events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};

use super::client::said;

/// What an event has beside its data.
const EVENT_OVERHEAD_BYTES: usize = 4 * 1024;

/// Why a body cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// Its one message, or an event, has more bytes than may be.
    #[error("it has more than the bytes allowed")]
    Overlong,
    /// What went wrong on the way, or is no stream of events.
    #[error("{0}")]
    Broken(String),
}

/// Server-sent events, each within the bound.
pub(super) struct Events {
    events: SseByteStream<BoxStream<'static, Result<Bytes, BodyError>>>,
    /// Bytes that came since the last event.
    pending: Arc<AtomicUsize>,
    overlong: usize,
}

impl Events {
    pub(super) fn of(response: Response, bytes_max: usize) -> Self {
        let pending = Arc::new(AtomicUsize::new(0));
        let bytes = response.bytes_stream().map(|read| read.map_err(|error| BodyError::Broken(said(error))));
        let overlong = bytes_max + EVENT_OVERHEAD_BYTES;
        let bytes = counted(bytes, Arc::clone(&pending), overlong);
        Self { events: SseByteStream::new(bytes.boxed()), pending, overlong }
    }

    /// The next event; nothing at the end of the stream. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Sse>, BodyError> {
        match self.events.next().await {
            None => Ok(None),
            Some(Ok(event)) => {
                self.pending.store(0, Ordering::Relaxed);
                Ok(Some(event))
            }
            Some(Err(_)) if self.pending.load(Ordering::Relaxed) > self.overlong => Err(BodyError::Overlong),
            Some(Err(error)) => Err(BodyError::Broken(error.to_string())),
        }
    }
}

fn counted(
    bytes: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
    pending: Arc<AtomicUsize>,
    bytes_max: usize,
) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static {
    bytes.map(move |read| {
        let read = read?;
        let now = pending.fetch_add(read.len(), Ordering::Relaxed) + read.len();
        if now > bytes_max { Err(BodyError::Overlong) } else { Ok(read) }
    })
}

/// A whole body.
pub(super) async fn whole(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| BodyError::Broken(said(error)))? {
        if body.len() + chunk.len() > bytes_max {
            return Err(BodyError::Overlong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
