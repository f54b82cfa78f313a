//! Requests to the endpoints of an authorization server that accept a form: for tokens, and to revoke them.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use belljar_base::secret::{Secret, replaced_in};
use belljar_base::text;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use super::http_policy::{HttpPolicy, Prover};

/// Fields of a form that hold secrets. The server may repeat them in the description of an error.
const SECRET_FIELDS: [&str; 6] =
    ["client_secret", "client_assertion", "assertion", "subject_token", "refresh_token", "token"];
/// The longest name and the longest description of an error, in characters.
const ERROR_CHARS_MAX: (usize, usize) = (60, 200);

/// One endpoint of an authorization server.
pub(super) struct TokenEndpoint<'a> {
    pub(super) asking: &'a HttpPolicy,
    pub(super) url: &'a Url,
    /// Signs the proofs of the requests, if they need some.
    pub(super) prover: Option<Prover<'a>>,
}

/// The method by which the client authenticates.
pub(super) enum Authentication<'a> {
    /// The client does not identify itself.
    Anonymous,
    /// The client sends its id only.
    Id(&'a str),
    /// The client sends its id and secret in the header.
    Basic(&'a str, &'a str),
    /// The client sends its id and secret in the form.
    Post(&'a str, &'a str),
    /// The client sends an assertion that it has signed, and that names it.
    Signed(String),
}

/// The reason why there is no response.
pub(super) enum Failure {
    /// The server refuses.
    Refused {
        status: StatusCode,
        /// The name of the error.
        error: Option<String>,
        /// The server's description of the error, without secrets of the request.
        description: Option<String>,
    },
    /// The server was not reached, or its response cannot be read.
    Other(String),
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
}

/// The spellings of the client's secret: that of the header, that of the header before it was encoded, and its own one.
pub(super) fn spellings(id: &str, secret: &str) -> [String; 3] {
    let coded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let basic = STANDARD.encode(format!("{}:{}", coded(id), coded(secret)));
    [basic, coded(secret), secret.to_owned()]
}

impl TokenEndpoint<'_> {
    /// Sends a form, and returns the body of the response.
    pub(super) async fn ask<'f>(
        &self,
        authentication: Authentication<'f>,
        mut form: Vec<(&'f str, Cow<'f, str>)>,
    ) -> Result<Vec<u8>, Failure> {
        let mut header = None;
        let mut secrets: Vec<Secret> = Vec::new();
        match authentication {
            Authentication::Anonymous => {}
            Authentication::Id(id) => form.push(("client_id", id.into())),
            Authentication::Basic(id, secret) => {
                let spellings = spellings(id, secret);
                header = HeaderValue::from_str(&format!("Basic {}", spellings[0])).ok();
                let named = |value: &String| Secret::new("client_secret".into(), value);
                secrets.extend(spellings.iter().filter_map(named));
            }
            Authentication::Post(id, secret) => {
                form.extend([("client_id", id.into()), ("client_secret", secret.into())]);
            }
            Authentication::Signed(assertion) => {
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                form.extend([("client_assertion_type", kind.into()), ("client_assertion", assertion.into())]);
            }
        }
        let secret_fields = form.iter().filter(|(name, _)| SECRET_FIELDS.contains(name));
        secrets.extend(secret_fields.filter_map(|(name, value)| Secret::new((*name).to_owned(), value)));
        let mut request = reqwest::Request::new(Method::POST, self.url.clone());
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        // Some servers answer with a form unless the request asks for JSON.
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(mut header) = header {
            header.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, header);
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        *request.body_mut() = Some(body.into());
        let response = self.asking.ask_proving(request, self.prover).await.map_err(Failure::Other)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let refusal: Option<Refusal> = serde_json::from_slice(response.body()).ok();
        let secrets: Vec<&Secret> = secrets.iter().collect();
        let said = |text: String, chars_max| text::inert_excerpt(&replaced_in(text, &secrets), chars_max);
        let (error, description) = refusal.map_or((None, None), |refusal| {
            let description = refusal.error_description.filter(|description| !description.is_empty());
            (Some(refusal.error), description)
        });
        Err(Failure::Refused {
            status,
            error: error.map(|error| said(error, ERROR_CHARS_MAX.0)),
            description: description.map(|description| said(description, ERROR_CHARS_MAX.1)),
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { error: Some(error), description: Some(description), .. } => {
                write!(f, "the authorization server refused: {error}: {description}")
            }
            Self::Refused { error: Some(error), .. } => {
                write!(f, "the authorization server refused: {error}")
            }
            Self::Refused { status, .. } => write!(f, "the authorization server answered HTTP {status}"),
            Self::Other(reason) => write!(f, "the authorization server could not be asked: {reason}"),
        }
    }
}
