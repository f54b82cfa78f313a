//! Reads a call's arguments: a JSON object, bounded in bytes and depth.

use belljar_base::limits::Limits;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text::{self, suggest::likeness};
use belljar_protocol::depth_exceeds;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Longest part of a word from code that is shown, in characters.
const SAID_CHARS_MAX: usize = 40;
/// Longest description of a problem with an argument, in characters.
const DEFECT_CHARS_MAX: usize = 200;

/// How many calls with the largest allowed number of values may have their arguments parsed in memory at the same time.
const AT_ONCE: usize = 4;
/// Calls with fewer values do not count against that memory.
const VALUES_EACH: usize = 1_000;
/// Arguments with more bytes of JSON are large: reading and checking them takes milliseconds, and much longer on a busy
/// machine.
const LARGE_BYTES: usize = 64 * 1024;

/// The memory for the parsed arguments of all calls that are in progress.
#[derive(Debug)]
pub(super) struct ArgumentMemory(Semaphore);

impl ArgumentMemory {
    pub(super) fn new(limits: &Limits) -> Self {
        Self(Semaphore::new(AT_ONCE * limits.json_values_max / VALUES_EACH))
    }

    /// Waits until there is enough memory, which is free again when the returned permit is dropped.
    pub(super) async fn taken_by(&self, raw: &RawValue, limits: &Limits) -> Option<SemaphorePermit<'_>> {
        let values = text::json_weight(raw.get().as_bytes()).min(limits.json_values_max);
        match u32::try_from(values / VALUES_EACH) {
            Ok(0) | Err(_) => None,
            // The semaphore is never closed.
            Ok(count) => self.0.acquire_many(count).await.ok(),
        }
    }
}

/// Does work on arguments. If they are large, other tasks of the bridge's one thread go first, such as the sandbox's
/// heartbeat.
pub(super) async fn after_others<T>(raw: &RawValue, work: impl FnOnce() -> T) -> T {
    if raw.get().len() > LARGE_BYTES {
        tokio::task::yield_now().await;
    }
    work()
}

/// Refuses arguments with keys that the JSON library would take for its own.
///
/// # Errors
/// An object has such a key, at any depth.
pub(super) fn without_reserved_keys(raw: &RawValue) -> Result<(), ToolFault> {
    match text::has_reserved_key(raw.get().as_bytes()) {
        true => Err(invalid(
            "the arguments have a key that begins with $serde_json::private::, which belljar does not pass on".into(),
        )),
        false => Ok(()),
    }
}

/// Reads the arguments of a tool's call.
pub(super) fn object(raw: &RawValue, limits: &Limits) -> Result<Map<String, Value>, ToolFault> {
    let json = raw.get();
    if json.len() > limits.arguments_bytes_max {
        let mib = limits.arguments_bytes_max >> 20;
        return Err(invalid(format!("the arguments have {} bytes, limit {mib} MiB", json.len())));
    }
    let (values, values_max) = (text::json_weight(json.as_bytes()), limits.json_values_max);
    if values > values_max {
        let said = format!(
            "the arguments have {values} values and keys, of which an object counts as eight, limit {values_max}"
        );
        return Err(invalid(said).hint("hand them over in several calls"));
    }
    if depth_exceeds(json.as_bytes(), limits.json_depth_max) {
        return Err(invalid(format!("the arguments have nesting > {}", limits.json_depth_max)));
    }
    let mut parser = serde_json::Deserializer::from_str(json);
    // The depth was checked before.
    parser.disable_recursion_limit();
    match Value::deserialize(&mut parser) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(invalid("the arguments are no object".into())),
        Err(error) => Err(invalid(format!("the arguments cannot be read: {error}"))),
    }
}

/// Reads the arguments of a helper, by name.
pub(super) fn of_helper<T: DeserializeOwned>(
    helper: &str,
    raw: &RawValue,
    limits: &Limits,
) -> Result<T, ToolFault> {
    read(helper, object(raw, limits)?)
}

/// Reads arguments of a helper whose size and depth were checked before.
pub(super) fn read<T: DeserializeOwned>(helper: &str, arguments: Map<String, Value>) -> Result<T, ToolFault> {
    // From text: as a value, a number of another kind is only called an invalid number.
    let json = Value::Object(arguments).to_string();
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(&json)).map_err(|error| {
        let path = error.path().to_string();
        let said = error.inner().to_string();
        let said = said.rsplit_once(" at line ").map_or(&*said, |(said, _)| said);
        invalid(format!("{helper} cannot be called like this: {}", plainly(&path, said)))
    })
}

/// Translates serde's message about an argument into Python's words.
fn plainly(path: &str, said: &str) -> String {
    let shown = text::inert_excerpt(said, DEFECT_CHARS_MAX);
    if let Some(name) = said.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return format!("{name} is missing");
    }
    let kinds = said.split_once(": ").filter(|(kind, _)| ["invalid type", "invalid value"].contains(kind));
    let Some((found, wanted)) = kinds.and_then(|(_, rest)| rest.rsplit_once(", expected ")) else {
        return shown;
    };
    let found = match found.strip_prefix("string ") {
        Some(text) => text,
        // An example of such a message: floating point `1.5`.
        None => found.split_once('`').map_or(found, |(_, value)| value.trim_end_matches('`')),
    };
    let found = match found {
        "null" | "unit value" => "None",
        "true" => "True",
        "false" => "False",
        "map" => "a dict",
        "sequence" => "a list",
        other => other,
    };
    let wanted = match wanted {
        "f64" | "f32" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not below 0",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "a string" => "a str",
        "a boolean" => "True or False",
        "a sequence" => "a list",
        other if other == "a map" || other.starts_with("struct ") => "a dict",
        other => other,
    };
    text::inert_excerpt(&format!("{path} is {found}, and must be {wanted}"), DEFECT_CHARS_MAX)
}

/// The value that a word in an argument stands for. The case of letters does not matter. The error lists all words, the
/// most similar first.
pub(super) fn word<T: Copy>(
    helper: &str,
    parameter: &str,
    said: &str,
    known: &[(&str, T)],
) -> Result<T, ToolFault> {
    if let Some((_, meant)) = known.iter().find(|(word, _)| word.eq_ignore_ascii_case(said)) {
        return Ok(*meant);
    }
    let shown = text::inert_excerpt(said, SAID_CHARS_MAX);
    let mut words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    words.sort_by(|one, other| likeness(&shown, other).total_cmp(&likeness(&shown, one)));
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    Err(invalid(format!("{helper} has no {parameter} '{shown}'"))
        .hint(format!("{parameter} can be {}, or be left out", words.join(", "))))
}

fn invalid(message: String) -> ToolFault {
    ToolFault::new(FaultCode::InvalidArguments, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_waits_goes_before_large_arguments_and_not_before_small_ones() {
        for (bytes, goes_first) in [(LARGE_BYTES - 2, false), (LARGE_BYTES, true)] {
            let raw = RawValue::from_string(format!("\"{}\"", "x".repeat(bytes))).unwrap();
            let heart = tokio::spawn(async {});
            assert_eq!(after_others(&raw, || heart.is_finished()).await, goes_first);
        }
    }

    #[test]
    fn a_word_that_a_parameter_does_not_take_is_refused_with_those_that_it_takes_the_likest_first() {
        let known = [("signature", 1), ("summary", 2), ("full", 3)];
        assert_eq!(word("find", "detail", "Summary", &known).unwrap(), 2);
        for (said, shown, hint) in [
            ("ful", "ful", r#"detail can be "full", "summary", "signature", or be left out"#),
            (
                "\u{1b}sumary",
                "\\x1bsumary",
                r#"detail can be "summary", "signature", "full", or be left out"#,
            ),
        ] {
            let fault = word("find", "detail", said, &known).unwrap_err();
            assert_eq!(fault.code, FaultCode::InvalidArguments);
            assert_eq!((fault.message, fault.hint.as_str()), (format!("find has no detail '{shown}'"), hint));
        }
        let long = word("find", "detail", &"x".repeat(5_000), &known).unwrap_err();
        assert!(long.message.chars().count() < 100, "{}", long.message);
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only refusals are looked at")]
    struct TestArguments {
        name: String,
        seconds: Option<f64>,
        number: Option<u32>,
        #[serde(default)]
        tags: Vec<String>,
        #[serde(default)]
        is_on: bool,
    }

    #[test]
    fn an_argument_of_another_kind_is_named_in_the_words_of_python() {
        for (arguments, said) in [
            (r#"{}"#, "name is missing"),
            (r#"{"name": 3}"#, "name is 3, and must be a str"),
            (r#"{"name": null}"#, "name is None, and must be a str"),
            (r#"{"name": "x", "seconds": "hot"}"#, r#"seconds is "hot", and must be a number"#),
            (r#"{"name": "x", "number": -1}"#, "number is -1, and must be a whole number, not below 0"),
            (r#"{"name": "x", "number": 1.5}"#, "number is 1.5, and must be a whole number, not below 0"),
            (r#"{"name": "x", "tags": ["a", true]}"#, "tags[1] is True, and must be a str"),
            (r#"{"name": "x", "tags": {}}"#, "tags is a dict, and must be a list"),
            (r#"{"name": "x", "is_on": [1]}"#, "is_on is a list, and must be True or False"),
        ] {
            let raw = RawValue::from_string(arguments.to_owned()).unwrap();
            let refused = of_helper::<TestArguments>("f", &raw, &Limits::default()).unwrap_err();
            assert_eq!(refused.message, format!("f cannot be called like this: {said}"));
        }
        let long = Map::from_iter([("name".into(), serde_json::json!(["x".repeat(900)]))]);
        assert!(read::<TestArguments>("f", long).unwrap_err().message.chars().count() < 300);
    }

    fn refusal(json: &str) -> String {
        let limits = Limits { arguments_bytes_max: 3 << 20, json_depth_max: 3, ..Limits::default() };
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        object(&raw, &limits).unwrap_err().message
    }

    #[test]
    fn arguments_are_refused_for_size_depth_and_kind() {
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(3 << 20));
        assert_eq!(refusal(&large), "the arguments have 3145736 bytes, limit 3 MiB");
        assert_eq!(refusal(r#"{"a":[[[1]]]}"#), "the arguments have nesting > 3");
        let many = format!("{{\"a\":[{}1]}}", "1,".repeat(1_000_000));
        assert_eq!(
            refusal(&many),
            "the arguments have 1000011 values and keys, of which an object counts as eight, limit 1000000"
        );
        assert_eq!(refusal("[1]"), "the arguments are no object");
    }
}
