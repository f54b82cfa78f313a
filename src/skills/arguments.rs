//! Whether a function can be called with arguments that are given as JSON, told before anything is started.
//!
//! It judges names and numbers, no values.

use belljar_base::text;
use serde_json::{Map, Value};

use super::definition::{Definition, Kind, Parameter};

const NAMES_CHARS_MAX: usize = 300;

/// The arguments of a skill as JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum SkillArguments {
    /// An object: by name.
    ByName(Map<String, Value>),
    /// An array: by place.
    ByPlace(Vec<Value>),
}

impl SkillArguments {
    /// Reads them.
    ///
    /// # Errors
    /// A sentence for the user, with the line and column.
    pub fn read(json: &str) -> Result<Self, String> {
        match serde_json::from_str(json) {
            Ok(Value::Object(arguments)) => Ok(Self::ByName(arguments)),
            Ok(Value::Array(arguments)) => Ok(Self::ByPlace(arguments)),
            Ok(other) => Err(format!(
                "the arguments are {}, and must be a JSON object, by name, or an array, by place",
                kind(&other)
            )),
            Err(error) => Err(format!("the arguments are no JSON: {error}")),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl Definition {
    /// Whether it can be called so.
    ///
    /// # Errors
    /// A sentence for the user: what is missing or too much, and the signature.
    pub fn takes(&self, given: &SkillArguments) -> Result<(), String> {
        let wrong = match given {
            SkillArguments::ByName(arguments) => self.wrong_by_name(arguments),
            SkillArguments::ByPlace(arguments) => self.wrong_by_place(arguments.len()),
        };
        if wrong.is_empty() {
            return Ok(());
        }
        let wrong = text::inert_excerpt(&wrong.join("; "), NAMES_CHARS_MAX);
        Err(format!("{wrong}; the signature: {}", self.signature))
    }

    fn wrong_by_name(&self, arguments: &Map<String, Value>) -> Vec<String> {
        let mut wrong = vec![];
        let is_taken = |name: &str| {
            let fits = |one: &Parameter| one.name == name && matches!(one.kind, Kind::Either | Kind::ByName);
            self.parameters.iter().any(|one| fits(one) || one.kind == Kind::RestByName)
        };
        wrong.extend(
            arguments
                .keys()
                .filter(|name| !is_taken(name))
                .map(|name| format!("it takes no argument \"{name}\" by name")),
        );
        let needed = self.needed(&[Kind::Either, Kind::ByName, Kind::ByPlace]);
        let missing = needed.filter(|one| !arguments.contains_key(&one.name) || one.kind == Kind::ByPlace);
        wrong.extend(missing.map(|one| match one.kind {
            Kind::ByPlace => format!("\"{}\" can only be given by place, in a JSON array", one.name),
            _ => format!("\"{}\" is missing", one.name),
        }));
        wrong
    }

    fn wrong_by_place(&self, count: usize) -> Vec<String> {
        let mut wrong = vec![];
        let places = self.parameters.iter().filter(|one| matches!(one.kind, Kind::Either | Kind::ByPlace));
        let takes_more = self.parameters.iter().any(|one| one.kind == Kind::RestByPlace);
        if count > places.clone().count() && !takes_more {
            wrong.push(format!("it takes {} arguments by place, not {count}", places.clone().count()));
        }
        let missing = places.skip(count).filter(|one| !one.has_default);
        let missing = missing.chain(self.needed(&[Kind::ByName]));
        wrong.extend(missing.map(|one| format!("\"{}\" is missing", one.name)));
        wrong
    }

    fn needed<'d>(&'d self, kinds: &'d [Kind]) -> impl Iterator<Item = &'d Parameter> {
        self.parameters.iter().filter(|one| kinds.contains(&one.kind) && !one.has_default)
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition::definition;
    use super::*;

    fn refusal(parameters: &str, json: &str) -> Option<String> {
        let definition = definition(&format!("def f({parameters}): pass"), "f").unwrap();
        SkillArguments::read(json).and_then(|given| definition.takes(&given)).err()
    }

    #[test]
    fn what_does_not_fit_is_said_with_the_signature() {
        for (parameters, json) in [
            ("", "{}"),
            ("a, b=1", r#"{"a": 1}"#),
            ("a, b=1", "[1, 2]"),
            ("*rest, c=1", "[1, 2, 3]"),
            ("**rest", r#"{"x": 1}"#),
            ("a, /", "[1]"),
        ] {
            assert_eq!(refusal(parameters, json), None, "{parameters} {json}");
        }
        for (parameters, json, said) in [
            (
                "a, b=1",
                r#"{"c": 1}"#,
                r#"it takes no argument "c" by name; "a" is missing; the signature: f(a, b=1)"#,
            ),
            (
                "a, /",
                r#"{"a": 1}"#,
                r#"it takes no argument "a" by name; "a" can only be given by place, in a JSON array; the signature: f(a, /)"#,
            ),
            (
                "a, *, b",
                "[1, 2]",
                r#"it takes 1 arguments by place, not 2; "b" is missing; the signature: f(a, *, b)"#,
            ),
            (
                "a",
                "3",
                "the arguments are a number, and must be a JSON object, by name, or an array, by place",
            ),
            ("a", "{", "the arguments are no JSON: EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(refusal(parameters, json).as_deref(), Some(said));
        }
        let hostile = refusal("", &format!(r#"{{"\u001b{}": 1}}"#, "x".repeat(5_000))).unwrap();
        assert!(hostile.len() < 500 && hostile.contains("\\x1b"), "{hostile}");
    }
}
