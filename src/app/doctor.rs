//! `belljar doctor`: reports what works and what does not, with advice.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use belljar_base::names::ServerName;
use belljar_base::programs::{find_program, searched_places};
use belljar_base::run::ToolFault;
use belljar_base::text;
use belljar_confine::ChangeablePlaces;
use belljar_confine::ServerSandbox;
use belljar_engine::{EngineInfo, FleetMember, Kernel, find, survey};
use belljar_guard::{Mark, SERVER_LABEL, engine_of, is_left_over};
use belljar_protocol::{Posture, PostureField};
use belljar_upstream::{ProcessSpec, ServerSpec, ServerTransport, Upstream, in_words};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::common::printing::{err, out};
use super::common::progress::ProgressLine;
use super::common::report::Report;
use super::{images, login, model, one_bridge, wiring};
use crate::audit::last_entries;
use crate::cli::{self, VERSION};
use crate::config::{
    Config, ConfigFiles, DeferredEntry, Environment, Launch, ServerConfig, Transport, own_program,
};
use crate::session::{SandboxReport, Session};

/// The number of log entries that are shown for each server.
const ENTRIES_SHOWN: usize = 3;

/// The number of sessions of the shared bridge that are shown.
const SESSIONS_SHOWN: usize = 3;

/// Longest reason why a server does not answer, in characters.
const WHY_CHARS_MAX: usize = 500;

/// How long servers are waited for before the wait is announced.
const PATIENCE: Duration = Duration::from_secs(2);

/// The largest number of trial starts of a server. Each further start lets the server read more files that it lacks.
const TRIALS_MAX: usize = 5;

/// The largest number of servers that are checked in parallel if no server is started.
const LOOKED_AT_AT_ONCE_MAX: usize = 16;

/// Prints the report; the exit code is 1 if code could not be run. With `--ask`, the servers are started. `client` has
/// lines about the client that this environment comes from.
pub(super) async fn doctor(
    config: Config,
    mut files: ConfigFiles,
    arguments: &cli::Doctor,
    client: &[String],
) -> ExitCode {
    let (asks, report) = (arguments.ask, Report::new(arguments.json));
    files.record_given();
    let config = Config { unrecorded: files.config().unrecorded.clone(), ..config };
    match arguments.json {
        true => report.line("version", VERSION),
        false => out!("belljar {VERSION}"),
    }
    for (at, said) in client.iter().enumerate() {
        report.line(if at == 0 { "client" } else { "" }, said);
    }
    let limits = Arc::new(config.limits.clone());
    let progress = ProgressLine::new("starting a sandbox");
    fleet(&config, &report).await;
    let probed = Session::probe(wiring::settings_once(&config), limits).await;
    match &probed {
        Ok((about, started)) => sandbox(about, started, &config, &report).await,
        Err(fault) => {
            engine_alone(&config, &report).await;
            no_sandbox(fault, &report);
        }
    }
    if let Some(stored) = stored_by_search_by_meaning(&config) {
        report.line("unused", &stored);
    }
    report.line("model", &model::state(&config));
    let environment = Arc::clone(files.environment());
    progress.step("waiting for the model");
    if asks && let Some(answer) = model::answer(&config, &environment).await {
        report.line("", &answer);
    }
    shared_bridge(&config, &report).await;
    let asking = asks.then(|| wiring::servers(&config, files, &Mark::new()));
    let asking = asking.map(|(active_config, upstream)| (active_config.specs(), upstream));
    let asked = asking.as_ref().map(|(specs, upstream)| (specs.as_slice(), &**upstream));
    servers(&config, &environment, asked, (&report, &progress)).await;
    progress.step("ending the servers");
    containers_of_servers(&config, &report).await;
    if let Some((_, upstream)) = asking {
        upstream.close().await;
    }
    rights(&config, &report);
    problems(&config, &report);
    report.end();
    ExitCode::from(u8::from(probed.is_err()))
}

/// Reports each of several engines.
async fn fleet(config: &Config, report: &Report) {
    let locations = wiring::locations(config, Some(Mark::new()));
    let members = survey(locations.fleet(), &locations, &wiring::images(config), &config.lock_dir).await;
    for (at, member) in members.into_iter().enumerate() {
        let said = match member {
            Ok(FleetMember { address, sandboxes, memory_bytes, .. }) => {
                format!("{address}: {sandboxes} sandboxes, {} of memory", mebibytes(memory_bytes))
            }
            Err((address, reason)) => format!("{address}: NOT USED: {reason}"),
        };
        report.line(if at == 0 { "engines" } else { "" }, &text::inert_line(&said));
    }
}

async fn sandbox(about: &EngineInfo, started: &SandboxReport, config: &Config, report: &Report) {
    let Posture { memory_max_bytes, pids_max, cpu_max_millis, .. } = started.posture;
    report.line("engine", &format!("{}, {}", about.name, rootless(&started.posture)));
    if about.is_containers {
        runtime(about, config, report);
    }
    report.line("kernel", &kernel(started));
    if about.is_containers {
        report.line("socket", &started.address);
    }
    report.line("image", &format!("{} (Python {})", started.image, started.python));
    if let Some(why) = images::of_another_version(config).await {
        report.line("", &format!("WARNING: {why}"));
    }
    let watched = |field| started.watched.contains(&field);
    let memory = limit(memory_max_bytes.map(mebibytes), &mebibytes(config.memory_bytes));
    report.line("memory", &with_watch(memory, watched(PostureField::Memory)));
    let processes = limit(pids_max, &u64::from(config.pids));
    report.line("processes", &with_watch(processes, watched(PostureField::Pids)));
    match config.cpu_millis {
        Some(millis) => report.line("cpus", &limit(cpu_max_millis.map(cpus), &cpus(millis.into()))),
        None => {
            let default = cpu_max_millis.map(|millis| format!("{} enforced (default)", cpus(millis)));
            report.line("cpus", &default.unwrap_or_else(|| "not limited by this engine".into()));
        }
    }
    report.line("network", "none");
    report.line("landlock", &landlock(&started.posture));
    let scores = [&started.posture.process, &started.worker.process].map(|process| process.oom_score_adj);
    if let [Some(supervisor), Some(interpreter)] = scores {
        let scores = format!("score {interpreter} of the interpreter, {supervisor} of its supervisor");
        let is_last = interpreter > supervisor;
        let danger = "; the engine forbids a lower one, so too much memory may end the whole sandbox";
        report.line("oom", &format!("{scores}{}", if is_last { "" } else { danger }));
    }
    report.line("sandbox", "starts and answers");
    if started.reaped > 0 {
        report.line("removed", &format!("{} stale containers of bridges that are gone", started.reaped));
    }
    for notice in started.rootful().into_iter().chain(started.notices.iter().map(String::as_str)) {
        report.line("notice", notice);
    }
    if !started.extra_system_calls.is_empty() {
        let calls: Vec<String> = started.extra_system_calls.iter().map(ToString::to_string).collect();
        report
            .line("WEAKER", &format!("system calls allowed by sandbox.extra_syscalls: {}", calls.join(", ")));
    }
    for weakness in &started.allowed {
        report.line("WEAKER", &format!("{weakness} (allowed by MCP_BRIDGE_ALLOW_WEAK)"));
    }
}

/// Reports the engine if it works although no sandbox could be started.
async fn engine_alone(config: &Config, report: &Report) {
    let locations = wiring::locations(config, Some(Mark::new()));
    let Ok((engine, _)) = find(&locations, &wiring::images(config), &config.lock_dir).await else { return };
    match engine.about().await {
        Ok(about) => {
            report.line("engine", &about.name);
            runtime(&about, config, report);
        }
        Err(error) => report.line("engine", &error.to_string()),
    }
    report.line("socket", engine.address());
}

/// Reports the OCI runtime, which separates the code from the machine.
fn runtime(about: &EngineInfo, config: &Config, report: &Report) {
    let engines = about.runtime.as_ref();
    // The engine reports only the version of its default runtime.
    if let Some(name) = &config.engine.oci_runtime
        && engines.is_none_or(|runtime| runtime.name != *name)
    {
        return report.line("runtime", &text::inert_line(name));
    }
    let Some(runtime) = engines else { return report.line("runtime", "the engine does not say which") };
    report.line("runtime", &text::inert_line(&format!("{} {}", runtime.name, runtime.version)));
    if let Some(why) = runtime.why_update() {
        report.line("", &format!("WARNING: {why}"));
    }
}

/// Describes the kernel, which code would also have to break to escape.
fn kernel(report: &SandboxReport) -> String {
    let seen = text::inert_line(&report.posture.kernel);
    match report.kernel {
        Kernel::Shared => format!("shares the host's kernel ({seen})"),
        Kernel::Guest | Kernel::Gvisor => format!("has a kernel of its own ({seen})"),
    }
}

fn no_sandbox(fault: &ToolFault, report: &Report) {
    report.line("sandbox", &format!("MISSING: {}", fault.message));
    report.line("", &format!("what to do: {}", fault.hint));
}

/// Reports the bridge that clients share, if one is running.
async fn shared_bridge(config: &Config, report: &Report) {
    match one_bridge::status_of_running(config).await {
        Ok(None) => {}
        Ok(Some(status)) => {
            report.line("shared", &status.to_string());
            for session in status.sessions.iter().take(SESSIONS_SHOWN) {
                report.line("", &session.to_string());
            }
            if let Some(more @ 1..) = status.sessions.len().checked_sub(SESSIONS_SHOWN) {
                report.line("", &format!("and {more} more: `belljar serve status`"));
            }
        }
        Err(error) => report.line("shared", &format!("`belljar serve` CANNOT BE ASKED: {error}")),
    }
}

/// The folders that search by meaning of earlier versions has left, with the command that deletes them; `None`: there
/// are none.
fn stored_by_search_by_meaning(config: &Config) -> Option<String> {
    let vectors = config.cache_dir.as_ref().map(|dir| dir.join("vectors"));
    let folders = [config.former_model_dir.clone(), vectors].into_iter().flatten().filter(|dir| dir.is_dir());
    let shown: Vec<String> =
        folders.map(|dir| format!("'{}'", dir.display().to_string().replace('\'', r"'\''"))).collect();
    let command = format!("rm -r {}", shown.join(" "));
    (!shown.is_empty())
        .then(|| format!("the model and vectors of search by meaning, which was removed: {command}"))
}

/// Reports how many servers have the user's rights, and how to change that.
fn rights(config: &Config, report: &Report) {
    let (free, all) = config.servers_with_rights();
    let count = format!("{free} of {all} servers that a command starts run with all your rights");
    match free {
        _ if all == 0 => {}
        0 => report.line("rights", &count),
        _ => report.line("rights", &format!("{count}; `sandbox = true` in an entry confines one")),
    }
}

async fn servers(
    config: &Config,
    environment: &Environment,
    asking: Option<(&[ServerSpec], &Upstream)>,
    (report, progress): (&Report, &ProgressLine),
) {
    if config.servers.is_empty() && config.refused.is_empty() {
        report.line(
            "servers",
            "none configured (~/MCPs/*.json, [servers.NAME] of config.toml, MCP_SERVERS_CONFIG)",
        );
    }
    // Each start takes a whole processor, so more starts in parallel would only delay each other.
    let at_once = match asking {
        Some(_) => std::thread::available_parallelism().map_or(1, NonZero::get),
        None => LOOKED_AT_AT_ONCE_MAX,
    };
    let under_way = &RefCell::new(BTreeSet::new());
    let awaited = || {
        let names: Vec<&str> = under_way.borrow().iter().map(|name: &&ServerName| name.as_str()).collect();
        format!("waiting for {}", text::inert_line(&names.join(", ")))
    };
    let states = futures_util::stream::iter(&config.servers).map(|server| async move {
        under_way.borrow_mut().insert(&server.name);
        progress.step(&awaited());
        let mut said = answer(server, asking.map(|(_, upstream)| upstream)).await;
        if let Some((specs, _)) = asking {
            said.extend(trial(config, server, specs).await);
        }
        let told = (server, state(config, environment, server).await, said);
        under_way.borrow_mut().remove(&server.name);
        progress.step(&awaited());
        told
    });
    let mut states = std::pin::pin!(states.buffered(at_once));
    // A terminal shows the line of progress instead.
    let mut are_named = progress.is_shown();
    loop {
        let next = match are_named {
            false => tokio::time::timeout(PATIENCE, states.next()).await,
            true => Ok(states.next().await),
        };
        match next {
            Ok(Some((server, state, answer))) => {
                report.line("server", &state);
                if let Some(confined) = confined(server, config) {
                    report.line("", &confined);
                }
                if let Some(inherited) = inherited(server, environment) {
                    report.line("", &inherited);
                }
                for said in answer {
                    report.line("", &said);
                }
                last_log_entries(config, &server.name, report);
            }
            Ok(None) => break,
            Err(_) => {
                are_named = true;
                err!("belljar: {}", awaited());
            }
        }
    }
    for refused in &config.refused {
        let reason = &refused.reason;
        let reason = ["is not used: ", "cannot be used: "].iter().find_map(|said| reason.strip_prefix(said));
        let reason = text::inert_line(reason.unwrap_or(&refused.reason));
        report.line("server", &format!("{}: NOT USED: {reason}", refused.name));
    }
}

/// Names the containers of servers whose bridge has been killed together with its keepers.
async fn containers_of_servers(config: &Config, report: &Report) {
    let engines = config.servers.iter().filter_map(|server| match &server.transport {
        Transport::Launch(Launch { program, args, env, .. }) => {
            let env: Vec<_> = env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            Some((engine_of(program, args)?, env))
        }
        Transport::Endpoint(_) => None,
    });
    let changeable = config.changeable.iter().map(|path| (String::new(), path.clone()));
    let changeable = ChangeablePlaces::new(changeable);
    for (engine, env) in engines.collect::<BTreeSet<_>>() {
        let found = match engine[0].to_str() {
            Some(name) if !name.contains('/') => own_program(name, config.path.as_deref(), &changeable),
            _ => Some(engine[0].clone().into()),
        };
        let Some(program) = &found else { continue };
        let said = async |args: &[&str]| {
            let mut command = tokio::process::Command::new(program);
            command.args(&engine[1..]).args(args).envs(env.iter().map(|(name, value)| (name, value)));
            command.stdin(Stdio::null()).kill_on_drop(true);
            let said = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
            Some(String::from_utf8_lossy(&said.stdout).into_owned())
        };
        let filter = format!("label={SERVER_LABEL}");
        let ids = said(&["ps", "-aq", "--filter", &filter]).await.unwrap_or_default();
        for id in ids.split_whitespace() {
            let format = format!("{{{{index .Config.Labels {SERVER_LABEL:?}}}}}");
            let label = said(&["inspect", "--format", &format, id]).await.unwrap_or_default();
            if !label.trim().is_empty() && is_left_over(label.trim()) {
                let engine = engine.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
                let id = text::inert_line(id);
                report.line(
                    "container",
                    &format!("{id} is left of a bridge that is gone: {engine} rm -f {id}"),
                );
            }
        }
    }
}

async fn state(config: &Config, environment: &Environment, server: &ServerConfig) -> String {
    let path = config.path.as_deref();
    let found = match &server.transport {
        _ if server.deferred.as_ref().is_some_and(DeferredEntry::hides_reach) => server.shown_reach(),
        Transport::Launch(launch) => {
            let (program, cwd) = (&launch.program, launch.folder(environment));
            match find_program(program, path, &cwd, environment.home.as_deref()) {
                _ if !cwd.is_dir() => format!("NOT FOUND: cwd {}", cwd.display()),
                Some(file) => format!("found at {}", file.display()),
                None if program.is_absolute() => format!("NOT FOUND: command {}", program.display()),
                None => format!("NOT FOUND: command {} in {}", program.display(), searched_places(path)),
            }
        }
        Transport::Endpoint(endpoint) => {
            format!("at {}, {}", server.shown_origin(endpoint), login::state(config, server, endpoint).await)
        }
    };
    let found = server.without_references(found);
    text::inert_line(&format!("{}: {found} ({})", server.name, server.source.display()))
}

/// The access that the entry gives a confined server beyond its own program.
fn confined(server: &ServerConfig, config: &Config) -> Option<String> {
    let Transport::Launch(launch) = &server.transport else { return None };
    let sandbox = launch.sandbox.resolved(config.sandbox_servers)?;
    Some(text::inert_excerpt(&format!("confined: sandbox = {sandbox}"), WHY_CHARS_MAX))
}

/// Starts an unconfined server in a sandbox as a trial, and describes the result and what to write into its entry. Each
/// further start lets the server read the ordinary files that it named as missing. The server gets no network.
async fn trial(config: &Config, server: &ServerConfig, specs: &[ServerSpec]) -> Option<String> {
    let spec = specs.iter().find(|spec| spec.name == server.name)?;
    let (ServerTransport::Process(process), None) = (&spec.transport, &spec.deferred) else { return None };
    let Transport::Launch(launch) = &server.transport else { return None };
    if process.sandbox.is_some() {
        return None;
    }
    let limits = Arc::new(config.limits.clone());
    let mut sandbox = ServerSandbox::default();
    for _ in 0..TRIALS_MAX {
        let process = ProcessSpec {
            sandbox: Some(sandbox.clone()),
            cwd: launch.cwd.clone(),
            changeable: belljar_upstream::PlacesNow::new({
                let changeable = config.changeable.clone();
                move || Ok(changeable.clone())
            }),
            ..process.clone()
        };
        let spec = ServerSpec { transport: ServerTransport::Process(process), ..spec.clone() };
        let upstream = Upstream::new(vec![spec], &limits);
        let tools = upstream.tools(&server.name, &CancellationToken::new()).await;
        let why = tools.as_ref().err().map(ToString::to_string);
        upstream.close().await;
        let before = sandbox.clone();
        match tools {
            Ok(_) => {
                let written =
                    if sandbox == ServerSandbox::default() { "true".into() } else { sandbox.to_string() };
                let said = format!(
                    "starts confined with `sandbox = {written}` in its entry; {}its calls may need more, and name it",
                    word_of_server(&sandbox)
                );
                // The user copies this text, so it is not shortened. Its paths are few, with ordinary characters only.
                return Some(text::inert_line(&said));
            }
            Err(error) => {
                sandbox
                    .read
                    .extend(error.lacks().iter().filter_map(|lack| lack.to_read()).map(Path::to_owned));
                if sandbox == before {
                    let needs = in_words(error.lacks()).map(|needs| format!("; {needs}")).unwrap_or_default();
                    let why = text::inert_excerpt(&why.unwrap_or_default(), WHY_CHARS_MAX);
                    let word = word_of_server(&sandbox);
                    let said =
                        format!("{word}does not start confined with `sandbox = {sandbox}`: {why}{needs}");
                    return Some(said);
                }
            }
        }
    }
    None
}

/// A remark that only the server named the paths that it may read; empty if it may read no paths.
fn word_of_server(sandbox: &ServerSandbox) -> &'static str {
    match sandbox.read.is_empty() {
        true => "",
        false => "the server named the paths, and nobody has checked that it needs them; ",
    }
}

/// The variables that the server inherits by its entry's `env_inherit`, in addition to the default ones.
fn inherited(server: &ServerConfig, environment: &Environment) -> Option<String> {
    let Transport::Launch(Launch { env_inherit, .. }) = &server.transport else { return None };
    if env_inherit.is_empty() {
        return None;
    }
    let names = environment.inherited_by(env_inherit);
    let shown = if names.is_empty() { "no variable that is set".to_owned() } else { names.join(", ") };
    Some(text::inert_excerpt(&format!("inherits by env_inherit: {shown}"), WHY_CHARS_MAX))
}

/// The result of starting or reaching the server, and advice; empty if servers are not started.
async fn answer(server: &ServerConfig, asking: Option<&Upstream>) -> Vec<String> {
    let Some(upstream) = asking else { return vec![] };
    let mut said = match upstream.tools(&server.name, &CancellationToken::new()).await {
        Ok(tools) => vec![format!("answers; tools: {}", tools.len())],
        Err(error) => {
            let why = error.to_string();
            let advice = error.advice(&server.place()).map(|advice| format!("what to do: {advice}"));
            [format!("FAILED: {}", text::inert_excerpt(&why, WHY_CHARS_MAX))]
                .into_iter()
                .chain(advice)
                .collect()
        }
    };
    let unread = upstream.unread(&server.name, None).map(|unread| upstream.redacted(&server.name, unread));
    said.extend(unread.map(|unread| format!("NOT READ: {}", text::inert_excerpt(&unread, WHY_CHARS_MAX))));
    said
}

/// Prints the last log entries of the server, from any bridge.
fn last_log_entries(config: &Config, server: &ServerName, report: &Report) {
    let Some(dir) = config.owner.server_log() else { return };
    match last_entries(&dir, server, ENTRIES_SHOWN) {
        Ok(entries) => {
            for entry in entries {
                // The file is the user's, but its content comes from the server.
                let said = format!("{}, {}: {}", entry.level, entry.age(), entry.text);
                report.line("", &format!("said: {}", text::inert_line(&said)));
            }
        }
        Err(error) => report.line("", &format!("what it has said cannot be read: {error}")),
    }
}

fn problems(config: &Config, report: &Report) {
    for problem in &config.problems {
        let shown = problem.to_string();
        // A problem that prevents the use of a server was reported in the line of that server.
        if !config.refused.iter().any(|refused| refused.reason.ends_with(&shown)) {
            report.line("config", &format!("{}: {shown}", problem.severity));
        }
    }
}

/// The protection that the kernel's Landlock adds to the sandbox, or the reason why it adds none.
fn landlock(posture: &Posture) -> String {
    let without = "code can lower its oom_score_adj to the supervisor's, make FIFOs, and write to those of mounted folders";
    match posture.landlock {
        0 if posture.landlock_forbidden => {
            format!("NOT IN USE: the engine's seccomp profile forbids it; {without}; update the engine")
        }
        0 => format!("NOT IN USE: the kernel has none, or not switched on; {without}"),
        1 => format!("NOT IN USE: the kernel's version 1 is too old; {without}"),
        version => format!("in use, version {version}"),
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
    if watched { format!("{limit}, watched by belljar") } else { limit }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn cpus(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}
