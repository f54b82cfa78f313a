//! Sends one request to the client, and waits for its answer.
//!
//! It does not know what is asked.

use rmcp::RoleServer;
use rmcp::model::{ClientResult, ServerRequest};
use rmcp::service::{ElicitationMode, Peer, PeerRequestOptions, ServiceError};

use crate::jsonrpc::WITHDRAWING;
use crate::run::ClientAbilities;

/// The reason for which a question has no answer.
#[derive(Debug)]
pub(super) enum AskError {
    /// The client does not take it.
    NotSent,
    /// Nobody waits for it any more.
    Withdrawn,
    /// The client refused it in these words, or has gone.
    Refused(ServiceError),
}

/// What the client has said that it can do, as far as requests may go to it at all.
pub(in crate::server) fn abilities(peer: &Peer<RoleServer>) -> ClientAbilities {
    let sampling = peer.peer_info().is_some_and(|info| info.capabilities.sampling.is_some());
    ClientAbilities {
        elicitation: peer.supported_elicitation_modes().contains(&ElicitationMode::Form),
        sampling,
        model: sampling,
        reply_chars_max: None,
    }
}

/// The client's answer to a request; it is cancelled there when nobody waits for it any more.
pub(super) async fn answer(
    peer: &Peer<RoleServer>,
    request: ServerRequest,
    withdrawn: impl Future<Output = ()>,
) -> Result<ClientResult, AskError> {
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let mut handle = sent.map_err(|error| {
        tracing::debug!(%error, "the client was not asked");
        AskError::NotSent
    })?;
    let answer = tokio::select! {
        answer = &mut handle.rx => answer,
        // The client need not show the question any more.
        () = withdrawn => {
            let withdrawing = handle.cancel(Some("nobody waits for the answer any more".into()));
            let told = tokio::time::timeout(WITHDRAWING, withdrawing).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!(?told, "the cancellation did not reach the client");
            }
            return Err(AskError::Withdrawn);
        }
    };
    answer.unwrap_or(Err(ServiceError::TransportClosed)).map_err(AskError::Refused)
}
