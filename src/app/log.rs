//! `belljar log`: prints the audit log of calls and runs.

use std::path::Path;
use std::process::ExitCode;

use belljar_base::text;
use serde_json::Value;

use super::common::printing::{err, out, row};
use crate::audit::{Entry, Event, Filter, RunEvent, entries, time};
use crate::cli;
use crate::config::{Audit, Config};

const USAGE: u8 = 2;
/// Longest text of one column, in characters.
const COLUMN_CHARS_MAX: usize = 200;

/// Prints the wanted entries, oldest first.
pub(super) fn log(config: &Config, arguments: cli::Log) -> ExitCode {
    let since = match arguments.since.as_deref().map(time).transpose() {
        Ok(since) => since,
        Err(message) => {
            err!("belljar: --since: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let Some(dir) = &config.own_state_dir else {
        err!("belljar: no home folder is known, so nothing is written down");
        return ExitCode::FAILURE;
    };
    let cli::Log { server, tool, outcome, session, denied, lines, json, .. } = arguments;
    let filter = Filter { server, tool, outcome, session, since, denied };
    let is_filtered = filter != Filter::default();
    let found = match entries(dir, &filter) {
        Ok(found) => found,
        Err(error) => {
            err!("belljar: the log in {} cannot be read: {error}", dir.display());
            return ExitCode::FAILURE;
        }
    };
    if found.is_empty() {
        err!("belljar: {}", nothing(config, is_filtered, dir));
    }
    for entry in &found[found.len().saturating_sub(lines)..] {
        match serde_json::to_string(entry) {
            Ok(line) if json => out!("{line}"),
            _ => row!("{}", shown(entry)),
        }
    }
    ExitCode::SUCCESS
}

/// The reason why there are no entries to show.
fn nothing(config: &Config, is_filtered: bool, dir: &Path) -> String {
    let off =
        if config.audit == Audit::Off { "; nothing is added, since MCP_BRIDGE_AUDIT is off" } else { "" };
    match is_filtered {
        true => format!("nothing in the log is like that; `belljar log` alone shows the last of all{off}"),
        false => format!("nothing has been written down yet in {}{off}", dir.display()),
    }
}

fn shown(entry: &Entry) -> String {
    let Entry { time, session, owner, event } = entry;
    let session: String = session.chars().take(8).collect();
    let owner = owner.as_ref().map(|owner| format!(" {owner}")).unwrap_or_default();
    let rest = match event {
        Event::Run(run) if run.run == 0 => format!("refused {}: {}", run.outcome, run.why),
        Event::Run(run) => {
            let RunEvent { run, outcome, calls, readings, ms, why, .. } = run;
            let calls = counted(*calls, "call");
            let readings =
                if *readings > 0 { format!(", {}", counted(*readings, "reading")) } else { String::new() };
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            format!("run {run} {outcome}, {ms} ms, {calls}{readings}{why}")
        }
        Event::Call(call) => format!(
            "run {}{} {}.{} {}{}, {} ms, {} B out, {} B in, {}{}",
            call.run,
            call.job.map(|job| format!(" job {job}")).unwrap_or_default(),
            call.server,
            call.tool,
            call.outcome,
            if call.times == 1 { String::new() } else { format!(" {} times", call.times) },
            call.ms,
            call.bytes_out,
            call.bytes_in,
            text::bounded(&call.decision, COLUMN_CHARS_MAX),
            arguments(&call.arguments),
        ),
    };
    // The file is the user's, but its content comes from code.
    text::inert_line(&format!("{time} {session}{owner} {rest}"))
}

/// The arguments in one column; empty if they were not logged.
fn arguments(arguments: &Value) -> String {
    match arguments {
        Value::Null => String::new(),
        given => format!(" {}", text::bounded(&given.to_string(), COLUMN_CHARS_MAX)),
    }
}

fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
