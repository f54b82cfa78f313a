//! Claims about results on the host: which are kept, which are dropped, and how they fill arguments.

use super::*;

fn handles(change: impl FnOnce(&mut Limits)) -> Handles {
    let mut limits = Limits::default();
    change(&mut limits);
    Handles::new(&limits)
}

fn keep(handles: &Handles, result: &Value) -> u64 {
    let server = ServerName::new("shop").unwrap();
    let result = RawValue::from_string(result.to_string()).unwrap();
    handles.keep(&server, ("orders", false), &result).unwrap()["handle"].as_u64().unwrap()
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn reference(number: u64, path: &Value) -> Value {
    json!({KEY: {"number": number, "path": path, "json": false}})
}

fn fill(handles: &Handles, arguments: Value) -> Result<FilledArguments, ToolFault> {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    handles.fill(arguments, true)
}

fn numbers(handles: &Handles) -> Vec<u64> {
    handles.list().as_array().unwrap().iter().map(|each| each["handle"].as_u64().unwrap()).collect()
}

#[test]
fn a_handle_stands_for_its_result_anywhere_in_the_arguments() {
    let handles = handles(|_| ());
    let rows = json!({"content": [], "structuredContent": {"rows": [{"id": 7}, {"id": 8}]}});
    let (rows, note) = (keep(&handles, &rows), keep(&handles, &text("two orders")));
    let arguments = json!({
        "all": reference(rows, &json!([])),
        "deep": [{"last": reference(rows, &json!(["rows", -1, "id"]))}],
        "note": reference(note, &json!([])),
        "plain": {"belljar": [1, null, "x"]},
    });
    let filled = fill(&handles, arguments).unwrap();
    let expected = json!({
        "all": {"rows": [{"id": 7}, {"id": 8}]},
        "deep": [{"last": 8}],
        "note": "two orders",
        "plain": {"belljar": [1, null, "x"]},
    });
    assert_eq!(Value::Object(filled.arguments), expected);
    assert!(filled.bytes > 30, "{}", filled.bytes);
}

#[test]
fn a_large_result_is_the_same_from_its_file() {
    let handles = handles(|_| ());
    let long = "ä".repeat(IN_MEMORY_BYTES_MAX);
    let number = keep(&handles, &text(&long));
    assert_eq!(handles.whole(number).unwrap().get(), text(&long).to_string());
    let filled = fill(&handles, json!({"body": reference(number, &json!([]))})).unwrap();
    assert_eq!(filled.arguments["body"], json!(long));
    assert_eq!(handles.whole(number).unwrap().get(), text(&long).to_string(), "it can be read again");
}

#[test]
fn those_that_were_used_least_recently_go_first() {
    let handles = handles(|limits| limits.handles_max = 2);
    let (first, second) = (keep(&handles, &text("1")), keep(&handles, &text("2")));
    handles.whole(first).unwrap();
    let third = keep(&handles, &text("3"));
    assert_eq!(numbers(&handles), [first, third]);
    let fault = handles.whole(second).unwrap_err();
    assert_eq!(
        (fault.code, fault.message.as_str()),
        (FaultCode::InvalidArguments, "handle 2 is not kept any more")
    );
    assert!(fault.hint.contains("the 2 results that were used last"));
    let fault = handles.whole(9).unwrap_err();
    assert_eq!(fault.message, "there is no handle 9");
}

#[test]
fn numbers_of_an_earlier_session_are_given_to_no_other_result() {
    let handles = handles(|_| ());
    let recorded = |text: &str| handles.recorded(&RawValue::from_string(text.to_owned()).unwrap());
    recorded(r#"{"handle": 4, "server": "shop"}"#);
    recorded(r#"{"content": []}"#);
    assert_eq!(keep(&handles, &text("new")), 5);
    assert_eq!(handles.whole(4).unwrap_err().message, "handle 4 is not kept any more");
}

#[test]
fn their_bytes_are_bounded_and_what_is_dropped_makes_room() {
    let size = text(&"x".repeat(100)).to_string().len() as u64;
    let handles = handles(|limits| limits.handles_bytes_max = 2 * size);
    let kept: Vec<u64> = (0..3).map(|_| keep(&handles, &text(&"x".repeat(100)))).collect();
    assert_eq!(numbers(&handles), kept[1..]);
    handles.forget(kept[1]);
    handles.forget(kept[1]);
    let another = keep(&handles, &text(&"x".repeat(100)));
    assert_eq!(numbers(&handles), [kept[2], another]);
    let large = keep(&handles, &text(&"x".repeat(1000)));
    assert_eq!(numbers(&handles), [large], "one that is larger than all is kept alone");
}

#[test]
fn what_one_call_may_send_is_bounded() {
    let handles = handles(|limits| limits.handle_arguments_bytes_max = 1 << 20);
    let number = keep(&handles, &json!({"content": [], "structuredContent": {"a": "x".repeat(600_000)}}));
    let whole = || reference(number, &json!([]));
    let a = || reference(number, &json!(["a"]));
    for arguments in [json!({"x": whole(), "y": whole()}), json!({"x": [a(), a()]})] {
        let fault = fill(&handles, arguments).err().unwrap();
        assert_eq!(fault.code, FaultCode::TooLarge);
        assert!(fault.message.ends_with("limit 1 MiB"), "{}", fault.message);
    }
    fill(&handles, json!({"x": whole()})).unwrap();
}

#[test]
fn deep_results_make_no_deeper_arguments_than_the_protocol_allows() {
    let deep = (0..6).fold(json!(1), |inner, _| json!([inner]));
    let handles = handles(|limits| limits.json_depth_max = 8);
    let number = keep(&handles, &json!({"content": [], "structuredContent": deep}));
    fill(&handles, json!({"x": [reference(number, &json!([]))]})).unwrap();
    let fault = fill(&handles, json!({"x": [[reference(number, &json!([]))]]})).err().unwrap();
    assert_eq!(fault.message, "with handle 1 the arguments have nesting > 8");
    fill(&handles, json!({"x": [[reference(number, &json!([0]))]]})).unwrap();
}

#[test]
fn binary_results_stay_from_servers_that_take_no_files() {
    let handles = handles(|_| ());
    let image = json!({"content": [{"type": "image", "mimeType": "image/png", "data": "aGk="}]});
    let (image, note) = (keep(&handles, &image), keep(&handles, &text("x")));
    let arguments = |number| Map::from_iter([("x".to_owned(), reference(number, &json!([])))]);
    let fault = handles.fill(arguments(image), false).err().unwrap();
    assert!(fault.message.contains("sandbox_files = false"), "{}", fault.message);
    assert_eq!(handles.fill(arguments(image), true).unwrap().arguments["x"], json!("aGk="));
    assert_eq!(handles.fill(arguments(note), false).unwrap().arguments["x"], json!("x"));
}

#[test]
fn what_is_no_handle_is_refused() {
    let handles = handles(|_| ());
    let number = keep(&handles, &text("x"));
    for (arguments, why) in [
        (json!({"x": {KEY: 1}}), "a handle cannot be read: "),
        (json!({"x": {KEY: {"number": 1, "file": "/etc/passwd"}}}), "a handle cannot be read: "),
        (json!({"x": {KEY: {"number": number}, "y": 1}}), "has others as well"),
        (json!({"x": reference(number, &json!(["y"]))}), "handle 1 (shop.orders) is no JSON: "),
        (json!({"x": reference(0, &json!([]))}), "there is no handle 0"),
    ] {
        let fault = fill(&handles, arguments).err().unwrap();
        assert_eq!(fault.code, FaultCode::InvalidArguments);
        assert!(fault.message.contains(why), "{}", fault.message);
    }
}
