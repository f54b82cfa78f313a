//! Checks the arguments of a request to a model, and writes the answer for code; it sends no request.

use belljar_base::limits::Limits;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::broker::arguments;
use crate::models::{ModelAnswer, ModelRequest, Usage, estimated_tokens, stop_reason};

/// The helper's name.
pub(crate) const ASK_MODEL: &str = "ask_llm";
/// The server name of helpers in rules and in the audit log.
pub(crate) const RUNTIME: &str = "runtime";
/// The largest number of tokens that an answer may be allowed.
const ANSWER_TOKENS_MAX: u64 = 1_000_000;
/// The sentence before the code's own instructions, for the human to whom a client may show the request.
const ASKER: &str = "Code that runs in belljar's sandbox asks this.";

#[derive(Deserialize)]
struct Arguments {
    prompt: String,
    system: Option<String>,
    max_tokens: u64,
    temperature: Option<f64>,
}

/// Reads the request from the arguments.
pub(crate) fn asked(arguments: &Map<String, Value>, limits: &Limits) -> Result<ModelRequest, ToolFault> {
    let invalid = |message: String| ToolFault::new(FaultCode::InvalidArguments, message);
    let Arguments { prompt, system, max_tokens, temperature } =
        arguments::read(ASK_MODEL, arguments.clone())?;
    if prompt.trim().is_empty() {
        return Err(invalid("the prompt is empty".to_owned()));
    }
    let bytes = prompt.len() + system.as_deref().map_or(0, str::len);
    if bytes > limits.model_prompt_bytes_max {
        let kib = limits.model_prompt_bytes_max >> 10;
        let message = format!("prompt and context have {bytes} bytes, limit {kib} KiB");
        return Err(ToolFault::new(FaultCode::TooLarge, message)
            .hint("cut the text with runtime.chunk(...), and ask of the parts that matter with runtime.map_llm(...)"));
    }
    if !(1..=ANSWER_TOKENS_MAX).contains(&max_tokens) {
        return Err(invalid(format!("max_tokens is {max_tokens}, outside 1 to {ANSWER_TOKENS_MAX}")));
    }
    if let Some(temperature) = temperature.filter(|temperature| !(0.0..=2.0).contains(temperature)) {
        return Err(invalid(format!("temperature is {temperature}, outside 0 to 2")));
    }
    let max_tokens = u32::try_from(max_tokens).unwrap_or(u32::MAX);
    Ok(ModelRequest { system, prompt, max_tokens, temperature })
}

/// The request to a client; `name` is the model that the user prefers. The human may read it: nothing in it is hidden.
pub(crate) fn sampling(asked: &ModelRequest, name: Option<&str>) -> Value {
    let own = asked.system.as_deref().unwrap_or_default();
    let mut params = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": text::inert(&asked.prompt)}}],
        "systemPrompt": format!("{ASKER}\n{}", text::inert(own)).trim_end(),
        "maxTokens": asked.max_tokens,
    });
    if let Some(temperature) = asked.temperature {
        params["temperature"] = json!(temperature);
    }
    if let Some(name) = name {
        params["modelPreferences"] = json!({"hints": [{"name": name}]});
    }
    params
}

/// Reads the answer of the client's model, or returns what is wrong with it.
pub(super) fn sampled(result: &Value, limits: &Limits) -> Result<ModelAnswer, String> {
    let content = match &result["content"] {
        Value::Array(blocks) => blocks.iter().collect(),
        block => vec![block],
    };
    let texts: Vec<&str> = content.into_iter().filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() {
        return Err("the client's answer has no text".to_owned());
    }
    let text = texts.concat();
    if text.len() > limits.model_answer_bytes_max {
        return Err(format!("the client's answer has more than {} bytes", limits.model_answer_bytes_max));
    }
    let word = |key: &str| result[key].as_str();
    Ok(ModelAnswer {
        text,
        model: word("model").map(|name| text::inert_excerpt(name, 200)),
        stop_reason: word("stopReason").map(stop_reason),
        usage: None,
    })
}

/// The tokens that an answer has cost, and whether they are estimated.
pub(super) fn cost(asked: &ModelRequest, said: &ModelAnswer) -> (Usage, bool) {
    let estimated =
        || Usage { prompt_tokens: asked.estimated_tokens(), completion_tokens: estimated_tokens(&said.text) };
    (said.usage.unwrap_or_else(estimated), said.usage.is_none())
}

/// The answer as code gets it.
pub(crate) fn answer(said: &ModelAnswer, (usage, is_estimated): (Usage, bool)) -> Value {
    json!({
        "text": said.text,
        "model": said.model,
        "stop_reason": said.stop_reason,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total(),
            "estimated": is_estimated,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: Value) -> (FaultCode, String) {
        let limits = Limits { model_prompt_bytes_max: 2048, ..Limits::default() };
        let fault = asked(arguments.as_object().unwrap(), &limits).unwrap_err();
        (fault.code, fault.message)
    }

    #[test]
    fn each_wrong_argument_is_said() {
        use FaultCode::{InvalidArguments, TooLarge};
        for (arguments, code, message) in [
            (
                json!({"max_tokens": 1}),
                InvalidArguments,
                "ask_llm cannot be called like this: prompt is missing",
            ),
            (json!({"prompt": " \n", "max_tokens": 1}), InvalidArguments, "the prompt is empty"),
            (
                json!({"prompt": "x".repeat(2049), "max_tokens": 1}),
                TooLarge,
                "prompt and context have 2049 bytes, limit 2 KiB",
            ),
            (
                json!({"prompt": "x", "max_tokens": 0}),
                InvalidArguments,
                "max_tokens is 0, outside 1 to 1000000",
            ),
            (
                json!({"prompt": "x", "max_tokens": 1, "temperature": 2.5}),
                InvalidArguments,
                "temperature is 2.5, outside 0 to 2",
            ),
        ] {
            assert_eq!(refused(arguments), (code, message.to_owned()));
        }
    }

    #[test]
    fn a_client_is_shown_who_asks_and_nothing_hidden() {
        let asked = ModelRequest {
            system: Some("Be \u{202e}brief.".into()),
            prompt: "a\u{200b}b".into(),
            max_tokens: 7,
            temperature: None,
        };
        assert_eq!(
            sampling(&asked, Some("m")),
            json!({
                "messages": [{"role": "user", "content": {"type": "text", "text": "a\\u200bb"}}],
                "systemPrompt": "Code that runs in belljar's sandbox asks this.\nBe \\u202ebrief.",
                "maxTokens": 7,
                "modelPreferences": {"hints": [{"name": "m"}]},
            })
        );
    }

    #[test]
    fn a_client_s_answer_is_read_and_its_cost_estimated() {
        let limits = Limits { model_answer_bytes_max: 10, ..Limits::default() };
        let asked =
            ModelRequest { system: None, prompt: "12345678".into(), max_tokens: 7, temperature: None };
        let result = json!({"role": "assistant", "model": "m", "stopReason": "endTurn", "content": {"type": "text", "text": "four"}});
        let said = sampled(&result, &limits).unwrap();
        assert_eq!(
            answer(&said, cost(&asked, &said)),
            json!({"text": "four", "model": "m", "stop_reason": "end_turn", "usage": {
                "prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3, "estimated": true
            }})
        );
        let blocks = json!({"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]});
        assert_eq!(sampled(&blocks, &limits).unwrap().text, "ab");
        assert_eq!(
            sampled(&json!({"content": {"type": "image"}}), &limits).unwrap_err(),
            "the client's answer has no text"
        );
        let long = json!({"content": {"type": "text", "text": "12345678901"}});
        assert_eq!(sampled(&long, &limits).unwrap_err(), "the client's answer has more than 10 bytes");
    }
}
