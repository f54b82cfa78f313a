//! The token for one server, as the bridge uses it: it is read when its file has changed, and renewed before it ends or
//! when the server refuses it. Only one bridge process renews a login at a time.
//!
//! This module sends the token nowhere but to the authorization server that gave it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::secret::{Secret, replaced_in};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::challenge::{Challenge, Scheme};
use super::dpop::{DpopKey, Nonces};
use super::grant::{RenewalError, renewed};
use super::http_policy::HttpPolicy;
use super::service::Service;
use crate::LoginSpec;
use crate::login_file::{Login, LoginFile, LoginFileError, LoginFingerprint};
use crate::service_login::LoginSettings;

/// The largest number of secrets of logins that are redacted. Earlier ones are forgotten.
const SECRETS_MAX: usize = 24;
/// The pause after a failed attempt to get a token.
const PAUSE: Duration = Duration::from_secs(5);

/// The login at one server, if there is one. It holds secrets, so it has no `Debug`.
pub(crate) struct TokenCache {
    file: LoginFile,
    asking: HttpPolicy,
    nonces: Nonces,
    cached: Mutex<CachedLogin>,
    /// Held while the token is being renewed.
    turn: tokio::sync::Mutex<()>,
    renewals: Mutex<JoinSet<()>>,
}

/// The login as it was read last, with the secrets of it and of earlier logins.
struct CachedLogin {
    settings: Arc<LoginSettings>,
    fingerprint: Option<LoginFingerprint>,
    login: Result<Current, MissingToken>,
    /// The secrets of the entry.
    configured: Vec<Arc<Secret>>,
    /// The secrets of this login and of earlier ones, the latest first.
    secrets: VecDeque<Arc<Secret>>,
    /// The fingerprint that was reported last as a change.
    reported: Option<LoginFingerprint>,
    /// The error of the last attempt to get a token, and the time until which there is no further attempt.
    failed: Option<(String, Instant)>,
}

#[derive(Clone)]
struct Current {
    login: Login,
    /// The key that the token is bound to.
    key: Option<Arc<DpopKey>>,
}

/// The token that is sent with a request. It holds a secret, so it has no `Debug`.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) key: Option<Arc<DpopKey>>,
}

/// The reason for which there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MissingToken {
    /// Nobody has logged in.
    #[error("there is none")]
    Login,
    /// The login under this name is for another address.
    #[error("the one that there is was made for another address")]
    OfAnotherAddress,
    /// The file of the login cannot be used.
    #[error("the one that there is cannot be read")]
    Unreadable,
}

impl Token {
    pub(crate) fn scheme(&self) -> Scheme {
        if self.key.is_some() { Scheme::Dpop } else { Scheme::Bearer }
    }
}

impl TokenCache {
    pub(crate) fn new(LoginSpec { file, settings }: LoginSpec) -> Arc<Self> {
        let cached = CachedLogin {
            settings: Arc::default(),
            fingerprint: None,
            login: Err(MissingToken::Login),
            configured: Vec::new(),
            secrets: VecDeque::new(),
            reported: file.fingerprint(),
            failed: None,
        };
        let access = Self {
            asking: HttpPolicy::of(file.url()),
            nonces: Nonces::default(),
            file,
            cached: Mutex::new(cached),
            turn: tokio::sync::Mutex::default(),
            renewals: Mutex::default(),
        };
        // The secrets are known before the first text has to be redacted.
        access.set(settings);
        Arc::new(access)
    }

    /// Replaces the settings of the entry: commands may have printed other credentials.
    pub(crate) fn set(&self, settings: LoginSettings) {
        let mut cached = self.cached.lock();
        let secrets = settings.service.iter().flat_map(|service| service.secrets());
        let secrets = secrets.filter_map(|(name, value)| Secret::new(name.to_owned(), value).map(Arc::new));
        cached.configured = secrets.collect();
        cached.settings = Arc::new(settings);
        (cached.fingerprint, cached.login, cached.failed) = (None, Err(MissingToken::Login), None);
        drop(cached);
        drop(self.looked());
    }

    /// Whether the bridge logs in without a user.
    pub(crate) fn is_service(&self) -> bool {
        self.cached.lock().settings.service.is_some()
    }

    /// Whether a login without a user has failed since the settings were set.
    pub(crate) fn has_failed(&self) -> bool {
        let cached = self.cached.lock();
        cached.settings.service.is_some() && cached.failed.is_some()
    }

    /// The nonces that the servers of the login want in proofs.
    pub(crate) fn nonces(&self) -> &Nonces {
        &self.nonces
    }

    /// The token to send now. It is renewed first if its end is near.
    pub(crate) async fn token(self: &Arc<Self>) -> Option<Token> {
        let (token, is_due) = match &self.looked().login {
            Ok(current) => (current.token(), current.login.is_due()),
            Err(_) => return None,
        };
        if !is_due {
            return Some(token);
        }
        // A token that could not be renewed is used until the server refuses it.
        self.renewed(Some(token.text.clone()), None).await.or(Some(token))
    }

    /// A newer token than the one that the server has refused, or the first one if no token was sent.
    pub(crate) async fn after_refusal(
        self: &Arc<Self>,
        refused: Option<&str>,
        challenge: Option<Challenge>,
    ) -> Option<Token> {
        if refused.is_none() && !self.is_service() {
            return None;
        }
        self.renewed(refused.map(str::to_owned), challenge).await
    }

    /// The reason why there is no token.
    pub(crate) fn missing(&self) -> MissingToken {
        self.looked().login.as_ref().err().copied().unwrap_or(MissingToken::Login)
    }

    /// The reason why there is no newer token than the refused one.
    pub(crate) fn not_renewed(&self) -> String {
        match &self.looked().failed {
            Some((reason, _)) => format!("the one that there is could not be renewed, since {reason}"),
            None => "it does not take the one that there is".into(),
        }
    }

    /// The reason why a login without a user has not helped.
    pub(crate) fn not_served(&self) -> String {
        match &self.looked().failed {
            Some((reason, _)) => reason.clone(),
            None => "it does not take the token that its authorization server has given".into(),
        }
    }

    /// The fingerprint of the present login.
    pub(crate) fn fingerprint(&self) -> Option<LoginFingerprint> {
        self.file.fingerprint()
    }

    /// Whether the login has changed since the last call.
    pub(crate) fn has_changed(&self) -> bool {
        let now = self.file.fingerprint();
        std::mem::replace(&mut self.cached.lock().reported, now) != now
    }

    /// The tokens of this login and of earlier ones, and the credentials of the entry.
    pub(crate) fn secrets(&self) -> Vec<Arc<Secret>> {
        let cached = self.looked();
        cached.configured.iter().chain(&cached.secrets).cloned().collect()
    }

    /// Waits for renewals in progress: an interrupted one may lose the login.
    pub(crate) async fn settle(&self) {
        let mut renewals = std::mem::take(&mut *self.renewals.lock());
        while let Some(ended) = renewals.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "the renewal of a login broke");
            }
        }
    }

    /// Renews the token in a task of its own: the caller may be cancelled, and the next refresh token must not be lost.
    async fn renewed(self: &Arc<Self>, used: Option<String>, challenge: Option<Challenge>) -> Option<Token> {
        let (tell, reported) = oneshot::channel();
        let access = Arc::clone(self);
        {
            let mut renewals = self.renewals.lock();
            while renewals.try_join_next().is_some() {}
            renewals.spawn(async move {
                let next = access.renewed_in_turn(used.as_deref(), challenge.as_ref()).await;
                if tell.send(next).is_err() {
                    tracing::trace!("nobody waits for the renewed login any more");
                }
            });
        }
        reported.await.ok().flatten()
    }

    /// A token other than the used one, from this bridge or from another one that was faster.
    async fn renewed_in_turn(&self, used: Option<&str>, challenge: Option<&Challenge>) -> Option<Token> {
        let _turn = self.turn.lock().await;
        let lock = self.file.lock().await;
        let _lock = match lock {
            Ok(lock) => lock,
            Err(error) => {
                tracing::warn!(%error, "the login of a server cannot be renewed: its file cannot be locked");
                return None;
            }
        };
        let (current, pause, settings) = {
            let cached = self.looked();
            let pause = cached.failed.as_ref().map(|(_, until)| *until);
            (cached.login.clone().ok(), pause, Arc::clone(&cached.settings))
        };
        if let Some(current) = &current
            && used != Some(current.login.access_token.as_str())
        {
            return Some(current.token());
        }
        if pause.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let next = match (&settings.service, &current) {
            (Some(login), before) => {
                let service = Service {
                    asking: &self.asking,
                    server: self.file.url(),
                    login,
                    requires_dpop: settings.requires_dpop,
                    nonces: &self.nonces,
                };
                let mut secrets = Vec::new();
                let before = before.as_ref().map(|before| &before.login);
                let obtained = service.obtained(challenge, before, &mut secrets).await;
                let mut cached = self.cached.lock();
                secrets.iter().for_each(|secret| cached.hide(secret));
                obtained.map_err(RenewalError::Failed)
            }
            (None, Some(Current { login, key })) if login.refresh_token.is_some() => {
                renewed(&self.asking, login, (key.as_deref(), &self.nonces)).await
            }
            (None, _) => return None,
        };
        let next = match (next, current) {
            (Ok(next), _) => next,
            // Without a refresh token, the renewal is not tried again.
            (Err(RenewalError::Ended), Some(current)) => Login { refresh_token: None, ..current.login },
            (Err(RenewalError::Ended), None) => return None,
            (Err(RenewalError::Failed(reason)), _) => {
                let secrets = self.secrets();
                let secrets: Vec<&Secret> = secrets.iter().map(|secret| &**secret).collect();
                let reason = replaced_in(reason, &secrets);
                tracing::warn!(%reason, "a server's token could not be had");
                self.cached.lock().failed = Some((reason, Instant::now() + PAUSE));
                return None;
            }
        };
        let written = self.file.write(&next);
        let mut cached = self.looked();
        if let Err(error) = written {
            tracing::warn!(%error, "the renewed login of a server could not be kept");
            cached.take_in(Ok(next));
        }
        let token = cached.login.as_ref().ok()?.token();
        (Some(token.text.as_str()) != used).then_some(token)
    }

    /// The cached login, after it was read again if the file has changed.
    fn looked(&self) -> MutexGuard<'_, CachedLogin> {
        let mut cached = self.cached.lock();
        let fingerprint = self.file.fingerprint();
        if fingerprint == cached.fingerprint {
            return cached;
        }
        cached.fingerprint = fingerprint;
        cached.failed = None;
        let login = match self.file.read() {
            Ok(Some(login)) if login.is_of(&cached.settings) => Ok(login),
            Ok(_) => Err(MissingToken::Login),
            Err(LoginFileError::OfAnotherAddress) => Err(MissingToken::OfAnotherAddress),
            Err(LoginFileError::Unreadable(error)) => {
                tracing::warn!(%error, "the login of a server cannot be read");
                Err(MissingToken::Unreadable)
            }
        };
        cached.take_in(login);
        cached
    }
}

impl Current {
    fn token(&self) -> Token {
        Token { text: self.login.access_token.clone(), key: self.key.clone() }
    }
}

impl CachedLogin {
    fn take_in(&mut self, login: Result<Login, MissingToken>) {
        for token in login.iter().flat_map(Login::secrets) {
            self.hide(token);
        }
        self.login = login.and_then(|login| match &login.dpop_key {
            None => Ok(Current { login, key: None }),
            Some(stored) => match DpopKey::of_stored(stored) {
                Some(key) => Ok(Current { login, key: Some(Arc::new(key)) }),
                None => Err(MissingToken::Unreadable),
            },
        });
    }

    /// Adds a secret to redact. One that is in use stays the newest, however many tokens a server asks for.
    fn hide(&mut self, value: &str) {
        if let Some(secret) = Secret::new("login".to_owned(), value) {
            self.secrets.retain(|known| !known.is_value(value));
            self.secrets.push_front(Arc::new(secret));
            self.secrets.truncate(SECRETS_MAX);
        }
    }
}
