//! What a server is trusted with, kept out of texts.

use std::collections::BTreeMap;

use super::ServerSpec;
use crate::names::ServerName;

/// Shorter values are words as any other, and taking them out would make texts unreadable.
const SECRET_BYTES_MIN: usize = 6;

/// The values of the servers' configured variables; has no `Debug`.
pub(super) struct Secrets(BTreeMap<ServerName, Vec<(String, String)>>);

impl Secrets {
    pub(super) fn of(specs: &[ServerSpec]) -> Self {
        let of_one = |spec: &ServerSpec| {
            let mut values: Vec<(String, String)> =
                spec.env.iter().filter(|(_, value)| value.len() >= SECRET_BYTES_MIN).cloned().collect();
            // One that contains another goes first.
            values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
            (spec.name.clone(), values)
        };
        Self(specs.iter().map(of_one).collect())
    }

    /// The text with every value written as the name of its variable.
    pub(super) fn redacted(&self, server: &ServerName, text: String) -> String {
        let values = self.0.get(server).map(Vec::as_slice).unwrap_or_default();
        values
            .iter()
            .filter(|(_, value)| text.contains(value.as_str()))
            .fold(text.clone(), |text, (name, value)| text.replace(value.as_str(), &format!("[{name}]")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_server_s_own_variables_are_written_as_their_names() {
        let spec = |name: &str, env: &[(&str, &str)]| ServerSpec {
            name: ServerName::new(name).unwrap(),
            program: "x".into(),
            args: vec![],
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            cwd: None,
            keeper: None,
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
}
