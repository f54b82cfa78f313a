//! Passes a server's progress messages on to the run's client: short ones, a few times a second.
//!
//! Whether and how the client shows them is decided elsewhere.

use std::time::Duration;

use belljar_base::run::Progress;
use belljar_base::text;
use belljar_upstream::ProgressUpdate;
use tokio::sync::watch::error::RecvError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// The shortest time between two messages of one call. Of the messages in between, the last one is sent.
const PAUSE: Duration = Duration::from_millis(250);
/// Longest text of a server, in characters.
const SAID_CHARS_MAX: usize = 200;

/// Passes the progress of one call on to the client of its run.
pub(crate) struct ProgressRelay<'c> {
    /// `server.tool`, harmless to show.
    pub(crate) tool: String,
    /// Removes the secrets of the server from a text.
    pub(crate) redacted: &'c (dyn Fn(String) -> String + Sync),
    /// Receives the progress.
    pub(crate) progress: &'c mpsc::Sender<Progress>,
}

impl ProgressRelay<'_> {
    /// Passes on progress until the answer has come, and returns the answer.
    pub(crate) async fn until<Answer>(
        &self,
        answering: impl Future<Output = Answer>,
        mut heard: watch::Receiver<Option<ProgressUpdate>>,
    ) -> Answer {
        let mut answering = std::pin::pin!(answering);
        let mut next = None;
        loop {
            let said = async {
                heard.changed().await?;
                // A call without progress, as most are, needs no timer.
                if let Some(next) = next {
                    sleep_until(next).await;
                }
                Ok::<_, RecvError>(())
            };
            tokio::select! {
                biased;
                answer = &mut answering => return answer,
                said = said => match said {
                    Ok(()) => next = Some(Instant::now() + PAUSE),
                    // Nobody follows the call's progress.
                    Err(_) => return answering.await,
                },
            }
            let advance = heard.borrow_and_update().clone();
            let Some(said) = advance.map(|advance| self.said(&advance)) else { continue };
            if self.progress.try_send(Progress::OfServer { tool: self.tool.clone(), said }).is_err() {
                tracing::trace!("progress that nobody has read yet is left out");
            }
        }
    }

    fn said(&self, ProgressUpdate { progress, total, message }: &ProgressUpdate) -> String {
        let of = total.map(|total| format!("/{total}")).unwrap_or_default();
        let message = (self.redacted)(message.clone().unwrap_or_default());
        text::inert_excerpt(&format!("{progress}{of} {message}"), SAID_CHARS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advance(progress: f64, message: Option<&str>) -> Option<ProgressUpdate> {
        Some(ProgressUpdate { progress, total: Some(1000.0), message: message.map(str::to_owned) })
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_progress_is_its_newest_state_a_few_times_a_second_and_never_holds_up_the_answer() {
        let (progress, mut received) = mpsc::channel(64);
        let (hears, heard) = watch::channel(None);
        let redacted = |text: String| text.replace("hunter22", "[TOKEN]");
        let of = ProgressRelay { tool: "fixture.slow".into(), redacted: &redacted, progress: &progress };
        let answering = async {
            for step in 0..1_000 {
                hears.send_replace(advance(f64::from(step), Some("with hunter22\u{1b}[2J\n")));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            7
        };
        assert_eq!(of.until(answering, heard).await, 7);
        let mut said = Vec::new();
        while let Ok(Progress::OfServer { tool, said: words }) = received.try_recv() {
            assert_eq!(tool, "fixture.slow");
            said.push(words);
        }
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!(said[0], "0/1000 with [TOKEN]\\x1b[2J");
        assert!(said[3].starts_with("7"), "{said:?}");
    }

    #[tokio::test]
    async fn words_are_bounded_and_numbers_as_the_server_has_them() {
        let (progress, _heard) = mpsc::channel(1);
        let of = ProgressRelay { tool: "t".into(), redacted: &|text| text, progress: &progress };
        let said = |progress, total| of.said(&ProgressUpdate { progress, total, message: None });
        assert_eq!(said(0.5, None), "0.5");
        assert_eq!(said(3.0, Some(10.0)), "3/10");
        assert_eq!(said(1e300, Some(1e300)).chars().count(), SAID_CHARS_MAX);
    }
}
