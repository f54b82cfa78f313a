//! `hotcell log`: what was called and run, for the user to read.

use std::process::ExitCode;

use super::printing::{err, out};
use crate::audit::{Entry, Event, Filter, entries, time};
use crate::cli;
use crate::config::Config;
use crate::text;

const USAGE: u8 = 2;
/// Longest text of one column, in characters.
const COLUMN_CHARS_MAX: usize = 200;

/// Prints the wanted entries, oldest first.
pub(super) fn log(config: &Config, arguments: cli::Log) -> ExitCode {
    let since = match arguments.since.as_deref().map(time).transpose() {
        Ok(since) => since,
        Err(message) => {
            err!("hotcell: --since: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let Some(dir) = &config.own_state_dir else {
        err!("hotcell: no home folder is known, so nothing is written down");
        return ExitCode::FAILURE;
    };
    let cli::Log { server, tool, outcome, session, denied, lines, json, .. } = arguments;
    let found = match entries(dir, &Filter { server, tool, outcome, session, since, denied }) {
        Ok(found) => found,
        Err(error) => {
            err!("hotcell: the log in {} cannot be read: {error}", dir.display());
            return ExitCode::FAILURE;
        }
    };
    for entry in &found[found.len().saturating_sub(lines)..] {
        match serde_json::to_string(entry) {
            Ok(line) if json => out!("{line}"),
            _ => out!("{}", shown(entry)),
        }
    }
    ExitCode::SUCCESS
}

fn shown(entry: &Entry) -> String {
    let Entry { time, session, event } = entry;
    let session: String = session.chars().take(8).collect();
    let rest = match event {
        Event::Run(run) => {
            format!("run {} {}, {} ms, {} calls", run.run, run.outcome, run.ms, run.calls)
        }
        Event::Call(call) => format!(
            "run {} {}.{} {}, {} ms, {} B out, {} B in, {} {}",
            call.run,
            call.server,
            call.tool,
            call.outcome,
            call.ms,
            call.bytes_out,
            call.bytes_in,
            text::bounded(&call.decision, COLUMN_CHARS_MAX),
            text::bounded(&call.arguments.to_string(), COLUMN_CHARS_MAX),
        ),
    };
    // The file is the user's, but what stands in it came from code.
    text::inert_line(&format!("{time} {session} {rest}"))
}
