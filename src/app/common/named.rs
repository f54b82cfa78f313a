//! The configured server that a command names.

use belljar_base::names::ServerName;
use belljar_base::text::{self, suggest};

use crate::config::{Config, ServerConfig};

/// Longest list of servers in a message, in characters.
const NAMES_CHARS_MAX: usize = 500;
/// Longest name that is repeated, in characters.
const NAME_CHARS_MAX: usize = 100;

/// The configured server of this name; the error is a message for the user.
pub(crate) fn named<'c>(config: &'c Config, name: &str) -> Result<&'c ServerConfig, String> {
    if let Some(server) = config.servers.iter().find(|server| server.name.as_str() == name) {
        return Ok(server);
    }
    if let Some(refused) = config.refused.iter().find(|refused| refused.name.as_str() == name) {
        return Err(refused.to_string());
    }
    let names: Vec<&str> = config.servers.iter().map(|server| ServerName::as_str(&server.name)).collect();
    let said = text::inert_excerpt(name, NAME_CHARS_MAX);
    let near = match suggest::nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean \"{}\"? ", text::inert_line(near)),
        None => String::new(),
    };
    let all = match names.is_empty() {
        true => "there is none at all".to_owned(),
        false => format!("{near}configured: {}", text::inert_excerpt(&names.join(", "), NAMES_CHARS_MAX)),
    };
    Err(format!("no server \"{said}\" is configured; {all}"))
}
