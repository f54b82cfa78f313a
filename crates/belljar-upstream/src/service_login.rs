//! What an entry says of the login at its server, above all of logins as a service: without a user.
//!
//! It is data only: `config` reads it, `upstream` logs in. Nothing here has `Debug`, since it holds secrets.

use std::path::PathBuf;

use url::Url;

/// The settings of an entry for the login at its server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LoginSettings {
    /// `None`: the user logs in, in a browser.
    pub service: Option<Box<ServiceLogin>>,
    /// Whether only tokens that are bound to a key are used (DPoP, RFC 9449). Else they are used where the server asks for them.
    pub requires_dpop: bool,
}

/// A login without a user.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceLogin {
    /// What is exchanged for a token.
    pub grant: ServiceGrant,
    /// What belljar is to the authorization server; `None`: nothing, as with workload identity.
    pub client: Option<ServiceClient>,
    /// The authorization server; `None`: the one that the server names.
    pub issuer: Option<String>,
    /// Where tokens are asked for; `None`: where the issuer's metadata say, on the issuer's own origin. `issuer` stands beside it.
    pub token_endpoint: Option<Url>,
    /// What is asked for; none: what the server says.
    pub scopes: Vec<String>,
}

/// The credential that is exchanged for a token.
#[derive(Clone, PartialEq, Eq)]
pub enum ServiceGrant {
    /// The client's own credentials (RFC 6749, section 4.4).
    ClientCredentials,
    /// A token of the platform that belljar runs on (RFC 7523, section 2.1).
    WorkloadIdentity {
        /// The platform's token.
        assertion: Assertion,
    },
    /// A company's identity provider vouches for the user: its ID token is exchanged for a grant, and that for a token.
    Enterprise {
        /// The user's ID token.
        id_token: Assertion,
        /// Who has given it.
        identity_provider: Box<IdentityProvider>,
    },
}

/// A company's identity provider.
#[derive(Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    /// Its name, which is an address.
    pub issuer: String,
    /// Where tokens are exchanged; `None`: where its metadata say, on its own origin.
    pub token_endpoint: Option<Url>,
    /// What belljar is to it.
    pub client: ServiceClient,
}

/// A client that an authorization server knows.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceClient {
    /// Its name there.
    pub id: String,
    /// How it shows that it is the one.
    pub authentication: ClientAuthentication,
}

/// The method by which a client authenticates.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientAuthentication {
    /// It does not.
    None,
    /// By a password.
    Secret(String),
    /// By a token that its private key signs (`private_key_jwt`).
    PrivateKey {
        /// In PEM.
        pem: String,
        /// Which of the client's keys it is, where the authorization server wants to be told.
        key_id: Option<String>,
        /// Whom the token is for; `None`: the issuer.
        audience: Option<String>,
    },
}

/// A token that somebody else has made.
#[derive(Clone, PartialEq, Eq)]
pub enum Assertion {
    /// It stands in the entry, or a reference has brought it.
    Text(String),
    /// It stands in a file, which is read whenever a token is asked for: platforms replace it.
    File(PathBuf),
}

impl LoginSettings {
    /// The kind of login, for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.service.as_ref().map(|service| &service.grant) {
            None => "login in a browser",
            Some(ServiceGrant::ClientCredentials) => "client credentials",
            Some(ServiceGrant::WorkloadIdentity { .. }) => "workload identity",
            Some(ServiceGrant::Enterprise { .. }) => "enterprise-managed authorization",
        }
    }
}

impl ServiceLogin {
    /// What tells it from other logins at the same server, without a secret: a token is used for the login that it was given for.
    #[must_use]
    pub fn identity(&self) -> String {
        let source = |assertion: &Assertion| match assertion {
            Assertion::Text(_) => String::new(),
            Assertion::File(path) => format!(" of {}", path.display()),
        };
        let grant = match &self.grant {
            ServiceGrant::ClientCredentials => "client_credentials".to_owned(),
            ServiceGrant::WorkloadIdentity { assertion } => format!("workload_identity{}", source(assertion)),
            ServiceGrant::Enterprise { id_token, identity_provider } => {
                let IdentityProvider { issuer, client, .. } = &**identity_provider;
                format!("enterprise{} at {issuer} as {}", source(id_token), client.id)
            }
        };
        let client = self.client.as_ref().map_or("", |client| &client.id);
        let issuer = self.issuer.as_deref().unwrap_or_default();
        format!("{grant}; client {client}; issuer {issuer}; scopes {}", self.scopes.join(" "))
    }

    /// The secrets that stand in it, each with its name.
    pub fn secrets(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let provider = match &self.grant {
            ServiceGrant::Enterprise { identity_provider, .. } => Some(&identity_provider.client),
            ServiceGrant::ClientCredentials | ServiceGrant::WorkloadIdentity { .. } => None,
        };
        let assertion = match &self.grant {
            ServiceGrant::ClientCredentials => None,
            ServiceGrant::WorkloadIdentity { assertion } => Some(("assertion", assertion)),
            ServiceGrant::Enterprise { id_token, .. } => Some(("id_token", id_token)),
        };
        let assertion = assertion.and_then(|(name, assertion)| match assertion {
            Assertion::Text(text) => Some((name, text.as_str())),
            Assertion::File(_) => None,
        });
        let clients = self.client.iter().chain(provider).filter_map(|client| match &client.authentication {
            ClientAuthentication::None => None,
            ClientAuthentication::Secret(secret) => Some(("client_secret", secret.as_str())),
            ClientAuthentication::PrivateKey { pem, .. } => Some(("private_key", pem.as_str())),
        });
        clients.chain(assertion)
    }
}
