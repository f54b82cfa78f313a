//! Completions for shells, and man pages, both from the definition of the command line.
//!
//! A shell's script is a few lines that start belljar with [`VARIABLE`] set, whenever a word is to be completed. So the
//! names of servers, sessions, workspaces, tokens and skills are those of the moment.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;

use super::common::printing::{err, to_stdout};
use super::one_bridge::Tokens;
use crate::cli::Arguments;
use crate::config::{Config, ConfigFiles, Environment};
use crate::journal::Sessions;
use crate::skills::Skills;
use crate::workspace;

/// The variable by which a shell's script asks for completions.
const VARIABLE: &str = "BELLJAR_COMPLETE";

/// Answers a shell that asks for completions, and ends this process then.
pub fn complete() {
    CompleteEnv::with_factory(|| with_names("", Arguments::command())).var(VARIABLE).complete();
}

/// Prints the script for this shell.
pub(super) fn script(shell: &str) -> ExitCode {
    let mut script = Vec::new();
    let written = Shells::builtins()
        .completer(shell)
        .map(|shell| shell.write_registration(VARIABLE, "belljar", "belljar", "belljar", &mut script));
    match written {
        Some(Ok(())) => {
            // zsh loads the file of a package as a function when it completes for the first time.
            if shell == "zsh" {
                script.extend(b"[[ ${funcstack[1]} != _belljar ]] || _clap_dynamic_completer_belljar\n");
            }
            to_stdout(&String::from_utf8_lossy(&script));
            ExitCode::SUCCESS
        }
        Some(Err(_)) | None => ExitCode::FAILURE,
    }
}

/// Writes a man page for each command into the folder.
pub(super) fn man_pages(folder: &Path) -> ExitCode {
    match clap_mangen::generate_to(Arguments::command(), folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            err!("belljar: the man pages cannot be written to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

/// The command with the user's own names as values of its arguments.
fn with_names(parent: &str, command: clap::Command) -> clap::Command {
    let own = command.get_name().to_owned();
    command
        .mut_args(|arg| {
            let names = match (parent, own.as_str(), arg.get_id().as_str()) {
                (_, _, "server" | "servers") => servers,
                (_, _, "session") | ("session", _, "id" | "ids") => sessions,
                (_, _, "workspace") => workspaces,
                ("token", "rm", "name") => tokens,
                ("skill", _, "name") => skills,
                _ => return arg,
            };
            arg.add(ArgValueCandidates::new(move || {
                let (config, _) = ConfigFiles::load(Environment::capture());
                names(&config).into_iter().map(CompletionCandidate::new).collect()
            }))
        })
        .mut_subcommands(|command| with_names(&own, command))
}

fn servers(config: &Config) -> Vec<String> {
    config.servers.iter().map(|server| server.name.to_string()).collect()
}

fn sessions(config: &Config) -> Vec<String> {
    let sessions = config.owner.journals().map(|dir| Sessions::new(dir, &config.limits).all());
    let all = sessions.and_then(Result::ok).unwrap_or_default();
    all.iter().map(|session| Sessions::short(&session.id)).collect()
}

fn workspaces(config: &Config) -> Vec<String> {
    let names = workspace::names(&config.owner.workspaces()).unwrap_or_default();
    names.iter().map(ToString::to_string).collect()
}

fn tokens(config: &Config) -> Vec<String> {
    let all = config.own_state_dir.as_deref().map(|dir| Tokens::new(dir).all());
    all.and_then(Result::ok).unwrap_or_default().into_iter().map(|(_, token)| token.name).collect()
}

fn skills(config: &Config) -> Vec<String> {
    let all = Skills::new(config.owner.skills(), &config.limits).all().unwrap_or_default();
    all.iter().map(|(name, _)| name.to_string()).collect()
}
