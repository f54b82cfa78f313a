//! Logins without a user, with a real authorization server: client credentials, workload identity, enterprise-managed
//! authorization, and tokens that are bound to a key (DPoP).

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_upstream::service_login::{
    Assertion, ClientAuthentication, IdentityProvider, LoginSettings, ServiceClient, ServiceGrant,
    ServiceLogin,
};
use belljar_upstream::{
    DeferredTransport, Inherited, LoginFile, LoginSpec, ProcessSpec, RemoteSpec, ServerSpec, ServerTransport,
    Upstream,
};
use serde_json::{Value, json};

use crate::login::{LIFE_S, call, dir, home, keep, kept, name, upstream_with};
use crate::support::Home;
use crate::support::authorization::{Authorization, log_in};

const SECRET: &str = "secret + of: the service";

pub fn settings(grant: ServiceGrant, client: Option<ServiceClient>) -> LoginSettings {
    let service = ServiceLogin { grant, client, issuer: None, token_endpoint: None, scopes: vec![] };
    LoginSettings { service: Some(Box::new(service)), requires_dpop: false }
}

pub fn client(id: &str, authentication: ClientAuthentication) -> Option<ServiceClient> {
    Some(ServiceClient { id: id.to_owned(), authentication })
}

pub fn by_secret() -> LoginSettings {
    let secret = ClientAuthentication::Secret(SECRET.to_owned());
    settings(ServiceGrant::ClientCredentials, client("by-secret", secret))
}

fn by_key(id: &str, pem: String, audience: Option<&str>) -> LoginSettings {
    let audience = audience.map(str::to_owned);
    let key = ClientAuthentication::PrivateKey { pem, key_id: None, audience };
    settings(ServiceGrant::ClientCredentials, client(id, key))
}

fn workload(file: &Path) -> LoginSettings {
    let assertion = Assertion::File(file.to_owned());
    settings(ServiceGrant::WorkloadIdentity { assertion }, client("workload", ClientAuthentication::None))
}

fn enterprise(servers: &Authorization, id_token: Assertion) -> LoginSettings {
    let secret = |secret: &str| ClientAuthentication::Secret(secret.to_owned());
    let provider = client("sso", secret("secret of the sign-on")).unwrap();
    let identity_provider =
        IdentityProvider { issuer: servers.issuer.clone(), token_endpoint: None, client: provider };
    let grant = ServiceGrant::Enterprise { id_token, identity_provider: Box::new(identity_provider) };
    settings(grant, client("enterprise", secret("secret of the enterprise")))
}

async fn is(running: &Upstream, who: &str) {
    let result = call(running, "whoami").await.unwrap();
    assert!(result.contains(&format!("you are {who}")), "{result}");
}

/// Why a call fails, without these secrets.
pub async fn refusal(running: &Upstream, secrets: &[&str]) -> String {
    let error = call(running, "whoami").await.unwrap_err().to_string();
    for secret in secrets {
        assert!(!error.contains(secret), "{error}");
    }
    error
}

/// Rotates a token's end, so that it is due.
fn make_due(home: &Home) -> Value {
    let mut due = kept(home);
    due["renew_from"] = json!(1);
    keep(home, &due);
    due
}

#[tokio::test(flavor = "multi_thread")]
async fn client_secret_gets_a_token_that_bridges_share_and_renew() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    let bridges = [0, 1].map(|_| upstream_with(&home, &servers.mcp, by_secret()));
    let calls = (0..10).map(|number| is(&bridges[number % 2], "by-secret"));
    futures_util::future::join_all(calls).await;
    assert_eq!(servers.tokens().len(), 1, "one for all");
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(dir(&home)), mode(dir(&home).join("far.json"))), (0o700, 0o600));
    let first = kept(&home);
    assert!(!first.to_string().contains(SECRET), "credentials stay in the entry");

    // What the server repeats reaches nobody.
    let text = call(&bridges[0], "echo_token").await.unwrap();
    assert!(text.contains("your token is [login]"), "{text}");
    let repeated = bridges[0].redacted(&name(), format!("it is {SECRET} {}", servers.tokens()[0]));
    assert_eq!(repeated, "it is [client_secret] [login]");

    // Refused: once more with a new one. About to end: before it is refused.
    servers.expire();
    is(&bridges[0], "by-secret").await;
    assert_eq!((servers.tokens().len(), servers.refused_tokens()), (2, 1));
    let due = make_due(&home);
    is(&bridges[1], "by-secret").await;
    assert_ne!(kept(&home)["access_token"], due["access_token"]);
    assert_eq!((servers.tokens().len(), servers.refused_tokens()), (3, 1));
    for bridge in bridges {
        bridge.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_login_and_logout_know_that_no_user_is_needed() {
    let servers = Authorization::start(LIFE_S);
    let login = json!({"type": "client_credentials", "client_id": "by-secret", "client_secret": "${SECRET}"});
    let home = Home::new().server("far", json!({"url": servers.mcp, "login": login})).env("SECRET", SECRET);
    let doctor = |arguments: &[&str]| {
        let said = home.run(arguments).stdout;
        assert!(!said.contains(SECRET), "{said}");
        said
    };
    let said = doctor(&["doctor"]);
    let expected = ", logs in by itself (client credentials as by-secret); no token yet, `belljar doctor --ask` gets one";
    assert!(said.contains(expected), "{said}");
    let said = doctor(&["doctor", "--ask"]);
    assert_eq!(servers.tokens().len(), 1, "{said}");
    let said = doctor(&["doctor"]);
    let expected = "(client credentials as by-secret); the token expires in 115 days, is renewed by itself";
    assert!(said.contains(expected), "{said}");

    let done = home.run(&["login", "far"]);
    let said = "belljar: belljar logs in to far by itself (client credentials, as its entry says); there is nothing to do\n";
    assert_eq!((done.code, done.stderr.as_str()), (Some(2), said));
    assert_eq!(home.run(&["logout", "far"]).stdout, "logged out of far; its tokens are revoked\n");
    assert!(!dir(&home).join("far.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_code_verifies_assertions_of_every_kind_of_key() {
    let servers = [("ec", "RS256"), ("ec384", "RS256"), ("ed", "RS256"), ("rsa", "RS256"), ("rsa", "PS256")]
        .map(|(kind, rsa)| (kind, Authorization::start_with(LIFE_S, &[("RSA", rsa)])));
    for (kind, servers) in servers {
        let id = format!("by-{kind}");
        let home = home(&servers.mcp);
        let running = upstream_with(&home, &servers.mcp, by_key(&id, servers.key(kind), None));
        is(&running, &id).await;
        running.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_and_audiences_are_refused_without_leaking_them() {
    let servers = Authorization::start(LIFE_S);
    let stranger = servers.key("stranger");
    let line = stranger.lines().nth(1).unwrap();
    let wrong_secret = ClientAuthentication::Secret("hunter22 of nobody".into());
    let cases = [
        by_key("by-ec", stranger.clone(), None),
        by_key("by-ec", servers.key("ec"), Some("https://another.test")),
        settings(ServiceGrant::ClientCredentials, client("by-secret", wrong_secret)),
    ];
    for settings in cases {
        let home = home(&servers.mcp);
        let running = upstream_with(&home, &servers.mcp, settings);
        let error = refusal(&running, &[line, "hunter22 of nobody", "eyJ"]).await;
        let start =
            "server 'far' could not be logged in to: the authorization server refused: invalid_client: ";
        assert!(error.starts_with(start), "{error}");
        assert!(!dir(&home).join("far.json").exists());
        running.close().await;
    }
    assert_eq!(servers.tokens().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_platform_token_is_read_anew_whenever_a_token_is_asked_for() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    let file = home.path().join("token");
    let running = upstream_with(&home, &servers.mcp, workload(&file));
    let error = refusal(&running, &[]).await;
    assert!(error.contains("/token cannot be read: No such file"), "{error}");

    // Platforms replace it by a symlink.
    let put = |name: &str| {
        let beside = home.path().join(name);
        std::fs::write(&beside, servers.assertion(name) + "\n").unwrap();
        drop(std::fs::remove_file(&file));
        std::os::unix::fs::symlink(beside, &file).unwrap();
    };
    put("good");
    let running = upstream_with(&home, &servers.mcp, workload(&file));
    is(&running, "robot").await;
    for (wrong, said) in [
        ("expired", "\"exp\" claim timestamp check failed"),
        ("for_another", "unexpected \"aud\" claim value"),
        ("of_a_stranger", "signature verification failed"),
    ] {
        put(wrong);
        servers.expire();
        let running = upstream_with(&home, &servers.mcp, workload(&file));
        let error = refusal(&running, &["eyJ"]).await;
        let refused = format!("the authorization server refused: invalid_grant: {said}");
        assert!(error.contains(&refused), "{error}");
        running.close().await;
    }
    put("good");
    std::fs::set_permissions(home.path().join("good"), PermissionsExt::from_mode(0o666)).unwrap();
    let error = refusal(&upstream_with(&home, &servers.mcp, workload(&file)), &["eyJ"]).await;
    assert!(error.contains("can be written by every user, so it is not trusted"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_token_is_exchanged_for_a_grant_and_that_for_a_token() {
    let servers = Authorization::start(LIFE_S);
    let home_of_good = home(&servers.mcp);
    let good = Assertion::Text(servers.assertion("id_token"));
    let running = upstream_with(&home_of_good, &servers.mcp, enterprise(&servers, good));
    is(&running, "robot").await;
    running.close().await;
    let expired = Assertion::Text(servers.assertion("expired_id_token"));
    let home = home(&servers.mcp);
    let running = upstream_with(&home, &servers.mcp, enterprise(&servers, expired));
    let error = refusal(&running, &["eyJ", "secret of"]).await;
    let refused = "of the identity provider: the authorization server refused: invalid_grant: \"exp\" claim";
    assert!(error.contains(refused), "{error}");
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_a_command_are_printed_anew_once_they_are_refused() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    let file = home.path().join("printed");
    let url: url::Url = servers.mcp.parse().unwrap();
    let login = LoginFile::new(dir(&home), &name(), url.clone());
    let settings = enterprise(&servers, Assertion::Text("not known yet".into()));
    let transport = move |settings: LoginSettings| {
        let login = Some(LoginSpec { file: login.clone(), settings });
        ServerTransport::Remote(RemoteSpec { url: url.clone(), transport: None, headers: vec![], login })
    };
    let command = ProcessSpec {
        program: "cat".into(),
        searched: false,
        args: vec![file.display().to_string()],
        env: vec![],
        inherited: Inherited::All,
        cwd: None,
        keeper: None,
        projects: vec![],
        sandbox: None,
        private: belljar_confine::PrivatePlaces::default(),
        changeable: belljar_upstream::PlacesNow::default(),
    };
    let first = transport(settings.clone());
    let resolve = move |printed: &[String]| {
        let mut settings = settings.clone();
        let service = settings.service.as_mut().unwrap();
        if let ServiceGrant::Enterprise { id_token, .. } = &mut service.grant {
            *id_token = Assertion::Text(printed[0].clone());
        }
        Ok((transport(settings), vec![]))
    };
    let deferred = DeferredTransport {
        check: Arc::new(|| Ok(())),
        commands: vec![command],
        written: "cat".into(),
        resolve: Arc::new(resolve),
    };
    let spec = ServerSpec { deferred: Some(deferred), ..ServerSpec::new(name(), first) };
    let running = Upstream::new(vec![spec], &Arc::new(Limits::default()));

    // Another bridge has got a token when the ID token was good.
    let other = upstream_with(
        &home,
        &servers.mcp,
        enterprise(&servers, Assertion::Text(servers.assertion("id_token"))),
    );
    is(&other, "robot").await;
    other.close().await;
    std::fs::write(&file, servers.assertion("expired_id_token")).unwrap();
    is(&running, "robot").await;
    servers.expire();
    let error = refusal(&running, &["eyJ"]).await;
    assert!(
        error.contains("of the identity provider: the authorization server refused: invalid_grant"),
        "{error}"
    );
    std::fs::write(&file, servers.assertion("id_token")).unwrap();
    is(&running, "robot").await;
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_bound_to_a_key_are_sent_with_a_new_proof_each_time() {
    for mode in ["plain", "nonce"] {
        let servers = Authorization::start_with(LIFE_S, &[("DPOP", mode)]);
        let home = home(&servers.mcp);
        let running = upstream_with(&home, &servers.mcp, by_secret());
        for _ in 0..3 {
            is(&running, "by-secret").await;
        }
        assert_eq!(servers.schemes(), ["DPoP"], "{mode}");
        assert!(kept(&home)["dpop_key"].is_string());
        // A nonce of the server is asked for at most once for each connection; a proof is refused for nothing else.
        let problems = servers.problems();
        assert!(
            problems.len() <= 2 && problems.iter().all(|problem| problem == "use_dpop_nonce"),
            "{problems:?}"
        );
        servers.expire();
        is(&running, "by-secret").await;
        let key = kept(&home)["dpop_key"].as_str().unwrap().to_owned();
        assert_eq!(running.redacted(&name(), format!("key {key}")), "key [login]");
        running.close().await;

        // Somebody who has read the token and not the key.
        let mut stolen = kept(&home);
        stolen["dpop_key"] = Value::Null;
        keep(&home, &stolen);
        let before = servers.tokens().len();
        let running = upstream_with(&home, &servers.mcp, by_secret());
        is(&running, "by-secret").await;
        assert_eq!(servers.tokens().len(), before + 1, "the bare token was refused");
        running.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_s_login_is_bound_to_a_key_where_the_server_asks_for_it() {
    let servers = Authorization::start_with(LIFE_S, &[("DPOP", "nonce")]);
    let home = home(&servers.mcp);
    let done = log_in(&home, &["far"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let end = "\nlogged in to far; the token is bound to a key (DPoP) and expires in 115 days, is renewed by itself\n";
    assert!(done.stdout.ends_with(end), "{}", done.stdout);
    let running = upstream_with(&home, &servers.mcp, LoginSettings::default());
    is(&running, "ada").await;
    let before = kept(&home);
    servers.expire();
    is(&running, "ada").await;
    assert_ne!(kept(&home)["access_token"], before["access_token"]);
    assert_eq!(kept(&home)["dpop_key"], before["dpop_key"]);
    assert_eq!(servers.schemes(), ["DPoP"]);
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bearer_tokens_are_not_used_where_the_entry_requires_bound_ones() {
    let servers = Authorization::start(LIFE_S);
    let home = home(&servers.mcp);
    assert_eq!(log_in(&home, &["far"]).code, Some(0));
    let required = || LoginSettings { service: None, requires_dpop: true };
    let running = upstream_with(&home, &servers.mcp, required());
    let error = refusal(&running, &[]).await;
    assert!(error.contains("needs a login (there is none: HTTP 401"), "{error}");
    running.close().await;
    assert_eq!(servers.schemes(), [""; 0], "the bearer token that there is was not sent");
}
