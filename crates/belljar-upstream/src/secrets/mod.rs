//! The values that a server is trusted with, which are redacted in texts.

mod parts;

use std::path::Path;
use std::sync::Arc;

use belljar_base::secret::{SECRET_BYTES_MIN, Secret};
use parking_lot::RwLock;
use url::Url;

use super::{RemoteSpec, ServerSpec, ServerTransport};

/// The shortest part of an address that counts as a secret, in bytes.
const PATH_SECRET_BYTES_MIN: usize = 16;
/// The shortest value written in an entry that counts as a credential, in bytes; shorter ones may be ordinary words.
const TOKEN_BYTES_MIN: usize = 16;
/// Parts of the names of secrets, in lower case.
const SECRET_NAMES: [&str; 8] = ["token", "secret", "key", "pass", "pwd", "auth", "credential", "cookie"];

/// The number of earlier values that are remembered.
const FOUND_MAX: usize = 64;

/// The values of a server's configured variables and headers, of its address, and of the references in its entry. This
/// type has no `Debug`.
#[derive(Default)]
pub(super) struct Secrets(
    /// The values, the latest first.
    RwLock<Vec<KnownSecret>>,
);

/// A configured value that is replaced in texts.
#[derive(Clone)]
struct KnownSecret {
    secret: Arc<Secret>,
    /// Whether it is removed from ordinary results as well. Settings, such as the name of a folder, may appear there.
    is_credential: bool,
}

impl Secrets {
    pub(super) fn of(spec: &ServerSpec) -> Self {
        let secrets = Self(RwLock::new(Vec::new()));
        secrets.add(&spec.transport, &spec.secrets);
        secrets
    }

    /// Adds secrets. Earlier ones stay, since a server may still repeat them.
    pub(super) fn add(&self, transport: &ServerTransport, further: &[(String, String)]) {
        let (mut values, address, arguments, inherited) = match transport {
            ServerTransport::Process(process) => {
                (process.env.clone(), vec![], process.args.as_slice(), process.inherited_texts())
            }
            ServerTransport::Remote(RemoteSpec { url, headers, .. }) => {
                let headers = headers.iter().flat_map(of_header).collect();
                (headers, of_address(url).collect::<Vec<_>>(), &[][..], vec![])
            }
        };
        values.extend(address.iter().chain(further).cloned());
        // The parts of an address have no names that say which of them are credentials.
        let is_token = |value: &str| parts::is_token(value) && address.iter().any(|(_, part)| part == value);
        let found: Vec<&str> = further.iter().map(|(_, found)| found.trim()).collect();
        let holds_reference =
            |value: &str| found.iter().any(|found| found.len() >= SECRET_BYTES_MIN && value.contains(found));
        let mut all: Vec<(&str, String, bool)> = values
            .iter()
            .map(|(name, value)| {
                let is_credential = holds_reference(value) || is_credential(name, value) || is_token(value);
                (name.as_str(), value.clone(), is_credential)
            })
            .collect();
        // Most inherited variables name places and languages, which may appear in results.
        let of_secrets = inherited.iter().filter(|(name, value)| {
            !names_place(value) && (parts::is_secret(name, value) || parts::is_token(value))
        });
        all.extend(of_secrets.map(|(name, value)| (*name, (*value).to_owned(), true)));
        let named = values.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let arguments = arguments.iter().map(|argument| ("args", argument.as_str()));
        for (name, value) in named.chain(arguments).chain(inherited.iter().copied()) {
            all.extend(parts::of(value).into_iter().map(|part| (name, part, true)));
        }
        let new = all.iter().filter_map(|(name, value, is_credential)| {
            let secret = Arc::new(Secret::new((*name).to_owned(), value)?);
            Some(KnownSecret { secret, is_credential: *is_credential })
        });
        let mut new: Vec<KnownSecret> = new.collect();
        let mut known = self.0.write();
        let is_earlier = |known: &&KnownSecret| !all.iter().any(|(_, value, _)| known.secret.is_value(value));
        let earlier: Vec<KnownSecret> = known.iter().filter(is_earlier).take(FOUND_MAX).cloned().collect();
        new.extend(earlier);
        *known = new;
    }

    /// All secrets.
    pub(super) fn all(&self) -> Vec<Arc<Secret>> {
        self.known(|_| true)
    }

    /// The secrets that are removed from ordinary results as well.
    pub(super) fn credentials(&self) -> Vec<Arc<Secret>> {
        self.known(|known| known.is_credential)
    }

    fn known(&self, is_wanted: impl Fn(&KnownSecret) -> bool) -> Vec<Arc<Secret>> {
        let known = self.0.read();
        known.iter().filter(|known| is_wanted(known)).map(|known| Arc::clone(&known.secret)).collect()
    }
}

/// Whether a value written in the entry looks like a credential: it is long, has letters and digits, and its name
/// suggests it.
fn is_credential(name: &str, value: &str) -> bool {
    let name = name.to_lowercase();
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    let is_long = value.len() >= TOKEN_BYTES_MIN && !names_place(value);
    let is_token = is_long && has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit);
    name == "authorization" || is_token && SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// Whether the value is a path below HOME, or below a folder of this machine. A key in base64 can begin with a slash.
fn names_place(value: &str) -> bool {
    let first = value.strip_prefix('/').map(|rest| rest.split('/').next().unwrap_or_default());
    value.starts_with("~/")
        || first.is_some_and(|first| !first.is_empty() && Path::new("/").join(first).is_dir())
}

/// The value of a header, and the part of it after the name of an authentication scheme.
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
    use belljar_base::names::ServerName;
    use belljar_base::secret::replaced_in;

    use super::*;
    use crate::ProcessSpec;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn process(env: &[(&str, &str)]) -> ServerTransport {
        ServerTransport::Process(ProcessSpec { env: pairs(env), ..ProcessSpec::plain("x", &["from-a-file"]) })
    }

    fn secrets(transport: ServerTransport, further: &[(&str, &str)]) -> Secrets {
        let name = ServerName::new("a").unwrap();
        Secrets::of(&ServerSpec { secrets: pairs(further), ..ServerSpec::new(name, transport) })
    }

    fn redacted(secrets: &Secrets, text: &str) -> String {
        let secrets = secrets.all();
        replaced_in(text.to_owned(), &secrets.iter().map(|secret| &**secret).collect::<Vec<_>>())
    }

    #[test]
    fn values_of_the_server_s_own_variables_and_of_references_are_written_as_their_names() {
        let secrets = secrets(
            process(&[("KEY", "sk-123"), ("LONG", "sk-1234567"), ("MODE", "prod")]),
            &[("file", "from-a-file"), ("ID", "short")],
        );
        let text = "sk-1234567 and sk-123 in prod, from-a-file short";
        assert_eq!(redacted(&secrets, text), "[LONG] and [KEY] in prod, [file] short");
    }

    #[test]
    fn what_begins_like_a_path_is_a_secret_unless_it_is_below_a_folder() {
        for (name, value, is_secret) in [
            ("API_KEY", "/9j4AAQSkZJRgABAQEAYABg=", true),
            ("API_KEY", "~9j4AAQSkZJRgABAQEAYABg=", true),
            ("API_KEY", "//9j4AAQSkZJRgABAQEAYABg=", true),
            ("VAULT_PASS", "hunter22", true),
            ("SSHPASS", "hunter22", true),
            ("KEY_FILE", "/etc/ssl/private/server01.key", false),
            ("PWD", "/tmp/some/folder12345", false),
            ("TOKEN_FILE", "~/.config/token-0123456789", false),
            ("PASSAGE", "hunter22", false),
            ("COMPASS", "north", false),
        ] {
            let variables = vec![(name.into(), value.into())];
            let inherited = crate::Inherited::Only { variables, withheld: vec![] };
            let spec = ProcessSpec { inherited, ..ProcessSpec::plain("x", &[]) };
            let found = secrets(ServerTransport::Process(spec), &[]);
            assert_eq!(redacted(&found, value) != value, is_secret, "{name}={value}");
        }
    }

    #[test]
    fn passwords_and_keys_within_values_are_secrets_too() {
        let json = r#"{"type": "service_account", "token_uri": "https://oauth2.example/token", "nested": {"password": "letmein"},
            "private_key": "-----BEGIN-----\nMIIEvQIBADANBg1\n-----END-----\n", "keys": ["0123456789abcdefg"],
            "openai": "sk-Proj0123456789", "project_id": "my-project-123456789"}"#;
        let spec = ProcessSpec {
            env: pairs(&[("DATABASE_URL", "postgres://ada:p%40ss+word@db.test:5432/main?sslmode=require")]),
            ..ProcessSpec::plain("x", &["mysql://root:secret7@localhost/x"])
        };
        let further =
            [("file", json), ("DSN", "host=db.test password='hunter22' user=ada"), ("ADO", "Pwd=letmein2;")];
        let secrets = secrets(ServerTransport::Process(spec), &further);
        for (text, redacted_text) in [
            ("p%40ss+word", "[DATABASE_URL]"),
            ("p@ss+word!", "[DATABASE_URL]!"),
            ("ada at db.test:5432/main", "ada at db.test:5432/main"),
            ("secret7", "[args]"),
            ("letmein", "[file]"),
            ("-----BEGIN-----\nMIIEvQIBADANBg1\n-----END-----", "[file]"),
            ("0123456789abcdefg", "[file]"),
            ("sk-Proj0123456789", "[file]"),
            ("hunter22", "[DSN]"),
            ("letmein2", "[ADO]"),
            (
                "my-project-123456789 https://oauth2.example/token",
                "my-project-123456789 https://oauth2.example/token",
            ),
        ] {
            assert_eq!(redacted(&secrets, text), redacted_text);
            assert_eq!(
                replaced_in(
                    text.into(),
                    &secrets.credentials().iter().map(|secret| &**secret).collect::<Vec<_>>()
                ),
                redacted_text
            );
        }
    }

    #[test]
    fn all_credentials_within_a_value_are_secrets_however_many_there_are() {
        let lines: Vec<String> =
            (0..300).map(|number| format!("API_KEY_{number}=Token{number:0>12}")).collect();
        let addresses: Vec<String> =
            (0..100).map(|number| format!("db://u:pass-{number:0>3}-word@h")).collect();
        let secrets = secrets(process(&[("CREDS", &lines.join("\n")), ("DSNS", &addresses.join(" "))]), &[]);
        assert_eq!(redacted(&secrets, "Token000000000299 and pass-099-word"), "[CREDS] and [DSNS]");
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
        assert_eq!(redacted(&secrets, "token-199 token-198 token-5!"), "[TOKEN] [TOKEN] token-5!");
        assert!(secrets.0.read().len() <= FOUND_MAX + 2);
    }

    #[test]
    fn headers_with_and_without_their_scheme_and_the_secret_parts_of_an_address_are_written_as_names() {
        let transport = ServerTransport::Remote(RemoteSpec {
            url: Url::parse("https://x.test/api/abcdefabcdef1234/mcp?key=a%20b%20c&v=1").unwrap(),
            transport: None,
            headers: pairs(&[("Authorization", "Bearer tok-12345")]),
            login: None,
        });
        let text = "Bearer tok-12345; tok-12345; /api/abcdefabcdef1234/mcp?key=a%20b%20c&v=1, a b c";
        assert_eq!(
            redacted(&secrets(transport, &[]), text),
            "[Authorization]; [Authorization]; /api/[path]/mcp?key=[key]&v=1, a b c"
        );
    }

    #[test]
    fn settings_belong_into_results_and_credentials_do_not() {
        let kept = |transport: ServerTransport, further: &[(&str, &str)]| {
            let credentials = secrets(transport, further).credentials();
            let mut names: Vec<String> = credentials.iter().map(|secret| secret.name.clone()).collect();
            names.sort();
            names.join(" ")
        };
        let entry = process(&[
            ("DATA_FOLDER", "/home/ada/data-1234567890"),
            ("KEY_FOLDER", "/home/ada/keys-1234567890"),
            ("AUTH_MODE", "disabled"),
            ("AUTH_KIND", "disabled-altogether"),
            ("MODEL", "model-4-5-20250929"),
            ("GITHUB_TOKEN", "ghp_0123456789abcdef"),
            ("PIN", "hunter22"),
            ("LINK", "https://x.test/?pin=hunter22"),
            ("A", "short"),
        ]);
        assert_eq!(
            kept(entry, &[("PIN_OF_ADA", "hunter22"), ("S", "h")]),
            "GITHUB_TOKEN LINK PIN PIN_OF_ADA"
        );
        let transport = ServerTransport::Remote(RemoteSpec {
            url: Url::parse(
                "https://x.test/api/abcdefabcdef1234/mcp?key=0123456789abcdef&page=0123456789abcdef-2",
            )
            .unwrap(),
            transport: None,
            headers: pairs(&[("Authorization", "Bearer hunter2"), ("Accept", "application/json; q=0.9")]),
            login: None,
        });
        assert_eq!(kept(transport, &[]), "Authorization Authorization key key");
        let transport = ServerTransport::Remote(RemoteSpec {
            url: Url::parse(
                "https://x.test/s/Xk9hunter2Abcd1234/0123456789abcdef0123456789abcdef/mcp?k=Yk9hunter2Abcd1234",
            )
            .unwrap(),
            transport: None,
            headers: pairs(&[("X-Region", "Region1ofTheWorld2")]),
            login: None,
        });
        assert_eq!(kept(transport, &[]), "k k path path");
        // The reference's value has a blank at its end, and is part of a header with a scheme.
        let transport = ServerTransport::Remote(RemoteSpec {
            url: Url::parse("https://x.test/mcp").unwrap(),
            transport: None,
            headers: pairs(&[("X-Pin", "Pin hunter22 ")]),
            login: None,
        });
        assert_eq!(kept(transport, &[("PIN", "hunter22 ")]), "PIN X-Pin X-Pin");
    }
}
