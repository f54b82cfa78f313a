//! Translates one entry of a client into hotcell's form, and says what of it has no counterpart.
//!
//! It checks only what has to be known for that; whether the entry is sound, `config` says when it reads the file.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::dialect::{Dialect, Http, Meaning, References};
use super::references::{self, Context};
use super::secrets;
use super::tree::{Node, Value};

/// hotcell takes no longer one.
const SECONDS_MAX: f64 = 3600.0;

/// What an entry is translated with.
pub(super) struct Surrounded<'s> {
    pub(super) dialect: &'static Dialect,
    pub(super) title: &'static str,
    pub(super) home: &'s Path,
    pub(super) project: Option<&'s Path>,
    pub(super) folder: &'s Path,
    pub(super) inputs: &'s BTreeMap<String, String>,
}

/// A translated entry.
#[derive(Debug, Default)]
pub(super) struct Translation {
    pub(super) entry: Map<String, Json>,
    /// Keys without a counterpart, each with what to do instead.
    pub(super) foreign: Vec<(String, &'static str)>,
    /// Variables that have to be set, and what each is for.
    pub(super) needs: Vec<(String, String)>,
    /// Where secrets stand that were copied as they are.
    pub(super) literal_secrets: Vec<String>,
    /// What else is to be said, with its key.
    pub(super) notes: Vec<(String, String)>,
}

/// Why an entry has no counterpart: at which byte, under which key, a fragment.
#[derive(Debug)]
pub(super) struct LeftOut {
    pub(super) at: usize,
    pub(super) key: String,
    pub(super) message: String,
}

/// The entry in hotcell's form.
pub(super) fn translate(value: &Value, surrounded: &Surrounded<'_>) -> Result<Translation, LeftOut> {
    if !matches!(value.node, Node::Table(_)) {
        return Err(left_out(value, "", format!("must be a table of keys, not {}", value.kind())));
    }
    let own = own_variables(value, surrounded.dialect);
    let context = Context {
        style: surrounded.dialect.references,
        title: surrounded.title,
        home: surrounded.home,
        project: surrounded.project,
        folder: surrounded.folder,
        inputs: surrounded.inputs,
        own: &own,
    };
    let mut translator = Translator { surrounded, context, done: Translation::default() };
    let mut seen: Vec<&str> = Vec::new();
    // Of a repeated key the last counts, as in every client.
    for member in value.members().iter().rev() {
        if !seen.contains(&member.key.as_str()) {
            seen.push(&member.key);
        }
    }
    for key in seen.into_iter().rev() {
        if let Some(value) = value.get(key) {
            translator.member(key, value)?;
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

struct Translator<'t> {
    surrounded: &'t Surrounded<'t>,
    context: Context<'t>,
    done: Translation,
}

impl Translator<'_> {
    fn member(&mut self, key: &str, value: &Value) -> Result<(), LeftOut> {
        let meaning = self.surrounded.dialect.keys.iter().find(|(known, _)| *known == key);
        let Some((_, meaning)) = meaning else {
            self.done.foreign.push((key.to_owned(), ""));
            return Ok(());
        };
        if let Meaning::Foreign(advice) = meaning {
            self.done.foreign.push((key.to_owned(), advice));
            return Ok(());
        }
        if value.node == Node::Null {
            return Ok(());
        }
        match meaning {
            Meaning::Command => self.command(key, value)?,
            Meaning::Args => {
                let arguments = self.texts(key, value)?;
                self.put("args", arguments);
            }
            Meaning::Env => self.named("env", key, value, false)?,
            Meaning::EnvNames => self.env_names(key, value)?,
            Meaning::Cwd => {
                let cwd = self.text(key, value)?;
                self.put("cwd", cwd);
            }
            Meaning::Url => self.url(key, value)?,
            Meaning::StreamableUrl => {
                self.url(key, value)?;
                self.put("type", "http");
            }
            Meaning::Headers => self.named("headers", key, value, false)?,
            Meaning::HeaderVariables => self.named("headers", key, value, true)?,
            Meaning::BearerVariable => {
                let variable = variable(key, value)?;
                self.done.needs.push((variable.clone(), "the bearer token".into()));
                self.merge("headers", [("Authorization".into(), format!("Bearer ${{{variable}}}"))]);
            }
            Meaning::Kind => self.kind(key, value)?,
            Meaning::Disabled | Meaning::Enabled => {
                let is_on = boolean(key, value)? == (*meaning == Meaning::Enabled);
                if !is_on {
                    self.put("disabled", true);
                }
            }
            Meaning::Allow => self.tools("allow", key, value)?,
            Meaning::AllowUnlessEmpty => {
                if !matches!(&value.node, Node::List(items) if items.is_empty()) {
                    self.tools("allow", key, value)?;
                }
            }
            Meaning::Deny => self.tools("deny", key, value)?,
            Meaning::Seconds => self.timeout(key, value, 1.0)?,
            Meaning::Milliseconds => self.timeout(key, value, 1000.0)?,
            Meaning::Description => {
                if let Some(text) = value.text().filter(|text| !text.trim().is_empty()) {
                    self.put("description", text);
                }
            }
            Meaning::Foreign(_) => {}
        }
        Ok(())
    }

    fn put(&mut self, key: &str, value: impl Into<Json>) {
        self.done.entry.insert(key.to_owned(), value.into());
    }

    /// Puts pairs into a table of the entry, beside those that are there.
    fn merge(&mut self, key: &str, pairs: impl IntoIterator<Item = (String, String)>) {
        let table = self.done.entry.entry(key).or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(table) = table {
            table.extend(pairs.into_iter().map(|(name, value)| (name, Json::String(value))));
        }
    }

    /// A string of the client's as hotcell writes it.
    fn text(&mut self, key: &str, value: &Value) -> Result<String, LeftOut> {
        let Some(text) = scalar(value) else {
            return Err(left_out(value, key, format!("must be a string, not {}", value.kind())));
        };
        self.translated(&text).map_err(|message| left_out(value, key, message))
    }

    fn translated(&mut self, text: &str) -> Result<String, String> {
        let translated = references::translate(text, &self.context)?;
        self.done.needs.extend(translated.needs);
        Ok(translated.text)
    }

    fn texts(&mut self, key: &str, value: &Value) -> Result<Vec<String>, LeftOut> {
        let Node::List(items) = &value.node else {
            return Err(left_out(value, key, format!("must be a list of strings, not {}", value.kind())));
        };
        // Goose replaces nothing in a command line.
        let style = self.context.style;
        if style == References::OwnVariables {
            self.context.style = References::None;
        }
        let texts: Result<Vec<String>, LeftOut> = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.text(&format!("{key}[{index}]"), item))
            .collect();
        self.context.style = style;
        let texts = texts?;
        for (index, text) in texts.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| texts[before].as_str());
            if references::is_literal(text) && secrets::is_secret_argument(before, text) {
                self.done.literal_secrets.push(format!("{key}[{index}]"));
            }
        }
        Ok(texts)
    }

    fn command(&mut self, key: &str, value: &Value) -> Result<(), LeftOut> {
        match &value.node {
            Node::List(_) => {
                let mut words = self.texts(key, value)?.into_iter();
                let Some(program) = words.next() else {
                    return Err(left_out(value, key, "is empty".into()));
                };
                self.put("command", program);
                self.put("args", words.collect::<Vec<_>>());
            }
            Node::Table(_) => {
                for (inner, meaning) in
                    [("path", Meaning::Command), ("args", Meaning::Args), ("env", Meaning::Env)]
                {
                    let Some(value) = value.get(inner).filter(|value| value.node != Node::Null) else {
                        continue;
                    };
                    let key = format!("{key}.{inner}");
                    match meaning {
                        Meaning::Command => {
                            let program = self.text(&key, value)?;
                            self.put("command", program);
                        }
                        Meaning::Args => {
                            let arguments = self.texts(&key, value)?;
                            self.put("args", arguments);
                        }
                        _ => self.named("env", &key, value, false)?,
                    }
                }
            }
            _ => {
                let program = self.text(key, value)?;
                self.put("command", program);
            }
        }
        Ok(())
    }

    fn url(&mut self, key: &str, value: &Value) -> Result<(), LeftOut> {
        let url = self.text(key, value)?;
        if references::is_literal(&url) && secrets::shown_url(&url) != url {
            self.done.literal_secrets.push(key.to_owned());
        }
        self.put("url", url);
        Ok(())
    }

    /// A table of strings; or of names of variables.
    fn named(&mut self, into: &str, key: &str, value: &Value, are_variables: bool) -> Result<(), LeftOut> {
        let Node::Table(members) = &value.node else {
            return Err(left_out(value, key, format!("must be a table of strings, not {}", value.kind())));
        };
        let style = self.context.style;
        if style == References::OwnVariables && into == "env" {
            self.context.style = References::None;
        }
        for member in members {
            let key = format!("{key}.{}", member.key);
            if member.value.node == Node::Null {
                self.done.notes.push((key, "is null, and left out".into()));
                continue;
            }
            let text = if are_variables {
                let variable = variable(&key, &member.value)?;
                self.done.needs.push((variable.clone(), format!("the header {}", member.key)));
                format!("${{{variable}}}")
            } else {
                self.text(&key, &member.value)?
            };
            if secrets::names_secret(&member.key) && references::is_literal(&text) && !text.is_empty() {
                self.done.literal_secrets.push(key);
            }
            self.merge(into, [(member.key.clone(), text)]);
        }
        self.context.style = style;
        Ok(())
    }

    /// Variables by their names: strings, or tables with a `name`.
    fn env_names(&mut self, key: &str, value: &Value) -> Result<(), LeftOut> {
        let Node::List(items) = &value.node else {
            return Err(left_out(value, key, format!("must be a list of names, not {}", value.kind())));
        };
        for (index, item) in items.iter().enumerate() {
            let named = item.get("name").unwrap_or(item);
            let variable = variable(&format!("{key}[{index}]"), named)?;
            let what_for = format!("what {} passes on under that name", self.surrounded.title);
            self.done.needs.push((variable.clone(), what_for));
            self.merge("env", [(variable.clone(), format!("${{{variable}}}"))]);
        }
        Ok(())
    }

    fn kind(&mut self, key: &str, value: &Value) -> Result<(), LeftOut> {
        let Some(kind) = value.text() else {
            return Err(left_out(value, key, format!("must be a string, not {}", value.kind())));
        };
        match kind {
            "stdio" | "local" | "custom" | "remote" => {}
            "sse" => self.put("type", "sse"),
            "http" | "streamable-http" | "streamable_http" | "streamableHttp" => {
                if self.surrounded.dialect.http == Http::Streamable {
                    self.put("type", "http");
                }
            }
            "builtin" | "platform" | "frontend" | "inline_python" | "extension" | "sdk" => {
                let message = format!("is {kind:?}: a part of {} itself", self.surrounded.title);
                return Err(left_out(value, key, message));
            }
            _ => {
                return Err(left_out(value, key, "is a transport that hotcell does not speak".into()));
            }
        }
        Ok(())
    }

    fn tools(&mut self, into: &str, key: &str, value: &Value) -> Result<(), LeftOut> {
        let Node::List(items) = &value.node else {
            return Err(left_out(value, key, format!("must be a list of names, not {}", value.kind())));
        };
        let mut names: Vec<String> = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let Some(name) = item.text() else {
                let key = format!("{key}[{index}]");
                return Err(left_out(item, &key, format!("must be a string, not {}", item.kind())));
            };
            names.push(name.to_owned());
        }
        self.put(into, names);
        Ok(())
    }

    fn timeout(&mut self, key: &str, value: &Value, per_second: f64) -> Result<(), LeftOut> {
        let Node::Number(number) = &value.node else {
            return Err(left_out(value, key, format!("must be a number, not {}", value.kind())));
        };
        let seconds = number.as_f64().unwrap_or(0.0) / per_second;
        if seconds > 0.0 && seconds <= SECONDS_MAX {
            let whole = seconds.ceil();
            self.put("timeout", whole as u64);
        } else {
            let message = "is outside of what hotcell takes, above 0 s and up to an hour, and left out";
            self.done.notes.push((key.to_owned(), message.into()));
        }
        Ok(())
    }

    /// What is left to be checked when all keys are known, and the keys in one order.
    fn finished(mut self, value: &Value) -> Result<Translation, LeftOut> {
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
            match (self.surrounded.project, cwd) {
                // A client starts the servers of a project in its folder.
                (Some(project), None) => {
                    drop(entry.insert("cwd".into(), project.display().to_string().into()))
                }
                (Some(project), Some(cwd)) if !at_home(&cwd) => {
                    entry.insert("cwd".into(), project.join(cwd).display().to_string().into());
                }
                (None, Some(cwd)) if !at_home(&cwd) => {
                    return Err(left_out(value, "cwd", relative(self.surrounded.title)));
                }
                (None, None) if command.contains('/') && !at_home(command) => {
                    return Err(left_out(value, "command", relative(self.surrounded.title)));
                }
                _ => {}
            }
        }
        let order = [
            "type",
            "command",
            "args",
            "env",
            "cwd",
            "url",
            "headers",
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
        "is taken from the folder that {title} is started in, which hotcell does not know; make it absolute"
    )
}

fn variable(key: &str, value: &Value) -> Result<String, LeftOut> {
    match value.text() {
        Some(name) if references::is_variable(name) => Ok(name.to_owned()),
        // A token by mistake is not repeated.
        _ => Err(left_out(value, key, "must be the name of a variable".into())),
    }
}

fn boolean(key: &str, value: &Value) -> Result<bool, LeftOut> {
    match value.node {
        Node::Bool(value) => Ok(value),
        _ => Err(left_out(value, key, format!("must be true or false, not {}", value.kind()))),
    }
}

/// A string, or a number or boolean as clients hand it to a process.
fn scalar(value: &Value) -> Option<String> {
    match &value.node {
        Node::Text(text) => Some(text.clone()),
        Node::Number(number) => Some(number.to_string()),
        Node::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

fn left_out(value: &Value, key: &str, message: String) -> LeftOut {
    LeftOut { at: value.range.start, key: key.to_owned(), message }
}
