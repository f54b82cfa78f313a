//! Serves one client on the process's stdin and stdout.

use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio_util::sync::CancellationToken;

use super::face::Face;

/// Serves until the client closes its end or `closing` is cancelled.
///
/// # Errors
/// When the first message is no request that opens a connection.
pub async fn serve(face: Face, line_bytes_max: usize, closing: CancellationToken) -> Result<(), String> {
    let (read, write) = stdio_pipes();
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(line_bytes_max);
    let serving = async {
        let service =
            face.serve_with_ct(transport, closing.clone()).await.map_err(|error| error.to_string())?;
        service.waiting().await.map_err(|error| error.to_string())
    };
    tokio::select! {
        served = serving => served.map(|reason| tracing::debug!(?reason, "the client's connection has ended")),
        () = closing.cancelled() => Ok(()),
    }
}
