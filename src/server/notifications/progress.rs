//! Reports the progress of a run to a client that has requested it: its beginning, each call, messages of servers on
//! their progress, and every ten seconds that it is still running.
//!
//! The rate is bounded: during a flood of calls, the client gets the latest state a few times a second.

use std::time::Duration;

use belljar_base::run::Progress;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

/// The pause after which a silent run is reported as still running.
const STILL_RUNNING: Duration = Duration::from_secs(10);
/// The number of notifications that may be sent at once.
const BURST: u32 = 20;
/// The pause after which another one may be sent.
const PACE: Duration = Duration::from_millis(250);

/// Sends a message for each step, until the run has ended or the client accepts no more.
pub(crate) async fn report<Sent: Future<Output = bool>>(
    heard: &mut mpsc::Receiver<Progress>,
    ended: CancellationToken,
    mut send: impl FnMut(u32, String) -> Sent,
) {
    let started = Instant::now();
    let mut ticks = interval_at(started + STILL_RUNNING, STILL_RUNNING);
    let mut limiter = RateLimiter::new(started);
    let (mut step, mut is_waiting) = (0, false);
    loop {
        let mut message = tokio::select! {
            // Steps before the end are still reported, as far as the rate allows.
            biased;
            event = heard.recv() => match event {
                Some(event) => {
                    is_waiting = event == Progress::AwaitsTurn;
                    described(&event)
                }
                None => return,
            },
            () = ended.cancelled() => return,
            _ = ticks.tick() => match started.elapsed().as_secs() {
                seconds if is_waiting => waiting(seconds),
                seconds => format!("running for {seconds} s"),
            },
        };
        if let Some(until) = limiter.wait(Instant::now()) {
            tokio::select! {
                biased;
                () = ended.cancelled() => return,
                () = sleep_until(until) => {}
            }
            while let Ok(newer) = heard.try_recv() {
                is_waiting = newer == Progress::AwaitsTurn;
                message = described(&newer);
            }
        }
        step += 1;
        if !send(step, message).await {
            return;
        }
    }
}

/// The words for a step.
pub(crate) fn described(event: &Progress) -> String {
    match event {
        Progress::AwaitsTurn => waiting(0),
        Progress::Repeats { run, all } => format!("running earlier run {run} of {all} again"),
        Progress::Started => "running".to_owned(),
        Progress::Call { tool, answered, made } => format!("{tool} {answered}/{made}"),
        Progress::AwaitsServer { server } => format!("waiting for {server} to start"),
        Progress::AwaitsTools { servers } => format!("waiting for the tools of {servers}"),
        Progress::OfServer { tool, said } => format!("{tool}: {said}"),
    }
}

fn waiting(seconds: u64) -> String {
    format!("waiting for the run before this one ({seconds} s)")
}

/// Allows a burst of messages, and then one message after each pause.
struct RateLimiter {
    left: u32,
    since: Instant,
}

impl RateLimiter {
    fn new(now: Instant) -> Self {
        Self { left: BURST, since: now }
    }

    /// Takes a turn. Returns the time of the turn; `None`: it is now.
    fn wait(&mut self, now: Instant) -> Option<Instant> {
        let pauses = now.saturating_duration_since(self.since).as_millis() / PACE.as_millis();
        let regained = u32::try_from(pauses).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(regained).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + PACE * regained };
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.since += PACE;
        Some(self.since)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::future::ready;
    use std::sync::Arc;

    use super::*;

    type SentProgress = Arc<Mutex<Vec<(u32, String)>>>;

    /// A running reporter: the channel to it, the messages that it has sent, and the token that ends it.
    fn reporter() -> (mpsc::Sender<Progress>, SentProgress, CancellationToken, tokio::task::JoinHandle<()>) {
        let (tell, mut heard) = mpsc::channel(64);
        let (said, ended): (SentProgress, _) = (Arc::default(), CancellationToken::new());
        let (sink, stop) = (Arc::clone(&said), ended.clone());
        let task = tokio::spawn(async move {
            report(&mut heard, stop, |step, message| {
                sink.lock().push((step, message));
                ready(true)
            })
            .await;
        });
        (tell, said, ended, task)
    }

    fn call(answered: usize, made: usize) -> Progress {
        Progress::Call { tool: "github.list_issues".into(), answered, made }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_tells_its_start_its_calls_and_every_ten_seconds_that_it_lives() {
        let (tell, said, ended, task) = reporter();
        tell.send(Progress::Started).await.unwrap();
        tell.send(call(3, 20)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(25)).await;
        ended.cancel();
        task.await.unwrap();
        let expected = ["running", "github.list_issues 3/20", "running for 10 s", "running for 20 s"];
        let expected: Vec<_> = (1..).zip(expected.map(str::to_owned)).collect();
        assert_eq!(*said.lock(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_waits_for_another_one_is_not_said_to_be_running() {
        let (tell, said, ended, task) = reporter();
        tell.send(Progress::AwaitsTurn).await.unwrap();
        tokio::time::sleep(Duration::from_secs(15)).await;
        tell.send(Progress::Started).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        ended.cancel();
        task.await.unwrap();
        let expected = [
            "waiting for the run before this one (0 s)",
            "waiting for the run before this one (10 s)",
            "running",
            "running for 20 s",
        ];
        let expected: Vec<_> = (1..).zip(expected.map(str::to_owned)).collect();
        assert_eq!(*said.lock(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_flood_of_calls_the_newest_state_is_told_a_few_times_a_second() {
        let (tell, said, ended, task) = reporter();
        for number in 0..10_000 {
            // As in the session, progress that does not fit is dropped.
            if tell.try_send(call(number, 10_000)).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::task::yield_now().await;
        }
        let flooded = said.lock().len();
        tokio::time::sleep(Duration::from_secs(5)).await;
        tell.send(call(10_000, 10_000)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        ended.cancel();
        task.await.unwrap();
        let said = said.lock();
        assert!((20..120).contains(&flooded), "{flooded}");
        assert_eq!(said.last().unwrap().1, "github.list_issues 10000/10000");
    }

    #[tokio::test(start_paused = true)]
    async fn after_its_burst_a_pace_is_one_turn_in_each_pause_and_a_rest_gives_the_burst_back() {
        let start = Instant::now();
        let mut limiter = RateLimiter::new(start);
        assert!((0..BURST).all(|_| limiter.wait(start).is_none()));
        assert_eq!(limiter.wait(start), Some(start + PACE));
        assert_eq!(limiter.wait(start + PACE), Some(start + PACE * 2));
        let later = start + PACE * 100;
        assert!((0..BURST).all(|_| limiter.wait(later).is_none()));
        assert_eq!(limiter.wait(later), Some(later + PACE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_more_is_told_no_more() {
        let (tell, mut heard) = mpsc::channel(4);
        tell.send(Progress::Started).await.unwrap();
        tell.send(call(0, 1)).await.unwrap();
        let mut said = 0;
        report(&mut heard, CancellationToken::new(), |_, _| {
            said += 1;
            ready(false)
        })
        .await;
        assert_eq!(said, 1);
    }
}
