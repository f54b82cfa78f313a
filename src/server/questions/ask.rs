//! Sends one request to the client, and waits for its answer.
//!
//! It does not know what the request is about.

use belljar_base::run::ClientAbilities;
use belljar_upstream::jsonrpc::WITHDRAWING;
use rmcp::RoleServer;
use rmcp::model::{ClientResult, ServerRequest};
use rmcp::service::{ElicitationMode, Peer, PeerRequestOptions, ServiceError};

/// The reason for which a question has no answer.
#[derive(Debug)]
pub(super) enum AskError {
    /// The request could not be sent.
    NotSent,
    /// The caller no longer waits for the answer.
    Withdrawn,
    /// The client refused with this error, or is gone.
    Refused(ServiceError),
}

/// The abilities that the client has declared, if requests can be sent to it at all.
pub(crate) fn abilities(peer: &Peer<RoleServer>) -> ClientAbilities {
    let sampling = peer.peer_info().is_some_and(|info| info.capabilities.sampling.is_some());
    ClientAbilities {
        elicitation: peer.supported_elicitation_modes().contains(&ElicitationMode::Form),
        sampling,
        model: sampling,
        reply_chars_max: None,
        images_as_files: false,
    }
}

/// Sends a request and returns the client's answer. When `withdrawn` ends, the request is cancelled at the client.
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
        // After the cancellation, the client need not show the question.
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
