//! Reads the client's messages. Requests for runs are recognised first, since rmcp would try every other kind before.

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification, ClientRequest,
    JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};

use crate::jsonrpc::{self, Envelope, LineError, Messages, OnUnreadable};

/// The reader of the client's messages.
#[derive(Debug, Default)]
pub struct Requests {
    /// Whether a request has opened the connection.
    is_open: bool,
}

impl Messages for Requests {
    type Role = RoleServer;

    fn read(&mut self, line: &[u8], envelope: &Envelope<'_>) -> Result<Option<ClientJsonRpcMessage>, String> {
        if let (Some("tools/call"), Some(id)) = (envelope.method.as_deref(), envelope.id)
            && let Ok(id) = serde_json::from_str(id.get())
            && let Ok(request) = jsonrpc::message::<CallToolRequest>(line)
        {
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
