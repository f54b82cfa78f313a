//! The allowed and required names of a tool's arguments, and the name that a wrong one was meant to be.
//!
//! It examines no values, and only the outermost object.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use belljar_base::text::{self, suggest};
use serde_json::{Map, Value};

use crate::catalog::matching::near_names::near;

/// The likeness at which an undeclared name counts as a mistake for a known one, if the schema does not say whether it
/// accepts undeclared names.
const MISTAKEN_MIN: f64 = 0.7;
/// Names by which other clients hand over all arguments of a tool together.
const ALL_TOGETHER: [&str; 7] =
    ["args", "arguments", "input", "kwargs", "parameters", "params", "tool_input"];
/// Known names that an unknown one is compared with.
const COMPARED_MAX: usize = 200;
/// The largest number of unknown names that are examined.
const UNKNOWN_MAX: usize = 10;
/// Keywords that may declare names beside `properties`.
const ELSEWHERE: [&str; 9] =
    ["$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"];

/// The names of one object's members.
pub(super) struct Names<'s> {
    known: Option<&'s Map<String, Value>>,
    required: Vec<&'s str>,
    others: UndeclaredNames,
}

/// The rule of a schema for names that it does not declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UndeclaredNames {
    Refused,
    Allowed,
    /// The schema does not say. That is so for most servers, and most of them ignore such an argument silently.
    Unsaid,
}

impl<'s> Names<'s> {
    /// The names that an object's schema declares.
    pub(super) fn of(schema: &'s Map<String, Value>) -> Self {
        let known = schema.get("properties").and_then(Value::as_object);
        if schema.contains_key("$ref") {
            return Self { known: None, required: vec![], others: UndeclaredNames::Allowed };
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        // Servers fill in a default, even if they list the argument as required.
        let has_default = |name: &str| known.and_then(|known| known.get(name)?.get("default")).is_some();
        let is_elsewhere = ELSEWHERE.iter().any(|keyword| schema.contains_key(*keyword));
        let others = match schema.get("additionalProperties") {
            Some(Value::Bool(false)) if !schema.contains_key("patternProperties") => UndeclaredNames::Refused,
            None if !is_elsewhere => UndeclaredNames::Unsaid,
            _ => UndeclaredNames::Allowed,
        };
        Self {
            known,
            required: required.filter_map(Value::as_str).filter(|name| !has_default(name)).collect(),
            others,
        }
    }

    /// Required names that were not given.
    pub(super) fn missing(&self, given: &HashSet<&str>) -> Vec<&'s str> {
        // A required name that is not declared does not count, since the schema may allow no value for it.
        let required = self.required.iter().copied().filter(|name| self.declares(name));
        required.filter(|name| !given.contains(name)).collect()
    }

    fn declares(&self, name: &str) -> bool {
        self.known.is_some_and(|known| known.contains_key(name))
    }

    fn known(&self) -> impl Iterator<Item = &'s str> {
        self.known.into_iter().flat_map(Map::keys).map(String::as_str)
    }

    /// The declared name that a name was perhaps meant to be, among those that are `free`.
    pub(super) fn meant(&self, name: &str, free: impl Fn(&str) -> bool) -> Option<&'s str> {
        meant(name, self.known().filter(|known| free(known))).map(|(_, known)| known)
    }

    /// Whether a name is not declared, and the schema does not say whether it accepts such names.
    pub(super) fn leaves_open(&self, name: &str) -> bool {
        self.others == UndeclaredNames::Unsaid && !self.declares(name) && !self.required.contains(&name)
    }

    /// The given names that are refused, each with the name that was probably meant. If the schema does not say whether
    /// it accepts undeclared names, such a name is refused only if a required name is missing, if the name resembles
    /// a known one, or if it is the only one and stands for all arguments together.
    pub(super) fn unknown<'g>(&self, given: &[&'g str]) -> Vec<(&'g str, Option<&'s str>)> {
        let set: HashSet<&str> = given.iter().copied().collect();
        let is_incomplete = !self.missing(&set).is_empty();
        let is_known = |name: &str| self.declares(name) || self.required.contains(&name);
        let mut unknown = Vec::new();
        for name in given.iter().filter(|name| !is_known(name)).take(UNKNOWN_MAX) {
            let meant = meant(name, self.known().filter(|known| !set.contains(known)));
            let is_refused = match self.others {
                UndeclaredNames::Refused => true,
                UndeclaredNames::Allowed => false,
                UndeclaredNames::Unsaid => {
                    is_incomplete
                        || meant.is_some_and(|(likeness, _)| likeness >= MISTAKEN_MIN)
                        || (given.len() == 1
                            && ALL_TOGETHER.contains(name)
                            && self.known.is_some_and(|known| !known.is_empty()))
                }
            };
            if is_refused {
                unknown.push((*name, meant.map(|(_, known)| known)));
            }
        }
        unknown
    }
}

/// The declared names of a schema, also by their one Unicode form.
pub(super) struct DeclaredNames<'s> {
    names: HashSet<&'s str>,
    composed: HashMap<Cow<'s, str>, &'s str>,
}

impl<'s> DeclaredNames<'s> {
    pub(super) fn of(schema: &'s Map<String, Value>) -> Self {
        let known = schema.get("properties").and_then(Value::as_object);
        let names: HashSet<&str> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let composed = names.iter().map(|name| (text::composed(name), *name)).collect();
        Self { names, composed }
    }

    /// The declared name of which a name is another Unicode form, else the name itself.
    pub(super) fn meant<'n>(&'n self, name: &'n str) -> &'n str {
        match self.names.contains(name) {
            true => name,
            false => self.composed.get(&text::composed(name)).copied().unwrap_or(name),
        }
    }
}

/// The known name that a name resembles most, and how much, or else one that means the same.
pub(super) fn meant<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<(f64, &'k str)> {
    let known: Vec<&str> = known.take(COMPARED_MAX).collect();
    let resembling = suggest::ranked(name, known.iter().copied()).first().copied();
    resembling.or_else(|| {
        let near = near(name, known.iter().copied());
        known
            .into_iter()
            .find(|known| near.first().is_some_and(|near| near == known))
            .map(|known| (0.0, known))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_for_all_arguments_together_is_refused_where_no_such_parameter_is_declared() {
        for name in ALL_TOGETHER {
            let open = json!({"properties": {"text": {}, "to": {}}});
            assert_eq!(unknown(open.clone(), &[name]), [(name.to_owned(), None)]);
            assert_eq!(unknown(open, &[name, "text"]), [], "beside others, it is one of an open schema");
            for declared in
                [json!({"properties": {name: {}}}), json!({}), json!({"additionalProperties": true})]
            {
                assert_eq!(unknown(declared, &[name]), []);
            }
        }
    }

    fn unknown(schema: Value, given: &[&str]) -> Vec<(String, Option<String>)> {
        let schema = schema.as_object().unwrap().clone();
        let owned = |(name, meant): (&str, Option<&str>)| (name.to_owned(), meant.map(str::to_owned));
        Names::of(&schema).unknown(given).into_iter().map(owned).collect()
    }

    fn told(name: &str, meant: &str) -> (String, Option<String>) {
        (name.to_owned(), (!meant.is_empty()).then(|| meant.to_owned()))
    }

    #[test]
    fn a_closed_schema_refuses_every_unknown_name_and_proposes_what_is_not_given_yet() {
        let schema = json!({"properties": {"owner": {}, "per_page": {}}, "additionalProperties": false});
        let given = ["owner", "ownr", "perPage", "zzz"];
        let expected = [told("ownr", ""), told("perPage", "per_page"), told("zzz", "")];
        assert_eq!(unknown(schema, &given), expected);
    }

    #[test]
    fn a_schema_that_does_not_say_refuses_only_what_looks_like_a_mistake() {
        let schema = json!({"properties": {"labels": {}, "q": {}}});
        assert_eq!(unknown(schema.clone(), &["labls", "trace"]), [told("labls", "labels")]);
        assert_eq!(unknown(schema, &["labels", "label", "trace"]), []);
        let schema = json!({"properties": {"q": {}}, "required": ["q"]});
        assert_eq!(unknown(schema.clone(), &["query"]), [told("query", "")], "something else is missing");
        assert_eq!(unknown(schema, &["q", "query"]), []);
        let schema = json!({"properties": {"start_date": {}, "end_date": {}}, "required": ["start_date"]});
        assert_eq!(unknown(schema, &["end"]), [told("end", "end_date")]);
    }

    #[test]
    fn a_name_in_another_unicode_form_is_the_declared_one() {
        let schema = json!({"properties": {"\u{e9}t\u{e9}": {}, "e\u{301}": {}, "plain": {}}});
        let names = DeclaredNames::of(schema.as_object().unwrap());
        for (given, declared) in [
            ("e\u{301}te\u{301}", "\u{e9}t\u{e9}"),
            ("\u{e9}", "e\u{301}"),
            ("e\u{301}", "e\u{301}"),
            ("Plain", "Plain"),
        ] {
            assert_eq!(names.meant(given), declared);
        }
    }

    #[test]
    fn names_that_may_be_declared_elsewhere_are_left_alone() {
        for open in [
            json!({"additionalProperties": true}),
            json!({"additionalProperties": {"type": "string"}}),
            json!({"patternProperties": {"^labl": {}}, "additionalProperties": false}),
            json!({"allOf": [{"properties": {"labls": {}}}]}),
            json!({"$ref": "#/$defs/all", "additionalProperties": false}),
        ] {
            let mut schema = open.as_object().unwrap().clone();
            schema.insert("properties".into(), json!({"labels": {}}));
            assert_eq!(unknown(schema.into(), &["labls"]), [], "{open}");
        }
    }

    #[test]
    fn what_is_required_and_has_a_default_is_not_missing() {
        let schema = json!({"properties": {"a": {"default": null}, "b": {}}, "required": ["a", "b", "c", 7]});
        let schema = schema.as_object().unwrap();
        assert_eq!(Names::of(schema).missing(&HashSet::new()), ["b"], "c is declared nowhere");
    }
}
