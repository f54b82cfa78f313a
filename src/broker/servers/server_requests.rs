//! The requests of servers to the human during calls: they are marked as the server's and passed on to the client of
//! the run, or refused.
//!
//! A server may send requests only while a call of a run is in progress at it. A request can never approve a call, and
//! neither code nor the model takes part.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::{RunId, ServerName, SessionId};
use belljar_base::text;
use belljar_upstream::{
    QuestionError, QuestionKind, ServerChannels, ServerMessage, ServerQuestion, Upstream,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::request_text::shown;
use crate::audit::{AuditLog, CallEvent, Event, ServerLog};
use crate::broker::human::Human;
use crate::broker::record::audit::logged;
use crate::config::Audit;

use crate::broker::run::context::RunContext;

/// The largest number of requests in progress at once; they reach the human one by one.
const AT_ONCE_MAX: usize = 64;
/// Longest text of a client's error that is passed on, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// The requests of servers to clients. A server may send one to the human of the run that is calling it.
///
/// A server does not say during which call it asks. So a server that has asked once is called by one session at a time, and
/// nobody is asked if several sessions are calling a server that asks for the first time. A private server asks for its own
/// session only.
///
/// A session waits for its own calls as soon as they fill the server. So a call waits for at most as many calls of each other
/// session as the server takes at once, however many that session makes.
pub(crate) struct ServerRequests {
    servers: Mutex<BTreeMap<ServerName, CalledServer>>,
    /// Wakes the calls that wait for another session's calls to end.
    ended: Notify,
    answer_max: Duration,
    waiting_max: Duration,
    per_run_max: usize,
}

/// What is known of the calls of a server.
#[derive(Default)]
struct CalledServer {
    /// Whether it has asked.
    asks: bool,
    /// The calls in progress, by session.
    sessions: BTreeMap<SessionId, SessionCalls>,
    /// The places for the calls of each session.
    places: BTreeMap<SessionId, Weak<Semaphore>>,
}

/// The calls of one session at one server that are in progress.
#[derive(Default)]
struct SessionCalls {
    calls: usize,
    /// The run that has called last, while a call of it is in progress.
    run: Option<ActiveCalls>,
}

/// The calls of one run at one server that are in progress.
#[derive(Clone)]
struct ActiveCalls {
    run: RunId,
    human: Human,
    calls: usize,
    /// Cancelled when the last of the calls has ended.
    over: CancellationToken,
}

/// The run that a server has asked.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    session: SessionId,
    run: RunId,
}

/// A call that is in progress until this value is dropped.
pub(crate) struct ActiveCall<'a> {
    requests: &'a ServerRequests,
    server: ServerName,
    session: SessionId,
    /// The run; `None` for a call of a job.
    run: Option<RunId>,
    _place: Option<OwnedSemaphorePermit>,
}

/// The task that receives the requests and messages of servers.
pub(crate) struct ListenerTask {
    ending: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// Answers the requests of servers and stores their messages.
pub(crate) struct RequestListener {
    pub(crate) requests: Arc<ServerRequests>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) log: Arc<AuditLog>,
    pub(crate) logged: Audit,
    /// The name under which questions that are for no session are logged.
    pub(crate) process: SessionId,
    pub(crate) words: ServerLog,
}

impl ServerRequests {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            servers: Mutex::default(),
            ended: Notify::new(),
            answer_max: limits.approval,
            waiting_max: limits.waiting_per_run,
            per_run_max: limits.server_requests_per_run_max,
        })
    }

    /// Registers a call of the run, so that the server's requests go to the run's human. They never go to a job's: usually
    /// the run of the job has ended, and another run may be calling the same server. Waits while the session has `at_once`
    /// calls at the server, and while another session calls a server that asks. Cancel-safe.
    pub(crate) async fn calling(
        &self,
        server: &ServerName,
        run: &RunContext,
        at_once: usize,
    ) -> ActiveCall<'_> {
        // The semaphore is never closed.
        let place = self.places(server, &run.session, at_once).acquire_owned().await.ok();
        loop {
            // It counts from here on, so that no end of a call is missed.
            let ended = self.ended.notified();
            if let Some((session, run)) = self.begin(server, run) {
                return ActiveCall { requests: self, server: server.clone(), session, run, _place: place };
            }
            ended.await;
        }
    }

    /// The places for the session's calls at the server.
    fn places(&self, server: &ServerName, session: &SessionId, at_once: usize) -> Arc<Semaphore> {
        let mut servers = self.servers.lock();
        let places = &mut servers.entry(server.clone()).or_default().places;
        if let Some(known) = places.get(session).and_then(Weak::upgrade) {
            return known;
        }
        places.retain(|_, places| places.strong_count() > 0);
        let new = Arc::new(Semaphore::new(at_once));
        places.insert(session.clone(), Arc::downgrade(&new));
        new
    }

    /// Begins a call, if the session's turn has come.
    fn begin(&self, server: &ServerName, run: &RunContext) -> Option<(SessionId, Option<RunId>)> {
        let mut servers = self.servers.lock();
        let called = servers.entry(server.clone()).or_default();
        if called.asks && called.sessions.keys().any(|session| *session != run.session) {
            return None;
        }
        let session = called.sessions.entry(run.session.clone()).or_default();
        session.calls += 1;
        let run_id = run.job_number().is_none().then_some(run.id);
        if let Some(id) = run_id {
            if let Some(same) = session.run.as_mut().filter(|earlier| earlier.run == id) {
                same.calls += 1;
            } else {
                let over = CancellationToken::new();
                let now = ActiveCalls { run: id, human: run.human.clone(), calls: 1, over };
                if let Some(earlier) = session.run.replace(now) {
                    earlier.over.cancel();
                }
            }
        }
        Some((run.session.clone(), run_id))
    }

    /// The run whose human a server may ask now. A private server asks for its session.
    fn asked(
        &self,
        server: &ServerName,
        private_to: Option<&SessionId>,
    ) -> Result<(SessionId, ActiveCalls), String> {
        let mut servers = self.servers.lock();
        let called = servers.entry(server.clone()).or_default();
        if private_to.is_none() {
            called.asks = true;
            if called.sessions.len() > 1 {
                return Err(
                    "several sessions are calling this server, and it cannot say which one it asks".into()
                );
            }
        }
        let may_be_asked = |id: &SessionId| private_to.is_none_or(|session| session == id);
        let mut calling = called.sessions.iter().filter(|(id, _)| may_be_asked(id));
        let calls = calling.find_map(|(id, session)| Some((id, session, session.run.clone()?)));
        match calls {
            None => Err("no call of a run is under way at this server".into()),
            Some((_, session, run)) if session.calls > run.calls => {
                Err("a job or an earlier run is calling this server, too, and it cannot say in which call it asks".into())
            }
            Some((id, _, run)) => Ok((id.clone(), run)),
        }
    }

    /// Passes a server's request to the client and returns the answer, with the session and run that it was for.
    async fn answer(
        &self,
        (server, private_to): (&ServerName, Option<&SessionId>),
        kind: QuestionKind,
        params: &Value,
    ) -> (Option<Asked>, Result<Value, QuestionError>) {
        let none = |message: String| Err(QuestionError { code: None, message });
        let (session, ActiveCalls { run, human, over, .. }) = match self.asked(server, private_to) {
            Ok(calls) => calls,
            Err(reason) => return (None, none(reason)),
        };
        let run = Some(Asked { session, run });
        let can = match kind {
            QuestionKind::Elicitation => human.abilities.elicitation,
            QuestionKind::Sampling => human.abilities.sampling,
        };
        if !can {
            return (run, none("the client of this run does not offer it".into()));
        }
        if human.count_of_servers() > self.per_run_max {
            return (run, none(format!("servers may ask {} times in a run", self.per_run_max)));
        }
        let params = match shown(server, kind, params) {
            Ok(params) => params,
            Err(reason) => return (run, none(reason)),
        };
        let time = match human.time_to_answer(self.answer_max, self.waiting_max) {
            Ok(time) => time,
            Err(reason) => return (run, none(reason)),
        };
        let _waiting = human.wait();
        let asking = tokio::time::timeout(time, human.pass_on(kind, params));
        let answer = tokio::select! {
            answer = asking => answer.unwrap_or_else(|_| none("the user has not answered".into())),
            () = over.cancelled() => none("the call that it was asked in has ended".into()),
        };
        (run, answer)
    }
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let mut servers = self.requests.servers.lock();
        let Some(called) = servers.get_mut(&self.server) else { return };
        let Some(session) = called.sessions.get_mut(&self.session) else { return };
        if let Some(now) = session.run.as_mut().filter(|now| Some(now.run) == self.run) {
            now.calls -= 1;
            if now.calls == 0 {
                now.over.cancel();
                session.run = None;
            }
        }
        session.calls -= 1;
        if session.calls > 0 {
            return;
        }
        called.sessions.remove(&self.session);
        if !called.asks && called.sessions.is_empty() {
            servers.remove(&self.server);
        }
        self.requests.ended.notify_waiters();
    }
}

impl ListenerTask {
    /// Hears the servers until [`Self::close`]. Must be called inside a tokio runtime.
    pub(crate) fn start(listener: RequestListener) -> Self {
        let ending = CancellationToken::new();
        let task =
            listener.upstream.listen().map(|heard| tokio::spawn(listener.listen(heard, ending.clone())));
        Self { ending, task: Mutex::new(task) }
    }

    pub(crate) async fn close(&self) {
        self.ending.cancel();
        let task = self.task.lock().take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the task that hears the servers broke");
        }
    }
}

impl RequestListener {
    async fn listen(self, heard: ServerChannels, ending: CancellationToken) {
        let ServerChannels { mut asked, mut said } = heard;
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

    fn keep(&self, ServerMessage { server, level, text }: ServerMessage) {
        let text = self.upstream.redacted(&server, text);
        self.words.keep(server, &level, &text);
    }

    async fn answered(&self, asked: ServerQuestion) {
        let ServerQuestion { server, session, kind, params, mut reply } = asked;
        let began = Instant::now();
        let (of, answer) = tokio::select! {
            answered = self.requests.answer((&server, session.as_ref()), kind, &params) => answered,
            // The server has cancelled its request, or has ended.
            () = reply.closed() => return,
        };
        tracing::info!(%server, method = kind.method(), passed_on = answer.is_ok(), "a server has asked");
        let answer = answer.map_err(|QuestionError { code, message }| QuestionError {
            code,
            message: text::inert_excerpt(&message, MESSAGE_CHARS_MAX),
        });
        self.record(&server, (of, kind, &params), began, &answer).await;
        if reply.send(answer).is_err() {
            tracing::debug!("the server waits no more for the answer");
        }
    }

    /// Writes the request to the audit log, without the human's answer.
    async fn record(
        &self,
        server: &ServerName,
        (of, kind, params): (Option<Asked>, QuestionKind, &Value),
        began: Instant,
        answer: &Result<Value, QuestionError>,
    ) {
        let Ok(raw) = to_raw_value(params) else { return };
        let Asked { session, run } =
            of.unwrap_or_else(|| Asked { session: self.process.clone(), run: RunId(0) });
        let (arguments, bytes_out) = logged(self.logged, &raw, &|text| self.upstream.redacted(server, text));
        let (outcome, decision) = match answer {
            Ok(_) => ("answered", "asked: the server, of the user's client".to_owned()),
            Err(not) => ("denied", format!("{} was not answered: {}", kind.method(), not.message)),
        };
        let event = CallEvent {
            run: run.0,
            job: None,
            server: server.as_str().to_owned(),
            tool: kind.method().to_owned(),
            arguments,
            bytes_out,
            bytes_in: answer.as_ref().map_or(0, |answer| answer.to_string().len() as u64),
            outcome: outcome.to_owned(),
            decision,
            ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            times: 1,
        };
        match answer {
            Ok(_) => self.log.record(&session, Event::Call(event)).await,
            Err(_) => self.log.record_refused(&session, event).await,
        }
    }
}

#[cfg(test)]
#[path = "server_requests_tests.rs"]
mod tests;
