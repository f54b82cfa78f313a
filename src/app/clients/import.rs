//! `belljar import`: shows how the servers of the user's MCP clients would look in `~/MCPs`, and writes them on
//! request.
//!
//! `clients` knows the files of clients; this module asks the user and prints.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use belljar_base::limits::Limits;
use belljar_base::problem::{Problem, Severity};
use belljar_base::text;

use crate::app::common::printing::{err, is_confirmed, out, to_stdout};
use crate::cli;
use crate::clients::{
    self, Change, Client, ConfinementChoice, Files, Surroundings, client, client_of_file, clients, merge,
    read_client, unread_project_files,
};
use crate::config::{Environment, is_own};

pub(crate) const USAGE: u8 = 2;
/// The note about imported servers that are not confined.
const RIGHTS: &str = "note: servers that a command starts run with all your rights, unless their entry has sandbox = true; \
                      `belljar import --sandbox` writes that, and `belljar doctor --ask` says what they need then";
/// Longest list of servers in a note, in characters.
const NAMES_CHARS_MAX: usize = 600;

/// Reads, shows, asks and writes; the exit code is 1 if a file could not be read or written.
pub(crate) fn import(environment: &Environment, arguments: &cli::Import) -> ExitCode {
    let limits = Limits::default();
    let Some(mut surroundings) = surroundings(environment) else {
        return refused("no home folder is known, so there is nowhere to look");
    };
    // The absolute path is needed to recognise a project's file.
    let given = arguments.file.as_ref().map(|path| environment.cwd.clone().unwrap_or_default().join(path));
    surroundings.project_of_given = given.as_ref().and_then(|file| environment.project_of_file(file));
    let (chosen, files) = match chosen(arguments, given.as_deref()) {
        Ok(chosen) => chosen,
        Err(refusal) => return usage(&refusal),
    };
    let mut found = Vec::new();
    let mut problems = Vec::new();
    let is_own = |program: &str, words: &[String]| is_own_command(environment, program, words);
    for client in &chosen {
        let (of_client, said) = read_client(client, files, &surroundings, &limits, &is_own);
        if !of_client.read.is_empty() {
            let (title, count) = (client.title, of_client.servers.len());
            let paths: Vec<String> = of_client.read.iter().map(|path| path.display().to_string()).collect();
            let servers = if count == 1 { "server" } else { "servers" };
            out!("{title}: {count} {servers} in {}", text::inert_line(&paths.join(" and ")));
        } else if !arguments.clients.is_empty() && said.is_empty() {
            out!("{}: nothing is there", client.title);
        }
        found.push(of_client);
        problems.extend(said);
    }
    // A client without a file does not affect the files below ~/MCPs.
    found.retain(|of_client| !of_client.read.is_empty());
    let is_found = !found.is_empty();
    let left_there = left_there(&found);
    let folder = surroundings.home.join("MCPs");
    let confinement =
        if arguments.sandbox { ConfinementChoice::Commands } else { ConfinementChoice::Nothing };
    let (changes, said) = merge(found, (&folder, confinement), surroundings.uid, &limits);
    problems.extend(said);
    say(&problems);
    if matches!(files, Files::OfUser) {
        say_project_files(&chosen, &surroundings);
    }
    let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    for change in &changes {
        out!("\n{}", text::inert_line(&change.path.display().to_string()));
        to_stdout(change.diff());
    }
    if changes.is_empty() {
        out!("{}", if is_found { "nothing changes" } else { "no servers were found" });
        return ExitCode::from(u8::from(is_broken));
    }
    out!();
    match may_write(arguments, &changes) {
        Ok(()) => {
            let code = write(&changes, surroundings.uid, &limits, is_broken);
            left_there.iter().for_each(|line| {
                out!("{line}");
            });
            if !arguments.sandbox {
                out!("{RIGHTS}");
            }
            code
        }
        Err(reason) => {
            out!("nothing was written: {reason}");
            ExitCode::from(u8::from(is_broken))
        }
    }
}

/// The environment that decides the places of clients' files.
pub(crate) fn surroundings(environment: &Environment) -> Option<Surroundings> {
    let named = clients::place_variables().into_iter();
    let named = named.filter_map(|name| Some((name, environment.variable(name)?.to_owned())));
    let is_own = |folder: &Path| folder.is_absolute() && environment.project_on_the_way(folder).is_none();
    let named = named.filter(|(_, folder)| is_own(Path::new(folder)));
    Some(Surroundings {
        home: environment.home.clone()?,
        config: environment.config_home()?,
        uid: environment.uid,
        project: environment.cwd.clone(),
        project_of_given: None,
        named: named.collect(),
    })
}

pub(crate) fn is_own_command(environment: &Environment, program: &str, words: &[String]) -> bool {
    let cwd = environment.cwd.as_deref().unwrap_or(Path::new("/"));
    is_own(program, words, cwd, environment)
}

pub(crate) fn refused(reason: &str) -> ExitCode {
    err!("belljar: {reason}");
    ExitCode::FAILURE
}

fn usage(reason: &str) -> ExitCode {
    err!("belljar: {reason}");
    ExitCode::from(USAGE)
}

fn chosen<'f>(
    arguments: &cli::Import,
    given: Option<&'f Path>,
) -> Result<(Vec<&'static Client>, Files<'f>), String> {
    let named: Vec<&'static Client> = arguments.clients.iter().filter_map(|name| client(name)).collect();
    match (given, &named[..]) {
        (Some(path), [one]) => Ok((vec![one], Files::One(path))),
        (Some(path), []) if !path.exists() => Err(format!("there is no file {}", path.display())),
        (Some(path), []) => match client_of_file(path) {
            Some(client) => Ok((vec![client], Files::One(path))),
            None => Err("--file: the name does not tell whose file it is; say so with --client NAME".into()),
        },
        (Some(_), _) => Err("--file is one client's; give --client once".into()),
        (None, _) => {
            let files = if arguments.project { Files::WithProject } else { Files::OfUser };
            let chosen = if named.is_empty() { clients().iter().collect() } else { named };
            Ok((chosen, files))
        }
    }
}

fn say(problems: &[Problem]) {
    for problem in problems {
        out!("{}: {problem}", problem.severity);
    }
}

fn say_project_files(chosen: &[&'static Client], surroundings: &Surroundings) {
    for client in chosen {
        for path in unread_project_files(client, surroundings) {
            let path = text::inert_line(&path.display().to_string());
            out!("note: {path}: is of this project, and not read; --project reads it too");
        }
    }
}

/// Whether the files may be written; the error is the reason why not.
fn may_write(arguments: &cli::Import, changes: &[Change]) -> Result<(), &'static str> {
    if arguments.dry_run {
        return Err("--dry-run only shows");
    }
    if arguments.yes {
        return Ok(());
    }
    if !changes.iter().all(Change::is_shown_whole) {
        return Err(
            "what changes is too long to be shown whole; --client or --file imports less at once, --yes all of it unseen",
        );
    }
    if !std::io::stdin().is_terminal() {
        return Err("there is no terminal to ask on; --yes writes");
    }
    let files = if changes.len() == 1 { "1 file".to_owned() } else { format!("{} files", changes.len()) };
    match is_confirmed(&format!("write {files}? [y/N] ")) {
        true => Ok(()),
        false => Err("the answer was not yes"),
    }
}

/// Advice on what is left to do: an import removes nothing from a client's file.
fn left_there(found: &[clients::ClientServers]) -> Vec<String> {
    let of = |found: &clients::ClientServers, path: &Path| {
        let here = found.servers.iter().filter(|server| server.path == path);
        let names: Vec<&str> = here.map(|server| server.name.as_str()).collect();
        let (names, path) =
            (text::inert_excerpt(&names.join(", "), NAMES_CHARS_MAX), path.display().to_string());
        let (title, path) = (found.client.title, text::inert_line(&path));
        (!names.is_empty())
            .then(|| format!("note: {title} still starts these itself: {names}; remove them from {path}"))
    };
    found.iter().flat_map(|found| found.read.iter().filter_map(|path| of(found, path))).collect()
}

fn write(changes: &[Change], uid: u32, limits: &Limits, is_broken: bool) -> ExitCode {
    let mut has_failed = is_broken;
    for change in changes {
        let path = text::inert_line(&change.path.display().to_string());
        match change.write(uid, limits) {
            Ok(()) => out!("wrote {path}"),
            Err(error) => {
                err!("belljar: cannot write {path}: {error}");
                has_failed = true;
            }
        }
    }
    ExitCode::from(u8::from(has_failed))
}
