//! What is asked of a model and what it says, as chat completions write it; no input or output.

use belljar_base::text;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Longest name of a model, or of a reason to stop, in characters.
pub(super) const WORD_CHARS_MAX: usize = 200;

/// A request to a language model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Instructions on how to answer.
    pub system: Option<String>,
    /// The question, with all that it is about.
    pub prompt: String,
    /// The maximum number of tokens of the answer.
    pub max_tokens: u32,
    /// The temperature, from 0 to 2. `None` means the default of the model.
    pub temperature: Option<f64>,
}

/// The answer of a language model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    /// The answer.
    pub text: String,
    /// The model that has answered, by its own name.
    pub model: Option<String>,
    /// The reason for the end of the answer: `end_turn`, `max_tokens`, or another word.
    pub stop_reason: Option<String>,
    /// The tokens that were used, if the endpoint reports them.
    pub usage: Option<Usage>,
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Of what was asked.
    pub prompt_tokens: u64,
    /// Of what was said.
    pub completion_tokens: u64,
}

/// The key under which the endpoint takes the bound of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokensKey {
    /// As all have it, but for newer models of OpenAI.
    MaxTokens,
    /// As those do.
    MaxCompletionTokens,
}

impl ModelRequest {
    /// Tokens of what is asked, estimated.
    #[must_use]
    pub fn estimated_tokens(&self) -> u64 {
        estimated_tokens(&self.prompt) + self.system.as_deref().map_or(0, estimated_tokens)
    }

    /// The body of the request.
    pub(super) fn body(&self, model: &str, key: TokensKey) -> Vec<u8> {
        let message = |role: &str, text: &String| json!({"role": role, "content": text});
        let system = self.system.iter().map(|system| message("system", system));
        let messages: Vec<Value> = system.chain([message("user", &self.prompt)]).collect();
        let key = match key {
            TokensKey::MaxTokens => "max_tokens",
            TokensKey::MaxCompletionTokens => "max_completion_tokens",
        };
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(model));
        body.insert("messages".to_owned(), json!(messages));
        body.insert(key.to_owned(), json!(self.max_tokens));
        if let Some(temperature) = self.temperature {
            body.insert("temperature".to_owned(), json!(temperature));
        }
        Value::Object(body).to_string().into_bytes()
    }
}

impl Usage {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

/// About as many tokens as usual models make of a text: one for four characters of ASCII, one for each other.
#[must_use]
pub fn estimated_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().filter(|character| !character.is_ascii()).count();
    (ascii.div_ceil(4) + others) as u64
}

/// One word for why a model said no more, whoever has said it.
#[must_use]
pub fn stop_reason(said: &str) -> String {
    match said {
        "stop" | "endTurn" | "end_turn" => "end_turn".to_owned(),
        "length" | "maxTokens" | "max_tokens" => "max_tokens".to_owned(),
        "stopSequence" | "stop_sequence" => "stop_sequence".to_owned(),
        other => text::inert_excerpt(other, WORD_CHARS_MAX),
    }
}

/// The answer in a body, or what is wrong with it. The texts are as the service has written them: what is cut before it is
/// redacted can hold a part of the key.
pub(super) fn said(body: &[u8]) -> Result<ModelAnswer, String> {
    let reply: Reply = serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => "its answer is no chat completion".to_owned(),
        _ => "its answer is no JSON".to_owned(),
    })?;
    let choice = reply.choices.into_iter().next().ok_or("its answer has no choices")?;
    let Message { content, refusal } = choice.message;
    let text = match content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect(),
        None => {
            return Err(refusal.map_or_else(
                || "its answer has no text".to_owned(),
                |words| format!("the model refused: {words}"),
            ));
        }
    };
    Ok(ModelAnswer {
        text,
        model: reply.model,
        stop_reason: choice.finish_reason,
        usage: reply.usage.as_ref().and_then(usage),
    })
}

fn usage(said: &Value) -> Option<Usage> {
    let tokens = |key: &str| said.get(key).and_then(Value::as_u64);
    Some(Usage { prompt_tokens: tokens("prompt_tokens")?, completion_tokens: tokens("completion_tokens")? })
}

/// What a refusal says of its reason, in the ways of several services.
pub(super) fn reason(body: &[u8]) -> Option<Reason> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let said = ["/error/message", "/error", "/message", "/detail"].into_iter().find_map(text)?;
    Some(Reason { said, code: text("/error/code").unwrap_or_default() })
}

/// The reason for which the endpoint refused a request, in its own words.
pub(super) struct Reason {
    pub(super) said: String,
    pub(super) code: String,
}

#[derive(Deserialize)]
struct Reply {
    choices: Vec<Choice>,
    model: Option<String>,
    /// An answer whose cost cannot be read is one all the same.
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Content>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> ModelRequest {
        ModelRequest { system: None, prompt: "2+2?".into(), max_tokens: 5, temperature: None }
    }

    #[test]
    fn a_request_has_what_was_asked_and_nothing_else() {
        let body: Value = serde_json::from_slice(&asked().body("m", TokensKey::MaxTokens)).unwrap();
        assert_eq!(
            body,
            json!({"model": "m", "messages": [{"role": "user", "content": "2+2?"}], "max_tokens": 5})
        );
        let whole = ModelRequest { system: Some("Be brief.".into()), temperature: Some(0.5), ..asked() };
        let body: Value = serde_json::from_slice(&whole.body("m", TokensKey::MaxCompletionTokens)).unwrap();
        assert_eq!(
            body,
            json!({"model": "m", "max_completion_tokens": 5, "temperature": 0.5, "messages": [
                {"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}
            ]})
        );
    }

    #[test]
    fn an_answer_is_read_as_several_services_write_it() {
        let body = json!({"id": "x", "model": "m-1\n", "choices": [
            {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "4"}}
        ], "usage": {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}});
        assert_eq!(
            said(body.to_string().as_bytes()).unwrap(),
            ModelAnswer {
                text: "4".into(),
                model: Some("m-1\n".into()),
                stop_reason: Some("length".into()),
                usage: Some(Usage { prompt_tokens: 7, completion_tokens: 1 }),
            }
        );
        let odd = json!({"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": -1.5}});
        assert_eq!(said(odd.to_string().as_bytes()).unwrap().usage, None);
        let parts =
            json!({"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}}]});
        let read = said(parts.to_string().as_bytes()).unwrap();
        assert_eq!((read.text.as_str(), read.usage, read.stop_reason), ("ab", None, None));
    }

    #[test]
    fn what_is_no_answer_is_said_to_be_none() {
        for (body, wrong) in [
            ("<html>", "its answer is no JSON"),
            ("", "its answer is no JSON"),
            ("[1]", "its answer is no chat completion"),
            (r#"{"choices": []}"#, "its answer has no choices"),
            (r#"{"choices": [{"message": {"content": null}}]}"#, "its answer has no text"),
            (r#"{"choices": [{"message": {"content": 4}}]}"#, "its answer is no chat completion"),
            (
                r#"{"choices": [{"message": {"refusal": "I\u001b won't"}}]}"#,
                "the model refused: I\u{1b} won't",
            ),
            (r#"{"choices": [{"message": {"content": "\ud800"}}]}"#, "its answer is no JSON"),
        ] {
            assert_eq!(said(body.as_bytes()).unwrap_err(), wrong, "{body}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(said(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_refusal_s_reason_is_found_wherever_it_stands() {
        for body in [
            r#"{"error": {"message": "no", "code": "c"}}"#,
            r#"{"error": "no"}"#,
            r#"{"message": "no", "object": "error"}"#,
            r#"{"detail": "no"}"#,
        ] {
            assert_eq!(reason(body.as_bytes()).unwrap().said, "no", "{body}");
        }
        assert!(reason(b"no").is_none() && reason(br#"{"detail": [1]}"#).is_none());
    }

    #[test]
    fn tokens_are_estimated_and_reasons_to_stop_have_one_name_each() {
        assert_eq!([estimated_tokens(""), estimated_tokens("abcde"), estimated_tokens("größe")], [0, 2, 3]);
        assert_eq!(
            ["stop", "endTurn", "length", "tool\u{7}"].map(stop_reason),
            ["end_turn", "end_turn", "max_tokens", "tool\\x07"]
        );
    }
}
