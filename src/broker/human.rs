//! The way from a run's calls to the human: questions go to the client, which shows them.
//!
//! Code and the model cannot answer: what they send never comes here.

use std::num::NonZeroU32;

use tokio::sync::{mpsc, oneshot, watch};

use crate::policy::Pattern;

/// A question for the human.
#[derive(Debug)]
pub struct Question {
    /// What is asked, harmless to show.
    pub text: String,
    /// Takes the answer; dropped, there is none.
    pub reply: oneshot::Sender<Approval>,
}

/// What the human says.
#[derive(Debug, Clone, PartialEq)]
pub enum Approval {
    /// The call may pass.
    Once,
    /// It may, and so may further calls of this tool.
    Further {
        /// How many.
        calls: NonZeroU32,
        /// With such arguments, by path.
        arguments: Vec<(String, Pattern)>,
    },
    /// It may not.
    Denied,
    /// The human could not be asked.
    Unable {
        /// Why.
        reason: String,
    },
}

/// The human behind a run's client.
#[derive(Debug, Clone)]
pub struct Human {
    questions: mpsc::Sender<Question>,
    /// How many calls wait for an answer.
    waiting: watch::Sender<usize>,
}

impl Human {
    /// Questions go to the channel's other end, which shows one at a time.
    #[must_use]
    pub fn new(questions: mpsc::Sender<Question>) -> Self {
        Self { questions, waiting: watch::Sender::new(0) }
    }

    /// How many calls wait for an answer; the time that a run waits for a human does not count as its own.
    #[must_use]
    pub fn waiting(&self) -> watch::Receiver<usize> {
        self.waiting.subscribe()
    }

    /// One more call waits, until what this returns is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.send_modify(|count| *count += 1);
        Waiting(self)
    }

    /// The answer; `Unable` when there is none. Cancel-safe: a question that nobody waits for any more is not shown.
    pub(super) async fn ask(&self, text: String) -> Approval {
        let unable = || Approval::Unable { reason: "the client has not answered".into() };
        let (reply, answer) = oneshot::channel();
        match self.questions.send(Question { text, reply }).await {
            Ok(()) => answer.await.unwrap_or_else(|_| unable()),
            Err(_) => Approval::Unable { reason: "nobody can be asked here".into() },
        }
    }
}

/// A call that waits.
pub(super) struct Waiting<'h>(&'h Human);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|count| *count -= 1);
    }
}
