//! Translates one entry of a client into belljar's form, and reports the parts without a counterpart.
//!
//! It checks only what the translation needs. `config` checks the entry when it reads the written file.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::dialect::{Dialect, KeyMeaning, References};
use super::entry_values::{Values, boolean, left_out, scalar, variable};
use super::references::{Context, escaped};
use super::translator::{Translation, Translator, UntranslatedEntry};
use crate::clients::formats::spanned::{Member, Node, Value};

/// The largest number of keys of one entry, and of its variables.
const KEYS_MAX: usize = 200;

/// Translates the entry into belljar's form. `own` of the context is replaced by the variables of the entry itself.
pub(crate) fn translate(
    value: &Value,
    dialect: &'static Dialect,
    context: Context<'_>,
) -> Result<Translation, UntranslatedEntry> {
    if !matches!(value.node, Node::Table(_)) {
        return Err(left_out(value, "", format!("must be a table of keys, not {}", value.kind())));
    }
    let parts = [Some(value), value.get("env"), value.get("envs"), value.get("headers")];
    if let Some(part) = parts.into_iter().flatten().find(|part| part.members().len() > KEYS_MAX) {
        let count = part.members().len();
        return Err(left_out(value, "", format!("has {count} keys, more than the {KEYS_MAX} that are read")));
    }
    let own = own_variables(value, dialect);
    let context = Context { own: &own, ..context };
    let mut translator = Translator { dialect, context, done: Translation::default() };
    let mut seen: Vec<&str> = Vec::new();
    // If a key is repeated, the last one counts, as in every client.
    for member in value.members().iter().rev() {
        if !seen.contains(&member.key.as_str()) {
            seen.push(&member.key);
        }
    }
    for key in seen.into_iter().rev() {
        if let Some(member) = value.get(key) {
            translator.member(key, member, value)?;
        }
    }
    translator.finished(value)
}

fn own_variables(value: &Value, dialect: &Dialect) -> BTreeMap<String, String> {
    if dialect.references != References::OwnVariables {
        return BTreeMap::new();
    }
    let env = value.get("envs").map(Value::members).unwrap_or_default();
    env.iter().filter_map(|member| Some((member.key.clone(), scalar(&member.value)?))).collect()
}

impl Translator<'_> {
    fn member(&mut self, key: &str, value: &Value, entry: &Value) -> Result<(), UntranslatedEntry> {
        let meaning = self.dialect.keys().find(|(known, _)| *known == key);
        let Some((_, meaning)) = meaning else {
            self.done.foreign.push((key.to_owned(), ""));
            return Ok(());
        };
        if let KeyMeaning::Foreign(advice) = meaning {
            self.done.foreign.push((key.to_owned(), advice));
            return Ok(());
        }
        if value.node == Node::Null {
            return Ok(());
        }
        if let Some(other) = self.preferred(key, entry) {
            let message = format!("is left out: {} takes {other} where both are there", self.context.title);
            self.done.notes.push((key.to_owned(), message));
            return Ok(());
        }
        match meaning {
            KeyMeaning::Command => self.command(key, value)?,
            KeyMeaning::CommandLine => self.command_line(key, value)?,
            KeyMeaning::Args => {
                let mut words = self.arguments();
                words.extend(self.texts(key, value)?);
                self.put("args", words);
            }
            KeyMeaning::Env => self.named("env", key, value, Values::Texts)?,
            KeyMeaning::EnvNames => self.env_names(key, value)?,
            KeyMeaning::Cwd => {
                let cwd = self.text(key, value)?;
                self.put("cwd", cwd);
            }
            KeyMeaning::Url => self.url(key, value)?,
            KeyMeaning::StreamableUrl => {
                self.url(key, value)?;
                self.put("type", "http");
            }
            KeyMeaning::Headers => self.named("headers", key, value, Values::Texts)?,
            KeyMeaning::HeadersWithin => {
                for Member { key: inner, value, .. } in value.members() {
                    let key = format!("{key}.{inner}");
                    match inner.as_str() {
                        "headers" => self.named("headers", &key, value, Values::Texts)?,
                        _ => self.done.foreign.push((key, "")),
                    }
                }
            }
            KeyMeaning::HeaderVariables => self.named("headers", key, value, Values::Variables)?,
            KeyMeaning::BearerVariable => {
                let variable = variable(key, value)?;
                self.done.needs.push((variable.clone(), "the bearer token".into()));
                self.merge("headers", ("Authorization".into(), format!("Bearer ${{{variable}}}")));
            }
            KeyMeaning::Kind => self.kind(key, value)?,
            KeyMeaning::Disabled | KeyMeaning::Enabled => {
                let is_on = boolean(key, value)? == (*meaning == KeyMeaning::Enabled);
                if !is_on {
                    self.put("disabled", true);
                }
            }
            KeyMeaning::Allow => self.tools("allow", key, value)?,
            KeyMeaning::AllowUnlessEmpty => {
                if !matches!(&value.node, Node::List(items) if items.is_empty()) {
                    self.tools("allow", key, value)?;
                }
            }
            KeyMeaning::Deny => self.tools("deny", key, value)?,
            KeyMeaning::Seconds => self.time("timeout", (key, value), 1.0)?,
            KeyMeaning::Milliseconds => self.time("timeout", (key, value), 1000.0)?,
            KeyMeaning::StartSeconds => self.time("start_timeout", (key, value), 1.0)?,
            KeyMeaning::StartMilliseconds => self.time("start_timeout", (key, value), 1000.0)?,
            KeyMeaning::Description => {
                if let Some(text) = value.text().filter(|text| !text.trim().is_empty()) {
                    self.put("description", text.trim());
                }
            }
            KeyMeaning::Silent | KeyMeaning::Foreign(_) => {}
        }
        Ok(())
    }

    /// The key that counts instead of this one, if several keys with one meaning are given: the first one of the
    /// dialect counts.
    fn preferred(&self, key: &str, entry: &Value) -> Option<&'static str> {
        let keys = || self.dialect.keys();
        let (_, meaning) = keys().find(|(known, _)| *known == key)?;
        let is_same = |other: KeyMeaning| match meaning {
            KeyMeaning::Url | KeyMeaning::StreamableUrl => {
                matches!(other, KeyMeaning::Url | KeyMeaning::StreamableUrl)
            }
            KeyMeaning::Kind => other == KeyMeaning::Kind,
            KeyMeaning::StartSeconds | KeyMeaning::StartMilliseconds => {
                matches!(other, KeyMeaning::StartSeconds | KeyMeaning::StartMilliseconds)
            }
            _ => false,
        };
        let is_there = |name: &str| entry.get(name).is_some_and(|value| value.node != Node::Null);
        keys()
            .take_while(|(known, _)| *known != key)
            .find(|(known, other)| is_same(*other) && is_there(known))
            .map(|(known, _)| *known)
    }

    /// Removes the parts for a command, which have no effect beside an address. Variables that the address uses are
    /// already in it.
    fn without_parts_of_commands(&mut self) {
        for key in ["args", "env", "cwd"] {
            let is_gone = self.done.entry.shift_remove(key).is_some();
            if is_gone && self.context.style != References::OwnVariables {
                self.done.notes.push((key.into(), "has no effect beside a url, and is left out".into()));
            }
        }
    }

    /// Makes the checks that need all keys, and sorts the keys.
    fn finished(mut self, value: &Value) -> Result<Translation, UntranslatedEntry> {
        let entry = &mut self.done.entry;
        let is_local = entry.contains_key("command");
        if is_local == entry.contains_key("url") {
            let message =
                if is_local { "has both a command and a url" } else { "has neither a command nor a url" };
            return Err(left_out(value, "", message.into()));
        }
        if is_local {
            entry.remove("type");
            let at_home =
                |path: &str| path.starts_with('/') || path.starts_with("~/") || path.starts_with("${");
            let cwd = entry.get("cwd").and_then(Json::as_str).map(str::to_owned);
            let command = entry.get("command").and_then(Json::as_str).unwrap_or_default();
            let project = self.context.project.map(|project| escaped(&project.display().to_string()));
            match (project, cwd) {
                // A client starts a project's servers in the project's folder.
                (Some(project), None) => drop(entry.insert("cwd".into(), project.into())),
                (Some(project), Some(cwd)) if !at_home(&cwd) => {
                    entry.insert("cwd".into(), format!("{project}/{cwd}").into());
                }
                (None, Some(cwd)) if !at_home(&cwd) => {
                    return Err(left_out(value, "cwd", relative(self.context.title)));
                }
                (None, None) if command.contains('/') && !at_home(command) => {
                    return Err(left_out(value, "command", relative(self.context.title)));
                }
                _ => {}
            }
        }
        if !is_local {
            self.without_parts_of_commands();
        }
        let order = [
            "type",
            "command",
            "args",
            "env",
            "cwd",
            "url",
            "headers",
            "start_timeout",
            "timeout",
            "allow",
            "deny",
            "description",
            "disabled",
        ];
        let mut ordered = Map::new();
        for key in order {
            if let Some(value) = self.done.entry.shift_remove(key) {
                ordered.insert(key.to_owned(), value);
            }
        }
        self.done.entry = ordered;
        Ok(self.done)
    }
}

fn relative(title: &str) -> String {
    format!(
        "is taken from the folder that {title} is started in, which belljar does not know; make it absolute"
    )
}
