//! `hotcell session replay`: the code of a session once more in a new sandbox, beside what is kept of it.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::printing::{err, out};
use super::session_words::{of_damage, unanswered};
use super::signals::Signals;
use super::wiring::Rooms;
use crate::broker::Way;
use crate::cli::RecordWay;
use crate::config::{Config, Journal, ServerFiles, report};
use crate::journal::{RecordedRun, RecordedSession, RunEnded};
use crate::names::RunId;
use crate::run::{ClientAbilities, OutputStream, RunOutcome, RunReport, RunRequest, ServerScope};
use crate::session::RunAsked;
use crate::text;

/// What journals and policies call this.
const CLIENT: &str = "hotcell session replay";
/// Something came otherwise.
const DIFFERS: u8 = 1;
const USAGE: u8 = 2;
/// A call has no answer in what is kept.
const STOPPED: u8 = 3;
/// No sandbox could be had, as `docker run` and `podman run` say it.
const NO_SANDBOX: u8 = 125;
/// Longest line of output that is shown, in characters.
const LINE_CHARS_MAX: usize = 300;

/// How a session is to be run once more.
pub(super) struct Asked {
    pub(super) until: Option<u64>,
    pub(super) record: RecordWay,
    pub(super) json: bool,
}

/// How a run that was made once more compares with what is kept of it.
pub(super) enum Compared {
    Same,
    Differs(Vec<String>),
    /// It was not run, and why; what follows can be.
    LeftOut(String),
    /// It was not run or not to its end, and why; what follows cannot be.
    Stopped(String),
    /// There is no sandbox for it.
    NotStarted(String),
}

/// Runs it once more, and prints a line for each run.
pub(super) async fn replay(
    config: Config,
    files: ServerFiles,
    session: RecordedSession,
    asked: Asked,
) -> ExitCode {
    report(&config.problems);
    let count = session.runs.len() as u64;
    if let Some(until) = asked.until.filter(|until| !session.runs.iter().any(|run| run.begun.run == *until)) {
        err!("hotcell: --until {until}: the session has no such run; it has {count}");
        return ExitCode::from(USAGE);
    }
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            err!("hotcell: cannot listen for signals: {error}");
            return ExitCode::from(70);
        }
    };
    // It neither writes what it reads, nor touches files that are kept.
    let config = Config { journal: Journal::Off, workspace: None, ..config };
    let rooms = Rooms::build(&config, files);
    let way = match asked.record {
        RecordWay::Recorded => Way::Recorded,
        RecordWay::Live => Way::Live,
    };
    let until = asked.until.unwrap_or(u64::MAX);
    let runs: Vec<&RecordedRun> = session.runs.iter().filter(|run| run.begun.run <= until).collect();
    let mut again = Again::new(&rooms, &config);
    let mut worst = 0;
    for run in runs {
        let compared = tokio::select! {
            compared = again.run(run, way) => compared,
            ending = signals.next() => {
                worst = ending.exit_code();
                break;
            }
        };
        say(run.begun.run, &compared, asked.json);
        let (code, goes_on) = match compared {
            Compared::Same | Compared::LeftOut(_) => (0, true),
            Compared::Differs(_) => (DIFFERS, true),
            Compared::Stopped(_) => (STOPPED, false),
            Compared::NotStarted(_) => (NO_SANDBOX, false),
        };
        worst = worst.max(code);
        if !goes_on {
            break;
        }
    }
    if let Some(damage) = of_damage(&session) {
        err!("hotcell: {damage}");
    }
    rooms.close(&config).await;
    ExitCode::from(worst)
}

/// Runs of a session, one after the other, in one interpreter.
pub(super) struct Again<'r> {
    rooms: &'r Rooms,
    /// How long a run that is stopped may take to end.
    patience: Duration,
    has_run: bool,
}

impl<'r> Again<'r> {
    pub(super) fn new(rooms: &'r Rooms, config: &Config) -> Self {
        let patience = config.limits.grace + config.limits.replace;
        Self { rooms, patience, has_run: false }
    }

    /// Makes the run once more.
    pub(super) async fn run(&mut self, run: &RecordedRun, way: Way) -> Compared {
        let Some(ended) = &run.ended else { return not_ended(run) };
        match ended.outcome.as_str() {
            "cancelled" => return Compared::LeftOut("it was cancelled, and when is not known".into()),
            "not_started" => return Compared::LeftOut("it had no sandbox".into()),
            _ => {}
        }
        let stopped = self.rooms.broker.replay().begin(run, way);
        let cancel = CancellationToken::new();
        let began = tokio::time::Instant::now();
        let running = self.rooms.session.run(self.asked(run, cancel.clone()));
        tokio::pin!(running);
        let reported = tokio::select! {
            reported = &mut running => Some(reported),
            () = stopped.cancelled() => {
                cancel.cancel();
                tokio::time::timeout(self.patience, running).await.ok()
            }
        };
        self.has_run = true;
        let replayed = self.rooms.broker.replay().end();
        if let Some(why) = replayed.stop {
            return Compared::Stopped(why);
        }
        let report = match reported {
            Some(Ok(report)) => report,
            Some(Err(fault)) => return Compared::Stopped(fault.to_string()),
            None => return Compared::Stopped("it did not end".into()),
        };
        if let RunOutcome::NotStarted(fault) = &report.outcome {
            return Compared::NotStarted(format!("{} {}", fault.message, fault.hint));
        }
        let now = self.ended(&report, began.elapsed());
        let mut differences = differences(ended, &now);
        differences.extend(replayed.differences);
        if differences.is_empty() { Compared::Same } else { Compared::Differs(differences) }
    }

    fn ended(&self, report: &RunReport, took: Duration) -> RunEnded {
        self.rooms.broker.ended(RunId(0), report, took)
    }

    fn asked(&self, run: &RecordedRun, cancel: CancellationToken) -> RunAsked {
        let names = run.begun.servers.iter();
        let names = names.filter_map(|server| crate::names::ServerName::new(&server.name).ok());
        let request = RunRequest {
            code: run.begun.code.clone(),
            servers: ServerScope::Only(names.collect()),
            timeout: Duration::from_millis(run.begun.timeout_ms),
            // The first one has a new interpreter in any case.
            reset: run.is_fresh && self.has_run,
            dry_run: run.begun.dry_run,
        };
        RunAsked {
            request,
            cancel,
            progress: mpsc::channel(1).0,
            output: None,
            questions: mpsc::channel(1).0,
            abilities: ClientAbilities::default(),
            client: CLIENT.into(),
        }
    }
}

/// A run that nobody was told the end of: what it has called may be half of what it would have.
fn not_ended(run: &RecordedRun) -> Compared {
    let calls = unanswered(run);
    if calls.is_empty() {
        return Compared::LeftOut("the session ended before it did".into());
    }
    Compared::Stopped(format!(
        "the session ended before it did, with calls that had no answer, and may have been made:{}",
        calls.iter().map(|call| format!("\n  {call}")).collect::<String>()
    ))
}

fn differences(then: &RunEnded, now: &RunEnded) -> Vec<String> {
    let mut differences = Vec::new();
    if then.outcome != now.outcome {
        differences.push(format!("it came to {}, and now to {}", shown(&then.outcome), now.outcome));
    }
    if then.said_sha256 != now.said_sha256 {
        differences.push(first_difference(then, now));
    }
    differences
}

/// The first line that is another one, of what is kept of both.
fn first_difference(then: &RunEnded, now: &RunEnded) -> String {
    let (then, now) = (said(then), said(now));
    let pairs = then.iter().map(Some).chain(std::iter::repeat(None));
    let mut pairs = pairs.zip(now.iter().map(Some).chain(std::iter::repeat(None)));
    let differing = pairs.by_ref().take(then.len().max(now.len())).find(|(then, now)| then != now);
    let line = |line: Option<&String>| line.map_or("(nothing)".into(), |line| shown(line));
    match differing {
        Some((then, now)) => format!("it says otherwise\n  now:  {}\n  then: {}", line(now), line(then)),
        None => "it says otherwise, behind what is kept of it".into(),
    }
}

/// The lines of what a run has said, stream by stream.
fn said(ended: &RunEnded) -> Vec<String> {
    let of = |stream: OutputStream| {
        let pieces = ended.output.iter().filter(move |written| written.stream == stream);
        pieces.map(|written| written.text.as_str()).collect::<String>()
    };
    let mut said = vec![of(OutputStream::Stdout), of(OutputStream::Stderr)];
    said.extend(ended.value.clone());
    said.extend(ended.bound.iter().cloned());
    said.extend(ended.error.as_ref().map(|error| format!("{}: {}", error.class, error.message)));
    said.iter().flat_map(|text| text.lines().map(str::to_owned)).collect()
}

fn shown(line: &str) -> String {
    text::inert_excerpt(line, LINE_CHARS_MAX)
}

fn say(run: u64, compared: &Compared, is_json: bool) {
    let (word, said) = match compared {
        Compared::Same => ("same", vec![]),
        Compared::Differs(differences) => ("differs", differences.clone()),
        Compared::LeftOut(why) => ("left_out", vec![why.clone()]),
        Compared::Stopped(why) => ("stopped", vec![why.clone()]),
        Compared::NotStarted(why) => ("not_started", vec![why.clone()]),
    };
    if is_json {
        return out!("{}", json!({"run": run, "came": word, "said": said}));
    }
    let said: String = said.iter().map(|said| format!("\n{said}").replace('\n', "\n  ")).collect();
    out!("run {run}: {}{}", word.replace('_', " "), text::inert(&said));
}
