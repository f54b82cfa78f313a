//! The entry point after the arguments were parsed.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use belljar_base::text;
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

use super::clients::uninstall_all::uninstall_all;
use super::clients::{import, install, through_client};
use super::common::failure::USAGE;
use super::common::logging;
use super::common::printing::{err, to_stdout, told};
use super::common::state_version;
use super::completions;
use super::images;
use super::one_bridge::{HttpOptions, OAuthOptions, Tls};
use super::sessions;
use super::{
    config, doctor, files, greeting, guardian, kubernetes, log, login, one_bridge, run, serve, skill, token,
    trust,
};
use crate::cli::{self, Arguments, Command, ServeCommand};
use crate::config::{ConfigFiles, Environment, Shared, claim_folders};

/// How much of a folder's path is shown, in characters.
const PATH_CHARS_MAX: usize = 200;
/// The largest number of folders of PATH that are shown.
const FOLDERS_SHOWN_MAX: usize = 5;

/// Executes the command line.
#[must_use]
pub fn main(arguments: Arguments) -> ExitCode {
    // These commands read no configuration.
    match arguments.command {
        #[cfg(target_os = "linux")]
        Some(Command::Keep(keep)) => match (keep.inside, &keep.confine) {
            (Some(keeper), Some(plan)) => belljar_guard::keep_inside(&keep.command, keeper, plan),
            (_, plan) => belljar_guard::keep(&keep.command, plan.as_deref(), keep.bridge, &keep.token),
        },
        #[cfg(target_os = "linux")]
        Some(Command::Confine(confine)) => match confine.parent {
            Some(parent) if !confine.inside => belljar_engine::begin(parent, &confine.plan),
            _ => belljar_engine::enter(&confine.plan),
        },
        Some(Command::Completions(arguments)) => told(completions::script(&arguments.shell)),
        Some(Command::Kubernetes(cli::Kubernetes::Manifests(arguments))) => {
            told(kubernetes::manifests(&arguments))
        }
        Some(Command::ManPages(arguments)) => completions::man_pages(&arguments.folder),
        Some(Command::Guardian(guardian)) => guardian::guard(guardian.mark.into()),
        command => told(outside_of_projects(command)),
    }
}

/// Leaves the folders of the opened project out of PATH, for this process and all that it starts, and then executes the
/// command.
fn outside_of_projects(command: Option<Command>) -> ExitCode {
    let environment = Environment::capture();
    if environment.cwd.is_none() {
        // Then nobody knows which folders a stranger may have filled.
        err!("belljar: the working folder cannot be told; start belljar in another one");
        return ExitCode::from(70);
    }
    let (left_out, path) = environment.path_without_projects();
    if left_out.is_empty() {
        return bridge(command, environment);
    }
    let shown =
        left_out.iter().map(|folder| text::inert_excerpt(&folder.display().to_string(), PATH_CHARS_MAX));
    err!(
        "belljar: searches no programs in {}, since whoever sends the opened project could put some there",
        shown.take(FOLDERS_SHOWN_MAX).collect::<Vec<_>>().join(", ")
    );
    let error = environment.again_with_path(&path);
    err!("belljar: cannot be started with another PATH: {error}; remove these folders from PATH");
    ExitCode::from(70)
}

fn bridge(command: Option<Command>, environment: Environment) -> ExitCode {
    let states = [environment.state_dir(), environment.common_dir()];
    if let Err(why) = check_stored(&environment.stored(), environment.home.as_deref(), states) {
        err!("belljar: {why}");
        return ExitCode::FAILURE;
    }
    // A bridge of one session uses one thread: its work is short, and passing the work to another thread would cost each call
    // more time than the work itself. One of many sessions uses several, so that a busy session does not hold up the others.
    let runtime = match &command {
        Some(Command::Serve(cli::Serve { command: None, detach: false, .. })) => {
            tokio::runtime::Builder::new_multi_thread().enable_all().build()
        }
        _ => tokio::runtime::Builder::new_current_thread().enable_all().build(),
    };
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            err!("belljar: cannot start: {error}");
            return ExitCode::from(70);
        }
    };
    // With a handler, a write beyond the largest file size (`ulimit -f`) fails with an error instead of ending the process.
    // Programs that are started have the signal's default again.
    let context = runtime.enter();
    if let Err(error) = signal(SignalKind::from_raw(Signal::SIGXFSZ as i32)) {
        err!("belljar: a file that becomes too large would end belljar: {error}");
    }
    drop(context);
    match &command {
        Some(Command::Config(cli::Config { command: Some(command), .. })) => {
            return config::command(command, &environment);
        }
        Some(Command::Import(arguments)) => return import::import(&environment, arguments),
        Some(Command::Install(arguments)) => return install::install(&environment, arguments),
        Some(Command::Uninstall(arguments)) if !arguments.all => {
            return install::uninstall(&environment, arguments);
        }
        _ => {}
    }
    let (environment, through) = match &command {
        Some(Command::Doctor(cli::Doctor { client: Some(client), .. })) => {
            match through_client::through(environment, client) {
                Ok((environment, lines)) => (environment, lines),
                Err(why) => {
                    err!("belljar: {}", text::inert(&why));
                    return ExitCode::FAILURE;
                }
            }
        }
        _ => (environment, vec![]),
    };
    let secret = match &command {
        Some(Command::Login(arguments)) => login::client_secret(arguments, &environment),
        _ => None,
    };
    let needs_it = matches!(command, Some(Command::Image(_) | Command::Uninstall(_)));
    let of_command = needs_it.then(|| environment.clone());
    let (config, config_files) = ConfigFiles::load(environment);
    if let Some(Command::Config(arguments)) = &command {
        return config::show(&config, arguments.json);
    }
    // Its parent is the folder that the user named.
    let named = config.owner.journals().and_then(|journals| Some(journals.parent()?.to_owned()));
    if let Err(why) = check_stored(&config.stored(), config.home.as_deref(), [named]) {
        err!("belljar: {why}");
        return ExitCode::FAILURE;
    }
    logging::start(config.log_level);
    let code = runtime.block_on(async {
        match command {
            None if std::io::stdin().is_terminal() => {
                greeting::greet(&config, config_files.environment()).await
            }
            None if config.shared == Shared::Yes => {
                match one_bridge::relay(config_files.environment(), &config).await {
                    Ok(code) => code,
                    Err(why) => {
                        err!("belljar: this client has a bridge of its own: {}", text::inert(&why));
                        // The files may have changed meanwhile.
                        let environment = Environment::clone(config_files.environment());
                        let (config, config_files) = ConfigFiles::load(environment);
                        serve::serve(config, config_files).await
                    }
                }
            }
            None => serve::serve(config, config_files).await,
            Some(Command::Serve(cli::Serve { command: Some(command), .. })) => match command {
                ServeCommand::Status { json } => one_bridge::status(&config, json).await,
                ServeCommand::Stop => one_bridge::stop(&config).await,
            },
            Some(Command::Serve(cli::Serve { detach: true, .. })) => one_bridge::detach(&config_files).await,
            Some(Command::Serve(serve)) => match http_options(&serve) {
                Ok(_) if let Some(manager) = serve.unit => {
                    match one_bridge::unit(manager, config_files.environment(), &serve) {
                        Ok(unit) => {
                            to_stdout(&unit);
                            ExitCode::SUCCESS
                        }
                        Err(why) => {
                            err!("belljar: {why}");
                            ExitCode::FAILURE
                        }
                    }
                }
                Ok(http) => {
                    let environment = config_files.environment();
                    one_bridge::serve_all(config, environment, serve.until_idle, http).await
                }
                Err(why) => {
                    err!("belljar: {}", text::inert(&why));
                    ExitCode::from(USAGE)
                }
            },
            Some(Command::Token(arguments)) => token::token(&config, arguments),
            Some(Command::Run(run)) => run::run(config, config_files, run).await,
            Some(Command::Log(arguments)) => log::log(&config, arguments),
            Some(Command::Files(arguments)) => files::files(&config, &config_files, arguments),
            Some(Command::Session(arguments)) => {
                sessions::command::session(config, config_files, arguments).await
            }
            Some(Command::Skill(arguments)) => skill::skill(config, config_files, arguments).await,
            Some(Command::Trust(arguments)) => trust::trust(&config, &arguments),
            Some(Command::Login(arguments)) => login::login(&config, arguments, secret).await,
            Some(Command::Logout(arguments)) => login::logout(&config, &arguments).await,
            Some(Command::Doctor(arguments)) => {
                doctor::doctor(config, config_files, &arguments, &through).await
            }
            Some(Command::Image(command)) => match of_command {
                Some(environment) => images::command::image(&config, &environment, command).await,
                None => ExitCode::from(70),
            },
            Some(Command::Uninstall(arguments)) => match of_command {
                Some(environment) => uninstall_all(&config, &environment, &arguments).await,
                None => ExitCode::from(70),
            },
            // These commands were executed above.
            Some(
                Command::Config(_)
                | Command::Import(_)
                | Command::Install(_)
                | Command::Kubernetes(_)
                | Command::Completions(_)
                | Command::ManPages(_)
                | Command::Keep(_)
                | Command::Guardian(_)
                | Command::Confine(_),
            ) => ExitCode::from(70),
        }
    });
    // A read of stdin may block its thread for ever.
    runtime.shutdown_background();
    code
}

/// Checks that the folders in which belljar stores something are this user's alone, and that this belljar knows the version of
/// these states.
///
/// # Errors
/// One is not, or it does not; with the remedy.
fn check_stored(
    folders: &[PathBuf],
    home: Option<&Path>,
    states: impl IntoIterator<Item = Option<PathBuf>>,
) -> Result<(), String> {
    claim_folders(folders, home).map_err(|problem| problem.to_string())?;
    state_version::check(states)
}

/// How HTTP is to be served; `None`: not at all.
///
/// # Errors
/// The reason why it cannot be served like this.
fn http_options(serve: &cli::Serve) -> Result<Option<HttpOptions>, String> {
    let Some(address) = serve.http else { return Ok(None) };
    let tls = match (&serve.tls_certificate, &serve.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(Tls::read(certificate.clone(), key.clone()).map_err(|error| error.to_string())?)
        }
        _ => None,
    };
    if !address.ip().is_loopback() && tls.is_none() && !serve.behind_proxy {
        return Err(format!(
            "{address} can be reached from other machines, where tokens could be read on the way; give --tls-certificate and \
             --tls-key, or --behind-proxy if a proxy in front of belljar does TLS"
        ));
    }
    Ok(Some(HttpOptions {
        address,
        hosts: serve.allowed_hosts.clone(),
        origins: serve.allowed_origins.clone(),
        oauth: OAuthOptions::read(serve, address)?,
        tls,
    }))
}
