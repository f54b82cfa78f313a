//! The token of one server as the bridge uses it: read when its file has changed, renewed before it ends or when the
//! server refuses it, by one of all bridges at a time.
//!
//! It sends the token nowhere but to the authorization server that gave it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::asking::Asking;
use super::grant::{NotRenewed, renewed};
use super::login_file::{Login, LoginFile, Stamp, Unusable};
use crate::secret::{Secret, replaced_in};

/// Secrets that are kept out of texts: of this many logins, the last ones.
const SECRETS_MAX: usize = 24;
/// How long nobody tries again after a token could not be renewed.
const PAUSE: Duration = Duration::from_secs(5);

/// The login at one server, if there is one. Holds secrets, so it has no `Debug`.
pub(in crate::upstream) struct Access {
    file: LoginFile,
    asking: Asking,
    seen: Mutex<Seen>,
    /// Held while the token is being renewed.
    turn: tokio::sync::Mutex<()>,
    renewals: Mutex<JoinSet<()>>,
}

struct Seen {
    stamp: Option<Stamp>,
    login: Result<Login, Missing>,
    secrets: VecDeque<Arc<Secret>>,
    /// The stamp that was told of as a change.
    told: Option<Stamp>,
    /// Why the last renewal failed, and until when none is tried.
    failed: Option<(String, Instant)>,
}

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream) enum Missing {
    /// Nobody has logged in.
    Login,
    /// Somebody has, to another address under this name.
    OfAnotherAddress,
    /// The file cannot be used.
    Unreadable,
}

impl Access {
    pub(in crate::upstream) fn new(file: LoginFile) -> Arc<Self> {
        let seen = Seen {
            stamp: None,
            login: Err(Missing::Login),
            secrets: VecDeque::new(),
            told: file.stamp(),
            failed: None,
        };
        let access = Self {
            asking: Asking::of(file.url()),
            file,
            seen: Mutex::new(seen),
            turn: tokio::sync::Mutex::default(),
            renewals: Mutex::default(),
        };
        // What must not stand in texts is known from the first of them on.
        drop(access.looked());
        Arc::new(access)
    }

    /// The token to send now; it is renewed first where its end is near.
    pub(in crate::upstream) async fn token(self: &Arc<Self>) -> Option<String> {
        let (token, is_due) = match &self.looked().login {
            Ok(login) => (login.access_token.clone(), login.is_due()),
            Err(_) => return None,
        };
        if !is_due {
            return Some(token);
        }
        // One that could not be renewed is good until the server says otherwise.
        self.renewed(token.clone()).await.or(Some(token))
    }

    /// A newer token than the one that the server has refused.
    pub(in crate::upstream) async fn after_refusal(self: &Arc<Self>, refused: &str) -> Option<String> {
        self.renewed(refused.to_owned()).await
    }

    /// Why there is no token.
    pub(in crate::upstream) fn missing(&self) -> Missing {
        self.looked().login.as_ref().err().copied().unwrap_or(Missing::Login)
    }

    /// Why the server was not sent a newer token than the one that it has refused.
    pub(in crate::upstream) fn not_renewed(&self) -> String {
        match &self.looked().failed {
            Some((reason, _)) => format!("the one that there is could not be renewed, since {reason}"),
            None => "it does not take the one that there is".into(),
        }
    }

    /// What tells the login that there is now from earlier ones.
    pub(in crate::upstream) fn stamp(&self) -> Option<Stamp> {
        self.file.stamp()
    }

    /// Whether the login has changed since this was asked last.
    pub(in crate::upstream) fn has_changed(&self) -> bool {
        let now = self.file.stamp();
        std::mem::replace(&mut self.seen().told, now) != now
    }

    /// The tokens of this login and of earlier ones.
    pub(in crate::upstream) fn secrets(&self) -> Vec<Arc<Secret>> {
        self.looked().secrets.iter().cloned().collect()
    }

    /// Waits for renewals under way: one that is cut off may lose the login.
    pub(in crate::upstream) async fn settle(&self) {
        let mut renewals = std::mem::take(&mut *self.renewals());
        while let Some(ended) = renewals.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "the renewal of a login broke");
            }
        }
    }

    /// In a task of its own: whoever waits for it may be cancelled, and the next refresh token must not be lost.
    async fn renewed(self: &Arc<Self>, used: String) -> Option<String> {
        let (tell, told) = oneshot::channel();
        let access = Arc::clone(self);
        {
            let mut renewals = self.renewals();
            while renewals.try_join_next().is_some() {}
            renewals.spawn(async move {
                if tell.send(access.renewed_in_turn(&used).await).is_err() {
                    tracing::trace!("nobody waits for the renewed login any more");
                }
            });
        }
        told.await.ok().flatten()
    }

    /// A token other than the one that was used, made by this bridge or meanwhile by another one.
    async fn renewed_in_turn(&self, used: &str) -> Option<String> {
        let _turn = self.turn.lock().await;
        let lock = self.file.lock().await;
        let _lock = match lock {
            Ok(lock) => lock,
            Err(error) => {
                tracing::warn!(%error, "the login of a server cannot be renewed: its file cannot be locked");
                return None;
            }
        };
        let (login, pause) = {
            let seen = self.looked();
            (seen.login.as_ref().ok()?.clone(), seen.failed.as_ref().map(|(_, until)| *until))
        };
        if login.access_token != used {
            return Some(login.access_token);
        }
        if login.refresh_token.is_none() || pause.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let next = match renewed(&self.asking, &login).await {
            Ok(next) => next,
            Err(NotRenewed::Failed(reason)) => {
                let secrets = self.secrets();
                let secrets: Vec<&Secret> = secrets.iter().map(|secret| &**secret).collect();
                let reason = replaced_in(reason, &secrets);
                tracing::warn!(%reason, "the login of a server could not be renewed");
                self.seen().failed = Some((reason, Instant::now() + PAUSE));
                return None;
            }
            // It is not asked for again.
            Err(NotRenewed::Ended) => Login { refresh_token: None, ..login.clone() },
        };
        let written = self.file.write(&next);
        let mut seen = self.looked();
        if let Err(error) = written {
            tracing::warn!(%error, "the renewed login of a server could not be kept");
            seen.take_in(Ok(next.clone()));
        }
        (next.access_token != used).then_some(next.access_token)
    }

    /// What is in the file now.
    fn looked(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen();
        let stamp = self.file.stamp();
        if stamp == seen.stamp {
            return seen;
        }
        seen.stamp = stamp;
        seen.failed = None;
        let login = match self.file.read() {
            Ok(Some(login)) => Ok(login),
            Ok(None) => Err(Missing::Login),
            Err(Unusable::OfAnotherAddress) => Err(Missing::OfAnotherAddress),
            Err(Unusable::Unreadable(error)) => {
                tracing::warn!(%error, "the login of a server cannot be read");
                Err(Missing::Unreadable)
            }
        };
        seen.take_in(login);
        seen
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renewals(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn take_in(&mut self, login: Result<Login, Missing>) {
        for token in login.iter().flat_map(Login::secrets) {
            if !self.secrets.iter().any(|known| known.is_value(token))
                && let Some(secret) = Secret::new("login".to_owned(), token)
            {
                self.secrets.push_front(Arc::new(secret));
            }
        }
        self.secrets.truncate(SECRETS_MAX);
        self.login = login;
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Login => "there is none",
            Self::OfAnotherAddress => "the one that there is was made for another address",
            Self::Unreadable => "the one that there is cannot be read",
        })
    }
}
