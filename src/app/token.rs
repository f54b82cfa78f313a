//! `belljar token`: adds, lists and removes the tokens by which clients come in over HTTP.

use std::process::ExitCode;

use belljar_base::{clock, text};

use super::common::failure::USAGE;
use super::common::printing::{err, out, row};
use super::one_bridge::{Token, Tokens, expiry};
use crate::cli::{self, TokenCommand};
use crate::config::Config;

/// Executes the command.
pub(super) fn token(config: &Config, arguments: cli::Token) -> ExitCode {
    let Some(state_dir) = &config.own_state_dir else {
        err!("belljar: no home folder is known, so there is no place for tokens");
        return ExitCode::FAILURE;
    };
    let tokens = Tokens::new(state_dir);
    match arguments.command {
        TokenCommand::Add { name, policy, servers, expires, metrics, quiet } => {
            let expires = match expires.as_deref().map(expiry).transpose() {
                Ok(expires) => expires,
                Err(error) => {
                    err!("belljar: --expires: {error}");
                    return ExitCode::from(USAGE);
                }
            };
            let token = Token { name, created: clock::timestamp(), expires, policy, servers, metrics };
            add(&tokens, &token, quiet)
        }
        TokenCommand::Ls { json } => list(&tokens, json),
        TokenCommand::Rm { name } => remove(&tokens, &name),
    }
}

fn add(tokens: &Tokens, token: &Token, quiet: bool) -> ExitCode {
    match tokens.add(token) {
        Ok(secret) if quiet => {
            out!("{secret}");
            ExitCode::SUCCESS
        }
        Ok(secret) => {
            out!("{secret}");
            err!(
                "This is the only time that the token is shown. A client sends it in the header\n\
                 `Authorization: Bearer TOKEN` to `belljar serve --http ADDRESS`. `belljar token rm {}` ends it.",
                token.name
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            err!("belljar: no token was added: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(tokens: &Tokens, json: bool) -> ExitCode {
    let all = match tokens.all() {
        Ok(all) => all,
        Err(error) => {
            err!("belljar: the tokens cannot be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    if all.is_empty() {
        err!("there is no token; `belljar token add NAME` makes one");
    }
    for (_, token) in all {
        match serde_json::to_string(&token) {
            Ok(line) if json => out!("{line}"),
            _ => row!("{}", shown(&token)),
        }
    }
    ExitCode::SUCCESS
}

fn shown(token: &Token) -> String {
    let policy = token.policy.as_ref().map(|policy| format!("  policy {policy}")).unwrap_or_default();
    let servers =
        token.servers.as_ref().map(|names| format!("  servers {}", names.join(","))).unwrap_or_default();
    let expires = match &token.expires {
        Some(expires) if *expires <= clock::timestamp() => format!("  expired {expires}"),
        Some(expires) => format!("  expires {expires}"),
        None => String::new(),
    };
    let metrics = if token.metrics { "  for /metrics only" } else { "" };
    format!("{}  created {}{expires}{policy}{servers}{metrics}", token.name, token.created)
}

fn remove(tokens: &Tokens, name: &str) -> ExitCode {
    match tokens.remove(name) {
        Ok(true) => {
            out!("removed the token {}; its sessions end", text::inert_line(name));
            ExitCode::SUCCESS
        }
        Ok(false) => {
            err!(
                "belljar: no token is named {:?}; `belljar token ls` lists them",
                text::inert_excerpt(name, 60)
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            err!("belljar: the token cannot be removed: {error}");
            ExitCode::FAILURE
        }
    }
}
