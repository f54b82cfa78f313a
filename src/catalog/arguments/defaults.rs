//! The values that a server may use for arguments that a call leaves out: the defaults of the tool's schema.
//!
//! Nothing is added to what is sent. The user's policy weighs these values as if the call had given them.

use serde_json::{Map, Value};

use super::super::refs::target;

/// Schemas that are looked at for one call.
const SCHEMAS_MAX: usize = 20_000;
/// Objects within objects.
const DEPTH_MAX: usize = 64;
/// Keywords with one schema, and with several, that describe the same value as the schema around them.
const SAME_VALUE: [&str; 2] = ["then", "else"];
const SAME_VALUE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// For each argument that is left out, null or empty, and for those within objects that are given: its default, or null
/// where there is none. Several defaults are the items of a list. `None`: finding them all would take too long.
pub(super) fn defaults(
    schema: &Map<String, Value>,
    arguments: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut search = Search { root: schema, schemas_left: SCHEMAS_MAX, within: Vec::new() };
    search.of_object(&[schema], Some(arguments), 0)
}

struct Search<'s> {
    root: &'s Map<String, Value>,
    schemas_left: usize,
    /// Schemas of absent objects around the one in hand: a schema within itself has no further defaults.
    within: Vec<*const Map<String, Value>>,
}

impl<'s> Search<'s> {
    /// What is implied in an object that all of these schemas may describe; `given`: the object, if the call has it.
    fn of_object(
        &mut self,
        schemas: &[&'s Map<String, Value>],
        given: Option<&Map<String, Value>>,
        depth: usize,
    ) -> Option<Map<String, Value>> {
        if depth == DEPTH_MAX {
            return None;
        }
        let schemas = self.expanded(schemas)?;
        let mut implied = Map::new();
        let tables = schemas.iter().filter_map(|schema| schema.get("properties")?.as_object());
        for name in tables.clone().flat_map(Map::keys) {
            if implied.contains_key(name) {
                continue;
            }
            let of_name: Vec<_> = tables.clone().filter_map(|table| table.get(name)?.as_object()).collect();
            let value = match given.and_then(|given| given.get(name)) {
                None | Some(Value::Null) => Some(self.of_absent(&of_name, depth)?),
                Some(Value::String(text)) if text.is_empty() => Some(self.of_absent(&of_name, depth)?),
                Some(value) => self.of_given(&of_name, value, depth)?,
            };
            implied.extend(value.map(|value| (name.clone(), value)));
        }
        Some(implied)
    }

    fn of_given(
        &mut self,
        schemas: &[&'s Map<String, Value>],
        value: &Value,
        depth: usize,
    ) -> Option<Option<Value>> {
        Some(match value {
            Value::Object(fields) => {
                let implied = self.of_object(schemas, Some(fields), depth + 1)?;
                (!implied.is_empty()).then_some(Value::Object(implied))
            }
            Value::Array(items) => {
                let of_items = self.of_items(schemas)?;
                if of_items.is_empty() {
                    return Some(None);
                }
                let mut implied = Vec::new();
                for item in items {
                    implied.extend(self.of_given(&of_items, item, depth + 1)?);
                }
                (!implied.is_empty()).then_some(Value::Array(implied))
            }
            _ => None,
        })
    }

    fn of_absent(&mut self, schemas: &[&'s Map<String, Value>], depth: usize) -> Option<Value> {
        let expanded = self.expanded(schemas)?;
        let mut values: Vec<Value> = Vec::new();
        for default in expanded.iter().filter_map(|schema| schema.get("default")) {
            values.push(default.clone());
            values.extend(self.of_given(schemas, default, depth + 1)?);
        }
        if values.is_empty() {
            let schemas: Vec<_> = expanded
                .into_iter()
                .filter(|schema| !self.within.contains(&std::ptr::from_ref(*schema)))
                .collect();
            let count = self.within.len();
            self.within.extend(schemas.iter().map(|schema| std::ptr::from_ref(*schema)));
            let fields = self.of_object(&schemas, None, depth + 1);
            self.within.truncate(count);
            values.extend(Some(fields?).filter(|fields| !fields.is_empty()).map(Value::Object));
        }
        Some(match values.len() {
            0 => Value::Null,
            1 => values.remove(0),
            _ => Value::Array(values),
        })
    }

    fn of_items(&mut self, schemas: &[&'s Map<String, Value>]) -> Option<Vec<&'s Map<String, Value>>> {
        let expanded = self.expanded(schemas)?;
        let mut found = Vec::new();
        for schema in expanded {
            for items in ["items", "prefixItems", "additionalItems"].iter().filter_map(|key| schema.get(*key))
            {
                match items {
                    Value::Object(of_each) => found.push(of_each),
                    Value::Array(schemas) => found.extend(schemas.iter().filter_map(Value::as_object)),
                    _ => {}
                }
            }
        }
        Some(found)
    }

    /// The schemas and all that describe the same value: behind references and in combinations.
    fn expanded(&mut self, schemas: &[&'s Map<String, Value>]) -> Option<Vec<&'s Map<String, Value>>> {
        let mut found: Vec<&'s Map<String, Value>> = Vec::new();
        let mut waiting: Vec<&'s Map<String, Value>> = schemas.to_vec();
        while let Some(schema) = waiting.pop() {
            self.schemas_left = self.schemas_left.checked_sub(1)?;
            if found.iter().any(|known| std::ptr::eq(*known, schema)) {
                continue;
            }
            found.push(schema);
            let referred = schema.get("$ref").and_then(Value::as_str);
            let referred = referred.and_then(|reference| match reference {
                "#" => Some(self.root),
                reference => target(reference, self.root)?.as_object(),
            });
            waiting.extend(referred);
            waiting.extend(SAME_VALUE.iter().filter_map(|key| schema.get(*key)?.as_object()));
            let lists = SAME_VALUE_LISTS.iter().filter_map(|key| schema.get(*key)?.as_array());
            waiting.extend(lists.flatten().filter_map(Value::as_object));
            let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
            waiting.extend(dependent.into_iter().flat_map(Map::values).filter_map(Value::as_object));
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: &Value, arguments: &Value) -> Option<Value> {
        defaults(schema.as_object().unwrap(), arguments.as_object().unwrap()).map(Value::Object)
    }

    #[test]
    fn defaults_are_found_wherever_a_schema_keeps_them() {
        let options =
            json!({"type": "object", "properties": {"force": {"type": "boolean", "default": true}}});
        for (schema, implied) in [
            (json!({"properties": {"mode": {"default": "delete"}}}), json!({"mode": "delete"})),
            (json!({"properties": {"mode": {}}}), json!({"mode": null})),
            (json!({"properties": {"mode": true}}), json!({"mode": null})),
            (json!({"properties": {"options": options}}), json!({"options": {"force": true}})),
            (
                json!({"properties": {"options": {"default": {"a": 1}, "allOf": [options]}}}),
                json!({"options": [{"a": 1}, {"force": true}]}),
            ),
            (
                json!({"$ref": "#/$defs/all", "$defs": {"all": {"allOf": [{"properties": {"mode": {"$ref": "#/$defs/mode"}}}]},
                "mode": {"default": "delete"}}}),
                json!({"mode": "delete"}),
            ),
            (
                json!({"properties": {"mode": {"anyOf": [{"default": "a"}, {"default": "b"}]}}}),
                json!({"mode": ["b", "a"]}),
            ),
            (
                json!({"oneOf": [{"properties": {"a": {"default": 1}}}, {"properties": {"b": {"default": 2}}}]}),
                json!({"b": 2, "a": 1}),
            ),
            (json!({}), json!({})),
        ] {
            assert_eq!(of(&schema, &json!({})), Some(implied), "{schema}");
        }
    }

    #[test]
    fn what_is_given_has_no_default_and_what_is_empty_has() {
        let schema = json!({"properties": {
            "mode": {"default": "delete"},
            "rows": {"items": {"properties": {"force": {"default": true}}}}
        }});
        for (arguments, implied) in [
            (json!({"mode": "keep", "rows": [{"force": false}, 3]}), json!({})),
            (
                json!({"mode": null, "rows": [{}, {"force": false}]}),
                json!({"mode": "delete", "rows": [{"force": true}]}),
            ),
            (json!({"mode": "", "rows": []}), json!({"mode": "delete"})),
        ] {
            assert_eq!(of(&schema, &arguments), Some(implied), "{arguments}");
        }
    }

    #[test]
    fn a_schema_within_itself_ends_and_an_endless_search_is_given_up() {
        let node = json!({"properties": {"next": {"$ref": "#"}, "force": {"default": true}}});
        assert_eq!(of(&node, &json!({})).unwrap()["next"]["force"], true);
        let branches: Map<String, Value> =
            (0..12).map(|n| (format!("p{n}"), json!({"$ref": format!("#/$defs/d{n}")}))).collect();
        let definitions: Map<String, Value> =
            (0..12).map(|n| (format!("d{n}"), json!({"properties": branches}))).collect();
        let wide = json!({"properties": branches, "$defs": definitions});
        assert_eq!(of(&wide, &json!({})), None);
    }
}
