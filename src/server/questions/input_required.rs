//! Runs of clients that accept no requests (MCP 2026-07-28). A question is the result of their own request, and they
//! repeat that request with the answer of the human. The run waits meanwhile.
//!
//! It decides nothing: the broker decides what is asked, and what an answer allows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar_base::run::{OutputPiece, Progress, RunReport, ToolFault};
use belljar_upstream::{QuestionError, QuestionKind};
use parking_lot::Mutex;
use rmcp::model::{
    ElicitResult, ErrorData, InputRequest, InputRequiredResult, InputResponses, ServerRequest,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{approvals, forward};
use crate::broker::{Approval, ApprovalForm, Question};

/// The name of the only question of a round.
const QUESTION: &str = "question";
/// The largest number of runs that wait for their client; beyond it, the oldest is given up.
const WAITING_MAX: usize = 16;

/// The result of a run.
pub(crate) type RunResult = Result<Result<RunReport, ToolFault>, JoinError>;

/// A run that has not ended. Dropping it cancels the run.
pub(crate) struct ActiveRun {
    pub(crate) run: JoinHandle<Result<RunReport, ToolFault>>,
    pub(crate) asked: mpsc::Receiver<Question>,
    pub(crate) cancel: DropGuard,
    /// Whether its client shows forms.
    pub(crate) shows_forms: bool,
    /// The receivers of its progress and output.
    pub(crate) streams: RunStreams,
    /// The arguments of its request.
    pub(crate) arguments: Map<String, Value>,
}

/// The progress and the output of a run, as far as the client wants them.
#[derive(Default)]
pub(crate) struct RunStreams {
    pub(crate) progress: Option<mpsc::Receiver<Progress>>,
    pub(crate) output: Option<mpsc::Receiver<OutputPiece>>,
}

/// The outcome of one request of the client.
pub(crate) enum RequestOutcome {
    Ended(Box<RunResult>),
    Asks(Box<PausedRun>),
    /// The run continues for longer than the request can wait.
    Lasts(Box<ActiveRun>),
}

impl RequestOutcome {
    /// The run; `None`: it has ended.
    pub(crate) fn run(&mut self) -> Option<&mut ActiveRun> {
        match self {
            Self::Ended(_) => None,
            Self::Asks(paused) => Some(&mut paused.run),
            Self::Lasts(run) => Some(run),
        }
    }
}

/// A run that waits for the answer to a question.
pub(crate) struct PausedRun {
    pub(crate) question: InputRequest,
    open: AnswerSender,
    run: ActiveRun,
}

/// The runs that wait until their client repeats the request with an answer.
#[derive(Default)]
pub(crate) struct PausedRuns {
    waiting: Mutex<VecDeque<StoredRun>>,
    made: AtomicU64,
}

/// A paused run, with the state by which its client names it.
struct StoredRun {
    state: String,
    paused: PausedRun,
}

/// The channel for the answer to a question.
enum AnswerSender {
    Approval(ApprovalForm, oneshot::Sender<Approval>),
    OfServer(QuestionKind, oneshot::Sender<Result<Value, QuestionError>>),
}

/// Waits until the run has ended, asks something, or takes longer than `patience`. A cancelled request cancels the run.
pub(crate) async fn outcome(
    mut run: ActiveRun,
    request: &CancellationToken,
    patience: Duration,
) -> RequestOutcome {
    let over = tokio::time::sleep(patience);
    tokio::pin!(over);
    loop {
        tokio::select! {
            ended = &mut run.run => return RequestOutcome::Ended(Box::new(ended)),
            Some(question) = run.asked.recv() => match opened(question, run.shows_forms) {
                Ok((question, open)) => return RequestOutcome::Asks(Box::new(PausedRun { question, open, run })),
                Err(UnsupportedQuestion) => tracing::debug!("a question that no client could be asked"),
            },
            () = request.cancelled() => {
                drop(run.cancel);
                return RequestOutcome::Ended(Box::new(run.run.await));
            }
            () = &mut over => return RequestOutcome::Lasts(Box::new(run)),
        }
    }
}

impl PausedRun {
    /// Returns when the answer is no longer awaited.
    pub(crate) async fn withdrawn(&mut self) {
        match &mut self.open {
            AnswerSender::Approval(_, reply) => reply.closed().await,
            AnswerSender::OfServer(_, reply) => reply.closed().await,
        }
    }

    /// Passes on the client's response, if there is one, and returns the run.
    pub(crate) fn answered(self, response: Option<Value>) -> ActiveRun {
        self.open.answer(response);
        self.run
    }
}

impl PausedRuns {
    /// Stores a paused run. Returns its question, with the state by which the client names the run.
    pub(crate) fn wait(&self, paused: PausedRun) -> InputRequiredResult {
        let question = paused.question.clone();
        let state = format!("run-{}", self.made.fetch_add(1, Ordering::Relaxed) + 1);
        let mut waiting = self.waiting.lock();
        waiting.push_back(StoredRun { state: state.clone(), paused });
        if waiting.len() > WAITING_MAX {
            waiting.pop_front();
        }
        InputRequiredResult::new(Some(BTreeMap::from([(QUESTION.to_owned(), question)])), Some(state))
    }

    /// Gives up all paused runs: a client that requests another run does not return to them, and runs behind them would
    /// wait for the whole time limit.
    pub(crate) fn give_up(&self) {
        self.waiting.lock().clear();
    }

    /// Takes the paused run with this state, and passes on the client's answer.
    ///
    /// # Errors
    /// There is no such run, or its request had other arguments.
    pub(crate) fn resumed(
        &self,
        state: &str,
        arguments: &Map<String, Value>,
        responses: Option<InputResponses>,
    ) -> Result<ActiveRun, ErrorData> {
        let mut waiting = self.waiting.lock();
        let at = waiting.iter().position(|waiting| waiting.state == state);
        let is_it = |at: &usize| waiting[*at].paused.run.arguments == *arguments;
        let Some(StoredRun { paused, .. }) = at.filter(is_it).and_then(|at| waiting.remove(at)) else {
            let message = match at {
                Some(_) => "the request is not the one that this requestState was given for",
                None => "no run waits under this requestState; make the request without one",
            };
            return Err(ErrorData::invalid_params(message, None));
        };
        Ok(paused.answered(responses.and_then(|mut responses| responses.remove(QUESTION))))
    }
}

/// A question of a kind that the client does not support.
struct UnsupportedQuestion;

fn opened(
    question: Question,
    shows_forms: bool,
) -> Result<(InputRequest, AnswerSender), UnsupportedQuestion> {
    match question {
        Question::Approval { reply, .. } if !shows_forms => {
            drop(reply.send(approvals::not_declared()));
            Err(UnsupportedQuestion)
        }
        Question::Approval { text, form, reply } => Ok((
            InputRequest::Elicitation(approvals::request(text, form)),
            AnswerSender::Approval(form, reply),
        )),
        Question::OfServer { kind, params, reply } => {
            let asked = match forward::request(kind, params) {
                Ok(ServerRequest::ElicitRequest(request)) => InputRequest::Elicitation(request),
                Ok(ServerRequest::CreateMessageRequest(request)) => InputRequest::CreateMessage(request),
                // Dropping the sender tells the asker that there is no answer.
                Ok(_) | Err(_) => return Err(UnsupportedQuestion),
            };
            Ok((asked, AnswerSender::OfServer(kind, reply)))
        }
    }
}

impl AnswerSender {
    /// Passes on the client's response, if there is one. The asker may be gone.
    fn answer(self, response: Option<Value>) {
        let is_taken = match self {
            Self::Approval(form, reply) => {
                let read = response.and_then(|response| ElicitResult::deserialize(response).ok());
                let approval = match read {
                    Some(result) => approvals::approval(form, &result),
                    None => Approval::missing("the client has not answered"),
                };
                reply.send(approval).is_ok()
            }
            Self::OfServer(kind, reply) => {
                let none = || QuestionError { code: None, message: forward::wrong_answer(kind) };
                let read = response.filter(|response| forward::is_answer(kind, response));
                reply.send(read.ok_or_else(none)).is_ok()
            }
        };
        if !is_taken {
            tracing::debug!("nobody waits for the answer any more");
        }
    }
}
