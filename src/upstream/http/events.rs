//! Bodies of replies within their bounds: one message, or a stream of server-sent events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, Instant};

use crate::limits::Limits;
use crate::web::said;

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

/// How much is read of bodies: each by itself, and the large ones of all servers, of which few are read at a time.
#[derive(Clone)]
pub(super) struct Bodies {
    bytes_max: usize,
    small_bytes_max: usize,
    /// How long a large one may take from when it is read on.
    large_max: Duration,
    large: Arc<Semaphore>,
}

/// A large body that is read, with the time when it must have ended.
type Large = (OwnedSemaphorePermit, Instant);

impl Bodies {
    pub(super) fn new(limits: &Limits, large: Arc<Semaphore>) -> Self {
        Self {
            bytes_max: limits.server_line_bytes_max,
            small_bytes_max: limits.http_small_body_bytes_max,
            large_max: limits.http_large_body,
            large,
        }
    }

    /// A whole body.
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

    /// Waits until one more large body may be read. Meanwhile the server waits too.
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
    bodies: Bodies,
    now: Arc<Mutex<Now>>,
    /// The event before was given out.
    is_delivered: bool,
}

/// The event that is being read.
#[derive(Default)]
struct Now {
    bytes: usize,
    large: Option<Large>,
}

impl Events {
    pub(super) fn of(response: Response, bodies: &Bodies) -> Self {
        let now = Arc::new(Mutex::new(Now::default()));
        let bytes = response.bytes_stream().map(|read| read.map_err(|error| BodyError::Broken(said(error))));
        let bytes = counted(bytes, Arc::clone(&now), bodies.clone());
        Self { events: SseByteStream::new(bytes.boxed()), bodies: bodies.clone(), now, is_delivered: false }
    }

    /// The next event; nothing at the end of the stream. The one before counts as read until then. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Sse>, BodyError> {
        if std::mem::take(&mut self.is_delivered) {
            now(&self.now).large = None;
        }
        loop {
            let until = now(&self.now).large.as_ref().map(|(_, until)| *until);
            // One that becomes large is looked at again.
            let until = until.unwrap_or_else(|| Instant::now() + self.bodies.large_max);
            let Some(event) = within(Some(until), self.events.next()).await else {
                if now(&self.now).large.as_ref().is_some_and(|(_, until)| Instant::now() >= *until) {
                    return Err(self.bodies.late());
                }
                continue;
            };
            let overlong = now(&self.now).bytes > self.bodies.bytes_max + EVENT_OVERHEAD_BYTES;
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
    event: Arc<Mutex<Now>>,
    bodies: Bodies,
) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static {
    bytes.then(move |read| {
        let (event, bodies) = (Arc::clone(&event), bodies.clone());
        async move {
            let read = read?;
            let is_small = {
                let mut now = now(&event);
                now.bytes += read.len();
                if now.bytes > bodies.bytes_max + EVENT_OVERHEAD_BYTES {
                    return Err(BodyError::Overlong);
                }
                now.bytes <= bodies.small_bytes_max || now.large.is_some()
            };
            if !is_small {
                let large = bodies.admitted().await?;
                now(&event).large = Some(large);
            }
            Ok(read)
        }
    })
}

/// What comes in time.
async fn within<T>(until: Option<Instant>, coming: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until, coming).await.ok(),
        None => Some(coming.await),
    }
}

fn now(event: &Mutex<Now>) -> MutexGuard<'_, Now> {
    event.lock().unwrap_or_else(PoisonError::into_inner)
}
