//! Reads the values of an entry: strings with their references, lists, tables, names of variables.
//!
//! It does not know which key means what: `entry` does.

use serde_json::{Map, Value as Json};

use super::dialect::{Http, KeyMeaning, References};
use super::references;
use super::secrets;
use super::translator::{Translator, UntranslatedEntry};
use crate::clients::formats::spanned::{Node, Value};

/// The longest time that belljar accepts, in seconds.
const SECONDS_MAX: f64 = 3600.0;

/// The kind of the values of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    Texts,
    /// Names of variables, which have the values.
    Variables,
}

impl Translator<'_> {
    pub(super) fn put(&mut self, key: &str, value: impl Into<Json>) {
        self.done.entry.insert(key.to_owned(), value.into());
    }

    /// Adds a pair to a table of the entry.
    pub(super) fn merge(&mut self, key: &str, (name, value): (String, String)) {
        let table = self.done.entry.entry(key).or_insert_with(|| Json::Object(Map::new()));
        let Json::Object(table) = table else { return };
        let value = Json::String(value);
        if table.get(&name).is_some_and(|before| *before != value) {
            let message = "is said twice, and differently; the later one is taken".to_owned();
            self.done.notes.push((format!("{key}.{name}"), message));
        }
        table.insert(name, value);
    }

    /// Translates a string of the client into belljar's syntax.
    pub(super) fn text(&mut self, key: &str, value: &Value) -> Result<String, UntranslatedEntry> {
        let Some(text) = scalar(value) else {
            return Err(left_out(value, key, format!("must be a string, not {}", value.kind())));
        };
        self.translated(&text).map_err(|message| left_out(value, key, message))
    }

    pub(super) fn translated(&mut self, text: &str) -> Result<String, String> {
        let translated = references::translate(text, &self.context)?;
        self.done.needs.extend(translated.needs);
        Ok(translated.text)
    }

    pub(super) fn texts(&mut self, key: &str, value: &Value) -> Result<Vec<String>, UntranslatedEntry> {
        let Node::List(items) = &value.node else {
            return Err(left_out(value, key, format!("must be a list of strings, not {}", value.kind())));
        };
        // Goose replaces no references in a command line.
        let style = self.context.style;
        if style == References::OwnVariables {
            self.context.style = References::None;
        }
        let texts: Result<Vec<String>, UntranslatedEntry> = items
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

    pub(super) fn command(&mut self, key: &str, value: &Value) -> Result<(), UntranslatedEntry> {
        match &value.node {
            Node::List(_) => {
                let mut words = self.texts(key, value)?.into_iter();
                let Some(program) = words.next() else {
                    return Err(left_out(value, key, "is empty".into()));
                };
                self.put("command", program);
                let words: Vec<String> = words.chain(self.arguments()).collect();
                self.put("args", words);
            }
            Node::Table(_) => {
                for (inner, meaning) in
                    [("path", KeyMeaning::Command), ("args", KeyMeaning::Args), ("env", KeyMeaning::Env)]
                {
                    let Some(value) = value.get(inner).filter(|value| value.node != Node::Null) else {
                        continue;
                    };
                    let key = format!("{key}.{inner}");
                    match meaning {
                        KeyMeaning::Command => {
                            let program = self.text(&key, value)?;
                            self.put("command", program);
                        }
                        KeyMeaning::Args => {
                            let arguments = self.texts(&key, value)?;
                            self.put("args", arguments);
                        }
                        _ => self.named("env", &key, value, Values::Texts)?,
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

    /// A command whose text is split into words.
    pub(super) fn command_line(&mut self, key: &str, value: &Value) -> Result<(), UntranslatedEntry> {
        let line = value.text().unwrap_or_default();
        if !line.contains(char::is_whitespace) {
            return self.command(key, value);
        }
        if line.contains(['"', '\'', '\\']) {
            let title = self.context.title;
            let message =
                format!("is a line with quotes; write it as a list of words, which {title} takes too");
            return Err(left_out(value, key, message));
        }
        let word = |word: &str| Value { range: value.range.clone(), node: Node::Text(word.to_owned()) };
        let words = line.split_whitespace().map(word).collect();
        self.command(key, &Value { range: value.range.clone(), node: Node::List(words) })
    }

    /// The arguments that are there already.
    pub(super) fn arguments(&self) -> Vec<String> {
        let words = self.done.entry.get("args").and_then(Json::as_array).into_iter().flatten();
        words.filter_map(|word| Some(word.as_str()?.to_owned())).collect()
    }

    pub(super) fn url(&mut self, key: &str, value: &Value) -> Result<(), UntranslatedEntry> {
        let url = self.text(key, value)?;
        if let Some((scheme, _)) = url.split_once("://").filter(|(scheme, _)| !is_scheme_of_http(scheme)) {
            let message = match scheme {
                "unix" => "is a Unix socket, over which belljar speaks to no server".to_owned(),
                "pipe" => "is a named pipe, over which belljar speaks to no server".to_owned(),
                _ => "is no http or https address, and belljar speaks to remote servers over these only"
                    .to_owned(),
            };
            return Err(left_out(value, key, message));
        }
        if references::is_literal(&url) && secrets::shown_url(&url) != url {
            self.done.literal_secrets.push(key.to_owned());
        }
        self.put("url", url);
        Ok(())
    }

    /// Translates a table of strings, or of names of variables.
    pub(super) fn named(
        &mut self,
        into: &str,
        key: &str,
        value: &Value,
        values: Values,
    ) -> Result<(), UntranslatedEntry> {
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
            let text = if values == Values::Variables {
                let variable = variable(&key, &member.value)?;
                self.done.needs.push((variable.clone(), format!("the header {}", member.key)));
                format!("${{{variable}}}")
            } else {
                self.text(&key, &member.value)?
            };
            let is_secret = secrets::names_secret(&member.key) || secrets::holds_credential(&text);
            if is_secret && references::is_literal(&text) && !text.is_empty() {
                self.done.literal_secrets.push(key);
            }
            self.merge(into, (member.key.clone(), text));
        }
        self.context.style = style;
        Ok(())
    }

    /// Translates a list of variables' names: strings, or tables with a `name`.
    pub(super) fn env_names(&mut self, key: &str, value: &Value) -> Result<(), UntranslatedEntry> {
        let Node::List(items) = &value.node else {
            return Err(left_out(value, key, format!("must be a list of names, not {}", value.kind())));
        };
        for (index, item) in items.iter().enumerate() {
            let named = item.get("name").unwrap_or(item);
            let variable = variable(&format!("{key}[{index}]"), named)?;
            let what_for = format!("what {} passes on under that name", self.context.title);
            self.done.needs.push((variable.clone(), what_for));
            self.merge("env", (variable.clone(), format!("${{{variable}}}")));
        }
        Ok(())
    }

    pub(super) fn kind(&mut self, key: &str, value: &Value) -> Result<(), UntranslatedEntry> {
        let Some(kind) = value.text() else {
            return Err(left_out(value, key, format!("must be a string, not {}", value.kind())));
        };
        match kind {
            "stdio" | "local" | "custom" | "remote" => {}
            "sse" => self.put("type", "sse"),
            "http" | "streamable-http" | "streamable_http" | "streamableHttp" => {
                if self.dialect.http == Http::Streamable {
                    self.put("type", "http");
                }
            }
            "builtin" | "platform" | "frontend" | "inline_python" | "extension" | "sdk" => {
                let message = format!("is {kind:?}: a part of {} itself", self.context.title);
                return Err(left_out(value, key, message));
            }
            _ => {
                return Err(left_out(value, key, "is a transport that belljar does not speak".into()));
            }
        }
        Ok(())
    }

    pub(super) fn tools(&mut self, into: &str, key: &str, value: &Value) -> Result<(), UntranslatedEntry> {
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

    pub(super) fn time(
        &mut self,
        into: &str,
        (key, value): (&str, &Value),
        per_second: f64,
    ) -> Result<(), UntranslatedEntry> {
        let Node::Number(number) = &value.node else {
            return Err(left_out(value, key, format!("must be a number, not {}", value.kind())));
        };
        let seconds = number.as_f64().unwrap_or(0.0) / per_second;
        if seconds > 0.0 && seconds <= SECONDS_MAX {
            // Whole seconds are written as integers.
            match seconds.fract() == 0.0 {
                true => self.put(into, seconds as u64),
                false => self.put(into, seconds),
            }
        } else {
            let message = "is outside of what belljar takes, above 0 s and up to an hour, and left out";
            self.done.notes.push((key.to_owned(), message.into()));
        }
        Ok(())
    }
}

fn is_scheme_of_http(scheme: &str) -> bool {
    // The scheme may come from a reference, whose value is not known here.
    scheme.contains("${") || ["http", "https"].iter().any(|http| scheme.eq_ignore_ascii_case(http))
}

pub(super) fn variable(key: &str, value: &Value) -> Result<String, UntranslatedEntry> {
    match value.text() {
        Some(name) if references::is_variable(name) => Ok(name.to_owned()),
        // The text may be a token by mistake, so it is not repeated.
        _ => Err(left_out(value, key, "must be the name of a variable".into())),
    }
}

pub(super) fn boolean(key: &str, value: &Value) -> Result<bool, UntranslatedEntry> {
    match value.node {
        Node::Bool(value) => Ok(value),
        _ => Err(left_out(value, key, format!("must be true or false, not {}", value.kind()))),
    }
}

/// A string, or a number or boolean in the form in which clients pass it to a process.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match &value.node {
        Node::Text(text) => Some(text.clone()),
        Node::Number(number) => Some(number.to_string()),
        Node::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

pub(super) fn left_out(value: &Value, key: &str, message: String) -> UntranslatedEntry {
    UntranslatedEntry { at: value.range.start, key: key.to_owned(), message }
}
