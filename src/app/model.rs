//! The lines of `belljar doctor` about the model that code may ask.

use belljar_base::text;
use belljar_guard::Mark;
use tokio::time::Instant;

use crate::broker::model_endpoint;
use crate::config::{Config, Environment, ModelAccess, ModelEndpoint};
use crate::models::{ModelAnswer, ModelError, ModelRequest};

/// Longest reason why the model does not answer, in characters.
const WHY_CHARS_MAX: usize = 500;
/// The question for a test. Only whether there is an answer counts.
const QUESTION: &str = "Answer with the one word: here";
const ANSWER_TOKENS: u32 = 16;

/// One line that names the model that code may ask.
pub(super) fn state(config: &Config) -> String {
    match &config.model.access {
        ModelAccess::Off => "none: model.via is off".into(),
        ModelAccess::Unusable(reason) => format!("NONE: {}", text::inert_line(reason)),
        ModelAccess::Sampling => "the client's, where the client offers one".into(),
        ModelAccess::Endpoint(endpoint) => {
            let key = if endpoint.key.is_some() { "with a key" } else { "without a key" };
            format!("{} at {}, {key}", text::inert_line(&endpoint.name), endpoint.origin())
        }
    }
}

/// The result of a test question; `None`: no endpoint is set.
pub(super) async fn answer(config: &Config, environment: &Environment) -> Option<String> {
    let ModelAccess::Endpoint(endpoint) = &config.model.access else { return None };
    let asking = tokio::time::timeout(config.model.bounds.time, ask(config, environment, endpoint));
    let why = match asking.await {
        Ok(Ok(said)) => {
            let model = said
                .model
                .map_or_else(|| "it does not say which model".into(), |model| text::inert_line(&model));
            return Some(format!("answers ({model})"));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s (model.timeout)", config.model.bounds.time.as_secs()),
    };
    Some(format!("FAILED: {}", text::inert_excerpt(&why, WHY_CHARS_MAX)))
}

async fn ask(
    config: &Config,
    environment: &Environment,
    settings: &ModelEndpoint,
) -> Result<ModelAnswer, ModelError> {
    let until = Instant::now() + config.model.bounds.time;
    let endpoint = model_endpoint(settings, &Mark::new(), environment, &config.limits).await?;
    let asked = ModelRequest {
        system: None,
        prompt: QUESTION.to_owned(),
        max_tokens: ANSWER_TOKENS,
        temperature: None,
    };
    endpoint.ask(&asked, || until.duration_since(Instant::now())).await
}
