//! Claims about `login` in an entry: what each type needs, and how mistakes are named without repeating a value.

use std::path::Path;

use base64::Engine;

use belljar_base::limits::Limits;
use belljar_upstream::jose::SigningKey;
use belljar_upstream::service_login::{
    Assertion, ClientAuthentication, LoginSettings, ServiceGrant, ServiceLogin,
};
use serde_json::{Value, json};

use super::schema;
use crate::config::read::environment::Environment;
use crate::config::{Transport, servers_of_file};

/// A private key as a variable holds it.
fn pem() -> String {
    let der = base64::engine::general_purpose::STANDARD.encode(SigningKey::generate().unwrap());
    format!("-----BEGIN PRIVATE KEY-----\\n{der}\\n-----END PRIVATE KEY-----")
}

/// The login of one entry, and the problems that are reported.
fn read(url: &str, login: Value) -> (Option<LoginSettings>, String) {
    let environment = Environment {
        variables: [("SECRET".into(), "hunter22".into()), ("KEY".into(), pem().into())].into(),
        home: Some("/home/ada".into()),
        uid: 0,
        cwd: None,
        executable: None,
        owner: None,
    };
    let file = json!({"mcpServers": {"far": {"url": url, "login": login}}}).to_string();
    let path = Path::new("/etc/servers.json");
    let (servers, problems) = servers_of_file(&environment, &Limits::default(), path, file.into_bytes());
    let login = servers.into_iter().next().map(|server| match server.transport {
        Transport::Endpoint(endpoint) => endpoint.login,
        Transport::Launch(_) => panic!("it has a url"),
    });
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    (login, said.join("\n"))
}

fn service(login: Value) -> ServiceLogin {
    let (read, said) = read("https://a.test/mcp", login);
    *read.unwrap_or_else(|| panic!("{said}")).service.unwrap()
}

#[test]
fn each_type_is_read_with_its_references() {
    let login =
        service(json!({"type": "client_credentials", "clientId": "bot", "client_secret": "${SECRET}",
        "scopes": ["a", "b"], "issuer": "https://auth.test/", "token_endpoint": "https://tokens.test/t"}));
    let client = login.client.unwrap();
    assert!(login.grant == ServiceGrant::ClientCredentials && client.id == "bot");
    assert!(client.authentication == ClientAuthentication::Secret("hunter22".into()));
    assert_eq!((login.issuer.as_deref(), login.scopes.join(" ")), (Some("https://auth.test/"), "a b".into()));
    assert_eq!(login.token_endpoint.unwrap().as_str(), "https://tokens.test/t");

    let login = service(
        json!({"type": "client_credentials", "client_id": "bot", "private_key": "${KEY}", "key_id": "k1"}),
    );
    let ClientAuthentication::PrivateKey { key_id, audience, .. } = login.client.unwrap().authentication
    else {
        panic!("it has a key")
    };
    assert_eq!((key_id.as_deref(), audience), (Some("k1"), None));

    let login = service(json!({"type": "workload_identity", "assertion_file": "~/token"}));
    let assertion = Assertion::File("/home/ada/token".into());
    assert!(login.grant == ServiceGrant::WorkloadIdentity { assertion } && login.client.is_none());

    let idp = json!({"issuer": "https://idp.test", "client_id": "sso", "client_secret": "${SECRET}"});
    let login =
        service(json!({"type": "enterprise", "client_id": "bot", "id_token": "${SECRET}", "idp": idp}));
    let ServiceGrant::Enterprise { id_token, identity_provider } = login.grant else { panic!("it is one") };
    assert!(id_token == Assertion::Text("hunter22".into()));
    assert_eq!(
        (identity_provider.issuer.as_str(), identity_provider.client.id.as_str()),
        ("https://idp.test", "sso")
    );
}

#[test]
fn a_login_without_a_type_is_one_in_a_browser() {
    for (login, requires_dpop) in
        [(json!({}), false), (json!({"dpop": true}), true), (json!({"type": "browser"}), false)]
    {
        let (read, said) = read("https://a.test/mcp", login);
        let read = read.unwrap_or_else(|| panic!("{said}"));
        assert!(read.service.is_none() && read.requires_dpop == requires_dpop);
    }
}

#[test]
fn defects_are_named_and_no_value_is_repeated() {
    let bot = |more: Value| {
        let mut login =
            json!({"type": "client_credentials", "client_id": "bot", "client_secret": "hunter22"});
        login.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        login
    };
    let idp = json!({"issuer": "https://idp.test", "client_id": "sso"});
    let cases = [
        (json!("hunter22"), "login: must be an object, not"),
        (json!({"client_id": "bot"}), "login: has no type; write one of browser, client_credentials"),
        (
            json!({"type": "client_credential"}),
            "login.type: is no type of login that belljar knows; did you mean \"client_credentials\"?",
        ),
        (
            json!({"type": "client_credentials", "client_id": "bot"}),
            "needs a client_id, and a client_secret or a private_key",
        ),
        (
            json!({"type": "client_credentials", "client_secret": "hunter22"}),
            "client_secret: needs a client_id beside it",
        ),
        (
            bot(json!({"private_key": "hunter22"})),
            "private_key: stands beside a client_secret; remove one of them",
        ),
        (
            bot(json!({"client_secert": "hunter22"})),
            "is no key that belljar knows; did you mean \"client_secret\"?",
        ),
        (bot(json!({"clientId": "hunter22"})), "is repeated"),
        (bot(json!({"client_secret": ""})), "client_secret: is empty"),
        (bot(json!({"client_secret": "${NONE}"})), "client_secret: refers to ${NONE}, which is not set"),
        (bot(json!({"key_id": "hunter22"})), "key_id: needs a private_key beside it"),
        (
            bot(json!({"assertion": "hunter22"})),
            "assertion: does not belong to a login of the type \"client_credentials\"",
        ),
        (bot(json!({"issuer": "http://auth.test"})), "issuer: is http, not https, and not on this machine"),
        (bot(json!({"issuer": "hunter22"})), "issuer: is no address"),
        (bot(json!({"token_endpoint": "https://auth.test/t"})), "token_endpoint: needs an issuer beside it"),
        (bot(json!({"scopes": ["a b"]})), "scopes[0]: is no scope: one is a word without blanks"),
        (bot(json!({"dpop": "yes"})), "dpop: must be true or false, not"),
        (
            json!({"type": "client_credentials", "client_id": "bot", "private_key": "hunter22"}),
            "private_key: is no unencrypted private key in PEM",
        ),
        (
            json!({"type": "browser", "client_secret": "hunter22"}),
            "does not belong to a login of the type \"browser\"",
        ),
        (json!({"type": "workload_identity"}), "needs either assertion or assertion_file"),
        (
            json!({"type": "workload_identity", "assertion": "hunter22", "assertion_file": "x"}),
            "needs either assertion or assertion_file",
        ),
        (json!({"type": "enterprise", "client_id": "bot", "id_token": "hunter22"}), "needs an idp"),
        (
            json!({"type": "enterprise", "client_id": "bot", "idp": idp}),
            "needs either id_token or id_token_file",
        ),
        (
            json!({"type": "enterprise", "client_id": "bot", "id_token": "hunter22", "idp": {"client_id": "sso"}}),
            "login.idp: needs an issuer and a client_id",
        ),
    ];
    for (login, expected) in cases {
        let (read, said) = read("https://a.test/mcp", login.clone());
        assert!(read.is_none() && said.contains(expected), "{login}: {said}");
        assert!(!said.contains("hunter22") && said.lines().count() == 1, "{login}: {said}");
    }
    let (read, said) = read("http://a.test/mcp", bot(json!({})));
    assert!(read.is_none() && said.contains("login: needs an https address"), "{said}");
}

#[test]
fn schema_accepts_what_the_reader_takes() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let idp = json!({"issuer": "https://idp.test", "client_id": "sso"});
    for good in [
        json!({"dpop": true}),
        json!({"type": "client_credentials", "client_id": "b", "client_secret": "c", "scopes": ["a"]}),
        json!({"type": "enterprise", "client_id": "b", "id_token": "c", "idp": idp}),
    ] {
        assert!(schema.is_valid(&good), "{good}");
    }
    for bad in [json!({"type": "password"}), json!({"scopes": ["a b"]}), json!({"idp": {}}), json!({"x": 1})]
    {
        assert!(!schema.is_valid(&bad), "{bad}");
    }
}
