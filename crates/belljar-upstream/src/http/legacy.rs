//! HTTP+SSE of protocol version 2024-11-05: one stream brings all messages, and names the address to post messages to.

use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use tokio::sync::watch;
use url::Url;

use super::events::{BodyError, BodyLimits, Events};
use super::lines::{Deliveries, SentMessage};
use super::requests::Requests;
use crate::jsonrpc::Line;
use crate::no_response::NoResponse;
use crate::web::{media_type, written_type};

/// One server over HTTP+SSE. When its stream ends, the connection ends.
pub(super) struct Legacy {
    requests: Requests,
    url: Url,
    body_limits: BodyLimits,
    deliveries: Deliveries,
    /// The address for messages, after the server has named it, or the reason why it never will.
    address: watch::Sender<Option<Result<Url, NoResponse>>>,
}

impl Legacy {
    pub(super) fn new(requests: Requests, url: Url, body_limits: BodyLimits, deliveries: Deliveries) -> Self {
        Self { requests, url, body_limits, deliveries, address: watch::Sender::new(None) }
    }

    /// Reads the stream to its end.
    pub(super) async fn listen(&self) {
        let lost = match self.read().await {
            Ok(()) => NoResponse::Broken("its stream of events ended".into()),
            Err(lost) => lost,
        };
        tracing::debug!(?lost, "a stream of events is over");
        self.address.send_replace(Some(Err(lost)));
    }

    async fn read(&self) -> Result<(), NoResponse> {
        let request = self.requests.to(Method::GET, self.url.clone()).header(ACCEPT, "text/event-stream");
        let response = self.requests.send(request).await??;
        if media_type(&response) != "text/event-stream" {
            let kind = written_type(&response);
            return Err(NoResponse::NotReached(format!(
                "its reply is no stream of events (content type {kind:?})"
            )));
        }
        let mut events = Events::of(response, &self.body_limits);
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(BodyError::Overlong) => {
                    // It is unknown which request the message belonged to.
                    self.deliveries.deliver(Line::Endless).await;
                    return Ok(());
                }
                Err(BodyError::Broken(reason)) => return Err(NoResponse::Broken(reason)),
            };
            let data = event.data.unwrap_or_default();
            match event.event.as_deref() {
                Some("endpoint") => {
                    let address = self.url.join(data.trim()).ok();
                    // The configured headers may be sent to this origin only.
                    let address = address.filter(|address| address.origin() == self.url.origin());
                    let address = address.ok_or_else(|| {
                        NoResponse::NotReached("it names another origin as the place for messages".into())
                    })?;
                    self.address.send_replace(Some(Ok(address)));
                }
                None | Some("message") => {
                    let line = Line::Whole(data.into_bytes());
                    // A blank line is no message, and is reported as unreadable like any other.
                    if !self.deliveries.deliver(line).await {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    }

    /// Sends a message; the answer comes over the stream.
    pub(super) async fn exchange(&self, sent: SentMessage) {
        match (self.posted(&sent).await, &sent.id) {
            (Ok(()), _) => {}
            (Err(lost), Some(id)) => self.deliveries.lose(id, lost).await,
            (Err(lost), None) => tracing::debug!(?lost, "a message did not reach the server"),
        }
    }

    async fn posted(&self, sent: &SentMessage) -> Result<(), NoResponse> {
        let mut told = self.address.subscribe();
        let address = match told.wait_for(Option::is_some).await {
            Ok(address) => address.clone(),
            Err(_) => None,
        };
        let address = address.unwrap_or_else(|| Err(NoResponse::NotReached("it is being left".into())))?;
        let request = self.requests.to(Method::POST, address).header(CONTENT_TYPE, "application/json");
        self.requests.send(request.body(sent.line.to_vec())).await??;
        Ok(())
    }
}
