//! A public key of the OAuth issuer, read from a JWK (RFC 7517, RFC 7518, RFC 8037), and the check of a signature with it.
//!
//! It knows nothing of tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belljar_upstream::jose::Algorithm;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

/// A key that verifies signatures.
#[derive(Debug, Clone)]
pub(super) enum PublicKey {
    /// An RSA key. The check of a signature refuses keys of less than 2048 bits.
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// The point of another key, and the only algorithm that fits it. The check of a signature refuses points that are not on the curve.
    Point(Algorithm, Vec<u8>),
}

/// A JWK as it is published.
#[derive(Deserialize)]
pub(super) struct Jwk {
    /// The name of the key.
    pub(super) kid: Option<String>,
    /// The only algorithm for which the key is meant.
    pub(super) alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    kty: String,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl PublicKey {
    /// Reads a key; `None`: it is malformed, of an unknown kind, or not for signatures.
    pub(super) fn read(jwk: &Jwk) -> Option<Self> {
        if jwk.purpose.as_ref().is_some_and(|purpose| purpose != "sig")
            || jwk.key_ops.as_ref().is_some_and(|all| !all.iter().any(|one| one == "verify"))
        {
            return None;
        }
        let number = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_ref()?).ok();
        let coordinate = |text, length| number(text).filter(|bytes| bytes.len() == length);
        let uncompressed = |algorithm, length| {
            let point = [vec![4], coordinate(&jwk.x, length)?, coordinate(&jwk.y, length)?].concat();
            Some(Self::Point(algorithm, point))
        };
        match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Some(Self::Rsa(RsaPublicKeyComponents { n: number(&jwk.n)?, e: number(&jwk.e)? })),
            ("EC", Some("P-256")) => uncompressed(Algorithm::Es256, 32),
            ("EC", Some("P-384")) => uncompressed(Algorithm::Es384, 48),
            ("OKP", Some("Ed25519")) => Some(Self::Point(Algorithm::EdDsa, coordinate(&jwk.x, 32)?)),
            _ => None,
        }
    }

    /// Whether signatures of this algorithm can be checked with it.
    pub(super) fn fits(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa(_) => matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256),
            Self::Point(only, _) => *only == algorithm,
        }
    }

    /// Whether the key has made this signature. The algorithm must fit it.
    pub(super) fn has_signed(&self, algorithm: Algorithm, text: &str, signature: &[u8]) -> bool {
        let text = text.as_bytes();
        let verified = match self {
            Self::Rsa(key) if algorithm == Algorithm::Ps256 => {
                key.verify(&RSA_PSS_2048_8192_SHA256, text, signature)
            }
            Self::Rsa(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, text, signature),
            Self::Point(only, point) => {
                let of: &dyn VerificationAlgorithm = match only {
                    Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
                    Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
                    _ => &ED25519,
                };
                UnparsedPublicKey::new(of, point).verify(text, signature)
            }
        };
        verified.is_ok()
    }
}
