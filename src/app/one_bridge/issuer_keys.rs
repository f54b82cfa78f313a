//! The keys of the OAuth issuer: fetched when they are needed, and again after some time, so that a removed key stops to count.
//!
//! It checks no token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_base::text;
use belljar_upstream::jose::Algorithm;
use belljar_upstream::published_keys;
use parking_lot::Mutex;
use serde_json::Value;

use super::access_token::Refusal;
use super::public_key::{Jwk, PublicKey};

/// The longest time for one fetch.
const FETCH: Duration = Duration::from_secs(5);

/// How long keys count.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The time after which keys are fetched again.
    fresh: Duration,
    /// How long keys count while they cannot be fetched.
    lasting: Duration,
    /// The shortest time between two fetches, whatever comes in.
    between: Duration,
}

/// The keys of one issuer.
pub(super) struct IssuerKeys {
    issuer: String,
    bounds: Bounds,
    known: Mutex<Known>,
    /// Held while keys are fetched: requests that come meanwhile share the fetch.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Known {
    keys: Vec<Key>,
    /// When they were fetched.
    fetched: Option<Instant>,
    /// The end of the last attempt, and whether it succeeded.
    tried: Option<(Instant, bool)>,
}

struct Key {
    id: Option<String>,
    /// The only algorithm for which it is meant, if it names one.
    algorithm: Option<String>,
    key: PublicKey,
}

impl Default for Bounds {
    fn default() -> Self {
        let [fresh, lasting, between] = [300, 3_600, 10].map(Duration::from_secs);
        Self { fresh, lasting, between }
    }
}

impl IssuerKeys {
    pub(super) fn new(issuer: String, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { issuer, bounds, known: Mutex::default(), turn: Arc::default() })
    }

    /// The key with this name for this algorithm. A token without a name of its key needs an issuer with a single key for the
    /// algorithm.
    ///
    /// # Errors
    /// There is no such key, or the keys cannot be fetched.
    pub(super) async fn key(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<PublicKey, Refusal> {
        if let Some(found) = self.known.lock().find(self.bounds.fresh, id, algorithm) {
            return found;
        }
        // While another request fetches keys, an issuer that does not answer holds up nobody whose key is known.
        if self.turn.try_lock().is_err()
            && let Some(found) = self.known.lock().find(self.bounds.lasting, id, algorithm)
        {
            return found;
        }
        let is_reached = self.fetch().await;
        let missing = if is_reached { Refusal::UnknownKey } else { Refusal::Unreachable };
        self.known.lock().find(self.bounds.lasting, id, algorithm).unwrap_or(Err(missing))
    }

    /// Fetches the keys, unless that was tried a moment ago. Returns whether the last attempt succeeded.
    async fn fetch(self: &Arc<Self>) -> bool {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if let Some((tried, is_reached)) = self.known.lock().tried
            && tried.elapsed() < self.bounds.between
        {
            return is_reached;
        }
        let own = Arc::clone(self);
        // A task of its own: a client that goes away would otherwise end the fetch, and the next request begin another one.
        let fetching = tokio::spawn(async move {
            let fetched = tokio::time::timeout(FETCH, published_keys(&own.issuer)).await;
            let fetched =
                fetched.unwrap_or_else(|_| Err(format!("it has not answered within {} s", FETCH.as_secs())));
            let (mut known, now) = (own.known.lock(), Instant::now());
            known.tried = Some((now, fetched.is_ok()));
            match fetched {
                Ok(keys) => {
                    known.keys = keys.into_iter().filter_map(Key::read).collect();
                    known.fetched = Some(now);
                }
                Err(error) => {
                    let (issuer, error) = (text::inert_line(&own.issuer), text::inert_line(&error));
                    tracing::warn!(%issuer, %error, "the keys of the OAuth issuer cannot be fetched");
                }
            }
            drop((known, turn));
            own.known.lock().tried.is_some_and(|(_, is_reached)| is_reached)
        });
        fetching.await.unwrap_or(false)
    }
}

impl Known {
    /// The key, if the keys are not older than this; `None`: it is not among them.
    fn find(
        &self,
        age_max: Duration,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Option<Result<PublicKey, Refusal>> {
        self.fetched.filter(|fetched| fetched.elapsed() < age_max)?;
        let mut named = self.keys.iter().filter(|key| id.is_none() || key.id.as_deref() == id).peekable();
        named.peek()?;
        let mut fitting = named.filter(|key| key.is_for(algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Some(Ok(key.key.clone())),
            (Some(_), Some(_)) => None,
            (None, _) => Some(Err(Refusal::Algorithm)),
        }
    }
}

impl Key {
    /// Reads one key; `None`: it is malformed, or verifies no signatures.
    fn read(jwk: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(jwk).ok()?;
        Some(Self { key: PublicKey::read(&jwk)?, id: jwk.kid, algorithm: jwk.alg })
    }

    /// Whether it verifies signatures of this algorithm.
    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.algorithm.as_ref().is_none_or(|named| named == algorithm.name()) && self.key.fits(algorithm)
    }
}

#[cfg(test)]
#[path = "issuer_keys_tests.rs"]
mod tests;
