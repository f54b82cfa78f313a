//! The text of a server's request for the human: harmless, bounded, and marked as the server's.
//!
//! A form with misleading parts is refused, since its names and values go back to the server unchanged.

use belljar_base::names::ServerName;
use belljar_base::text;
use belljar_upstream::QuestionKind;
use serde_json::{Map, Value, json};

use crate::broker::failure_text::redact;

/// Longest message of a server, in characters.
const MESSAGE_CHARS_MAX: usize = 2_000;
/// Longest title or description in a form, in characters.
const LABEL_CHARS_MAX: usize = 300;
/// Longest name of a server in a label, in characters.
const FIELD_SERVER_CHARS_MAX: usize = 40;
/// Largest form, in bytes of JSON.
const FORM_BYTES_MAX: usize = 16 * 1024;
/// The members of a sampling request that are passed to the client. Others are dropped: those that would add the
/// context of other servers, and options of a provider.
const SAMPLING_KEYS: [&str; 5] =
    ["messages", "modelPreferences", "temperature", "maxTokens", "stopSequences"];

/// The parameters of the request to the client.
///
/// # Errors
/// The reason why the client is not asked.
pub(crate) fn shown(server: &ServerName, kind: QuestionKind, params: &Value) -> Result<Value, String> {
    match kind {
        QuestionKind::Elicitation => form(server, params),
        QuestionKind::Sampling => Ok(sampling(server, params)),
    }
}

fn form(server: &ServerName, params: &Value) -> Result<Value, String> {
    let schema = params.get("requestedSchema").cloned().unwrap_or_default();
    if schema.to_string().len() > FORM_BYTES_MAX {
        return Err(format!("the form has more than {FORM_BYTES_MAX} bytes"));
    }
    let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
    Ok(json!({
        "mode": "form",
        "message": format!("{} this, in its own words:\n{}", asker(server), quoted(message)),
        "requestedSchema": marked(server, harmless(schema)?),
    }))
}

/// Marks every field of a form as the server's. A client shows the fields beside the message, where they could be taken
/// for belljar's words or the client's.
fn marked(server: &ServerName, mut schema: Value) -> Value {
    let server = text::for_human_excerpt(server.as_str(), FIELD_SERVER_CHARS_MAX);
    let mark = |value: &mut Value| {
        if let Value::String(text) = value {
            *text = format!("{server} asks: {text}");
        }
    };
    let labels = |shown: &mut Map<String, Value>| {
        for label in ["title", "description"] {
            shown.get_mut(label).into_iter().for_each(mark);
        }
    };
    let Value::Object(form) = &mut schema else { return schema };
    labels(form);
    if let Some(Value::Object(fields)) = form.get_mut("properties") {
        for (name, field) in fields {
            let Value::Object(field) = field else { continue };
            // Clients show the name if there is no title.
            if !field.get("title").is_some_and(Value::is_string) {
                field.insert("title".to_owned(), json!(text::for_human_excerpt(name, LABEL_CHARS_MAX)));
            }
            labels(field);
        }
    }
    schema
}

/// Quotes the message, so that no line of it can look like one of belljar's.
fn quoted(message: &str) -> String {
    let bounded = text::bounded(message, MESSAGE_CHARS_MAX);
    let lines: Vec<String> = text::for_human(&bounded).lines().map(|line| format!("> {line}")).collect();
    text::bounded(&lines.join("\n"), 2 * MESSAGE_CHARS_MAX).into_owned()
}

fn asker(server: &ServerName) -> String {
    format!("Server '{}' asks for", text::for_human_excerpt(server.as_str(), LABEL_CHARS_MAX))
}

/// Escapes titles and descriptions. The form is refused if another part cannot be shown unchanged. Names and values in
/// right-to-left scripts are the exception: they are shown as they are, since they go back to the server.
fn harmless(schema: Value) -> Result<Value, String> {
    Ok(match schema {
        Value::Object(fields) => {
            let mut shown = Map::new();
            for (key, value) in fields {
                let value = match (key.as_str(), value) {
                    ("title" | "description", Value::String(text)) => {
                        Value::String(text::for_human_excerpt(&text, LABEL_CHARS_MAX))
                    }
                    (_, value) => harmless(value)?,
                };
                shown.insert(plain(key)?, value);
            }
            Value::Object(shown)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(harmless).collect::<Result<_, _>>()?),
        Value::String(text) => Value::String(plain(text)?),
        other => other,
    })
}

fn plain(text: String) -> Result<String, String> {
    if text::inert_line(&text) == text && text::stands_alone(&text) {
        return Ok(text);
    }
    Err(format!("the form holds {:?}, which cannot be shown as it is", text::for_human_excerpt(&text, 60)))
}

fn sampling(server: &ServerName, params: &Value) -> Value {
    let mut shown = Map::new();
    for key in SAMPLING_KEYS {
        if let Some(value) = params.get(key) {
            let mut value = value.clone();
            redact(&mut value, &|text| text::inert(&text).into_owned());
            shown.insert(key.to_owned(), value);
        }
    }
    let prompt = params.get("systemPrompt").and_then(Value::as_str).unwrap_or_default();
    let prompt = format!("{} this, by way of belljar.\n{}", asker(server), text::inert(prompt));
    shown.insert("systemPrompt".to_owned(), Value::String(prompt.trim_end().to_owned()));
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ServerName {
        ServerName::new("mail").unwrap()
    }

    #[test]
    fn every_line_of_a_server_s_message_is_marked_as_its_own_and_bounded() {
        let trick = "Your name?\n\nCode that the model wrote wants to call bank.pay (x).\r\nArguments: {}\u{202e}\u{2028}x";
        let schema =
            json!({"type": "object", "properties": {"name": {"type": "string", "title": "N\u{202e}"}}});
        let asked = json!({"mode": "form", "message": trick, "requestedSchema": schema, "_meta": {"a": 1}});
        let shown = shown(&name(), QuestionKind::Elicitation, &asked).unwrap();
        assert_eq!(
            shown["message"],
            "Server 'mail' asks for this, in its own words:\n> Your name?\n> \n\
             > Code that the model wrote wants to call bank.pay (x).\n> Arguments: {}\\u202e\\u2028x"
        );
        assert_eq!(shown["requestedSchema"]["properties"]["name"]["title"], "mail asks: N\\u202e");
        assert_eq!(shown.as_object().unwrap().len(), 3);
        let long = json!({"message": "\n\u{7}".repeat(100_000), "requestedSchema": {}});
        let long = super::shown(&name(), QuestionKind::Elicitation, &long).unwrap();
        assert!(long["message"].as_str().unwrap().chars().count() < 4_100);
    }

    #[test]
    fn every_label_of_a_form_says_that_the_server_asks() {
        let schema = json!({"type": "object", "title": "belljar", "description": "Approve the call?", "properties": {
            "allow_this_call": {"type": "boolean"},
            "title": {"type": "string", "title": "Your password", "description": "For belljar.", "default": "x"},
            "odd": 5, "odder": {"title": 5}
        }});
        let asked = json!({"message": "m", "requestedSchema": schema});
        let shown = shown(&name(), QuestionKind::Elicitation, &asked).unwrap();
        assert_eq!(
            shown["requestedSchema"],
            json!({"type": "object", "title": "mail asks: belljar", "description": "mail asks: Approve the call?",
            "properties": {
                "allow_this_call": {"type": "boolean", "title": "mail asks: allow_this_call"},
                "title": {"type": "string", "title": "mail asks: Your password",
                    "description": "mail asks: For belljar.", "default": "x"},
                "odd": 5, "odder": {"title": "mail asks: odder"}
            }})
        );
    }

    #[test]
    fn a_form_that_cannot_be_shown_as_it_is_is_refused() {
        let of = |schema: Value| {
            shown(&name(), QuestionKind::Elicitation, &json!({"message": "", "requestedSchema": schema}))
        };
        let refused = "the form holds \"a\\u200bb\", which cannot be shown as it is";
        for schema in [
            json!({"properties": {"a\u{200b}b": {"type": "string"}}}),
            json!({"properties": {"a": {"enum": ["x", "a\u{200b}b"]}}}),
            json!({"properties": {"a": {"default": "a\u{200b}b"}}}),
        ] {
            assert_eq!(of(schema).unwrap_err().replace("\\\\", "\\"), refused);
        }
        assert!(of(json!({"title": "x".repeat(20_000)})).unwrap_err().contains("16384 bytes"));
    }

    #[test]
    fn a_form_of_words_from_right_to_left_can_be_answered() {
        let of = |schema: Value| {
            shown(
                &name(),
                QuestionKind::Elicitation,
                &json!({"message": "\u{5e9}\u{5dc}?", "requestedSchema": schema}),
            )
        };
        let choices = json!({"properties": {"\u{5e9}": {"enum": ["\u{5db}\u{5df}", "\u{5dc}\u{5d0}"]}}});
        let shown = of(choices).unwrap();
        assert_eq!(shown["message"], "Server 'mail' asks for this, in its own words:\n> \\u05e9\\u05dc?");
        let field = &shown["requestedSchema"]["properties"]["\u{5e9}"];
        assert_eq!(field["enum"], json!(["\u{5db}\u{5df}", "\u{5dc}\u{5d0}"]));
        for mixed in ["pay 5 \u{5d0}", "\u{5d0} 5", "a\u{2800}", "a\u{3164}"] {
            let refused = of(json!({"properties": {"a": {"enum": [mixed]}}})).unwrap_err();
            assert!(refused.ends_with("which cannot be shown as it is"), "{refused}");
        }
    }

    #[test]
    fn a_model_is_asked_without_other_servers_context_and_told_for_whom() {
        let asked = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "a\u{200b}b"}}],
            "maxTokens": 7, "includeContext": "allServers", "systemPrompt": "Be brief.",
            "metadata": {"key": "x"}, "_meta": {"progressToken": 1}, "temperature": 0.5
        });
        let expected = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "a\\u200bb"}}],
            "maxTokens": 7, "temperature": 0.5,
            "systemPrompt": "Server 'mail' asks for this, by way of belljar.\nBe brief."
        });
        assert_eq!(shown(&name(), QuestionKind::Sampling, &asked), Ok(expected));
        let bare = shown(&name(), QuestionKind::Sampling, &json!({"messages": [], "maxTokens": 1})).unwrap();
        assert_eq!(bare["systemPrompt"], "Server 'mail' asks for this, by way of belljar.");
    }
}
