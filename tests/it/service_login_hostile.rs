//! Logins without a user at servers whose metadata, nonces and words are hostile: credentials go to nobody else, into no text.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar_upstream::service_login::{ClientAuthentication, LoginSettings, ServiceGrant};
use serde_json::{Value, json};

use crate::login::{call, dir, home, keep, upstream_with};
use crate::service_login::{client, refusal, settings};
use crate::support::http_fixture::{HttpFixture, Request, reply};

const SECRET: &str = "hunter22-of-the-service";

fn by_secret() -> LoginSettings {
    settings(ServiceGrant::ClientCredentials, client("bot", ClientAuthentication::Secret(SECRET.into())))
}

/// A server of MCP that is its own authorization server; each is to be changed by the test.
struct Hostile {
    resource: Value,
    metadata: Value,
    /// The status and body of the token endpoint.
    token: (&'static str, Value),
}

impl Hostile {
    fn usual() -> Self {
        Self {
            resource: json!({"resource": "ISSUER/mcp", "authorization_servers": ["ISSUER"]}),
            metadata: json!({"issuer": "ISSUER", "token_endpoint": "ISSUER/token"}),
            token: ("200 OK", json!({"access_token": "t0ken-of-the-service", "token_type": "Bearer"})),
        }
    }

    /// `ISSUER` is its own origin, `OTHER` that of another server.
    fn start(self, other: &HttpFixture) -> HttpFixture {
        let other = other.url.replace("/mcp", "");
        HttpFixture::start(move |request, stream| {
            let issuer = format!("http://{}", request.header("host").unwrap());
            let filled =
                |value: &Value| value.to_string().replace("ISSUER", &issuer).replace("OTHER", &other);
            match request.path.as_str() {
                "/.well-known/oauth-protected-resource/mcp" => {
                    reply(stream, "200 OK", &[], &filled(&self.resource))
                }
                "/.well-known/oauth-authorization-server" => {
                    reply(stream, "200 OK", &[], &filled(&self.metadata))
                }
                "/token" => {
                    let (status, body) = &self.token;
                    let moved = format!("{other}/token");
                    reply(stream, status, &[("Location", moved.as_str())], &filled(body))
                }
                "/mcp" => {
                    let place = format!("{issuer}/.well-known/oauth-protected-resource/mcp");
                    let challenge = format!("Bearer resource_metadata=\"{place}\"");
                    reply(stream, "401 No", &[("WWW-Authenticate", &challenge)], "")
                }
                _ => reply(stream, "404 No", &[], ""),
            }
        })
    }
}

/// What a call says; nobody but this server's token endpoint has seen the secret.
async fn outcome(hostile: Hostile, settings: LoginSettings) -> (String, Vec<Request>) {
    let other = HttpFixture::start(|_, stream| reply(stream, "200 OK", &[], "{}"));
    let fixture = hostile.start(&other);
    let home = home(&fixture.url);
    let running = upstream_with(&home, &fixture.url, settings);
    let error = refusal(&running, &[SECRET, "hunter22", "Ym90Om", "t0ken"]).await;
    running.close().await;
    assert_eq!(other.requests().len(), 0, "{error}");
    (error, fixture.requests().into_iter().filter(|request| request.path == "/token").collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_metadata_get_no_credentials() {
    let resource = |value: Value| {
        let mut hostile = Hostile::usual();
        hostile.resource = value;
        hostile
    };
    let metadata = |key: &str, value: Value| {
        let mut hostile = Hostile::usual();
        hostile.metadata[key] = value;
        hostile
    };
    let proofs = metadata("dpop_signing_alg_values_supported", json!(["RS256"]));
    let cases = [
        (
            metadata("token_endpoint", json!("OTHER/token")),
            "another origin; if that is right, write it into the entry",
        ),
        (metadata("token_endpoint", json!("http://evil.test/token")), "is http, not https"),
        (metadata("token_endpoint", json!("file:///etc/passwd")), "must be https, not file"),
        (metadata("token_endpoint", Value::Null), "names no token endpoint"),
        (metadata("issuer", json!("https://evil.test")), "calls itself https://evil.test"),
        (
            metadata("token_endpoint_auth_methods_supported", json!(["private_key_jwt"])),
            "takes no client secrets",
        ),
        (
            resource(json!({"resource": "OTHER/mcp", "authorization_servers": ["ISSUER"]})),
            "those of another server",
        ),
        (
            resource(json!({"resource": "ISSUER/mcp", "authorization_servers": ["http://evil.test"]})),
            "is http, not https",
        ),
        (
            resource(json!({"resource": "ISSUER/mcp", "authorization_servers": ["no address"]})),
            "is no address",
        ),
    ];
    for (hostile, said) in cases {
        let (error, asked) = outcome(hostile, by_secret()).await;
        assert!(
            error.starts_with("server 'far' could not be logged in to: ") && error.contains(said),
            "{said}: {error}"
        );
        assert_eq!((asked.len(), error.lines().count()), (0, 1), "{said}");
    }
    let (error, asked) = outcome(proofs, LoginSettings { requires_dpop: true, ..by_secret() }).await;
    assert!(
        error.contains("takes no proofs (DPoP) that are signed with ES256") && asked.is_empty(),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_a_token_endpoint_are_neither_followed_nor_believed() {
    let token = |status: &'static str, body: Value| Hostile { token: (status, body), ..Hostile::usual() };
    let repeats = json!({"error": "invalid_client", "error_description": format!("{SECRET}\u{1b}[2J Ym90Omh1bnRlcjIyLW9mLXRoZS1zZXJ2aWNl")});
    let bearer = json!({"access_token": "t0ken-of-the-service", "token_type": "Bearer"});
    let cases = [
        (token("307 There", json!({})), by_secret(), "answered HTTP 307"),
        (token("400 No", repeats), by_secret(), "invalid_client: [client_secret]\\x1b[2J [client_secret]"),
        (token("400 No", json!("hunter22")), by_secret(), "answered HTTP 400"),
        (token("200 OK", json!({"access_token": "hunter22"})), by_secret(), "answer was no token"),
        (
            token("200 OK", json!({"access_token": "t0ken\n", "token_type": "Bearer"})),
            by_secret(),
            "a token that no header can hold",
        ),
        (
            token("200 OK", json!({"access_token": "t0ken", "token_type": "N_A"})),
            by_secret(),
            "tokens of the type \"N_A\"",
        ),
        (token("200 OK", bearer), LoginSettings { requires_dpop: true, ..by_secret() }, "bearer tokens only"),
    ];
    for (hostile, settings, said) in cases {
        let (error, asked) = outcome(hostile, settings).await;
        assert!(error.contains(said), "{said}: {error}");
        // Who is refused does not try again by itself.
        assert_eq!(asked.len(), 1, "{said}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authorization_server_than_before_gets_no_credentials() {
    let other = HttpFixture::start(|_, stream| reply(stream, "200 OK", &[], "{}"));
    let fixture = Hostile::usual().start(&other);
    let home = home(&fixture.url);
    std::fs::create_dir_all(dir(&home)).unwrap();
    let identity = by_secret().service.unwrap().identity();
    let grant = json!({"issuer": "https://auth.test/", "token_endpoint": "https://auth.test/token",
        "client": {"id": "bot", "secret_in": "header"}});
    keep(&home, &json!({"server": fixture.url, "access_token": "old", "grant": grant, "service": identity}));
    let running = upstream_with(&home, &fixture.url, by_secret());
    let error = refusal(&running, &[SECRET]).await;
    let expected = "its authorization server was https://auth.test/ and is now said to be http://127.0.0.1:";
    assert!(error.contains(expected), "{error}");
    assert!(fixture.requests().iter().all(|request| request.path != "/token"));
    running.close().await;

    // The entry decides.
    let mut named = by_secret();
    named.service.as_mut().unwrap().issuer = Some(fixture.url.replace("/mcp", ""));
    let running = upstream_with(&home, &fixture.url, named);
    refusal(&running, &[SECRET]).await;
    assert!(fixture.requests().iter().any(|request| request.path == "/token"));
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_endpoint_of_the_entry_is_asked_without_metadata() {
    let tokens = HttpFixture::start(|request, stream| match request.path.as_str() {
        "/t" => {
            let token = json!({"access_token": "t0ken-of-the-service", "token_type": "Bearer"});
            reply(stream, "200 OK", &[], &token.to_string())
        }
        _ => reply(stream, "404 No", &[], ""),
    });
    let mut settings = by_secret();
    let service = settings.service.as_mut().unwrap();
    service.issuer = Some("https://auth.test".into());
    service.token_endpoint = Some(tokens.url.replace("/mcp", "/t").parse().unwrap());
    let fixture = HttpFixture::usual(|request, stream| match request.header("authorization") {
        Some("Bearer t0ken-of-the-service") if !request.is("tools/call") => reply(stream, "405 No", &[], ""),
        Some("Bearer t0ken-of-the-service") => {
            let answer = request.answer(json!({"content": [{"type": "text", "text": "you are bot"}]}));
            reply(stream, "200 OK", &[], &answer)
        }
        _ => reply(stream, "401 No", &[("WWW-Authenticate", "Bearer")], ""),
    });
    let home = home(&fixture.url);
    let running = upstream_with(&home, &fixture.url, settings);
    assert!(call(&running, "t").await.unwrap().contains("you are bot"));
    running.close().await;
    assert_eq!(tokens.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_takes_a_nonce_is_asked_twice_and_no_more() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    // Each refusal comes with another nonce; then the same one again and again.
    for is_replayed in [false, true] {
        let counted = Arc::clone(&counted);
        let fixture = HttpFixture::start(move |request, stream| {
            let issuer = format!("http://{}", request.header("host").unwrap());
            match request.path.as_str() {
                "/.well-known/oauth-authorization-server" => {
                    let metadata = json!({"issuer": issuer, "token_endpoint": format!("{issuer}/token")});
                    reply(stream, "200 OK", &[], &metadata.to_string())
                }
                "/token" => {
                    let number = counted.fetch_add(1, Ordering::Relaxed);
                    let nonce = if is_replayed { "same".to_owned() } else { format!("n{number}") };
                    let error = json!({"error": "use_dpop_nonce"}).to_string();
                    reply(stream, "400 No", &[("DPoP-Nonce", &nonce)], &error)
                }
                "/mcp" => reply(stream, "401 No", &[("WWW-Authenticate", "DPoP")], ""),
                _ => reply(stream, "404 No", &[], ""),
            }
        });
        let home = home(&fixture.url);
        let running = upstream_with(&home, &fixture.url, by_secret());
        let error = refusal(&running, &[SECRET]).await;
        assert!(error.contains("the authorization server refused: use_dpop_nonce"), "{error}");
        running.close().await;
        assert_eq!(count.swap(0, Ordering::Relaxed), 2, "{is_replayed}");
    }
}
