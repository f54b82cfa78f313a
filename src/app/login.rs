//! `belljar login` and `belljar logout`: a login at a remote server, made in the user's browser, and its state.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use belljar_base::system::System;
use belljar_base::text;
use belljar_confine::ChangeablePlaces;
use belljar_upstream::{
    Client, LoginRequest, LoginSpec, LoginState, LogoutOutcome, PendingLogin, ProbeResult, RemoteSpec,
};

use super::common::named::named;
use super::common::printing::{err, out};
use super::common::signals::Signals;
use crate::broker::remote_spec;
use crate::cli;
use crate::config::{Config, Endpoint, Environment, ServerConfig, Transport, own_program};

const USAGE: u8 = 2;
/// The longest message of a system or server in one line, in characters.
const SAID_CHARS_MAX: usize = 300;

/// The secret of the user's own client, from the variable that the command line names.
pub(super) fn client_secret(arguments: &cli::Login, environment: &Environment) -> Option<String> {
    let name = arguments.client_secret_env.as_ref()?;
    environment.variable(name).and_then(|value| value.to_str()).map(str::to_owned)
}

/// Logs in; the exit code is 0 if the login is stored.
pub(super) async fn login(config: &Config, arguments: cli::Login, secret: Option<String>) -> ExitCode {
    let (server, remote, login_spec) = match place(config, &arguments.server) {
        Ok(place) => place,
        Err(message) => return usage(&message),
    };
    let LoginSpec { file, settings } = login_spec;
    if settings.service.is_some() {
        let (name, kind) = (text::inert_line(&arguments.server), settings.kind());
        return usage(&format!(
            "belljar logs in to {name} by itself ({kind}, as its entry says); there is nothing to do"
        ));
    }
    if let (Some(variable), None) = (&arguments.client_secret_env, &secret) {
        return usage(&format!("the variable {variable:?} of --client-secret-env is not set, or no text"));
    }
    let client = arguments.client_id.map(|id| Client { id, secret });
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return failed(&format!("cannot listen for signals: {error}")),
    };
    let name = text::inert_line(&arguments.server);
    let browser = (!arguments.no_browser).then(|| opener(config)).flatten();
    let login = async {
        let references = server.references.iter();
        let references = references.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = LoginRequest {
            remote,
            secrets: references.collect(),
            file: file.clone(),
            scopes: arguments.scopes,
            client,
            token_endpoint: arguments.token_endpoint,
            requires_dpop: settings.requires_dpop,
        };
        let started = belljar_upstream::begin(request).await?;
        show(&name, &started, browser.as_deref());
        started.finish().await
    };
    tokio::select! {
        done = login => match done {
            Ok(()) => {
                out!("logged in to {name}{}", lasts(&file.state(&settings)));
                ExitCode::SUCCESS
            }
            Err(error) => failed(&format!("no login at {name}: {error}")),
        },
        ending = signals.next() => ExitCode::from(ending.exit_code()),
    }
}

/// Logs out; the exit code is 1 if the login is still stored.
pub(super) async fn logout(config: &Config, arguments: &cli::Logout) -> ExitCode {
    let (_, _, login) = match place(config, &arguments.server) {
        Ok(place) => place,
        Err(message) => return usage(&message),
    };
    let name = text::inert_line(&arguments.server);
    match belljar_upstream::log_out(&login).await {
        Ok(LogoutOutcome::NoLogin) => out!("there is no login at {name}"),
        Ok(LogoutOutcome::Revoked) => out!("logged out of {name}; its tokens are revoked"),
        Ok(LogoutOutcome::OnlyHere(why)) => out!(
            "logged out of {name} here; its authorization server was not told, so that the tokens stay good there: {}",
            text::inert_excerpt(&why, SAID_CHARS_MAX)
        ),
        Err(error) => return failed(&format!("the login at {name} cannot be removed: {error}")),
    }
    ExitCode::SUCCESS
}

/// The line of `doctor` about the login at a remote server.
pub(super) async fn state(config: &Config, server: &ServerConfig, endpoint: &Endpoint) -> String {
    let remote = remote_spec(&server.name, endpoint, config.owner.logins().as_deref());
    let command = format!("run: belljar login {}", text::shell_word(server.name.as_str(), SAID_CHARS_MAX));
    let Some(LoginSpec { file, settings }) = &remote.login else {
        return match config.owner.logins() {
            Some(_) => {
                "not asked, since it would be sent its own credentials; `belljar doctor --ask` does that"
                    .into()
            }
            None => "not asked, since no home folder is known and so no login".into(),
        };
    };
    let state = file.state(settings);
    if let Some(service) = &settings.service {
        let client = service.client.as_ref().map_or_else(String::new, |client| {
            format!(" as {}", text::inert_excerpt(&client.id, SAID_CHARS_MAX))
        });
        let token = match &state {
            LoginState::LoggedIn { .. } => lasts(&state),
            LoginState::Unreadable(why) => format!("; its token cannot be read: {why}"),
            LoginState::None | LoginState::OfAnotherAddress => {
                "; no token yet, `belljar doctor --ask` gets one".into()
            }
        };
        return format!("logs in by itself ({}{client}){token}", settings.kind());
    }
    match &state {
        LoginState::LoggedIn { .. } => format!("logged in{}", lasts(&state)),
        LoginState::OfAnotherAddress => format!("the login is for another address; {command}"),
        LoginState::Unreadable(why) => format!("the login cannot be read: {why}; {command}"),
        LoginState::None => match belljar_upstream::probe(&remote).await {
            Ok(ProbeResult::Open) => "answers".into(),
            Ok(ProbeResult::Other(why)) => format!("NO SERVER THERE: {why}; correct its url"),
            Ok(ProbeResult::Wants { challenge: Some(_), .. }) => format!("needs a login; {command}"),
            Ok(ProbeResult::Wants { challenge: None, .. }) => {
                format!("wants credentials: headers, or {command}")
            }
            Err(why) => format!("NOT REACHED: {}", text::inert_excerpt(&why, SAID_CHARS_MAX)),
        },
    }
}

/// A server with the specifications of itself and its login, or the reason why it has no login.
fn place<'c>(config: &'c Config, name: &str) -> Result<(&'c ServerConfig, RemoteSpec, LoginSpec), String> {
    let server = named(config, name)?;
    let Transport::Endpoint(endpoint) = &server.transport else {
        return Err(format!("server {name:?} is started by a command; only one with a url has a login"));
    };
    let Some(dir) = config.owner.logins() else {
        return Err("no home folder is known, so there is no place for a login".into());
    };
    let remote = remote_spec(&server.name, endpoint, Some(&dir));
    match remote.login.clone() {
        Some(login) => Ok((server, remote, login)),
        None => Err(format!(
            "server {name:?} has an Authorization header in {}, which is what is used; remove it first",
            server.source.display()
        )),
    }
}

fn opener(config: &Config) -> Option<PathBuf> {
    let changeable = config.changeable.iter().map(|path| (String::new(), path.clone()));
    own_program(System::HERE.opener(), config.path.as_deref(), &ChangeablePlaces::new(changeable))
}

fn show(name: &str, started: &PendingLogin, browser: Option<&Path>) {
    let address = started.address();
    let opened = browser.is_some_and(|browser| {
        let mut command = tokio::process::Command::new(browser);
        command.arg(address.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // The command may be the browser itself, so its end is not awaited.
        command.spawn().is_ok()
    });
    let what = if opened { "your browser should open; if it does not, open" } else { "open in a browser" };
    out!("to log in to {name}, {what}:\n  {address}");
}

/// The lifetime of a login, in words that follow "logged in".
fn lasts(state: &LoginState) -> String {
    let LoginState::LoggedIn { ends_in, renews, is_bound } = state else { return String::new() };
    let what = if *is_bound { "the token is bound to a key (DPoP) and" } else { "the token" };
    let renewed = if *renews { ", is renewed by itself" } else { ", then a new login is needed" };
    match ends_in {
        Some(ends_in) => format!("; {what} expires in {}{renewed}", about(*ends_in)),
        None => format!("; {what} does not say when it expires"),
    }
}

fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7_200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn usage(message: &str) -> ExitCode {
    err!("belljar: {message}");
    ExitCode::from(USAGE)
}

fn failed(message: &str) -> ExitCode {
    err!("belljar: {message}");
    ExitCode::FAILURE
}
