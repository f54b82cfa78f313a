//! Which model code may ask, by which way and how often: the section `[model]`.
//!
//! It asks nobody and runs nothing. A key stands in no setting: only where it is found does.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use url::Url;

use super::choices::{AllowCommands, ModelVia};
use super::resolve::{Settings, Source};
use super::values as read;
use crate::config::read::address::{http_url, is_loopback};
use crate::config::read::environment::Environment;
use crate::config::read::file::WatchedFile;
use crate::config::read::named_file::NamedFile;
use crate::config::read::references::{
    CommandLine, Commands, Files, ResolvedReferences, Sources, variables_in,
};
use crate::confine::PrivatePlaces;
use crate::limits::Limits;
use crate::problem::Severity;

const ENDPOINT: &str = "MCP_BRIDGE_MODEL_ENDPOINT";
const KEY: &str = "MCP_BRIDGE_MODEL_KEY";
/// Longest name of a model, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Whole tokens that a budget may have.
const TOKENS_MAX: u64 = 1_000_000_000_000;

/// The settings for requests to a model.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// Who is asked.
    pub access: ModelAccess,
    /// The model that is wanted; a client that is asked may take another one.
    pub name: Option<String>,
    /// How much.
    pub bounds: ModelBounds,
    /// What the key's reference has led to.
    pub(in crate::config) files: Vec<WatchedFile>,
    /// The files that it names.
    pub(in crate::config) named: Vec<NamedFile>,
    /// The environment variables that it refers to.
    pub(in crate::config) variables: BTreeSet<String>,
}

/// The way in which helpers reach a language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAccess {
    /// Nobody.
    Off,
    /// Nobody, since what is set cannot be used: why.
    Unusable(String),
    /// A service that speaks OpenAI's chat completions.
    Endpoint(ModelEndpoint),
    /// The client of the run, where it offers its model.
    Sampling,
}

/// A service that speaks OpenAI's chat completions. `Debug` shows no more of the address than its origin.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// `http` or `https`, with a host, without a user and a fragment; `chat/completions` comes behind its path.
    pub url: Url,
    /// The model's name there.
    pub name: String,
    /// What is sent as the bearer's token; `None`: nothing is.
    pub key: Option<ModelKey>,
}

/// The source of the key. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub enum ModelKey {
    /// It is known.
    Value(String),
    /// This command prints it.
    Command(CommandLine),
}

/// The bounds on requests to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelBounds {
    /// Requests of one run.
    pub requests_per_run: u64,
    /// Requests of one session.
    pub requests_per_session: u64,
    /// Tokens of one run, sent and received.
    pub tokens_per_run: u64,
    /// The same of one session.
    pub tokens_per_session: u64,
    /// How long one request may take, with all that is tried again.
    pub time: Duration,
    /// Requests that are under way at once; at least 1.
    pub at_once: usize,
}

impl ModelSettings {
    /// As the settings have it, as far as they can be read.
    pub(in crate::config) fn read(
        settings: &mut Settings<'_>,
        environment: &Environment,
        limits: &Limits,
        commands: AllowCommands,
    ) -> Self {
        let via = settings.required("MCP_BRIDGE_MODEL_VIA", read::model_via);
        let url = settings.optional(ENDPOINT, |text| http_url(text).map_err(str::to_owned));
        let name = settings.optional("MCP_BRIDGE_MODEL_NAME", name);
        let reference = settings.optional(KEY, reference);
        let mut whole =
            |variable: &str, max: u64| settings.required(variable, |text| read::whole(text, 1, max));
        let bounds = ModelBounds {
            requests_per_run: whole("MCP_BRIDGE_MODEL_REQUESTS_PER_RUN", 100_000),
            requests_per_session: whole("MCP_BRIDGE_MODEL_REQUESTS_PER_SESSION", 1_000_000),
            tokens_per_run: whole("MCP_BRIDGE_MODEL_TOKENS_PER_RUN", TOKENS_MAX),
            tokens_per_session: whole("MCP_BRIDGE_MODEL_TOKENS_PER_SESSION", TOKENS_MAX),
            time: Duration::from_secs(whole("MCP_BRIDGE_MODEL_TIMEOUT", 3_600)),
            at_once: whole("MCP_BRIDGE_MODEL_CONCURRENCY", 64) as usize,
        };
        let (mut resolved, mut variables) = (ResolvedReferences::default(), BTreeSet::new());
        let key = match &reference {
            Some(reference) => {
                variables_in(reference, &mut variables);
                let commands = match commands {
                    AllowCommands::Yes => Commands::Later,
                    AllowCommands::No => Commands::Refused,
                };
                let private = &PrivatePlaces::default();
                let sources = Sources { environment, limits, files: Files::Read, commands, private };
                key(&sources, settings, reference, &mut resolved).map(Some)
            }
            None => Ok(None),
        };
        let access = match (via, url) {
            (ModelVia::Off, _) => ModelAccess::Off,
            (ModelVia::Sampling, _) | (ModelVia::Auto, None) => ModelAccess::Sampling,
            (ModelVia::Endpoint, None) => {
                ModelAccess::Unusable("model.via is endpoint, and model.endpoint is not set".to_owned())
            }
            (ModelVia::Auto | ModelVia::Endpoint, Some(url)) => match (key, &name) {
                (Err(reason), _) => ModelAccess::Unusable(reason),
                (_, None) => {
                    let message = "has no model.name beside it, which says what model is asked";
                    let source = settings.source(ENDPOINT);
                    settings.problem(source.problem("model.endpoint", ENDPOINT, message));
                    ModelAccess::Unusable("model.endpoint is set, and model.name is not".to_owned())
                }
                (Ok(key), Some(name)) => {
                    if url.scheme() == "http" && !is_loopback(&url) {
                        let message = "is http, not https, and not on this machine: whoever is on the way can read \
                                       what is asked and answered, and the key";
                        let source = settings.source(ENDPOINT);
                        let problem = source.problem("model.endpoint", ENDPOINT, message);
                        settings.problem(problem.severity(Severity::Warning));
                    }
                    ModelAccess::Endpoint(ModelEndpoint { url, name: name.clone(), key })
                }
            },
        };
        Self { access, name, bounds, files: resolved.files, named: resolved.named, variables }
    }

    /// Nobody is asked, since some of the section could not be read: it is not replaced by something looser.
    pub(in crate::config) fn made_unusable(self, problem: &impl fmt::Display) -> Self {
        match self.access {
            ModelAccess::Off => self,
            _ => Self { access: ModelAccess::Unusable(problem.to_string()), ..self },
        }
    }
}

impl ModelEndpoint {
    /// The address as far as it is no secret: scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

impl fmt::Debug for ModelEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ModelEndpoint");
        shown.field("origin", &self.origin()).field("name", &self.name).field("key", &self.key).finish()
    }
}

impl fmt::Debug for ModelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelKey")
    }
}

fn name(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control) {
        return Err(format!("is no name of a model: 1 to {NAME_CHARS_MAX} characters on one line"));
    }
    Ok(name.to_owned())
}

/// A single reference. What else stands there may be a key, and is not repeated.
fn reference(text: &str) -> Result<String, String> {
    let text = text.trim();
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    match inner {
        Some(inner) if !inner.contains(['{', '}']) && !inner.contains(":-") => Ok(text.to_owned()),
        _ => Err("is no reference, and a key itself stands in no setting".to_owned()),
    }
}

/// The key, or why it cannot be had; that is said as a problem as well.
fn key(
    sources: &Sources<'_>,
    settings: &mut Settings<'_>,
    reference: &str,
    resolved: &mut ResolvedReferences,
) -> Result<ModelKey, String> {
    let source = settings.source(KEY);
    let folder = match &source {
        Source::File { path, .. } => path.parent().map(Path::to_owned),
        Source::Default | Source::Variable(_) => sources.environment.cwd.clone(),
    };
    let (message, hint) = match sources.substitute(reference, folder.as_deref(), resolved) {
        Ok(Some(found)) if is_token(&found) => return Ok(ModelKey::Value(found)),
        Ok(Some(_)) => ("leads to what is no key: it must be one line of printable ASCII".to_owned(), ""),
        Ok(None) => match resolved.commands.pop() {
            Some(command) => return Ok(ModelKey::Command(command)),
            None => ("leads nowhere".to_owned(), ""),
        },
        Err(unresolved) => (unresolved.message, unresolved.hint),
    };
    let problem = source.problem("model.key", KEY, message).hint(hint);
    let said = problem.to_string();
    settings.problem(problem);
    Err(said)
}

/// Whether it can be sent as a bearer's token.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
