//! Tokens that are bound to a key (DPoP, RFC 9449): the key, a new proof for each request, and the servers' nonces.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use belljar_base::clock;
use parking_lot::Mutex;
use reqwest::Request;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use url::{Position, Url};

use crate::jose::{Algorithm, SigningKey, digest, unique_id};

const PROOF: HeaderName = HeaderName::from_static("dpop");
const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The longest nonce that is used, in bytes.
const NONCE_BYTES_MAX: usize = 1_024;

/// The key of one login.
pub(crate) struct DpopKey {
    key: SigningKey,
    /// The key in its stored form.
    stored: String,
}

impl DpopKey {
    /// The algorithm of the proofs.
    pub(super) const ALGORITHM: Algorithm = Algorithm::Es256;

    pub(super) fn generate() -> Result<Self, &'static str> {
        let pkcs8 = SigningKey::generate()?;
        Ok(Self { key: SigningKey::from_pkcs8(&pkcs8)?, stored: STANDARD.encode(pkcs8) })
    }

    /// Reads a stored key; `None` if the text is not a key.
    pub(super) fn of_stored(stored: &str) -> Option<Self> {
        let key = SigningKey::from_pkcs8(&STANDARD.decode(stored).ok()?).ok()?;
        key.public_jwk()?;
        Some(Self { key, stored: stored.to_owned() })
    }

    pub(super) fn stored(&self) -> &str {
        &self.stored
    }

    /// Adds a new proof to the request. `token` is the token that is sent with it, if any. Returns the nonce in the
    /// proof.
    pub(crate) fn prove(
        &self,
        request: &mut Request,
        nonces: &Nonces,
        token: Option<&str>,
    ) -> Result<Option<String>, &'static str> {
        let address = &request.url()[..Position::AfterPath];
        let mut claims = json!({"jti": unique_id()?, "htm": request.method().as_str(), "htu": address, "iat": clock::unix_seconds()});
        if let Some(token) = token {
            claims["ath"] = json!(digest(token));
        }
        let nonce = nonces.of(request.url());
        if let Some(nonce) = &nonce {
            claims["nonce"] = json!(nonce);
        }
        let header = json!({"typ": "dpop+jwt", "jwk": self.key.public_jwk()});
        let proof = self.key.sign(Self::ALGORITHM, header, &claims)?;
        let mut proof = HeaderValue::from_str(&proof).map_err(|_| "its proof is no header")?;
        proof.set_sensitive(true);
        request.headers_mut().insert(PROOF, proof);
        Ok(nonce)
    }
}

/// The last nonce of each server of one login, by its origin. A login has two or three servers.
#[derive(Default)]
pub(crate) struct Nonces(Mutex<BTreeMap<String, String>>);

impl Nonces {
    /// Stores the nonce of a server's response.
    pub(crate) fn note(&self, url: &Url, headers: &HeaderMap) {
        let nonce = headers.get(NONCE).and_then(|nonce| nonce.to_str().ok());
        if let Some(nonce) = nonce.filter(|nonce| !nonce.is_empty() && nonce.len() <= NONCE_BYTES_MAX) {
            let mut known = self.0.lock();
            known.insert(origin(url), nonce.to_owned());
        }
    }

    /// The nonce for the next proof at this address.
    pub(crate) fn of(&self, url: &Url) -> Option<String> {
        self.0.lock().get(&origin(url)).cloned()
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::Value;

    fn part(proof: &HeaderValue, index: usize) -> Value {
        let part = proof.to_str().unwrap().split('.').nth(index).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn each_proof_is_new_and_names_the_request_without_its_query() {
        let (key, nonces) = (DpopKey::generate().unwrap(), Nonces::default());
        let key = DpopKey::of_stored(key.stored()).unwrap();
        let url: Url = "https://a.test:8443/mcp?key=hunter2".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(NONCE, HeaderValue::from_static("n1"));
        nonces.note(&url, &headers);
        let proofs = [Some("t"), None].map(|token| {
            let mut request = Request::new(reqwest::Method::POST, url.clone());
            assert_eq!(key.prove(&mut request, &nonces, token).unwrap().as_deref(), Some("n1"));
            request.headers()[PROOF].clone()
        });
        let [with, without] = &proofs.each_ref().map(|proof| part(proof, 1));
        assert_eq!((&with["htm"], &with["htu"]), (&json!("POST"), &json!("https://a.test:8443/mcp")));
        assert_eq!((&with["ath"], &without["ath"]), (&json!(digest("t")), &Value::Null));
        assert_eq!(with["nonce"], "n1");
        assert_ne!(with["jti"], without["jti"]);
        let header = part(&proofs[0], 0);
        assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
        assert_eq!(header["jwk"]["d"], Value::Null);
    }

    #[test]
    fn a_nonce_is_sent_to_the_origin_that_gave_it_only() {
        let nonces = Nonces::default();
        let (one, other): (Url, Url) =
            ("https://a.test/x".parse().unwrap(), "https://b.test/x".parse().unwrap());
        let mut headers = HeaderMap::new();
        headers.insert(NONCE, HeaderValue::from_static("n1"));
        nonces.note(&one, &headers);
        headers.insert(NONCE, HeaderValue::from_str(&"n".repeat(NONCE_BYTES_MAX + 1)).unwrap());
        nonces.note(&other, &headers);
        assert_eq!((nonces.of(&one).as_deref(), nonces.of(&other)), (Some("n1"), None));
    }
}
