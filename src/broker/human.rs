//! The connection from a run to the human behind its client: questions go to the client, which shows them.
//!
//! Code and the model cannot answer: nothing that they send reaches this module. A server's question and one of
//! belljar's have different types, so that an answer to one can never count for the other.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar_base::run::ClientAbilities;
use belljar_tools::policy::Pattern;
use belljar_upstream::{Clock, QuestionError, QuestionKind};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// A question for the human, or their client.
#[derive(Debug)]
pub enum Question {
    /// The question whether a call is allowed.
    Approval {
        /// The text of the question, harmless to show.
        text: String,
        /// The form below the text.
        form: ApprovalForm,
        /// Receives the answer. If it is dropped, there is no answer.
        reply: oneshot::Sender<Approval>,
    },
    /// A question of a server, or a request of code to the client's model.
    OfServer {
        /// The kind of the request.
        kind: QuestionKind,
        /// The parameters of the request, harmless to show.
        params: Value,
        /// Receives the client's result. If it is dropped, there is no result.
        reply: oneshot::Sender<Result<Value, QuestionError>>,
    },
}

/// What the human is asked to fill in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalForm {
    /// The decision on a call.
    Decision,
    /// The arguments that further calls must have.
    Arguments,
}

/// The decision of the human on a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Approval {
    /// This call is allowed.
    Once,
    /// This call and further calls of the tool are allowed.
    Further {
        /// The number of further calls.
        calls: NonZeroU32,
        /// The arguments that these must have: patterns by path.
        arguments: Vec<(String, Pattern)>,
    },
    /// This call is allowed, and further calls with arguments that the human is asked for next.
    Narrowed,
    /// The call is not allowed: the human refused, or has not answered.
    Missing {
        /// The reason, after "the user has to be asked, and".
        reason: String,
    },
}

/// The human behind a run's client.
#[derive(Debug, Clone)]
pub struct Human {
    questions: mpsc::Sender<Question>,
    /// The abilities of the client that servers and code may use.
    pub(crate) abilities: ClientAbilities,
    /// The number of servers' requests in this run.
    asked_by_servers: Arc<AtomicUsize>,
    waits: watch::Sender<HumanWaits>,
    /// The reason to give when questions are no longer received.
    nobody: &'static str,
}

/// The time that a run has waited for the human, which does not count as time of the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct HumanWaits {
    /// The number of questions that wait for an answer.
    questions: usize,
    /// The start of the present wait.
    since: Option<Instant>,
    /// The duration of all earlier waits together.
    before: Duration,
}

impl Approval {
    /// No approval, for this reason.
    #[must_use]
    pub fn missing(reason: &str) -> Self {
        Self::Missing { reason: reason.to_owned() }
    }
}

impl HumanWaits {
    /// Whether any question waits for an answer now.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// The duration of all waits until now.
    fn in_all(&self) -> Duration {
        self.before + self.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl Human {
    /// A human who receives questions through this channel. The client shows one at a time.
    #[must_use]
    pub fn new(questions: mpsc::Sender<Question>, abilities: ClientAbilities) -> Self {
        Self {
            questions,
            abilities,
            asked_by_servers: Arc::default(),
            waits: watch::Sender::default(),
            nobody: "nobody can be asked here",
        }
    }

    /// This human for a job. After the end of the run that started the job, the human gets no questions of the job.
    #[must_use]
    pub fn of_job(&self) -> Self {
        Self {
            nobody: "the run that started this job has ended, so that nobody can be asked",
            ..self.clone()
        }
    }

    /// The waits for this human, as they change.
    #[must_use]
    pub fn waits(&self) -> watch::Receiver<HumanWaits> {
        self.waits.subscribe()
    }

    /// How long a question may wait: at most `answer_max`, and no longer than `waiting_max` for all questions of the
    /// run.
    ///
    /// # Errors
    /// The reason why no question may wait: the run has used up `waiting_max`.
    pub(super) fn time_to_answer(
        &self,
        answer_max: Duration,
        waiting_max: Duration,
    ) -> Result<Duration, String> {
        let left = waiting_max.saturating_sub(self.waits.borrow().in_all());
        if left.is_zero() {
            let all = waiting_max.as_secs();
            return Err(format!(
                "this run has waited {all} s for answers of the user, which is all that it may"
            ));
        }
        Ok(answer_max.min(left))
    }

    /// A deadline that is extended by every wait for this human from now on.
    pub(super) fn until(&self, deadline: Instant) -> HumanDeadline<'_> {
        HumanDeadline { human: self, deadline, passed: self.waits.borrow().in_all() }
    }

    /// Counts a wait for the human, until the returned value is dropped.
    pub(super) fn wait(&self) -> HumanWait<'_> {
        self.waits.send_modify(|waits| {
            waits.questions += 1;
            waits.since.get_or_insert_with(Instant::now);
        });
        HumanWait(self)
    }

    /// Asks the human about a call, and about the arguments of further calls if the human wants that. Cancel-safe: a
    /// question whose future was dropped is not shown.
    pub(super) async fn ask(&self, text: String) -> Approval {
        match self.fill_in(text.clone(), ApprovalForm::Decision).await {
            Approval::Narrowed => self.fill_in(text, ApprovalForm::Arguments).await,
            approval => approval,
        }
    }

    async fn fill_in(&self, text: String, form: ApprovalForm) -> Approval {
        let (reply, answer) = oneshot::channel();
        match self.questions.send(Question::Approval { text, form, reply }).await {
            Ok(()) => answer.await.unwrap_or_else(|_| Approval::missing("the client has not answered")),
            Err(_) => Approval::missing(self.nobody),
        }
    }

    /// Whether the run of this client is over, so that questions are no longer received.
    pub(super) fn is_gone(&self) -> bool {
        self.questions.is_closed()
    }

    /// Counts another request of a server in this run, and returns its number.
    pub(super) fn count_of_servers(&self) -> usize {
        self.asked_by_servers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Passes a request to the client and returns its result. Cancel-safe, as [`Self::ask`].
    pub(super) async fn pass_on(&self, kind: QuestionKind, params: Value) -> Result<Value, QuestionError> {
        let none = |message: &str| QuestionError { code: None, message: message.to_owned() };
        let (reply, answer) = oneshot::channel();
        let question = Question::OfServer { kind, params, reply };
        self.questions.send(question).await.map_err(|_| none("nobody can be asked here"))?;
        answer.await.unwrap_or_else(|_| Err(none("the client has not answered")))
    }
}

/// A deadline that moves on while the human is waited for.
pub(super) struct HumanDeadline<'h> {
    human: &'h Human,
    deadline: Instant,
    /// The duration of all waits at the time when the deadline was set.
    passed: Duration,
}

impl HumanDeadline<'_> {
    /// The deadline, if no further wait extends it.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline + (self.human.waits.borrow().in_all() - self.passed)
    }
}

impl Clock for HumanDeadline<'_> {
    async fn over(&self) {
        let mut waits = self.human.waits();
        loop {
            let now = *waits.borrow_and_update();
            let due = self.deadline + (now.in_all() - self.passed);
            tokio::select! {
                () = sleep_until(due), if !now.is_waiting() => return,
                // The sender lives as long as the borrowed human.
                _ = waits.changed() => {}
            }
        }
    }

    fn left(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    async fn passed(&self, time: Duration) {
        self.human.until(Instant::now() + time).over().await;
    }
}

/// A wait for the human that lasts until this value is dropped.
pub(super) struct HumanWait<'h>(&'h Human);

impl Drop for HumanWait<'_> {
    fn drop(&mut self) {
        self.0.waits.send_modify(|waits| {
            waits.questions -= 1;
            if waits.questions == 0
                && let Some(since) = waits.since.take()
            {
                waits.before += since.elapsed();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_stands_still_while_a_human_is_waited_for_however_many_wait() {
        let human = Human::new(mpsc::channel(1).0, ClientAbilities::default());
        let earlier = human.wait();
        tokio::time::sleep(Duration::from_secs(7)).await;
        drop(earlier);
        let began = Instant::now();
        let until = human.until(began + Duration::from_secs(5));
        let waiting = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let first = human.wait();
            tokio::time::sleep(Duration::from_secs(20)).await;
            let second = human.wait();
            drop(first);
            tokio::time::sleep(Duration::from_secs(20)).await;
            drop(second);
        };
        tokio::join!(until.over(), waiting);
        assert_eq!((began.elapsed().as_secs(), until.deadline() - began), (45, Duration::from_secs(45)));
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_wait_that_has_begun_before_only_the_rest_does_not_count() {
        let human = Human::new(mpsc::channel(1).0, ClientAbilities::default());
        let earlier = human.wait();
        tokio::time::sleep(Duration::from_secs(7)).await;
        let began = Instant::now();
        let until = human.until(began + Duration::from_secs(3_600));
        let waiting = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            drop(earlier);
        };
        tokio::join!(until.passed(Duration::from_secs(2)), waiting);
        assert_eq!((began.elapsed().as_secs(), until.deadline() - began), (6, Duration::from_secs(3_604)));
    }
}
