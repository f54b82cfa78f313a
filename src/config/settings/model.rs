//! The section `[model]`: which model code may ask, through which service, and how often.
//!
//! It sends no request and runs nothing. No setting contains a key: a setting only refers to one.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::problem::Severity;
use belljar_confine::PrivatePlaces;
use belljar_upstream::web::is_loopback;
use url::Url;

use super::choices::{AllowCommands, ModelVia};
use super::resolve::{Settings, Source};
use super::values as read;
use crate::config::read::address::http_url;
use crate::config::read::changeable::NamedFile;
use crate::config::read::environment::Environment;
use crate::config::read::file::WatchedFile;
use crate::config::read::references::{
    CommandLine, Commands, Files, ResolvedReferences, Sources, variables_in,
};
use crate::models::Bounds;

const ENDPOINT: &str = "MCP_BRIDGE_MODEL_ENDPOINT";
const KEY: &str = "MCP_BRIDGE_MODEL_KEY";
/// The longest name of a model, in characters.
const NAME_CHARS_MAX: usize = 200;
/// The largest budget, in tokens.
const TOKENS_MAX: u64 = 1_000_000_000_000;

/// The settings for requests to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSettings {
    /// The access to the model.
    pub access: ModelAccess,
    /// The name of the wanted model. A client may use another one.
    pub name: Option<String>,
    /// The bounds on requests.
    pub bounds: Bounds,
    /// The files that were read for the key's reference.
    pub(crate) files: Vec<WatchedFile>,
    /// The files that the key's reference names.
    pub(crate) named: Vec<NamedFile>,
    /// The environment variables that the key's reference names.
    pub(crate) variables: BTreeSet<String>,
}

/// The way in which belljar reaches the model that code may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAccess {
    /// No model is asked.
    Off,
    /// No model is asked, since the settings cannot be used, for this reason.
    Unusable(String),
    /// A service that supports OpenAI's chat completions API.
    Endpoint(ModelEndpoint),
    /// The client of the run, if it supports sampling.
    Sampling,
}

/// A service that supports OpenAI's chat completions API. `Debug` shows only the origin of its address.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// `http` or `https`, with a host, without a user and a fragment. `chat/completions` is appended to its path.
    pub url: Url,
    /// The model's name at the service.
    pub name: String,
    /// The bearer token; `None`: requests have none.
    pub key: Option<ModelKey>,
}

/// The source of the key. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub enum ModelKey {
    /// The key itself.
    Value(String),
    /// A command that prints the key.
    Command(CommandLine),
}

impl ModelSettings {
    /// Reads the section. Problems are reported through `settings`.
    pub(crate) fn read(
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
        let bounds = Bounds {
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

    /// Turns the model off because of this problem with the section: the defaults could be looser than what the user
    /// wrote.
    pub(crate) fn made_unusable(self, problem: &impl fmt::Display) -> Self {
        match self.access {
            ModelAccess::Off => self,
            _ => Self { access: ModelAccess::Unusable(problem.to_string()), ..self },
        }
    }
}

impl ModelEndpoint {
    /// The address without secrets: scheme, host and port.
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

/// Checks that the text is a single reference. Another text may be a key, so the error does not repeat it.
fn reference(text: &str) -> Result<String, String> {
    let text = text.trim();
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    match inner {
        Some(inner) if !inner.contains(['{', '}']) && !inner.contains(":-") => Ok(text.to_owned()),
        _ => Err("is no reference, and a key itself stands in no setting".to_owned()),
    }
}

/// Resolves the reference to the key. An error is also reported as a problem.
fn key(
    sources: &Sources<'_>,
    settings: &mut Settings<'_>,
    reference: &str,
    resolved: &mut ResolvedReferences,
) -> Result<ModelKey, String> {
    let source = settings.source(KEY);
    let folder = match &source {
        Source::File { path, .. } => path.parent().map(Path::to_owned),
        Source::Default | Source::Variable(_) => sources.environment.home.clone(),
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

/// Whether the text can be sent as a bearer token.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
