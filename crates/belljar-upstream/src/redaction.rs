//! Replaces the secrets of one server, including its login, in everything that the server sends.
//!
//! Credentials are removed from every message as it arrives, before any other code reads it. From errors, logs and
//! stderr, all configured values are removed; other texts may contain settings, such as the name of a folder. Errors
//! leave `upstream` as [`Redacted`] only.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use belljar_base::secret::{Secret, replaced_in, replaced_in_json};
use belljar_base::text;
use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::error::UpstreamError;
use super::oauth::TokenCache;
use super::secrets::Secrets;

/// The longest reason for which a login failed, in characters.
const LOGIN_CHARS_MAX: usize = 1000;

/// The secrets of one server. Clones share them, including those that are found later.
#[derive(Clone, Default)]
pub(super) struct Redaction {
    secrets: Arc<Secrets>,
    access: Option<Arc<TokenCache>>,
    /// The names that stand for credentials in results so far, and whether they were told.
    masked: Arc<Mutex<BTreeMap<String, bool>>>,
}

/// An error whose texts have no secret of its server. Only a redaction makes one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Redacted(UpstreamError);

impl Deref for Redacted {
    type Target = UpstreamError;

    fn deref(&self) -> &UpstreamError {
        &self.0
    }
}

impl From<Redacted> for UpstreamError {
    fn from(Redacted(error): Redacted) -> Self {
        error
    }
}

impl Redaction {
    pub(super) fn new(secrets: Arc<Secrets>, access: Option<Arc<TokenCache>>) -> Self {
        Self { secrets, access, masked: Arc::default() }
    }

    /// The texts that stand for credentials in results so far, such as `[TOKEN]`.
    pub(super) fn masked(&self) -> Vec<String> {
        self.masked.lock().keys().cloned().collect()
    }

    /// Those of them that this has not returned before.
    pub(super) fn newly_masked(&self) -> Vec<String> {
        let mut masked = self.masked.lock();
        let is_new = |is_told: &mut bool| !std::mem::replace(is_told, true);
        masked.iter_mut().filter_map(|(name, told)| is_new(told).then(|| name.clone())).collect()
    }

    /// Replaces every value by its name.
    pub(super) fn text(&self, text: String) -> String {
        replaced_in(text, &references(&self.all()))
    }

    /// Replaces every value in the texts of an error.
    pub(super) fn error(&self, error: UpstreamError) -> Redacted {
        Redacted(match error.with_texts(&|text| self.text(text)) {
            // It may repeat whole documents of an authorization server, which must not be cut before.
            UpstreamError::LoginFailed { server, reason } => {
                let reason = text::bounded(&reason, LOGIN_CHARS_MAX).into_owned();
                UpstreamError::LoginFailed { server, reason }
            }
            error => error,
        })
    }

    /// As [`Self::text`], for the end of a longer text: as much is removed at its beginning as the rest of a secret may
    /// have.
    pub(super) fn tail(&self, bytes: &[u8]) -> String {
        let text = self.text(String::from_utf8_lossy(bytes).into_owned());
        let from = (self.bytes_at_cut()..text.len()).find(|at| text.is_char_boundary(*at));
        from.map(|from| text[from..].to_owned()).unwrap_or_default()
    }

    /// As [`Self::text`], for the beginning of a longer text: as much is removed at its end as the beginning of a secret
    /// may have.
    pub(super) fn beginning(&self, bytes: &[u8]) -> String {
        let text = self.text(String::from_utf8_lossy(bytes).into_owned());
        let until = text.len().saturating_sub(self.bytes_at_cut());
        let until = (0..=until).rfind(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text[..until].to_owned()
    }

    fn bytes_at_cut(&self) -> usize {
        self.all().iter().map(|secret| secret.bytes_at_cut()).max().unwrap_or_default()
    }

    /// Replaces the credentials in a JSON text by their names; `None`: it has no credentials.
    pub(super) fn json(&self, json: &str) -> Option<String> {
        replaced_in_json(json, &references(&self.credentials()))
    }

    /// Replaces the credentials in a result by their names.
    ///
    /// # Errors
    /// The text is no longer JSON.
    pub(super) fn result(&self, result: Box<RawValue>) -> Result<Box<RawValue>, String> {
        let credentials = self.credentials();
        let Some(clean) = replaced_in_json(result.get(), &references(&credentials)) else {
            return Ok(result);
        };
        let names = credentials.iter().map(|secret| format!("[{}]", secret.name));
        for name in names.filter(|name| clean.contains(name)) {
            self.masked.lock().entry(name).or_default();
        }
        RawValue::from_string(clean).map_err(|error| error.to_string())
    }

    /// The present credentials of the server.
    pub(super) fn credentials(&self) -> Vec<Arc<Secret>> {
        let mut credentials = self.secrets.credentials();
        credentials.extend(self.login());
        credentials
    }

    fn all(&self) -> Vec<Arc<Secret>> {
        let mut all = self.secrets.all();
        all.extend(self.login());
        all
    }

    fn login(&self) -> Vec<Arc<Secret>> {
        self.access.as_ref().map(|access| access.secrets()).unwrap_or_default()
    }
}

/// Replaces these secrets in a text by their names.
pub(super) fn text_without(secrets: &[Arc<Secret>], text: String) -> String {
    replaced_in(text, &references(secrets))
}

/// Replaces these secrets in JSON by their names.
///
/// # Errors
/// The text is no longer JSON.
pub(super) fn value_without(secrets: &[Arc<Secret>], value: Box<RawValue>) -> Result<Box<RawValue>, String> {
    match replaced_in_json(value.get(), &references(secrets)) {
        Some(json) => RawValue::from_string(json).map_err(|error| error.to_string()),
        None => Ok(value),
    }
}

fn references(secrets: &[Arc<Secret>]) -> Vec<&Secret> {
    secrets.iter().map(|secret| &**secret).collect()
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redaction")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use belljar_base::names::ServerName;

    use super::*;
    use crate::{ProcessSpec, ServerSpec, ServerTransport};

    /// The redaction for a server with these references.
    pub(crate) fn of(references: &[(&str, &str)]) -> Redaction {
        let transport = ServerTransport::Process(ProcessSpec {
            env: vec![("FOLDER".to_owned(), "/srv/data".to_owned())],
            ..ProcessSpec::plain("x", &[])
        });
        let name = ServerName::new("a").unwrap();
        let secrets = references.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let spec = ServerSpec { secrets: secrets.collect(), ..ServerSpec::new(name, transport) };
        Redaction::new(Arc::new(Secrets::of(&spec)), None)
    }

    fn result(redaction: &Redaction, json: &str) -> String {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        redaction.result(raw).unwrap().get().to_owned()
    }

    #[test]
    fn results_lose_credentials_and_keep_settings_and_texts_lose_both() {
        let redaction = of(&[("PIN", "hunter22")]);
        let json = r#"{"content":[{"type":"text","text":"/srv/data: hunter22"}],"hunter22":1.0}"#;
        let kept = r#"{"content":[{"type":"text","text":"/srv/data: [PIN]"}],"[PIN]":1.0}"#;
        assert_eq!(result(&redaction, json), kept);
        assert_eq!(redaction.text("/srv/data: hunter22".into()), "[FOLDER]: [PIN]");
        let other = r#"{ "content": ["\/srv\/data"] }"#;
        assert_eq!(result(&redaction, other), other);
    }

    #[test]
    fn what_was_cut_off_leaves_no_part_of_a_secret_and_tells_nothing_of_it() {
        let redaction = of(&[("PIN", "hunter22"), ("WORD", "pässwörd")]);
        let filler = "x".repeat(redaction.bytes_at_cut());
        for part in ["", "hunt", "hunter2", r"hunt\u0065r2", "passer-by", "päss"] {
            let said = format!("{part}{filler}hunter22{filler}{part}");
            let (tail, beginning) = (redaction.tail(said.as_bytes()), redaction.beginning(said.as_bytes()));
            assert!(!tail.starts_with(part) || part.is_empty(), "{tail}");
            // Nothing but the length of what was sent decides how much is left.
            assert_eq!(tail.len(), format!("{part}[PIN]{filler}{part}").len(), "{part}");
            assert_eq!(beginning.len(), tail.len(), "{part}");
        }
        assert_eq!(redaction.tail(&"pässwörd".as_bytes()[2..]), "");
    }
}
