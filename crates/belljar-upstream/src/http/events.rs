//! Reads bodies of replies within their bounds: one message, or a stream of server-sent events.

use std::sync::Arc;

use belljar_base::limits::Limits;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, Instant};

use crate::web::said;

/// The allowance for the fields of an event beside its data, in bytes.
const EVENT_OVERHEAD_BYTES: usize = 4 * 1024;

/// The reason for which a body cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The message or an event has more bytes than the limit.
    #[error("it has more than the bytes allowed")]
    Overlong,
    /// The connection failed, or the body is not a stream of events.
    #[error("{0}")]
    Broken(String),
}

/// The limits on response bodies: the size of each, and how many large ones may be read at a time, for all servers.
#[derive(Clone)]
pub(super) struct BodyLimits {
    bytes_max: usize,
    small_bytes_max: usize,
    /// The longest time for a large body.
    large_max: Duration,
    large: Arc<Semaphore>,
}

/// The permit for a large body that is read, and the time by which it must end.
type Large = (OwnedSemaphorePermit, Instant);

impl BodyLimits {
    pub(super) fn new(limits: &Limits, large: Arc<Semaphore>) -> Self {
        Self {
            bytes_max: limits.server_line_bytes_max,
            small_bytes_max: limits.http_small_body_bytes_max,
            large_max: limits.http_large_body,
            large,
        }
    }

    /// Reads a whole body.
    pub(super) async fn whole(&self, mut response: Response) -> Result<Vec<u8>, BodyError> {
        let mut body = Vec::new();
        let mut large: Option<Large> = None;
        loop {
            let until = large.as_ref().map(|(_, until)| *until);
            let chunk = within(until, response.chunk()).await.ok_or_else(|| self.late())?;
            let Some(chunk) = chunk.map_err(|error| BodyError::Broken(said(error)))? else { return Ok(body) };
            if body.len() + chunk.len() > self.bytes_max {
                return Err(BodyError::Overlong);
            }
            if body.len() + chunk.len() > self.small_bytes_max && large.is_none() {
                large = Some(self.admitted().await?);
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// Waits until another large body may be read. The server has to wait meanwhile.
    async fn admitted(&self) -> Result<Large, BodyError> {
        let closed = |_| BodyError::Broken("the bridge is shutting down".into());
        let permit = Arc::clone(&self.large).acquire_owned().await.map_err(closed)?;
        Ok((permit, Instant::now() + self.large_max))
    }

    fn late(&self) -> BodyError {
        let (s, bytes) = (self.large_max.as_secs_f64(), self.small_bytes_max);
        BodyError::Broken(format!("it took longer than {s} s to send an answer of more than {bytes} bytes"))
    }
}

/// Server-sent events, each within the bounds.
pub(super) struct Events {
    events: SseByteStream<BoxStream<'static, Result<Bytes, BodyError>>>,
    body_limits: BodyLimits,
    now: Arc<Mutex<PartialEvent>>,
    /// Whether the last event was returned to the caller.
    is_delivered: bool,
}

/// The part of an event that has been read.
#[derive(Default)]
struct PartialEvent {
    bytes: usize,
    large: Option<Large>,
}

impl Events {
    pub(super) fn of(response: Response, body_limits: &BodyLimits) -> Self {
        let now = Arc::new(Mutex::new(PartialEvent::default()));
        let bytes = response.bytes_stream().map(|read| read.map_err(|error| BodyError::Broken(said(error))));
        let bytes = counted(bytes, Arc::clone(&now), body_limits.clone());
        Self {
            events: SseByteStream::new(bytes.boxed()),
            body_limits: body_limits.clone(),
            now,
            is_delivered: false,
        }
    }

    /// The next event; `None` at the end of the stream. A large event keeps its permit until the next call.
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Sse>, BodyError> {
        if std::mem::take(&mut self.is_delivered) {
            now(&self.now).large = None;
        }
        loop {
            let until = now(&self.now).large.as_ref().map(|(_, until)| *until);
            // The wait for a small event has no bound, but the event may become large, so the loop checks again.
            let until = until.unwrap_or_else(|| Instant::now() + self.body_limits.large_max);
            let Some(event) = within(Some(until), self.events.next()).await else {
                if now(&self.now).large.as_ref().is_some_and(|(_, until)| Instant::now() >= *until) {
                    return Err(self.body_limits.late());
                }
                continue;
            };
            let overlong = now(&self.now).bytes > self.body_limits.bytes_max + EVENT_OVERHEAD_BYTES;
            return match event {
                None => Ok(None),
                Some(Ok(event)) => {
                    now(&self.now).bytes = 0;
                    self.is_delivered = true;
                    Ok(Some(event))
                }
                Some(Err(_)) if overlong => Err(BodyError::Overlong),
                Some(Err(error)) => Err(BodyError::Broken(error.to_string())),
            };
        }
    }
}

fn counted(
    bytes: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
    event: Arc<Mutex<PartialEvent>>,
    body_limits: BodyLimits,
) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static {
    bytes.then(move |read| {
        let (event, body_limits) = (Arc::clone(&event), body_limits.clone());
        async move {
            let read = read?;
            let is_small = {
                let mut now = now(&event);
                now.bytes += read.len();
                if now.bytes > body_limits.bytes_max + EVENT_OVERHEAD_BYTES {
                    return Err(BodyError::Overlong);
                }
                now.bytes <= body_limits.small_bytes_max || now.large.is_some()
            };
            if !is_small {
                let large = body_limits.admitted().await?;
                now(&event).large = Some(large);
            }
            Ok(read)
        }
    })
}

/// The output of a future; `None`: it was not ready in time.
async fn within<T>(until: Option<Instant>, coming: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until, coming).await.ok(),
        None => Some(coming.await),
    }
}

fn now(event: &Mutex<PartialEvent>) -> MutexGuard<'_, PartialEvent> {
    event.lock()
}
