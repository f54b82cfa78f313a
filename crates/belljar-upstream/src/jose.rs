//! Keys and signed JSON Web Tokens, as OAuth clients make them (RFC 7515, RFC 7517, RFC 7518).
//!
//! It signs only. Nothing here has `Debug`, and no error repeats a part of a key.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

/// Random bytes of a token's identifier.
const ID_BYTES: usize = 16;

/// A private key that signs tokens.
pub struct SigningKey(Kind);

enum Kind {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// A signature algorithm, by its name in RFC 7518.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA with the curve P-256 and SHA-256.
    Es256,
    /// ECDSA with the curve P-384 and SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
    /// RSA with SHA-256 as PKCS #1 v1.5 has it.
    Rs256,
    /// RSA-PSS with SHA-256.
    Ps256,
}

impl Algorithm {
    /// As it is written in headers and metadata.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
        }
    }
}

impl SigningKey {
    /// Reads an unencrypted private key in PEM, with real line ends or with `\n` for them, as variables often have it.
    ///
    /// # Errors
    /// What is wrong with it, to be said behind the key's name.
    pub fn from_pem(text: &str) -> Result<Self, &'static str> {
        let text = text.replace("\\n", "\n");
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
        match key.map_err(|_| "is no unencrypted private key in PEM")? {
            PrivateKeyDer::Pkcs8(der) => Self::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der())
                .map(|pair| Self(Kind::Rsa(pair)))
                .map_err(|_| "is no RSA key of 2048 to 4096 bits"),
            _ => Err(
                "is in the older form of EC keys; `openssl pkcs8 -topk8 -nocrypt` writes the one that is read",
            ),
        }
    }

    /// Reads a key in the form of [`generate`](Self::generate).
    ///
    /// # Errors
    /// It is of a kind that is not used here.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, &'static str> {
        let random = SystemRandom::new();
        let elliptic = |of: &'static EcdsaSigningAlgorithm| EcdsaKeyPair::from_pkcs8(of, der, &random).ok();
        let kind = elliptic(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map(Kind::P256)
            .or_else(|| elliptic(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Kind::P384))
            .or_else(|| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(Kind::Ed25519))
            .or_else(|| RsaKeyPair::from_pkcs8(der).ok().map(Kind::Rsa));
        kind.map(Self).ok_or("is no key for ES256, ES384, EdDSA or RS256 (RSA has 2048 to 4096 bits)")
    }

    /// A new key for [`Algorithm::Es256`], in the form of PKCS #8.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Vec<u8>, &'static str> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        document.map(|document| document.as_ref().to_vec()).map_err(|_| "no key can be generated")
    }

    /// What it can sign with, the preferred one first.
    #[must_use]
    pub fn algorithms(&self) -> &'static [Algorithm] {
        match self.0 {
            Kind::P256(_) => &[Algorithm::Es256],
            Kind::P384(_) => &[Algorithm::Es384],
            Kind::Ed25519(_) => &[Algorithm::EdDsa],
            Kind::Rsa(_) => &[Algorithm::Rs256, Algorithm::Ps256],
        }
    }

    /// The public key as a JWK; `None` for kinds other than P-256, whose public keys belljar sends nowhere.
    #[must_use]
    pub fn public_jwk(&self) -> Option<Value> {
        let Kind::P256(pair) = &self.0 else { return None };
        // An uncompressed point: 4, x, y.
        let (x, y) = pair.public_key().as_ref().get(1..)?.split_at_checked(32)?;
        Some(json!({"kty": "EC", "crv": "P-256", "x": base64url(x), "y": base64url(y)}))
    }

    /// A token with these claims. `header` gets `alg`.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn sign(
        &self,
        algorithm: Algorithm,
        mut header: Value,
        claims: &Value,
    ) -> Result<String, &'static str> {
        header["alg"] = json!(algorithm.name());
        let text = format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
        let random = SystemRandom::new();
        let failed = |_| "it cannot be signed";
        let signature = match &self.0 {
            Kind::P256(pair) | Kind::P384(pair) => {
                pair.sign(&random, text.as_bytes()).map_err(failed)?.as_ref().to_vec()
            }
            Kind::Ed25519(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
            Kind::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &dyn RsaEncoding = match algorithm {
                    Algorithm::Ps256 => &RSA_PSS_SHA256,
                    _ => &RSA_PKCS1_SHA256,
                };
                pair.sign(padding, &random, text.as_bytes(), &mut signature).map_err(failed)?;
                signature
            }
        };
        Ok(format!("{text}.{}", base64url(signature)))
    }
}

/// A new identifier that nobody can guess.
///
/// # Errors
/// The system has no random numbers.
pub fn unique_id() -> Result<String, &'static str> {
    let mut bytes = [0; ID_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system has no random numbers")?;
    Ok(base64url(bytes))
}

/// The SHA-256 of a text, as tokens refer to other tokens.
#[must_use]
pub fn digest(text: &str) -> String {
    base64url(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()))
}

fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
#[path = "jose_tests.rs"]
mod tests;
