//! Claims about everything that a server can send: no spelling brings a credential past the redaction.

use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::redaction;

/// Results, each with the method that it answers; `@` stands for the credential.
const RESULTS: &[(&str, &str)] = &[
    ("tools/call: text", r#"{"content":[{"type":"text","text":"a @ b"}],"_meta":{"@":["@"]}}"#),
    ("tools/call: structured", r#"{"content":[],"structuredContent":{"@":{"@":["@"]}}}"#),
    ("tools/call: error", r#"{"content":[{"type":"text","text":"@"}],"isError":true}"#),
    ("tools/call: link", r#"{"content":[{"type":"resource_link","uri":"x://@","name":"@","title":"@"}]}"#),
    ("tools/call: embedded", r#"{"content":[{"type":"resource","resource":{"uri":"x://@","blob":"AA=="}}]}"#),
    (
        "tools/call: question",
        r#"{"resultType":"input_required","inputRequests":{"q":{"params":{"message":"@"}}}}"#,
    ),
    (
        "tools/list",
        r#"{"tools":[{"name":"@","title":"@","description":"@","annotations":{"title":"@"},"outputSchema":{"@":"@"},
        "inputSchema":{"properties":{"@":{"title":"@","description":"@","enum":["@"],"default":"@","const":"@"}}}}]}"#,
    ),
    (
        "resources/list",
        r#"{"resources":[{"uri":"x://@","name":"@","title":"@","description":"@","mimeType":"@"}]}"#,
    ),
    ("resources/templates/list", r#"{"resourceTemplates":[{"uriTemplate":"x://@/{n}","name":"@"}]}"#),
    ("resources/read", r#"{"contents":[{"uri":"x://@","mimeType":"@","text":"@","_meta":{"@":"@"}}]}"#),
    ("resources/read: blob", r#"{"contents":[{"uri":"x://@","mimeType":"@","blob":"AA=="}]}"#),
    (
        "prompts/list",
        r#"{"prompts":[{"name":"@","description":"@","arguments":[{"name":"@","description":"@"}]}]}"#,
    ),
    (
        "prompts/get",
        r#"{"description":"@","messages":[{"role":"user","content":{"type":"text","text":"@"}}]}"#,
    ),
    ("completion/complete", r#"{"completion":{"values":["@"]}}"#),
    ("tasks/get", r#"{"task":{"taskId":"1","status":"failed","statusMessage":"@"}}"#),
];

/// Other messages, each with its kind.
const MESSAGES: &[(&str, &str)] = &[
    (
        "initialize",
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},
        "serverInfo":{"name":"@","title":"@","version":"@"},"instructions":"@"}}"#,
    ),
    ("error", r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"@","data":{"@":["@"]}}}"#),
    (
        "elicitation/create",
        r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"form","message":"@",
        "requestedSchema":{"type":"object","properties":{"@":{"type":"string","title":"@","description":"@","default":"@"},
        "choice":{"type":"string","enum":["@"],"enumNames":["@"]}}}}}"#,
    ),
    (
        "elicitation/create: address",
        r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"@",
        "url":"https://x.test/?k=@","elicitationId":"1"}}"#,
    ),
    (
        "sampling/createMessage",
        r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1,"systemPrompt":"@",
        "messages":[{"role":"user","content":{"type":"text","text":"@"}}],"stopSequences":["@"],"metadata":{"@":"@"}}}"#,
    ),
    ("an unknown request", r#"{"jsonrpc":"2.0","id":"q","method":"x/@","params":{"@":"@"}}"#),
    (
        "notifications/progress",
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"@"}}"#,
    ),
    (
        "notifications/message",
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"@","data":{"@":"@"}}}"#,
    ),
    (
        "notifications/cancelled",
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"@"}}"#,
    ),
    (
        "notifications/tools/list_changed",
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"@":"@"}}}"#,
    ),
    (
        "notifications/resources/updated",
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://@"}}"#,
    ),
    (
        "notifications/tasks/status",
        r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"1","status":"working","statusMessage":"@"}}"#,
    ),
];

/// Whether any text or key has the value, also if a text is parsed as JSON once more.
fn holds(json: &Value, value: &str) -> bool {
    let text_holds = |text: &str| {
        let inner = serde_json::from_str::<String>(&format!("\"{text}\""));
        text.contains(value) || inner.is_ok_and(|inner| inner.contains(value))
    };
    match json {
        Value::String(text) => text_holds(text),
        Value::Array(items) => items.iter().any(|item| holds(item, value)),
        Value::Object(fields) => fields.iter().any(|(key, field)| text_holds(key) || holds(field, value)),
        _ => false,
    }
}

/// The message that the bridge gets from a line.
fn read(answers: &mut RawResults, line: &str) -> Value {
    let line = line.replace('\n', "");
    let envelope: Envelope<'_> = serde_json::from_str(&line).unwrap();
    let kept = SentRequest::Kept { is_list: false, answer: None };
    answers
        .table
        .lock()
        .extend([(RequestId::Number(0), SentRequest::Initialize), (RequestId::Number(1), kept)]);
    let message = answers.read(line.as_bytes(), &envelope).unwrap();
    serde_json::to_value(message).unwrap()
}

/// Sends a request and reads this answer.
fn answered(answers: &mut RawResults, result: &str) -> PendingResult {
    let id = RequestId::Number(7);
    answers.table.lock().insert(id.clone(), SentRequest::Kept { is_list: false, answer: None });
    let awaited = answers.awaited(id);
    read(answers, &format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#));
    awaited
}

fn read_result(answers: &mut RawResults, result: &str) -> Box<RawValue> {
    match answered(answers, result).take().now_or_never().expect("a small result needs no thread") {
        Some(RawResult::Result(result)) => result,
        other => panic!("{other:?}"),
    }
}

/// The value as a JSON writer may write it: each character as `serde_json` does, or by its number.
fn spelled(value: &str, choices: &[u8]) -> String {
    let by_number = |character: char| {
        let units: Vec<u16> = character.encode_utf16(&mut [0; 2]).to_vec();
        units.iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
    };
    let choices = choices.iter().chain(&[0]).cycle();
    let written = |character: char| serde_json::to_string(&character).unwrap().trim_matches('"').to_owned();
    let spell = |(character, choice): (char, &u8)| match choice % 2 {
        0 if character != '"' => written(character),
        _ => by_number(character),
    };
    value.chars().zip(choices).map(spell).collect()
}

fn check_all(value: &str, spelled: &str) {
    let redaction = redaction::tests::of(&[("KEY", value)]);
    let mut answers = RawResults::of(redaction.clone(), Unread::default());
    for (what, result) in RESULTS {
        let result = read_result(&mut answers, &result.replace('@', spelled));
        let result: Value = serde_json::from_str(result.get()).unwrap();
        assert!(!holds(&result, value) && result.to_string().contains("[KEY]"), "{what}: {result}");
    }
    for (what, message) in MESSAGES {
        let message = read(&mut answers, &message.replace('@', spelled));
        assert!(!holds(&message, value), "{what}: {message}");
        // Members that are not used are lost, and with them some of the replaced texts.
        let is_whole = !["initialize", "/status", "list_changed"].iter().any(|lost| what.ends_with(lost));
        assert!(!is_whole || message.to_string().contains("[KEY]"), "{what}: {message}");
    }
    let around = "-".repeat(6 * value.len() + 60);
    for text in
        [format!("{around} {spelled}! {around}"), format!(r#"{{"{around}":"{spelled}","{around}":0}}"#)]
    {
        for said in [
            redaction.text(text.clone()),
            redaction.tail(text.as_bytes()),
            redaction.beginning(text.as_bytes()),
        ] {
            assert!(!holds(&Value::from(said.as_str()), value) && said.contains("[KEY]"), "{said}");
        }
    }
}

/// The bridge has one thread. A sandbox without a heartbeat for long counts the bridge as dead.
#[tokio::test]
async fn the_thread_beats_on_while_a_large_result_is_cleaned() {
    let mut answers = RawResults::of(redaction::tests::of(&[("KEY", "abc+def")]), Unread::default());
    let text = r"abc\u002Bdef ".repeat(LARGE_BYTES / 4);
    let awaited = answered(&mut answers, &format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#));
    let heart = tokio::spawn(async {});
    let Some(RawResult::Result(result)) = awaited.take().await else { panic!("no result") };
    assert!(heart.is_finished(), "nothing else was done meanwhile");
    assert!(result.get().contains("[KEY] [KEY]") && !result.get().contains("abc"));
}

#[test]
fn only_a_result_may_be_large_and_who_waits_for_something_else_is_told() {
    let mut answers = RawResults::default();
    let text = "x".repeat(LARGE_BYTES);
    let kept = SentRequest::Kept { is_list: false, answer: None };
    answers
        .table
        .lock()
        .extend([(RequestId::Number(0), SentRequest::Initialize), (RequestId::Number(1), kept)]);
    for (message, told) in [
        (format!(r#"{{"id":0,"result":{{"instructions":"{text}"}}}}"#), "Message"),
        (format!(r#"{{"id":1,"error":{{"code":-1,"data":"{text}"}}}}"#), "Message"),
        (format!(r#"{{"id":2,"method":"x","params":{{"a":"{text}"}}}}"#), "Refusal(Some(Number(2)))"),
        // The ids of a server's requests are its own.
        (format!(r#"{{"id":1,"method":"x","params":{{"a":"{text}"}}}}"#), "Refusal(Some(Number(1)))"),
        (
            format!(r#"{{"method":"notifications/message","params":{{"level":"info","data":"{text}"}}}}"#),
            "Nothing",
        ),
    ] {
        let envelope: Envelope<'_> = serde_json::from_str(&message).unwrap();
        let id = envelope.id.and_then(|id| serde_json::from_str(id.get()).ok());
        let why = match answers.read(message.as_bytes(), &envelope) {
            Err(why) => why,
            // rmcp reads this answer, and is told at once.
            Ok(read) => format!("{read:?}"),
        };
        assert!(why.contains("only a result may have more than 1048576"), "{told}: {}", why.len());
        if told != "Message" || id == Some(RequestId::Number(1)) {
            let done = answers.unreadable(message.as_bytes(), id, LineError::Misshapen(why));
            assert!(format!("{done:?}").starts_with(told), "{done:?}");
        }
    }
}

#[test]
fn of_a_large_error_the_code_and_the_beginning_stay() {
    let mut answers = RawResults::of(redaction::tests::of(&[("KEY", "abc+def")]), Unread::default());
    answers.table.lock().insert(RequestId::Number(1), SentRequest::Kept { is_list: false, answer: None });
    let text = "no: abc\\u002Bdef ".repeat(LARGE_BYTES / 8);
    let message = format!(r#"{{"id":1,"error":{{"code":-7,"message":"{text}","data":[1]}}}}"#);
    let said = format!("{:?}", read(&mut answers, &message));
    assert!(
        said.contains("-7") && said.contains("no: [KEY] no: [KEY]") && !said.contains("abc"),
        "{}",
        said.len()
    );
    assert!(said.len() < 2 * MESSAGE_BYTES_MAX, "{}", said.len());
}

#[test]
fn a_result_is_one_line_whatever_stands_between_its_parts() {
    let [pretty, line] = ["{\r\n  \"a\": [1,\n2],\n  \"b\": \"x\\ny\"\n}", r#"{"a": [1, 2], "b": "x\ny"}"#];
    let read = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
    let kept = in_one_line(read(pretty)).unwrap();
    assert!(!kept.get().contains(['\n', '\r']), "{}", kept.get());
    let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
    assert_eq!((value(kept.get()), in_one_line(read(line)).unwrap().get()), (value(line), line));
}

#[test]
fn escapes_hide_no_credential_on_any_path() {
    check_all("abc+def/ghi", r"abc\u002Bdef/ghi");
    check_all("abc+def/ghi", r"\u0061bc\u002bdef\/ghi");
    check_all("abc+def/ghi", r"abc\\u002Bdef\\/ghi");
    check_all("pass\"wörd🔑", r"pass\u0022w\u00F6rd\uD83D\uDD11");
    check_all("plain-0123456789", "plain-0123456789");
}

#[test]
fn settings_stay_in_questions_and_ids_stay_whole() {
    let mut answers = RawResults::of(redaction::tests::of(&[("KEY", "abc+def")]), Unread::default());
    let line = r#"{"jsonrpc":"2.0","id":"abc+def","method":"elicitation/create","params":{"message":"abc\u002Bdef in /srv/data",
        "requestedSchema":{"type":"object","properties":{}}}}"#;
    let message = read(&mut answers, line);
    assert_eq!(message["id"], "abc+def");
    assert_eq!(message["params"]["message"], "[KEY] in /srv/data");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_spelling_hides_a_credential_on_any_path(
        value in r#"[a-zA-Z0-9+=<>&'"/äß密🔑-]{6,16}"#,
        choices in proptest::collection::vec(any::<u8>(), 1..40),
        is_nested in any::<bool>(),
    ) {
        // The name of a key, or the value of another secret, would be replaced as well.
        prop_assume!(!"structuredContent inputRequests requestedSchema /srv/data".contains(&value));
        let once = spelled(&value, &choices);
        check_all(&value, &if is_nested { spelled(&once, &choices[choices.len() / 2..]) } else { once });
    }
}
