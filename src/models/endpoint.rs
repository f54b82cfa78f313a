//! A service that speaks OpenAI's chat completions: one request for one answer, made again where that may help.
//!
//! Nothing goes to another origin than the one that is set, and the key stands in no text that comes back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_base::secret::{Secret, replaced_in};
use belljar_base::text;
use belljar_upstream::web::{beginning_of, builder, followed, said};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use url::Url;

use super::chat::{self, ModelAnswer, ModelRequest, TokensKey};
use super::error::ModelError;
use super::retry;

/// What stands for the key where the endpoint repeats it, and for what its address may have in the place of one.
const KEY_NAME: &str = "model.key";
const ADDRESS_NAME: &str = "model.endpoint";
/// Shorter parts of an address are mostly no secrets.
const ADDRESS_SECRET_BYTES_MIN: usize = 16;
/// Bytes of a refusal's body that are read.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;
/// Longest words of a refusal, in characters.
const REFUSAL_CHARS_MAX: usize = 300;
/// How the refusal begins of a service that calls the bound of an answer by its newer name.
const NEWER_KEY: &str = "max_completion_tokens";

/// One service. `Debug` shows no more of the address than its origin.
pub struct Endpoint {
    url: Url,
    origin: String,
    model: String,
    secrets: Vec<Secret>,
    client: Client,
    answer_bytes_max: usize,
    /// Whether it has said that it wants the newer name.
    wants_newer_key: AtomicBool,
}

/// The outcome of one HTTP request to the endpoint.
enum AttemptOutcome {
    Said(Box<ModelAnswer>),
    /// The request failed, and may succeed another time.
    Passing {
        status: u16,
        said: String,
        wants: Option<Duration>,
    },
    NewerKey,
}

impl Endpoint {
    /// The service at this address, whose model of this name is asked. Asks nothing yet.
    ///
    /// # Errors
    /// It cannot be asked as it is set.
    pub fn new(
        base: &Url,
        model: &str,
        key: Option<&str>,
        answer_bytes_max: usize,
    ) -> Result<Self, ModelError> {
        let unusable = |reason: String| ModelError::Unusable { reason };
        let mut url = base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.pop_if_empty().extend(["chat", "completions"]);
            }
            Err(()) => return Err(unusable("its address has no path".to_owned())),
        }
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let value = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut value = value.map_err(|_| unusable("its key holds what no header may".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = builder(&url).map_err(unusable)?;
        let client = client.default_headers(headers).redirect(Policy::custom(followed)).build();
        Ok(Self {
            origin: url.origin().ascii_serialization(),
            url,
            model: model.to_owned(),
            secrets: secrets(base, key),
            client: client.map_err(|error| unusable(said(error)))?,
            answer_bytes_max,
            wants_newer_key: AtomicBool::new(false),
        })
    }

    /// The address as far as it is no secret: scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The model's answer. Whoever gives up drops this; `left` is the time until then, at any moment.
    ///
    /// # Errors
    /// Each way in which there is none.
    pub async fn ask(
        &self,
        asked: &ModelRequest,
        left: impl Fn() -> Duration,
    ) -> Result<ModelAnswer, ModelError> {
        let mut times = 0;
        loop {
            times += 1;
            let key = match self.wants_newer_key.load(Ordering::Relaxed) {
                true => TokensKey::MaxCompletionTokens,
                false => TokensKey::MaxTokens,
            };
            match self.once(asked, key).await? {
                AttemptOutcome::Said(said) => return Ok(*said),
                AttemptOutcome::NewerKey => self.wants_newer_key.store(true, Ordering::Relaxed),
                AttemptOutcome::Passing { status, said, wants } => match retry::pause(times, wants, left()) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => {
                        let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                        let origin = self.origin.clone();
                        return Err(ModelError::Busy { origin, status, said, times, wants });
                    }
                },
            }
        }
    }

    async fn once(&self, asked: &ModelRequest, key: TokensKey) -> Result<AttemptOutcome, ModelError> {
        let origin = || self.origin.clone();
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        let sent = request.body(asked.body(&self.model, key)).send().await;
        let response = sent.map_err(|error| {
            let is_unsent = error.is_connect() || error.is_builder();
            let reason = said(error);
            match is_unsent {
                true => ModelError::NotReached { origin: origin(), reason },
                false => ModelError::Broken { origin: origin(), reason },
            }
        })?;
        if response.status() != StatusCode::OK {
            return self.refusal(response, key).await;
        }
        let (body, is_whole) = beginning_of(response, self.answer_bytes_max).await;
        if !is_whole {
            return Err(match body.len() >= self.answer_bytes_max {
                true => ModelError::TooLarge { origin: origin(), bytes_max: self.answer_bytes_max },
                false => ModelError::Broken { origin: origin(), reason: "it ended too early".to_owned() },
            });
        }
        let said = chat::said(&body);
        let said =
            said.map_err(|reason| ModelError::Nonsense { origin: origin(), reason: self.word(reason) })?;
        Ok(AttemptOutcome::Said(Box::new(ModelAnswer {
            text: self.redacted(said.text),
            model: said.model.map(|model| self.word(model)),
            stop_reason: said.stop_reason.map(|reason| chat::stop_reason(&self.redacted(reason))),
            usage: said.usage,
        })))
    }

    async fn refusal(&self, response: Response, key: TokensKey) -> Result<AttemptOutcome, ModelError> {
        let (status, origin) = (response.status(), self.origin.clone());
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.and_then(|to| response.url().join(to).ok());
            let to = to.map_or_else(String::new, |to| format!(" to {}", to.origin().ascii_serialization()));
            let said = format!(": it redirects{to}, which is not followed");
            return Err(ModelError::Refused { origin, status: status.as_u16(), said });
        }
        let wants =
            response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()).and_then(retry::wanted);
        let status = status.as_u16();
        let (body, _) = beginning_of(response, REFUSAL_BYTES_MAX).await;
        let reason = chat::reason(&body);
        let (words, code) = reason.map_or_else(Default::default, |reason| (reason.said, reason.code));
        let wants_newer = status == 400 && key == TokensKey::MaxTokens && words.contains(NEWER_KEY);
        if wants_newer {
            return Ok(AttemptOutcome::NewerKey);
        }
        let words = text::inert_excerpt(&self.redacted(words), REFUSAL_CHARS_MAX);
        let said = if words.is_empty() { words } else { format!(": {words}") };
        match status {
            401 | 403 => Err(ModelError::NotAllowed { origin, status, said }),
            // Its money is used up: no pause helps.
            _ if code == "insufficient_quota" => Err(ModelError::Refused { origin, status, said }),
            _ if retry::is_passing(status) => Ok(AttemptOutcome::Passing { status, said, wants }),
            _ => Err(ModelError::Refused { origin, status, said }),
        }
    }

    fn word(&self, text: String) -> String {
        text::inert_excerpt(&self.redacted(text), chat::WORD_CHARS_MAX)
    }

    fn redacted(&self, text: String) -> String {
        replaced_in(text, &self.secrets.iter().collect::<Vec<_>>())
    }
}

fn secrets(base: &Url, key: Option<&str>) -> Vec<Secret> {
    let values = base.query_pairs().map(|(_, value)| value.into_owned());
    let parts = base.path_segments().into_iter().flatten().map(str::to_owned);
    let long = values.chain(parts).filter(|part| part.len() >= ADDRESS_SECRET_BYTES_MIN);
    let of_address = long.filter_map(|part| Secret::new(ADDRESS_NAME.to_owned(), &part));
    key.and_then(|key| Secret::new(KEY_NAME.to_owned(), key)).into_iter().chain(of_address).collect()
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("origin", &self.origin)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
