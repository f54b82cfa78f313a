//! `belljar session replay`: runs the code of a session again in a new sandbox, and compares it with the record.

use std::process::ExitCode;

use belljar_base::problem::report;
use belljar_base::text;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::session_words::of_damage;
use crate::app::common::printing::{err, out, row};
use crate::app::common::progress::ProgressLine;
use crate::app::common::signals::Signals;
use crate::app::wiring::Modules;
use crate::broker::AnswerSource;
use crate::cli::RecordWay;
use crate::config::ConfigFiles;
use crate::journal::JournalDetail;
use crate::journal::{RecordedRun, RecordedSession};
use crate::rerun::{RerunOptions, RunComparison};

/// The name of this command in journals and policies.
const CLIENT: &str = "belljar session replay";
/// The exit code for a replay with differences.
const DIFFERS: u8 = 1;
const USAGE: u8 = 2;
/// The exit code for a replay that stopped at a call without a recorded answer.
const STOPPED: u8 = 3;
/// The exit code for a sandbox that cannot be started, as `docker run` and `podman run` have it.
const NO_SANDBOX: u8 = 125;

/// The arguments of a replay.
pub(crate) struct ReplayArguments {
    pub(crate) until: Option<u64>,
    pub(super) record: RecordWay,
    pub(crate) json: bool,
}

/// Replays the session, and prints a line for each run.
pub(super) async fn replay(files: ConfigFiles, session: RecordedSession, asked: ReplayArguments) -> ExitCode {
    report(&files.config().problems);
    let count = session.runs.len() as u64;
    if let Some(until) = asked.until.filter(|until| !session.runs.iter().any(|run| run.begun.run == *until)) {
        err!("belljar: --until {until}: the session has no such run; it has {count}");
        return ExitCode::from(USAGE);
    }
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            err!("belljar: cannot listen for signals: {error}");
            return ExitCode::from(70);
        }
    };
    // A replay does not change the journal that it reads, stored files, or the user's files.
    let (mut config, files) = files.adjusted(|config| {
        (config.journal, config.workspace, config.resume) = (JournalDetail::Off, None, None);
        config.mounts.iter_mut().for_each(|mount| mount.writable = false);
    });
    config.time_zone = session.time_zone().unwrap_or(config.time_zone);
    let modules = Modules::build(&config, files);
    let answer_source = match asked.record {
        RecordWay::Recorded => AnswerSource::Recorded,
        RecordWay::Live => AnswerSource::Live,
    };
    let until = asked.until.unwrap_or(u64::MAX);
    let runs: Vec<&RecordedRun> = session.runs.iter().filter(|run| run.begun.run <= until).collect();
    let (mut is_first, mut worst) = (true, 0);
    let options = RerunOptions {
        answer_source,
        client: CLIENT,
        cancel: &CancellationToken::new(),
        progress: None,
        is_aside: false,
        keep_files: true,
    };
    let (progress, count) = (ProgressLine::new("starting a sandbox"), runs.len());
    for (at, run) in runs.into_iter().enumerate() {
        progress.step(&format!("replaying run {} of {count}", at + 1));
        let comparison = tokio::select! {
            comparison = modules.reruns.rerun(run, is_first, &options) => comparison,
            ending = signals.next() => {
                worst = ending.exit_code();
                break;
            }
        };
        say(run.begun.run, &comparison, asked.json);
        is_first &= matches!(comparison, RunComparison::LeftOut(_));
        let (code, goes_on) = match comparison {
            RunComparison::Same | RunComparison::LeftOut(_) => (0, true),
            RunComparison::Differs(_) | RunComparison::Lost => (DIFFERS, true),
            RunComparison::Stopped(_) => (STOPPED, false),
            RunComparison::NotStarted(_) => (NO_SANDBOX, false),
        };
        worst = worst.max(code);
        if !goes_on {
            break;
        }
    }
    if let Some(damage) = of_damage(&session) {
        err!("belljar: {damage}");
    }
    progress.step("ending the sandbox");
    modules.close(&config).await;
    ExitCode::from(worst)
}

fn say(run: u64, comparison: &RunComparison, is_json: bool) {
    let (word, said) = match comparison {
        RunComparison::Same => ("same", vec![]),
        RunComparison::Differs(differences) => ("differs", differences.clone()),
        RunComparison::Lost => ("differs", vec!["its variables were lost".into()]),
        RunComparison::LeftOut(why) => ("left_out", vec![why.clone()]),
        RunComparison::Stopped(why) => ("stopped", vec![why.clone()]),
        RunComparison::NotStarted(fault) => {
            ("not_started", vec![format!("{}\n{}", fault.message, fault.hint)])
        }
    };
    if is_json {
        return out!("{}", json!({"run": run, "came": word, "said": said}));
    }
    let said: String = said.iter().map(|said| format!("\n{said}").replace('\n', "\n  ")).collect();
    row!("run {run}: {}{}", word.replace('_', " "), text::inert(&said));
}
