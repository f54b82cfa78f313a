//! One job: what it is, how it stands, and the end of what it has written.

use std::collections::VecDeque;
use std::time::Duration;

use belljar_base::run::PythonError;
use belljar_base::text;
use tokio::time::Instant;

/// Longest name, and longest reason, in characters.
const NAME_CHARS_MAX: usize = 60;
const WHY_CHARS_MAX: usize = 200;

/// The job that a run asks the session to start.
#[derive(Debug, Clone)]
pub struct JobRequest {
    /// The run that starts the job.
    pub run: u64,
    /// The name that the run gives the job.
    pub name: String,
    /// The time that the job may take. Without it, the job may take as long as any job.
    pub time: Option<Duration>,
}

/// The status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It has not ended.
    Running,
    /// It has returned.
    Finished,
    /// It has raised an error, or its process ended by itself.
    Failed,
    /// It was ended because somebody wanted it.
    Cancelled,
    /// It was ended for its time.
    TimedOut,
    /// Its sandbox is gone.
    Lost,
}

impl Status {
    /// As code reads it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
        }
    }
}

/// The state of a job, as replies and the journal show it.
#[derive(Debug, Clone)]
pub struct JobSummary {
    /// The number of the job in the session, from 1.
    pub number: u64,
    /// The run that started it.
    pub run: u64,
    /// The name, on one line and harmless to show.
    pub name: String,
    /// The status.
    pub status: Status,
    /// The time that it has taken so far.
    pub took: Duration,
    /// The number of calls that it has made.
    pub calls: u64,
    /// The reason for its end, if the status does not say it; harmless to show.
    pub why: String,
}

impl JobSummary {
    /// The sentence of a reply on a job that has ended.
    pub(super) fn sentence(&self) -> String {
        let (number, name, seconds) = (self.number, &self.name, self.took.as_secs());
        let calls = match self.calls {
            0 => String::new(),
            1 => ", 1 call".into(),
            calls => format!(", {calls} calls"),
        };
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        let how = match self.status {
            Status::Running => return format!("job {number} '{name}' goes on: runtime.job({number}).status"),
            Status::Finished => "finished",
            Status::Failed => "failed",
            Status::Cancelled => "was cancelled",
            Status::TimedOut => "was ended for its time",
            Status::Lost => "was lost",
        };
        let see = match self.status {
            Status::Finished => format!(": runtime.job({number}).result"),
            // Code may have chosen the words.
            Status::Failed => {
                format!(": \"{}\"; runtime.job({number}).result raises it", self.why.replace('"', "'"))
            }
            _ => why,
        };
        format!("job {number} '{name}' {how} after {seconds} s{calls}{see}")
    }
}

/// A job as it is kept.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) run: u64,
    pub(super) name: String,
    /// It has a process; before, only its number is kept for it.
    pub(super) has_begun: bool,
    pub(super) status: Status,
    pub(super) time: Duration,
    pub(super) calls: u64,
    /// What it will have been ended for, and why.
    pub(super) ending: Option<(Status, String)>,
    pub(super) result: Option<String>,
    pub(super) error: Option<PythonError>,
    pub(super) why: String,
    /// A reply has said that it has ended, or the code has looked.
    pub(super) is_told: bool,
    /// Sentences that no reply has told yet.
    pub(super) notes: Vec<String>,
    began: Instant,
    took: Option<Duration>,
    tail: VecDeque<u8>,
}

impl Job {
    pub(super) fn new(number: u64, run: u64, name: &str, time: Duration) -> Self {
        Self {
            number,
            run,
            // It stands in quotes.
            name: text::inert_excerpt(name, NAME_CHARS_MAX).replace('\'', "\""),
            has_begun: false,
            status: Status::Running,
            time,
            calls: 0,
            ending: None,
            result: None,
            error: None,
            why: String::new(),
            is_told: false,
            notes: vec![],
            began: Instant::now(),
            took: None,
            tail: VecDeque::new(),
        }
    }

    pub(super) fn summary(&self) -> JobSummary {
        JobSummary {
            number: self.number,
            run: self.run,
            name: self.name.clone(),
            status: self.status,
            took: self.took.unwrap_or_else(|| self.began.elapsed()),
            calls: self.calls,
            why: self.why.clone(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.status == Status::Running
    }

    /// It has ended, so or as it was to be ended.
    pub(super) fn end(&mut self, status: Status, why: &str) {
        self.status = status;
        self.why = text::inert_excerpt(why, WHY_CHARS_MAX);
        self.took = Some(self.began.elapsed());
    }

    /// Takes output in; the oldest gives way.
    pub(super) fn write(&mut self, bytes: &[u8], bytes_max: usize) {
        self.tail.extend(&bytes[bytes.len().saturating_sub(bytes_max)..]);
        let excess = self.tail.len().saturating_sub(bytes_max);
        self.tail.drain(..excess);
    }

    /// The last lines of what it has written, each as a terminal shows it in the end if it redraws itself.
    pub(super) fn tail(&self, lines: usize) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER);
        let skipped = text.lines().count().saturating_sub(lines);
        text.split_inclusive('\n').skip(skipped).map(text::last_state).collect()
    }
}
