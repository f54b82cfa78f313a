//! `belljar serve`: listens on the user's socket, and serves each relay in a session of its own.

use std::fs::File;
use std::io;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_base::limits::Limits;
use belljar_base::own_file;
use belljar_base::problem::{Problem, report};
use belljar_base::text;
use nix::fcntl::Flock;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::bridges::{Bridges, SESSIONS_MAX};
use super::hello::{Hello, STATUS, STOP, VERSION, Welcome, Wish};
use super::http::{Http, HttpOptions};
use super::oauth::OAuth;
use super::owners::Owners;
use super::place::Place;
use super::status::BridgeStatus;
use super::tokens::Tokens;

use crate::app::common::printing::{err, out, row};
use crate::app::common::signals::Signals;
use crate::app::serve::handler;
use crate::audit::AuditLog;
use crate::config::{Audit, Config, ConfigFiles, Environment};
use crate::server::serve as serve_client;

/// The longest wait for the first message of somebody who has connected.
const HELLO: Duration = Duration::from_secs(10);
/// The largest number of connections that have not said who they are. A further one is closed.
const WAITING_MAX: usize = 64;
/// The largest number of open files that is asked for.
const FILES_MAX: u64 = 65_536;
/// How long a bridge that a relay has started goes on without a session.
const IDLE: Duration = Duration::from_secs(600);
/// The longest wait for the answer of the running bridge.
const ANSWERING: Duration = Duration::from_secs(5);
/// The longest wait for a bridge that was started.
const START: Duration = Duration::from_secs(10);
/// The time between two attempts to reach it.
const AGAIN: Duration = Duration::from_millis(10);
/// The line if no bridge is running.
const NOT_RUNNING: &str = "`belljar serve` is not running";
/// The longest wait for a bridge that is ending.
const LEAVING: Duration = Duration::from_secs(8);

/// Serves relays until a signal comes, and with `until_idle` until nobody has had a session for some time.
pub(crate) async fn serve_all(
    config: Config,
    environment: &Environment,
    until_idle: bool,
    http: Option<HttpOptions>,
) -> ExitCode {
    report(&config.problems);
    if until_idle {
        // Clients end whole groups of processes, and this one is for others, too. It fails only where it is so already.
        if let Err(error) = nix::unistd::setsid() {
            tracing::debug!(%error, "the session of processes stays");
        }
    }
    let place = Place::new(&config);
    let (listener, lock, key) = match listening(&place, until_idle).await {
        Ok(listening) => listening,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            err!("belljar: `belljar serve` is running already; `belljar serve status` shows its sessions");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            err!("belljar: cannot listen on {}: {error}", place.socket().display());
            return ExitCode::FAILURE;
        }
    };
    more_files();
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals");
            return ExitCode::from(70);
        }
    };
    tracing::info!(socket = %place.socket().display(), "listens for clients of this user");
    let (bridges, stopping) = (Arc::new(Bridges::default()), CancellationToken::new());
    let limits = Arc::new(config.limits.clone());
    let web = match http {
        None => None,
        Some(options) => match web(&config, environment, options, &bridges, stopping.clone()).await {
            Ok(web) => Some(web),
            Err(why) => {
                err!("belljar: {why}");
                leave(&place);
                return ExitCode::FAILURE;
            }
        },
    };
    let key: Arc<str> = key.into();
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    let mut sessions = JoinSet::new();
    let code = loop {
        let is_idle = until_idle && sessions.is_empty();
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (bridges, stopping) = (Arc::clone(&bridges), stopping.clone());
                    // What does not say soon who it is takes no place of the others.
                    if let Ok(place) = Arc::clone(&waiting).try_acquire_owned() {
                        let (limits, key) = (Arc::clone(&limits), Arc::clone(&key));
                        sessions.spawn(connection(stream, bridges, limits, stopping, key, place));
                    }
                }
                Err(error) => {
                    // The reason may pass, for example too many open files.
                    tracing::error!(%error, "cannot accept a client");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = sessions.join_next() => {}
            () = tokio::time::sleep(IDLE), if is_idle => break 0,
            () = stopping.cancelled() => break 0,
            ending = signals.next() => break ending.exit_code(),
        }
    };
    // Who comes now starts another bridge, which waits for the lock.
    drop(listener);
    leave(&place);
    stopping.cancel();
    let closing = async {
        while sessions.join_next().await.is_some() {}
        if let Some(web) = web
            && let Err(error) = web.await
        {
            tracing::error!(%error, "serving HTTP broke");
        }
        bridges.close().await;
    };
    tokio::select! {
        ended = tokio::time::timeout(config.limits.shutdown, closing) => {
            if ended.is_err() {
                tracing::warn!("not everything had ended in time; the guardians remove what is left");
            }
        }
        ending = signals.next() => return ExitCode::from(ending.exit_code()),
    }
    drop(lock);
    ExitCode::from(code)
}

/// Begins to serve HTTP.
///
/// # Errors
/// The reason why it cannot be served.
async fn web(
    config: &Config,
    environment: &Environment,
    options: HttpOptions,
    bridges: &Arc<Bridges>,
    stopping: CancellationToken,
) -> Result<JoinHandle<()>, String> {
    let state_dir =
        config.own_state_dir.as_ref().ok_or("no home folder is known, so there is no place for tokens")?;
    let listener = TcpListener::bind(options.address)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", options.address))?;
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let address = listener.local_addr().unwrap_or(options.address);
    let tokens = Tokens::new(state_dir);
    if options.oauth.is_none() && tokens.all().is_ok_and(|all| all.is_empty()) {
        err!("belljar: there is no token yet; `belljar token add NAME` makes one");
    }
    let own = format!("{scheme}://{address}/mcp");
    err!("belljar: MCP is at {own}");
    let oauth = options.oauth.clone().map(|options| OAuth::new(options, &own)).transpose()?;
    if let Some(oauth) = &oauth {
        err!("belljar: {}", text::inert_line(&oauth.to_string()));
    }
    let limits = Arc::new(config.limits.clone());
    let log = match config.audit {
        Audit::Off => AuditLog::start(None, &limits),
        _ => AuditLog::start(Some(state_dir.clone()), &limits),
    };
    let owners = Owners::new(tokens, Arc::clone(bridges), environment, limits);
    let options = HttpOptions { address, ..options };
    let http = Arc::new(Http::new(Arc::new(owners), options, oauth, log, config.limits.code_bytes_max));
    Ok(tokio::spawn(http.serve(listener, stopping)))
}

/// Removes the socket.
fn leave(place: &Place) {
    if let Err(error) = std::fs::remove_file(place.socket()) {
        tracing::debug!(%error, "the socket was removed by somebody else");
    }
}

/// Lets this process open as many files as it may: each sandbox and connection needs some, and the usual limit is 1,024.
fn more_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(soft, hard)| setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(FILES_MAX)), hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays");
    }
}

/// Takes the place. A bridge that a relay has started waits until one that is ending has left it.
async fn listening(place: &Place, waits: bool) -> io::Result<(UnixListener, Flock<File>, String)> {
    let until = tokio::time::Instant::now() + LEAVING;
    loop {
        match place.listen() {
            Err(error)
                if waits
                    && error.kind() == io::ErrorKind::AddrInUse
                    && tokio::time::Instant::now() < until =>
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            listening => return listening,
        }
    }
}

/// Serves whoever has connected.
async fn connection(
    stream: UnixStream,
    bridges: Arc<Bridges>,
    limits: Arc<Limits>,
    stopping: CancellationToken,
    key: Arc<str>,
    waiting: OwnedSemaphorePermit,
) {
    let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == nix::unistd::geteuid().as_raw());
    if !is_own {
        tracing::warn!("another user has connected, and is refused");
        return;
    }
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let answer = match tokio::time::timeout(HELLO, Wish::read(&mut read, &key)).await {
        Err(_) => return,
        Ok(Err(why)) => Welcome::No(why),
        Ok(Ok(Wish::Status)) => {
            let (version, process) = (VERSION.to_owned(), std::process::id());
            let status = BridgeStatus { version, process, sessions: bridges.statuses() };
            Welcome::Ok(json!(status).to_string())
        }
        Ok(Ok(Wish::Stop)) => {
            stopping.cancel();
            Welcome::Ok(String::new())
        }
        Ok(Ok(Wish::Session(hello))) if hello.version != VERSION && bridges.sessions() == 0 => {
            // The relay starts one of its own version.
            stopping.cancel();
            Welcome::No(format!("belljar {VERSION} has ended, since it had no session"))
        }
        Ok(Ok(Wish::Session(_))) if bridges.sessions() >= SESSIONS_MAX => {
            Welcome::No(format!("`belljar serve` has {SESSIONS_MAX} sessions, and takes no more"))
        }
        Ok(Ok(Wish::Session(hello))) => {
            drop(waiting);
            return session(hello, (read, write), &bridges, limits, stopping).await;
        }
    };
    if let Err(error) = answer.send(&mut write).await {
        tracing::debug!(%error, "the client has gone");
    }
}

async fn session(
    hello: Hello,
    (read, mut write): (BufReader<tokio::net::unix::OwnedReadHalf>, tokio::net::unix::OwnedWriteHalf),
    bridges: &Arc<Bridges>,
    limits: Arc<Limits>,
    stopping: CancellationToken,
) {
    let (config, files) = ConfigFiles::load(hello.environment);
    let problems: String = config.problems.iter().map(|problem| line(problem) + "\n").collect();
    let member = bridges.join(&config, files, None);
    if let Err(error) = Welcome::Ok(problems).send(&mut write).await {
        tracing::debug!(%error, "the client has gone");
        return;
    }
    let handler = handler(&member.modules, member.process.told(), Arc::clone(&limits));
    // rmcp cancels the token when the client has gone.
    let ending = stopping.child_token();
    if let Err(error) = serve_client(handler, (read, write), &limits, ending).await {
        tracing::error!(error, "the client did not open a connection");
    }
    if tokio::time::timeout(limits.shutdown, member.modules.close_session()).await.is_err() {
        tracing::warn!("a session had not ended in time");
    }
}

fn line(problem: &Problem) -> String {
    format!("{}: {problem}", problem.severity)
}

/// Prints the status of the running bridge.
pub(crate) async fn status(config: &Config, is_json: bool) -> ExitCode {
    match status_of_running(config).await {
        Ok(status) if is_json => out!("{}", json!(status)),
        Ok(Some(status)) => {
            out!("{status}");
            status.sessions.iter().for_each(|session| row!("{session}"));
        }
        Ok(None) => out!("{NOT_RUNNING}"),
        Err(error) => return not_asked(&error),
    }
    ExitCode::SUCCESS
}

/// Ends the running bridge.
pub(crate) async fn stop(config: &Config) -> ExitCode {
    let place = Place::new(config);
    match answer(&place, STOP).await {
        Ok(Some(_)) => place.left(LEAVING).await,
        Ok(None) => out!("{NOT_RUNNING}"),
        Err(error) => return not_asked(&error),
    }
    ExitCode::SUCCESS
}

fn not_asked(error: &io::Error) -> ExitCode {
    err!("belljar: the running `belljar serve` cannot be asked: {}", text::inert_line(&error.to_string()));
    ExitCode::FAILURE
}

/// The status of the running bridge; `None`: no bridge is running.
///
/// # Errors
/// The running bridge does not tell.
pub(crate) async fn status_of_running(config: &Config) -> io::Result<Option<BridgeStatus>> {
    let answered = answer(&Place::new(config), STATUS).await?;
    Ok(answered.map(|text| serde_json::from_str(&text)).transpose()?)
}

/// The answer of the running bridge; `None`: no bridge is running.
async fn answer(place: &Place, word: &str) -> io::Result<Option<String>> {
    let asking = async {
        let mut stream = place.connect().await?;
        Wish::send(word, &place.key(), &mut stream).await?;
        let (read, mut write) = stream.split();
        let (welcome, _) = Welcome::read(&mut BufReader::new(read)).await?;
        write.shutdown().await?;
        match welcome {
            Welcome::Ok(text) => Ok(Some(text)),
            Welcome::No(why) => Err(io::Error::other(why)),
        }
    };
    match tokio::time::timeout(ANSWERING, asking).await {
        Ok(Err(error))
            if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused].contains(&error.kind()) =>
        {
            Ok(None)
        }
        Ok(answered) => answered,
        Err(_) => Err(io::Error::other(format!("it has not answered within {} s", ANSWERING.as_secs()))),
    }
}

/// Starts `belljar serve` in the background and returns when it listens, so that nobody finds it among the processes of a
/// client.
pub(crate) async fn detach(files: &ConfigFiles) -> ExitCode {
    let environment = files.environment();
    let place = Place::new(files.config());
    let started = async {
        own_file::make_folder(&files.config().lock_dir)?;
        let log = own_file::open(&place.log(), File::options().write(true).create(true).truncate(true))?;
        let home = environment.home.clone().filter(|home| home.is_dir());
        let mut bridge = Command::new(environment.own_file())
            .args(["serve", "--until-idle"])
            .current_dir(home.unwrap_or_else(|| "/".into()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let until = Instant::now() + START;
        while place.connect().await.is_err() {
            let why = format!("{} says why", place.log().display());
            match bridge.try_wait()? {
                Some(status) => return Err(io::Error::other(format!("it has ended ({status}); {why}"))),
                None if Instant::now() > until => {
                    return Err(io::Error::other(format!("it is not ready; {why}")));
                }
                None => tokio::time::sleep(AGAIN).await,
            }
        }
        io::Result::Ok(())
    };
    match started.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            err!("belljar: `belljar serve` cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}
