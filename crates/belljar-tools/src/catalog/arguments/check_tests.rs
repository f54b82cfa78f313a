//! Claims about the messages on the arguments of calls, and that no schema makes the check long, deep or wrong.

use belljar_base::limits::Limits;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalog::contents::tests::{catalog, name};

/// The message for a call with these arguments, without the signature.
fn told(schema: &Value, arguments: &Value) -> String {
    match check(schema, arguments) {
        Ok(sent) => {
            assert_eq!(sent, *arguments.as_object().unwrap(), "what is sent is what came");
            "sent".to_owned()
        }
        Err(fault) => {
            assert_eq!(fault.code, FaultCode::InvalidArguments);
            fault.message.strip_prefix("nothing was sent to own.t").expect(&fault.message).to_owned()
        }
    }
}

fn check(schema: &Value, arguments: &Value) -> Result<Map<String, Value>, ToolFault> {
    let known = catalog(&[("own", json!([{"name": "t", "inputSchema": schema}]))]);
    let tool = known.server("own").unwrap().resolve("t").unwrap();
    checked(&name("own"), tool, arguments.as_object().unwrap().clone()).map(|checked| checked.arguments)
}

/// The message for one parameter `p` with this schema and value.
fn told_of(schema: Value, value: Value) -> String {
    let line = told(&json!({"type": "object", "properties": {"p": schema}}), &json!({ "p": value }));
    line.strip_prefix(": p: ").unwrap_or(&line).to_owned()
}

#[test]
fn defaults_behind_a_reference_that_leads_nowhere_make_a_call_unchecked() {
    let of = |reference: &str| {
        let schema = json!({"properties": {"mode": {"$ref": reference}},
            "$defs": {"my mode": {"$anchor": "mode", "default": "delete"}}});
        let item = json!({"name": "t", "inputSchema": schema});
        let tool = Tool::from_json(&item, &Limits::default()).unwrap();
        find_defaults(&tool)(&Map::new())
    };
    assert_eq!(of("#/$defs/my%20mode").unwrap()["mode"], json!("delete"));
    assert!(of("#mode").unwrap_err().contains("cannot be followed"));
}

#[test]
fn names_are_found_in_either_unicode_form_and_members_of_values_are_sent_as_they_are() {
    let forms = ["\u{e9}t\u{e9}", "e\u{301}te\u{301}"];
    for (listed, asked) in [(forms[0], forms[1]), (forms[1], forms[0])] {
        let schema = json!({"properties": {listed: {"type": "object"}}, "additionalProperties": false});
        let known = catalog(&[(listed, json!([{"name": listed, "inputSchema": schema}]))]);
        let server = known.server(asked).unwrap();
        let tool = server.resolve(asked).unwrap();
        let given = json!({asked: {asked: 1}});
        let sent = checked(&server.name, tool, given.as_object().unwrap().clone()).unwrap().arguments;
        assert_eq!(Value::Object(sent), json!({listed: {asked: 1}}));
        check_names(&server.name, tool, LiteralArguments::Names(&[asked.to_owned()])).unwrap();
    }
}

#[test]
fn what_is_sent_undeclared_is_known_and_nothing_else() {
    let of = |schema: Value, arguments: Value| {
        let item = json!({"name": "t", "inputSchema": schema});
        let tool = Tool::from_json(&item, &Limits::default()).unwrap();
        let undeclared = undeclared(&tool, arguments.as_object().unwrap());
        let said = undeclared.into_iter().map(|(name, meant)| match meant {
            Some(meant) => format!("{name}={meant}"),
            None => name.to_owned(),
        });
        said.collect::<Vec<_>>().join(",")
    };
    let declared = json!({"type": "object", "properties": {"a": {}}});
    assert_eq!(of(declared.clone(), json!({"a": 1, "x": 2, "y": 3})), "x,y");
    assert_eq!(of(json!({"type": "object", "properties": {}}), json!({"x": 1})), "x");
    assert_eq!(of(declared, json!({"a": 1})), "");
    let dates = json!({"type": "object", "properties": {"start_date": {}, "end_date": {}}});
    assert_eq!(of(dates.clone(), json!({"end": 1, "zzz": 2})), "end=end_date,zzz");
    assert_eq!(of(dates, json!({"end": 1, "end_date": 2})), "end");
    for allows in [
        json!({}),
        json!({"additionalProperties": true}),
        json!({"additionalProperties": {"type": "string"}}),
        json!({"$ref": "#/$defs/x"}),
        json!({"anyOf": [{"properties": {"x": {}}}]}),
    ] {
        assert_eq!(of(allows.clone(), json!({"x": 1})), "", "{allows}");
    }
}

#[test]
fn nothing_for_an_optional_parameter_is_left_out_and_for_a_required_one_refused() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"},
        "b": {"type": "string"}, "c": {"type": ["string", "null"]}, "d": {"type": "string", "default": null},
        "e": {"enum": ["x", "y"]}}});
    let given = json!({"a": "1", "b": null, "c": null, "d": null, "e": null});
    let sent = check(&schema, &given).unwrap();
    assert_eq!(Value::Object(sent), json!({"a": "1", "c": null, "d": null}));
    assert_eq!(told(&schema, &json!({"a": null})), ": a: expected str, got None");
}

#[test]
fn values_are_told_with_what_was_expected_and_what_came() {
    let model = json!({"type": "object", "properties": {"id": {"type": "integer"}, "tag": {"type": "string"}},
        "required": ["id"], "additionalProperties": false});
    for (schema, value, line) in [
        (json!({"type": "integer"}), json!("10"), "expected int, got str '10'; text is not converted"),
        (json!({"type": "number"}), json!("1.5"), "expected float, got str '1.5'; text is not converted"),
        (json!({"type": "integer"}), json!(1.5), "expected int, got float 1.5"),
        (json!({"type": "integer"}), json!(1.0), "sent"),
        (json!({"type": "integer"}), json!(true), "expected int, got bool True"),
        (json!({"type": "string"}), json!(10), "expected str, got int 10"),
        (json!({"type": "array"}), json!("a"), "expected list, got str 'a'; text is not converted"),
        (json!({"type": "object"}), json!([1, 2]), "expected dict, got list of 2"),
        (json!({"type": ["string", "null"]}), json!({}), "expected str | None, got empty dict"),
        (
            json!({"type": "string"}),
            json!({"a": 1, "b": 2, "c d": 3, "e": 4}),
            "expected str, got dict with 'a', 'b', 'c d', …",
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            json!("x"),
            "expected int | None, got str 'x'",
        ),
        (
            json!({"enum": ["open", "closed", 3, null]}),
            json!("opened"),
            "expected 'open' or 'closed' or 3 or None, got str 'opened'; did you mean 'open'?",
        ),
        (
            json!({"anyOf": [{"enum": ["open", "closed"], "type": "string"}, {"type": "null"}]}),
            json!("shut"),
            "expected 'open' or 'closed', got str 'shut'; did you mean 'closed'?",
        ),
        (json!({"const": "x"}), json!("y"), "expected 'x', got str 'y'"),
        (json!({"minimum": 1}), json!(0), "expected >= 1, got int 0"),
        (json!({"maximum": 1}), json!(2), "expected <= 1, got int 2"),
        (json!({"exclusiveMinimum": 1}), json!(1), "expected > 1, got int 1"),
        (json!({"exclusiveMaximum": 1}), json!(1), "expected < 1, got int 1"),
        (json!({"multipleOf": 5}), json!(7), "expected what the schema's 'multipleOf' allows, got int 7"),
        (json!({"minLength": 1}), json!(""), "expected at least 1 characters, got str ''"),
        (json!({"maxLength": 2}), json!("abc"), "expected at most 2 characters, got str 'abc'"),
        (json!({"minItems": 1}), json!([]), "expected at least 1 items, got list of 0"),
        (json!({"maxItems": 1}), json!([1, 2]), "expected at most 1 items, got list of 2"),
        (json!({"uniqueItems": true}), json!([1, 1]), "expected items that differ, got list of 2"),
        (json!({"minProperties": 1}), json!({}), "expected at least 1 keys, got empty dict"),
        (json!({"pattern": "^a+$"}), json!("b"), "expected text that matches '^a+$', got str 'b'"),
        (json!(false), json!(1), "not allowed here"),
        (
            json!({"not": {"type": "string"}}),
            json!("x"),
            "expected what the schema's 'not' allows, got str 'x'",
        ),
        (model.clone(), json!({"id": 1, "tga": "x"}), "unknown key 'tga'; did you mean 'tag'?"),
        (model.clone(), json!({"tag": "x"}), "missing key 'id'"),
        (
            json!({"anyOf": [model, {"type": "null"}]}),
            json!({"id": "x"}),
            ": p.id: expected int, got str 'x'; text is not converted",
        ),
    ] {
        assert_eq!(told_of(schema.clone(), value.clone()), line, "{schema} {value}");
    }
}

#[test]
fn places_are_written_as_python_does() {
    let inner = json!({"items": {"properties": {"a b": {"items": {"type": "integer"}}}}});
    let line = told_of(inner, json!([{}, {"a b": [1, "x"]}]));
    assert_eq!(line, ": p[1]['a b'][1]: expected int, got str 'x'; text is not converted");
}

#[test]
fn a_union_is_told_by_the_branch_that_was_meant() {
    let branch = |kind: &str, key: &str| json!({"type": "object", "properties": {"kind": {"const": kind}, key: {"type": "integer"}}, "required": [key]});
    let schema = json!({"oneOf": [branch("a", "x"), branch("b", "y")]});
    assert_eq!(told_of(schema.clone(), json!({"kind": "b"})), "missing key 'y'");
    assert_eq!(
        told_of(schema, json!({"kind": "c"})),
        "expected {kind?: Literal['a'], x: int} | {kind?: Literal['b'], y: int}, got dict with 'kind'"
    );
}

#[test]
fn names_come_first_then_values_and_the_rest_is_counted() {
    let schema = json!({"type": "object", "required": ["owner", "repo"], "additionalProperties": false,
        "properties": {"owner": {"type": "string"}, "repo": {"type": "string"}, "n": {"type": "integer"}}});
    let fault = check(&schema, &json!({"owner": "x", "rep": "y", "n": "1"})).unwrap_err();
    assert_eq!(
        fault.message,
        "nothing was sent to own.t, 3 problems:\n\
         - unknown parameter 'rep'; did you mean 'repo'?\n\
         - missing parameter 'repo': str\n\
         - n: expected int, got str '1'; text is not converted"
    );
    assert_eq!(fault.hint, "signature: t(*, owner: str, repo: str, n: int = ...)");
    let many: Map<String, Value> = (0..9).map(|n| (format!("x{n}"), json!(1))).collect();
    let line = told(&schema, &many.into());
    assert!(line.starts_with(", 11 problems:\n- unknown parameter 'x0'\n"), "{line}");
    assert!(line.ends_with("\n- unknown parameter 'x4'\n(+6 more)"), "{line}");
}

#[test]
fn what_servers_accept_is_sent_whatever_their_schemas_say() {
    for (schema, value) in [
        (json!({"type": "string", "default": null}), json!(null)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"enum": ["a"], "default": ""}), json!("")),
        (json!({"type": "string", "format": "email"}), json!("nobody")),
        (json!({"type": "string", "format": "date-time"}), json!("today")),
        (json!({"properties": {"q": {"default": 1}}, "required": ["q"]}), json!({})),
        (json!({"type": "string", "contentEncoding": "base64"}), json!("%")),
    ] {
        assert_eq!(told_of(schema.clone(), value.clone()), "sent", "{schema} {value}");
    }
    assert_eq!(told(&json!({}), &json!({"anything": 1})), "sent");
}

#[test]
fn what_cannot_be_judged_is_sent_and_the_rest_is_still_judged() {
    let wrong = "expected int, got str 'x'; text is not converted";
    for broken in [
        json!({"type": "any"}),
        json!({"type": 7}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "other.json#/a"}),
        json!({"$ref": "#/$defs/absent"}),
        json!({"$ref": "#anchor"}),
        json!({"$dynamicRef": "#node"}),
        json!({"pattern": "(?=a)b"}),
        json!({"pattern": "("}),
        json!({"pattern": "(a{9}){9}{9}{9}{9}{9}"}),
        json!({"required": "q"}),
        json!({"properties": []}),
        json!({"anyOf": []}),
        json!({"id": "x", "$id": "http://[", "title": 7, "description": {}, "default": {}}),
        json!("string"),
        json!(null),
    ] {
        let schema = json!({"properties": {"p": broken, "n": {"type": "integer"}}});
        assert_eq!(told(&schema, &json!({"p": "b"})), "sent", "{broken}");
        let line = told(&schema, &json!({"p": "b", "n": "x"}));
        assert_eq!(line, format!(": n: {wrong}"), "{broken}");
    }
    for hopeless in [json!({"minLength": "x"}), json!({"enum": 7}), json!({"minimum": []})] {
        let schema = json!({"properties": {"p": hopeless, "n": {"type": "integer"}}, "required": ["q"]});
        assert_eq!(told(&schema, &json!({"n": "x"})), "sent", "{hopeless}");
    }
}

#[test]
fn local_references_are_followed_also_to_themselves() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/t",
        "definitions": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
            "next": {"anyOf": [{"$ref": "#/definitions/node"}, {"type": "null"}]}}}},
        "properties": {"p": {"$ref": "#/definitions/node"}}
    });
    assert_eq!(told(&schema, &json!({"p": {"v": 1, "next": {"v": 2, "next": null}}})), "sent");
    let line = told(&schema, &json!({"p": {"v": 1, "next": {"v": "2", "next": null}}}));
    assert_eq!(line, ": p.next.v: expected int, got str '2'; text is not converted");
    let endless = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        "properties": {"p": {"$ref": "#/$defs/a"}}});
    assert_eq!(told(&endless, &json!({"p": 1})), "sent");
}

#[test]
fn names_of_a_call_in_code_are_judged_without_values() {
    let schema = json!({"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]});
    let known = catalog(&[("own", json!([{"name": "t", "inputSchema": schema}]))]);
    let tool = known.server("own").unwrap().resolve("t").unwrap();
    let told =
        |given: LiteralArguments<'_>| check_names(&name("own"), tool, given).map_err(|fault| fault.message);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    assert_eq!(told(LiteralArguments::Names(&names(&["a", "z"]))), Ok(()));
    assert_eq!(
        told(LiteralArguments::Names(&names(&["b"]))),
        Err("own.t: missing parameter 'a': int".into())
    );
    assert_eq!(told(LiteralArguments::Unknown), Ok(()));
    assert_eq!(told(LiteralArguments::ByPlace), Err("own.t: arguments are given by name only".into()));
}

#[test]
fn hostile_schemas_are_no_work_and_no_recursion() {
    let chain: Map<String, Value> = (0..60)
        .map(|n| (format!("d{n}"), json!({"properties": {"x": {"$ref": format!("#/$defs/d{}", n + 1)}}})))
        .collect();
    let schema =
        json!({"$defs": chain, "properties": {"p": {"$ref": "#/$defs/d0"}, "n": {"type": "integer"}}});
    assert!(told(&schema, &json!({"n": "x"})).contains("expected int"), "as deep as is compiled");
    let chain: Map<String, Value> = (0..10_000)
        .map(|n| (format!("d{n}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}]})))
        .collect();
    let schema =
        json!({"$defs": chain, "properties": {"p": {"$ref": "#/$defs/d0"}, "n": {"type": "integer"}}});
    assert_eq!(told(&schema, &json!({"n": "x"})), "sent");
    let wide: Map<String, Value> =
        (0..40_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    assert_eq!(told(&json!({ "properties": wide }), &json!({"p0": 1})), "sent");
    let many: Map<String, Value> = (0..120_000).map(|n| (format!("x{n}"), json!(1))).collect();
    assert_eq!(told(&json!({"properties": {"x": {}}, "additionalProperties": false}), &many.into()), "sent");
}

fn any_schema() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "enum",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "$ref",
        "required",
        "default",
        "const",
        "p",
        "nullable",
        "additionalProperties",
        "pattern",
        "patternProperties",
        "$defs",
        "$id",
        "$schema",
        "minimum",
        "maxLength",
        "prefixItems",
        "contains",
        "propertyNames",
        "dependencies",
        "format",
        "unevaluatedProperties",
        "$dynamicRef",
        "uniqueItems",
        "\u{202e}",
    ]);
    let texts = vec![
        "object",
        "array",
        "string",
        "integer",
        "#/properties/p",
        "#/$defs/p",
        "#",
        "#/allOf/0",
        "p",
        "(",
        "[a-z]*",
        "http://example.com/x",
        "http://json-schema.org/draft-04/schema#",
        "\u{1b}[2J\u{202e}",
    ];
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        prop::sample::select(texts).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((key.clone(), inner), 0..6).prop_map(|pairs| pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn any_schema_and_arguments_are_sent_or_refused_in_inert_bounded_text(
        schema in any_schema(), value in any_schema(), defs in any_schema()
    ) {
        let schema = json!({"properties": {"p": schema}, "allOf": [schema], "$defs": {"p": defs}});
        if let Err(fault) = check(&schema, &json!({"p": value})) {
            let text = format!("{}{}", fault.message, fault.hint);
            prop_assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
            prop_assert!(fault.message.chars().count() <= 1_200 && fault.hint.chars().count() <= 620, "{text}");
        }
    }
}
