//! Reads how an entry logs in to its remote server: with a browser, or as a service without a user.
//!
//! It sends no request; no value that may be a secret is repeated.

use std::path::PathBuf;

use belljar_base::problem::Severity;
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::text::suggest;
use belljar_upstream::jose::SigningKey;
use belljar_upstream::service_login::{
    Assertion, ClientAuthentication, IdentityProvider, LoginSettings, ServiceClient, ServiceGrant,
    ServiceLogin,
};
use belljar_upstream::web::is_loopback;
use serde_json::{Value as Json, json};
use url::Url;

use crate::clients::{Node, Value};
use crate::config::read::address::http_url;
use crate::config::read::changeable::{NamedFile, ReadTime};
use crate::config::read::references::Files;
use crate::config::servers::reading::{Reading, STAND_IN, Section};
use crate::config::servers::server_keys::snake_case;

/// Keys that describe the client to the authorization server and to an identity provider.
const CLIENT_KEYS: [&str; 5] = ["client_id", "client_secret", "private_key", "key_id", "audience"];
const SERVER_KEYS: [&str; 2] = ["issuer", "token_endpoint"];
const SCOPES: &str = "scopes";
const DPOP: &str = "dpop";
const TYPE: &str = "type";

/// The types, each with the keys that only it has.
pub(super) const TYPES: [(&str, &[&str]); 4] = [
    ("browser", &[]),
    ("client_credentials", &[]),
    ("workload_identity", &["assertion", "assertion_file"]),
    ("enterprise", &["id_token", "id_token_file", "idp"]),
];

/// An object with known keys, each at most once.
struct Fields<'m> {
    /// The byte at which it begins.
    at: usize,
    /// Its key, with the keys above it.
    key: String,
    found: Vec<(String, &'m Value)>,
}

impl<'m> Fields<'m> {
    fn get(&self, name: &str) -> Option<&'m Value> {
        self.found.iter().find(|(found, _)| found == name).map(|(_, value)| *value)
    }

    fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.key)
    }
}

impl Reading<'_> {
    /// The login of the entry; `None` where a problem with it was reported.
    pub(crate) fn login(&mut self, key: &str, value: Option<&Value>) -> Option<LoginSettings> {
        let Some(value) = value else { return Some(LoginSettings::default()) };
        let own = TYPES.iter().flat_map(|(_, own)| own.iter().copied());
        let known = [TYPE, DPOP, SCOPES].into_iter().chain(CLIENT_KEYS).chain(SERVER_KEYS).chain(own);
        let fields = self.fields(key, value, &known.collect::<Vec<_>>())?;
        let kind = self.kind(&fields)?;
        let others = TYPES.iter().filter(|(name, _)| *name != kind).flat_map(|(_, own)| own.iter().copied());
        let of_services = CLIENT_KEYS.into_iter().chain(SERVER_KEYS).chain([SCOPES]);
        let of_services = of_services.filter(|_| kind == "browser");
        for name in others.chain(of_services) {
            if let Some(value) = fields.get(name) {
                self.report(
                    value.at(),
                    &fields.path(name),
                    format!("does not belong to a login of the type {kind:?}"),
                );
                return None;
            }
        }
        let requires_dpop = match fields.get(DPOP).map(|value| (value.at(), &value.node)) {
            None => false,
            Some((_, Node::Bool(value))) => *value,
            Some((at, other)) => {
                self.report(at, &fields.path(DPOP), format!("must be true or false, not {}", other.kind()));
                return None;
            }
        };
        let service = if kind == "browser" { None } else { Some(Box::new(self.service(kind, &fields)?)) };
        Some(LoginSettings { service, requires_dpop })
    }

    fn kind(&mut self, fields: &Fields<'_>) -> Option<&'static str> {
        let names = TYPES.map(|(name, _)| name);
        let Some(value) = fields.get(TYPE) else {
            if fields.found.iter().all(|(name, _)| name == DPOP) {
                return Some("browser");
            }
            let message = "has no type";
            let hint = format!("write one of {}", names.join(", "));
            self.push(Severity::Error, (fields.at, &fields.key), message, &hint);
            return None;
        };
        let text = self.value(&fields.path(TYPE), value)?;
        let found = names.into_iter().find(|name| *name == snake_case(&text));
        if found.is_none() {
            let hint = suggest::did_you_mean(&text, names)
                .unwrap_or_else(|| format!("known are {}", names.join(", ")));
            self.push(
                Severity::Error,
                (value.at(), &fields.path(TYPE)),
                "is no type of login that belljar knows",
                &hint,
            );
        }
        found
    }

    fn service(&mut self, kind: &str, fields: &Fields<'_>) -> Option<ServiceLogin> {
        let client = self.client(fields)?;
        let issuer = self.issuer(fields)?;
        let token_endpoint = self.address(fields, "token_endpoint")?;
        if let (None, Some(endpoint)) = (&issuer, fields.get("token_endpoint")) {
            self.report(endpoint.at(), &fields.path("token_endpoint"), "needs an issuer beside it");
            return None;
        }
        let is_scope = |text: &str| match text.is_empty() || text.contains(char::is_whitespace) {
            true => Err("is no scope: one is a word without blanks".to_owned()),
            false => Ok(text.to_owned()),
        };
        let scopes = self.items(&fields.path(SCOPES), fields.get(SCOPES), SCOPES, is_scope)?;
        let grant = match kind {
            "client_credentials" => {
                let is_secret = |client: &ServiceClient| client.authentication != ClientAuthentication::None;
                if !client.as_ref().is_some_and(is_secret) {
                    let message = "needs a client_id, and a client_secret or a private_key";
                    self.report(fields.at, &fields.key, message);
                    return None;
                }
                ServiceGrant::ClientCredentials
            }
            "workload_identity" => ServiceGrant::WorkloadIdentity {
                assertion: self.assertion(fields, "assertion", "assertion_file")?,
            },
            _ => {
                if client.is_none() {
                    self.report(fields.at, &fields.key, "needs a client_id");
                    return None;
                }
                let id_token = self.assertion(fields, "id_token", "id_token_file")?;
                ServiceGrant::Enterprise { id_token, identity_provider: self.identity_provider(fields)? }
            }
        };
        Some(ServiceLogin { grant, client, issuer, token_endpoint, scopes: scopes.unwrap_or_default() })
    }

    fn identity_provider(&mut self, fields: &Fields<'_>) -> Option<Box<IdentityProvider>> {
        let Some(value) = fields.get("idp") else {
            let message = "needs an idp: the identity provider that has given the ID token";
            self.report(fields.at, &fields.key, message);
            return None;
        };
        let known: Vec<&str> = CLIENT_KEYS.into_iter().chain(SERVER_KEYS).collect();
        let fields = self.fields(&fields.path("idp"), value, &known)?;
        let (client, issuer) = (self.client(&fields)?, self.issuer(&fields)?);
        let token_endpoint = self.address(&fields, "token_endpoint")?;
        let (Some(client), Some(issuer)) = (client, issuer) else {
            self.report(fields.at, &fields.key, "needs an issuer and a client_id");
            return None;
        };
        Some(Box::new(IdentityProvider { issuer, token_endpoint, client }))
    }

    /// Reads the members of an object and reports unknown keys; `None` where a problem was reported.
    fn fields<'m>(&mut self, key: &str, value: &'m Value, known: &[&str]) -> Option<Fields<'m>> {
        let Node::Table(members) = &value.node else {
            self.report(value.at(), key, format!("must be an object, not {}", value.kind()));
            return None;
        };
        let mut fields = Fields { at: value.at(), key: key.to_owned(), found: Vec::new() };
        for member in members {
            let path = fields.path(&member.key);
            // In JSON both spellings of a key are the same key.
            let name = match self.section {
                Section::McpServers => snake_case(&member.key),
                Section::Servers => member.key.clone(),
            };
            if !known.contains(&name.as_str()) {
                let hint = suggest::did_you_mean(&name, known.iter().copied())
                    .unwrap_or_else(|| format!("known are {}", known.join(", ")));
                self.push(Severity::Error, (member.at, &path), "is no key that belljar knows", &hint);
                return None;
            }
            if fields.get(&name).is_some() {
                self.report(member.at, &path, "is repeated");
                return None;
            }
            fields.found.push((name, &member.value));
        }
        Some(fields)
    }

    /// A non-empty text; `Some(None)` where the key is missing.
    fn text(&mut self, fields: &Fields<'_>, name: &str) -> Option<Option<String>> {
        let Some(value) = fields.get(name) else { return Some(None) };
        let text = self.value(&fields.path(name), value)?.trim().to_owned();
        if text.is_empty() {
            self.report(value.at(), &fields.path(name), "is empty");
            return None;
        }
        Some(Some(text))
    }

    fn client(&mut self, fields: &Fields<'_>) -> Option<Option<ServiceClient>> {
        let [id, secret, pem, key_id, audience] = CLIENT_KEYS.map(|name| self.text(fields, name));
        let (id, secret, pem, key_id, audience) = (id?, secret?, pem?, key_id?, audience?);
        let wrong = match (&id, &secret, &pem) {
            (None, Some(_), _) => Some(("client_secret", "needs a client_id beside it")),
            (None, _, Some(_)) => Some(("private_key", "needs a client_id beside it")),
            (_, Some(_), Some(_)) => {
                Some(("private_key", "stands beside a client_secret; remove one of them"))
            }
            (_, _, None) if key_id.is_some() => Some(("key_id", "needs a private_key beside it")),
            (_, _, None) if audience.is_some() => Some(("audience", "needs a private_key beside it")),
            // The output of a command is checked when the command has run.
            (_, _, Some(pem)) if pem != STAND_IN => {
                SigningKey::from_pem(pem).err().map(|why| ("private_key", why))
            }
            _ => None,
        };
        if let Some((name, message)) = wrong {
            self.report(fields.get(name).map_or(fields.at, |value| value.at()), &fields.path(name), message);
            return None;
        }
        let authentication = match (secret, pem) {
            (Some(secret), _) => ClientAuthentication::Secret(secret),
            (None, Some(pem)) => ClientAuthentication::PrivateKey { pem, key_id, audience },
            (None, None) => ClientAuthentication::None,
        };
        Some(id.map(|id| ServiceClient { id, authentication }))
    }

    /// A token from another party, in the entry or in a file.
    fn assertion(&mut self, fields: &Fields<'_>, text: &str, file: &str) -> Option<Assertion> {
        let (written, path) = (self.text(fields, text)?, self.text(fields, file)?);
        match (written, path) {
            (Some(written), None) => Some(Assertion::Text(written)),
            (None, Some(path)) => {
                let path = self.file_path(&path);
                if self.sources.files == Files::Read {
                    let way = ResolvedPath::of(&path);
                    self.resolved.named.push(NamedFile {
                        shown: fields.path(file),
                        way,
                        read: ReadTime::Later,
                        is_program: false,
                    });
                }
                Some(Assertion::File(path))
            }
            _ => {
                self.report(fields.at, &fields.key, format!("needs either {text} or {file}"));
                None
            }
        }
    }

    fn file_path(&self, path: &str) -> PathBuf {
        self.sources.environment.resolve(path, self.path.parent())
    }

    fn issuer(&mut self, fields: &Fields<'_>) -> Option<Option<String>> {
        // The issuer is not normalised, since it is compared as a text.
        let text = self.text(fields, "issuer")?;
        self.address(fields, "issuer")?;
        Some(text)
    }

    /// An address that is safe to send credentials to.
    fn address(&mut self, fields: &Fields<'_>, name: &str) -> Option<Option<Url>> {
        let Some(text) = self.text(fields, name)? else { return Some(None) };
        let url = http_url(&text).and_then(|url| match url.scheme() == "https" || is_loopback(&url) {
            true => Ok(url),
            false => {
                Err("is http, not https, and not on this machine: credentials would be sent in the clear")
            }
        });
        match url {
            Ok(url) => Some(Some(url)),
            Err(message) => {
                self.report(
                    fields.get(name).map_or(fields.at, |value| value.at()),
                    &fields.path(name),
                    message,
                );
                None
            }
        }
    }
}

/// The schema of `login`.
pub(crate) fn schema() -> Json {
    let text = |about: &str| json!({"type": "string", "minLength": 1, "description": about});
    let client = |properties: &mut Json| {
        properties["client_id"] = text("the client's name there");
        properties["client_secret"] = text("its secret, best as a reference");
        properties["private_key"] = text(
            "its private key in PEM (PKCS #8), best as a reference; it signs an assertion (private_key_jwt)",
        );
        properties["key_id"] = text("the kid of that key");
        properties["audience"] = text("whom the assertion is for; left out, the issuer");
        properties["issuer"] = text("the authorization server; left out, the one that the server names");
        properties["token_endpoint"] =
            text("where tokens are asked for; left out, what the issuer's metadata say");
    };
    let mut properties = json!({
        "type": {"enum": TYPES.map(|(name, _)| name), "description": "who logs in: the user in a browser, or belljar by itself"},
        "dpop": {"type": "boolean", "default": false, "description": "whether only tokens that are bound to a key are used"},
        "scopes": {"type": "array", "items": {"type": "string", "pattern": r"^\S+$"},
            "description": "what is asked for; left out, what the server says"},
        "assertion": text("workload_identity: the platform's token"),
        "assertion_file": text("workload_identity: the file with it, read whenever a token is asked for"),
        "id_token": text("enterprise: the user's ID token"),
        "id_token_file": text("enterprise: the file with it, read whenever a token is asked for"),
    });
    client(&mut properties);
    let mut provider = json!({});
    client(&mut provider);
    properties["idp"] = json!({"type": "object", "additionalProperties": false, "required": ["issuer", "client_id"],
        "description": "enterprise: the identity provider that has given the ID token", "properties": provider});
    json!({"type": "object", "additionalProperties": false, "properties": properties,
        "description": "how belljar logs in to a remote server; left out, the user does it with `belljar login`"})
}
