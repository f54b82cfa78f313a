//! The values that a server may use for arguments that a call leaves out: the defaults of the tool's schema.
//!
//! Nothing is added to what is sent. The user's policy weighs these values as if the call had given them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::refs::target;
use crate::policy::{DecodingDepth, inner, may_be_nothing, may_hold_json};

/// The largest number of schemas that are visited for one call.
const SCHEMAS_MAX: usize = 20_000;
/// The largest number of lookups of a name in a schema for one call: some tenths of a second.
const LOOKS_MAX: usize = 1 << 20;
/// The largest sum of the texts that are decoded and parsed, in bytes. Each is parsed and decoded several times.
const TEXT_BYTES_MAX: usize = 512 * 1024;
/// The largest sum of the defaults of one call, in bytes. Code chooses how many items and members have them.
const DEFAULT_BYTES_MAX: usize = 4 << 20;
/// What each value takes beside its text, in bytes.
const VALUE_BYTES: usize = 64;
/// The largest depth of objects within objects.
const DEPTH_MAX: usize = 64;
/// Keywords whose subschemas describe the same value as the schema around them, or the JSON in its text. A keyword of the first list has one
/// subschema, of the second an array of subschemas, and of the third an object of subschemas.
const SAME_VALUE: [&str; 4] = ["contentSchema", "else", "if", "then"];
const SAME_VALUE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const SAME_VALUE_TABLES: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords with schemas of undeclared members, and of items.
const UNDECLARED: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
const ITEMS: [&str; 5] = ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"];
/// References whose target depends on the path that led to them.
const DYNAMIC: [&str; 2] = ["$dynamicRef", "$recursiveRef"];
const TOO_MANY: &str = "the tool's schema is too large for its defaults to be found";
const TOO_MANY_DEFAULTS: &str =
    "the defaults of the tool's schema are too large for so many items and members";
const TOO_MUCH_TEXT: &str = "the arguments have too many encoded texts for the defaults in them to be found";
const LEADS_NOWHERE: &str =
    "the tool's schema has a reference that cannot be followed, so that its defaults are not known";

/// A result, or the reason for which the defaults are not known.
type DefaultsResult<T> = Result<T, &'static str>;

/// The default of each argument that is absent, null or empty, or null if the argument has no default. Members of given
/// objects, and of JSON inside strings, are treated in the same way. Several defaults become a list. The default of an
/// object does not exclude the defaults of its members, because servers create an object that is null or absent.
///
/// # Errors
/// The reason why some defaults are unknown.
pub(super) fn defaults(
    schema: &Map<String, Value>,
    arguments: &Map<String, Value>,
) -> DefaultsResult<Map<String, Value>> {
    let mut search = Search {
        bases: bases(schema),
        schemas_left: SCHEMAS_MAX,
        looks_left: LOOKS_MAX,
        text_left: TEXT_BYTES_MAX,
        bytes_left: DEFAULT_BYTES_MAX,
        last_parts: (Vec::new(), false),
        within: Vec::new(),
    };
    search.of_object(
        &[schema],
        Some(arguments),
        SchemaPosition { depth: 0, nesting: DecodingDepth::OUTERMOST },
    )
}

/// The schemas to which a reference may be relative: the root, and each schema with an id.
fn bases(root: &Map<String, Value>) -> Vec<&Map<String, Value>> {
    let mut bases = vec![root];
    let mut waiting: Vec<&Value> = root.values().collect();
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                if ["$id", "id"].iter().any(|key| members.get(*key).is_some_and(Value::is_string)) {
                    bases.push(members);
                }
                waiting.extend(members.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    bases
}

/// The position at which a schema meets a value.
#[derive(Clone, Copy)]
struct SchemaPosition {
    depth: usize,
    nesting: DecodingDepth,
}

impl SchemaPosition {
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

struct Search<'s> {
    bases: Vec<&'s Map<String, Value>>,
    schemas_left: usize,
    looks_left: usize,
    text_left: usize,
    bytes_left: usize,
    /// The schemas that [`Self::have_parts`] was last asked about, and the answer.
    last_parts: (Vec<*const Map<String, Value>>, bool),
    /// The schemas of the absent objects around the current one. A schema that recurs within itself adds no defaults.
    within: Vec<*const Map<String, Value>>,
}

impl<'s> Search<'s> {
    fn spend(&mut self, schemas: usize) -> DefaultsResult<()> {
        self.schemas_left = self.schemas_left.checked_sub(schemas).ok_or(TOO_MANY)?;
        Ok(())
    }

    /// Spends lookups of a name in tables of schemas.
    fn look(&mut self, schemas: usize) -> DefaultsResult<()> {
        self.looks_left = self.looks_left.checked_sub(schemas).ok_or(TOO_MANY)?;
        Ok(())
    }

    fn spend_bytes(&mut self, name: &str, value: &Value) -> DefaultsResult<()> {
        let taken = VALUE_BYTES + name.len() + value.as_str().map_or(0, str::len);
        self.bytes_left = self.bytes_left.checked_sub(taken).ok_or(TOO_MANY_DEFAULTS)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.spend_bytes("", item)),
            Value::Object(members) => {
                members.iter().try_for_each(|(name, member)| self.spend_bytes(name, member))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// Whether the schemas describe members or items, so that JSON in a text may lack some of these. In doubt they do.
    fn have_parts(&mut self, schemas: &[&'s Map<String, Value>]) -> DefaultsResult<bool> {
        self.look(schemas.len())?;
        if !schemas.iter().map(|schema| std::ptr::from_ref(*schema)).eq(self.last_parts.0.iter().copied()) {
            let has_parts = |schema: &Map<String, Value>| {
                let mut keys = ["properties", "patternProperties"].iter().chain(&UNDECLARED).chain(&ITEMS);
                keys.any(|key| schema.get(*key).is_some_and(|part| part.is_object() || part.is_array()))
            };
            let have = self.expanded(schemas).map_or(true, |all| all.into_iter().any(has_parts));
            self.last_parts = (schemas.iter().map(|schema| std::ptr::from_ref(*schema)).collect(), have);
        }
        Ok(self.last_parts.1)
    }

    /// The defaults in an object that all of these schemas may describe; `given` is the object, if the call has it.
    fn of_object(
        &mut self,
        schemas: &[&'s Map<String, Value>],
        given: Option<&Map<String, Value>>,
        at: SchemaPosition,
    ) -> DefaultsResult<Map<String, Value>> {
        if at.depth == DEPTH_MAX {
            return Err(TOO_MANY);
        }
        let schemas = self.expanded(schemas)?;
        let mut implied = Map::new();
        self.look(schemas.len().saturating_mul(1 + given.map_or(0, Map::len)))?;
        let tables = schemas.iter().filter_map(|schema| schema.get("properties")?.as_object());
        let mut names: Vec<&str> = tables.clone().flat_map(Map::keys).map(String::as_str).collect();
        let of_given = given.into_iter().flat_map(Map::keys).map(String::as_str);
        names.extend(of_given.filter(|name| !tables.clone().any(|table| table.contains_key(*name))));
        for name in names {
            if implied.contains_key(name) {
                continue;
            }
            let given = given.and_then(|given| given.get(name));
            if matches!(given, Some(Value::Bool(_) | Value::Number(_))) {
                continue;
            }
            self.look(schemas.len())?;
            let mut of_name: Vec<_> =
                tables.clone().filter_map(|table| table.get(name)?.as_object()).collect();
            if given.is_some() {
                of_name.extend(self.of_undeclared(&schemas, name)?);
            }
            let mut values = Vec::new();
            if given.is_none_or(|value| may_be_nothing(value, at.nesting)) {
                values.push(self.of_absent(&of_name, at)?);
            }
            if let Some(value) = given {
                values.extend(self.of_given(&of_name, value, at)?);
            }
            if let Some(value) = one_or_all(values) {
                self.spend_bytes(name, &Value::Null)?;
                implied.insert(name.to_owned(), value);
            }
        }
        Ok(implied)
    }

    /// Further schemas that may describe a member with this name. Every pattern counts as a match: servers differ in
    /// how they interpret patterns.
    fn of_undeclared(
        &mut self,
        schemas: &[&'s Map<String, Value>],
        name: &str,
    ) -> DefaultsResult<Vec<&'s Map<String, Value>>> {
        let mut found = Vec::new();
        for schema in schemas {
            let patterns = schema.get("patternProperties").and_then(Value::as_object);
            found.extend(patterns.into_iter().flat_map(Map::values).filter_map(Value::as_object));
            let declares = |table: &Value| table.get(name).is_some();
            if !schema.get("properties").is_some_and(declares) {
                found.extend(UNDECLARED.iter().filter_map(|key| schema.get(*key)?.as_object()));
            }
        }
        self.look(schemas.len())?;
        self.spend(found.len())?;
        Ok(found)
    }

    fn of_given(
        &mut self,
        schemas: &[&'s Map<String, Value>],
        value: &Value,
        at: SchemaPosition,
    ) -> DefaultsResult<Option<Value>> {
        if schemas.is_empty() {
            return Ok(None);
        }
        Ok(match value {
            Value::Object(fields) => {
                let implied = self.of_object(schemas, Some(fields), at.deeper())?;
                (!implied.is_empty()).then_some(Value::Object(implied))
            }
            Value::Array(items) => {
                let of_items = self.of_items(schemas)?;
                if of_items.is_empty() {
                    return Ok(None);
                }
                let mut implied = Vec::new();
                for item in items {
                    implied.extend(self.of_given(&of_items, item, at.deeper())?);
                }
                (!implied.is_empty()).then_some(Value::Array(implied))
            }
            Value::String(text) if may_hold_json(text) && self.have_parts(schemas)? => {
                self.text_left = self.text_left.checked_sub(text.len()).ok_or(TOO_MUCH_TEXT)?;
                let mut implied = Vec::new();
                for (value, nesting) in &inner(text, at.nesting).readings {
                    implied.extend(self.of_given(
                        schemas,
                        value,
                        SchemaPosition { nesting: *nesting, ..at.deeper() },
                    )?);
                }
                one_or_all(implied)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    fn of_absent(&mut self, schemas: &[&'s Map<String, Value>], at: SchemaPosition) -> DefaultsResult<Value> {
        let expanded = self.expanded(schemas)?;
        let mut values: Vec<Value> = Vec::new();
        for default in expanded.iter().filter_map(|schema| schema.get("default")) {
            self.spend_bytes("", default)?;
            values.push(default.clone());
            values.extend(self.of_given(schemas, default, at.deeper())?);
        }
        let schemas: Vec<_> = expanded
            .into_iter()
            .filter(|schema| !self.within.contains(&std::ptr::from_ref(*schema)))
            .collect();
        let count = self.within.len();
        self.within.extend(schemas.iter().map(|schema| std::ptr::from_ref(*schema)));
        let fields = self.of_object(&schemas, None, at.deeper());
        self.within.truncate(count);
        let fields = fields?;
        let has_fields = !fields.is_empty();
        let of_members = Value::Object(fields);
        if has_fields && !values.contains(&of_members) {
            values.push(of_members);
        }
        Ok(one_or_all(values).unwrap_or(Value::Null))
    }

    fn of_items(
        &mut self,
        schemas: &[&'s Map<String, Value>],
    ) -> DefaultsResult<Vec<&'s Map<String, Value>>> {
        let expanded = self.expanded(schemas)?;
        let mut found = Vec::new();
        for schema in expanded {
            for items in ITEMS.iter().filter_map(|key| schema.get(*key)) {
                match items {
                    Value::Object(of_each) => found.push(of_each),
                    Value::Array(schemas) => found.extend(schemas.iter().filter_map(Value::as_object)),
                    _ => {}
                }
            }
        }
        self.look(found.len())?;
        Ok(found)
    }

    /// The schemas, with all that describe the same value: targets of references, and parts of combinations.
    fn expanded(
        &mut self,
        schemas: &[&'s Map<String, Value>],
    ) -> DefaultsResult<Vec<&'s Map<String, Value>>> {
        let mut found: Vec<&'s Map<String, Value>> = Vec::new();
        let mut known = BTreeSet::new();
        let mut waiting: Vec<&'s Map<String, Value>> = schemas.to_vec();
        while let Some(schema) = waiting.pop() {
            self.spend(1)?;
            if !known.insert(std::ptr::from_ref(schema)) {
                continue;
            }
            found.push(schema);
            waiting.extend(self.referred(schema)?);
            waiting.extend(SAME_VALUE.iter().filter_map(|key| schema.get(*key)?.as_object()));
            let lists = SAME_VALUE_LISTS.iter().filter_map(|key| schema.get(*key)?.as_array());
            waiting.extend(lists.flatten().filter_map(Value::as_object));
            let tables = SAME_VALUE_TABLES.iter().filter_map(|key| schema.get(*key)?.as_object());
            waiting.extend(tables.flat_map(Map::values).filter_map(Value::as_object));
        }
        Ok(found)
    }

    /// The schemas that this one refers to.
    fn referred(&mut self, schema: &'s Map<String, Value>) -> DefaultsResult<Vec<&'s Map<String, Value>>> {
        if DYNAMIC.iter().any(|key| schema.contains_key(*key)) {
            return Err(LEADS_NOWHERE);
        }
        let Some(reference) = schema.get("$ref") else { return Ok(Vec::new()) };
        let reference = reference.as_str().ok_or(LEADS_NOWHERE)?;
        self.spend(self.bases.len())?;
        if reference == "#" {
            return Ok(self.bases.clone());
        }
        let targets = self.bases.iter().filter_map(|base| target(reference, base));
        let targets: Vec<_> = targets.filter(|target| target.is_object() || target.is_boolean()).collect();
        if targets.is_empty() {
            return Err(LEADS_NOWHERE);
        }
        Ok(targets.into_iter().filter_map(Value::as_object).collect())
    }
}

/// The value if there is only one, or else the list of all.
fn one_or_all(mut values: Vec<Value>) -> Option<Value> {
    if values.len() > 1 { Some(Value::Array(values)) } else { values.pop() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: &Value, arguments: &Value) -> Option<Value> {
        defaults(schema.as_object().unwrap(), arguments.as_object().unwrap()).ok().map(Value::Object)
    }

    #[test]
    fn json_in_a_text_lacks_what_its_content_schema_describes() {
        let content = json!({"type": "object", "properties": {"force": {"default": true}}});
        let schema = json!({"properties": {
            "opts": {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
        }});
        let arguments = json!({"opts": "{}"});
        let implied = defaults(schema.as_object().unwrap(), arguments.as_object().unwrap()).unwrap();
        assert_eq!(Value::Object(implied), json!({"opts": {"force": true}}));
    }

    #[test]
    fn names_times_schemas_are_bounded() {
        let of = |schemas: usize, names: usize, value: Value| {
            let all: Vec<Value> = (0..schemas).map(|number| json!({"title": number})).collect();
            let schema = json!({"properties": {"v": {"allOf": all}}});
            let given: Map<String, Value> =
                (0..names).map(|name| (name.to_string(), value.clone())).collect();
            let arguments = json!({"v": given});
            defaults(schema.as_object().unwrap(), arguments.as_object().unwrap()).err()
        };
        for value in [json!("x"), json!(1), json!(true)] {
            assert_eq!((of(1, 20_000, value.clone()), of(100, 1_000, value.clone())), (None, None));
            assert_eq!(of(10_000, 20_000, value), Some(TOO_MANY));
        }
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
            (json!({"mode": " \u{200b}", "rows": []}), json!({"mode": "delete"})),
        ] {
            assert_eq!(of(&schema, &arguments), Some(implied), "{arguments}");
        }
    }

    #[test]
    fn a_default_does_not_hide_those_of_members() {
        let force = json!({"properties": {"force": {"default": true}}});
        let options = |default: Value| json!({"properties": {"options": {"anyOf": [force, {"type": "null"}], "default": default}}});
        for (default, arguments, implied) in [
            (json!(null), json!({}), json!([null, {"force": true}])),
            (json!(null), json!({"options": null}), json!([null, {"force": true}])),
            (json!("none"), json!({}), json!(["none", {"force": true}])),
            (json!({"a": 1}), json!({}), json!([{"a": 1}, {"force": true}])),
            (json!({"force": false}), json!({}), json!([{"force": false}, {"force": true}])),
            (json!("{}"), json!({}), json!(["{}", {"force": true}])),
        ] {
            assert_eq!(of(&options(default), &arguments), Some(json!({"options": implied})), "{arguments}");
        }
        assert_eq!(of(&options(json!(null)), &json!({"options": {"force": false}})), Some(json!({})));
    }

    #[test]
    fn defaults_are_found_within_json_in_a_text() {
        let force = json!({"force": true});
        let schema = json!({"properties": {
            "mode": {"default": "delete"},
            "options": {"properties": force_schema()},
            "rows": {"items": {"properties": force_schema()}},
        }});
        let given = |name: &str, value: Value| {
            of(&schema, &json!({"mode": "keep", "options": 1, "rows": 1, name: value}))
        };
        for (name, value, implied) in [
            ("options", json!("{}"), Some(force.clone())),
            ("options", json!(r#"{"force": null}"#), Some(force.clone())),
            ("options", json!(r#"{"force": false}"#), None),
            ("options", json!(r#""{}""#), Some(force.clone())),
            ("options", json!("%7B%7D"), Some(force.clone())),
            ("options", json!(r#"{"%66orce": 0}"#), Some(force.clone())),
            ("options", json!("null"), Some(force.clone())),
            ("options", json!("text"), None),
            ("rows", json!("[{}, 1]"), Some(json!([force]))),
            ("rows", json!(["{}", 1]), Some(json!([force]))),
            ("mode", json!("null"), Some(json!("delete"))),
            ("mode", json!(r#""""#), Some(json!("delete"))),
            ("mode", json!("%20"), Some(json!("delete"))),
            ("mode", json!("none"), None),
        ] {
            let expected = implied.map_or(json!({}), |implied| json!({name: implied}));
            assert_eq!(given(name, value.clone()), Some(expected), "{name} {value}");
        }
    }

    fn force_schema() -> Value {
        json!({"force": {"default": true}})
    }

    #[test]
    fn defaults_are_found_behind_every_keyword_that_applies_schemas() {
        let forced = json!({"properties": {"force": {"default": true}}});
        let mode = json!({"properties": {"mode": {"default": "delete"}}});
        let force = json!({"options": {"force": true}});
        let (options, delete) = (json!({"options": {}}), json!({"mode": "delete"}));
        for (schema, arguments, implied) in [
            (
                json!({"properties": {"mode": {"$ref": "#/$defs/My%20Mode"}}, "$defs": {"My Mode": {"default": "delete"}}}),
                json!({}),
                &delete,
            ),
            (
                json!({"properties": {"options": {"$ref": "#/definitions/Partial%3COptions%3E"}},
                "definitions": {"Partial<Options>": forced}}),
                options.clone(),
                &force,
            ),
            (json!({"if": mode}), json!({}), &delete),
            (json!({"if": {}, "then": mode}), json!({}), &delete),
            (json!({"if": {}, "else": mode}), json!({}), &delete),
            (json!({"dependentSchemas": {"a": mode}}), json!({"a": 1}), &delete),
            (json!({"dependencies": {"a": mode, "b": ["a"]}}), json!({"a": 1}), &delete),
            (json!({"additionalProperties": forced}), options.clone(), &force),
            (json!({"unevaluatedProperties": forced}), options.clone(), &force),
            (json!({"patternProperties": {"^o": forced}}), options.clone(), &force),
            (
                json!({"properties": {"options": {"patternProperties": {"": forced}}}}),
                json!({"options": {"x": {}}}),
                &json!({"options": {"x": {"force": true}}}),
            ),
            (json!({"additionalProperties": {"default": "delete"}}), json!({"mode": null}), &delete),
            (
                json!({"properties": {"mode": {}}, "additionalProperties": {"default": "delete"}}),
                json!({}),
                &json!({"mode": null}),
            ),
            (
                json!({"properties": {"rows": {"contains": forced}}}),
                json!({"rows": [{}]}),
                &json!({"rows": [{"force": true}]}),
            ),
            // In a schema with an id, a pointer begins at that schema.
            (
                json!({"properties": {"options": {"$id": "o", "properties": {"force": {"$ref": "#/$defs/f"}},
                "$defs": {"f": {"default": true}}}}}),
                options,
                &force,
            ),
            (
                json!({"properties": {"mode": {"$ref": "#/$defs/any"}}, "$defs": {"any": true}}),
                json!({}),
                &json!({"mode": null}),
            ),
        ] {
            assert_eq!(of(&schema, &arguments).as_ref(), Some(implied), "{schema}");
        }
    }

    #[test]
    fn a_reference_that_leads_nowhere_leaves_the_defaults_unknown() {
        let definition =
            json!({"$anchor": "mode", "$dynamicAnchor": "mode", "$id": "mode.json", "default": "delete"});
        for reference in [
            json!({"$ref": "#mode"}),
            json!({"$ref": "mode.json"}),
            json!({"$ref": "https://example.com/all#/$defs/mode"}),
            json!({"$ref": "#/$defs/other"}),
            json!({"$ref": 1}),
            json!({"$dynamicRef": "#mode"}),
            json!({"$recursiveRef": "#"}),
            json!({"allOf": [{"$ref": "#mode"}]}),
        ] {
            let schema = json!({"$id": "https://example.com/all", "properties": {"mode": reference},
                "$defs": {"mode": definition}});
            assert_eq!(of(&schema, &json!({})), None, "{reference}");
            assert_eq!(of(&schema, &json!({"mode": "keep"})), Some(json!({})), "{reference}");
        }
    }

    #[test]
    fn only_texts_that_may_be_json_with_members_or_items_are_read() {
        let object = json!({"properties": {"force": {"default": true}}});
        let schema = json!({"properties": {"content": {"type": "string"}, "list": {"items": {"type": "string"}},
            "options": object, "rows": {"items": object}}});
        let of = |name: &str, value: Value| {
            let mut arguments = json!({"content": "x", "list": ["x"], "options": 1, "rows": 1});
            arguments[name] = value;
            defaults(schema.as_object().unwrap(), arguments.as_object().unwrap())
        };
        let long = |text: &str| text.repeat(600_000 / text.len());
        for text in ["a,\"b\"\n", "<p width=100%>", "[x](y) ", "{\"a\": 1}, "] {
            assert_eq!(of("content", json!(long(text))), Ok(Map::new()), "{text}");
            assert_eq!(of("list", json!(vec![text; 600_000 / text.len()])), Ok(Map::new()), "{text}");
        }
        for text in ["a,\"b\"\n", "[x](y) "] {
            assert_eq!(of("options", json!(long(text))), Ok(Map::new()), "{text}");
        }
        assert_eq!(of("options", json!(long("100% "))), Err(TOO_MUCH_TEXT));
        assert_eq!(of("rows", json!(vec!["[1, {}]".repeat(5_000); 20])), Err(TOO_MUCH_TEXT));
    }

    #[test]
    fn the_bytes_of_defaults_are_bounded_for_the_whole_call() {
        for member in [json!({"default": "x".repeat(50_000)}), json!({"default": vec![0; 1_000]})] {
            let item = json!({"properties": {"a": member}});
            let schema = json!({"properties": {"v": {"items": item, "additionalProperties": item}}});
            let of = |v: Value| defaults(schema.as_object().unwrap(), json!({ "v": v }).as_object().unwrap());
            assert!(of(json!(vec![json!({}); 50])).is_ok());
            assert_eq!(of(json!(vec![json!({}); 100])), Err(TOO_MANY_DEFAULTS));
            let members: Map<String, Value> =
                (0..100).map(|number| (number.to_string(), json!({}))).collect();
            assert_eq!(of(Value::Object(members)), Err(TOO_MANY_DEFAULTS));
        }
        let name = "n".repeat(50_000);
        let schema = json!({"properties": {"v": {"items": {"properties": {name: {}}}}}});
        let of = |count: usize| {
            let arguments = json!({ "v": vec![json!({}); count] });
            defaults(schema.as_object().unwrap(), arguments.as_object().unwrap())
        };
        assert!(of(50).is_ok());
        assert_eq!(of(100), Err(TOO_MANY_DEFAULTS));
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
