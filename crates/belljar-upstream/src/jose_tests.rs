//! Claims about keys and signed tokens. Foreign implementations verify what is signed in `tests/it/service_login.rs`.

use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

use super::*;

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der))
}

fn decoded(part: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(part).unwrap()
}

#[test]
fn signature_verifies_with_the_public_key_in_the_jwk() {
    let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
    let token = key.sign(Algorithm::Es256, json!({"typ": "x"}), &json!({"iss": "a"})).unwrap();
    let [header, claims, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
    let header: Value = serde_json::from_slice(&decoded(header)).unwrap();
    assert_eq!(header, json!({"typ": "x", "alg": "ES256"}));
    assert_eq!(decoded(claims), br#"{"iss":"a"}"#);
    let jwk = key.public_jwk().unwrap();
    let coordinate = |name: &str| decoded(jwk[name].as_str().unwrap());
    let point = [vec![4], coordinate("x"), coordinate("y")].concat();
    let signed = token.rsplit_once('.').unwrap().0;
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    public.verify(signed.as_bytes(), &decoded(signature)).unwrap();
    assert!(public.verify(b"other", &decoded(signature)).is_err());
}

#[test]
fn pem_keys_are_read_with_escaped_line_ends() {
    let written = pem(&SigningKey::generate().unwrap());
    for text in [written.clone(), written.replace('\n', "\\n"), format!("a comment\n{written}")] {
        assert_eq!(SigningKey::from_pem(&text).ok().unwrap().algorithms(), [Algorithm::Es256]);
    }
}

#[test]
fn unusable_keys_are_refused_without_repeating_them() {
    let of = |text: &str| SigningKey::from_pem(text).err().unwrap();
    assert_eq!(of("hunter2"), "is no unencrypted private key in PEM");
    assert_eq!(
        of("-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----"),
        "is no unencrypted private key in PEM"
    );
    assert!(of(&pem(b"no key")).starts_with("is no key for ES256"));
    let old = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----";
    assert!(of(old).contains("openssl pkcs8 -topk8 -nocrypt"));
}

#[test]
fn digest_is_that_of_the_dpop_specification() {
    // The access token of RFC 9449, section 7.1, and its `ath`.
    let token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU";
    assert_eq!(digest(token), "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo");
}

#[test]
fn identifiers_differ() {
    assert_ne!(unique_id().unwrap(), unique_id().unwrap());
}
