//! `belljar serve --http --oauth-issuer`: which access tokens let somebody in, and what becomes of all others.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::authorization::Authorization;
use crate::support::issuer::{ALGORITHMS, Behaviour, Issuer, Key, base64url, now_s, unsigned};
use crate::support::web::{Answer, Served};
use crate::support::{Home, PATIENCE, eventually};

const AUDIENCE: &str = "https://bridge.example/mcp";
const PING: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;

fn home() -> Home {
    Home::new().env("MCP_BRIDGE_PREWARM", "0")
}

fn serve(home: &Home, issuer: &Issuer, more: &[&str]) -> Served {
    let usual = ["--oauth-issuer", &issuer.url, "--oauth-audience", AUDIENCE];
    Served::start(home, &[&usual, more].concat())
}

fn post(served: &Served, token: &str) -> Answer {
    served.request("POST", "/mcp", &[("authorization", &format!("Bearer {token}"))], PING)
}

/// The object with another value of this member.
fn with(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[name] = value;
    claims
}

fn without(claims: &Value, name: &str) -> Value {
    let mut claims = claims.clone();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

/// The words for refusals in the log.
fn words(home: &Home) -> BTreeSet<String> {
    let log = home.run(&["log"]).stdout;
    let refused = log.lines().filter_map(|line| line.split_once(" refused ")?.1.split_once(": "));
    refused.map(|(word, _)| word.to_owned()).collect()
}

#[test]
fn tokens_of_each_accepted_algorithm_let_their_subject_in() {
    let home = home();
    let keys: Vec<Key> = ALGORITHMS.iter().map(|algorithm| Key::new(algorithm, algorithm)).collect();
    let issuer = Issuer::start(&keys.iter().collect::<Vec<_>>());
    let served = serve(&home, &issuer, &[]);
    for key in &keys {
        let token = key.token(&issuer.claims("ada", AUDIENCE));
        assert_eq!(served.client(&token).result("ping", json!({})), json!({}), "{}", key.algorithm);
    }
    assert_eq!(issuer.fetches(), 1, "the keys are remembered");
    // A belljar token goes on to count.
    let own = home.run(&["token", "add", "--quiet", "own"]).stdout;
    assert_eq!(served.client(own.trim()).result("ping", json!({})), json!({}));
    // The subject is one owner, whichever key has signed.
    let identity = ring::digest::digest(&ring::digest::SHA256, format!("{}\0ada", issuer.url).as_bytes());
    let digits: String = identity.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let owners = std::fs::read_dir(home.path().join(".local/state/belljar/owners")).unwrap();
    let owners: BTreeSet<String> =
        owners.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(owners, BTreeSet::from(["own".to_owned(), format!("oauth-{}", &digits[..32])]));
}

#[test]
fn every_other_access_token_is_refused_under_its_own_word() {
    let home = home();
    let key = Key::new("ES256", "good");
    let rsa = Key::new("RS256", "rsa");
    let (strange, small) = (Key::new("ES256", "good"), Key::new("ES256", "none of it"));
    let issuer = Issuer::start(&[&key, &rsa]);
    let served = serve(&home, &issuer, &["--oauth-scope", "run", "--oauth-scope", "mcp"]);
    let good = with(&issuer.claims("ada", AUDIENCE), "scope", json!("openid mcp run"));
    let token = key.token(&good);
    assert_eq!(served.client(&token).result("ping", json!({})), json!({}));
    let header = |name: &str, value: Value| {
        with(&json!({"alg": "ES256", "typ": "at+jwt", "kid": "good"}), name, value)
    };
    let (text, signature) = token.rsplit_once('.').unwrap();
    // The public key as the secret of a symmetric algorithm.
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, rsa.jwk()["n"].as_str().unwrap().as_bytes());
    let symmetric = unsigned(&json!({"alg": "HS256", "typ": "at+jwt", "kid": "rsa"}), &good);
    let symmetric = format!("{symmetric}.{}", base64url(ring::hmac::sign(&secret, symmetric.as_bytes())));
    let changed = text.split_once('.').unwrap().0.to_owned()
        + "."
        + &base64url(with(&good, "sub", json!("eve")).to_string());
    for (what, refused, word) in [
        ("expired", key.token(&with(&good, "exp", json!(now_s() - 60))), "expired_token"),
        ("not yet valid", key.token(&with(&good, "nbf", json!(now_s() + 600))), "early_token"),
        (
            "another audience",
            key.token(&with(&good, "aud", json!("https://other.example"))),
            "wrong_audience",
        ),
        (
            "a longer audience",
            key.token(&with(&good, "aud", json!([format!("{AUDIENCE}/x")]))),
            "wrong_audience",
        ),
        ("no audience", key.token(&without(&good, "aud")), "wrong_audience"),
        ("another issuer", key.token(&with(&good, "iss", json!("https://login.example"))), "wrong_issuer"),
        ("a slash more", key.token(&with(&good, "iss", json!(format!("{}/", issuer.url)))), "wrong_issuer"),
        ("no issuer", key.token(&without(&good, "iss")), "wrong_issuer"),
        ("no algorithm", format!("{}.", unsigned(&header("alg", json!("none")), &good)), "refused_algorithm"),
        ("no algorithm, signed", key.token_with(&header("alg", json!("none")), &good), "refused_algorithm"),
        ("a symmetric algorithm", symmetric, "refused_algorithm"),
        ("another hash", key.token_with(&header("alg", json!("ES512")), &good), "refused_algorithm"),
        (
            "an algorithm of another key",
            key.token_with(&header("alg", json!("RS256")), &good),
            "refused_algorithm",
        ),
        (
            "an algorithm of another curve",
            key.token_with(&header("alg", json!("ES384")), &good),
            "refused_algorithm",
        ),
        ("an unknown key", small.token(&good), "unknown_key"),
        ("a key of another issuer", strange.token(&good), "wrong_signature"),
        ("a changed subject", format!("{changed}.{signature}"), "wrong_signature"),
        (
            "half a signature",
            format!("{text}.{}", &signature[..signature.len() / 2 / 4 * 4]),
            "wrong_signature",
        ),
        ("no signature", format!("{text}."), "wrong_signature"),
        ("two parts", text.to_owned(), "unknown_token"),
        ("a part more", format!("{token}.x"), "unknown_token"),
        ("no token", "x".to_owned(), "unknown_token"),
        ("too large", key.token(&with(&good, "x", json!("x".repeat(20_000)))), "unknown_token"),
        ("no end", key.token(&without(&good, "exp")), "unknown_token"),
        ("an end that is no number", key.token(&with(&good, "exp", json!("never"))), "unknown_token"),
        ("critical extensions", key.token_with(&header("crit", json!(["b64"])), &good), "unknown_token"),
        ("no subject", key.token(&without(&good, "sub")), "no_subject"),
        ("an empty subject", key.token(&with(&good, "sub", json!(""))), "no_subject"),
        ("an ID token", key.token(&with(&good, "nonce", json!("n"))), "no_access_token"),
        ("a logout token", key.token_with(&header("typ", json!("logout+jwt")), &good), "no_access_token"),
        ("bound to a key", key.token(&with(&good, "cnf", json!({"jkt": "x"}))), "bound_token"),
    ] {
        let answer = post(&served, &refused);
        assert_eq!(answer.status, 401, "{what}: {answer:?}");
        let challenge = answer.header("www-authenticate").unwrap();
        let metadata = format!("http://{}/.well-known/oauth-protected-resource/mcp", served.address);
        let said = format!(
            "Bearer realm=\"belljar\", error=\"invalid_token\", scope=\"run mcp\", resource_metadata=\"{metadata}\""
        );
        assert_eq!(challenge, said, "{what}");
        eventually(what, PATIENCE, || words(&home).contains(word));
    }
    for scope in [json!("run"), json!("mcp runner"), json!(["openid"]), json!(""), Value::Null] {
        let answer = post(&served, &key.token(&with(&good, "scope", scope.clone())));
        assert_eq!(answer.status, 403, "{scope}: {answer:?}");
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"insufficient_scope\", scope=\"run mcp\", "), "{challenge}");
    }
    // No other place is read, and no choice is made between two.
    for method in ["POST", "GET", "DELETE"] {
        let target = format!("/mcp?access_token={token}");
        assert_eq!(served.request(method, &target, &[], PING).status, 401, "{method}");
        let bearer = format!("Bearer {token}");
        let two = [("authorization", &*bearer), ("authorization", &*bearer)];
        assert_eq!(served.request(method, "/mcp", &two, PING).status, 401, "{method}");
    }
    assert_eq!(
        served.request("GET", "/metrics", &[("authorization", &format!("Bearer {token}"))], "").status,
        401
    );
    eventually("the rest is in the log", PATIENCE, || {
        let words = words(&home);
        ["missing_scope", "no_token"].iter().all(|word| words.contains(*word))
    });
    let log = home.run(&["log", "--json"]).stdout;
    assert!(!log.contains(signature) && !log.contains(text), "{log}");
    let status = home.run(&["serve", "status"]).stdout;
    assert!(status.starts_with("belljar ") && status.contains(" serves 1 sessions"), "{status}");
}

#[test]
fn a_new_key_counts_without_a_restart_and_a_removed_one_no_longer() {
    let home = home();
    let (old, new) = (Key::new("ES256", "old"), Key::new("ES256", "new"));
    let issuer = Issuer::start(&[&old]);
    let served = serve(&home, &issuer, &[]);
    let (of_old, of_new) =
        (old.token(&issuer.claims("ada", AUDIENCE)), new.token(&issuer.claims("ada", AUDIENCE)));
    let mut client = served.client(&of_old);
    assert_eq!(post(&served, &of_new).status, 401);
    issuer.publish(&[&new]);
    let session = client.session.take();
    eventually("the new key counts", PATIENCE, || {
        served.coming_back(&of_new, session.clone()).send("ping", json!({})).status == 200
    });
    assert_eq!(post(&served, &of_old).status, 401, "the old key does not");
}

#[test]
fn a_flood_of_unknown_keys_causes_few_fetches_and_holds_up_nobody() {
    let home = home();
    let key = Key::new("EdDSA", "good");
    let issuer = Issuer::start(&[&key]);
    let served = serve(&home, &issuer, &[]);
    let (begun, claims) = (Instant::now(), issuer.claims("ada", AUDIENCE));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (served, key, claims) = (&served, &key, &claims);
            scope.spawn(move || {
                for number in 0..25 {
                    let kid = format!("{thread}-{number}");
                    let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": kid});
                    assert_eq!(post(served, &key.token_with(&header, claims)).status, 401);
                }
            });
        }
    });
    served.client(&key.token(&claims));
    let most = 1 + usize::try_from(begun.elapsed().as_secs() / 10).unwrap();
    assert!((1..=most).contains(&issuer.fetches()), "{} of {most}", issuer.fetches());
}

#[test]
fn while_keys_cannot_be_fetched_the_answer_is_one_sentence() {
    let home = home();
    let key = Key::new("ES256", "good");
    let other = Issuer::start(&[&key]);
    for (what, behaviour) in [
        ("hangs", Behaviour::Hangs),
        ("fails", Behaviour::Fails),
        ("floods", Behaviour::Floods),
        (
            "is another",
            Behaviour::Metadata(json!({"issuer": other.url, "jwks_uri": format!("{}/keys", other.url)})),
        ),
        (
            "is spelled otherwise",
            Behaviour::Metadata(json!({"issuer": "ISSUER/", "jwks_uri": format!("{}/keys", other.url)})),
        ),
        ("has no keys", Behaviour::Metadata(json!({"issuer": "ISSUER"}))),
        (
            "has its keys where they could be changed",
            Behaviour::Metadata(json!({"issuer": "ISSUER", "jwks_uri": "http://keys.example/"})),
        ),
        (
            "has its keys in a file",
            Behaviour::Metadata(json!({"issuer": "ISSUER", "jwks_uri": "file:///etc/passwd"})),
        ),
    ] {
        let issuer = Issuer::start(&[&key]);
        issuer.behave(match behaviour {
            Behaviour::Metadata(mut metadata) => {
                let named = metadata["issuer"].as_str().unwrap().replace("ISSUER", &issuer.url);
                metadata["issuer"] = json!(named);
                Behaviour::Metadata(metadata)
            }
            other => other,
        });
        let served = serve(&home, &issuer, &[]);
        let answer = post(&served, &key.token(&issuer.claims("ada", AUDIENCE)));
        let said = "the keys of the OAuth issuer cannot be fetched now; try again later\n";
        assert_eq!(
            (answer.status, answer.body.as_str(), answer.header("retry-after")),
            (503, said, Some("10")),
            "{what}"
        );
        // A belljar token needs no issuer.
        let own = home.run(&["token", "add", "--quiet", "own"]).stdout;
        assert_eq!(served.client(own.trim()).result("ping", json!({})), json!({}), "{what}");
        home.run(&["token", "rm", "own"]);
        drop(served);
    }
    assert!(words(&home).contains("unreachable_issuer"));
}

#[test]
fn metadata_of_an_issuer_with_a_path_are_found_where_others_have_them() {
    let key = Key::new("ES256", "good");
    for (path, metadata) in [
        ("/realms/a", "/.well-known/oauth-authorization-server/realms/a"),
        ("/realms/a", "/.well-known/openid-configuration/realms/a"),
        ("/realms/a", "/realms/a/.well-known/openid-configuration"),
        ("/", "/.well-known/openid-configuration"),
    ] {
        let home = home();
        let issuer = Issuer::start_at(path, metadata, &[&key]);
        let served = serve(&home, &issuer, &[]);
        let token = key.token(&issuer.claims("ada", AUDIENCE));
        assert_eq!(served.client(&token).result("ping", json!({})), json!({}), "{metadata}");
    }
}

#[test]
fn a_subject_has_its_sessions_with_each_of_its_tokens_and_nobody_else_has() {
    let home = home();
    let key = Key::new("ES256", "good");
    let issuer = Issuer::start(&[&key]);
    let served = serve(&home, &issuer, &[]);
    let token =
        |subject: &str, exp: u64| key.token(&with(&issuer.claims(subject, AUDIENCE), "exp", json!(exp)));
    let mut client = served.client(&token("ada", now_s() + 60));
    let session = client.session.clone();
    assert_eq!(client.send("tools/list", json!({})).status, 200);
    let mut refreshed = served.coming_back(&token("ada", now_s() + 900), session.clone());
    assert_eq!(refreshed.send("tools/list", json!({})).status, 200);
    // Another subject's session is answered exactly as one that never was.
    let mut stranger = served.coming_back(&token("eve", now_s() + 60), session);
    let foreign = stranger.send("tools/list", json!({}));
    stranger.session = Some("00000000-0000-4000-8000-000000000000".into());
    let unknown = stranger.send("tools/list", json!({}));
    assert_eq!((foreign.status, &foreign.body), (404, &unknown.body));
    // The name of an owner is no name of a token.
    let refused = home.run(&["token", "add", "oauth-1"]);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("an OAuth issuer names"),
        "{}",
        refused.stderr
    );
}

#[test]
fn clients_learn_where_access_tokens_come_from_whatever_host_they_name() {
    let home = home();
    let issuer = Issuer::start(&[]);
    let places = ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];
    let read = |served: &Served, place: &str, host: &str| {
        let headers = [("host", host), ("origin", "https://app.example")];
        served.request("GET", place, &headers, "")
    };
    let arguments =
        ["--allow-host", "bridge.example", "--behind-proxy", "--allow-origin", "https://app.example"];
    let usual = ["--oauth-issuer", &issuer.url, "--oauth-scope", "run"];
    let served = Served::start(&home, &[&usual[..], &arguments].concat());
    for place in places {
        for host in ["bridge.example", "evil.example", "127.0.0.1"] {
            let answer = read(&served, place, host);
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, Some("application/json")),
                "{answer:?}"
            );
            assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
            let metadata: Value = serde_json::from_str(&answer.body).unwrap();
            let expected = json!({"resource": AUDIENCE, "authorization_servers": [issuer.url],
                "bearer_methods_supported": ["header"], "scopes_supported": ["run"]});
            assert_eq!(metadata, expected, "{host}");
        }
    }
    let asked = served.request("OPTIONS", places[1], &[("origin", "https://app.example")], "");
    assert_eq!(
        (asked.status, asked.header("access-control-allow-origin")),
        (204, Some("https://app.example"))
    );
    let refused = served.request("POST", "/mcp", &[("host", "evil.example")], PING);
    let said = "Bearer realm=\"belljar\", scope=\"run\", \
                resource_metadata=\"https://bridge.example/.well-known/oauth-protected-resource/mcp\"";
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some(said)));
    for place in
        ["/.well-known/oauth-protected-resource/", "/.well-known/oauth-protected-resource/x", "/.well-known"]
    {
        assert_eq!(read(&served, place, "bridge.example").status, 404, "{place}");
    }
    assert_eq!(served.request("POST", places[0], &[], PING).status, 404);
    drop(served);
    // Without an issuer there is nothing.
    let served = Served::start(&home, &arguments);
    assert_eq!(read(&served, places[0], "bridge.example").status, 404);
    let refused = served.request("POST", "/mcp", &[], PING);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"belljar\""));
}

#[test]
fn the_audience_is_the_address_of_mcp_unless_an_option_names_another() {
    let home = home();
    let key = Key::new("ES256", "good");
    let issuer = Issuer::start(&[&key]);
    let served = Served::start(&home, &["--oauth-issuer", &issuer.url]);
    let own = format!("http://{}/mcp", served.address);
    assert_eq!(served.client(&key.token(&issuer.claims("ada", &own))).result("ping", json!({})), json!({}));
    assert_eq!(post(&served, &key.token(&issuer.claims("ada", AUDIENCE))).status, 401);
    drop(served);
    let files = [
        ("cert.pem", include_str!("../fixtures/tls/server.pem")),
        ("key.pem", include_str!("../fixtures/tls/server.key")),
    ];
    let home = files.iter().fold(home, |home, (name, text)| home.file(name, text));
    let [issuer_option, proxy, tls] = [
        &["--oauth-issuer", "https://login.example"][..],
        &["--behind-proxy", "--allow-host", "a.example"],
        &["--tls-certificate", "cert.pem", "--tls-key", "key.pem"],
    ];
    for (more, said) in [
        (&[issuer_option, proxy, &["--allow-host", "b.example"]][..], "needs --oauth-resource here"),
        (&[issuer_option, &["--allow-host", "a.example"]], "needs --oauth-resource here"),
        (&[issuer_option, tls, &["--allow-host", "a.example"]], "needs --oauth-resource here"),
        (&[issuer_option, &["--oauth-resource", "https://a.example/"]], "must end with /mcp"),
        (&[issuer_option, &["--oauth-resource", "http://a.example/mcp"]], "must be an https address"),
        (&[issuer_option, &["--oauth-resource", "https://a.example/mcp?x"]], "must be an https address"),
        (&[issuer_option, &["--oauth-scope", "a b"]], "takes one scope"),
        (&[issuer_option, &["--oauth-scope", "a\""]], "takes one scope"),
        (&[issuer_option, &["--oauth-policy", "loose"]], "invalid value"),
        (&[&["--oauth-issuer", "login.example"]], "is no address"),
        (&[&["--oauth-issuer", "http://login.example"]], "must be an https address"),
        (&[&["--oauth-issuer", "https://me:x@login.example"]], "must be an https address"),
        (&[&["--oauth-scope", "run"]], "--oauth-issuer"),
    ] {
        let arguments = [&["serve", "--http", "127.0.0.1:0"][..], &more.concat()].concat();
        let refused = home.run(&arguments);
        assert!(
            refused.code == Some(2) && refused.stderr.contains(said),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn a_unit_file_has_the_options_for_access_tokens() {
    let options = [
        "--oauth-issuer",
        "https://login.example",
        "--oauth-resource",
        "https://bridge.example/mcp",
        "--oauth-audience",
        "belljar",
        "--oauth-policy",
        "careful",
        "--oauth-scope",
        "run",
        "--oauth-scope",
        "mcp",
    ];
    let unit = home().run(&[&["serve", "--unit", "systemd", "--http", "127.0.0.1:1"][..], &options].concat());
    let words = format!(" serve --http 127.0.0.1:1 {}\n", options.join(" "));
    assert!(unit.code == Some(0) && unit.stdout.contains(&words), "{}{}", unit.stdout, unit.stderr);
}

#[test]
fn a_real_authorization_server_s_token_is_taken() {
    let home = home();
    let servers = Authorization::start_with(600, &[("FORMAT", "jwt")]);
    let token = servers.service_token();
    let options =
        ["--oauth-issuer", &servers.issuer, "--oauth-audience", &servers.mcp, "--oauth-scope", "mcp"];
    let served = Served::start(&home, &options);
    assert_eq!(served.client(&token).result("ping", json!({})), json!({}));
}
