//! Writes lines to the sandbox: control frames overtake results, and results never block the stream.
//!
//! All lines share one stream, so an interrupt cannot overtake a result that nobody reads. Therefore no more bytes of
//! results are sent than the supervisor buffers for the worker.

use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Small lines are written together up to this size.
const WRITE_BYTES: usize = 64 * 1024;

/// A line for the worker or a job. It is dropped when it is cancelled.
#[derive(Debug)]
pub(crate) struct ResultLine {
    pub(crate) line: Vec<u8>,
    pub(crate) cancel: CancellationToken,
    /// The permit for a job's bytes. After the line was written, the job frees it by taking the bytes; a line that is
    /// dropped gives it back.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// Queues a line as soon as there is space, unless it is cancelled before. `room`: the semaphore of a job's bytes.
pub(crate) async fn queue(
    line: Vec<u8>,
    cancel: CancellationToken,
    room: Option<Arc<Semaphore>>,
    lines: mpsc::Sender<ResultLine>,
) {
    let queued = async {
        let room = match room {
            Some(room) => room.acquire_many_owned(u32::try_from(line.len()).unwrap_or(u32::MAX)).await.ok(),
            None => None,
        };
        if lines.send(ResultLine { line, cancel: cancel.clone(), room }).await.is_err() {
            tracing::debug!("the sandbox went before the call's result");
        }
    };
    cancel.run_until_cancelled(queued).await;
}

/// The lines that the writer sends to the sandbox, in the order of preference.
#[derive(Debug)]
pub(crate) struct OutgoingFrames {
    /// Frames for the supervisor, and runs.
    pub(crate) control: mpsc::Receiver<Vec<u8>>,
    /// Results for the worker.
    pub(crate) results: mpsc::Receiver<ResultLine>,
    /// Results for jobs, which do not wait for the worker: each job has its own bound.
    pub(super) results_of_jobs: mpsc::Receiver<ResultLine>,
    /// The number of bytes that workers have taken.
    pub(crate) taken: watch::Receiver<u64>,
    /// The number of bytes that may be sent before they are taken.
    pub(super) unread_bytes_max: usize,
}

/// Writes the first line, then others until no sender is left or the sandbox is gone.
pub(crate) async fn write(
    mut input: Pin<Box<dyn AsyncWrite + Send>>,
    first: Vec<u8>,
    mut outgoing: OutgoingFrames,
) {
    let mut batch = first;
    let mut sent = 0_u64;
    // The next result, while there is no space for it.
    let mut held: Option<ResultLine> = None;
    loop {
        while batch.len() < WRITE_BYTES {
            let first = outgoing.control.try_recv().ok();
            let line = first.or_else(|| outgoing.next_result(&mut held, sent));
            let Some(line) = line.or_else(|| outgoing.next_of_job()) else { break };
            sent += for_worker_bytes(&line);
            if batch.is_empty() {
                batch = line;
            } else {
                batch.extend_from_slice(&line);
            }
        }
        if !batch.is_empty() {
            let written = async {
                input.write_all(&batch).await?;
                input.flush().await
            };
            if let Err(error) = written.await {
                tracing::debug!(%error, "the sandbox takes no more input");
                return;
            }
            batch.clear();
            batch.shrink_to(WRITE_BYTES);
            continue;
        }
        tokio::select! {
            biased;
            line = outgoing.control.recv() => match line {
                Some(line) => {
                    sent += for_worker_bytes(&line);
                    batch = line;
                }
                None => return,
            },
            Some(line) = outgoing.results.recv(), if held.is_none() => held = Some(line),
            Some(line) = outgoing.results_of_jobs.recv() => batch = line.wanted().unwrap_or_default(),
            () = unwanted(held.as_ref()) => held = None,
            Ok(()) = outgoing.taken.changed() => {}
        }
    }
}

impl OutgoingFrames {
    /// The next result that was not cancelled, if there is space for it.
    fn next_result(&mut self, held: &mut Option<ResultLine>, sent: u64) -> Option<Vec<u8>> {
        loop {
            let next = held.take().or_else(|| self.results.try_recv().ok())?;
            if next.cancel.is_cancelled() {
                continue;
            }
            let unread = sent.saturating_sub(*self.taken.borrow_and_update());
            if unread + next.line.len() as u64 > self.unread_bytes_max as u64 {
                *held = Some(next);
                return None;
            }
            return Some(next.line);
        }
    }

    fn next_of_job(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(line) = self.results_of_jobs.try_recv().ok()?.wanted() {
                return Some(line);
            }
        }
    }
}

impl ResultLine {
    /// The bytes to write, unless the line was cancelled.
    fn wanted(self) -> Option<Vec<u8>> {
        if self.cancel.is_cancelled() {
            return None;
        }
        if let Some(room) = self.room {
            room.forget();
        }
        Some(self.line)
    }
}

async fn unwanted(held: Option<&ResultLine>) {
    match held {
        Some(held) => held.cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

fn for_worker_bytes(line: &[u8]) -> u64 {
    if line.starts_with(b"W") { line.len() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn results_wait_for_room_and_what_goes_first_does_not() {
        let (input, mut output) = tokio::io::duplex(1 << 20);
        let (control, control_inbox) = mpsc::channel(8);
        let (results, results_inbox) = mpsc::channel(8);
        let (results_of_jobs, results_of_jobs_inbox) = mpsc::channel(8);
        let (taken, taken_seen) = watch::channel(0);
        let outgoing = OutgoingFrames {
            control: control_inbox,
            results: results_inbox,
            results_of_jobs: results_of_jobs_inbox,
            taken: taken_seen,
            unread_bytes_max: 10,
        };
        let writing = tokio::spawn(write(Box::pin(input), b"first\n".to_vec(), outgoing));
        let result = |text: &str, cancel: &CancellationToken| ResultLine {
            line: text.as_bytes().to_vec(),
            cancel: cancel.clone(),
            room: None,
        };
        let (wanted, unwanted) = (CancellationToken::new(), CancellationToken::new());
        results.send(result("W345678\n", &wanted)).await.unwrap();
        results.send(result("Wlost\n", &unwanted)).await.unwrap();
        results.send(result("W3\n", &wanted)).await.unwrap();
        let mut read = async |bytes: usize| {
            let mut text = vec![0; bytes];
            output.read_exact(&mut text).await.unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(read(14).await, "first\nW345678\n");
        // There is no space for the second result, and no other overtakes it.
        control.send(b"Sstop\n".to_vec()).await.unwrap();
        assert_eq!(read(6).await, "Sstop\n");
        // A job does not wait for the worker. A dropped line gives its permit back, a written one does not.
        let room = Arc::new(Semaphore::new(20));
        let gone = CancellationToken::new();
        for (line, cancel) in [("J1 345\n", &wanted), ("J1 gone\n", &gone), ("J1 6\n", &wanted)] {
            queue(line.into(), cancel.clone(), Some(Arc::clone(&room)), results_of_jobs.clone()).await;
        }
        gone.cancel();
        assert_eq!(read(12).await, "J1 345\nJ1 6\n");
        assert_eq!(room.available_permits(), 8);
        // The second result is cancelled; the third has to wait until the first is taken.
        unwanted.cancel();
        control.send(b"Sping\n".to_vec()).await.unwrap();
        assert_eq!(read(6).await, "Sping\n");
        taken.send_replace(8);
        assert_eq!(read(3).await, "W3\n");
        drop((control, results, results_of_jobs));
        writing.await.unwrap();
    }
}
