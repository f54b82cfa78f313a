//! What a server is trusted with, kept out of texts.

use std::collections::BTreeMap;

use url::Url;

use super::{ProcessSpec, RemoteSpec, ServerSpec, Way};
use crate::names::ServerName;

/// Shorter values are words as any other, and taking them out would make texts unreadable.
const SECRET_BYTES_MIN: usize = 6;
/// The same for parts of an address, most of which are no secrets.
const PATH_SECRET_BYTES_MIN: usize = 16;

/// The values of the servers' configured variables and headers, and of their addresses; has no `Debug`.
pub(super) struct Secrets(BTreeMap<ServerName, Vec<(String, String)>>);

impl Secrets {
    pub(super) fn of(specs: &[ServerSpec]) -> Self {
        let of_one = |spec: &ServerSpec| {
            let mut values: Vec<(String, String)> = match &spec.way {
                Way::Process(ProcessSpec { env, .. }) => env.clone(),
                Way::Remote(RemoteSpec { url, headers, .. }) => {
                    headers.iter().flat_map(of_header).chain(of_address(url)).collect()
                }
            };
            values.retain(|(_, value)| value.len() >= SECRET_BYTES_MIN);
            // One that contains another goes first.
            values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
            (spec.name.clone(), values)
        };
        Self(specs.iter().map(of_one).collect())
    }

    /// The text with every value written as the name of its variable, header or part of the address.
    pub(super) fn redacted(&self, server: &ServerName, text: String) -> String {
        let values = self.0.get(server).map(Vec::as_slice).unwrap_or_default();
        values
            .iter()
            .filter(|(_, value)| text.contains(value.as_str()))
            .fold(text.clone(), |text, (name, value)| text.replace(value.as_str(), &format!("[{name}]")))
    }
}

/// The value, and what stands in it behind the name of an authentication scheme.
fn of_header((name, value): &(String, String)) -> impl Iterator<Item = (String, String)> {
    let credentials = value.split_once(' ').map(|(_, credentials)| credentials.trim().to_owned());
    let name = name.clone();
    std::iter::once(value.clone()).chain(credentials).map(move |value| (name.clone(), value))
}

fn of_address(url: &Url) -> impl Iterator<Item = (String, String)> {
    let written = url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let written = written.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let meant = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned()));
    let path = url.path_segments().into_iter().flatten();
    let path = path.filter(|part| part.len() >= PATH_SECRET_BYTES_MIN);
    let path = path.map(|part| ("path".to_owned(), part.to_owned()));
    written.chain(meant).chain(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn values_of_the_server_s_own_variables_are_written_as_their_names() {
        let spec = |name: &str, env: &[(&str, &str)]| ServerSpec {
            name: ServerName::new(name).unwrap(),
            way: Way::Process(ProcessSpec {
                program: "x".into(),
                args: vec![],
                env: pairs(env),
                cwd: None,
                keeper: None,
            }),
        };
        let secrets = Secrets::of(&[
            spec("a", &[("KEY", "sk-123"), ("LONG", "sk-1234567"), ("MODE", "prod")]),
            spec("b", &[("OTHER", "hidden!")]),
        ]);
        let a = ServerName::new("a").unwrap();
        let text = "sk-1234567 and sk-123 in prod, hidden!";
        assert_eq!(secrets.redacted(&a, text.into()), "[LONG] and [KEY] in prod, hidden!");
        assert_eq!(secrets.redacted(&ServerName::new("c").unwrap(), text.into()), text);
    }

    #[test]
    fn headers_with_and_without_their_scheme_and_the_secret_parts_of_an_address_are_written_as_names() {
        let name = ServerName::new("a").unwrap();
        let secrets = Secrets::of(&[ServerSpec {
            name: name.clone(),
            way: Way::Remote(RemoteSpec {
                url: Url::parse("https://x.test/api/abcdefabcdef1234/mcp?key=a%20b%20c&v=1").unwrap(),
                transport: None,
                headers: pairs(&[("Authorization", "Bearer tok-12345")]),
                login: None,
            }),
        }]);
        let text = "Bearer tok-12345; tok-12345; /api/abcdefabcdef1234/mcp?key=a%20b%20c&v=1, a b c";
        assert_eq!(
            secrets.redacted(&name, text.into()),
            "[Authorization]; [Authorization]; /api/[path]/mcp?key=[key]&v=1, a b c"
        );
    }
}
