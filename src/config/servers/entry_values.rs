//! Reads the values of an entry: strings with their references replaced, and objects of such strings.
//!
//! It does not know which key means what: `entry` does.

use belljar_base::problem::Severity;

use super::reading::{Reading, STAND_IN};
use super::transport::NamedSecrets;
use crate::clients::{Node, Value};
use crate::config::read::references::Unresolved;

/// The largest number of variables, or of headers, of one entry.
const NAMES_MAX: usize = 1_000;

impl Reading<'_> {
    /// Reads an object of strings and replaces their references; `wrong` returns the problem with a name.
    pub(super) fn named(
        &mut self,
        key: &str,
        value: Option<&Value>,
        wrong: impl Fn(&str) -> Option<String>,
    ) -> Option<NamedSecrets> {
        let members = match value.map(|value| (value.at(), &value.node)) {
            None | Some((_, Node::Null)) => return Some(NamedSecrets::default()),
            Some((_, Node::Table(members))) => members,
            Some((at, other)) => {
                let message = format!("must be an object of strings, not {}", other.kind());
                self.report(at, key, message);
                return None;
            }
        };
        if members.len() > NAMES_MAX {
            self.report(value.map_or(0, |value| value.at()), key, format!("has more than {NAMES_MAX} names"));
            return None;
        }
        let mut pairs = Vec::with_capacity(members.len());
        let mut sound = true;
        for (index, member) in members.iter().enumerate() {
            let at = format!("{key}.{}", member.key);
            if let Some(message) = wrong(&member.key) {
                self.report(member.at, key, message);
                sound = false;
            } else if let Some(first) = members[..index].iter().find(|other| other.key == member.key) {
                let message = format!("is repeated; it stands on line {} too", self.position(first.at).line);
                self.report(member.at, &at, message);
                sound = false;
            } else if let Some(value) = self.value(&at, &member.value) {
                pairs.push((member.key.clone(), value));
            } else {
                sound = false;
            }
        }
        sound.then(|| NamedSecrets::new(pairs))
    }

    /// Reads a string and replaces its references. Problems with it are reported without repeating it.
    pub(super) fn value(&mut self, key: &str, value: &Value) -> Option<String> {
        let Node::Text(text) = &value.node else {
            let message = format!("must be a string, not {}", value.kind());
            let hint = match value.node {
                Node::Number(_) | Node::Bool(_) => "put it in double quotes",
                _ => "",
            };
            self.push(Severity::Error, (value.at(), key), message, hint);
            return None;
        };
        let replaced = match self.sources.substitute(text, self.path.parent(), &mut self.resolved) {
            Ok(Some(replaced)) => replaced,
            Ok(None) => return Some(STAND_IN.to_owned()),
            Err(Unresolved { message, hint }) => {
                self.push(Severity::Error, (value.at(), key), message, hint);
                return None;
            }
        };
        for (character, name) in [('\0', "NUL"), ('\r', "carriage return")] {
            if replaced.contains(character) {
                self.report(
                    value.at(),
                    key,
                    format!("holds a {name} character, which no configured value may"),
                );
                return None;
            }
        }
        Some(replaced)
    }
}
