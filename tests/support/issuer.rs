//! An OAuth issuer on a loopback port, with real keys of its own. A test chooses what it publishes and how it fails.

use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};

use super::http_fixture::{HttpFixture, reply};

/// The algorithms that an issuer may sign with.
pub const ALGORITHMS: [&str; 5] = ["RS256", "PS256", "ES256", "ES384", "EdDSA"];

/// The issuer; it ends with the test's process.
pub struct Issuer {
    fixture: HttpFixture,
    /// Its name, as tokens have it.
    pub url: String,
    behaviour: Arc<Mutex<Behaviour>>,
}

/// How it answers.
#[derive(Clone)]
pub enum Behaviour {
    /// With its metadata at this path, and these keys.
    Usual(String, Vec<Value>),
    /// With these metadata.
    Metadata(Value),
    Hangs,
    Fails,
    /// With 10 MB.
    Floods,
}

/// A private key with its name.
pub struct Key {
    pub algorithm: &'static str,
    pub kid: String,
    pair: Pair,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
}

impl Issuer {
    /// An issuer that publishes these keys.
    pub fn start(keys: &[&Key]) -> Self {
        Self::start_at("", "/.well-known/oauth-authorization-server", keys)
    }

    /// An issuer whose name has this path, and whose metadata are at another.
    pub fn start_at(path: &str, metadata: &str, keys: &[&Key]) -> Self {
        let behaviour = Behaviour::Usual(metadata.to_owned(), keys.iter().map(|key| key.jwk()).collect());
        let behaviour = Arc::new(Mutex::new(behaviour));
        let (now, path) = (Arc::clone(&behaviour), path.to_owned());
        let place = path.clone();
        let fixture = HttpFixture::start(move |request, stream| {
            let origin = format!("http://{}", request.header("host").unwrap_or_default());
            let issuer = format!("{origin}{place}");
            let behaviour = now.lock().unwrap().clone();
            let answer = match behaviour {
                Behaviour::Usual(metadata, _) if request.path == metadata => {
                    json!({"issuer": issuer, "jwks_uri": format!("{origin}/keys")})
                }
                Behaviour::Usual(_, keys) if request.path == "/keys" => json!({"keys": keys}),
                Behaviour::Metadata(metadata) => metadata,
                Behaviour::Hangs => {
                    std::thread::park_timeout(Duration::from_secs(600));
                    return Ok(());
                }
                Behaviour::Fails => return reply(stream, "500 Internal Server Error", &[], "{}"),
                Behaviour::Floods => json!({"issuer": issuer, "padding": "x".repeat(10 << 20)}),
                Behaviour::Usual(..) => return reply(stream, "404 Not Found", &[], "{}"),
            };
            reply(stream, "200 OK", &[], &answer.to_string())
        });
        let url = format!("{}{path}", fixture.url.strip_suffix("/mcp").unwrap());
        Self { fixture, url, behaviour }
    }

    /// Answers like this from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    /// Publishes these keys instead of the former ones.
    pub fn publish(&self, keys: &[&Key]) {
        if let Behaviour::Usual(_, published) = &mut *self.behaviour.lock().unwrap() {
            *published = keys.iter().map(|key| key.jwk()).collect();
        }
    }

    /// How often its keys were fetched.
    pub fn fetches(&self) -> usize {
        self.fixture.requests().iter().filter(|request| request.path == "/keys").count()
    }

    /// The claims of a good token.
    pub fn claims(&self, subject: &str, audience: &str) -> Value {
        json!({"iss": self.url, "sub": subject, "aud": audience, "iat": now_s(), "exp": now_s() + 600})
    }
}

impl Key {
    /// A new key with this name. RSA keys, which take long to make, have one pair for all.
    pub fn new(algorithm: &'static str, kid: &str) -> Self {
        let random = SystemRandom::new();
        let elliptic = |of: &'static EcdsaSigningAlgorithm| {
            let document = EcdsaKeyPair::generate_pkcs8(of, &random).unwrap();
            Pair::Ec(EcdsaKeyPair::from_pkcs8(of, document.as_ref(), &random).unwrap())
        };
        let pair = match algorithm {
            "ES256" => elliptic(&ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => elliptic(&ECDSA_P384_SHA384_FIXED_SIGNING),
            "EdDSA" => {
                let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Pair::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
            }
            "RS256" => Pair::Rsa(RsaKeyPair::from_pkcs8(rsa()).unwrap(), &RSA_PKCS1_SHA256),
            "PS256" => Pair::Rsa(RsaKeyPair::from_pkcs8(rsa()).unwrap(), &RSA_PSS_SHA256),
            other => panic!("{other}"),
        };
        Self { algorithm, kid: kid.to_owned(), pair }
    }

    /// The public key, as an issuer publishes it.
    pub fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Ec(pair) => {
                // An uncompressed point: 4, x, y.
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": base64url(x), "y": base64url(y)})
            }
            Pair::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": base64url(pair.public_key())}),
            Pair::Rsa(pair, _) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": base64url(n), "e": base64url(e)})
            }
        };
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk
    }

    /// A token with these claims and the usual header.
    pub fn token(&self, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm, "typ": "at+jwt", "kid": self.kid});
        self.token_with(&header, claims)
    }

    /// A token with this header, whatever it says.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let text = unsigned(header, claims);
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Ec(pair) => pair.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
            Pair::Rsa(pair, padding) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(*padding, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{text}.{}", base64url(signature))
    }
}

/// What is signed of a token.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()))
}

/// A part of a token.
pub fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The present time in seconds since 1970, as tokens have it.
#[allow(clippy::disallowed_methods, reason = "tokens have the time of day")]
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A private RSA key in the form of PKCS #8.
fn rsa() -> &'static [u8] {
    static RSA: OnceLock<Vec<u8>> = OnceLock::new();
    RSA.get_or_init(|| {
        let script = "const { privateKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });
            console.log(privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64'));";
        let made = Command::new("node").args(["--eval", script]).output().unwrap();
        STANDARD.decode(String::from_utf8(made.stdout).unwrap().trim()).unwrap()
    })
}
