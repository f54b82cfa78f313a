//! All jobs of a session, by number: those that run, and the last ones that have ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::run::{FaultCode, PythonError, ToolFault};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::job::{Job, JobRequest, JobSummary, Status};

/// The jobs of a session.
pub struct Jobs {
    table: Mutex<JobTable>,
    /// Changes whenever one has ended, or is forgotten before it has begun.
    ends: watch::Sender<u64>,
    /// Somebody wants some to be ended.
    wanted: Notify,
    limits: Arc<Limits>,
}

/// All jobs of the session by number, and the numbers of those that are to be cancelled.
#[derive(Default)]
struct JobTable {
    jobs: BTreeMap<u64, Job>,
    last: u64,
    to_cancel: Vec<u64>,
}

impl Jobs {
    /// None yet.
    #[must_use]
    pub fn new(limits: &Arc<Limits>) -> Self {
        let ends = watch::Sender::new(0);
        Self { table: Mutex::default(), ends, wanted: Notify::new(), limits: Arc::clone(limits) }
    }

    /// A number for a job that is about to be forked.
    ///
    /// # Errors
    /// `busy` when as many run as may, `invalid_arguments` of its time.
    pub fn reserve(&self, asked: JobRequest) -> Result<u64, ToolFault> {
        let (jobs_max, time_max) = (self.limits.jobs_max, self.limits.job_time);
        let time = asked.time.unwrap_or(time_max);
        if time > time_max {
            let said = format!("a job may take {} s, not {} s", time_max.as_secs(), time.as_secs());
            return Err(ToolFault::new(FaultCode::InvalidArguments, said)
                .hint("the user sets that: jobs.timeout, or MCP_BRIDGE_JOB_TIMEOUT"));
        }
        let mut table = self.table.lock();
        let running = table.jobs.values().filter(|job| job.is_running());
        if running.clone().count() >= jobs_max {
            let numbers: Vec<String> = running.map(|job| job.number.to_string()).collect();
            let setting = "the user sets jobs.max, or MCP_BRIDGE_JOBS";
            return Err(match jobs_max {
                0 => ToolFault::new(FaultCode::Denied, "the user lets no jobs run").hint(setting),
                _ => ToolFault::new(
                    FaultCode::Busy,
                    format!(
                        "no more than {jobs_max} may run at once, and these go on: {}",
                        numbers.join(", ")
                    ),
                )
                .hint(format!(
                    "wait for one, as in runtime.job({}).wait(60), or .cancel() it; {setting}",
                    numbers[0]
                )),
            });
        }
        table.last += 1;
        let number = table.last;
        table.jobs.insert(number, Job::new(number, asked.run, &asked.name, time));
        table.forget(self.limits.jobs_kept_max);
        Ok(number)
    }

    /// A session that begins with the runs of another one: this job was theirs.
    pub fn recorded(&self, number: u64, run: u64) {
        let mut table = self.table.lock();
        table.last = table.last.max(number);
        let mut job = Job::new(number, run, "of an earlier session", Duration::ZERO);
        job.end(Status::Lost, "it ran in an earlier session, and is not started again");
        job.is_told = true;
        table.jobs.entry(number).or_insert(job);
    }

    /// Its process is there: of this run, which goes on. The time that it may take; nothing of one that is not known, or
    /// has begun before.
    pub fn begin(&self, number: u64, run: u64) -> Option<(JobSummary, Duration)> {
        let mut table = self.table.lock();
        let job = table.jobs.get_mut(&number)?;
        if job.has_begun || !job.is_running() || job.run != run {
            return None;
        }
        job.has_begun = true;
        Some((job.summary(), job.time))
    }

    /// It has written.
    pub fn write(&self, number: u64, bytes: &[u8]) {
        let bytes_max = self.limits.job_tail_bytes_max;
        self.of(number, |job| job.write(bytes, bytes_max));
    }

    /// It makes a call.
    pub fn count_call(&self, number: u64) {
        self.of(number, |job| job.calls += 1);
    }

    /// It is being ended: so it will have ended, unless it returns meanwhile.
    pub fn ends(&self, number: u64, status: Status, why: &str) {
        self.of(number, |job| {
            job.ending.get_or_insert_with(|| (status, why.to_owned()));
        });
    }

    /// It has returned.
    pub fn finish(&self, number: u64, result: Option<String>) {
        let bytes_max = self.limits.job_result_bytes_max;
        let result = result.filter(|result| result.len() <= bytes_max);
        self.end(number, |job| match result {
            Some(result) => {
                job.result = Some(result);
                job.end(Status::Finished, "");
            }
            None => job.end(Status::Failed, "what it returned did not come"),
        });
        self.table.lock().let_results_go(self.limits.job_results_bytes_max);
    }

    /// It has ended without a result: as it was to be ended, else so.
    pub fn fail(&self, number: u64, error: Option<PythonError>, why: &str) {
        self.end(number, |job| match job.ending.take() {
            Some((status, why)) => job.end(status, &why),
            None => {
                job.end(Status::Failed, why);
                job.error = error;
            }
        });
    }

    /// Its process is gone with its sandbox.
    pub fn lose(&self, number: u64, why: &str) {
        self.end(number, |job| job.end(Status::Lost, why));
    }

    /// The same of all that run.
    pub fn lose_all(&self, why: &str) {
        let running: Vec<u64> =
            self.table.lock().jobs.values().filter(|job| job.is_running()).map(|job| job.number).collect();
        running.into_iter().for_each(|number| self.lose(number, why));
    }

    /// What the reader should know of it, told with its end.
    pub fn add_notes(&self, number: u64, notes: Vec<String>) {
        if let Some(job) = self.table.lock().jobs.get_mut(&number) {
            job.notes = notes;
        }
    }

    /// Those whose numbers were given in a run that has ended, and whose process never came.
    pub fn drop_unbegun(&self) {
        self.table.lock().jobs.retain(|_, job| job.has_begun || !job.is_running());
        self.tell_waiting();
    }

    /// The code wants it to be ended; one without a process is forgotten.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn cancel(&self, number: u64) -> Result<(), ToolFault> {
        let mut table = self.table.lock();
        let job = table.get(number)?;
        if !job.is_running() {
            return Ok(());
        }
        if job.has_begun {
            table.to_cancel.push(number);
            self.wanted.notify_one();
        } else {
            table.jobs.remove(&number);
            drop(table);
            self.tell_waiting();
        }
        Ok(())
    }

    /// Those that are to be cancelled, when there are some. Cancel-safe.
    pub async fn to_cancel(&self) -> Vec<u64> {
        loop {
            let numbers = std::mem::take(&mut self.table.lock().to_cancel);
            if !numbers.is_empty() {
                return numbers;
            }
            self.wanted.notified().await;
        }
    }

    /// What there is to say of it.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub fn summary(&self, number: u64) -> Result<JobSummary, ToolFault> {
        self.table.lock().get(number).map(|job| job.summary())
    }

    /// All.
    #[must_use]
    pub fn all(&self) -> Vec<JobSummary> {
        self.table.lock().jobs.values().map(Job::summary).collect()
    }

    /// Its result or its error, if it has one. The code has seen that it has ended.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub fn result(
        &self,
        number: u64,
    ) -> Result<(JobSummary, Option<String>, Option<PythonError>), ToolFault> {
        let mut table = self.table.lock();
        let job = table.get(number)?;
        job.is_told |= !job.is_running();
        Ok((job.summary(), job.result.clone(), job.error.clone()))
    }

    /// The last lines that it has written.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub fn tail(&self, number: u64, lines: usize) -> Result<String, ToolFault> {
        self.table.lock().get(number).map(|job| job.tail(lines))
    }

    /// Until it has ended. Cancel-safe. The code sees that.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub async fn ended(&self, number: u64) -> Result<(), ToolFault> {
        let mut ends = self.ends.subscribe();
        loop {
            ends.borrow_and_update();
            {
                let mut table = self.table.lock();
                let job = table.get(number)?;
                if !job.is_running() {
                    job.is_told = true;
                    return Ok(());
                }
            }
            if ends.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// The sentences of the reply of this run: on those of its jobs that go on, and on all that have ended since the last
    /// reply, with their notes.
    pub fn news(&self, run: u64) -> Vec<String> {
        let mut news = Vec::new();
        for job in self.table.lock().jobs.values_mut() {
            let is_news = match job.is_running() {
                true => job.run == run && job.has_begun,
                false => !std::mem::replace(&mut job.is_told, true),
            };
            if is_news {
                news.push(job.summary().sentence());
            }
            if !job.is_running() {
                news.append(&mut job.notes);
            }
        }
        news
    }

    fn of(&self, number: u64, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.table.lock().jobs.get_mut(&number).filter(|job| job.is_running()) {
            change(job);
        }
    }

    fn end(&self, number: u64, change: impl FnOnce(&mut Job)) {
        self.of(number, change);
        self.tell_waiting();
    }

    /// Has whoever waits for a job look again.
    fn tell_waiting(&self) {
        self.ends.send_modify(|ends| *ends += 1);
    }
}

impl JobTable {
    fn get(&mut self, number: u64) -> Result<&mut Job, ToolFault> {
        let last = self.last;
        self.jobs.get_mut(&number).ok_or_else(|| {
            let said = match number {
                1.. if number <= last => format!("nothing is known of job {number} any more"),
                _ => format!("there is no job {number}"),
            };
            ToolFault::new(FaultCode::InvalidArguments, said)
                .hint("print(runtime.jobs()) lists those that are known")
        })
    }

    /// The oldest of too many that have ended.
    fn forget(&mut self, kept_max: usize) {
        let ended: Vec<u64> =
            self.jobs.values().filter(|job| !job.is_running()).map(|job| job.number).collect();
        for number in ended.iter().take(ended.len().saturating_sub(kept_max)) {
            self.jobs.remove(number);
        }
    }

    fn let_results_go(&mut self, bytes_max: usize) {
        let mut bytes = 0;
        for job in self.jobs.values_mut().rev() {
            let Some(result) = &job.result else { continue };
            bytes += result.len();
            if bytes > bytes_max {
                job.result = None;
                job.why = "its result is not kept any more: later ones were too large".into();
            }
        }
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
