//! `belljar config`: every setting with its value and source, the schema for editors, and trust in projects.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use belljar_base::problem::{Position, Severity};
use belljar_base::text;
use belljar_confine::Network;
use serde_json::{Value, json};

use super::common::printing::{err, is_confirmed, out, row, to_stdout};
use crate::cli::ConfigCommand;
use crate::config::{
    Config, EnvPattern, Environment, ProjectFile, RefusedServer, SandboxFiles, SandboxServers, ServerConfig,
    Source, Transport, TrustError, distrust_project, policy_schema, schema,
};

/// Prints the settings, the servers and every problem; the exit code is 1 if any of these is an error.
pub(super) fn show(config: &Config, as_json: bool) -> ExitCode {
    if as_json {
        out!("{:#}", as_value(config))
    } else {
        print(config)
    }
    let is_wrong = config.problems.iter().any(|problem| problem.severity == Severity::Error);
    ExitCode::from(u8::from(is_wrong))
}

/// Executes the subcommands that need no configuration.
pub(super) fn command(command: &ConfigCommand, environment: &Environment) -> ExitCode {
    let limits = belljar_base::limits::Limits::default();
    let done: Result<(), TrustError> = match command {
        ConfigCommand::Schema(of) => {
            out!("{:#}", if of.policy { policy_schema() } else { schema() });
            Ok(())
        }
        ConfigCommand::Trust => ProjectFile::read(environment, &limits).and_then(|file| {
            to_stdout(&text::inert(&file.text));
            // What the user has read before may have been changed since.
            if std::io::stdin().is_terminal() && !is_confirmed("trust this file? [y/N] ") {
                return Err(TrustError::Unconfirmed);
            }
            file.trust(environment, &limits)?;
            out!("belljar: trusted until it changes: {}", shown(&file.path));
            Ok(())
        }),
        ConfigCommand::Untrust => {
            distrust_project(environment, &limits).map(|path| out!("belljar: not trusted: {}", shown(&path)))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            err!("belljar: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(config: &Config) {
    for setting in &config.settings {
        let value = setting.value.as_ref().map_or_else(|| "-".into(), ToString::to_string);
        row!("{:26} {:16}  {}", setting.name, text::inert_line(&value), from(&setting.source));
    }
    for mount in &config.mounts {
        let how = if mount.writable { "writable" } else { "read-only" };
        let (host, (path, position)) = (text::inert_line(&mount.host.display().to_string()), &mount.source);
        row!("{:26} {:16}  {how}, {host}, {}", "mount", mount.guest, place(path, *position));
    }
    for server in &config.servers {
        let place = place(&server.source, server.position);
        row!("{:26} {:16}  {}, {place}", "server", server.name, server.shown_reach());
    }
    for RefusedServer { name, source, position, reason } in &config.refused {
        let place = place(source, *position);
        row!("{:26} {:16}  NOT USED, {place}: {}", "server", name, text::inert_line(reason));
    }
    for problem in &config.problems {
        out!("{}: {problem}", problem.severity);
    }
}

pub(super) fn from(source: &Source) -> String {
    match source {
        Source::Default => "default".into(),
        Source::File { path, position } => place(path, *position),
        Source::Variable(name) => name.clone(),
    }
}

fn place(path: &Path, Position { line, column }: Position) -> String {
    format!("{}:{line}:{column}", shown(path))
}

/// Whoever sends a folder chooses its name.
fn shown(path: &Path) -> String {
    text::inert_line(&path.display().to_string())
}

fn server_as_value(server: &ServerConfig, by_default: SandboxServers) -> Value {
    let Position { line, column } = server.position;
    let kind = match server.transport {
        Transport::Launch(_) => "command",
        Transport::Endpoint(_) => "url",
    };
    let rules = &server.rules;
    let env_inherit = match &server.transport {
        Transport::Launch(launch) => launch.env_inherit.iter().map(EnvPattern::as_str).collect(),
        Transport::Endpoint(_) => vec![],
    };
    let sandbox = match &server.transport {
        Transport::Launch(launch) => launch.sandbox.resolved(by_default).map(|sandbox| {
            let network = if sandbox.network == Network::Host { "host" } else { "none" };
            json!({"read": sandbox.read, "write": sandbox.write, "network": network})
        }),
        Transport::Endpoint(_) => None,
    };
    json!({
        "name": server.name.as_str(), "path": server.source, "line": line, "column": column,
        "kind": kind, "reach": server.shown_reach(),
        "env_inherit": env_inherit, "start_timeout": rules.start_time.map(|time| time.as_secs_f64()),
        "timeout": rules.call_time.map(|time| time.as_secs_f64()), "max_concurrency": rules.calls_at_once,
        "sandbox": sandbox, "sandbox_files": rules.sandbox_files == SandboxFiles::Sent,
        "private": rules.is_private,
        "commands": server.deferred.as_ref().map_or(0, |deferred| deferred.commands().len()),
    })
}

fn refused_as_value(server: &RefusedServer) -> Value {
    let RefusedServer { name, source, position: Position { line, column }, reason } = server;
    json!({"name": name.as_str(), "path": source, "line": line, "column": column, "reason": reason})
}

fn as_value(config: &Config) -> Value {
    let source = |source: &Source| match source {
        Source::Default => json!({"kind": "default"}),
        Source::File { path, position } => {
            json!({"kind": "file", "path": path, "line": position.line, "column": position.column})
        }
        Source::Variable(name) => json!({"kind": "variable", "name": name}),
    };
    let settings = config.settings.iter().map(
        |setting| json!({"name": setting.name, "value": setting.value, "source": source(&setting.source)}),
    );
    let problems = config
        .problems
        .iter()
        .map(|problem| json!({"severity": problem.severity.to_string(), "message": problem.to_string()}));
    json!({
        "settings": settings.collect::<Vec<_>>(),
        "mounts": config.mounts.iter().map(|mount| json!({
            "host": mount.host, "guest": mount.guest, "writable": mount.writable,
            "path": mount.source.0, "line": mount.source.1.line, "column": mount.source.1.column,
        })).collect::<Vec<_>>(),
        "servers": config.servers.iter().map(|server| server_as_value(server, config.sandbox_servers)).collect::<Vec<_>>(),
        "refused_servers": config.refused.iter().map(refused_as_value).collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    })
}
