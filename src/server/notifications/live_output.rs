//! Sends a run's output as log messages while the run lasts, to a client that has set a log level.
//!
//! It is a preview, bounded in rate and length; the reply has the whole output.

use std::time::Duration;

use belljar_base::run::OutputPiece;
use belljar_base::text;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The pause between two messages.
const PAUSE: Duration = Duration::from_millis(250);
/// Longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 4_000;
/// The largest amount of output that one run sends, in characters.
const RUN_CHARS_MAX: usize = 64_000;
const LAST_WORDS: &str = "… further output is in the reply alone …";

/// Sends the output, until the run has ended and everything was sent, or the client accepts no more.
pub(crate) async fn report<Sent: Future<Output = bool>>(
    heard: &mut mpsc::Receiver<OutputPiece>,
    ended: CancellationToken,
    mut send: impl FnMut(OutputPiece) -> Sent,
) {
    let mut left = RUN_CHARS_MAX;
    loop {
        let first = tokio::select! {
            biased;
            piece = heard.recv() => piece,
            () = ended.cancelled() => return,
        };
        let Some(first) = first else { return };
        for piece in collected(first, heard) {
            let message = bounded(piece, &mut left);
            if !send(message).await || left == 0 {
                return;
            }
        }
        tokio::select! {
            biased;
            () = ended.cancelled() => {}
            () = sleep(PAUSE) => {}
        }
    }
}

/// The pending output, joined to one piece for each stream. Only the reply keeps the order of both streams.
fn collected(first: OutputPiece, heard: &mut mpsc::Receiver<OutputPiece>) -> Vec<OutputPiece> {
    let mut pieces = vec![first];
    while let Ok(next) = heard.try_recv() {
        match pieces.iter_mut().find(|piece| piece.stream == next.stream) {
            Some(piece) => piece.text.push_str(&next.text),
            None => pieces.push(next),
        }
    }
    pieces
}

/// One message within its own bound and that of the run. The last one says that no more follow.
fn bounded(piece: OutputPiece, left: &mut usize) -> OutputPiece {
    let text = text::bounded(&text::inert(&piece.text), MESSAGE_CHARS_MAX).into_owned();
    let text = match left.checked_sub(text.chars().count()) {
        Some(rest) if rest > 0 => {
            *left = rest;
            text
        }
        _ => {
            *left = 0;
            LAST_WORDS.to_owned()
        }
    };
    OutputPiece { stream: piece.stream, text }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use belljar_base::run::OutputStream::{self, Stderr, Stdout};
    use tokio::time::Instant;

    use super::*;

    fn piece(stream: OutputStream, text: &str) -> OutputPiece {
        OutputPiece { stream, text: text.into() }
    }

    /// Reports the pieces that `tell` sends, and returns the messages.
    async fn sent(tell: impl AsyncFnOnce(mpsc::Sender<OutputPiece>)) -> Vec<OutputPiece> {
        let (write, mut heard) = mpsc::channel(64);
        let ended = CancellationToken::new();
        let mut sent = Vec::new();
        let reported = report(&mut heard, ended.clone(), |piece| {
            sent.push(piece);
            ready(true)
        });
        let told = async {
            tell(write).await;
            ended.cancel();
        };
        tokio::join!(reported, told);
        sent
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_within_a_pause_is_one_message_for_each_stream_and_nothing_is_lost() {
        let started = Instant::now();
        let sent = sent(async |write| {
            for text in ["a", "b", "c\u{1b}"] {
                write.send(piece(Stdout, text)).await.unwrap();
                write.send(piece(Stderr, text)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let expected =
            [piece(Stdout, "a"), piece(Stderr, "a"), piece(Stdout, "bc\\x1b"), piece(Stderr, "bc\\x1b")];
        assert_eq!(sent, expected);
        assert!(started.elapsed() < PAUSE, "the end of the run is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_bounded_in_pace_and_length_and_its_end_is_said() {
        let sent = sent(async |write| {
            for _ in 0..1_000 {
                write.try_send(piece(Stdout, &"x".repeat(3_000))).ok();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let chars: usize = sent.iter().map(|piece| piece.text.chars().count()).sum();
        assert!(sent.iter().all(|piece| piece.text.chars().count() <= MESSAGE_CHARS_MAX));
        assert!(
            (RUN_CHARS_MAX - MESSAGE_CHARS_MAX..=RUN_CHARS_MAX + LAST_WORDS.len()).contains(&chars),
            "{chars}"
        );
        assert_eq!(sent.last().unwrap().text, LAST_WORDS);
    }
}
