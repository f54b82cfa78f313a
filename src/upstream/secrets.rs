//! What a server is trusted with, kept out of texts.

use std::sync::{PoisonError, RwLock};

use url::Url;

use super::{ProcessSpec, RemoteSpec, ServerSpec, Way};

/// Shorter values are words as any other, and taking them out would make texts unreadable.
const SECRET_BYTES_MIN: usize = 6;
/// The same for parts of an address, most of which are no secrets.
const PATH_SECRET_BYTES_MIN: usize = 16;

/// Values that were found later and are remembered; older ones than these have been replaced long ago.
const FOUND_MAX: usize = 64;

/// The values of a server's configured variables and headers, of its address, and of references; has no `Debug`.
pub(super) struct Secrets(
    /// What was found last comes first.
    RwLock<Vec<(String, String)>>,
);

impl Secrets {
    pub(super) fn of(spec: &ServerSpec) -> Self {
        let secrets = Self(RwLock::new(Vec::new()));
        secrets.add(&spec.way, &spec.secrets);
        secrets
    }

    /// These are secrets from now on, beside the earlier ones, which a server may still repeat.
    pub(super) fn add(&self, way: &Way, further: &[(String, String)]) {
        let mut values: Vec<(String, String)> = match way {
            Way::Process(ProcessSpec { env, .. }) => env.clone(),
            Way::Remote(RemoteSpec { url, headers, .. }) => {
                headers.iter().flat_map(of_header).chain(of_address(url)).collect()
            }
        };
        values.extend(further.iter().cloned());
        values.retain(|(_, value)| value.len() >= SECRET_BYTES_MIN);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let earlier = known.iter().filter(|(_, value)| !values.iter().any(|(_, new)| new == value));
        let earlier: Vec<(String, String)> = earlier.take(FOUND_MAX).cloned().collect();
        values.extend(earlier);
        *known = values;
    }

    /// The text with every value written as the name of its variable, header, reference or part of the address.
    pub(super) fn redacted(&self, text: String) -> String {
        let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let told = values.iter().filter(|(_, value)| text.contains(value.as_str()));
        let mut told: Vec<&(String, String)> = told.collect();
        // One that contains another goes first.
        told.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        told.into_iter().fold(text, |text, (name, value)| text.replace(value.as_str(), &format!("[{name}]")))
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
    use crate::names::ServerName;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn process(env: &[(&str, &str)]) -> Way {
        Way::Process(ProcessSpec {
            program: "x".into(),
            args: vec!["from-a-file".into()],
            env: pairs(env),
            cwd: None,
            keeper: None,
        })
    }

    fn secrets(way: Way, further: &[(&str, &str)]) -> Secrets {
        let name = ServerName::new("a").unwrap();
        Secrets::of(&ServerSpec { secrets: pairs(further), ..ServerSpec::new(name, way) })
    }

    #[test]
    fn values_of_the_server_s_own_variables_and_of_references_are_written_as_their_names() {
        let secrets = secrets(
            process(&[("KEY", "sk-123"), ("LONG", "sk-1234567"), ("MODE", "prod")]),
            &[("file", "from-a-file"), ("ID", "short")],
        );
        let text = "sk-1234567 and sk-123 in prod, from-a-file short";
        assert_eq!(secrets.redacted(text.into()), "[LONG] and [KEY] in prod, [file] short");
    }

    #[test]
    fn what_is_found_later_is_a_secret_beside_what_was_found_before() {
        let secrets = secrets(process(&[]), &[]);
        for number in 0..200 {
            secrets.add(
                &process(&[("TOKEN", &format!("token-{number}"))]),
                &[("cmd".to_owned(), format!("token-{number}"))],
            );
        }
        assert_eq!(secrets.redacted("token-199 token-198 token-5!".into()), "[TOKEN] [TOKEN] token-5!");
        assert!(secrets.0.read().unwrap().len() <= FOUND_MAX + 2);
    }

    #[test]
    fn headers_with_and_without_their_scheme_and_the_secret_parts_of_an_address_are_written_as_names() {
        let way = Way::Remote(RemoteSpec {
            url: Url::parse("https://x.test/api/abcdefabcdef1234/mcp?key=a%20b%20c&v=1").unwrap(),
            transport: None,
            headers: pairs(&[("Authorization", "Bearer tok-12345")]),
            login: None,
        });
        let text = "Bearer tok-12345; tok-12345; /api/abcdefabcdef1234/mcp?key=a%20b%20c&v=1, a b c";
        assert_eq!(
            secrets(way, &[]).redacted(text.into()),
            "[Authorization]; [Authorization]; /api/[path]/mcp?key=[key]&v=1, a b c"
        );
    }
}
