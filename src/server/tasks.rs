//! Runs that outlast their request, for clients that support tasks (MCP's extension `io.modelcontextprotocol/tasks`).
//! The result is a task, which the client polls, answers and cancels until the run has ended.
//!
//! It decides nothing: the broker decides what is asked, and what an answer allows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::clock;
use belljar_base::run::{FaultCode, RunOutcome, RunReport};
use belljar_guard::Mark;
use parking_lot::{Mutex, MutexGuard};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResult, DetailedTask, ErrorData, InputRequest, InputResponses, Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::notifications::progress;
use super::questions::input_required::{self, ActiveRun, PausedRun, RequestOutcome, RunResult};

/// The poll interval for clients, in milliseconds.
const POLL_MS: u64 = 1_000;
/// How long the result of a task is kept after its run has ended.
const KEPT: Duration = Duration::from_secs(600);
/// The largest number of tasks. Beyond it, the oldest one that has ended is dropped. The number of running ones is
/// bounded by the queue of runs.
const TASKS_MAX: usize = 64;

/// How long this request waits for its run: for ever if its client does not support tasks.
pub(super) fn patience(context: &RequestContext<RoleServer>, task_after: Duration) -> Duration {
    if are_taken(context) { task_after } else { Duration::MAX }
}

/// Whether the client of this request supports tasks.
pub(super) fn are_taken(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|can| can.supports_tasks())
}

/// All tasks of the client.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Vec<Arc<RunTask>>>);

/// A run as a task.
pub(super) struct RunTask {
    id: String,
    created: String,
    since: Instant,
    stop: CancellationToken,
    now: Mutex<TaskState>,
}

/// The state of a task as its client sees it.
struct TaskState {
    changed: String,
    says: String,
    open: Option<OpenQuestion>,
    asked: u32,
    ended: Option<(TaskPayload, Instant)>,
}

/// A question that the client has not answered yet.
struct OpenQuestion {
    key: String,
    question: InputRequest,
    reply: oneshot::Sender<Value>,
}

impl Tasks {
    /// Creates a task.
    pub(super) fn begin(&self) -> Arc<RunTask> {
        let created = clock::timestamp();
        let task = Arc::new(RunTask {
            id: Mark::new().as_str().to_owned(),
            since: Instant::now(),
            stop: CancellationToken::new(),
            now: Mutex::new(TaskState {
                changed: created.clone(),
                says: "working".to_owned(),
                open: None,
                asked: 0,
                ended: None,
            }),
            created,
        });
        let mut all = self.kept();
        if all.len() >= TASKS_MAX
            && let Some(oldest) = all.iter().position(|task| task.now.lock().ended.is_some())
        {
            all.remove(oldest);
        }
        all.push(Arc::clone(&task));
        task
    }

    /// The present state of a task.
    ///
    /// # Errors
    /// There is no task with this id, or no longer.
    pub(super) fn get(&self, id: &str) -> Result<DetailedTask, ErrorData> {
        self.find(id).map(|task| task.detailed())
    }

    /// Passes on the client's answers to a task. Answers to no open question are ignored.
    ///
    /// # Errors
    /// There is no task with this id, or no longer.
    pub(super) fn answer(&self, id: &str, mut responses: InputResponses) -> Result<(), ErrorData> {
        let task = self.find(id)?;
        let open = task.now.lock().open.take_if(|open| responses.contains_key(&open.key));
        if let Some((open, answer)) = open.and_then(|open| responses.remove(&open.key).map(|it| (open, it)))
            && open.reply.send(answer).is_err()
        {
            tracing::debug!("nobody waits for the answer any more");
        }
        Ok(())
    }

    /// Cancels the run of a task, if it has not ended.
    ///
    /// # Errors
    /// There is no task with this id, or no longer.
    pub(super) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        self.find(id).map(|task| task.stop.cancel())
    }

    fn find(&self, id: &str) -> Result<Arc<RunTask>, ErrorData> {
        let found = self.kept().iter().find(|task| task.id == id).map(Arc::clone);
        found.ok_or_else(|| {
            let minutes = KEPT.as_secs() / 60;
            let message =
                format!("no task has this taskId; they are kept for {minutes} minutes after their end");
            ErrorData::invalid_params(message, None)
        })
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Arc<RunTask>>> {
        let mut all = self.0.lock();
        all.retain(|task| task.now.lock().ended.as_ref().is_none_or(|(_, ended)| ended.elapsed() < KEPT));
        all
    }
}

impl RunTask {
    /// The task as the result of a request.
    pub(super) fn task(&self) -> Task {
        self.detailed().task
    }

    /// Follows the run to its end. The task reports progress and questions to the client.
    pub(super) async fn follow(self: Arc<Self>, mut outcome: RequestOutcome) -> RunResult {
        let heard = outcome.run().and_then(|run| run.streams.progress.take());
        let (ended, task) = (CancellationToken::new(), Arc::clone(&self));
        let _ended = ended.clone().drop_guard();
        if let Some(mut heard) = heard {
            tokio::spawn(async move {
                let say = |_, message| {
                    task.change(|now| now.says = message);
                    std::future::ready(true)
                };
                progress::report(&mut heard, ended, say).await;
            });
        }
        loop {
            let run = match outcome {
                RequestOutcome::Ended(ended) => return *ended,
                RequestOutcome::Lasts(run) => *run,
                RequestOutcome::Asks(paused) => self.ask(*paused).await,
            };
            outcome = input_required::outcome(run, &self.stop, Duration::MAX).await;
        }
    }

    /// Whether the run ended because the client cancelled the task.
    pub(super) fn is_cancelled(&self, ended: &RunResult) -> bool {
        let is_cut = match ended {
            Ok(Ok(RunReport { outcome: RunOutcome::Interrupted, .. })) => true,
            // The run was cancelled before it began.
            Ok(Ok(RunReport { outcome: RunOutcome::NotStarted(fault), .. }) | Err(fault)) => {
                fault.code == FaultCode::Cancelled
            }
            _ => false,
        };
        self.stop.is_cancelled() && is_cut
    }

    /// Ends the task with this payload.
    pub(super) fn end(&self, how: TaskPayload) {
        self.change(|now| {
            now.open = None;
            now.ended = Some((how, Instant::now()));
        });
    }

    /// Waits until the client has answered, the answer is no longer awaited, or the client cancels.
    async fn ask(&self, mut paused: PausedRun) -> ActiveRun {
        let (reply, answered) = oneshot::channel();
        self.change(|now| {
            now.asked += 1;
            let key = format!("question-{}", now.asked);
            now.open = Some(OpenQuestion { key, question: paused.question.clone(), reply });
        });
        let answer = tokio::select! {
            answer = answered => answer.ok(),
            () = paused.withdrawn() => None,
            () = self.stop.cancelled() => None,
        };
        self.change(|now| now.open = None);
        paused.answered(answer)
    }

    fn detailed(&self) -> DetailedTask {
        let now = self.now.lock();
        let payload = match (&now.ended, &now.open) {
            (Some((how, _)), _) => how.clone(),
            (None, Some(open)) => TaskPayload::InputRequired {
                input_requests: BTreeMap::from([(open.key.clone(), open.question.clone())]),
            },
            (None, None) => TaskPayload::Working,
        };
        let mut task = Task::new(&*self.id, TaskStatus::Working, &*self.created, &*now.changed);
        task.poll_interval_ms = Some(POLL_MS);
        match &now.ended {
            // A running task has no expiry: the time of its run bounds it.
            None => task.status_message = now.open.is_none().then(|| now.says.clone()),
            Some((_, ended)) => {
                let kept_until = ended.duration_since(self.since) + KEPT;
                task.ttl_ms = u64::try_from(kept_until.as_millis()).ok();
            }
        }
        DetailedTask::new(task, payload)
    }

    fn change(&self, change: impl FnOnce(&mut TaskState)) {
        let mut state = self.now.lock();
        change(&mut state);
        state.changed = clock::timestamp();
    }
}

/// The payload of a task with this result.
pub(super) fn completed(result: &CallToolResult) -> TaskPayload {
    TaskPayload::Completed { result: object(result) }
}

/// The payload of a task that failed because of a defect in belljar.
pub(super) fn failed() -> TaskPayload {
    TaskPayload::Failed { error: object(&ErrorData::internal_error("the run broke inside belljar", None)) }
}

fn object(of: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_has_ended_is_kept_for_its_time_and_what_goes_on_for_ever() {
        let tasks = Tasks::default();
        let (goes_on, ends) = (tasks.begin(), tasks.begin());
        tokio::time::advance(Duration::from_secs(20)).await;
        ends.end(TaskPayload::Cancelled);
        assert_eq!(ends.task().ttl_ms, Some(620_000));
        assert_eq!((goes_on.task().ttl_ms, goes_on.task().status_message), (None, Some("working".into())));
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        assert!(tasks.get(&ends.id).is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        let gone = tasks.get(&ends.id).unwrap_err();
        assert_eq!(gone.message, "no task has this taskId; they are kept for 10 minutes after their end");
        assert_eq!(tasks.get(&goes_on.id).unwrap().status(), TaskStatus::Working);
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_the_oldest_that_has_ended_is_let_go() {
        let tasks = Tasks::default();
        let first = tasks.begin();
        let ended: Vec<_> = (1..TASKS_MAX).map(|_| tasks.begin()).collect();
        ended.iter().for_each(|task| task.end(TaskPayload::Cancelled));
        let last = tasks.begin();
        assert!(tasks.get(&ended[0].id).is_err());
        for kept in [&first, &ended[1], &last] {
            assert!(tasks.get(&kept.id).is_ok());
        }
    }
}
