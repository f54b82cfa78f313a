//! Reads the client's messages. Requests for runs are recognised first, since rmcp would try every other kind before, and get
//! their place among the others.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use belljar_upstream::jsonrpc::{self, Envelope, LineError, Messages, OnUnreadable};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification, ClientRequest,
    JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use tokio::sync::OwnedMutexGuard;

/// The reader of the client's messages.
#[derive(Debug, Default)]
pub struct Requests {
    /// Whether a request has opened the connection.
    is_open: bool,
    /// Held by the request that joins the session's queue now. Its lock is fair.
    joining: Arc<tokio::sync::Mutex<()>>,
}

/// The place of a request for a run among the others of its connection. rmcp has a task for each request, and on several threads
/// the tasks begin in any order.
#[derive(Clone)]
pub(super) struct Place(Arc<Mutex<Option<Joining>>>);

/// Waits until the requests before have joined the session's queue, or have been dropped.
pub(super) type Joining = Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>;

impl Place {
    fn behind_all(joining: &Arc<tokio::sync::Mutex<()>>) -> Self {
        let mut own: Joining = Box::pin(Arc::clone(joining).lock_owned());
        // The first poll takes the place.
        if let Some(held) = own.as_mut().now_or_never() {
            own = Box::pin(std::future::ready(held));
        }
        Self(Arc::new(Mutex::new(Some(own))))
    }

    /// The wait for the place. Whoever takes it must drop it soon, since all later requests are behind it.
    pub(super) fn take(&self) -> Option<Joining> {
        self.0.lock().take()
    }
}

impl Messages for Requests {
    type Role = RoleServer;

    fn read(&mut self, line: &[u8], envelope: &Envelope<'_>) -> Result<Option<ClientJsonRpcMessage>, String> {
        let line = &*with_halves_written_out(line);
        if let (Some("tools/call"), Some(id)) = (envelope.method.as_deref(), envelope.id)
            && let Ok(id) = serde_json::from_str(id.get())
            && let Ok(mut request) = jsonrpc::message::<CallToolRequest>(line)
        {
            request.extensions.insert(Place::behind_all(&self.joining));
            self.is_open = true;
            return Ok(Some(JsonRpcMessage::request(ClientRequest::CallToolRequest(request), id)));
        }
        let message = jsonrpc::message(line)?;
        match &message {
            ClientJsonRpcMessage::Request(request) => {
                let opens = !matches!(
                    request.request,
                    ClientRequest::PingRequest(_) | ClientRequest::CustomRequest(_)
                );
                self.is_open |= opens;
            }
            // rmcp would end the connection at a notification before the handshake. Such a notification is of no use
            // and is dropped.
            ClientJsonRpcMessage::Notification(told)
                if !self.is_open
                    && !matches!(told.notification, ClientNotification::CancelledNotification(_)) =>
            {
                tracing::debug!("a notification before the handshake is left out");
                return Ok(None);
            }
            _ => {}
        }
        Ok(Some(message))
    }

    fn unreadable(
        &mut self,
        _line: &[u8],
        id: Option<RequestId>,
        why: LineError,
    ) -> OnUnreadable<RoleServer> {
        match (id, why) {
            // Garbage is not answered: a peer that sends our refusal back as garbage would continue for ever.
            (None, LineError::NotJson(_)) => OnUnreadable::Nothing,
            (id, _) => OnUnreadable::Refusal(id),
        }
    }

    fn sending(&mut self, _message: &ServerJsonRpcMessage) {}

    fn cancelled(notification: &mut ClientNotification) -> Option<&mut CancelledNotificationParam> {
        match notification {
            ClientNotification::CancelledNotification(cancelled) => Some(&mut cancelled.params),
            _ => None,
        }
    }
}

/// The line with half characters (lone surrogates), which no text of ours can hold, written as Python's escape for them: in
/// a string of Python it is the same value.
fn with_halves_written_out(line: &[u8]) -> Cow<'_, [u8]> {
    let surrogate = |escape: &[u8]| match escape.get(..6)? {
        [b'\\', b'u', digits @ ..] => u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok(),
        _ => None,
    };
    let mut written: Option<Vec<u8>> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &line[at..]) {
        at += found;
        match (surrogate(&line[at..]), line.get(at + 6..).and_then(surrogate)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => at += 12,
            (Some(0xd800..0xe000), _) => {
                let written = written.get_or_insert_default();
                written.extend_from_slice(&line[copied..at]);
                written.push(b'\\');
                copied = at;
                at += 6;
            }
            _ => at = line.len().min(at + 2),
        }
    }
    match written {
        None => Cow::Borrowed(line),
        Some(mut written) => {
            written.extend_from_slice(&line[copied..]);
            Cow::Owned(written)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_characters_are_written_out_and_whole_ones_stay() {
        for (line, read) in [
            (r#"["cut \ud83d"]"#, r"cut \ud83d"),
            (r#"["\ude00\uD83D"]"#, r"\ude00\uD83D"),
            (r#"["\ud83d\ude00 \\ud83d \u00e9"]"#, r"😀 \ud83d é"),
            (r#"["\\\ud83d"]"#, r"\\ud83d"),
        ] {
            let texts: Vec<String> =
                serde_json::from_slice(&with_halves_written_out(line.as_bytes())).unwrap();
            assert_eq!(texts, [read], "{line}");
        }
    }
}
