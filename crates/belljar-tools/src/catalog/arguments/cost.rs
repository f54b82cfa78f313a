//! Estimates the work of a check before it is done, since a hostile schema or hostile arguments could make it take
//! forever.
//!
//! It judges nothing. It visits every place that a validator could visit, and stops at the bound.

use serde_json::{Map, Value};

use crate::catalog::refs::pointed;

/// The largest work of one check. Each schema that is applied to a value costs one step and further steps for the sizes
/// of both. These steps count once more for each keyword around the schema (a union, `not`, `if`) for which a value is
/// checked again.
const WORK_MAX: usize = 100_000;
/// The largest depth of nested and referenced schemas. A validator needs stack for each level.
const DEPTH_MAX: usize = 128;
/// The number of bytes of text that are as much work as one schema.
const TEXT_BYTES: usize = 256;

/// Whether arguments can be checked against a schema in a bounded time.
pub(super) fn is_bounded(schema: &Map<String, Value>, arguments: &Value) -> bool {
    CostCounter { root: schema, left: WORK_MAX }
        .of_object(schema, arguments, CostPosition { times: 1, depth: 0 })
        .is_some()
}

/// Counts the steps of a check, and stops at the bound.
struct CostCounter<'s> {
    root: &'s Map<String, Value>,
    left: usize,
}

/// The position at which a schema meets a value.
#[derive(Clone, Copy)]
struct CostPosition {
    /// How many times the position is visited, which grows with each union around it.
    times: usize,
    depth: usize,
}

impl CostCounter<'_> {
    fn of(&mut self, schema: &Value, value: &Value, at: CostPosition) -> Option<()> {
        match schema {
            Value::Object(schema) => self.of_object(schema, value, at),
            _ => self.spend(at.times),
        }
    }

    /// Adds the work of one schema and of all schemas that it leads to; `None` beyond the bound.
    fn of_object(&mut self, schema: &Map<String, Value>, value: &Value, at: CostPosition) -> Option<()> {
        if at.depth == DEPTH_MAX {
            return None;
        }
        let sizes: usize = schema.values().map(size).sum();
        self.spend((1 + sizes + size(value)).checked_mul(at.times)?)?;
        let at = CostPosition { depth: at.depth + 1, ..at };
        let again = CostPosition { times: at.times + 1, ..at };
        for (keyword, inner) in schema {
            match (keyword.as_str(), inner) {
                ("$ref", _) => {
                    let pointer = inner.as_str().and_then(|reference| reference.strip_prefix("#/"));
                    if let Some(target) = pointer.and_then(|pointer| pointed(pointer, self.root)) {
                        self.of(target, value, at)?;
                    }
                }
                ("anyOf" | "oneOf", Value::Array(schemas)) => {
                    schemas.iter().try_for_each(|schema| self.of(schema, value, again))?;
                }
                ("allOf", Value::Array(schemas)) => {
                    schemas.iter().try_for_each(|schema| self.of(schema, value, at))?;
                }
                ("not" | "if" | "then" | "else", _) => self.of(inner, value, again)?,
                ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                    schemas.values().try_for_each(|schema| self.of(schema, value, at))?;
                }
                _ => match value {
                    Value::Object(members) => self.of_members(keyword, inner, members, at)?,
                    Value::Array(items) => self.of_items(keyword, inner, items, at)?,
                    _ => {}
                },
            }
        }
        Some(())
    }

    fn of_members(
        &mut self,
        keyword: &str,
        inner: &Value,
        members: &Map<String, Value>,
        at: CostPosition,
    ) -> Option<()> {
        match (keyword, inner) {
            ("properties", Value::Object(schemas)) => {
                let mut met = schemas.iter().filter_map(|(name, schema)| Some((schema, members.get(name)?)));
                met.try_for_each(|(schema, member)| self.of(schema, member, at))
            }
            ("patternProperties", Value::Object(schemas)) => schemas.values().try_for_each(|schema| {
                members.iter().try_for_each(|(name, member)| {
                    self.spend((1 + name.len() / TEXT_BYTES) * at.times)?;
                    self.of(schema, member, at)
                })
            }),
            ("additionalProperties", _) => members.values().try_for_each(|member| self.of(inner, member, at)),
            ("propertyNames", _) => {
                members.keys().try_for_each(|name| self.of(inner, &Value::String(name.clone()), at))
            }
            _ => Some(()),
        }
    }

    fn of_items(&mut self, keyword: &str, inner: &Value, items: &[Value], at: CostPosition) -> Option<()> {
        match (keyword, inner) {
            ("items" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter().zip(items).try_for_each(|(schema, item)| self.of(schema, item, at))
            }
            ("items" | "additionalItems" | "contains", _) => {
                items.iter().try_for_each(|item| self.of(inner, item, at))
            }
            _ => Some(()),
        }
    }

    fn spend(&mut self, work: usize) -> Option<()> {
        self.left = self.left.checked_sub(work)?;
        Some(())
    }
}

/// The weight of a value without its parts.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() / TEXT_BYTES,
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bounded(schema: Value, arguments: Value) -> bool {
        is_bounded(schema.as_object().unwrap(), &arguments)
    }

    fn nested(depth: usize, mut value: Value, wrap: impl Fn(Value) -> Value) -> Value {
        for _ in 0..depth {
            value = wrap(value);
        }
        value
    }

    #[test]
    fn ordinary_arguments_and_long_texts_are_within_bounds() {
        let rows = json!({"properties": {"rows": {"items": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}}});
        let row = json!({"a": "x"});
        assert!(bounded(rows.clone(), json!({"rows": vec![row.clone(); 10_000]})));
        assert!(!bounded(rows, json!({"rows": vec![row; 20_000]})), "more than is looked at");
        let text = json!({"properties": {"text": {"type": "string", "pattern": "a*b"}}});
        assert!(bounded(text, json!({"text": "a".repeat(8 << 20)})));
    }

    #[test]
    fn a_schema_that_branches_at_every_level_is_beyond_them() {
        let node = json!({"$ref": "#/$defs/node"});
        let branches =
            json!({"anyOf": [{"properties": {"a": node}}, {"properties": {"a": node}, "required": ["b"]}]});
        let schema = json!({"$ref": "#/$defs/node", "$defs": {"node": branches}});
        let deep = |depth| nested(depth, json!(1), |value| json!({ "a": value }));
        assert!(bounded(schema.clone(), deep(5)));
        assert!(!bounded(schema, deep(30)));
    }

    #[test]
    fn a_schema_that_leads_to_itself_is_beyond_them() {
        assert!(!bounded(json!({"allOf": [{"$ref": "#/allOf/0"}]}), json!({})));
        let schema = json!({"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}, "properties": {"x": {"$ref": "#/$defs/a"}}});
        assert!(bounded(schema.clone(), json!({"y": 1})), "never met");
        assert!(!bounded(schema, json!({"x": 1})));
    }

    #[test]
    fn every_keyword_that_holds_a_schema_is_followed() {
        let endless = json!({"$ref": "#/$defs/endless"});
        for (schema, arguments) in [
            (json!({"patternProperties": {"a": endless}}), json!({"a": 1})),
            (json!({"additionalProperties": endless}), json!({"a": 1})),
            (json!({"propertyNames": endless}), json!({"a": 1})),
            (json!({"dependentSchemas": {"a": endless}}), json!({"a": 1})),
            (json!({"dependencies": {"a": endless}}), json!({"a": 1})),
            (json!({"if": endless}), json!({})),
            (json!({"then": endless}), json!({})),
            (json!({"oneOf": [true, endless]}), json!({})),
            (json!({"properties": {"a": {"items": endless}}}), json!({"a": [1]})),
            (json!({"properties": {"a": {"items": [true, endless]}}}), json!({"a": [1, 2]})),
            (json!({"properties": {"a": {"prefixItems": [endless]}}}), json!({"a": [1]})),
            (json!({"properties": {"a": {"contains": endless}}}), json!({"a": [1]})),
            (json!({"properties": {"a": {"additionalItems": endless}}}), json!({"a": [1]})),
        ] {
            let mut whole = schema.clone();
            whole["$defs"] = json!({"endless": {"allOf": [{"$ref": "#/$defs/endless"}]}});
            assert!(!bounded(whole, arguments), "{schema}");
        }
    }
}
