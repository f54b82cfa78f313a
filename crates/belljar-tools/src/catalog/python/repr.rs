//! Parses the `repr` of a Python list or dict, which some tools return as text.
//!
//! It accepts what the sandbox accepts (entrypoint/belljar_sandbox/wire/python_literal.py), within the same bounds.

use std::iter::Peekable;
use std::str::Chars;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

const CHARS_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 100;
/// The largest number of digits of an integer that Python reads.
const DIGITS_MAX: usize = 4300;

/// Constructors of values that rows of databases have, as `repr` writes them; numbers of numpy aside.
const MAKERS: [&str; 7] = [
    "Decimal",
    "UUID",
    "datetime.date",
    "datetime.datetime",
    "datetime.time",
    "datetime.timedelta",
    "datetime.timezone",
];
/// The parameters that `repr` names.
const KEYWORDS: [&str; 5] = ["days=", "seconds=", "microseconds=", "tzinfo=", "fold="];

/// A literal of Python.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    /// An integer, in its written form.
    Int(String),
    Float(f64),
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Literal>),
    Tuple(Vec<Literal>),
    Dict(Vec<(Literal, Literal)>),
    /// A date, a time, a Decimal or a UUID.
    Object,
}

/// The whole text as JSON, if it is a list or dict; `None` if it is not, or if JSON cannot express it. Bytes become
/// base64, as in arguments of calls.
#[must_use]
pub fn json_of_repr(text: &str) -> Option<Value> {
    read(text)?.into_json()
}

/// The whole text as a literal, if it is a list or dict.
pub(super) fn read(text: &str) -> Option<Literal> {
    let text = text.trim_matches(SPACE);
    if !text.starts_with(['[', '{']) || !text.ends_with([']', '}']) || text.chars().nth(CHARS_MAX).is_some() {
        return None;
    }
    let mut reader = Reader { rest: text.chars().peekable() };
    let value = reader.value(0)?;
    (reader.rest.next().is_none() && matches!(value, Literal::List(_) | Literal::Dict(_))).then_some(value)
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
/// Characters that must be escaped between quotes.
const ESCAPED: [char; 3] = ['\r', '\n', '\0'];

impl Literal {
    fn into_json(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => Value::Bool(truth),
            Self::Int(digits) => Value::Number(serde_json::from_str(&digits).ok()?),
            Self::Float(number) => Value::Number(serde_json::Number::from_f64(number)?),
            Self::Str(text) => Value::String(text),
            Self::Bytes(bytes) => Value::String(STANDARD.encode(bytes)),
            Self::Object => return None,
            Self::List(items) | Self::Tuple(items) => {
                Value::Array(items.into_iter().map(Self::into_json).collect::<Option<_>>()?)
            }
            Self::Dict(members) => {
                let member = |(key, value): (Self, Self)| match key {
                    Self::Str(key) => Some((key, value.into_json()?)),
                    _ => None,
                };
                Value::Object(members.into_iter().map(member).collect::<Option<Map<_, _>>>()?)
            }
        })
    }

    /// Whether Python accepts it as the key of a dict.
    fn is_hashable(&self) -> bool {
        match self {
            Self::List(_) | Self::Dict(_) => false,
            Self::Tuple(items) => items.iter().all(Self::is_hashable),
            _ => true,
        }
    }
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Option<Literal> {
        self.skip_space();
        let first = *self.rest.peek()?;
        if matches!(first, '[' | '(' | '{') && depth >= DEPTH_MAX {
            return None;
        }
        match first {
            '[' => self.items(']', depth + 1).map(|(items, _)| Literal::List(items)),
            '(' => match self.items(')', depth + 1)? {
                (mut items, false) if items.len() == 1 => items.pop(),
                (items, _) => Some(Literal::Tuple(items)),
            },
            '{' => self.members(depth + 1).map(Literal::Dict),
            '\'' | '"' => self.text().map(Literal::Str),
            '-' | '0'..='9' => self.number_or_infinity(),
            _ => self.word_or_prefixed_text(depth),
        }
    }

    /// The items up to the closing bracket, and whether a comma follows the last.
    fn items(&mut self, closing: char, depth: usize) -> Option<(Vec<Literal>, bool)> {
        self.rest.next();
        let mut items = Vec::new();
        while !self.takes(closing) {
            items.push(self.value(depth)?);
            if !self.takes(',') {
                return self.takes(closing).then_some((items, false));
            }
        }
        let has_comma = !items.is_empty();
        Some((items, has_comma))
    }

    fn members(&mut self, depth: usize) -> Option<Vec<(Literal, Literal)>> {
        self.rest.next();
        let mut members = Vec::new();
        while !self.takes('}') {
            let key = self.value(depth).filter(Literal::is_hashable)?;
            if !self.takes(':') {
                return None;
            }
            members.push((key, self.value(depth)?));
            if !self.takes(',') {
                return self.takes('}').then_some(members);
            }
        }
        Some(members)
    }

    fn word_or_prefixed_text(&mut self, depth: usize) -> Option<Literal> {
        let mut word = String::new();
        while let Some(letter) = self.rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
            word.push(letter);
        }
        while self.rest.peek() == Some(&'.') {
            word.extend(self.rest.next());
            while let Some(letter) = self.rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                word.push(letter);
            }
        }
        let is_text = matches!(self.rest.peek(), Some('\'' | '"'));
        if self.rest.peek() == Some(&'(') {
            return self.made(&word, depth);
        }
        match word.as_str() {
            "nan" => Some(Literal::Float(f64::NAN)),
            "inf" => Some(Literal::Float(f64::INFINITY)),
            "datetime.timezone.utc" => Some(Literal::Object),
            "None" => Some(Literal::Null),
            "True" => Some(Literal::Bool(true)),
            "False" => Some(Literal::Bool(false)),
            "u" if is_text => self.text().map(Literal::Str),
            "b" if is_text => self.bytes(),
            _ => None,
        }
    }

    fn number_or_infinity(&mut self) -> Option<Literal> {
        let mut rest = self.rest.clone();
        if "-inf".chars().all(|c| rest.next_if_eq(&c).is_some())
            && !rest.peek().is_some_and(|c| c.is_alphanumeric())
        {
            self.rest = rest;
            return Some(Literal::Float(f64::NEG_INFINITY));
        }
        self.number()
    }

    /// The value that a constructor makes. Whether its arguments are possible ones is not checked.
    fn made(&mut self, maker: &str, depth: usize) -> Option<Literal> {
        let number = maker
            .strip_prefix("np.")
            .map(|kind| kind.trim_start_matches('u').trim_end_matches(char::is_numeric));
        if depth >= DEPTH_MAX || (number.is_none() && !MAKERS.contains(&maker)) {
            return None;
        }
        self.rest.next();
        let mut first = None;
        while !self.takes(')') {
            self.skip_space();
            for word in KEYWORDS {
                let mut rest = self.rest.clone();
                if word.chars().all(|c| rest.next_if_eq(&c).is_some()) {
                    self.rest = rest;
                    break;
                }
            }
            let value = self.value(depth + 1)?;
            first.get_or_insert(value);
            if !self.takes(',') && self.rest.peek() != Some(&')') {
                return None;
            }
        }
        match (number, first) {
            (None, _) => Some(Literal::Object),
            (Some("float"), Some(number @ Literal::Float(_))) => Some(number),
            (Some("int"), Some(number @ Literal::Int(_))) => Some(number),
            (Some("str_"), Some(text @ Literal::Str(_))) => Some(text),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Literal> {
        let mut number = String::new();
        let is_part = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '.');
        while let Some(c) = self.rest.next_if(|c| {
            is_part(c)
                || *c == '-' && number.is_empty()
                || matches!(c, '+' | '-') && number.ends_with(['e', 'E'])
        }) {
            number.push(c);
        }
        let digits = number.strip_prefix('-').unwrap_or(&number);
        let whole = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let is_whole = whole == 1 || whole > 1 && !digits.starts_with('0');
        if !is_whole || digits.ends_with(['e', 'E', '+', '-', '_']) || digits.contains('_') {
            return None;
        }
        if whole == digits.len() {
            return (whole <= DIGITS_MAX).then_some(Literal::Int(number));
        }
        // Rust accepts the same numbers as Python here, since the text begins with a digit: `1.`, `1.5`, `1e9`.
        number.parse().ok().map(Literal::Float)
    }

    /// The text between two quotes, with its escapes replaced.
    fn text(&mut self) -> Option<String> {
        let quote = self.rest.next()?;
        let mut text = String::new();
        loop {
            text.push(match self.rest.next()? {
                c if ESCAPED.contains(&c) => return None,
                '\\' => self.escaped(true)?,
                c if c == quote => return Some(text),
                c => c,
            });
        }
    }

    fn bytes(&mut self) -> Option<Literal> {
        let quote = self.rest.next()?;
        let mut bytes = Vec::new();
        loop {
            let c = match self.rest.next()? {
                '\\' => self.escaped(false)?,
                c if c == quote => return Some(Literal::Bytes(bytes)),
                c if c.is_ascii() && !ESCAPED.contains(&c) => c,
                _ => return None,
            };
            bytes.push(u8::try_from(u32::from(c)).ok()?);
        }
    }

    /// The character that an escape stands for. Half of a surrogate pair becomes the replacement character.
    fn escaped(&mut self, is_text: bool) -> Option<char> {
        let digits = match self.rest.next()? {
            c @ ('\\' | '\'' | '"') => return Some(c),
            'a' => return Some('\x07'),
            'b' => return Some('\x08'),
            'f' => return Some('\x0c'),
            'n' => return Some('\n'),
            'r' => return Some('\r'),
            't' => return Some('\t'),
            'v' => return Some('\x0b'),
            first @ '0'..='7' => {
                let mut value = first.to_digit(8)?;
                for _ in 0..2 {
                    let Some(digit) = self.rest.next_if(|c| c.is_digit(8)) else { break };
                    value = value * 8 + digit.to_digit(8)?;
                }
                return char::from_u32(value);
            }
            'x' => 2,
            'u' if is_text => 4,
            'U' if is_text => 8,
            _ => return None,
        };
        let mut value: u32 = 0;
        for _ in 0..digits {
            value = value.checked_mul(16)? + self.rest.next()?.to_digit(16)?;
        }
        match value {
            0xd800..=0xdfff => Some(char::REPLACEMENT_CHARACTER),
            _ => char::from_u32(value),
        }
    }

    fn takes(&mut self, mark: char) -> bool {
        self.skip_space();
        self.rest.next_if_eq(&mark).is_some()
    }

    fn skip_space(&mut self) {
        while self.rest.next_if(|c| SPACE.contains(c)).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_repr_writes_is_read() {
        for (text, value) in [
            ("[]", json!([])),
            (" [1, -2, 1.5e-07, True, False, None,]\n", json!([1, -2, 1.5e-7, true, false, null])),
            (
                "[{'name': 'orders', \"it's\": ('a', (1,), (1), ())}]",
                json!([{"name": "orders", "it's": ["a", [1], 1, []]}]),
            ),
            (
                r"{'a': '\\ \' \n \x41 \u20ac \U0001f600 \101 €', 'b': u'x'}",
                json!({"a": "\\ ' \n A € 😀 A €", "b": "x"}),
            ),
            (r"[b'\x00\xff a']", json!(["AP8gYQ=="])),
        ] {
            assert_eq!(json_of_repr(text), Some(value), "{text}");
        }
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(json_of_repr(&deep(DEPTH_MAX)).is_some());
        assert_eq!(json_of_repr(&deep(DEPTH_MAX + 1)), None);
        assert!(matches!(read("{1: 'a', (1, 'x'): 2}"), Some(Literal::Dict(members)) if members.len() == 2));
    }

    #[test]
    fn values_of_databases_are_read_and_have_no_json() {
        for text in [
            "[(datetime.date(2025, 1, 1),)]",
            "[datetime.datetime(2025, 1, 1, tzinfo=datetime.timezone.utc)]",
            "[datetime.timedelta(days=1, seconds=2)]",
            "[{'a': Decimal('1.50'), 'b': UUID('00000000-0000-0000-0000-000000000007')}]",
            "[nan, inf, -inf]",
        ] {
            assert!(read(text).is_some() && json_of_repr(text).is_none(), "{text}");
        }
        assert_eq!(
            json_of_repr("[np.float64(1.5), np.int64(3), np.uint8(4), np.str_('x')]"),
            Some(json!([1.5, 3, 4, "x"]))
        );
    }

    #[test]
    fn anything_else_is_text() {
        for text in [
            "",
            "[x]",
            "{1, 2}",
            "(1, 2)",
            "'a'",
            "[1 2]",
            "[1,,2]",
            "[,]",
            "{,}",
            "{'a'}",
            "{'a':}",
            "{[]: 1}",
            "{([],): 1}",
            "[1]]",
            "[1] [2]",
            "[f()]",
            "['a",
            "['a]",
            "[01]",
            "[1_0]",
            "[1+2]",
            "[1.2.3]",
            "[1e]",
            "[--1]",
            r"['\q']",
            r"[b'\u0041']",
            "[b'€']",
            "['a\nb']",
            "['a\rb']",
            "['a\0b']",
            "[b'a\rb']",
            "[b'a\0b']",
            "['a\\\rb']",
            "['a' 'b']",
            "[Truex]",
            "[nano]",
            "[date(2025, 1, 1)]",
            "[Decimal]",
            "[Decimal('1']",
            "[datetime.date.today()]",
            "[datetime.timedelta(weeks=1)]",
            "[r'a']",
            r"['\x4']",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(&format!("[{}]", "9".repeat(DIGITS_MAX + 1))), None);
        assert_eq!(read(&format!("[{}]", "1,".repeat(CHARS_MAX / 2))), None);
    }
}
