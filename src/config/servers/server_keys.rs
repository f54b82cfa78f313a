//! The keys of an entry, and the values that mean the same for every kind of server.
//!
//! It does not read how a server is reached: `launch` and `endpoint` do.

use std::time::Duration;

use belljar_base::problem::Severity;
use belljar_base::text::suggest;
use belljar_tools::policy::{Pattern, ToolChoice};

use super::reading::{Parts, Reading, Section};
use super::server::{SandboxFiles, ServerRules};
use crate::clients::{Node, Value};

/// Every key that has an effect, as it is written in TOML.
pub(crate) const KEYS: [&str; 21] = [
    "command",
    "args",
    "env",
    "env_inherit",
    "cwd",
    "url",
    "headers",
    "login",
    "type",
    "transport",
    "description",
    "disabled",
    "enabled",
    "start_timeout",
    "timeout",
    "max_concurrency",
    "allow",
    "deny",
    "sandbox",
    "sandbox_files",
    "private",
];
pub(crate) const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// Keys that only concern the client that wrote the file. They are ignored.
pub(super) const CLIENT_KEYS: [&str; 34] = [
    "$schema",
    "alwaysAllow",
    "alwaysLoad",
    "auth",
    "authProviderType",
    "authScopes",
    "autoApprove",
    "autoStart",
    "auto_start",
    "bundled",
    "dev",
    "fromGalleryId",
    "gallery",
    "icon",
    "icons",
    "id",
    "installation",
    "managed",
    "metadata",
    "name",
    "networkTimeout",
    "oauth",
    "preset",
    // `belljar import` writes it.
    "project",
    "registry",
    "scope",
    "scopes",
    "source",
    "tags",
    "targetClients",
    "title",
    "trust",
    "version",
    "watchPaths",
];
/// Keys of clients, each with the key that has that meaning here.
const CLIENT_KEYS_MEANING: [(&str, &str); 5] = [
    ("tool_timeout_sec", "timeout"),
    ("envFile", "env"),
    ("startupTimeout", "start_timeout"),
    ("startup_timeout_ms", "start_timeout"),
    ("startup_timeout_sec", "start_timeout"),
];
/// Clients' names for `allow` and `deny`, in lower case with underscores.
pub(super) const CLIENT_ALLOW: [&str; 2] = ["enabled_tools", "include_tools"];
pub(super) const CLIENT_DENY: [&str; 2] = ["disabled_tools", "exclude_tools"];

/// The longest time of one call, in seconds.
const CALL_S_MAX: f64 = 86_400.0;
/// The longest time of a start, in seconds.
const START_S_MAX: f64 = 3_600.0;
/// The largest number that a client's file gives in seconds; larger ones are milliseconds.
const CLIENT_S_MAX: f64 = 3_600.0;
/// The largest number of items of one key.
const ITEMS_MAX: usize = 1_000;

impl Reading<'_> {
    /// Reports that a key has no effect. A key that only concerns the client is ignored; an unknown key is an error.
    pub(super) fn unknown_key(&mut self, at: usize, full: &str, key: &str) {
        let is_json = self.section == Section::McpServers;
        if is_json && CLIENT_KEYS.contains(&key) {
            return;
        }
        if let (true, Some((_, ours))) =
            (is_json, CLIENT_KEYS_MEANING.iter().find(|(theirs, _)| *theirs == key))
        {
            let message = "is a client's own key and has no effect here";
            return self.push(Severity::Warning, (at, full), message, &format!("write {ours:?} for it"));
        }
        let known = KEYS.iter().copied().chain(["serverUrl", "httpUrl"]);
        let hint =
            suggest::did_you_mean(key, known).unwrap_or_else(|| format!("known are {}", KEYS.join(", ")));
        self.push(Severity::Error, (at, full), "is no key that belljar knows", &hint);
    }

    /// The rules for the use of the server; `None` where a problem with one was reported.
    pub(crate) fn rules(&mut self, key: &str, parts: &Parts<'_>) -> Option<ServerRules> {
        let start_time = self.time(&format!("{key}.start_timeout"), parts.start_timeout, START_S_MAX);
        let call_time = self.time(&format!("{key}.timeout"), parts.timeout, CALL_S_MAX);
        let calls_at_once = self.calls_at_once(&format!("{key}.max_concurrency"), parts.max_concurrency);
        let wanted = "patterns of tools' names";
        let allow = self.items(&format!("{key}.allow"), parts.allow, wanted, Pattern::new);
        let deny = self.items(&format!("{key}.deny"), parts.deny, wanted, Pattern::new);
        let sandbox_files = match self.switch(&format!("{key}.sandbox_files"), parts.sandbox_files, true)? {
            true => SandboxFiles::Sent,
            false => SandboxFiles::Kept,
        };
        Some(ServerRules {
            start_time: start_time?,
            call_time: call_time?,
            calls_at_once: calls_at_once?,
            tools: ToolChoice::new(allow?, deny?.unwrap_or_default()),
            sandbox_files,
            is_private: self.switch(&format!("{key}.private"), parts.private, false)?,
        })
    }

    fn time(&mut self, key: &str, value: Option<&Value>, max_s: f64) -> Option<Option<Duration>> {
        let Some((at, given)) = self.number(key, value, "a number of seconds")? else { return Some(None) };
        let is_milliseconds = self.section == Section::McpServers && given > CLIENT_S_MAX;
        let seconds = if is_milliseconds { given / 1000.0 } else { given };
        let time = (seconds <= max_s).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten();
        let Some(time) = time.filter(|time| !time.is_zero()) else {
            self.report(at, key, format!("is {given}, it must be above 0 and up to {max_s} seconds"));
            return None;
        };
        if is_milliseconds {
            let message =
                format!("is {given}, which counts as milliseconds, as some clients write it: {seconds} s");
            self.push(Severity::Warning, (at, key), message, "write seconds, up to 3600 here");
        }
        Some(Some(time))
    }

    fn calls_at_once(&mut self, key: &str, value: Option<&Value>) -> Option<Option<usize>> {
        let Some((at, given)) = self.number(key, value, "a whole number")? else { return Some(None) };
        let max = self.sources.limits.calls_in_flight_per_server_max;
        // The numbers are small enough for exact comparison.
        let number = (1..=max).find(|number| *number as f64 == given);
        if number.is_none() {
            self.report(at, key, format!("is {given}, it must be a whole number from 1 to {max}"));
        }
        number.map(Some)
    }

    fn number(&mut self, key: &str, value: Option<&Value>, wanted: &str) -> Option<Option<(usize, f64)>> {
        match value.map(|value| (value.at(), &value.node)) {
            None | Some((_, Node::Null)) => Some(None),
            Some((at, Node::Number(number))) => Some(Some((at, number.as_f64().unwrap_or(f64::INFINITY)))),
            Some((at, other)) => {
                self.report(at, key, format!("must be {wanted}, not {}", other.kind()));
                None
            }
        }
    }

    /// A list of texts, each read by `read`; `None` where a problem with one was reported.
    pub(crate) fn items<T>(
        &mut self,
        key: &str,
        value: Option<&Value>,
        wanted: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Option<Vec<T>>> {
        let items = match value.map(|value| (value.at(), &value.node)) {
            None => return Some(None),
            Some((_, Node::List(items))) if items.len() <= ITEMS_MAX => items,
            Some((at, Node::List(items))) => {
                let message = format!("has {} items, more than the {ITEMS_MAX} allowed", items.len());
                self.report(at, key, message);
                return None;
            }
            Some((at, other)) => {
                self.report(at, key, format!("must be an array of {wanted}, not {}", other.kind()));
                return None;
            }
        };
        let mut read_items = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let item_read = match &item.node {
                Node::Text(text) => read(text),
                other => Err(format!("must be a string, not {}", other.kind())),
            };
            match item_read {
                Ok(item) => read_items.push(item),
                Err(message) => self.report(item.at(), &format!("{key}[{index}]"), message),
            }
        }
        (read_items.len() == items.len()).then_some(Some(read_items))
    }

    fn switch(&mut self, key: &str, value: Option<&Value>, usual: bool) -> Option<bool> {
        match value.map(|value| (value.at(), &value.node)) {
            None => Some(usual),
            Some((_, Node::Bool(is_on))) => Some(*is_on),
            Some((at, other)) => {
                self.report(at, key, format!("must be true or false, not {}", other.kind()));
                None
            }
        }
    }
}

/// The key in snake case: `maxConcurrency` becomes `max_concurrency`.
pub(super) fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for character in key.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}
