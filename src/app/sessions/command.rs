//! `belljar session`: lists, shows, exports, removes and replays recorded sessions.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use belljar_base::clock;
use serde_json::json;

use super::replay::{ReplayArguments, replay};
use super::session_words::{about, of_damage, of_job, of_run, of_session};
use crate::app::common::failure::{Failure, told};
use crate::app::common::printing::{err, out, row, to_stdout};
use crate::app::common::user_file;
use crate::app::one_bridge::status_of_running;
use crate::cli::{self, ExportFormat, SessionCommand};
use crate::config::{Config, ConfigFiles};
use crate::journal::{
    JournalDetail, RecordedRun, RecordedSession, SessionSummary, Sessions, SessionsError, notebook, script,
};

impl From<SessionsError> for Failure {
    fn from(error: SessionsError) -> Self {
        match error {
            SessionsError::Unknown { .. } | SessionsError::Ambiguous { .. } => Self::Usage(error.to_string()),
            SessionsError::InUse { .. }
            | SessionsError::NotEarlier { .. }
            | SessionsError::Unreadable { .. }
            | SessionsError::Folder(_) => Self::Failed(error.to_string()),
        }
    }
}

/// Executes the subcommand, or prints why it failed.
pub(crate) async fn session(config: Config, files: ConfigFiles, arguments: cli::Session) -> ExitCode {
    let Some(dir) = config.owner.journals() else {
        err!("belljar: no home folder is known, so no session is kept");
        return ExitCode::FAILURE;
    };
    let sessions = Sessions::new(dir, &config.limits);
    let done = match arguments.command {
        SessionCommand::Ls { json } => list(&sessions, &config, json).await,
        SessionCommand::Show { id, run } => show(&sessions, &id, run),
        SessionCommand::Export { id, format, output } => {
            export((&sessions, &id), format, output.as_deref(), &files.foreign_places())
        }
        SessionCommand::Rm { ids, older_than, all } => remove(&sessions, &ids, older_than, all),
        SessionCommand::Replay { id, until, record, json } => match found(&sessions, &id) {
            Ok(session) => {
                return replay(files, session, ReplayArguments { until, record, json }).await;
            }
            Err(failure) => Err(failure),
        },
    };
    told(done)
}

fn found(sessions: &Sessions, id: &str) -> Result<RecordedSession, Failure> {
    Ok(sessions.read(&sessions.find(id)?)?)
}

async fn list(sessions: &Sessions, config: &Config, is_json: bool) -> Result<(), Failure> {
    let all = sessions.all().map_err(SessionsError::from)?;
    if all.is_empty() {
        let off = match config.journal {
            JournalDetail::Off => "; nothing is added, since MCP_BRIDGE_JOURNAL is off",
            JournalDetail::Calls | JournalDetail::Full => "",
        };
        err!("belljar: no session is kept yet in {}{off}", sessions.dir().display());
    }
    let shared = match all.iter().any(|session| session.is_open) {
        true => shared(config).await,
        false => Vec::new(),
    };
    for session in all {
        let is_shared = session.is_open && shared.contains(&Sessions::short(&session.id));
        match is_json {
            true => {
                let SessionSummary { id, began, client, runs, calls, last, bytes, is_open, has_run: _ } =
                    session;
                out!(
                    "{}",
                    json!({"id": id, "began": began, "client": client, "runs": runs, "calls": calls,
                           "last": last, "bytes": bytes, "in_use": is_open, "shared": is_shared})
                );
            }
            false => row!("{}{}", about(&session), if is_shared { " by `belljar serve`" } else { "" }),
        }
    }
    Ok(())
}

/// The beginnings of the IDs of the shared bridge's sessions.
async fn shared(config: &Config) -> Vec<String> {
    match status_of_running(config).await {
        Ok(status) => {
            status.into_iter().flat_map(|status| status.sessions).map(|session| session.id).collect()
        }
        Err(error) => {
            err!("belljar: the running `belljar serve` cannot be asked for its sessions: {error}");
            Vec::new()
        }
    }
}

fn show(sessions: &Sessions, id: &str, run: Option<u64>) -> Result<(), Failure> {
    let session = found(sessions, id)?;
    let wanted = session.runs.iter().filter(|recorded| run.is_none_or(|run| recorded.begun.run == run));
    let of = |recorded: &RecordedRun| {
        let jobs = session.jobs.iter().filter(|job| job.begun.run == recorded.begun.run);
        of_run(recorded) + &jobs.map(of_job).collect::<String>()
    };
    let shown: Vec<String> = wanted.map(of).collect();
    if let Some(run) = run
        && shown.is_empty()
    {
        let count = session.runs.len();
        return Err(Failure::Usage(format!("it has no run {run}; it has {count}")));
    }
    if run.is_none() {
        to_stdout(&of_session(&session));
    }
    to_stdout(&shown.concat());
    if let Some(damage) = of_damage(&session) {
        err!("belljar: {damage}");
    }
    Ok(())
}

fn export(
    (sessions, id): (&Sessions, &str),
    format: ExportFormat,
    to: Option<&Path>,
    foreign: &[PathBuf],
) -> Result<(), Failure> {
    let session = found(sessions, id)?;
    let written = match format {
        ExportFormat::Py => script(&session),
        ExportFormat::Ipynb => format!("{:#}\n", notebook(&session)),
    };
    if let Some(damage) = of_damage(&session) {
        err!("belljar: {damage}");
    }
    let Some(to) = to else {
        to_stdout(&written);
        return Ok(());
    };
    let failed = |error: std::io::Error| Failure::Failed(user_file::why_not(to, &error));
    // An existing file of the user is not overwritten.
    user_file::create(to, foreign, |file| file.write_all(written.as_bytes())).map_err(failed)
}

fn remove(sessions: &Sessions, ids: &[String], older_than: Option<u32>, all: bool) -> Result<(), Failure> {
    let ids: Vec<String> = match older_than {
        _ if all => sessions.all().map_err(SessionsError::from)?.into_iter().map(|about| about.id).collect(),
        Some(days) => {
            let since = clock::timestamp_before(Duration::from_secs(u64::from(days) * 86_400))
                .ok_or_else(|| Failure::Usage(format!("--older-than: {days} days is too long")))?;
            let all = sessions.all().map_err(SessionsError::from)?;
            all.into_iter().filter(|about| about.last < since).map(|about| about.id).collect()
        }
        // All sessions are found before the first one is removed.
        None => ids.iter().map(|id| sessions.find(id)).collect::<Result<_, _>>()?,
    };
    let mut in_use = 0;
    for id in &ids {
        match sessions.remove(id) {
            Ok(()) => {}
            Err(SessionsError::InUse { id }) => {
                in_use += 1;
                err!("belljar: the session {id} is in use, and stays");
            }
            Err(error) => return Err(error.into()),
        }
    }
    out!("{} removed", ids.len() - in_use);
    if in_use > 0 && older_than.is_none() && !all {
        return Err(Failure::Failed("not all were removed".into()));
    }
    Ok(())
}
