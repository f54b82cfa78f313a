//! The check of an access token: a JSON Web Token (RFC 7519) that the issuer has signed for belljar (RFC 9068).
//!
//! It fetches no key, and it does not know what a token allows.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belljar_upstream::jose::Algorithm;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::public_key::PublicKey;

/// The accepted algorithms. All are asymmetric: whoever knows the public key cannot sign.
const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa];
/// The largest token, in bytes.
const BYTES_MAX: usize = 16 << 10;
/// The tolerated difference between the clocks of belljar and the issuer, in seconds.
const LEEWAY_S: f64 = 30.0;

/// The reason why an access token does not let anybody in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// It has not the form of a signed token, or lacks the time of its end.
    #[error("the token is neither a belljar token nor an access token of the OAuth issuer")]
    Malformed,
    /// Its algorithm is not accepted, or does not fit the key.
    #[error("the token is signed with an algorithm that is not accepted or does not fit the key")]
    Algorithm,
    /// The issuer publishes no such key.
    #[error("the token is signed with a key that the OAuth issuer does not publish")]
    UnknownKey,
    /// The key has not made the signature.
    #[error("the signature of the token is wrong")]
    Signature,
    /// It is a token for something else, for example an ID token.
    #[error("the token is not an access token")]
    Kind,
    /// It is bound to a key, and belljar checks no proofs of keys.
    #[error("the token is bound to a key of its client, and belljar takes bearer tokens only")]
    Bound,
    /// Another issuer is named.
    #[error("the token names another issuer")]
    Issuer,
    /// It is for another resource.
    #[error("the token is for another audience")]
    Audience,
    /// It names nobody.
    #[error("the token names no subject")]
    Subject,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not begun.
    #[error("the token is not valid yet")]
    Early,
    /// A scope is missing. The subject is known.
    #[error("the token does not have the scope {scope}")]
    Scope {
        /// The missing scope.
        scope: String,
        /// The subject of the token.
        subject: String,
    },
    /// The keys of the issuer are not known and cannot be fetched.
    #[error("the keys of the OAuth issuer cannot be fetched now; try again later")]
    Unreachable,
}

/// What a token must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'e> {
    /// The issuer, in exactly this spelling.
    pub(super) issuer: &'e str,
    /// One of the token's audiences.
    pub(super) audience: &'e str,
    /// The scopes, all of which it must have.
    pub(super) scopes: &'e [String],
}

/// A token whose signature has not been checked.
#[derive(Debug)]
pub(super) struct Unverified<'t> {
    /// The header and the claims, as they are signed.
    signed: &'t str,
    claims: &'t str,
    signature: Vec<u8>,
    /// The name of the key that is said to have signed it.
    pub(super) key_id: Option<String>,
    /// One of the accepted algorithms.
    pub(super) algorithm: Algorithm,
}

/// What a valid token says.
#[derive(Debug, PartialEq)]
pub(super) struct Verified {
    /// The person or program for whom it was issued.
    pub(super) subject: String,
    /// The seconds until its end, of which some are leeway.
    pub(super) lasts_s: f64,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    typ: Option<String>,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// A claim of another type makes the token malformed, so none is taken to be absent.
#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<Texts>,
    exp: f64,
    nbf: Option<f64>,
    scope: Option<Texts>,
    /// The name that some issuers have for `scope`.
    scp: Option<Texts>,
    /// ID tokens have these two.
    nonce: Option<IgnoredAny>,
    at_hash: Option<IgnoredAny>,
    cnf: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl<'t> Unverified<'t> {
    /// Reads the header.
    ///
    /// # Errors
    /// The token cannot be valid, whatever its key is.
    pub(super) fn read(text: &'t str) -> Result<Self, Refusal> {
        let (signed, signature) = text.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Refusal::Malformed)?;
        if text.len() > BYTES_MAX || claims.contains('.') {
            return Err(Refusal::Malformed);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refusal::Malformed)?;
        let header: Header = decoded(header)?;
        let algorithm = ALGORITHMS.into_iter().find(|one| one.name() == header.alg);
        let algorithm = algorithm.ok_or(Refusal::Algorithm)?;
        if header.crit.is_some() {
            return Err(Refusal::Malformed);
        }
        let kind = header.typ.map(|kind| kind.to_ascii_lowercase());
        let kind = kind.as_deref().map(|kind| kind.strip_prefix("application/").unwrap_or(kind));
        if !matches!(kind, None | Some("at+jwt" | "jwt")) {
            return Err(Refusal::Kind);
        }
        Ok(Self { signed, claims, signature, key_id: header.kid, algorithm })
    }

    /// Checks the signature, and what the token says at this time, in seconds since 1970.
    ///
    /// # Errors
    /// The first reason why it is not valid.
    pub(super) fn verified(
        &self,
        key: &PublicKey,
        expected: Expected<'_>,
        now_s: f64,
    ) -> Result<Verified, Refusal> {
        if !key.fits(self.algorithm) {
            return Err(Refusal::Algorithm);
        }
        if !key.has_signed(self.algorithm, self.signed, &self.signature) {
            return Err(Refusal::Signature);
        }
        decoded::<Claims>(self.claims)?.checked(expected, now_s)
    }
}

impl Claims {
    fn checked(self, expected: Expected<'_>, now_s: f64) -> Result<Verified, Refusal> {
        let lasts_s = self.exp + LEEWAY_S - now_s;
        let is_for_us = self.aud.is_some_and(|all| all.iter().any(|one| one == expected.audience));
        if self.iss.as_deref() != Some(expected.issuer) {
            return Err(Refusal::Issuer);
        }
        if !is_for_us {
            return Err(Refusal::Audience);
        }
        if lasts_s <= 0.0 {
            return Err(Refusal::Expired);
        }
        if self.nbf.is_some_and(|begin| begin > now_s + LEEWAY_S) {
            return Err(Refusal::Early);
        }
        if self.nonce.is_some() || self.at_hash.is_some() {
            return Err(Refusal::Kind);
        }
        if self.cnf.is_some() {
            return Err(Refusal::Bound);
        }
        let subject = self.sub.filter(|subject| !subject.is_empty()).ok_or(Refusal::Subject)?;
        let all = [self.scope, self.scp];
        let has = |scope: &str| {
            let given = all.iter().flatten().flat_map(Texts::iter);
            given.flat_map(|text| text.split(' ')).any(|one| one == scope)
        };
        match expected.scopes.iter().find(|scope| !has(scope)) {
            Some(scope) => Err(Refusal::Scope { scope: scope.clone(), subject }),
            None => Ok(Verified { subject, lasts_s }),
        }
    }
}

impl Texts {
    fn iter(&self) -> impl Iterator<Item = &str> {
        let all = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(all) => all,
        };
        all.iter().map(String::as_str)
    }
}

impl Refusal {
    /// The word in the log.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Malformed => "unknown_token",
            Self::Algorithm => "refused_algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "wrong_signature",
            Self::Kind => "no_access_token",
            Self::Bound => "bound_token",
            Self::Issuer => "wrong_issuer",
            Self::Audience => "wrong_audience",
            Self::Subject => "no_subject",
            Self::Expired => "expired_token",
            Self::Early => "early_token",
            Self::Scope { .. } => "missing_scope",
            Self::Unreachable => "unreachable_issuer",
        }
    }
}

/// A part of a token, which is JSON in base64url (RFC 7515).
fn decoded<T: DeserializeOwned>(part: &str) -> Result<T, Refusal> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| Refusal::Malformed)
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RsaPublicKeyComponents};
    use serde_json::{Value, json};

    use super::*;

    const NOW: f64 = 1_000_000.0;

    struct Signer(EcdsaKeyPair);

    impl Signer {
        fn new() -> Self {
            let (of, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
            let document = EcdsaKeyPair::generate_pkcs8(of, &random).unwrap();
            Self(EcdsaKeyPair::from_pkcs8(of, document.as_ref(), &random).unwrap())
        }

        fn key(&self) -> PublicKey {
            PublicKey::Point(Algorithm::Es256, self.0.public_key().as_ref().to_vec())
        }

        fn token(&self, header: &Value, claims: &str) -> String {
            let parts = [header.to_string(), claims.to_owned()].map(|part| URL_SAFE_NO_PAD.encode(part));
            let text = parts.join(".");
            let signature = self.0.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
            format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
        }
    }

    fn claims(changes: Value) -> String {
        let mut claims = json!({"iss": "https://i.test", "sub": "ada", "aud": "a", "exp": NOW as u64 + 60});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        claims.to_string()
    }

    fn verdict(signer: &Signer, header: &Value, claims: &str, scopes: &[&str]) -> Result<Verified, Refusal> {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let expected = Expected { issuer: "https://i.test", audience: "a", scopes: &scopes };
        Unverified::read(&signer.token(header, claims))?.verified(&signer.key(), expected, NOW)
    }

    #[test]
    fn clocks_may_differ_by_the_leeway_and_no_more() {
        let signer = Signer::new();
        let lasts = |changes: Value| {
            let verified = verdict(&signer, &json!({"alg": "ES256"}), &claims(changes), &[]);
            verified.map(|verified| verified.lasts_s)
        };
        assert_eq!(lasts(json!({})), Ok(90.0));
        for (exp, expected) in [
            (json!(NOW - 29.5), Ok(0.5)),
            (json!(NOW - 30.0), Err(Refusal::Expired)),
            (json!(0), Err(Refusal::Expired)),
            (json!(-1), Err(Refusal::Expired)),
        ] {
            assert_eq!(lasts(json!({"exp": exp})), expected, "{exp}");
        }
        assert_eq!(lasts(json!({"nbf": NOW + 30.0})), Ok(90.0));
        assert_eq!(lasts(json!({"nbf": NOW + 30.5})), Err(Refusal::Early));
        let odd =
            [r#""exp": 1e400"#, r#""exp": null"#, r#""exp": "1000060""#, r#""exp": 1000060, "exp": 2e9"#];
        for exp in odd {
            let claims = format!(r#"{{"iss": "https://i.test", "sub": "ada", "aud": "a", {exp}}}"#);
            let refused = verdict(&signer, &json!({"alg": "ES256"}), &claims, &[]);
            assert_eq!(refused, Err(Refusal::Malformed), "{exp}");
        }
    }

    #[test]
    fn audiences_and_scopes_are_read_as_issuers_write_them() {
        let signer = Signer::new();
        let check =
            |changes: Value| verdict(&signer, &json!({"alg": "ES256"}), &claims(changes), &["x", "y"]);
        for scopes in [
            json!({"scope": "y x"}),
            json!({"scope": ["x", "y"]}),
            json!({"scp": "x y z"}),
            json!({"scp": ["y", "x"]}),
            json!({"scope": "x", "scp": ["y"]}),
            json!({"scope": "x y", "aud": ["b", "a"]}),
        ] {
            assert!(check(scopes.clone()).is_ok(), "{scopes}");
        }
        for scopes in [json!({}), json!({"scope": "x"}), json!({"scope": "x,y"}), json!({"scp": ["X", "y"]})]
        {
            assert!(matches!(check(scopes.clone()), Err(Refusal::Scope { .. })), "{scopes}");
        }
        let missing = Refusal::Scope { scope: "y".into(), subject: "ada".into() };
        assert_eq!(check(json!({"scope": "x"})), Err(missing));
        for aud in [json!([]), json!(["A"]), json!("a b"), Value::Null] {
            assert_eq!(check(json!({"aud": aud})), Err(Refusal::Audience), "{aud}");
        }
        assert_eq!(check(json!({"aud": {"a": "a"}})), Err(Refusal::Malformed));
        assert_eq!(check(json!({"iss": ["https://i.test"]})), Err(Refusal::Malformed));
    }

    #[test]
    fn only_access_tokens_are_taken() {
        let signer = Signer::new();
        let check = |header: Value| verdict(&signer, &header, &claims(json!({})), &[]).err();
        for typ in [json!("at+jwt"), json!("AT+JWT"), json!("application/at+jwt"), json!("JWT"), Value::Null]
        {
            assert_eq!(check(json!({"alg": "ES256", "typ": typ})), None, "{typ}");
        }
        for typ in ["id+jwt", "dpop+jwt", "secevent+jwt", "application/jose", ""] {
            assert_eq!(check(json!({"alg": "ES256", "typ": typ})), Some(Refusal::Kind), "{typ}");
        }
        for algorithm in ["none", "None", "HS256", "HS512", "RS1", "RS384", "ES512", "es256", ""] {
            assert_eq!(check(json!({"alg": algorithm})), Some(Refusal::Algorithm), "{algorithm}");
        }
        assert_eq!(check(json!({"typ": "JWT"})), Some(Refusal::Malformed));
        assert_eq!(check(json!({"alg": "ES256", "crit": []})), Some(Refusal::Malformed));
        // A key of another kind verifies nothing, and breaks nothing.
        let rsa = PublicKey::Rsa(RsaPublicKeyComponents { n: vec![1, 0, 1], e: vec![1, 0, 1] });
        let token = signer.token(&json!({"alg": "ES256"}), &claims(json!({})));
        let expected = Expected { issuer: "https://i.test", audience: "a", scopes: &[] };
        let refused = Unverified::read(&token).unwrap().verified(&rsa, expected, NOW);
        assert_eq!(refused, Err(Refusal::Algorithm));
    }
}
