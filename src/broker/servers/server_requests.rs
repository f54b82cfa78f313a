//! What servers ask of the human while code calls them: passed on to the run's client, marked as theirs, or refused.
//!
//! A server is heard only while a call of a run is under way at it. What it asks for is never the approval of a call, and
//! neither code nor the model takes part.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::request_text::shown;
use crate::audit::{CallEvent, Event, Log, ServerLog};
use crate::broker::human::Human;
use crate::broker::record::audit::LoggedArguments;
use crate::broker::run::context::RunContext;
use crate::limits::Limits;
use crate::names::{RunId, ServerName};
use crate::text;
use crate::upstream::{Asked, Asks, Heard, NotAnswered, Said, Upstream};

/// Questions that are worked on at once; they reach the human one by one.
const AT_ONCE_MAX: usize = 64;
/// Longest text of a client's error that is passed on, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// Who may ask whom now.
pub(in crate::broker) struct ServersAsk {
    under_way: Mutex<BTreeMap<ServerName, UnderWay>>,
    answer_max: Duration,
    waiting_max: Duration,
    per_run_max: usize,
}

/// Calls of one run at one server.
#[derive(Clone)]
struct UnderWay {
    run: RunId,
    human: Human,
    calls: usize,
    /// Cancelled with the last of them.
    over: CancellationToken,
}

/// A call is under way until this is dropped.
pub(in crate::broker) struct Calling<'a> {
    ask: &'a ServersAsk,
    server: ServerName,
    run: RunId,
}

/// The task that hears the servers.
pub(in crate::broker) struct Listening {
    ending: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What it needs.
pub(in crate::broker) struct Ears {
    pub(in crate::broker) ask: Arc<ServersAsk>,
    pub(in crate::broker) upstream: Arc<Upstream>,
    pub(in crate::broker) log: Arc<Log>,
    pub(in crate::broker) logged: LoggedArguments,
    pub(in crate::broker) words: ServerLog,
}

impl ServersAsk {
    pub(in crate::broker) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            under_way: Mutex::default(),
            answer_max: limits.approval,
            waiting_max: limits.waiting_per_run,
            per_run_max: limits.server_requests_per_run_max,
        })
    }

    /// A call of the run begins: what the server asks meanwhile goes to its human. A job has none: mostly its run has ended,
    /// and another run may be calling the same server.
    pub(in crate::broker) fn calling(&self, server: &ServerName, run: &RunContext) -> Option<Calling<'_>> {
        if run.job_number().is_some() {
            return None;
        }
        let (run, human) = (run.id, &run.human);
        let mut under_way = self.under_way();
        if let Some(same) = under_way.get_mut(server).filter(|earlier| earlier.run == run) {
            same.calls += 1;
        } else {
            let over = CancellationToken::new();
            let now = UnderWay { run, human: human.clone(), calls: 1, over };
            if let Some(earlier) = under_way.insert(server.clone(), now) {
                earlier.over.cancel();
            }
        }
        drop(under_way);
        Some(Calling { ask: self, server: server.clone(), run })
    }

    /// The client's answer to a server.
    async fn answer(
        &self,
        server: &ServerName,
        asks: Asks,
        params: &Value,
    ) -> (RunId, Result<Value, NotAnswered>) {
        let none = |message: String| Err(NotAnswered { code: None, message });
        let Some(UnderWay { run, human, over, .. }) = self.under_way().get(server).cloned() else {
            return (RunId(0), none("no call of a run is under way at this server".into()));
        };
        let can = match asks {
            Asks::Elicitation => human.abilities.elicitation,
            Asks::Sampling => human.abilities.sampling,
        };
        if !can {
            return (run, none("the client of this run does not offer it".into()));
        }
        if human.count_of_servers() > self.per_run_max {
            return (run, none(format!("servers may ask {} times in a run", self.per_run_max)));
        }
        let params = match shown(server, asks, params) {
            Ok(params) => params,
            Err(reason) => return (run, none(reason)),
        };
        let time = match human.time_to_answer(self.answer_max, self.waiting_max) {
            Ok(time) => time,
            Err(reason) => return (run, none(reason)),
        };
        let _waiting = human.wait();
        let asking = tokio::time::timeout(time, human.pass_on(asks, params));
        let answer = tokio::select! {
            answer = asking => answer.unwrap_or_else(|_| none("the user has not answered".into())),
            () = over.cancelled() => none("the call that it was asked in has ended".into()),
        };
        (run, answer)
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeMap<ServerName, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        let mut under_way = self.ask.under_way();
        let Some(now) = under_way.get_mut(&self.server).filter(|now| now.run == self.run) else { return };
        now.calls -= 1;
        if now.calls == 0 {
            now.over.cancel();
            under_way.remove(&self.server);
        }
    }
}

impl Listening {
    /// Hears the servers until [`Self::close`]. Must be called inside a tokio runtime.
    pub(in crate::broker) fn start(ears: Ears) -> Self {
        let ending = CancellationToken::new();
        let task = ears.upstream.listen().map(|heard| tokio::spawn(ears.listen(heard, ending.clone())));
        Self { ending, task: Mutex::new(task) }
    }

    pub(in crate::broker) async fn close(&self) {
        self.ending.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the task that hears the servers broke");
        }
    }
}

impl Ears {
    async fn listen(self, heard: Heard, ending: CancellationToken) {
        let Heard { mut asked, mut said } = heard;
        let mut answering = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = ending.cancelled() => break,
                Some(said) = said.recv() => self.keep(said),
                Some(next) = asked.recv(), if answering.len() < AT_ONCE_MAX => answering.push(self.answered(next)),
                Some(()) = answering.next() => {}
            }
        }
        drop(answering);
        while let Ok(last) = said.try_recv() {
            self.keep(last);
        }
        self.words.close().await;
    }

    fn keep(&self, Said { server, level, text }: Said) {
        let text = self.upstream.redacted(&server, text);
        self.words.keep(server, &level, &text);
    }

    async fn answered(&self, asked: Asked) {
        let Asked { server, asks, params, mut reply } = asked;
        let began = Instant::now();
        let (run, answer) = tokio::select! {
            answered = self.ask.answer(&server, asks, &params) => answered,
            // It has cancelled its request, or has gone.
            () = reply.closed() => return,
        };
        tracing::info!(%server, method = asks.method(), passed_on = answer.is_ok(), "a server has asked");
        let answer = answer.map_err(|NotAnswered { code, message }| NotAnswered {
            code,
            message: text::inert_excerpt(&message, MESSAGE_CHARS_MAX),
        });
        self.record(&server, (run, asks, &params), began, &answer).await;
        if reply.send(answer).is_err() {
            tracing::debug!("the server waits no more for the answer");
        }
    }

    /// What the human has answered is nobody else's.
    async fn record(
        &self,
        server: &ServerName,
        (run, asks, params): (RunId, Asks, &Value),
        began: Instant,
        answer: &Result<Value, NotAnswered>,
    ) {
        let Ok(raw) = to_raw_value(params) else { return };
        let (arguments, bytes_out) = self.logged.of(&raw, &|text| self.upstream.redacted(server, text));
        let (outcome, decision) = match answer {
            Ok(_) => ("answered", "asked: the server, of the user's client".to_owned()),
            Err(not) => ("denied", format!("{} was not answered: {}", asks.method(), not.message)),
        };
        self.log
            .record(Event::Call(CallEvent {
                run: run.0,
                job: None,
                server: server.as_str().to_owned(),
                tool: asks.method().to_owned(),
                arguments,
                bytes_out,
                bytes_in: answer.as_ref().map_or(0, |answer| answer.to_string().len() as u64),
                outcome: outcome.to_owned(),
                decision,
                ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            }))
            .await;
    }
}

#[cfg(test)]
#[path = "server_requests_tests.rs"]
mod tests;
