//! `hotcell doctor`: what works, what does not, and what to do about it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::StreamExt;

use super::{login, search_model, wiring};
use crate::audit::last_remarks;
use crate::config::{Config, Later, Launch, Reach, ServerConfig, locate_program};
use crate::engine::{About, find};
use crate::guard::Mark;
use crate::names::ServerName;
use crate::protocol::{Posture, PostureField};
use crate::run::ToolFault;
use crate::session::{SandboxReport, Session};
use crate::text;

/// Remarks of each server that are shown.
const REMARKS_SHOWN: usize = 3;

/// Remote servers that are asked at once whether they want a login.
const ASKED_AT_ONCE_MAX: usize = 16;

/// Prints the report; the exit code is 1 when code could not be run.
pub(super) async fn doctor(config: Config) -> ExitCode {
    println!("hotcell {}", env!("CARGO_PKG_VERSION"));
    let limits = Arc::new(config.limits.clone());
    let probed = Session::probe(wiring::sandbox_settings(&config, Mark::new()), limits).await;
    match &probed {
        Ok((about, report)) => sandbox(about, report, &config),
        Err(fault) => {
            engine_alone(&config).await;
            no_sandbox(fault);
        }
    }
    line("search", &search_model::state(&config));
    servers(&config).await;
    problems(&config);
    ExitCode::from(u8::from(probed.is_err()))
}

fn sandbox(about: &About, report: &SandboxReport, config: &Config) {
    let Posture { memory_max_bytes, pids_max, cpu_max_millis, .. } = report.posture;
    line("engine", &format!("{} {}, {}", about.kind, about.version, rootless(&report.posture)));
    line("socket", &report.address);
    line("image", &format!("{} (Python {})", report.image, report.python));
    let watched = |field| report.watched.contains(&field);
    let memory = limit(memory_max_bytes.map(mebibytes), &mebibytes(config.memory_bytes));
    line("memory", &with_watch(memory, watched(PostureField::Memory)));
    let processes = limit(pids_max, &u64::from(config.pids));
    line("processes", &with_watch(processes, watched(PostureField::Pids)));
    match config.cpu_millis {
        Some(millis) => line("cpus", &limit(cpu_max_millis.map(cpus), &cpus(millis.into()))),
        None => line("cpus", "no limit asked for"),
    }
    line("network", "none");
    line("sandbox", "starts and answers");
    if report.reaped > 0 {
        line("removed", &format!("{} stale containers of bridges that are gone", report.reaped));
    }
    for notice in &report.notices {
        line("notice", notice);
    }
    for weakness in &report.allowed {
        line("WEAKER", &format!("{weakness} (allowed by MCP_BRIDGE_ALLOW_WEAK)"));
    }
}

/// The engine, where there is one though no sandbox could be started.
async fn engine_alone(config: &Config) {
    let places = wiring::sandbox_settings(config, Mark::new()).places;
    let Ok(engine) = find(&places, &config.lock_dir).await else { return };
    match engine.about().await {
        Ok(about) => line("engine", &format!("{} {}", about.kind, about.version)),
        Err(error) => line("engine", &error.to_string()),
    }
    line("socket", &engine.address);
}

fn no_sandbox(fault: &ToolFault) {
    line("sandbox", &format!("MISSING: {}", fault.message));
    line("", &format!("what to do: {}", fault.hint));
}

async fn servers(config: &Config) {
    if config.servers.is_empty() {
        line("servers", "none configured (~/MCPs/*.json, [servers.NAME] of config.toml, MCP_SERVERS_CONFIG)");
    }
    let states = futures_util::stream::iter(&config.servers)
        .map(|server| async move { (server, state(config, server).await) });
    let mut states = std::pin::pin!(states.buffered(ASKED_AT_ONCE_MAX));
    while let Some((server, state)) = states.next().await {
        line("server", &state);
        remarks(config, &server.name);
    }
    for refused in &config.refused {
        line("server", &format!("{}: NOT USED ({})", refused.name, refused.source.display()));
    }
}

async fn state(config: &Config, server: &ServerConfig) -> String {
    let path = config.engine_addresses.path.as_deref();
    let found = match &server.reach {
        _ if server.later.as_ref().is_some_and(Later::hides_reach) => server.shown_reach(),
        Reach::Launch(Launch { program, cwd, .. }) => {
            match locate_program(program, path, cwd.as_deref().unwrap_or(Path::new("."))) {
                Some(file) => format!("found at {}", file.display()),
                None => format!("NOT FOUND: command {}", program.display()),
            }
        }
        Reach::Endpoint(endpoint) => {
            format!("at {}, {}", server.shown_origin(endpoint), login::state(config, server, endpoint).await)
        }
    };
    let found = server.without_references(found);
    format!("{}: {found} ({})", server.name, server.source.display())
}

/// What the server has said last, to any bridge.
fn remarks(config: &Config, server: &ServerName) {
    let Some(dir) = config.own_state_dir.as_ref().map(|dir| dir.join(wiring::SERVER_LOG)) else { return };
    match last_remarks(&dir, server, REMARKS_SHOWN) {
        Ok(remarks) => {
            for remark in remarks {
                // The file is the user's, but what stands in it came from the server.
                let said = format!("{}, {}: {}", remark.level, remark.age(), remark.text);
                line("", &format!("said: {}", text::inert_line(&said)));
            }
        }
        Err(error) => line("", &format!("what it has said cannot be read: {error}")),
    }
}

fn problems(config: &Config) {
    for problem in &config.problems {
        line("config", &format!("{}: {problem}", problem.severity));
    }
}

fn rootless(posture: &Posture) -> &'static str {
    if posture.user_namespace { "rootless" } else { "rootful" }
}

fn limit<T: std::fmt::Display>(enforced: Option<T>, asked: &T) -> String {
    match enforced {
        Some(enforced) => format!("{enforced} enforced"),
        None => format!("{asked} asked for, NOT ENFORCED by this engine"),
    }
}

fn with_watch(limit: String, watched: bool) -> String {
    if watched { format!("{limit}, watched by hotcell") } else { limit }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn cpus(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

fn line(label: &str, text: &str) {
    println!("{label:10} {text}");
}
