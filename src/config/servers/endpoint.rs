//! Reads where an entry's remote server is; it connects to nothing and looks up no name.

use belljar_base::problem::Severity;
use belljar_upstream::RemoteTransport;
use belljar_upstream::web::is_loopback;

use super::reading::{Parts, Reading, STAND_IN};
use super::transport::{Endpoint, NamedSecrets};
use crate::clients::{Node, Value};
use crate::config::read::address::http_url;

/// Headers that the transport sets itself, in lower case.
const OWN_HEADERS: [&str; 12] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
    "upgrade",
];

impl Reading<'_> {
    /// The remote server of an entry; `None` where a problem with it was reported.
    pub(crate) fn endpoint(&mut self, key: &str, parts: &Parts<'_>) -> Option<Endpoint> {
        let member = parts.url?;
        for (part, value) in
            [("args", parts.args), ("env", parts.env), ("env_inherit", parts.env_inherit), ("cwd", parts.cwd)]
        {
            if let Some(value) = value {
                let message = "is for a command; it has no effect beside a url";
                self.warn(value.at(), &format!("{key}.{part}"), message);
            }
        }
        if let Some(sandbox) = parts.sandbox.filter(|sandbox| sandbox.node != Node::Bool(false)) {
            let message =
                "is for a command: a server at a url runs elsewhere, and belljar does not confine it";
            self.push(Severity::Error, (sandbox.at(), &format!("{key}.sandbox")), message, "remove it");
            return None;
        }
        let url_key = format!("{key}.{}", member.key);
        let url = self.value(&url_key, &member.value);
        let url = url.and_then(|url| {
            let parsed = http_url(&url);
            if let Err(message) = &parsed {
                self.report(member.value.at(), &url_key, *message);
            }
            parsed.ok()
        });
        let transport = self.http_transport(key, parts.transport);
        let headers = self.headers(&format!("{key}.headers"), parts.headers);
        let login = self.login(&format!("{key}.login"), parts.login);
        let endpoint = Endpoint { url: url?, transport: transport?, headers: headers?, login: login? };
        if let Some(login) = parts.login {
            let has_credentials =
                endpoint.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
            let wrong = if endpoint.url.as_str() == STAND_IN {
                "needs an address that no command prints"
            } else if has_credentials {
                "stands beside an Authorization header; remove one of them"
            } else if endpoint.url.scheme() == "http" && !is_loopback(&endpoint.url) {
                "needs an https address: whoever is on the way could take the token"
            } else {
                ""
            };
            if !wrong.is_empty() {
                self.report(login.at(), &format!("{key}.login"), wrong);
                return None;
            }
        }
        if sends_in_the_clear(&endpoint) {
            let message = "is http, not https, and not on this machine: whoever is on the way can read what is sent, \
                           its headers too";
            self.warn(member.value.at(), &url_key, message);
        }
        Some(endpoint)
    }

    fn http_transport(&mut self, key: &str, value: Option<&Value>) -> Option<Option<RemoteTransport>> {
        let Some(Value { range, node: Node::Text(kind) }) = value else {
            // A value of another kind was reported before.
            return value.is_none().then_some(None);
        };
        match kind.as_str() {
            "http" | "streamable-http" | "streamable_http" | "streamableHttp" => {
                Some(Some(RemoteTransport::Streamable))
            }
            "sse" => Some(Some(RemoteTransport::Sse)),
            "stdio" | "local" => {
                let message = format!("is {kind:?}, but the entry has a url and no command");
                self.report(range.start, &format!("{key}.type"), message);
                None
            }
            _ => {
                self.unknown_type(range.start, key, kind);
                None
            }
        }
    }

    fn headers(&mut self, key: &str, headers: Option<&Value>) -> Option<NamedSecrets> {
        let found = self.named(key, headers, |name| {
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                Some("has a header whose name is empty or holds a character that no name may".to_owned())
            } else if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                Some(format!("has the header {name:?}, which belljar sets itself"))
            } else {
                None
            }
        })?;
        let at = headers.map_or(0, |headers| headers.at());
        let mut seen = Vec::new();
        for (name, value) in found.iter() {
            let lower = name.to_ascii_lowercase();
            if seen.contains(&lower) {
                self.report(at, &format!("{key}.{name}"), "is repeated in another case");
                return None;
            }
            seen.push(lower);
            if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
                let message = "holds a character that no header may; allowed is printable ASCII";
                self.report(at, &format!("{key}.{name}"), message);
                return None;
            }
        }
        Some(found)
    }
}

fn sends_in_the_clear(endpoint: &Endpoint) -> bool {
    let has_secrets = !endpoint.headers.is_empty() || endpoint.url.query().is_some();
    endpoint.url.scheme() == "http" && has_secrets && !is_loopback(&endpoint.url)
}

/// Whether a header's name may contain the byte: RFC 9110, section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
