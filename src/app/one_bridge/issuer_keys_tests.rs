//! Claims about the keys of an issuer that is a real server on a loopback port.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const NEVER: Duration = Duration::MAX;
const ALWAYS: Duration = Duration::ZERO;

/// What the issuer publishes; `None`: it fails.
type Published = Arc<Mutex<Option<Vec<Value>>>>;

struct Issuer {
    url: String,
    published: Published,
    fetches: Arc<AtomicUsize>,
}

impl Issuer {
    async fn start(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let published: Published = Arc::new(Mutex::new(Some(keys.to_vec())));
        let fetches: Arc<AtomicUsize> = Arc::default();
        let (now, count, issuer) = (Arc::clone(&published), Arc::clone(&fetches), url.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let keys = now.lock().clone();
                answer(stream, &issuer, keys, &count).await;
            }
        });
        Self { url, published, fetches }
    }

    fn keys(&self, fresh: Duration, lasting: Duration, between: Duration) -> Arc<IssuerKeys> {
        IssuerKeys::new(self.url.clone(), Bounds { fresh, lasting, between })
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::Relaxed)
    }
}

async fn answer(mut stream: TcpStream, issuer: &str, keys: Option<Vec<Value>>, fetches: &AtomicUsize) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let (status, body) = match keys {
        None => ("500 Internal Server Error", json!({})),
        Some(keys) if head.starts_with(b"GET /keys ") => {
            fetches.fetch_add(1, Ordering::Relaxed);
            ("200 OK", json!({"keys": keys}))
        }
        Some(_) => ("200 OK", json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")})),
    };
    let body = body.to_string();
    let length = body.len();
    let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(reply.as_bytes()).await.unwrap();
}

fn ec(kid: &str) -> Value {
    let coordinate = "A".repeat(43);
    json!({"kty": "EC", "crv": "P-256", "x": coordinate, "y": coordinate, "kid": kid})
}

async fn refusal(keys: &Arc<IssuerKeys>, kid: &str) -> Option<Refusal> {
    keys.key(Some(kid), Algorithm::Es256).await.err()
}

#[tokio::test]
async fn a_removed_key_stops_to_count_when_keys_are_fetched_again() {
    let issuer = Issuer::start(&[ec("a")]).await;
    let keys = issuer.keys(ALWAYS, NEVER, ALWAYS);
    assert_eq!(refusal(&keys, "a").await, None);
    *issuer.published.lock() = Some(vec![ec("b")]);
    assert_eq!(refusal(&keys, "a").await, Some(Refusal::UnknownKey));
    assert_eq!(refusal(&keys, "b").await, None);
    // Fresh keys are not fetched again.
    let keys = issuer.keys(NEVER, NEVER, ALWAYS);
    let before = issuer.fetches();
    for _ in 0..3 {
        assert_eq!(refusal(&keys, "b").await, None);
    }
    assert_eq!(issuer.fetches(), before + 1);
}

#[tokio::test]
async fn known_keys_count_for_some_time_while_the_issuer_fails() {
    let issuer = Issuer::start(&[ec("a")]).await;
    let [lasting, over] = [NEVER, ALWAYS].map(|lasting| issuer.keys(ALWAYS, lasting, ALWAYS));
    assert_eq!(refusal(&lasting, "a").await, None);
    assert_eq!(refusal(&over, "a").await, Some(Refusal::UnknownKey), "they are too old at once");
    *issuer.published.lock() = None;
    assert_eq!(refusal(&lasting, "a").await, None);
    assert_eq!(refusal(&lasting, "b").await, Some(Refusal::Unreachable));
    assert_eq!(refusal(&over, "a").await, Some(Refusal::Unreachable));
    *issuer.published.lock() = Some(vec![ec("b")]);
    assert_eq!(refusal(&lasting, "b").await, None);
}

#[tokio::test]
async fn requests_at_once_share_one_fetch_also_when_the_first_one_is_given_up() {
    let issuer = Issuer::start(&[ec("a")]).await;
    let keys = issuer.keys(NEVER, NEVER, NEVER);
    let own = Arc::clone(&keys);
    let first = tokio::spawn(async move { refusal(&own, "a").await });
    while keys.turn.try_lock().is_ok() {
        tokio::task::yield_now().await;
    }
    first.abort();
    let all = (0..20).map(|number| {
        let keys = Arc::clone(&keys);
        tokio::spawn(async move { refusal(&keys, if number % 2 == 0 { "a" } else { "b" }).await })
    });
    for (number, one) in all.collect::<Vec<_>>().into_iter().enumerate() {
        let expected = if number % 2 == 0 { None } else { Some(Refusal::UnknownKey) };
        assert_eq!(one.await.unwrap(), expected);
    }
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn a_key_is_used_for_what_it_is_meant_for_only() {
    let with = |name: &str, value: Value| {
        let mut key = ec("a");
        key[name] = value;
        key
    };
    let rsa = |alg: &str| json!({"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": alg, "kid": "a"});
    let unknown = Some(Refusal::UnknownKey);
    for (published, algorithm, expected) in [
        (vec![ec("a")], Algorithm::Es256, None),
        (vec![ec("a")], Algorithm::Es384, Some(Refusal::Algorithm)),
        (vec![ec("a")], Algorithm::EdDsa, Some(Refusal::Algorithm)),
        (vec![with("alg", json!("ES256"))], Algorithm::Es256, None),
        (vec![with("alg", json!("ECDH-ES"))], Algorithm::Es256, Some(Refusal::Algorithm)),
        (vec![with("use", json!("enc"))], Algorithm::Es256, unknown.clone()),
        (vec![with("key_ops", json!(["deriveKey"]))], Algorithm::Es256, unknown.clone()),
        (vec![with("key_ops", json!(["verify"]))], Algorithm::Es256, None),
        (vec![with("crv", json!("P-521"))], Algorithm::Es256, unknown.clone()),
        (vec![with("x", json!("not base64!"))], Algorithm::Es256, unknown.clone()),
        (vec![with("x", json!("A".repeat(42)))], Algorithm::Es256, unknown.clone()),
        (vec![with("y", json!("A".repeat(44)))], Algorithm::Es256, unknown.clone()),
        (vec![rsa("RS256")], Algorithm::Rs256, None),
        (vec![rsa("RS256")], Algorithm::Ps256, Some(Refusal::Algorithm)),
        (vec![rsa("RSA-OAEP")], Algorithm::Rs256, Some(Refusal::Algorithm)),
        (vec![json!({"kty": "oct", "k": "AQAB", "kid": "a"})], Algorithm::Es256, unknown.clone()),
        // What cannot be read hides no other key, and two keys of one name are not guessed between.
        (vec![json!(5), json!({"kid": 5}), ec("a")], Algorithm::Es256, None),
        (vec![rsa("RS256"), ec("a")], Algorithm::Es256, None),
        (vec![ec("a"), ec("a")], Algorithm::Es256, unknown.clone()),
    ] {
        let issuer = Issuer::start(&published).await;
        let found = issuer.keys(NEVER, NEVER, ALWAYS).key(Some("a"), algorithm).await;
        assert_eq!(found.err(), expected, "{published:?} {algorithm:?}");
    }
    // A token need not name its key if there is no choice.
    for (published, expected) in
        [(vec![rsa("RS256"), ec("a")], None), (vec![ec("a"), ec("b")], unknown.clone()), (vec![], unknown)]
    {
        let issuer = Issuer::start(&published).await;
        let found = issuer.keys(NEVER, NEVER, ALWAYS).key(None, Algorithm::Es256).await;
        assert_eq!(found.err(), expected, "{published:?}");
    }
}

#[tokio::test]
async fn too_many_keys_are_none() {
    let many: Vec<Value> = (0..65).map(|number| ec(&number.to_string())).collect();
    let issuer = Issuer::start(&many).await;
    assert_eq!(refusal(&issuer.keys(NEVER, NEVER, ALWAYS), "1").await, Some(Refusal::Unreachable));
    *issuer.published.lock() = Some(many[1..].to_vec());
    assert_eq!(refusal(&issuer.keys(NEVER, NEVER, ALWAYS), "1").await, None);
}
