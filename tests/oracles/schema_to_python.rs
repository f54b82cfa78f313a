//! What must hold of a tool's documents, whatever its server says: the input is a tool of `tools/list` as JSON, or an
//! array of them; any other text is put into all places where a tool has text.
//!
//! - Descriptions, titles, signatures and the texts of schemas are bounded and inert: no control, no direction mark,
//!   nothing invisible.
//! - A signature is one line of the little language that `tokens` reads: names, numbers, quoted texts, few marks; all
//!   brackets close. What is over the bound ends in an ellipsis.
//! - A stub is bounded and inert, and has one function; what Python finds in it is for `python` to say.
//! - A quoted text in it says what stands in the schema, to the character, or the beginning of it: no quote ends early.
//! - A schema in a document is the one that came, its keys as they were, since calls are made by them.
//! - A call is sent as it came, or refused in bounded, inert text.
//! - A search gives what the tool's document says, within a bound, and finds a tool by its own name.

use std::collections::BTreeSet;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::ToolFault;
use belljar_tools::catalog::{
    Catalog, Detail, LiteralArguments, Shapes, StatedLimits, Tool, capability_summary, check_names, checked,
    list_tools, search, tool_doc,
};
use serde_json::{Map, Value, json};

use crate::inert::{is_inert, is_inert_line};

/// Tools of one input.
const TOOLS_MAX: usize = 50;
const REFUSAL_CHARS_MAX: usize = 2_000;
const TITLE_CHARS_MAX: usize = 64;
/// What a search looks at; a longer name is not found by itself.
const QUERY_CHARS_MAX: usize = 1_000;

/// Checks what one server says of its tools.
pub fn check(bytes: &[u8]) {
    let limits = Limits::default();
    let items = match serde_json::from_slice(bytes) {
        Ok(Value::Array(items)) => items,
        Ok(item @ Value::Object(_)) => vec![item],
        _ => vec![spoken(&String::from_utf8_lossy(bytes))],
    };
    let tools: Vec<Tool> =
        items.iter().take(TOOLS_MAX).filter_map(|item| Tool::from_json(item, &limits).ok()).collect();
    let name = ServerName::new("own").unwrap();
    let about = items.first().and_then(|item| item["description"].as_str()).map(str::to_owned);
    let catalog = Catalog::new([(name.clone(), about, None)], &limits).with_tools(&name, Ok(tools), &limits);
    let server = catalog.server("own").unwrap();
    let shapes = Shapes::default();
    for tool in server.listed() {
        check_texts(tool, &limits);
        check_signature(tool, &limits);
        check_refusals(&name, tool);
        check_stub(tool, &shapes.stub(&server.name, tool), &limits);
        check_schema(tool, &tool_doc(server, tool, Detail::Full, &shapes)["inputSchema"]);
    }
    assert!(list_tools(server).as_array().is_some_and(|tools| tools.len() == server.listed().len()));
    assert!(is_inert(&capability_summary(&catalog, &[], &StatedLimits::default())));
    check_search(&catalog, &limits);
}

/// A tool that says this wherever it can say something.
pub fn spoken(text: &str) -> Value {
    json!({
        "name": text, "title": text, "description": text,
        "inputSchema": {
            "type": text, "description": text, "required": [text, "plain"],
            "properties": {
                text: {"type": "string", "description": text},
                "plain": {"enum": [text, 1], "default": text},
                "fixed": {"const": text},
                "far": {"$ref": text},
                "inner": {"properties": {text: {"const": text}}},
                "listed": {"type": "array", "items": {"enum": [text]}, "default": [text, {text: text}]},
            },
        },
        "outputSchema": {"properties": {text: {"anyOf": [{"const": text}, {"type": "null"}]}}},
        "annotations": {"title": text, text: text},
    })
}

fn check_texts(tool: &Tool, limits: &Limits) {
    assert!(is_inert(&tool.description), "{:?}", tool.description);
    assert!(tool.description.chars().count() <= limits.description_chars_max);
    let title = tool.title.as_deref().unwrap_or_default();
    assert!(is_inert_line(title) && title.chars().count() <= TITLE_CHARS_MAX, "{title:?}");
}

fn check_signature(tool: &Tool, limits: &Limits) {
    let line = &tool.signature;
    let chars = line.chars().count();
    assert!(chars <= limits.signature_chars_max && is_inert_line(line), "{line:?}");
    assert!(line.starts_with(&format!("{}(", tool.alias)), "{line}");
    let (tokens, rest) = tokens(line);
    let is_cut = chars == limits.signature_chars_max && line.ends_with('…');
    assert!(is_cut || (rest.is_empty() && brackets_close(&tokens)), "{line} is not read behind {rest:?}");
    let mut said = BTreeSet::new();
    texts(&tool.input_schema, &mut said);
    texts(&tool.output_schema.clone().unwrap_or_default(), &mut said);
    for token in &tokens {
        let Token::Text { said: text, .. } = token else { continue };
        let beginning = text.strip_suffix('…').unwrap_or(text);
        let is_said = said.contains(text.as_str())
            || (beginning != text && said.iter().any(|said| said.starts_with(beginning)));
        assert!(is_said, "{text:?} is quoted and not said: {line}");
    }
}

fn check_stub(tool: &Tool, stub: &str, limits: &Limits) {
    assert!(is_inert(stub) && stub.chars().count() <= limits.stub_chars_max, "{stub:?}");
    let head = format!("async def {}(", tool.alias);
    assert_eq!(stub.lines().filter(|line| line.starts_with("async def ")).count(), 1, "{stub}");
    assert!(stub.starts_with(&head) || stub.contains(&format!("\n{head}")), "{stub}");
}

/// All texts of a schema, keys included.
fn texts(schema: &Map<String, Value>, into: &mut BTreeSet<String>) {
    fn of_value(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::String(text) => {
                into.insert(text.clone());
            }
            Value::Array(items) => items.iter().for_each(|item| of_value(item, into)),
            Value::Object(members) => texts(members, into),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    for (key, value) in schema {
        into.insert(key.clone());
        of_value(value, into);
    }
}

/// Whatever the schema, a call is sent as it came, or refused in inert text.
fn check_refusals(server: &ServerName, tool: &Tool) {
    let said = ["plain", "fixed", "listed", "inner", "how"];
    for value in [json!(1), json!("x"), json!({"a": [null]}), json!([[]])] {
        let arguments: Map<String, Value> =
            said.iter().map(|name| ((*name).to_owned(), value.clone())).collect();
        match checked(server, tool, arguments.clone()) {
            Ok(sent) => assert_eq!(sent.arguments, arguments),
            Err(fault) => check_refusal(&fault),
        }
    }
    let names = said.map(str::to_owned);
    if let Err(fault) = check_names(server, tool, LiteralArguments::Names(&names)) {
        check_refusal(&fault);
    }
}

fn check_refusal(fault: &ToolFault) {
    assert!(fault.message.split('\n').all(is_inert_line) && is_inert_line(&fault.hint), "{fault:?}");
    assert!(fault.message.chars().count() + fault.hint.chars().count() <= REFUSAL_CHARS_MAX, "{fault:?}");
}

fn check_schema(tool: &Tool, shown: &Value) {
    fn same(came: &Value, shown: &Value) -> bool {
        match (came, shown) {
            (Value::String(came), Value::String(shown)) => {
                is_inert(shown) && (came == shown || !is_inert(came))
            }
            (Value::Array(came), Value::Array(shown)) => {
                came.len() == shown.len() && came.iter().zip(shown).all(|(came, shown)| same(came, shown))
            }
            (Value::Object(came), Value::Object(shown)) => {
                came.len() == shown.len()
                    && came.iter().zip(shown).all(|(came, shown)| came.0 == shown.0 && same(came.1, shown.1))
            }
            _ => came == shown,
        }
    }
    assert!(same(&Value::Object((*tool.input_schema).clone()), shown), "{shown} of {:?}", tool.input_schema);
}

fn check_search(catalog: &Catalog, limits: &Limits) {
    let server = catalog.server("own").unwrap();
    let (hits, total) = search(catalog, "", TOOLS_MAX, 0);
    assert_eq!((hits.len(), total), (server.listed().len(), server.listed().len()));
    // Every character of a text may be written as two in JSON; beside the texts stand some words.
    let chars_max = 2 * (limits.description_chars_max + limits.signature_chars_max + 500);
    for hit in &hits {
        let doc = hit.to_json(Detail::Summary, &Shapes::default());
        assert_eq!(doc["signature"], hit.tool().signature);
        let name_chars = hit.tool().name.as_str().chars().count();
        assert!(doc.to_string().chars().count() <= chars_max + 2 * name_chars, "{doc}");
        let name = hit.tool().name.as_str();
        let (found, _) = search(catalog, name, TOOLS_MAX, 0);
        let is_found = found.iter().any(|found| found.tool().name.as_str() == name);
        assert!(is_found || name.trim() != name || name_chars > QUERY_CHARS_MAX, "{doc} is not found");
    }
}

/// What a signature consists of.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// An identifier; whether an ellipsis says that it is longer.
    Name(String, bool),
    /// A number, without its sign.
    Number(String),
    /// A text in quotes: without its escapes, and as it stands there.
    Text {
        /// What it says.
        said: String,
        /// With quotes and escapes.
        written: String,
    },
    /// A mark.
    Mark(&'static str),
}

const MARKS: [&str; 17] =
    ["->", "...", "**", "…", "(", ")", "[", "]", "{", "}", ":", ",", "=", "|", "?", "*", "-"];

/// A line's tokens, and what is left where it is no signature any more.
pub fn tokens(line: &str) -> (Vec<Token>, &str) {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let after = |is_part: fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (token, behind) = if first == ' ' {
            rest = &rest[1..];
            continue;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let (name, behind) = rest.split_at(after(|c| c.is_ascii_alphanumeric() || c == '_'));
            let more = behind.strip_prefix('…');
            (Token::Name(name.to_owned(), more.is_some()), more.unwrap_or(behind))
        } else if first.is_ascii_digit() {
            let (number, behind) =
                rest.split_at(after(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | '+' | '-')));
            (Token::Number(number.to_owned()), behind)
        } else if first == '\'' {
            let Some((said, behind)) = quoted(&rest[1..]) else { break };
            let written = rest[..rest.len() - behind.len()].to_owned();
            (Token::Text { said, written }, behind)
        } else if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            (Token::Mark(mark), &rest[mark.len()..])
        } else {
            break;
        };
        found.push(token);
        rest = behind;
    }
    (found, rest)
}

/// A text up to its closing quote as Python reads it, and what comes behind; nothing when Python would not.
fn quoted(line: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = line.chars();
    loop {
        text.push(match characters.next()? {
            '\'' => return Some((text, characters.as_str())),
            '\\' => {
                let (character, behind) = escape(characters.as_str())?;
                characters = behind.chars();
                character
            }
            other => other,
        });
    }
}

/// The character that an escape stands for, from behind its backslash on.
fn escape(line: &str) -> Option<(char, &str)> {
    let kind = line.chars().next()?;
    let behind = &line[kind.len_utf8()..];
    let digits = match kind {
        '\\' | '\'' => return Some((kind, behind)),
        'n' => return Some(('\n', behind)),
        't' => return Some(('\t', behind)),
        'r' => return Some(('\r', behind)),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let (code, behind) = behind.split_at_checked(digits)?;
    Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, behind))
}

fn brackets_close(tokens: &[Token]) -> bool {
    let mut open = Vec::new();
    for token in tokens {
        let Token::Mark(mark) = token else { continue };
        match *mark {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" if open.pop() != Some(*mark) => return false,
            _ => {}
        }
    }
    open.is_empty()
}
