//! The queue of a session's runs, which the session's task owns: bounded, in order, and without cancelled requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_base::run::{FaultCode, ToolFault};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Requests that may arrive before the session's task takes them into its queue; further ones wait to be sent.
const INBOX_MAX: usize = 16;

/// The request whose turn it is, and those that wait behind it.
pub(super) struct RunQueue<R> {
    inbox: mpsc::Receiver<Entry<R>>,
    /// The requests in order. It is the first one's turn.
    entries: VecDeque<Entry<R>>,
    waiting_max: usize,
}

/// A request. It is over when its client has dropped the other end of `runs`.
pub(super) struct Entry<R> {
    /// Receives the beginning of the turn once, or the reason why it never comes.
    pub(super) begins: Option<oneshot::Sender<Result<(), ToolFault>>>,
    /// Is told if the request has to wait for others.
    pub(super) waits: Option<oneshot::Sender<()>>,
    /// Ends the request's run, as its client's cancellation does.
    pub(super) cancel: CancellationToken,
    /// Whether the request ends those before it instead of waiting for their ends.
    pub(super) ends_earlier: bool,
    /// Is set if a later request ends this one.
    pub(super) is_ended_by_later: Arc<AtomicBool>,
    /// The runs of the request, one after the other.
    pub(super) runs: mpsc::Receiver<R>,
}

impl<R> RunQueue<R> {
    /// A queue in which `waiting_max` requests may wait behind the one whose turn it is.
    pub(super) fn new(waiting_max: usize) -> (mpsc::Sender<Entry<R>>, Self) {
        let (sender, inbox) = mpsc::channel(INBOX_MAX);
        (sender, Self { inbox, entries: VecDeque::new(), waiting_max })
    }

    /// Waits for the next run and returns it, but only if `is_free`. Meanwhile it takes requests into the queue.
    pub(super) async fn next(&mut self, is_free: bool) -> R {
        loop {
            tokio::select! {
                biased;
                Some(entry) = self.inbox.recv() => self.line_up(entry),
                run = first_run(&mut self.entries), if is_free => match run {
                    Some(ask) => return ask,
                    None => drop(self.entries.pop_front()),
                },
                else => std::future::pending().await,
            }
        }
    }

    fn line_up(&mut self, mut entry: Entry<R>) {
        self.entries.retain(|entry| !entry.runs.is_closed());
        if entry.ends_earlier {
            for earlier in &self.entries {
                earlier.is_ended_by_later.store(true, Ordering::Relaxed);
                earlier.cancel.cancel();
            }
        }
        if self.entries.len() <= self.waiting_max {
            if let Some(waits) = entry.waits.take().filter(|_| !self.entries.is_empty())
                && waits.send(()).is_err()
            {
                tracing::debug!("a request that has to wait was cancelled");
            }
            return self.entries.push_back(entry);
        }
        let said = format!("{} runs are waiting already", self.waiting_max);
        let fault = ToolFault::new(FaultCode::Busy, said)
            .hint("wait for one of them, or end them by a run with reset");
        if entry.begins.take().is_some_and(|begins| begins.send(Err(fault)).is_err()) {
            tracing::debug!("a request that is refused was cancelled");
        }
    }
}

/// The next run of the first request; `None`: the request is over.
async fn first_run<R>(entries: &mut VecDeque<Entry<R>>) -> Option<R> {
    let Some(first) = entries.front_mut() else { return std::future::pending().await };
    // The request need not wait any more.
    first.waits = None;
    // The receiver is gone if the request was cancelled while it waited.
    if first.begins.take().is_some_and(|begins| begins.send(Ok(())).is_err()) {
        return None;
    }
    first.runs.recv().await
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    type Request = (mpsc::Sender<&'static str>, oneshot::Receiver<Result<(), ToolFault>>);

    fn entry(
        begins: oneshot::Sender<Result<(), ToolFault>>,
        runs: mpsc::Receiver<&'static str>,
    ) -> Entry<&'static str> {
        let cancel = CancellationToken::new();
        let is_ended_by_later = Arc::default();
        Entry { begins: Some(begins), waits: None, cancel, ends_earlier: false, is_ended_by_later, runs }
    }

    async fn request(queue: &mpsc::Sender<Entry<&'static str>>, run: &'static str) -> Request {
        let ((runs, waits), (begins, begun)) = (mpsc::channel(1), oneshot::channel());
        runs.send(run).await.unwrap();
        assert!(queue.send(entry(begins, waits)).await.is_ok());
        (runs, begun)
    }

    async fn line_up(queue: &mut RunQueue<&'static str>) {
        assert!(poll!(Box::pin(queue.next(false))).is_pending());
    }

    #[tokio::test]
    async fn requests_wait_in_order_within_a_bound_and_give_up_their_places_when_cancelled() {
        let (sender, mut queue) = RunQueue::new(2);
        let (first, begun) = request(&sender, "first").await;
        assert_eq!(queue.next(true).await, "first");
        begun.await.unwrap().unwrap();
        let second = request(&sender, "second").await;
        let (third, third_begun) = request(&sender, "third").await;
        line_up(&mut queue).await;
        let (_, refused) = request(&sender, "refused").await;
        line_up(&mut queue).await;
        assert_eq!(refused.await.unwrap().unwrap_err().message, "2 runs are waiting already");
        drop(second);
        let (_fourth, fourth_begun) = request(&sender, "fourth").await;
        line_up(&mut queue).await;
        first.send("first again").await.unwrap();
        assert_eq!(queue.next(true).await, "first again", "nothing runs in between");
        drop(first);
        assert_eq!(queue.next(true).await, "third");
        third_begun.await.unwrap().unwrap();
        assert!(poll!(Box::pin(queue.next(true))).is_pending(), "its turn is not over");
        drop(third);
        assert_eq!(queue.next(true).await, "fourth");
        fourth_begun.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_request_that_has_to_wait_is_told_and_one_that_ends_earlier_ones_cancels_them() {
        let (sender, mut queue) = RunQueue::new(2);
        let mut requests = vec![];
        for ends_earlier in [false, false, true] {
            let ((runs, receiver), (begins, begun), (waits, told)) =
                (mpsc::channel(1), oneshot::channel(), oneshot::channel());
            let asked = Entry { waits: Some(waits), ends_earlier, ..entry(begins, receiver) };
            let cancel = asked.cancel.clone();
            assert!(sender.send(asked).await.is_ok());
            requests.push((runs, begun, told, cancel));
            line_up(&mut queue).await;
            let cancelled: Vec<bool> = requests.iter().map(|request| request.3.is_cancelled()).collect();
            let expected = if ends_earlier { vec![true, true, false] } else { vec![false; requests.len()] };
            assert_eq!(cancelled, expected);
        }
        let told: Vec<bool> = requests.iter_mut().map(|request| request.2.try_recv().is_ok()).collect();
        assert_eq!(told, [false, true, true]);
    }

    #[tokio::test]
    async fn a_request_that_was_cancelled_while_it_waited_runs_nothing() {
        let (sender, mut queue) = RunQueue::new(2);
        // This request's client still holds its end of `runs`.
        let (_runs, begun) = request(&sender, "cancelled").await;
        drop(begun);
        let (_other, _begun) = request(&sender, "other").await;
        assert_eq!(queue.next(true).await, "other");
    }

    #[tokio::test]
    async fn requests_that_wait_when_the_session_ends_are_told() {
        let (sender, mut queue) = RunQueue::new(2);
        let (_runs, begun) = request(&sender, "waits").await;
        line_up(&mut queue).await;
        drop(queue);
        assert!(begun.await.is_err());
    }
}
