//! The helpers for jobs. The registry knows the jobs; the session runs and ends them.

use std::time::Duration;

use belljar_base::run::{FaultCode, ToolFault};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::broker::answer::Answer;
use crate::broker::call::Call;
use crate::broker::parts::Broker;
use crate::jobs::{JobRequest, JobSummary};

/// The helper that reserves a job.
pub(super) const SPAWN: &str = "spawn_job";

#[derive(Deserialize)]
struct Arguments {
    job: u64,
    timeout: Option<f64>,
    lines: Option<usize>,
}

/// The arguments of the helper that reserves a job.
#[derive(Deserialize)]
struct SpawnArguments {
    name: String,
    timeout: Option<f64>,
}

impl Broker {
    pub(super) fn spawn_job(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        if call.run().job_number().is_some() {
            return Err(ToolFault::new(FaultCode::Denied, "a job cannot start jobs: start them in a run"));
        }
        let SpawnArguments { name, timeout } = self.read(call)?;
        let time = timeout.map(|seconds| seconds_of("timeout", seconds)).transpose()?;
        let job = self.jobs.reserve(JobRequest { run: call.run().id.0, name, time })?;
        Ok(json!({"job": job}))
    }

    /// Answers a helper that is about one job.
    pub(super) async fn of_job(
        &self,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Value, ToolFault> {
        let Arguments { job, timeout, lines } = self.read(call)?;
        match call.tool.as_str() {
            "job" => self.jobs.summary(job).map(|summary| row(&summary)),
            "job_result" => self.job_result(job),
            "job_tail" => self.jobs.tail(job, lines.unwrap_or(usize::MAX)).map(Value::String),
            "wait_job" => {
                let time = timeout.map(|seconds| seconds_of("timeout", seconds)).transpose()?;
                // A time beyond the range of the clock means no bound.
                let until = time.and_then(|time| Instant::now().checked_add(time));
                let until = until.map_or(call.deadline, |until| call.deadline.min(until));
                self.job_ended(job, until, cancel).await
            }
            // "cancel_job"
            _ => {
                self.jobs.cancel(job)?;
                // The wait covers the interruption of the job and, if the job does not end then, its kill.
                let until = Instant::now() + self.limits.grace + self.limits.replace;
                self.job_ended(job, call.deadline.min(until), cancel).await
            }
        }
    }

    /// All jobs of the session.
    pub(super) fn list_jobs(&self) -> Value {
        Value::Array(self.jobs.all().iter().map(row).collect())
    }

    /// In a replay, marks the recorded answer of `spawn_job` as recorded, so that the job is not started again.
    pub(crate) fn of_replay(
        &self,
        call: &Call<'_>,
        answer: Result<Answer, ToolFault>,
    ) -> Result<Answer, ToolFault> {
        if call.server.is_some() || call.tool != SPAWN {
            return answer;
        }
        let Ok(Answer::Value(value)) = &answer else { return answer };
        let Ok(Arguments { job, .. }) = serde_json::from_str(value.get()) else { return answer };
        self.jobs.recorded(job, call.run().id.0);
        to_raw_value(&json!({"job": job, "recorded": true}))
            .map(Answer::Value)
            .map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string()))
    }

    fn job_result(&self, job: u64) -> Result<Value, ToolFault> {
        let (summary, result, error) = self.jobs.result(job)?;
        let mut answer = row(&summary);
        if let Some(result) = result {
            answer["result"] = Value::String(result);
        }
        if let Some(error) = error {
            answer["error"] = json!(error);
        }
        Ok(answer)
    }

    async fn job_ended(
        &self,
        job: u64,
        until: Instant,
        cancel: &CancellationToken,
    ) -> Result<Value, ToolFault> {
        tokio::select! {
            biased;
            ended = self.jobs.ended(job) => { ended?; }
            () = tokio::time::sleep_until(until) => {}
            () = cancel.cancelled() => {}
        }
        self.jobs.summary(job).map(|summary| row(&summary))
    }
}

fn seconds_of(name: &str, seconds: f64) -> Result<Duration, ToolFault> {
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(|| {
        ToolFault::new(
            FaultCode::InvalidArguments,
            format!("{name} is {seconds}, it must be seconds above 0"),
        )
    })
}

fn row(summary: &JobSummary) -> Value {
    json!({
        "job": summary.number,
        "run": summary.run,
        "name": summary.name,
        "status": summary.status.word(),
        "seconds": summary.took.as_secs_f64(),
        "calls": summary.calls,
        "why": summary.why,
    })
}
