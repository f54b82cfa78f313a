//! Serves one client on the process's stdin and stdout.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::face::Face;

/// How long answers to what a client asked just before it closed its end may take. rmcp alone would wait 5 s for a run
/// that nobody waits for any more.
const FAREWELL: Duration = Duration::from_millis(300);

/// Serves until the client closes its end or `closing` is cancelled.
///
/// # Errors
/// When the first message is no request that opens a connection.
pub async fn serve(face: Face, line_bytes_max: usize, closing: CancellationToken) -> Result<(), String> {
    let (read, write) = stdio_pipes();
    let ended = CancellationToken::new();
    let read = EndSeen { inner: read, ended: ended.clone() };
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(line_bytes_max);
    let serving = async {
        let service =
            face.serve_with_ct(transport, closing.clone()).await.map_err(|error| error.to_string())?;
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

/// A reader that tells of the end of its input.
struct EndSeen<R> {
    inner: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for EndSeen<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let at_end = matches!(polled, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if buffer.remaining() > 0 && (at_end || matches!(polled, Poll::Ready(Err(_)))) {
            self.ended.cancel();
        }
        polled
    }
}
