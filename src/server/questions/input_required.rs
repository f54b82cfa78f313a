//! Runs of clients that take no requests (MCP 2026-07-28): a question comes to them as the answer to theirs, and they make
//! their request again with what the human says. The run waits meanwhile, and stays the same one.
//!
//! It decides nothing: what is asked, and what an answer is good for, is the broker's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ElicitResult, ErrorData, InputRequest, InputRequiredResult, InputResponses, ServerRequest,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{approvals, forward};
use crate::broker::{Approval, Question};
use crate::run::{OutputPiece, Progress, RunReport, ToolFault};
use crate::upstream::{Asks, NotAnswered};

/// The name of the one question of a round.
const QUESTION: &str = "question";
/// Runs that may wait for their client; of more, the oldest is given up.
const WAITING_MAX: usize = 16;

/// What has become of a run.
pub(in crate::server) type Ended = Result<Result<RunReport, ToolFault>, JoinError>;

/// A run, which is cancelled when nobody can ask for it any more.
pub(in crate::server) struct UnderWay {
    pub(in crate::server) run: JoinHandle<Result<RunReport, ToolFault>>,
    pub(in crate::server) asked: mpsc::Receiver<Question>,
    pub(in crate::server) cancel: DropGuard,
    /// Whether its client shows forms.
    pub(in crate::server) shows_forms: bool,
    /// What there is to be told of it.
    pub(in crate::server) heard: Heard,
    /// What it was asked for with.
    pub(in crate::server) arguments: Map<String, Value>,
}

/// Where a run tells how it goes on, as far as anybody wants to know.
#[derive(Default)]
pub(in crate::server) struct Heard {
    pub(in crate::server) progress: Option<mpsc::Receiver<Progress>>,
    pub(in crate::server) output: Option<mpsc::Receiver<OutputPiece>>,
}

/// What one request of the client comes to.
pub(in crate::server) enum Turn {
    Ended(Box<Ended>),
    Asks(Box<Asking>),
    /// It goes on, for longer than the request can wait.
    Lasts(Box<UnderWay>),
}

impl Turn {
    /// The run, where it has not ended.
    pub(in crate::server) fn run(&mut self) -> Option<&mut UnderWay> {
        match self {
            Self::Ended(_) => None,
            Self::Asks(asking) => Some(&mut asking.run),
            Self::Lasts(run) => Some(run),
        }
    }
}

/// A run that asks something.
pub(in crate::server) struct Asking {
    pub(in crate::server) question: InputRequest,
    open: Open,
    run: UnderWay,
}

/// The runs that wait for their client.
#[derive(Default)]
pub(in crate::server) struct Rounds {
    waiting: Mutex<VecDeque<Waiting>>,
    made: AtomicU64,
}

struct Waiting {
    state: String,
    asking: Asking,
}

/// Takes the answer to the question.
enum Open {
    Approval(oneshot::Sender<Approval>),
    OfServer(Asks, oneshot::Sender<Result<Value, NotAnswered>>),
}

/// Until the run has ended, asks something, or lasts longer than this. A cancelled request cancels it.
pub(in crate::server) async fn turn(
    mut run: UnderWay,
    request: &CancellationToken,
    patience: Duration,
) -> Turn {
    let over = tokio::time::sleep(patience);
    tokio::pin!(over);
    loop {
        tokio::select! {
            ended = &mut run.run => return Turn::Ended(Box::new(ended)),
            Some(question) = run.asked.recv() => match opened(question, run.shows_forms) {
                Ok((question, open)) => return Turn::Asks(Box::new(Asking { question, open, run })),
                Err(Unasked) => tracing::debug!("a question that no client could be asked"),
            },
            () = request.cancelled() => {
                drop(run.cancel);
                return Turn::Ended(Box::new(run.run.await));
            }
            () = &mut over => return Turn::Lasts(Box::new(run)),
        }
    }
}

impl Asking {
    /// Until nobody waits for the answer any more.
    pub(in crate::server) async fn withdrawn(&mut self) {
        match &mut self.open {
            Open::Approval(reply) => reply.closed().await,
            Open::OfServer(_, reply) => reply.closed().await,
        }
    }

    /// The run, which has been given what the client says, if it says anything.
    pub(in crate::server) fn answered(self, response: Option<Value>) -> UnderWay {
        self.open.answer(response);
        self.run
    }
}

impl Rounds {
    /// The question, and the state under which the run waits for its answer.
    pub(in crate::server) fn wait(&self, asking: Asking) -> InputRequiredResult {
        let question = asking.question.clone();
        let state = format!("run-{}", self.made.fetch_add(1, Ordering::Relaxed) + 1);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(Waiting { state: state.clone(), asking });
        if waiting.len() > WAITING_MAX {
            waiting.pop_front();
        }
        InputRequiredResult::new(Some(BTreeMap::from([(QUESTION.to_owned(), question)])), Some(state))
    }

    /// Gives up the runs that wait: a client that asks for another one does not come back for them, and those behind them
    /// would wait as long as they may.
    pub(in crate::server) fn give_up(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The run that this state stands for, which has been given the client's answer.
    ///
    /// # Errors
    /// When there is none, or the request is another one.
    pub(in crate::server) fn resumed(
        &self,
        state: &str,
        arguments: &Map<String, Value>,
        responses: Option<InputResponses>,
    ) -> Result<UnderWay, ErrorData> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let at = waiting.iter().position(|waiting| waiting.state == state);
        let is_it = |at: &usize| waiting[*at].asking.run.arguments == *arguments;
        let Some(Waiting { asking, .. }) = at.filter(is_it).and_then(|at| waiting.remove(at)) else {
            let message = match at {
                Some(_) => "the request is not the one that this requestState was given for",
                None => "no run waits under this requestState; make the request without one",
            };
            return Err(ErrorData::invalid_params(message, None));
        };
        Ok(asking.answered(responses.and_then(|mut responses| responses.remove(QUESTION))))
    }
}

struct Unasked;

fn opened(question: Question, shows_forms: bool) -> Result<(InputRequest, Open), Unasked> {
    match question {
        Question::Approval { reply, .. } if !shows_forms => {
            drop(reply.send(approvals::not_declared()));
            Err(Unasked)
        }
        Question::Approval { text, reply } => {
            Ok((InputRequest::Elicitation(approvals::request(text)), Open::Approval(reply)))
        }
        Question::OfServer { asks, params, reply } => {
            let asked = match forward::request(asks, params) {
                Ok(ServerRequest::ElicitRequest(request)) => InputRequest::Elicitation(request),
                Ok(ServerRequest::CreateMessageRequest(request)) => InputRequest::CreateMessage(request),
                // Without its sender, whoever waits knows that there is no answer.
                Ok(_) | Err(_) => return Err(Unasked),
            };
            Ok((asked, Open::OfServer(asks, reply)))
        }
    }
}

impl Open {
    /// What the client says, if it says anything. Nobody may wait for it any more.
    fn answer(self, response: Option<Value>) {
        let is_taken = match self {
            Self::Approval(reply) => {
                let read = response.and_then(|response| ElicitResult::deserialize(response).ok());
                let unable = || Approval::Unable { reason: "the client has not answered".into() };
                reply.send(read.as_ref().map_or_else(unable, approvals::approval)).is_ok()
            }
            Self::OfServer(asks, reply) => {
                let none = || NotAnswered { code: None, message: "the client's answer is none".into() };
                let read = response.filter(|response| forward::is_answer(asks, response));
                reply.send(read.ok_or_else(none)).is_ok()
            }
        };
        if !is_taken {
            tracing::debug!("nobody waits for the answer any more");
        }
    }
}
