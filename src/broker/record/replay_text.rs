//! Texts about differences between a replay and its journal.

use belljar_base::digest;
use belljar_base::text;
use serde_json::{Map, Value};

use super::journal_form::JournalForm;
use crate::journal::{CallOutcome, RecordedCall, RecordedJson};

/// Longest value, in characters.
const VALUE_CHARS_MAX: usize = 300;
/// Longest name of a call, or of an argument, in characters.
const NAME_CHARS_MAX: usize = 200;
/// The largest number of arguments that are compared.
const ARGUMENTS_MAX: usize = 20;

/// The text about a call that was not recorded, beside the nearest recorded one. `recorded`: each recorded call, and
/// whether the replay has made it.
pub(super) fn unseen<'c>(
    form: &JournalForm,
    recorded: impl Iterator<Item = (&'c RecordedCall, bool)>,
) -> String {
    let server = form.server.as_deref().unwrap_or("runtime");
    let name = text::inert_excerpt(&format!("{server}.{}", form.tool), NAME_CHARS_MAX);
    let now = form.arguments.get();
    let of_same: Vec<(&RecordedCall, bool)> = recorded
        .filter(|(call, _)| (&call.begun.server, &call.begun.tool) == (&form.server, &form.tool))
        .collect();
    if of_same.is_empty() {
        return format!("{name} is called, which it was not\n  now:  {}", shown(now));
    }
    let hash = digest::sha256(now.as_bytes());
    if of_same.iter().any(|(call, _)| call.begun.arguments.sha256() == hash) {
        let equal = of_same.iter().filter(|(call, _)| call.begun.arguments.sha256() == hash);
        let times: u64 = equal.map(|(call, _)| call.times).sum();
        return format!("{name} is called more often than it was ({times})\n  now:  {}", shown(now));
    }
    let likeness = |(call, is_used): &(&RecordedCall, bool)| {
        let like = strsim::normalized_damerau_levenshtein(&shown(now), &written(&call.begun.arguments));
        // The new call more likely corresponds to a recorded call that the replay has not made yet.
        like - if *is_used { 1.0 } else { 0.0 }
    };
    let nearest = of_same.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let mut said = format!("{name} is called with other arguments\n  now:  {}", shown(now));
    if let Some((call, _)) = nearest {
        let kept = &call.begun.arguments;
        said.push_str(&format!("\n  then: {}", written(kept)));
        for line in differing(serde_json::from_str(now).ok(), kept.value()) {
            said.push_str(&format!("\n  {line}"));
        }
    }
    said
}

/// The text about an answer that differs from the recorded one.
pub(crate) fn difference(name: &str, came: &CallOutcome, now: Option<&str>) -> String {
    let then = match came {
        CallOutcome::Value(kept) | CallOutcome::ToolError(kept) => written(kept),
        CallOutcome::Planned { .. } | CallOutcome::Fault(_) => String::new(),
    };
    let now = now.map(shown).unwrap_or_default();
    format!("{name} answers otherwise\n  now:  {now}\n  then: {then}")
}

fn written(kept: &RecordedJson) -> String {
    match kept {
        RecordedJson::Whole(json) => shown(json.get()),
        RecordedJson::LeftOut { bytes, .. } => format!("({bytes} bytes, of which only the hash is kept)"),
    }
}

fn shown(json: &str) -> String {
    text::inert_excerpt(json, VALUE_CHARS_MAX)
}

/// A line for each argument in which two calls differ.
fn differing(now: Option<Value>, then: Option<Value>) -> Vec<String> {
    let (Some(Value::Object(now)), Some(Value::Object(then))) = (now, then) else { return vec![] };
    let name = |key: &str| text::inert_excerpt(key, NAME_CHARS_MAX);
    let value = |of: &Map<String, Value>, key: &str| of.get(key).map(|value| shown(&value.to_string()));
    let mut keys: Vec<&String> =
        now.keys().chain(then.keys().filter(|key| !now.contains_key(*key))).collect();
    keys.retain(|key| now.get(*key) != then.get(*key));
    keys.truncate(ARGUMENTS_MAX);
    let line = |key: &String| match (value(&now, key), value(&then, key)) {
        (Some(now), Some(then)) => format!("{}: {now} now, {then} then", name(key)),
        (Some(now), None) => format!("{}: {now} now, not given then", name(key)),
        (_, then) => format!("{}: not given now, {} then", name(key), then.unwrap_or_default()),
    };
    keys.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::journal::CallBegun;

    fn recorded(arguments: &str, bytes_max: usize) -> RecordedCall {
        let json = RawValue::from_string(arguments.to_owned()).unwrap();
        let (server, tool) = (Some("s".to_owned()), "write".to_owned());
        let arguments = RecordedJson::of(&json, bytes_max);
        RecordedCall {
            begun: CallBegun { run: 1, job: None, call: 1, server, tool, arguments, came: None },
            came: None,
            times: 1,
        }
    }

    fn said(now: &str, recorded: &[RecordedCall]) -> String {
        unseen(&JournalForm::of(Some("s"), "write", now), recorded.iter().map(|call| (call, false)))
    }

    #[test]
    fn the_nearest_call_that_is_kept_is_shown_with_what_differs() {
        let kept = [r#"{"path":"/other/file","text":"z"}"#, r#"{"gone":1,"path":"/a","text":"one"}"#];
        let kept = kept.map(|arguments| recorded(arguments, 100));
        assert_eq!(
            said("{\"text\":\"two\\u202e\",\"path\":\"/a\",\"new\":null}", &kept),
            "s.write is called with other arguments\n  \
             now:  {\"new\":null,\"path\":\"/a\",\"text\":\"two\\u202e\"}\n  \
             then: {\"gone\":1,\"path\":\"/a\",\"text\":\"one\"}\n  \
             new: null now, not given then\n  \
             text: \"two\\u202e\" now, \"one\" then\n  \
             gone: not given now, 1 then"
        );
    }

    #[test]
    fn one_that_nobody_has_asked_for_yet_is_nearer() {
        let kept = [recorded(r#"{"n":11}"#, 100), recorded(r#"{"n":99}"#, 100)];
        let form = JournalForm::of(Some("s"), "write", r#"{"n":12}"#);
        let used = unseen(&form, kept.iter().zip([true, false]));
        assert!(used.contains(r#"then: {"n":99}"#), "{used}");
    }

    #[test]
    fn a_call_that_was_never_made_or_too_often_is_said_to_be() {
        let kept = [recorded(r#"{"n":1}"#, 100), recorded(r#"{"n":1}"#, 0)];
        assert_eq!(
            said(r#"{"n":1}"#, &kept),
            "s.write is called more often than it was (2)\n  now:  {\"n\":1}"
        );
        let other = unseen(&JournalForm::of(None, "list_tools", "{}"), kept.iter().map(|call| (call, false)));
        assert_eq!(other, "runtime.list_tools is called, which it was not\n  now:  {}");
        let hashed = said(r#"{"n":2}"#, &kept[1..]);
        assert!(hashed.ends_with("then: (7 bytes, of which only the hash is kept)"), "{hashed}");
    }
}
