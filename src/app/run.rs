//! `belljar run`: code from the shell, in the same sandbox and with the same servers.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::File;
use std::future::pending;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use belljar_base::problem::report;
use belljar_base::run::{
    OutputCut, OutputStream, PlannedCall, PlannedCalls, PythonError, Reset, RunOutcome, RunReport,
    RunRequest, SandboxLoss, ServerScope, StateNote,
};
use belljar_base::text;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::common::named::named;
use super::common::printing::{err, lost, out, to_stderr, to_stdout};
use super::common::progress::ProgressLine;
use super::common::signals::{EndSignal, Signals};
use super::common::user_file;
use super::wiring::Modules;
use crate::broker::Origin;
use crate::cli;
use crate::config::{Config, ConfigFiles};
use crate::jobs::Status;
use crate::render::{calls_made, calls_with_unknown_outcome};
use crate::server::described;
use crate::session::RunSubmission;
use crate::workspace::FilePath;

/// The name of this command in journals.
const CLIENT: &str = "belljar run";
/// The exit code for wrong usage, as clap has it.
const USAGE: u8 = 2;
/// The exit code for a timeout of the code, as `timeout(1)` has it.
const TIMED_OUT: u8 = 124;
/// The exit code for a sandbox that cannot be started, as `docker run` and `podman run` have it.
const NO_SANDBOX: u8 = 125;

/// The largest number of bytes of each stream that are printed. The smaller limit of replies is made for models; this
/// output goes to a file or a pipe, where an omission would not be noticed.
const PRINTED_BYTES_MAX: usize = 64 << 20;
/// The number of steps that wait to be shown.
const PROGRESS_MAX: usize = 16;

/// Runs the code; the exit code is that of the code.
pub(super) async fn run(mut config: Config, config_files: ConfigFiles, mut arguments: cli::Run) -> ExitCode {
    report(&config.problems);
    config.limits.output_head_bytes_max = PRINTED_BYTES_MAX;
    config.limits.output_tail_bytes_max = 0;
    config.trace_denied = arguments.trace_denied;
    let (files, foreign) = (std::mem::take(&mut arguments.files), config_files.foreign_places());
    let files: Vec<(FilePath, File)> = match files.iter().map(|path| given(path, &foreign)).collect() {
        Ok(files) => files,
        Err(message) => {
            err!("belljar: --file: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let names: BTreeSet<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    if names.len() < files.len() {
        err!(
            "belljar: --file: two of the files have the same name; each is put into /workspace under its own"
        );
        return ExitCode::from(USAGE);
    }
    let config = match arguments.session.take().map(|from| from.parse()).transpose() {
        Ok(resume) => Config { resume: resume.or(config.resume.clone()), ..config },
        Err(message) => {
            err!(
                "belljar: --session {message}: write the beginning of its name, or last, and :N behind it for its run N"
            );
            return ExitCode::from(USAGE);
        }
    };
    let request = match request(&config, arguments, &foreign) {
        Ok(request) => request,
        Err(message) => {
            err!("belljar: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            err!("belljar: cannot listen for signals: {error}");
            return ExitCode::from(70);
        }
    };
    let modules = Modules::build(&config, config_files);
    for (path, file) in files {
        if let Err(reason) = modules.session.files().put(path, file).await {
            err!("belljar: --file: {reason}");
            modules.close(&config).await;
            return ExitCode::from(USAGE);
        }
    }
    let cancel = CancellationToken::new();
    let mut asked = RunSubmission::unattended(request, cancel.clone(), CLIENT, Origin::Client);
    let line = ProgressLine::new("starting the sandbox");
    let (tell, mut told) = mpsc::channel(PROGRESS_MAX);
    // Servers are asked for progress if anybody follows it.
    if line.is_shown() {
        asked.progress = tell;
    }
    let follow = async {
        while let Some(progress) = told.recv().await {
            line.step(&described(&progress));
        }
        pending::<Infallible>().await
    };
    let mut running = pin!(modules.reruns.run(asked));
    let (reported, ending) = tokio::select! {
        reported = &mut running => (Some(reported), None),
        never = follow => match never {},
        ending = signals.next() => {
            cancel.cancel();
            // After a signal, the output and the calls so far are still reported. A second signal ends the command at
            // once.
            let reported = tokio::select! {
                reported = tokio::time::timeout(config.limits.grace + config.limits.replace, running) => reported.ok(),
                _ = signals.next() => None,
            };
            (reported, Some(ending))
        }
    };
    drop(line);
    let code = match reported {
        Some(Ok(report)) => print(&report),
        Some(Err(fault)) => {
            err!("belljar: {fault}");
            70
        }
        None => 70,
    };
    let code = ending.map_or(code, EndSignal::exit_code);
    if modules.broker.jobs().all().iter().any(|job| job.status == Status::Running) {
        err!("belljar: jobs that go on end with this command: `await` them in the code");
    }
    modules.close(&config).await;
    ExitCode::from(code)
}

fn request(config: &Config, arguments: cli::Run, foreign: &[PathBuf]) -> Result<RunRequest, String> {
    let code = match (arguments.code, arguments.file) {
        (Some(code), _) => code,
        (None, Some(file)) => source(&file, foreign, config.limits.code_bytes_max as u64)?,
        (None, None) => return Err("give CODE with -c, or a FILE".into()),
    };
    let timeout = match arguments.timeout {
        None => config.timeout,
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|timeout| !timeout.is_zero() && *timeout <= config.timeout_max)
            .ok_or_else(|| {
                format!(
                    "--timeout is {seconds}, it must be above 0 and up to {}",
                    config.timeout_max.as_secs()
                )
            })?,
    };
    let mut servers = Vec::new();
    for name in &arguments.servers {
        servers.push(named(config, name)?.name.clone());
    }
    let servers = if servers.is_empty() { ServerScope::All } else { ServerScope::Only(servers) };
    Ok(RunRequest {
        code,
        servers,
        timeout,
        timeout_max: config.timeout_max,
        reset: Reset::No,
        dry_run: arguments.dry_run,
        keep_files: true,
    })
}

/// A file to copy into the workspace, under its own name.
fn given(path: &Path, foreign: &[PathBuf]) -> Result<(FilePath, File), String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let named = FilePath::new(name).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((named, user_file::plain(path, foreign)?))
}

fn source(file: &Path, foreign: &[PathBuf], bytes_max: u64) -> Result<String, String> {
    let shown = text::inert_line(&file.display().to_string());
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(bytes_max + 1).read_to_end(&mut bytes)
    } else {
        user_file::plain_or_passed(file, foreign)?.take(bytes_max + 1).read_to_end(&mut bytes)
    };
    if let Err(error) = read {
        return Err(format!("cannot read {shown}: {error}"));
    }
    if bytes.len() as u64 > bytes_max {
        return Err(format!("{shown} is larger than {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        format!("{shown}:{line}: is not UTF-8")
    })
}

/// Prints the output of the code to the streams that it was written to, and the rest to stderr; returns the exit code.
fn print(report: &RunReport) -> u8 {
    for piece in &report.output.pieces {
        match piece.stream {
            OutputStream::Stdout => to_stdout(&piece.text),
            OutputStream::Stderr => to_stderr(&piece.text),
        };
    }
    if let Some(value) = &report.value {
        out!("{value}");
    }
    for (stream, cut) in [("stdout", report.output.stdout_cut), ("stderr", report.output.stderr_cut)] {
        if let Some(OutputCut { bytes, .. }) = cut {
            lost(&format!("the last {bytes} bytes of {stream}: at most {PRINTED_BYTES_MAX} are printed"));
        }
    }
    for line in planned(&report.calls.planned) {
        to_stderr(&line);
    }
    for note in &report.notes {
        err!("belljar: {}", text::inert_line(note));
    }
    for note in &report.sandbox_notes {
        err!("sandbox: {}", text::inert_line(note));
    }
    let (code, message) = ending(report);
    if let Some(message) = message {
        to_stderr(&message);
    }
    for line in calls_made(report).into_iter().chain(calls_with_unknown_outcome(report)) {
        err!("belljar: {line}");
    }
    code
}

/// A line for each call that a dry run has not made.
fn planned(planned: &PlannedCalls) -> Vec<String> {
    let count = planned.calls.len() as u64 + planned.further;
    if count == 0 {
        return vec![];
    }
    let mut lines = vec![format!("belljar: dry run, calls that were not made: {count}\n")];
    lines.extend(planned.calls.iter().map(|PlannedCall { server, tool, arguments, job, asks, .. }| {
        let job = job.map(|job| format!("job {job}: ")).unwrap_or_default();
        let tool = text::inert_line(&format!("{server}.{tool}"));
        let asks = if *asks { " (the user would be asked)" } else { "" };
        format!("  {job}{tool} {arguments}{asks}\n")
    }));
    if planned.further > 0 {
        lines.push(format!("  and {} more\n", planned.further));
    }
    lines
}

fn ending(report: &RunReport) -> (u8, Option<String>) {
    let low_byte = |code: i64| (code & 0xff) as u8;
    match &report.outcome {
        RunOutcome::Finished => (0, None),
        RunOutcome::Exited { exit_code } => (low_byte(*exit_code), None),
        RunOutcome::Raised(PythonError { traceback, class, message, hint, .. }) => {
            let mut text = if traceback.is_empty() {
                format!("{class}: {message}\n")
            } else {
                format!("{}\n", traceback.trim_end())
            };
            if !hint.is_empty() {
                text.push_str(&format!("sandbox: {}\n", text::inert_line(hint)));
            }
            (1, Some(text))
        }
        RunOutcome::TimedOut { after, .. } => {
            let is_kept = matches!(report.state, StateNote::Kept | StateNote::Fresh(_));
            let kept = if is_kept { ", as it was interrupted" } else { "" };
            (TIMED_OUT, Some(format!("belljar: ended after {} s{kept}\n", after.as_secs_f64())))
        }
        RunOutcome::Interrupted => (130, Some("belljar: interrupted\n".into())),
        RunOutcome::SandboxLost(loss) => match loss {
            SandboxLoss::Exited { exit_code } => (
                low_byte(*exit_code),
                Some(format!("belljar: the interpreter ended itself with {exit_code}\n")),
            ),
            SandboxLoss::Killed { signal, out_of_memory } => {
                let why = if *out_of_memory { ", out of memory" } else { "" };
                (
                    low_byte(128 + signal),
                    Some(format!("belljar: the interpreter was killed by signal {signal}{why}\n")),
                )
            }
            SandboxLoss::OverLimit { exceeded } => {
                (128 + 9, Some(format!("belljar: the interpreter was ended: {exceeded}\n")))
            }
            SandboxLoss::Container { reason } => {
                (NO_SANDBOX, Some(format!("belljar: the container is gone: {reason}\n")))
            }
        },
        RunOutcome::NotStarted(fault) => {
            (NO_SANDBOX, Some(format!("belljar: {}\n  {}\n", fault.message, fault.hint)))
        }
    }
}
