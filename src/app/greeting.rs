//! `belljar` that a person starts at a terminal: what there is on this machine, and what to do next.

use std::process::ExitCode;
use std::time::Duration;

use belljar_base::text;
use belljar_engine::find;
use belljar_guard::Mark;

use super::clients::import::{is_own_command, surroundings};
use super::common::failure::USAGE;
use super::common::printing::err;
use super::wiring;
use crate::clients::{Client, Files, clients, read_client};
use crate::config::{Config, Environment};

/// The longest wait for an engine.
const ENGINE: Duration = Duration::from_secs(3);
/// The number of commands that are shown, beside the list of all.
const COMMANDS: usize = 3;
/// The clients that are named in a line; further ones are counted.
const NAMED_MAX: usize = 3;

/// A client of this machine.
struct Found {
    client: &'static Client,
    has_belljar: bool,
    /// The number of its servers that are not belljar.
    servers: usize,
}

/// Says what was found here, and the commands that come next.
pub(super) async fn greet(config: &Config, environment: &Environment) -> ExitCode {
    let found = found(config, environment);
    let (named, own) = (|all: &[&Found]| titles(all), config.servers.len());
    let with_belljar: Vec<&Found> = found.iter().filter(|found| found.has_belljar).collect();
    let with_servers: Vec<&Found> = found.iter().filter(|found| found.servers > 0).collect();
    let theirs: usize = with_servers.iter().map(|found| found.servers).sum();
    let engine = tokio::time::timeout(ENGINE, engine(config)).await;

    err!(
        "belljar is an MCP server with one tool, run_python. It reads MCP messages from stdin, which is a terminal here.\n"
    );
    err!(
        "clients  {}",
        match (found.is_empty(), with_belljar.is_empty()) {
            (true, _) => "none that belljar knows".to_owned(),
            (false, true) =>
                format!("{}; belljar is in none of them", named(&found.iter().collect::<Vec<_>>())),
            (false, false) => format!("belljar is in {}", named(&with_belljar)),
        }
    );
    err!(
        "servers  {own}{}",
        match theirs {
            0 => String::new(),
            _ => format!(", and {theirs} in the files of {}", named(&with_servers)),
        }
    );
    err!("engine   {}\n", engine.unwrap_or_else(|_| format!("no answer within {} s", ENGINE.as_secs())));

    let import = (own == 0 && theirs > 0)
        .then(|| ("belljar import".to_owned(), format!("take over the servers of {}", named(&with_servers))));
    let install = with_belljar.is_empty().then(|| match found.first() {
        Some(first) => (
            format!("belljar install --client {}", first.client.name),
            format!("put it into the configuration of {}, which then starts it", first.client.title),
        ),
        None => ("belljar install".to_owned(), "put it into the configuration of your MCP client".to_owned()),
    });
    let always = [
        ("belljar run -c '1'", "run Python in a sandbox now"),
        ("belljar doctor", "check the engine, the sandbox and your MCP servers"),
        ("belljar session ls", "list the sessions that clients have had"),
    ];
    let always = always.map(|(command, does)| (command.to_owned(), does.to_owned()));
    let commands: Vec<_> = [import, install].into_iter().flatten().chain(always).take(COMMANDS).collect();
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    for (command, does) in commands {
        err!("{command:width$}  {does}");
    }
    err!("{:width$}  list all commands", "belljar --help");
    ExitCode::from(USAGE)
}

fn found(config: &Config, environment: &Environment) -> Vec<Found> {
    let Some(surroundings) = surroundings(environment) else { return vec![] };
    let is_own = |program: &str, words: &[String]| is_own_command(environment, program, words);
    let there = clients().iter().filter(|client| client.is_there(&surroundings));
    let of_client = |client: &'static Client| {
        let (read, _) = read_client(client, Files::OfUser, &surroundings, &config.limits, &is_own);
        Found { client, has_belljar: read.has_belljar, servers: read.servers.len() }
    };
    there.map(of_client).collect()
}

fn titles(all: &[&Found]) -> String {
    let mut titles: Vec<String> =
        all.iter().take(NAMED_MAX).map(|found| found.client.title.to_owned()).collect();
    if all.len() > NAMED_MAX {
        titles.push(format!("{} more", all.len() - NAMED_MAX));
    }
    match titles.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => titles.concat(),
    }
}

async fn engine(config: &Config) -> String {
    let locations = wiring::locations(config, Some(Mark::new()));
    let about = match find(&locations, &wiring::images(config), &config.lock_dir).await {
        Ok((engine, _)) => engine.about().await,
        Err(error) => Err(error),
    };
    match about {
        Ok(about) => text::inert_line(&about.name),
        Err(_) => "NONE that can be used; `belljar doctor` says why".to_owned(),
    }
}
