//! Serves one client on two streams, such as the process's stdin and stdout.

use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_upstream::jsonrpc::LineTransport;
use rmcp::ServiceExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::requests::Requests;
use super::server_handler::Handler;

/// The longest wait for answers to requests that the client sent right before it closed the connection. rmcp alone
/// would wait 5 s for a run that nobody wants.
const FAREWELL: Duration = Duration::from_millis(300);

/// Serves until the client closes the connection or `closing` is cancelled.
///
/// # Errors
/// The first message is no request that opens a connection.
pub async fn serve(
    handler: Handler,
    (read, write): (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static),
    limits: &Limits,
    closing: CancellationToken,
) -> Result<(), String> {
    let (transport, ended) = LineTransport::new(
        Requests::default(),
        read,
        write,
        limits.client_line_bytes_max,
        limits.peer_requests_in_flight_max,
    );
    let serving = async {
        let service =
            handler.serve_with_ct(transport, closing.clone()).await.map_err(|error| error.to_string())?;
        service.waiting().await.map_err(|error| error.to_string())
    };
    let farewell = async {
        ended.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        served = serving => served.map(|reason| tracing::debug!(?reason, "the client's connection has ended")),
        () = farewell => Ok(()),
        () = closing.cancelled() => Ok(()),
    }
}
